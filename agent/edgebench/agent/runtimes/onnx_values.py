"""Converts outputs of ONNX models that are lists or dictionaries, as in models of scikit-learn.

The library returns such outputs as Python objects, also while inferences are timed. For the checks,
each of these outputs is converted to a tensor of one dimension with all its values in order.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from edgebench.protocol.runtime import Tensor

TENSOR = "tensor("
"""Prefix of the type name of an output that is a tensor."""


def as_tensor(value: Any) -> Tensor:
    """Convert an output to a tensor; the values of a dictionary are in the order of its keys.

    If some of the values are texts, the elements of the tensor are Python objects.
    """
    import numpy as np  # only here: the daemon imports the drivers without numpy

    if isinstance(value, np.ndarray):
        return value
    parts = [np.ravel(leaf) for leaf in _leaves(value)]
    if any(part.dtype.kind not in "biuf" for part in parts):
        parts = [part.astype(object) for part in parts]
    return np.concatenate(parts) if parts else np.zeros(0)


def _leaves(value: Any) -> Iterator[Any]:
    if isinstance(value, dict):
        for key in sorted(value):
            yield from _leaves(value[key])
    elif isinstance(value, list):
        for item in value:
            yield from _leaves(item)
    elif value is not None:  # an optional value that is absent
        yield value
