"""Flash, RAM and instructions per inference of the firmware, for every int8 test model.

    python benchmarks/firmware_figures.py [--board mps2-an386]... [--model kws01]...

QEMU runs the firmware in the package, and counts the instructions with `-icount shift=0`. The count
is not a latency, and does not depend on the load of this machine. Firmware of the AN386 with the
kernels in plain C is not in the package; it is built for this benchmark (arm-none-eabi-gcc). Flash
and RAM are those of the generated model; the table also has the size of the .tflite file, and the
least arena with which TensorFlow Lite Micro runs the model.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
from contextlib import closing
from importlib.resources import files
from pathlib import Path

from common import claim, claims_table, machine, parse, report, table

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))
from support.cmsis_nn import CMSIS_NN, SUM_LIMITS
from support.firmware_process import built
from support.reference_kernels import model_files

from edgebench.firmware_bridge.board import Board
from edgebench.firmware_bridge.board_fit import firmware_memory
from edgebench.firmware_bridge.driver import BLOB_ADDRESS
from edgebench.firmware_bridge.exchange import BoardTiming
from edgebench.firmware_bridge.generate import LINKED_MEMORY, ModelBlob, generate
from edgebench.firmware_bridge.transports.qemu import (
    QEMU_MACHINES,
    QemuBoard,
    QemuSetup,
    qemu_version,
)

ELVES = files("edgebench.firmware_bridge") / "elf"
PATIENT = BoardTiming(answer_s=60.0, resync_s=(60.0,) * 3, quiet_s=0.05, frame_s=20.0)
SHORT_MODELS = ("kws01",)
TFLM_ARENA_MAX_BYTES = 4 << 20
TFLM_CODE = "127 to 169 kB"
"""Code size of TensorFlow Lite Micro with the keyword model's operators, without the model: with
reference kernels, and with CMSIS-NN. Measured on the AN386 when the firmware was designed; no
benchmark in this folder measures it."""
PORTABLE_M4 = "mps2-an386-portable"
FIRMWARE = sorted([*QEMU_MACHINES, PORTABLE_M4])
BARS = {"mps2-an385": 11.0, PORTABLE_M4: 11.0} | {
    board: ratio * sum(CMSIS_NN[board]["kws01"]) / 1e6 for board, ratio in SUM_LIMITS.items()
}
"""Maps each firmware to its limit for an inference of the keyword model, million instructions.
firmware_operators.py compares single operators with CMSIS-NN."""


def tflm_arena_bytes(data: bytes) -> int | None:
    """Least arena with which TensorFlow Lite Micro runs a model on this machine, by bisection.

    None if an arena of `TFLM_ARENA_MAX_BYTES` is not enough.
    """
    from tflite_micro import runtime

    def is_enough(arena_bytes: int) -> bool:
        try:
            runtime.Interpreter.from_bytes(data, arena_size=arena_bytes).invoke()
        except RuntimeError:
            return False
        return True

    too_small, enough = 0, TFLM_ARENA_MAX_BYTES
    if not is_enough(enough):
        return None
    while enough - too_small > 1:
        middle = (too_small + enough) // 2
        too_small, enough = (too_small, middle) if is_enough(middle) else (middle, enough)
    return enough


def elf_of(firmware: str) -> Path:
    """Path of the firmware in the package, or of firmware that is built for this benchmark."""
    if firmware == PORTABLE_M4:
        return built(firmware, "arm-none-eabi-gcc")
    return Path(str(ELVES / f"{firmware}.elf"))


def instructions(firmware: str, blob: ModelBlob) -> float:
    """Instructions of an inference on a random input, in millions."""
    board = firmware.removesuffix("-portable")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.blob"
        path.write_bytes(blob.data)
        setup = QemuSetup(
            machine=QEMU_MACHINES[board],
            firmware=elf_of(firmware),
            blob=path,
            blob_address=BLOB_ADDRESS[board],
            shift=0,
        )
        with closing(Board(QemuBoard(setup), timing=PATIENT)) as opened:
            opened.connect()
            opened.load_input(random.Random(0).randbytes(blob.input_bytes))
            timed = opened.window(1).inferences
    assert timed is not None
    assert timed.ticks[0] is not None
    return timed.ticks[0] * 1000 / timed.tick_rate_hz


def main() -> None:
    """Measure, and print the tables of docs/firmware.md."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--board", action="append", choices=FIRMWARE)
    parser.add_argument("--model", action="append", choices=model_files())
    options = parse(parser)
    began = machine()
    boards = options.board or (list(FIRMWARE)[:1] if options.smoke else FIRMWARE)
    is_short = options.short or options.smoke
    names = options.model or (SHORT_MODELS if is_short else list(model_files()))
    counts, memory, claims = [], [], []
    for name in names:
        path = model_files()[name]
        data = path.read_bytes()
        blob = generate(data, model_id=name)
        there = (len(data), tflm_arena_bytes(data) or "–")
        memory.append([name, *map(str, (blob.flash_bytes, blob.ram_bytes, *there))])
        plain = generate(data, model_id=name, input_encoding="int8")  # as the agent's seats do
        found = {board: instructions(board, plain) for board in boards}
        counts.append(
            [name, *(f"{one:.2f}" if one >= 0.01 else "< 0.01" for one in found.values())]
        )
        if name == "kws01":
            claims += [
                claim(
                    f"{name} on {board}, 10^6 instructions",
                    f"{found[board]:.2f}",
                    f"≤ {bar:.2f}",
                    found[board] <= bar,
                )
                for board, bar in BARS.items()
                if board in found
            ]
    headers = ["model", "flash, bytes", "RAM, bytes", ".tflite, bytes", "TFLM arena, bytes"]
    own = [[board, *map(str, firmware_memory(board)[:2])] for board in LINKED_MEMORY]
    lines = [
        *(table(headers, memory), ""),
        *(table(["firmware", "flash, bytes", "RAM, bytes"], own), ""),
        *(f"Code of TensorFlow Lite Micro: {TFLM_CODE}.", ""),
        *(table(["10^6 instructions", *boards], counts), ""),
        claims_table(claims),
    ]
    report(f"Firmware, QEMU {qemu_version()}", lines, began)


if __name__ == "__main__":
    main()
