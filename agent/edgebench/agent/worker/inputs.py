"""Input data for a model: made from the seed, within what its types allow."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from edgebench.protocol.errors import ModelRefused
from edgebench.protocol.record import TensorSpec

if TYPE_CHECKING:
    from edgebench.protocol.runtime import Tensor


def make_inputs(specs: Sequence[TensorSpec], *, seed: int, memory_bytes: int) -> list[Tensor]:
    """One tensor for each input; the same seed gives the same bytes.

    Floats are uniform in [0, 1), 8-bit integers uniform over their range. Wider integers are
    zero: they are mostly indices, and a random index is out of range.

    Raises:
        ModelRefused: an input is larger than the worker's memory, or of an unknown type.
    """
    random = np.random.default_rng(seed)
    return [_make(spec, random, memory_bytes) for spec in specs]


def _make(spec: TensorSpec, random: np.random.Generator, memory_bytes: int) -> Tensor:
    if spec.dtype in ("object", "str", "string", "bytes_", "str_"):
        return np.full(spec.shape, "", dtype=object)
    try:
        dtype = np.dtype("float32" if spec.dtype == "float" else spec.dtype)
    except TypeError as exc:
        raise ModelRefused(f"input {spec.name!r} has the unknown type {spec.dtype!r}") from exc
    count = 1
    for size in spec.shape:
        count *= size
    if count * dtype.itemsize > memory_bytes:
        raise ModelRefused(
            f"input {spec.name!r} {list(spec.shape)} {dtype} takes {count * dtype.itemsize} bytes, "
            f"limit {memory_bytes}"
        )
    if dtype.kind in "fc":
        return random.random(spec.shape).astype(dtype)
    if dtype.kind in "iu" and dtype.itemsize == 1:
        bounds = np.iinfo(dtype)
        return random.integers(bounds.min, bounds.max, spec.shape, dtype=dtype, endpoint=True)
    return np.zeros(spec.shape, dtype)


def are_finite(tensors: Sequence[Tensor]) -> bool:
    """Whether no tensor holds a NaN or an infinity."""
    floats = [tensor for tensor in tensors if tensor.dtype.kind in "fc"]
    return all(bool(np.isfinite(tensor).all()) for tensor in floats)
