"""Translates operators that move elements or resize, such as TRANSPOSE, SLICE and SPLIT.

Each operator becomes strided copies, a selection of rows and columns, or the firmware's bilinear
resize.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from edgebench.firmware_bridge.blob import BlobKind, BlobOperator
from edgebench.firmware_bridge.lowering import Lowering, integers, only_int8, rows_of
from edgebench.firmware_bridge.quantization import float32, rounded
from edgebench.firmware_bridge.tflite import INT8, ModelOperator, ModelTensor, TfliteCode
from edgebench.protocol.errors import BoardModelRefused


def steps_of(shape: Sequence[int]) -> list[int]:
    """Distance between neighbouring elements along each dimension, as a number of elements."""
    return [math.prod(shape[axis + 1 :]) for axis in range(len(shape))]


def copy_at_strides(
    lowering: Lowering, view: int, out: int, first: int, steps: Sequence[int]
) -> None:
    """Append a copy of elements that begin at `first` in the source, at distances of `steps`.

    Args:
        lowering: State of the translation.
        view: Number of the source in the blob.
        out: Number of the destination in the blob.
        first: Index of the first element in the source.
        steps: For each of the last dimensions of `out`, distance to the next element in the source.
    """
    sizes = lowering.tensors[out].shape[4 - len(steps) :]
    parameters = {0: first}
    for axis, (size, step) in enumerate(zip(sizes, steps, strict=True)):
        parameters[5 - len(steps) + axis] = step if size > 1 else 0
    lowering.operators.append(BlobOperator(BlobKind.STRIDED, (view,), out, parameters))


def join_inputs(lowering: Lowering) -> int:
    """Add a tensor for the bytes of all inputs, and operators that copy these bytes to the inputs.

    Returns:
        The number of the added tensor.
    """
    views = [lowering.bytes_view(number) for number in lowering.model.inputs]
    sizes = [lowering.tensors[view].size_bytes for view in views]
    joined = lowering.intermediate(INT8, rows_of(sum(sizes)), 1.0, 0)
    first = 0
    for view, size in zip(views, sizes, strict=True):
        copy_at_strides(lowering, joined, view, first, steps_of(lowering.tensors[view].shape))
        first += size
    return joined


def _same_type(operator: ModelOperator, source: ModelTensor, out: ModelTensor) -> None:
    if source.type != out.type:
        raise BoardModelRefused(f"{operator.name} with output {out.name!r} changes the type")


def transpose(lowering: Lowering, operator: ModelOperator) -> None:
    """Translate TRANSPOSE.

    Raises:
        BoardModelRefused: the order of the dimensions is not constant, or is invalid.
    """
    source, out = lowering.tensor(operator.inputs[0]), lowering.tensor(operator.outputs[0])
    _same_type(operator, source, out)
    order = integers(lowering, operator.inputs[1])
    if sorted(order) != list(range(len(source.shape))):
        raise BoardModelRefused(
            f"{operator.name} with output {out.name!r} has an invalid order {order}"
        )
    if [source.shape[axis] for axis in order] != list(out.shape):
        raise BoardModelRefused(f"{operator.name} gives {out.name!r} an unexpected shape")
    steps = steps_of(source.shape)
    ordered = [steps[axis] for axis in order]
    views = lowering.view(operator.inputs[0]), lowering.view(operator.outputs[0])
    copy_at_strides(lowering, *views, 0, ordered)


def _is_set(mask: int, axis: int) -> bool:
    return bool(mask >> axis & 1)


def slice_bounds(
    operator: ModelOperator, shape: Sequence[int], numbers: Sequence[Sequence[int]]
) -> tuple[list[int], list[int], list[int], list[int]]:
    """Start, count and stride of a STRIDED_SLICE for each input dimension; remaining dimensions.

    Args:
        operator: STRIDED_SLICE, with masks in its options.
        shape: Shape of the input.
        numbers: Begins, ends and strides, in this order.

    Raises:
        BoardModelRefused: the operator adds dimensions or has an ellipsis, or a stride is 0.

    Source: tensorflow/lite/kernels/internal/strided_slice_logic.h.
    """
    begin_mask, end_mask, ellipsis_mask, new_mask, shrink_mask = (
        operator.option(field, "<i") for field in range(5)
    )
    begins, ends, strides = (list(values) for values in numbers)
    if ellipsis_mask or new_mask or len(begins) > len(shape):
        raise BoardModelRefused(f"{operator.name} adds dimensions")
    if operator.option(5):
        ends = [begin + end for begin, end in zip(begins, ends, strict=True)]
    starts: list[int] = []
    counts: list[int] = []
    steps: list[int] = []
    stay: list[int] = []
    for axis, size in enumerate(shape):
        if axis >= len(begins):
            starts, counts, steps = [*starts, 0], [*counts, size], [*steps, 1]
            stay.append(axis)
            continue
        stride = 1 if _is_set(shrink_mask, axis) else strides[axis]
        if stride == 0:
            raise BoardModelRefused(f"{operator.name} has a stride of 0")
        low, high = (0, size) if stride > 0 else (-1, size - 1)
        begin, end = (value + size if value < 0 else value for value in (begins[axis], ends[axis]))
        start = max(low, min(begin, high))
        stop = max(low, min(end, high))
        if _is_set(begin_mask, axis):
            start = 0 if stride > 0 else size - 1
        if _is_set(end_mask, axis):
            stop = size if stride > 0 else -1
        if _is_set(shrink_mask, axis):
            start, stop = begin, begin + 1
        else:
            stay.append(axis)
        starts.append(start)
        counts.append(max(0, -(-(stop - start) // stride)))
        steps.append(stride)
    return starts, counts, steps, stay


def strided_slice(lowering: Lowering, operator: ModelOperator) -> None:
    """Translate STRIDED_SLICE or SLICE.

    Raises:
        BoardModelRefused: the bounds are not constant, or do not result in the output's shape.
    """
    source, out = lowering.tensor(operator.inputs[0]), lowering.tensor(operator.outputs[0])
    _same_type(operator, source, out)
    numbers = [integers(lowering, number) for number in operator.inputs[1:]]
    if operator.code == TfliteCode.SLICE:
        starts, strides, stay = numbers[0], [1] * len(source.shape), list(range(len(source.shape)))
        counts = list(out.shape)
    else:
        starts, counts, strides, stay = slice_bounds(operator, source.shape, numbers)
    if [counts[axis] for axis in stay] != list(out.shape):
        raise BoardModelRefused(f"{operator.name} gives {out.name!r} an unexpected shape")
    steps = steps_of(source.shape)
    first = sum(start * step for start, step in zip(starts, steps, strict=True))
    taken = [strides[axis] * steps[axis] for axis in stay]
    views = lowering.view(operator.inputs[0]), lowering.view(operator.outputs[0])
    copy_at_strides(lowering, *views, first, taken)


def split(lowering: Lowering, operator: ModelOperator) -> None:
    """Translate SPLIT or SPLIT_V.

    Raises:
        BoardModelRefused: the dimension is not constant.
    """
    is_equal = operator.code == TfliteCode.SPLIT
    number, axis_at = (1, 0) if is_equal else (0, 2)
    source = lowering.tensor(operator.inputs[number])
    (axis,) = integers(lowering, operator.inputs[axis_at])
    axis %= len(source.shape)
    steps = steps_of(source.shape)
    first = 0
    for out in operator.outputs:
        _same_type(operator, source, lowering.tensor(out))
        views = lowering.view(operator.inputs[number]), lowering.view(out)
        copy_at_strides(lowering, *views, first, steps)
        first += lowering.tensor(out).shape[axis] * steps[axis]


def _nearest(count: int, size: int, *, is_aligned: bool, is_half_pixel: bool) -> list[int]:
    """Index of the nearest input row or column, for each row or column of the output.

    Source: tensorflow/lite/kernels/internal/reference/resize_nearest_neighbor.h.
    """
    edge = int(is_aligned and count > 1)
    scale = float32((size - edge) / (count - edge))
    offset = 0.5 if is_half_pixel else 0.0
    places = [float32((at + offset) * scale) for at in range(count)]
    whole = [rounded(place) if is_aligned else math.floor(place) for place in places]
    return [max(0, min(place, size - 1)) for place in whole]


def resize(lowering: Lowering, operator: ModelOperator) -> None:
    """Translate RESIZE_BILINEAR or RESIZE_NEAREST_NEIGHBOR.

    Raises:
        BoardModelRefused: the tensors are not int8, or do not have four dimensions.
    """
    source, out = lowering.tensor(operator.inputs[0]), lowering.tensor(operator.outputs[0])
    only_int8(source, out)
    if len(source.shape) != 4 or len(out.shape) != 4:
        raise BoardModelRefused(f"{operator.name} with output {out.name!r} is not four-dimensional")
    view, output = lowering.view(operator.inputs[0]), lowering.view(operator.outputs[0])
    if operator.code == TfliteCode.RESIZE_BILINEAR:
        parameters = {0: operator.option(2), 1: operator.option(3), 2: int(lowering.was_uint8)}
        added = BlobOperator(BlobKind.RESIZE_BILINEAR, (view,), output, parameters)
    else:
        choice = {
            "is_aligned": bool(operator.option(0)),
            "is_half_pixel": bool(operator.option(1)),
        }
        rows, columns = (
            lowering.constant(_nearest(out.shape[axis], source.shape[axis], **choice))
            for axis in (1, 2)
        )
        added = BlobOperator(BlobKind.RESIZE_NEAREST, (view, rows, columns), output)
    lowering.operators.append(added)
