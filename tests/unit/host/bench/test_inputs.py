"""Files of inputs: any other file is refused before anything is measured."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from edgebench.host.bench.inputs import open_inputs
from edgebench.host.bench.request import new_request
from edgebench.protocol.errors import UsageError

Arrays = dict[str, NDArray[Any]]


def saved(folder: Path, arrays: Arrays) -> Path:
    """Return a file of these arrays."""
    path = folder / "x.npz"
    np.savez(path, **dict[str, Any](arrays))
    return path


def test_inputs_are_part_of_the_request(tmp_path: Path) -> None:
    """Otherwise the device would draw inputs, or use some of the user's."""
    path = saved(tmp_path, {"input_1": np.zeros((5, 8, 8, 1), np.float32)})
    request = new_request(["digits_int8.tflite"], inputs=path)
    assert request.inputs is not None
    assert (request.inputs.name, request.inputs.sample_count) == ("x.npz", 5)
    assert request.spec.inputs_sha256 == hashlib.sha256(path.read_bytes()).hexdigest()
    assert request.spec.sample_count == 5


@pytest.mark.parametrize(
    ("arrays", "said"),
    [
        ({}, "got no array"),
        ({"x": np.array(1.0)}, r"x has shape \[\]"),
        ({"x": np.zeros((0, 4))}, r"x has shape \[0, 4\]"),
        ({"x": np.zeros((2, 4)), "y": np.zeros((3, 4))}, "same number of samples, got x 2, y 3"),
        ({"x": np.array([[np.nan]])}, "x has NaN"),
        ({"x": np.ones((2, 4), np.complex128)}, "must be numbers, x has complex128"),
        ({"x": np.zeros((2, 4), "datetime64[s]")}, "must be numbers, x has datetime64"),
        ({"x": np.array([{}], object)}, "not a .npz file of numbers"),
        ({"ids": np.zeros((4, 1, 64))}, r"ids=1x128 contradicts .* shape \[1, 64\]"),
    ],
)
def test_what_is_no_file_of_inputs_is_refused(tmp_path: Path, arrays: Arrays, said: str) -> None:
    """Otherwise a minute would be measured on something other than the user meant."""
    path = saved(tmp_path, arrays)
    with pytest.raises(UsageError, match=said):
        open_inputs(path, {"ids": (1, 128)})


@pytest.mark.parametrize("content", [None, b"", b"PK", b"x,y"])
def test_file_that_is_not_there_or_not_readable_is_named(
    tmp_path: Path, content: bytes | None
) -> None:
    """Otherwise a wrong path would end in a traceback."""
    path = tmp_path / "x.npz"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(UsageError, match=r"x\.npz$"):
        open_inputs(path, {})
