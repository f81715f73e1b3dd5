"""Outline of a power line as blocks of consecutive samples, for plots of long recordings."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np

from edgebench.host.analysis.energy.integrate import Floats, Nanoseconds, PowerLine


@dataclass(frozen=True, slots=True, eq=False)
class PowerOutline:
    """Blocks of a channel, in the time of the meter's clock; all columns have shape (k,)."""

    begin_ns: Nanoseconds
    """Begin of each block, ascending."""
    end_ns: Nanoseconds
    low_w: Floats
    mean_w: Floats
    """Mean over the time of the block, not over its samples."""
    high_w: Floats

    def __len__(self) -> int:
        return len(self.begin_ns)

    def coarser(self, most: int) -> PowerOutline:
        """The outline with at most `most` blocks, merged from consecutive blocks."""
        step = math.ceil(len(self) / most)
        if step <= 1:
            return self
        first = np.arange(0, len(self), step)
        last = np.minimum(first + step, len(self)) - 1
        passed_ns = (self.end_ns - self.begin_ns).astype(np.float64)
        mean_w = np.add.reduceat(self.mean_w * passed_ns, first)
        mean_w /= np.add.reduceat(passed_ns, first)
        return PowerOutline(
            self.begin_ns[first],
            self.end_ns[last],
            np.minimum.reduceat(self.low_w, first),
            mean_w,
            np.maximum.reduceat(self.high_w, first),
        )


def outline_of(line: PowerLine, step: int) -> PowerOutline:
    """Outline in adjoining blocks of `step` sample intervals each."""
    first = np.arange(0, max(0, len(line.time_ns) - 1), step)
    last = np.minimum(first + step, len(line.time_ns) - 1)
    # An interval with a duration of 0 is a step of the power, not a block.
    has_time = line.time_ns[last] > line.time_ns[first]
    first, last = first[has_time], last[has_time]
    if not len(first):
        return joined([])
    begin_ns, end_ns = line.time_ns[first], line.time_ns[last]
    energy_j = line.cumulative_j(end_ns) - line.cumulative_j(begin_ns)
    # reduceat takes pairs of bounds, and rejects the end of the array as the last bound.
    bounds = np.stack([first, last + 1], axis=1).reshape(-1)
    power_w = np.append(line.power_w, 0.0)
    return PowerOutline(
        begin_ns,
        end_ns,
        np.minimum.reduceat(power_w, bounds)[::2],
        energy_j / (end_ns - begin_ns) * 1e9,
        np.maximum.reduceat(power_w, bounds)[::2],
    )


def joined(outlines: list[PowerOutline]) -> PowerOutline:
    """Concatenation of outlines, each of which begins where the previous ends."""
    if not outlines:
        nothing_ns, nothing_w = np.zeros(0, np.int64), np.zeros(0)
        return PowerOutline(nothing_ns, nothing_ns, nothing_w, nothing_w, nothing_w)
    return PowerOutline(
        np.concatenate([outline.begin_ns for outline in outlines]),
        np.concatenate([outline.end_ns for outline in outlines]),
        np.concatenate([outline.low_w for outline in outlines]),
        np.concatenate([outline.mean_w for outline in outlines]),
        np.concatenate([outline.high_w for outline in outlines]),
    )


@dataclass(slots=True)
class OutlineBuilder:
    """Builds the outline of a channel from consecutive parts of its line, such as row groups."""

    step: int
    """Number of sample intervals per block."""
    _outlines: list[PowerOutline] = field(default_factory=list[PowerOutline])
    _last: PowerLine | None = None
    """Last node of the previous part."""

    def add(self, line: PowerLine) -> None:
        """Add the next part of the line, and the interval between the previous part and the new."""
        if not len(line.time_ns):
            return
        if (last := self._last) is not None:
            joint = PowerLine(
                np.append(last.time_ns, line.time_ns[0]), np.append(last.power_w, line.power_w[0])
            )
            self._outlines.append(outline_of(joint, 1))
        self._outlines.append(outline_of(line, self.step))
        self._last = PowerLine(line.time_ns[-1:], line.power_w[-1:])

    def outline(self) -> PowerOutline:
        """Outline of all parts."""
        return joined(self._outlines)
