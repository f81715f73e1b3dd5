"""Samples of one signal, looked up by time: signals come in blocks of their own."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from edgebench.meters.base import Floats
from edgebench.meters.joulescope.blocks import Block

BLOCKS_MAX = 4096
"""Blocks that are kept of a signal whose power does not come."""


@dataclass(slots=True, eq=False)
class SignalBlocks:
    """Blocks of a signal that are still needed."""

    end_tick: int | None = None
    """Tick behind the last sample that came; None: nothing came."""
    _blocks: deque[Block] = field(default_factory=lambda: deque[Block](maxlen=BLOCKS_MAX))
    _last: float = 0.0
    """The last value that was given."""

    def add(self, block: Block) -> None:
        """Append a block."""
        self._blocks.append(block)
        self.end_tick = block.end_tick

    def has(self, end_tick: int) -> bool:
        """Whether everything before this came, or will not come any more."""
        return self.end_tick is not None and self.end_tick >= end_tick

    def at(self, wanted: Block) -> Floats:
        """The values at the ticks of another signal's block; NaN where there are none.

        A signal of a higher rate gives its last sample at or before each tick.
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
        """Digital input at these ticks, and where it is unknown and therefore carried forward."""
        values = self.at(wanted)
        is_carried = np.isnan(values)
        known = np.concatenate([[self._last], values])
        source = np.maximum.accumulate(np.where(np.isnan(known), 0, np.arange(len(known))))
        filled = known[source][1:]
        self._last = float(filled[-1]) if len(filled) else self._last
        return filled.astype(np.uint8), is_carried
