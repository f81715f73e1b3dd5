"""Input data: the same for the same seed, and within what a type and a worker can hold."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgebench.agent.worker.inputs import are_finite, make_inputs
from edgebench.protocol.errors import ModelRefused
from edgebench.protocol.record import TensorSpec

MEMORY_BYTES = 2**20
NUMBERS = ["int8", "uint8", "int16", "int32", "int64", "float16", "float32", "float64", "bool"]


@given(
    dtype=st.sampled_from([*NUMBERS, "complex64"]),
    shape=st.lists(st.integers(0, 9), max_size=4).map(tuple),
    seed=st.integers(0, 2**63 - 1),
)
def test_same_seed_gives_the_same_bytes(dtype: str, shape: tuple[int, ...], seed: int) -> None:
    """Two devices measure different inputs and nobody knows."""
    specs = [TensorSpec("in", shape, dtype)]
    (first,), (second,) = (make_inputs(specs, seed=seed, memory_bytes=MEMORY_BYTES) for _ in "ab")
    assert first.tobytes() == second.tobytes()
    assert (first.shape, first.dtype) == (shape, np.dtype(dtype))


def test_other_seed_gives_other_bytes() -> None:
    """The seed does nothing."""
    specs = [TensorSpec("in", (100,), "float32")]
    (first,), (second,) = (make_inputs(specs, seed=i, memory_bytes=MEMORY_BYTES) for i in (1, 2))
    assert first.tobytes() != second.tobytes()


def test_values_stay_in_the_range_that_models_expect() -> None:
    """Indices are out of range, or 8-bit inputs never reach their ends."""
    specs = [TensorSpec("x", (10_000,), dtype) for dtype in ("float32", "int8", "int64")]
    floats, bytes_, indices = make_inputs(specs, seed=0, memory_bytes=MEMORY_BYTES)
    assert 0 <= floats.min() < 0.01 < 0.99 < floats.max() < 1
    assert (bytes_.min(), bytes_.max()) == (-128, 127)
    assert not indices.any()


@pytest.mark.parametrize("dtype", ["object", "str", "bytes_"])
def test_text_inputs_are_empty_texts(dtype: str) -> None:
    """A model that takes text cannot be run at all."""
    (made,) = make_inputs([TensorSpec("t", (2, 3), dtype)], seed=0, memory_bytes=MEMORY_BYTES)
    assert made.tolist() == [[""] * 3] * 2


@pytest.mark.parametrize("shape", [(1, 200_000, 200_000), (2**62, 2**62), (MEMORY_BYTES,)])
def test_input_larger_than_the_worker_is_refused_before_it_is_made(shape: tuple[int, ...]) -> None:
    """An input of 149 GiB is allocated."""
    with pytest.raises(ModelRefused, match=f"limit {MEMORY_BYTES}"):
        make_inputs([TensorSpec("x", shape, "float32")], seed=0, memory_bytes=MEMORY_BYTES)


@pytest.mark.parametrize("dtype", ["seq(tensor(float))", "bfloat16", "variant", "no such type"])
def test_unknown_type_is_refused_with_its_name(dtype: str) -> None:
    """A type that numpy does not have ends in a traceback."""
    with pytest.raises(ModelRefused, match="unknown type"):
        make_inputs([TensorSpec("x", (1,), dtype)], seed=0, memory_bytes=MEMORY_BYTES)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_one_bad_number_among_many_is_found(bad: float) -> None:
    """A model that answers NaN is measured as if it worked."""
    fine = np.ones((3, 3), np.float32)
    wrong = fine.copy()
    wrong[2, 1] = bad
    assert are_finite([fine, np.array([1], np.int8), np.array(["x"], object)])
    assert not are_finite([fine, wrong])
    assert not are_finite([np.array([complex(0, bad)], np.complex64)])
    assert are_finite([])
