#!/usr/bin/env python3
"""Compares the firmware's outputs with those of reference kernels, byte by byte.

    python tests/system/firmware_exactness.py [--inputs 60] [--rounding tflm] [MODEL ...]

LiteRT's, or TensorFlow Lite Micro's for the other variant of rounding. On this machine, with the
kernels in plain C; firmware_on_qemu.py does the same on emulated boards.
"""

from __future__ import annotations

import argparse
import sys
from importlib.metadata import version
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from support.firmware_process import Line, built, run_inference, running
from support.reference_kernels import REFERENCES, Reference, as_sent, inputs, model_files

from edgebench.firmware_bridge.generate import ModelBlob, generate

KERNELS = {
    "litert": ("ai-edge-litert", "LiteRT {} BUILTIN_REF"),
    "tflm": ("tflite-micro", "TensorFlow Lite Micro {}"),
}


def differing(line: Line, blob: ModelBlob, data: bytes, options: argparse.Namespace) -> list[bool]:
    """Whether the outputs for each of these inputs differ from the reference's."""
    details, reference = Reference(data).input, REFERENCES[options.rounding](data)
    scale, zero_point = details["quantization"]
    shape = tuple(int(size) for size in details["shape"])
    return [
        run_inference(line, as_sent(values, blob.input_encoding, scale, zero_point))
        != reference.outputs(values)
        for values in inputs(shape, options.inputs, options.seed)
    ]


def main() -> int:
    parser = argparse.ArgumentParser(description="compare the firmware with reference kernels")
    parser.add_argument("models", nargs="*", choices=[*model_files(), []], metavar="MODEL")
    parser.add_argument("--inputs", type=int, default=60)
    parser.add_argument("--rounding", choices=REFERENCES, default="litert")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    binary = built("posix", "gcc")
    package, title = KERNELS[options.rounding]
    print(f"{title.format(version(package))}, {options.inputs} inputs each")
    total = 0
    for name, path in model_files().items():
        if options.models and name not in options.models:
            continue
        data = path.read_bytes()
        blob = generate(data, model_id=name, rounding=options.rounding)
        with running(binary) as line:
            line.load_model(blob.data)
            wrong = sum(differing(line, blob, data, options))
        sizes = f"flash {blob.flash_bytes}, RAM {blob.ram_bytes}"
        print(f"{name}: {wrong} of {options.inputs} differ ({sizes})", flush=True)
        total += wrong
    return 1 if total else 0


if __name__ == "__main__":
    sys.exit(main())
