#!/usr/bin/env python3
"""Compares the firmware's outputs with those of reference kernels, byte by byte.

    python tests/system/firmware_exactness.py [--inputs 60] [--rounding tflm] [MODEL ...]

LiteRT's, or TensorFlow Lite Micro's for the other variant of rounding. On this machine, with the
kernels in plain C; firmware_on_qemu.py does the same on emulated boards. The models are those of
MLPerf Tiny and of the suite, and those that people run on microcontrollers (shared/models/boards).
A model with variables has ten inferences for each input, and its reference is loaded anew.
Exits with 1 if outputs differ, or a model of the suite is not compared.
"""

from __future__ import annotations

import argparse
import sys
from importlib.metadata import version
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from support.firmware_process import Line, built, running
from support.reference_kernels import (
    CRASHES,
    REFERENCES,
    board_files,
    expected,
    model_files,
    samples,
)

from edgebench.firmware_bridge.generate import ModelBlob, generate
from edgebench.protocol.errors import ModelRefused

KERNELS = {
    "litert": ("ai-edge-litert", "LiteRT {} BUILTIN_REF"),
    "tflm": ("tflite-micro", "TensorFlow Lite Micro {}"),
}
LARGE_BYTES, LARGE_COUNT = 1 << 20, 8
"""Output from which on a model has fewer inputs: a line takes long to carry it."""
STATEFUL_COUNT = 10
"""Inferences on each input of a model with variables."""


def prepared(
    name: str, data: bytes, options: argparse.Namespace
) -> tuple[ModelBlob, list[tuple[bytes, list[bytes]]]]:
    """A model's blob, and inputs with the outputs of the reference.

    Raises:
        ModelRefused: the firmware does not run the model.
        RuntimeError: the reference kernels do not run it.
        ValueError: they do not load it.
    """
    blob = generate(data, model_id=name[:31], rounding=options.rounding)
    count = min(options.inputs, LARGE_COUNT) if blob.output_bytes > LARGE_BYTES else options.inputs
    times = STATEFUL_COUNT if blob.is_stateful else 1
    drawn = samples(name, data, blob, count, options.seed)
    return blob, expected(data, drawn, options.rounding, blob, times)


def differing(line: Line, pairs: list[tuple[bytes, list[bytes]]]) -> list[bool]:
    """Whether the outputs of each inference differ from the reference's."""
    found: list[bool] = []
    for sent, outputs in pairs:
        line.load_input(sent)
        for output in outputs:
            line.command("infer 1 0")
            found.append(line.outputs() != output)
    return found


def main() -> int:
    files = {**model_files(), **board_files()}
    parser = argparse.ArgumentParser(description="compare the firmware with reference kernels")
    parser.add_argument("models", nargs="*", choices=[*files, []], metavar="MODEL")
    parser.add_argument("--inputs", type=int, default=60)
    parser.add_argument("--rounding", choices=REFERENCES, default="litert")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    binary = built("posix", "gcc")
    package, title = KERNELS[options.rounding]
    print(f"{title.format(version(package))}, {options.inputs} inputs each")
    model_count, total, wrong_total, is_missed = 0, 0, 0, False
    for name, path in files.items():
        is_chosen = not options.models or name in options.models
        if not is_chosen or name in CRASHES[options.rounding]:
            continue
        try:
            blob, pairs = prepared(name, path.read_bytes(), options)
        except (ModelRefused, RuntimeError, ValueError) as error:
            print(f"{name}: not compared: {str(error).splitlines()[0]}", flush=True)
            is_missed |= name in model_files()
            continue
        with running(binary) as line:
            line.load_model(blob.data)
            found = differing(line, pairs)
        sizes = f"flash {blob.flash_bytes}, RAM {blob.ram_bytes}"
        print(f"{name}: {sum(found)} of {len(found)} differ ({sizes})", flush=True)
        model_count, total, wrong_total = (
            model_count + 1,
            total + len(found),
            wrong_total + sum(found),
        )
    print(f"{model_count} models: {wrong_total} of {total} differ")
    return 1 if wrong_total or is_missed or not total else 0


if __name__ == "__main__":
    sys.exit(main())
