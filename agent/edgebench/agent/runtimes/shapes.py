"""Sizes of the dimensions that a model leaves open."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import TypeAlias

from edgebench.agent.runtimes.text import library_line
from edgebench.protocol.errors import InputsRefused
from edgebench.protocol.record import TensorSpec

Dimension: TypeAlias = "int | str"
"""Size of a dimension, or name of an open dimension; dimensions with the same name have the same
size."""
Shape: TypeAlias = tuple[int, ...]
DEFAULT_SIZE = 1
"""Size of an open dimension that is not specified."""


def resolve_shapes(
    declared: Mapping[str, Sequence[Dimension]], wanted: Mapping[str, Shape]
) -> dict[str, Shape]:
    """Resolve the shape of every input.

    Args:
        declared: Dimensions of every input by its name.
        wanted: Chosen shapes by the name of the input. A leading 1 may be omitted. For an input
            without open dimensions, only the number of values has to match.

    Raises:
        InputsRefused: the model has no such input, or the input cannot have this shape.
    """
    if unknown := [name for name in wanted if name not in declared]:
        names = ", ".join(f"{name!r} {_shown(sizes)}" for name, sizes in declared.items()) or "none"
        raise InputsRefused(library_line(f"the model has no input {unknown[0]!r}; it has: {names}"))
    sizes: dict[str, int] = {}
    for name, shape in wanted.items():
        _choose(sizes, name, declared[name], shape)
    return {
        name: tuple(
            size if isinstance(size, int) else sizes.get(size, DEFAULT_SIZE) for size in dimensions
        )
        for name, dimensions in declared.items()
    }


def _choose(
    sizes: dict[str, int], name: str, dimensions: Sequence[Dimension], shape: Shape
) -> None:
    """Record the sizes that this shape gives to the open dimensions."""
    limit = _shown([sizes.get(str(dimension), dimension) for dimension in dimensions])
    if is_fixed := all(isinstance(size, int) for size in dimensions):
        fits = prod(shape) == prod(size for size in dimensions if isinstance(size, int))
    else:
        full = (1, *shape) if len(shape) == len(dimensions) - 1 else shape
        fits = len(full) == len(dimensions) and all(
            size == (wanted if isinstance(wanted, int) else sizes.setdefault(wanted, size))
            for wanted, size in zip(dimensions, full, strict=True)
        )
    if not fits:
        raise InputsRefused(_misfit(name, limit, len(dimensions), shape, is_fixed=is_fixed))


def refuse_other_shapes(inputs: Sequence[TensorSpec], chosen: Mapping[str, Shape]) -> None:
    """Reject a chosen shape that differs from the shape of the loaded model's input.

    Samples from a file may have another shape, for example a flat shape, or a shape with the
    channels last. A shape that the user has written must match exactly, because it specifies the
    inputs to measure.

    Args:
        inputs: Inputs of the loaded model.
        chosen: Shapes by name, as the user wrote them; a leading 1 may be omitted.

    Raises:
        InputsRefused: the input has another shape.
    """
    for spec in inputs:
        shape = chosen.get(spec.name, spec.shape)
        if spec.shape not in (shape, (1, *shape)):
            limit, rank = _shown(spec.shape), len(spec.shape)
            raise InputsRefused(_misfit(spec.name, limit, rank, shape, is_fixed=not spec.open_axes))


def _shown(dimensions: Sequence[Dimension]) -> str:
    return f"[{', '.join(map(str, dimensions))}]"


def _misfit(name: str, limit: str, rank: int, shape: Shape, *, is_fixed: bool) -> str:
    text = f"input {name!r} is {limit}, not {list(shape)}"
    is_rank = len(shape) in (rank, rank - 1)  # a leading 1 may be left out
    text = text if is_rank else f"{text}: rank {rank}, not {len(shape)}"
    return library_line(f"{text}; its shape is fixed" if is_fixed else text)


def open_dimension(name: str, number: int) -> str:
    """Name of an open dimension that is unnamed in the file; unique among all dimensions."""
    return f"{name}.{number}"
