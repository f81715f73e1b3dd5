#!/usr/bin/env python3
"""Compares the firmware's outputs with those of LiteRT's reference kernels, byte by byte.

    python tests/system/firmware_exactness.py [--inputs 60] [MODEL ...]

On this machine, with the kernels in plain C; firmware_on_qemu.py does the same on emulated boards.
"""

from __future__ import annotations

import argparse
import sys
from importlib.metadata import version
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from support.firmware_process import Line, built, run_inference, running
from support.reference_kernels import Reference, as_sent, inputs, model_files

from edgebench.firmware_bridge.generate import ModelBlob, generate


def differing(line: Line, blob: ModelBlob, reference: Reference, count: int, seed: int) -> int:
    """How many of these inputs have outputs that are not the reference's."""
    details = reference.input
    scale, zero_point = details["quantization"]
    shape = tuple(int(size) for size in details["shape"])
    wrong = 0
    for values in inputs(shape, count, seed):
        expected = reference.outputs(values)
        sent = as_sent(values, blob.input_encoding, scale, zero_point)
        wrong += run_inference(line, sent) != expected
    return wrong


def main() -> int:
    parser = argparse.ArgumentParser(description="compare the firmware with LiteRT")
    parser.add_argument("models", nargs="*", choices=[*model_files(), []], metavar="MODEL")
    parser.add_argument("--inputs", type=int, default=60)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    binary = built("posix", "gcc")
    print(f"LiteRT {version('ai-edge-litert')} BUILTIN_REF, {options.inputs} inputs each")
    total = 0
    for name, path in model_files().items():
        if options.models and name not in options.models:
            continue
        blob = generate(path.read_bytes(), model_id=name)
        with running(binary) as line:
            line.load_model(blob.data)
            reference = Reference(path.read_bytes())
            wrong = differing(line, blob, reference, options.inputs, options.seed)
        sizes = f"flash {blob.flash_bytes}, RAM {blob.ram_bytes}"
        print(f"{name}: {wrong} of {options.inputs} differ ({sizes})", flush=True)
        total += wrong
    return 1 if total else 0


if __name__ == "__main__":
    sys.exit(main())
