"""Outputs that are lists and dictionaries, as arrays."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from edgebench.agent.runtimes.onnx_values import as_tensor

FLOATS = np.array([[1.5, 2.5]], np.float32)


@pytest.mark.parametrize(
    ("value", "expected", "kind"),
    [
        (FLOATS, [[1.5, 2.5]], "f"),
        ([{7: 0.5, 0: 0.25}, {0: 1.0, 7: 0.0}], [0.25, 0.5, 1.0, 0.0], "f"),
        ({"b": 1, "a": 2}, [2, 1], "i"),
        ([FLOATS, np.array([3], np.int64)], [1.5, 2.5, 3.0], "f"),
        ([["x"], FLOATS], ["x", 1.5, 2.5], "O"),
        ([], [], "f"),
        (None, [], "f"),
    ],
)
def test_values_are_in_one_fixed_order(value: Any, expected: list[Any], kind: str) -> None:
    """Otherwise two runs of a model would list their classes in different orders, and disagree."""
    found = as_tensor(value)
    assert (found.tolist(), found.dtype.kind) == (expected, kind)
