"""Looks up samples of a signal by time, because each signal arrives in blocks of its own."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from edgebench.meters.base import Floats
from edgebench.meters.joulescope.blocks import Block

BLOCKS_MAX = 4096
"""Maximum number of blocks of a signal that are kept until power of the same time arrives."""


@dataclass(slots=True, eq=False)
class SignalBlocks:
    """Blocks of a signal that later blocks of power may still need."""

    end_tick: int | None = None
    """Tick right after the last sample that arrived; None before the first sample."""
    _blocks: deque[Block] = field(default_factory=lambda: deque[Block](maxlen=BLOCKS_MAX))
    _last: float = 0.0
    """The last value returned by `bits_at`."""

    def add(self, block: Block) -> None:
        """Append a block; the oldest block is dropped if there are more than `BLOCKS_MAX`."""
        self._blocks.append(block)
        self.end_tick = block.end_tick

    def has(self, end_tick: int) -> bool:
        """Whether every sample before this tick has either arrived or been lost."""
        return self.end_tick is not None and self.end_tick >= end_tick

    def at(self, wanted: Block) -> Floats:
        """Values at the ticks of another signal's block; NaN if they are missing.

        If this signal has a higher rate, the last sample at or before each tick is used.
        """
        ticks = wanted.first_tick + wanted.step * np.arange(len(wanted.values))
        values = np.full(len(ticks), np.nan)
        for block in self._blocks:
            place = (ticks - block.first_tick) // block.step
            is_inside = (place >= 0) & (place < len(block.values))
            values[is_inside] = block.values[place[is_inside]]
        while self._blocks and self._blocks[0].end_tick <= wanted.end_tick:
            self._blocks.popleft()
        return values

    def bits_at(self, wanted: Block) -> tuple[NDArray[np.uint8], NDArray[np.bool_]]:
        """Values of a digital input at the ticks of `wanted`, and a mask of missing values.

        A missing value repeats the last known value.
        """
        values = self.at(wanted)
        is_carried = np.isnan(values)
        known = np.concatenate([[self._last], values])
        source = np.maximum.accumulate(np.where(np.isnan(known), 0, np.arange(len(known))))
        filled = known[source][1:]
        self._last = float(filled[-1]) if len(filled) else self._last
        return filled.astype(np.uint8), is_carried
