#!/usr/bin/env python3
"""Runs the firmware on QEMU's boards: outputs, instructions, and how steady they are.

    python tests/system/firmware_on_qemu.py [--inputs 3] [--rounding tflm] [--board B] [MODEL ...]

Instructions are those of QEMU with `-icount shift=0`: one for each nanosecond of its virtual time.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from support.firmware_process import built, compiler_of, emulated, run_inference
from support.reference_kernels import CRASHES, REFERENCES, board_files, model_files, samples

from edgebench.firmware_bridge.generate import BOARD_MEMORY, ModelBlob, generate
from edgebench.firmware_bridge.transports.qemu import QEMU_MACHINES
from edgebench.protocol.errors import ModelRefused

VARIANTS = {"mps2-an385-m0plus": "mps2-an385"}
"""Firmware that is not in the package, and the board that runs it."""
BOARDS = [*QEMU_MACHINES, *VARIANTS]
ICOUNT = ("-icount", "shift=0,sleep=off")


def compare(
    board: str,
    elf: Path,
    data: bytes,
    blob: ModelBlob,
    blob_file: Path,
    options: argparse.Namespace,
) -> tuple[int, float]:
    """Inputs whose outputs differ from the reference's, and 10^6 instructions of the last input."""
    reference = REFERENCES[options.rounding](data)
    wrong = 0
    with emulated(board, elf, *ICOUNT, blob=blob_file) as line:
        line.timeout_s = 600
        line.lines()
        info = line.info()
        for sent, values in samples(blob.model_id, data, blob, options.inputs):
            if blob.is_stateful:
                reference = REFERENCES[options.rounding](data)
            wrong += run_inference(line, sent) != reference.outputs(values)
        return wrong, line.durations()[0] * 1000 / int(info["tick_hz"])


def spread(board: str, elf: Path, blob_file: Path) -> list[int]:
    """Ticks of five inferences, each in a fresh process, with an instruction count of 8 ns."""
    ticks: list[int] = []
    for _ in range(5):
        with emulated(board, elf, "-icount", "shift=3,sleep=off", blob=blob_file) as line:
            line.lines()
            line.command("infer 1 1")
            ticks += line.durations()
    return ticks


def main() -> int:
    files = {**model_files(), **board_files()}
    parser = argparse.ArgumentParser(description="run the firmware on QEMU's boards")
    parser.add_argument("models", nargs="*", choices=[*files, []], metavar="MODEL")
    parser.add_argument("--board", action="append", choices=BOARDS)
    parser.add_argument("--inputs", type=int, default=3)
    parser.add_argument("--rounding", choices=REFERENCES, default="litert")
    options = parser.parse_args()
    total = 0
    with tempfile.TemporaryDirectory() as folder:
        for firmware in options.board or QEMU_MACHINES:
            elf, board = built(firmware, compiler_of(firmware)), VARIANTS.get(firmware, firmware)
            fitting: Path | None = None
            for name, path in files.items():
                is_chosen = not options.models or name in options.models
                if not is_chosen or name in CRASHES[options.rounding]:
                    continue
                data = path.read_bytes()
                blob = generate(data, model_id=name[:31], rounding=options.rounding)
                blob_file = Path(folder) / f"{name}.blob"
                blob_file.write_bytes(blob.data)
                try:
                    blob.check_fit(BOARD_MEMORY[board])
                    wrong, millions = compare(board, elf, data, blob, blob_file, options)
                except (ModelRefused, RuntimeError, ValueError) as error:
                    text = str(error).splitlines()[0]
                    print(f"{firmware} {name}: not compared: {text}", flush=True)
                    continue
                fitting = blob_file
                total += wrong
                text = f"{wrong} of {options.inputs} differ, {millions:.2f} M instructions"
                print(f"{firmware} {name}: {text}", flush=True)
            if fitting is None:
                continue
            ticks = spread(board, elf, fitting)
            print(f"{firmware} {fitting.stem}: ticks of five processes {ticks}", flush=True)
            total += max(ticks) - min(ticks) > 2
    return 1 if total else 0


if __name__ == "__main__":
    sys.exit(main())
