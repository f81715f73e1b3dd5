"""Places a model's tensors in the arena, which is the RAM that inferences use."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

ALIGNMENT = 16


@dataclass(frozen=True, slots=True)
class Lifetime:
    """Size of a piece of memory in bytes, and the first and last operator that use the piece."""

    size: int
    first: int
    last: int


def aligned(size: int) -> int:
    """Round a size in bytes up to a multiple of `ALIGNMENT`."""
    return -(-size // ALIGNMENT) * ALIGNMENT


def plan(pieces: Sequence[Lifetime]) -> tuple[list[int], int]:
    """Place every piece; return the offset of each piece, and the total size, in bytes.

    Greedy by size: pieces are placed from the largest to the smallest, each at the lowest offset
    where enough memory is free during the lifetime of the piece.

    Source: Pisarchyk and Lee, Efficient Memory Management for Deep Neural Net Inference (2020).
    """
    places = [0] * len(pieces)
    placed: list[int] = []
    order = sorted(range(len(pieces)), key=lambda index: (-pieces[index].size, index))
    for index in order:
        piece = pieces[index]
        others = sorted(
            (places[other], places[other] + aligned(pieces[other].size))
            for other in placed
            if pieces[other].first <= piece.last and piece.first <= pieces[other].last
        )
        place = 0
        for start, end in others:
            if start - place >= aligned(piece.size):
                break
            place = max(place, end)
        places[index] = place
        placed.append(index)
    ends = (place + aligned(piece.size) for place, piece in zip(places, pieces, strict=True))
    return places, max(ends, default=0)
