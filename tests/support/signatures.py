"""A .tflite file with several signatures, as converters make of encoders and decoders."""

from __future__ import annotations

import struct

import numpy as np

from support import tflite_bytes as tb
from support.tflite_bytes import Graph, Operator, Tensor

WIDTH = 32
"""Numbers in the input of `decode`."""
_CHANCE = np.random.default_rng(5)
WEIGHTS = _CHANCE.normal(size=(16, WIDTH)).astype(np.float32)
"""Weights of `decode`: its output is this matrix times its input."""


def two_signatures(size: int = WIDTH) -> bytes:
    """Two graphs: `encode`, the first one, adds 1 to four numbers; `decode` multiplies a matrix.

    Args:
        size: Sizes of the first dimension of the input of `decode`; -1 leaves it open.
    """
    one = Tensor("one", tb.FLOAT32, (1,), struct.pack("<f", 1.0))
    encode = Graph(
        (Tensor("x", tb.FLOAT32, (1, 4)), one, Tensor("y", tb.FLOAT32, (1, 4))),
        (Operator(tb.ADD, "x one", "y"),),
    )
    batch = -1 if size < 0 else 1
    decode = Graph(
        (
            Tensor("code", tb.FLOAT32, (batch, WIDTH)),
            Tensor("w", tb.FLOAT32, WEIGHTS.shape, WEIGHTS.tobytes()),
            Tensor("picture", tb.FLOAT32, (batch, len(WEIGHTS))),
        ),
        (Operator(tb.FULLY_CONNECTED, "code w -", "picture"),),
        inputs="code",
        outputs="picture",
    )
    return tb.model(encode, decode, signatures={"encode": 0, "decode": 1})


def one_graph() -> bytes:
    """A file with one graph and no signature."""
    return tb.addition(1, 4)
