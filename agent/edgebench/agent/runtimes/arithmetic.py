"""Names for the arithmetic of a model's operators, in any file format.

The operators that contain most of the weights determine the precision of a model: a converter
leaves small operators, and those at the ends, in floats.

    activation × weight            name
    int8 × int8                    int8 (uint8, int16, fp32, fp16 alike)
    float × int8, by a float       int8-weights: stored in 8 bits, used as floats
    float × int8, by an integer    int8-dynamic: activations are quantised while the model runs
    int16 × int8                   int16x8
"""

from __future__ import annotations

from collections.abc import Mapping

_NAMES = {"float16": "fp16", "float32": "fp32", "float64": "fp64"}
_REDUCED = bytes(range(65)) + bytes(range(192, 256))
"""Bytes of int8 weights from -64 to 64: 7 bits, plus one value."""


def arithmetic_name(*, activation: str, stored: str, multiplied: str) -> str:
    """Name of an operator's arithmetic.

    Args:
        activation: Element type of its activation.
        stored: Element type of its weights in the file.
        multiplied: Element type of its weights when they reach the operator.
    """
    if multiplied != stored:
        return f"{element_name(stored)}-weights"
    if is_float(activation) and not is_float(stored):
        return f"{stored}-dynamic"
    return (
        f"int16x{stored[3:]}" if (activation, stored) == ("int16", "int8") else element_name(stored)
    )


def is_float(kind: str) -> bool:
    """Whether this is an element type of real numbers."""
    return kind in _NAMES


def precision_of(weight_counts: Mapping[str, int]) -> str | None:
    """Precision of a model: the kind of arithmetic with the most weights."""
    return max(weight_counts, key=lambda name: weight_counts[name], default=None)


def bits_of(kind: str, raw: bytes) -> int:
    """Bits of the widest of these weights; the full width of the type if there are no bytes."""
    is_reduced = kind == "int8" and bool(raw) and not raw.translate(None, _REDUCED)
    return 7 if is_reduced else int(kind.lstrip("uint"))


def element_name(kind: str) -> str:
    """Precision of arithmetic on this element type alone."""
    return _NAMES.get(kind, kind)
