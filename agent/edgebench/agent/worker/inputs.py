"""Input data of a model: given by the user, or drawn at random in the range of the input's type."""

from __future__ import annotations

import math
import zipfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import IO, TYPE_CHECKING, Any

import numpy as np

from edgebench.agent.runtimes.text import library_line
from edgebench.protocol.errors import (
    DatasetRefused,
    InputsRefused,
    MeasurementError,
    ModelRefused,
    SamplesClipped,
    SampleShapeRefused,
    SampleTypeRefused,
)
from edgebench.protocol.percent import format_percent
from edgebench.protocol.record import TensorSpec
from edgebench.protocol.sizes import format_distinct_sizes

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from edgebench.protocol.runtime import Tensor


MAX_SAMPLES_BYTES = 64 * 2**20
"""Maximum memory for all prepared samples; for large inputs, fewer samples are prepared."""
CLIPPED_LIMIT_RATIO = 0.01
"""A quantised input may clip at most this share of its given values. If the share is larger, the
given values evidently have another range than the input, such as images of 0 to 255 for an input of
0 to 1.

A calibration by percentiles clips at most 0.1 % of the calibration data. Source: Wu et al., Integer
Quantization for Deep Learning Inference (2020), 3.3 and table 5: percentiles 99.9 to 99.9999.
"""
_TEXT_TYPES = ("object", "str", "string", "bytes_", "str_")
_BLOCK_VALUES = 1 << 18
"""Number of values of a data set that are processed at once; as 64-bit numbers they take 2 MiB."""


def read_inputs(path: str) -> dict[str, Tensor]:
    """Read a file that maps input names to arrays; the first axis of each array counts samples.

    Raises:
        InputsRefused: the file cannot be read, or an array has no samples.
    """
    try:
        with np.load(path, allow_pickle=False) as file:
            arrays: dict[str, Tensor] = dict(file)
    except Exception as exc:  # zipfile and numpy raise a dozen kinds, MemoryError among them
        raise InputsRefused(f"inputs are unreadable: {library_line(exc)}") from exc
    if not arrays or any(array.ndim < 1 or not len(array) for array in arrays.values()):
        raise InputsRefused("inputs must be arrays with the samples along the first axis")
    return arrays


def make_samples(
    specs: Sequence[TensorSpec],
    given: Mapping[str, Tensor] = MappingProxyType({}),
    *,
    count: int,
    seed: int,
    memory_bytes: int,
) -> list[list[Tensor]]:
    """Up to `count` samples, at least one; the same arguments give the same bytes.

    Args:
        specs: The inputs of the model.
        given: Arrays by input name; the first axis counts the samples, and limits their number.
            Values of the other inputs are drawn at random.
        count: Largest number of samples.
        seed: Seed of the drawn values.
        memory_bytes: Limit on the size of an input.

    Raises:
        InputsRefused: the given values do not fit an input.
        ModelRefused: an input is larger than the worker's memory, or of an unknown type.
    """

    def make(number: int) -> list[Tensor]:
        drawn = make_inputs(
            specs, seed=[seed, number] if number else seed, memory_bytes=memory_bytes
        )
        return [
            _given(given[spec.name][number], spec) if spec.name in given else tensor
            for spec, tensor in zip(specs, drawn, strict=True)
        ]

    first = make(0)
    size = max(1, sum(tensor.nbytes for tensor in first))
    count = min([count, max(1, MAX_SAMPLES_BYTES // size), *map(len, given.values())])
    return [first, *map(make, range(1, count))]


def clipped_ratio(
    specs: Sequence[TensorSpec], given: Mapping[str, Tensor], *, count: int
) -> float | None:
    """Share of the given values that a quantised input clips; the largest share of all inputs.

    Args:
        specs: The inputs of the model.
        given: Arrays by input name; the first axis counts the samples.
        count: Number of samples that are used, from the first.

    Returns:
        The share, 0…1; None if no given values were quantised.

    Raises:
        InputsRefused: the share is above the limit.
    """
    ratios: list[float] = []
    for spec in specs:
        values = given.get(spec.name, np.empty(0))[:count]
        if spec.scale is None or not values.size or values.dtype == np.dtype(spec.dtype):
            continue
        clipped_count = sum(_clipped_count(value, spec) for value in values)
        ratio = clipped_count / values.size
        if ratio > CLIPPED_LIMIT_RATIO:
            text = (
                f"{_range_text(spec)} and clips {format_percent(ratio, 2)} of the given "
                f"values, which are {float(values.min()):.4g} to {float(values.max()):.4g}; "
                f"limit {format_percent(CLIPPED_LIMIT_RATIO)}"
            )
            raise InputsRefused(library_line(text))
        ratios.append(ratio)
    return max(ratios, default=None)


def make_inputs(
    specs: Sequence[TensorSpec], *, seed: int | Sequence[int], memory_bytes: int
) -> list[Tensor]:
    """A tensor for each input; the same seed gives the same bytes.

    Floats are uniform in [0, 1); 8-bit integers and quantised inputs are uniform over their range.
    Other integers are mostly indices, so small values are used:

    - in a list, 0 or 1, because every vocabulary and every table of segments contains these
      indices;
    - for a single value, 1, because the value may be a length;
    - in a mask, 1, so that nothing is masked.

    Raises:
        ModelRefused: an input is larger than the worker's memory, or of an unknown type.
    """
    random = np.random.default_rng(seed)
    return [_make(spec, random, memory_bytes) for spec in specs]


def _make(spec: TensorSpec, random: np.random.Generator, memory_bytes: int) -> Tensor:
    if spec.dtype in _TEXT_TYPES:
        return np.full(spec.shape, "", dtype=object)
    try:
        dtype = np.dtype("float32" if spec.dtype == "float" else spec.dtype)
    except TypeError as exc:
        raise ModelRefused(f"input {spec.name!r} has the unknown type {spec.dtype!r}") from exc
    size_bytes = dtype.itemsize
    for size in spec.shape:
        size_bytes *= size
    if size_bytes > memory_bytes:
        takes, limit = format_distinct_sizes(size_bytes, memory_bytes)
        raise ModelRefused(
            f"input {spec.name!r} {list(spec.shape)} {dtype} takes {takes}, limit {limit}"
        )
    if dtype.kind in "fc":
        return random.random(spec.shape).astype(dtype)
    if dtype.kind not in "iu":
        return np.zeros(spec.shape, dtype)
    if dtype.itemsize == 1 or spec.scale is not None:
        bounds = np.iinfo(dtype)
        return random.integers(bounds.min, bounds.max, spec.shape, dtype=dtype, endpoint=True)
    if size_bytes == dtype.itemsize or "mask" in spec.name.lower():
        return np.ones(spec.shape, dtype)
    return random.integers(0, 2, spec.shape, dtype=dtype)


def _given(value: Tensor, spec: TensorSpec) -> Tensor:
    """A given sample, converted to the shape and type of the input."""
    value = np.asarray(value)
    try:
        if spec.dtype == "object":
            texts: Tensor = _laid_out(value, spec.shape).astype(object, order="C")
            return texts
        if value.dtype == np.dtype(spec.dtype):
            return _laid_out(value, spec.shape).copy()
        return arrange(value, spec)
    except (MeasurementError, TypeError, ValueError) as exc:
        text = f"input {spec.name!r} is {spec.dtype} {list(spec.shape)}, not {value.dtype} "
        raise InputsRefused(library_line(f"{text}{list(value.shape)}")) from exc


def dataset_order(sample_count: int, wanted_count: int | None, *, seed: int) -> NDArray[np.int64]:
    """Order in which the samples of a data set are run, determined by the seed.

    The order is random because most files are sorted by label. If the run is interrupted, the
    samples before the interruption are then still representative of the data set.

    Args:
        sample_count: Number of samples in the data set.
        wanted_count: Largest number of samples to run; None: all.
        seed: Seed of the order.
    """
    return np.random.default_rng(seed).permutation(sample_count)[:wanted_count]


def refuse_misfit(path: str, specs: Sequence[TensorSpec]) -> int:
    """Check a data set before the measurement; returns the number of its samples.

    Shape and type are read from the header of the file. The values are read only if the input is
    quantised or takes integers, because clipped or inexact values would distort the accuracy.

    Raises:
        DatasetRefused: the samples do not fit the model's input.
        OSError: the file cannot be read.
    """
    if len(specs) != 1:
        raise DatasetRefused(f"a data set requires a model with 1 input, got {len(specs)}")
    (spec,) = specs
    form: Any = np.lib.format
    with zipfile.ZipFile(path) as archive, archive.open("x.npy") as file:
        is_first = form.read_magic(file) == (1, 0)
        read = form.read_array_header_1_0 if is_first else form.read_array_header_2_0
        shape, _, dtype = read(file)
        if not _fits(shape[1:], spec.shape):
            raise SampleShapeRefused(_misfit(shape[1:], spec.shape))
        _refuse_type(dtype, spec)
        if spec.scale is not None:
            _refuse_clipped(_blocks(file, dtype), spec)
        elif np.dtype(spec.dtype).kind != "f":
            try:
                for values in _blocks(file, dtype):
                    _exact(values, spec)
            except MeasurementError as exc:
                raise DatasetRefused(str(exc)) from exc
    return int(shape[0])


def _refuse_type(dtype: np.dtype[Any], spec: TensorSpec) -> None:
    """Refuse 8-bit integers for an input of real values; such integers are usually quantised.

    Wider integers are accepted as plain numbers. An input of text refuses all data.
    """
    if spec.dtype in _TEXT_TYPES:
        raise DatasetRefused(f"samples of the data set are numbers, input {spec.name!r} takes text")
    is_real = spec.scale is not None or np.dtype(spec.dtype).kind == "f"
    if is_real and dtype.kind in "iu" and dtype.itemsize == 1:
        raise SampleTypeRefused(
            f"samples of the data set are {dtype.name}, but input {spec.name!r} takes real values, "
            "such as float32; convert the samples by (number - zero point) * scale, or to float if "
            "they are unquantised"
        )


def _blocks(file: IO[bytes], dtype: np.dtype[Any]) -> Iterator[Tensor]:
    """Read the values after the header of an array, as flat blocks of at most `_BLOCK_VALUES`."""
    while block := file.read(_BLOCK_VALUES * dtype.itemsize):
        yield np.frombuffer(block, dtype)


def _refuse_clipped(blocks: Iterable[Tensor], spec: TensorSpec) -> None:
    """Refuse the values of a data set if the input clips too many of them."""
    count = clipped_count = 0
    low, high = math.inf, -math.inf
    for values in blocks:
        count += values.size
        clipped_count += _clipped_count(values, spec)
        low, high = min(low, float(values.min())), max(high, float(values.max()))
    ratio = clipped_count / max(1, count)
    if ratio > CLIPPED_LIMIT_RATIO:
        text = f"samples of the data set are {low:.4g} to {high:.4g}; {_range_text(spec)} and "
        limit = format_percent(CLIPPED_LIMIT_RATIO)
        text += f"clips {format_percent(ratio, 2)} of the values, limit {limit}"
        raise SamplesClipped(library_line(text))


def _clipped_count(values: Tensor, spec: TensorSpec) -> int:
    """Number of real values beyond the range of a quantised input."""
    numbers, bounds = _quantised(values, spec), np.iinfo(spec.dtype)
    # The ends of a range are often one step off: an 8-bit input with scale 1/256 has no 1.0.
    return int(np.count_nonzero((numbers < bounds.min - 1) | (numbers > bounds.max + 1)))


def _range_text(spec: TensorSpec) -> str:
    bounds = np.iinfo(spec.dtype)
    assert spec.scale is not None
    first, last = (spec.scale * (n - (spec.zero_point or 0)) for n in (bounds.min, bounds.max))
    return f"input {spec.name!r} represents {first:.4g} to {last:.4g}"


def _fits(shape: tuple[int, ...], wanted: tuple[int, ...]) -> bool:
    """Whether shapes are equal, ignoring axes of length 1, flattening and channels-first order."""
    plain, model = ([size for size in dimensions if size != 1] for dimensions in (shape, wanted))
    is_flat = min(len(plain), len(model)) == 1 and math.prod(plain) == math.prod(model)
    return plain == model or is_flat or [*plain[-1:], *plain[:-1]] == model


def _misfit(shape: tuple[int, ...], wanted: tuple[int, ...]) -> str:
    is_batch = len(wanted) > 1 and wanted[0] == 1
    takes = f"{list(wanted[1:])} after its batch dimension" if is_batch else f"{list(wanted)}"
    return f"samples of the data set have shape {list(shape)}, the model takes {takes}"


def arrange(value: Tensor, spec: TensorSpec) -> Tensor:
    """A sample of a data set, converted to the layout and the type of the model's input.

    Images of a data set have their channels last, and are transposed for a model with channels
    first. For a quantised input, real values are converted with the input's scale and zero point.

    Raises:
        MeasurementError: the sample does not fit into the input.
    """
    value = _laid_out(value, spec.shape)
    dtype = np.dtype(spec.dtype)
    if dtype.kind == "f":
        return value.astype(dtype, order="C")
    if spec.scale is None:
        return _exact(value, spec)
    bounds = np.iinfo(dtype)
    numbers = np.clip(_quantised(value, spec), bounds.min, bounds.max)
    quantised: Tensor = numbers.astype(dtype, order="C")
    return quantised


def _exact(value: Tensor, spec: TensorSpec) -> Tensor:
    """Numbers, converted to the input's integer type without a change of value.

    Raises:
        MeasurementError: a value is not an integer, or does not fit the input's type.
    """
    exact = value.astype(spec.dtype, order="C")
    if not np.array_equal(exact, value):
        raise MeasurementError(
            f"samples of the data set are not {spec.dtype} numbers, and the input has no scale"
        )
    return exact


def _quantised(value: Tensor, spec: TensorSpec) -> NDArray[np.float64]:
    """Real values, quantised to whole numbers that may be beyond the range of the input's type."""
    assert spec.scale is not None
    numbers: NDArray[np.float64] = np.rint(value.astype(np.float64) / spec.scale)
    return numbers + (spec.zero_point or 0)


def _laid_out(value: Tensor, shape: tuple[int, ...]) -> Tensor:
    if value.ndim == 3 and value.shape != shape[1:]:
        channels_first = value.transpose(2, 0, 1)
        value = channels_first if channels_first.shape == shape[1:] else value
    if not _fits(value.shape, shape):
        raise MeasurementError(_misfit(value.shape, shape))
    return value.reshape(shape)


def are_finite(tensors: Sequence[Tensor]) -> bool:
    """Whether no tensor contains NaN or infinity."""
    floats = [tensor for tensor in tensors if tensor.dtype.kind in "fc"]
    return all(bool(np.isfinite(tensor).all()) for tensor in floats)
