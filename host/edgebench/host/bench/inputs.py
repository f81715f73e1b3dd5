"""The user's inputs for a model, given with `--inputs`.

The file is a .npz file with an array for each input of the model, under the name of the input. The
first axis of each array is the index of the sample. Inputs that are not in the file are drawn at
random on the device.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from edgebench.host.arrays import read_array_file
from edgebench.protocol.errors import UsageError
from edgebench.protocol.spec import shape_text
from edgebench.protocol.text import printable

_NEED = "inputs need an array for each model input, with the samples along its first axis"


@dataclass(frozen=True, slots=True)
class InputFile:
    """A checked file of inputs on the host."""

    name: str
    path: Path
    sha256: str
    size_bytes: int
    sample_count: int


def open_inputs(path: Path, shapes: dict[str, tuple[int, ...]]) -> InputFile:
    """Read and check a file of inputs.

    Raises:
        UsageError: the file does not exist, does not contain inputs, or contradicts `shapes`.
    """
    file = read_array_file(path, "input file")
    arrays = file.arrays
    if not arrays:
        raise UsageError(f"{_NEED}, got no array: {path}")
    for name, array in arrays.items():
        if array.ndim < 1 or not array.size:
            raise UsageError(f"{_NEED}; {name[:40]} has shape {list(array.shape)}: {path}")
        if array.dtype.kind not in "biufU":
            raise UsageError(f"inputs must be numbers, {name[:40]} has {array.dtype}: {path}")
        if array.dtype.kind == "f" and not np.isfinite(array).all():
            raise UsageError(f"inputs must be finite, {name[:40]} has NaN or infinity: {path}")
        chosen, sample = shapes.get(name), array.shape[1:]
        if chosen is not None and _without_ones(chosen) != _without_ones(sample):
            raise UsageError(
                f"--shape {name}={shape_text(chosen)} contradicts the inputs: samples of {name} "
                f"have shape {list(sample)}: {path}"
            )
    counts = {name: len(array) for name, array in arrays.items()}
    if len(set(counts.values())) > 1:
        listed = ", ".join(f"{name[:40]} {count}" for name, count in counts.items())
        raise UsageError(f"inputs need the same number of samples, got {listed}: {path}")
    sample_count = next(iter(counts.values()))
    return InputFile(printable(path.name), path, file.sha256, file.size_bytes, sample_count)


def _without_ones(shape: tuple[int, ...]) -> list[int]:
    return [size for size in shape if size != 1]
