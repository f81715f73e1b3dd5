"""Names for the arithmetic of a model's operators, in any file format.

The operators that contain most of the weights determine the precision of a model. The other
operators do not count, because a converter may leave small operators, and the first and last
operators, in floats.

    activation × weight            name
    int8 × int8                    int8 (equal types have the name of the type: uint8, fp32, fp16)
    float × int8, in floats        int8-weights: stored in 8 bits, used as floats
    float × int8, in integers      int8-dynamic: activations are quantised while the model runs
    int16 × int8                   int16x8
"""

from __future__ import annotations

from collections.abc import Mapping

_NAMES = {"float16": "fp16", "float32": "fp32", "float64": "fp64"}
_REDUCED = bytes(range(65)) + bytes(range(192, 256))
"""Byte values of int8 weights from -64 to 64: the 7-bit range and the value 64."""


def arithmetic_name(*, activation: str, stored: str, multiplied: str) -> str:
    """Name of an operator's arithmetic.

    Args:
        activation: Element type of the operator's activation.
        stored: Element type of the operator's weights in the file.
        multiplied: Element type of the weights when they reach the operator.
    """
    if multiplied != stored:
        return f"{element_name(stored)}-weights"
    if is_float(activation) and not is_float(stored):
        return f"{stored}-dynamic"
    return (
        f"int16x{stored[3:]}" if (activation, stored) == ("int16", "int8") else element_name(stored)
    )


def is_float(kind: str) -> bool:
    """Whether an element type is a floating-point type."""
    return kind in _NAMES


def precision_of(weight_counts: Mapping[str, int]) -> str | None:
    """Precision of a model: the arithmetic of most weights; None without weights."""
    return max(weight_counts, key=lambda name: weight_counts[name], default=None)


def bits_of(kind: str, raw: bytes) -> int:
    """Number of bits of weights: 7 for int8 values in -64…64, else the width of the type."""
    is_reduced = kind == "int8" and bool(raw) and not raw.translate(None, _REDUCED)
    return 7 if is_reduced else int(kind.lstrip("uint"))


def element_name(kind: str) -> str:
    """Name of the arithmetic whose operands all have this element type."""
    return _NAMES.get(kind, kind)
