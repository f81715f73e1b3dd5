#!/usr/bin/env python3
"""Runs the firmware on QEMU's boards: outputs, instructions, and how steady they are.

    python tests/system/firmware_on_qemu.py [--inputs 3] [--rounding tflm] [--board B] [MODEL ...]

Instructions are those of QEMU with `-icount shift=0`: one for each nanosecond of its virtual time.
Exits with 1 if outputs differ, counts are not steady, or a model of the suite is not compared.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from support.firmware_process import built, compiler_of, emulated, run_inference
from support.reference_kernels import (
    CRASHES,
    REFERENCES,
    board_files,
    expected,
    model_files,
    samples,
)

from edgebench.firmware_bridge.generate import BOARD_MEMORY, generate
from edgebench.firmware_bridge.transports.qemu import QEMU_MACHINES
from edgebench.protocol.errors import ModelRefused

VARIANTS = {"mps2-an385-m0plus": "mps2-an385"}
"""Firmware that is not in the package, and the board that runs it."""
BOARDS = [*QEMU_MACHINES, *VARIANTS]
ICOUNT = ("-icount", "shift=0,sleep=off")


def prepared(
    board: str, name: str, data: bytes, blob_file: Path, options: argparse.Namespace
) -> list[tuple[bytes, list[bytes]]]:
    """Write a model's blob; returns inputs with the outputs of the reference.

    Raises:
        ModelRefused: the firmware does not run the model, or it does not fit.
        RuntimeError: the reference kernels do not run it.
        ValueError: they do not load it.
    """
    blob = generate(data, model_id=name[:31], rounding=options.rounding)
    blob.check_fit(BOARD_MEMORY[board])
    blob_file.write_bytes(blob.data)
    drawn = samples(name, data, blob, options.inputs)
    return expected(data, drawn, options.rounding, blob, 1)


def compare(
    board: str, elf: Path, blob_file: Path, pairs: list[tuple[bytes, list[bytes]]]
) -> tuple[int, float]:
    """Inputs whose outputs differ from the reference's, and 10^6 instructions of the last input."""
    wrong = 0
    with emulated(board, elf, *ICOUNT, blob=blob_file) as line:
        line.timeout_s = 600
        line.lines()
        info = line.info()
        for sent, outputs in pairs:
            wrong += [run_inference(line, sent)] != outputs
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
    total, is_missed = 0, False
    with tempfile.TemporaryDirectory() as folder:
        for firmware in options.board or QEMU_MACHINES:
            elf, board = built(firmware, compiler_of(firmware)), VARIANTS.get(firmware, firmware)
            fitting: Path | None = None
            for name, path in files.items():
                is_chosen = not options.models or name in options.models
                if not is_chosen or name in CRASHES[options.rounding]:
                    continue
                blob_file = Path(folder) / f"{name}.blob"
                try:
                    pairs = prepared(board, name, path.read_bytes(), blob_file, options)
                except (ModelRefused, RuntimeError, ValueError) as error:
                    text = str(error).splitlines()[0]
                    print(f"{firmware} {name}: not compared: {text}", flush=True)
                    is_missed |= name in model_files()
                    continue
                wrong, millions = compare(board, elf, blob_file, pairs)
                fitting = blob_file
                total += wrong
                text = f"{wrong} of {options.inputs} differ, {millions:.2f} M instructions"
                print(f"{firmware} {name}: {text}", flush=True)
            if fitting is None:
                is_missed = True
                continue
            ticks = spread(board, elf, fitting)
            print(f"{firmware} {fitting.stem}: ticks of five processes {ticks}", flush=True)
            total += max(ticks) - min(ticks) > 2
    return 1 if total or is_missed else 0


if __name__ == "__main__":
    sys.exit(main())
