"""Sizes of open dimensions: chosen, shared by their name, or refused with the limit."""

from __future__ import annotations

import pytest

from edgebench.agent.runtimes.shapes import (
    Dimension,
    Shape,
    refuse_other_shapes,
    resolve_shapes,
)
from edgebench.protocol.errors import InputsRefused
from edgebench.protocol.record import TensorSpec

BERT: dict[str, list[Dimension]] = {name: ["batch", "length"] for name in ("ids", "mask")}
IMAGE: dict[str, list[Dimension]] = {"image": [1, 8, 8, 3]}


@pytest.mark.parametrize(
    ("declared", "wanted", "expected"),
    [
        (BERT, {}, {"ids": (1, 1), "mask": (1, 1)}),
        (BERT, {"ids": (2, 128)}, {"ids": (2, 128), "mask": (2, 128)}),
        (BERT, {"mask": (128,)}, {"ids": (1, 128), "mask": (1, 128)}),
        ({"x": ["x.0", 3, "x.2"]}, {"x": (2, 3, 4)}, {"x": (2, 3, 4)}),
        ({"x": ["x.0"], "y": ["y.0"]}, {"x": (5,)}, {"x": (5,), "y": (1,)}),
        (IMAGE, {}, {"image": (1, 8, 8, 3)}),
        (IMAGE, {"image": (8, 8, 3)}, {"image": (1, 8, 8, 3)}),
        (IMAGE, {"image": (3, 8, 8)}, {"image": (1, 8, 8, 3)}),
        ({"rate": []}, {"rate": ()}, {"rate": ()}),
    ],
)
def test_open_dimensions_take_the_sizes_that_were_chosen(
    declared: dict[str, list[Dimension]], wanted: dict[str, Shape], expected: dict[str, Shape]
) -> None:
    """Otherwise a model for 128 tokens would be measured with a single token."""
    assert resolve_shapes(declared, wanted) == expected


@pytest.mark.parametrize(
    ("declared", "wanted", "said"),
    [
        (BERT, {"tokens": (1, 8)}, r"it has: 'ids' \[batch, length\], 'mask' \["),
        ({}, {"x": (1,)}, "no input 'x'; it has: none"),
        (BERT, {"ids": (1, 2, 8)}, r"'ids' is \[batch, length\], not \[1, 2, 8\]: rank 2, not 3"),
        (BERT, {"ids": (1, 8), "mask": (1, 9)}, r"'mask' is \[1, 8\], not \[1, 9\]"),
        (IMAGE, {"image": (1, 8, 8, 4)}, r"not \[1, 8, 8, 4\]; its shape is fixed$"),
        ({"x": ["x.0", 3]}, {"x": (2, 4)}, r"'x' is \[x.0, 3\], not \[2, 4\]$"),
    ],
)
def test_shape_that_an_input_cannot_have_is_refused_with_its_own(
    declared: dict[str, list[Dimension]], wanted: dict[str, Shape], said: str
) -> None:
    """Otherwise the library would refuse it later, in its own terms, or run something else."""
    with pytest.raises(InputsRefused, match=said):
        resolve_shapes(declared, wanted)


@pytest.mark.parametrize("shape", [(1, 8, 8, 3), (8, 8, 3)])
def test_shape_of_a_fixed_input_may_be_said_again(shape: Shape) -> None:
    """Otherwise a script that names all shapes would be refused for those the model already has."""
    refuse_other_shapes([TensorSpec("image", (1, 8, 8, 3), "float32")], {"image": shape})


@pytest.mark.parametrize(
    ("shape", "said"),
    [
        ((192,), r"'image' is \[1, 8, 8, 3\], not \[192\]: rank 4, not 1"),
        ((64, 3), r"'image' is \[1, 8, 8, 3\], not \[64, 3\]: rank 4, not 2"),
        ((3, 8, 8), r"'image' is \[1, 8, 8, 3\], not \[3, 8, 8\]; its shape is fixed$"),
        ((1, 3, 8, 8), r"'image' is \[1, 8, 8, 3\], not \[1, 3, 8, 8\]; its shape is fixed$"),
    ],
)
def test_other_shape_of_a_fixed_input_is_refused(shape: Shape, said: str) -> None:
    """Otherwise a shape would be accepted for its number of values, and another be measured."""
    assert resolve_shapes(IMAGE, {"image": shape}) == {"image": (1, 8, 8, 3)}
    with pytest.raises(InputsRefused, match=said):
        refuse_other_shapes([TensorSpec("image", (1, 8, 8, 3), "float32")], {"image": shape})
