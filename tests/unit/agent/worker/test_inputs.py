"""Input data: the same for the same seed, and within what a type and a worker can hold."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from edgebench.agent.worker import inputs
from edgebench.agent.worker.inputs import (
    are_finite,
    arrange,
    clipped_ratio,
    make_inputs,
    make_samples,
    read_inputs,
    refuse_misfit,
)
from edgebench.protocol.errors import (
    DatasetRefused,
    InputsRefused,
    MeasurementError,
    ModelRefused,
)
from edgebench.protocol.record import TensorSpec
from edgebench.protocol.sizes import format_bytes

MEMORY_BYTES = 2**20
NUMBERS = ["int8", "uint8", "int16", "int32", "int64", "float16", "float32", "float64", "bool"]


@given(
    dtype=st.sampled_from([*NUMBERS, "complex64"]),
    shape=st.lists(st.integers(0, 9), max_size=4).map(tuple),
    seed=st.integers(0, 2**63 - 1),
)
def test_same_seed_gives_the_same_bytes(dtype: str, shape: tuple[int, ...], seed: int) -> None:
    """Otherwise two devices would silently measure different inputs."""
    specs = [TensorSpec("in", shape, dtype)]
    (first,), (second,) = (make_inputs(specs, seed=seed, memory_bytes=MEMORY_BYTES) for _ in "ab")
    assert first.tobytes() == second.tobytes()
    assert (first.shape, first.dtype) == (shape, np.dtype(dtype))


def test_other_seed_gives_other_bytes() -> None:
    """Otherwise the seed would do nothing."""
    specs = [TensorSpec("in", (100,), "float32")]
    (first,), (second,) = (make_inputs(specs, seed=i, memory_bytes=MEMORY_BYTES) for i in (1, 2))
    assert first.tobytes() != second.tobytes()


def test_values_stay_in_the_range_that_models_expect() -> None:
    """Otherwise indices would be out of range, or 8-bit inputs would never reach their ends."""
    specs = [TensorSpec("x", (10_000,), dtype) for dtype in ("float32", "int8", "int64")]
    floats, bytes_, indices = make_inputs(specs, seed=0, memory_bytes=MEMORY_BYTES)
    assert 0 <= floats.min() < 0.01 < 0.99 < floats.max() < 1
    assert (bytes_.min(), bytes_.max()) == (-128, 127)
    assert set(indices.tolist()) == {0, 1}


def test_integers_are_safe_for_what_their_input_is() -> None:
    """Otherwise a token would exceed a vocabulary, all be masked, or a sequence have no length."""
    specs = [
        TensorSpec("input_ids", (1, 64), "int64"),
        TensorSpec("attention_mask", (1, 64), "int64"),
        TensorSpec("length", (1,), "int32"),
        TensorSpec("rate", (), "int64"),
        TensorSpec("audio", (1, 1000), "int16", 0.01, 0),
        TensorSpec("flags", (1, 4), "bool"),
    ]
    tokens, mask, length, rate, audio, flags = make_inputs(specs, seed=0, memory_bytes=MEMORY_BYTES)
    assert set(tokens.ravel().tolist()) == {0, 1}
    assert mask.all()
    assert (length.tolist(), rate.tolist()) == ([1], 1)
    assert audio.min() < -30_000 < 30_000 < audio.max()
    assert not flags.any()


@pytest.mark.parametrize("dtype", ["object", "str", "bytes_"])
def test_text_inputs_are_empty_texts(dtype: str) -> None:
    """Otherwise a model that takes text could not be run at all."""
    (made,) = make_inputs([TensorSpec("t", (2, 3), dtype)], seed=0, memory_bytes=MEMORY_BYTES)
    assert made.tolist() == [[""] * 3] * 2


@pytest.mark.parametrize("shape", [(1, 200_000, 200_000), (2**62, 2**62), (MEMORY_BYTES,)])
def test_input_larger_than_the_worker_is_refused_before_it_is_made(shape: tuple[int, ...]) -> None:
    """Otherwise an input of 149 GiB would be allocated."""
    with pytest.raises(ModelRefused, match=f"limit {format_bytes(MEMORY_BYTES)}$"):
        make_inputs([TensorSpec("x", shape, "float32")], seed=0, memory_bytes=MEMORY_BYTES)


@pytest.mark.parametrize("dtype", ["seq(tensor(float))", "bfloat16", "variant", "no such type"])
def test_unknown_type_is_refused_with_its_name(dtype: str) -> None:
    """Otherwise a type that numpy does not have would end in a traceback."""
    with pytest.raises(ModelRefused, match="unknown type"):
        make_inputs([TensorSpec("x", (1,), dtype)], seed=0, memory_bytes=MEMORY_BYTES)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_one_bad_number_among_many_is_found(bad: float) -> None:
    """Otherwise a model whose output is NaN would be measured as if it worked."""
    fine = np.ones((3, 3), np.float32)
    wrong = fine.copy()
    wrong[2, 1] = bad
    assert are_finite([fine, np.array([1], np.int8), np.array(["x"], object)])
    assert not are_finite([fine, wrong])
    assert not are_finite([np.array([complex(0, bad)], np.complex64)])
    assert are_finite([])


IMAGE = [TensorSpec("in", (1, 8, 8, 3), "float32")]


@pytest.mark.parametrize("count", [1, 2, 16])
def test_samples_are_as_many_as_asked_for_and_all_different(count: int) -> None:
    """Otherwise the latency would be that of a single input that the device's caches know."""
    made = make_samples(IMAGE, count=count, seed=5, memory_bytes=MEMORY_BYTES)
    assert len({sample[0].tobytes() for sample in made}) == len(made) == count


def test_first_sample_is_the_one_that_the_seed_has_always_given() -> None:
    """Otherwise the output digests of older runs could no longer be compared."""
    made = make_samples(IMAGE, count=3, seed=5, memory_bytes=MEMORY_BYTES)
    (alone,) = make_inputs(IMAGE, seed=5, memory_bytes=MEMORY_BYTES)
    assert np.array_equal(made[0][0], alone)


def test_same_seed_gives_the_same_samples() -> None:
    """Otherwise two devices would measure different samples, with incomparable outputs."""
    first, again, other = (
        make_samples(IMAGE, count=4, seed=seed, memory_bytes=MEMORY_BYTES) for seed in (1, 1, 2)
    )
    assert [s[0].tobytes() for s in first] == [s[0].tobytes() for s in again]
    assert not {s[0].tobytes() for s in first} & {s[0].tobytes() for s in other}
    more = make_samples(IMAGE, count=8, seed=1, memory_bytes=MEMORY_BYTES)
    assert [s[0].tobytes() for s in more[:4]] == [s[0].tobytes() for s in first]


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
@pytest.mark.parametrize(
    ("shape", "inputs", "error"),
    [
        ((5, 8, 8, 3), IMAGE, None),
        ((5, 3, 8, 8), IMAGE, r"shape \[3, 8, 8\], the model takes \[8, 8, 3\] after its batch"),
        ((5, 8, 8, 3), [TensorSpec("in", (1, 3, 8, 8), "float32")], None),
        ((5, 12, 16), IMAGE, r"shape \[12, 16\]"),
        ((5, 192), IMAGE, None),
        ((5, 8, 8, 1), IMAGE, r"shape \[8, 8, 1\], the model takes \[8, 8, 3\] after its batch"),
        ((5,), IMAGE, r"shape \[\], the model takes"),
        ((5, 8, 8, 3), IMAGE * 2, "a data set requires a model with 1 input, got 2"),
    ],
)
def test_data_set_that_cannot_fit_is_refused_by_its_head(
    tmp_path: Path, save: Any, shape: tuple[int, ...], inputs: list[TensorSpec], error: str | None
) -> None:
    """Otherwise a run of a minute would be measured before the data set's shape is checked."""
    path = tmp_path / "set.npz"
    save(path, x=np.zeros(shape, np.float32), y=np.zeros(5))
    if error is None:
        refuse_misfit(str(path), inputs)
    else:
        with pytest.raises(ModelRefused, match=error):
            refuse_misfit(str(path), inputs)


QUANTISED = TensorSpec("in", (1, 4), "int8", scale=1 / 256, zero_point=-128)
"""An input of 0 to 1, as that of a quantised classifier of images."""
REAL, TOKENS = TensorSpec("in", (1, 4), "float32"), TensorSpec("ids", (1, 4), "int32")


@pytest.mark.parametrize(
    ("spec", "x", "error"),
    [
        (REAL, np.zeros((5, 4), np.int8), "are int8, but input 'in' takes real values, such"),
        (REAL, np.zeros((5, 4), np.uint8), "are uint8, but input 'in' takes real values"),
        (QUANTISED, np.zeros((5, 4), np.int8), "are int8, but input 'in' takes real values"),
        (REAL, np.zeros((5, 4), np.int16), None),
        (REAL, np.zeros((5, 4), np.float16), None),
        (TOKENS, np.zeros((5, 4), np.uint8), None),
        (QUANTISED, np.linspace(0, 1, 20).reshape(5, 4), None),
        (
            QUANTISED,
            np.linspace(-128, 127, 20).reshape(5, 4),
            r"are -128 to 127; input 'in' represents 0 to 0.9961 and clips 100.00 % of the values",
        ),
        (TOKENS, np.full((5, 4), 0.5), "are not int32 numbers, and the input has no scale"),
        (
            TensorSpec("in", (1, 4), "object"),
            np.zeros((5, 4)),
            "are numbers, .* takes text",
        ),
    ],
)
def test_values_that_are_not_what_the_input_takes_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, spec: TensorSpec, x: Any, error: str | None
) -> None:
    """Otherwise quantised samples would pass where real ones are due.

    The accuracy would silently be 0.906 instead of 0.986.
    """
    monkeypatch.setattr(inputs, "_BLOCK_VALUES", 3)  # several blocks, and one that is not full
    np.savez(tmp_path / "set.npz", x=x, y=np.zeros(5))
    if error is None:
        assert refuse_misfit(str(tmp_path / "set.npz"), [spec]) == 5
    else:
        with pytest.raises(DatasetRefused, match=error):
            refuse_misfit(str(tmp_path / "set.npz"), [spec])


@pytest.mark.parametrize(("mebibytes", "expected"), [(4, 16), (8, 8), (40, 1), (100, 1)])
def test_of_large_inputs_there_are_fewer(mebibytes: int, expected: int) -> None:
    """Otherwise sixteen inputs of 100 MiB would be the end of a small device."""
    specs = [TensorSpec("in", (mebibytes, 2**20), "uint8")]
    made = make_samples(specs, count=16, seed=0, memory_bytes=2**30)
    assert len(made) == expected


X, N = TensorSpec("x", (1, 4), "float32"), TensorSpec("n", (), "int64")


def given_samples(
    specs: list[TensorSpec], count: int = 16, **given: NDArray[Any]
) -> list[list[NDArray[Any]]]:
    """Samples of the given inputs, and of those that are drawn."""
    return make_samples(specs, given, count=count, seed=0, memory_bytes=MEMORY_BYTES)


def test_given_inputs_are_the_samples_in_their_order() -> None:
    """Otherwise the user's inputs would be measured in part, twice, or not at all."""
    values = np.arange(12, dtype=np.float32).reshape(3, 1, 4)
    made = given_samples([X], x=values)
    assert [sample[0].tolist() for sample in made] == values.tolist()
    assert len(given_samples([X], count=2, x=values)) == 2


def test_inputs_that_were_not_given_are_drawn() -> None:
    """Otherwise a user would have to make up all inputs of a model to set one sampling rate."""
    made = given_samples([X, N], n=np.array([16_000, 8_000]))
    assert [sample[1].tolist() for sample in made] == [16_000, 8_000]
    drawn = make_samples([X, N], count=2, seed=0, memory_bytes=MEMORY_BYTES)
    assert all(np.array_equal(a[0], b[0]) for a, b in zip(made, drawn, strict=True))


@pytest.mark.parametrize(
    ("spec", "values", "expected"),
    [
        (X, np.ones((1, 4)), [[1.0] * 4]),
        (X, np.ones((1, 1, 4), np.uint8), [[1.0] * 4]),
        (TensorSpec("x", (1, 2), "int8", 0.5, 10), np.array([[3, -3]], np.int8), [[3, -3]]),
        (TensorSpec("x", (1, 2), "int8", 0.5, 10), np.array([[1.0, -1.0]]), [[12, 8]]),
        (TensorSpec("x", (1, 2), "int64"), np.array([[7, 9]], np.int32), [[7, 9]]),
        (TensorSpec("x", (1, 2), "object"), np.array([["a", "bc"]]), [["a", "bc"]]),
        (TensorSpec("x", (1, 3, 1, 2), "float32"), np.ones((1, 1, 2, 3)), [[[[1, 1]]] * 3]),
    ],
)
def test_given_values_become_those_of_the_input(
    spec: TensorSpec, values: NDArray[Any], expected: object
) -> None:
    """Otherwise quantised numbers would be quantised again, or real numbers cut to integers."""
    ((sample,),) = given_samples([spec], x=values)
    assert sample.tolist() == expected
    assert sample.dtype == np.dtype(spec.dtype)


@pytest.mark.parametrize(
    ("spec", "values"),
    [
        (X, np.ones((1, 5))),
        (X, np.array([["a", "b", "c", "d"]])),
        (TensorSpec("x", (1, 2), "int64"), np.array([[0.5, 1.0]])),
    ],
)
def test_given_values_that_do_not_fit_are_refused_with_both_forms(
    spec: TensorSpec, values: NDArray[Any]
) -> None:
    """Otherwise inputs of another model would be cut to size."""
    form = rf"'x' is {spec.dtype} \{list(spec.shape)}, not {values.dtype} \{list(values.shape[1:])}"
    with pytest.raises(InputsRefused, match=form):
        given_samples([spec], x=values)


Q = TensorSpec("x", (1, 100), "uint8", 1 / 256, 0)
"""An input of 8 bits that holds 0 to 255/256."""


@pytest.mark.parametrize(
    ("beyond", "ratio"),
    [([], 0.0), ([1.0], 0.0), ([1.01], 0.005), ([-0.01, 2.0], 0.01)],
)
def test_values_that_a_quantised_input_clips_are_counted(beyond: list[float], ratio: float) -> None:
    """Otherwise an input other than the given one would silently be measured."""
    values = np.full((2, 1, 100), 0.5)
    values.flat[: len(beyond)] = beyond
    assert clipped_ratio([Q], {"x": values}, count=2) == ratio


def test_inputs_that_were_scaled_for_another_model_are_refused() -> None:
    """Otherwise images of 0 to 255 would become all white, and the model be measured on that."""
    values = np.linspace(0, 255, 200, dtype=np.float32).reshape(2, 1, 100)
    said = (
        r"'x' represents 0 to 0.9961 and clips 9\d.\d\d % of the given values, "
        r"which are 0 to 255; limit 1 %"
    )
    with pytest.raises(InputsRefused, match=said):
        clipped_ratio([X, Q], {"x": values}, count=2)
    assert clipped_ratio([Q], {"x": values / 256}, count=2) == 0.0


@pytest.mark.parametrize(
    ("spec", "values"),
    [
        (Q, np.full((2, 1, 100), 255, np.uint8)),
        (X, np.full((2, 1, 4), 1e9)),
        (TensorSpec("x", (1, 1), "int64"), np.array([[[9]]])),
        (TensorSpec("y", (1, 100), "int8", 0.5, 0), np.full((2, 1, 100), 1e9)),
    ],
    ids=["own type", "float", "whole number", "another input"],
)
def test_values_that_are_not_quantised_are_not_counted(
    spec: TensorSpec, values: NDArray[Any]
) -> None:
    """Otherwise numbers of an input's own type would be called clipped."""
    assert clipped_ratio([spec], {"x": values}, count=2) is None


def test_only_samples_that_are_used_count() -> None:
    """Otherwise a file would be refused for samples that are never run."""
    values = np.full((3, 1, 100), 0.5)
    values[2] = 7
    assert clipped_ratio([Q], {"x": values}, count=2) == 0.0


def test_file_of_inputs_is_read_by_names_and_runs_nothing(tmp_path: Path) -> None:
    """Otherwise an array of pickled objects would run on the device."""
    good, bad, plain = tmp_path / "good.npz", tmp_path / "bad.npz", tmp_path / "plain.npz"
    np.savez(good, **dict[str, Any]({"serving_default_x:0": np.ones((2, 3))}))
    assert read_inputs(str(good))["serving_default_x:0"].shape == (2, 3)
    np.savez(bad, x=np.array([{}], object))
    np.savez(plain, x=np.array(1.0))
    for path in (bad, plain, tmp_path / "none.npz"):
        with pytest.raises(InputsRefused, match=r"^inputs "):
            read_inputs(str(path))


def test_samples_of_a_model_without_inputs_are_empty() -> None:
    """Otherwise there would be a division by the size of a model that takes nothing."""
    assert make_samples([], count=3, seed=0, memory_bytes=MEMORY_BYTES) == [[], [], []]


def test_image_of_a_data_set_becomes_channels_first_where_the_model_wants_it() -> None:
    """Otherwise a model in the other layout would get a scrambled image of the right shape."""
    image = np.arange(4 * 5 * 3, dtype=np.float64).reshape(4, 5, 3)
    first = arrange(image, TensorSpec("in", (1, 3, 4, 5), "float32"))
    assert (first.shape, first.dtype.name) == ((1, 3, 4, 5), "float32")
    assert np.array_equal(first[0], image.transpose(2, 0, 1))
    last = arrange(image, TensorSpec("in", (1, 4, 5, 3), "float32"))
    assert np.array_equal(last[0], image)
    assert first.flags.c_contiguous
    flat = arrange(image, TensorSpec("in", (1, 60), "float32"))
    assert np.array_equal(flat[0], image.ravel())


def test_image_that_fits_both_layouts_is_taken_as_it_is() -> None:
    """Otherwise a 3×3 image of 3 channels would be turned around."""
    image = np.arange(27.0).reshape(3, 3, 3)
    assert np.array_equal(arrange(image, TensorSpec("in", (1, 3, 3, 3), "float32"))[0], image)


@pytest.mark.parametrize(
    ("dtype", "zero_point", "values", "expected"),
    [
        ("int8", -3, [0.0, 0.25, 0.374, 0.376, -0.25], [-3, -2, -2, -1, -4]),
        ("int8", -3, [1e6, -1e6, np.float64(31.0)], [127, -128, 121]),
        ("uint8", 128, [0.0, -32.0, 31.75, 99.0, -99.0], [128, 0, 255, 255, 0]),
        ("int8", None, [0.125, 0.375, -0.125], [0, 2, 0]),
    ],
)
def test_real_values_become_numbers_of_a_quantised_input(
    dtype: str, zero_point: int | None, values: list[float], expected: list[int]
) -> None:
    """Otherwise values would be cut instead of rounded, or wrap around at the ends.

    Halves go to the even number.
    """
    spec = TensorSpec("in", (1, len(values)), dtype, 0.25, zero_point)
    made = arrange(np.array(values), spec)
    assert made.tolist() == [expected]
    assert made.dtype == np.dtype(dtype)


def test_real_input_is_not_quantised() -> None:
    """Otherwise a float input that comes with a scale would be divided."""
    spec = TensorSpec("in", (1, 2), "float32", 0.5, 3)
    assert arrange(np.array([0.25, 1.0]), spec).tolist() == [[0.25, 1.0]]
    raw = TensorSpec("in", (1, 2), "uint8")
    assert arrange(np.array([7.0, 255.0]), raw).tolist() == [[7, 255]]


@pytest.mark.parametrize("shape", [(8, 8), (1, 8, 8, 4), (0,), ()])
def test_sample_of_the_wrong_size_is_refused_with_both_shapes(shape: tuple[int, ...]) -> None:
    """Otherwise a data set for another model would be used with half of each image."""
    with pytest.raises(
        MeasurementError, match=r"have shape .*, the model takes \[8, 8, 3\] after its batch"
    ):
        arrange(np.zeros(shape), IMAGE[0])
