"""Instructions of each operator on QEMU's boards, compared with CMSIS-NN.

    python benchmarks/firmware_operators.py [--board mps3-an547]... [--model kws01]...

The kernels of `core/` are compiled with a small program (`counting/`) in place of `device/`; it
runs each operator of a model separately. QEMU counts the instructions with `-icount shift=0`. The
count has a resolution of 10, and does not depend on the load of this machine. The CRC of each
operator's outputs is compared with the CRC of the outputs of the kernels in plain C, for the same
random input. The script exits with 1 if outputs differ, or if a limit is exceeded.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from common import claim, claims_table, machine, parse, report, table

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))
from support.cmsis_nn import CMSIS_NN, OPERATOR_LIMITS, SUM_LIMITS
from support.firmware_process import built
from support.reference_kernels import model_files

from edgebench.firmware_bridge.blob import BlobKind
from edgebench.firmware_bridge.driver import BLOB_ADDRESS
from edgebench.firmware_bridge.generate import generate
from edgebench.firmware_bridge.transports.qemu import qemu_version
from edgebench.protocol.errors import TargetError

PLAIN = "mps2-an386-portable"
"""Firmware with the kernels in plain C. Tests compile these kernels for this machine, and compare
their outputs with LiteRT's."""
COUNTED = ("mps2-an385", "mps2-an386", PLAIN, "mps2-an500", "mps3-an547")
FIELD_COUNT = 4
"""Number of fields in a line that operator_counts.c prints. The fields are the number of the
operator, its kind, its instructions, and the CRC-32 of its output."""


@dataclass(frozen=True, slots=True)
class OperatorCount:
    """An operator of a model on a board."""

    kind: BlobKind
    instruction_count: int
    output_crc: int


def counts(firmware: str, blob: Path) -> list[OperatorCount]:
    """Count the instructions of each operator of a model.

    Raises:
        TargetError: the firmware refuses the model, or stops while it runs the model.
    """
    elf = built(f"{firmware}-operators", "arm-none-eabi-gcc")
    board = firmware.removesuffix("-portable")
    loader = f"loader,file={blob},addr={BLOB_ADDRESS[board]:#x},force-raw=on"
    command = ["qemu-system-arm", "-M", board, "-nographic", "-monitor", "none", "-serial", "stdio"]
    command += ["-icount", "shift=0,sleep=off", "-kernel", str(elf), "-device", loader]
    words: list[str] = []
    lines: list[list[str]] = []
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
    try:
        assert process.stdout is not None
        for line in process.stdout:
            if len(words := line.decode().split()) != FIELD_COUNT:
                break
            lines.append(words)
    finally:
        process.kill()
        process.wait()
    if words != ["end"] or not lines:
        raise TargetError(f"{firmware} does not run the model {blob.stem}")
    return [OperatorCount(BlobKind(int(kind)), int(n), int(crc)) for _, kind, n, crc in lines]


def compared(
    firmware: str, model: str, operators: list[OperatorCount]
) -> tuple[list[list[str]], list[list[str]]]:
    """Rows of the table of operators, and claims about them."""
    counted = [operator.instruction_count for operator in operators]
    names = [operator.kind.name.lower() for operator in operators]
    limits = CMSIS_NN.get(firmware, {}).get(model)
    rows = [
        [firmware, model, *row]
        for row in zip(
            [*map(str, range(len(counted))), "sum"],
            [*names, ""],
            [f"{count:,}" for count in (*counted, sum(counted))],
            strict=True,
        )
    ]
    if limits is None:
        return [[*row, "–", "–"] for row in rows], []
    references = [*limits, sum(limits)]
    ratios = [
        count / reference
        for count, reference in zip((*counted, sum(counted)), references, strict=True)
    ]
    rows = [
        [*row, f"{reference:,}", f"{ratio:.2f}"]
        for row, reference, ratio in zip(rows, references, ratios, strict=True)
    ]
    title = f"{model} on {firmware}, instructions / CMSIS-NN"
    bars = [("sum", ratios[-1], SUM_LIMITS[firmware])]
    if firmware in OPERATOR_LIMITS:
        bars.append(("largest of an operator", max(ratios[:-1]), OPERATOR_LIMITS[firmware]))
    return rows, [
        claim(f"{title}, {text}", f"{ratio:.2f}", f"≤ {bar:g}", ratio <= bar)
        for text, ratio, bar in bars
    ]


def main() -> int:
    """Count, compare and print; returns 1 if a claim is not met."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--board", action="append", choices=COUNTED)
    parser.add_argument("--model", action="append", choices=model_files())
    options = parse(parser)
    began = machine()
    is_short = options.short or options.smoke
    names = options.model or (["kws01"] if is_short else list(CMSIS_NN["mps3-an547"]))
    boards = options.board or list(SUM_LIMITS)
    rows, claims = [], []
    with tempfile.TemporaryDirectory() as folder:
        for name in names:
            blob = Path(folder) / f"{name}.blob"
            data = model_files()[name].read_bytes()
            blob.write_bytes(generate(data, model_id=name, input_encoding="int8").data)
            expected = counts(PLAIN, blob)
            for board in boards:
                operators = counts(board, blob)
                more_rows, more_claims = compared(board, name, operators)
                rows += more_rows
                claims += more_claims
                wrong = sum(
                    operator.output_crc != plain.output_crc
                    for operator, plain in zip(operators, expected, strict=True)
                )
                title = f"{name} on {board}, operators with other outputs than in plain C"
                claims.append(claim(title, str(wrong), "0", not wrong))
    headers = ["board", "model", "place", "operator", "instructions", "CMSIS-NN", "ratio"]
    report(
        f"Operators, QEMU {qemu_version()}", [table(headers, rows), "", claims_table(claims)], began
    )
    return int(any(row[-1] == "missed" for row in claims))


if __name__ == "__main__":
    sys.exit(main())
