"""Assigns samples to times of the meter's own clock, and finds missing samples.

Theory of operation. Samples are not numbered. Once per second, the meter sends its time as a stamp,
and the expected number of samples follows from this time and the rate. So samples are held back
until the next stamp. If samples are missing and bytes were damaged, the damaged bytes show where
the samples are missing. If samples are missing without damaged bytes, their place in the second is
unknown. The received samples are then moved to the start of the second, and the gap extends over
the whole second. After the last stamp, less than a second of samples follows. The number of these
samples is not verified.

The first stamp is 0. Samples before the first stamp are not part of the recording, and the decoder
drops them.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields

import numpy as np
from numpy.typing import NDArray

from edgebench.meters.base import Flag, Floats, Gap
from edgebench.meters.lpm01a.items import Stamp, Values
from edgebench.meters.timeline import Places, UniformTimeline

JUMP_MAX_S = 60
"""Maximum time by which a stamp may be ahead of the samples. A stamp that is further ahead counts
as damaged, because a session with a silent meter ends much sooner."""


@dataclass(frozen=True, slots=True, eq=False)
class PlacedValues:
    """Samples with their places (numbers on the timeline); arrays have shape (n,), n >= 1."""

    index: Places
    values: Floats
    exponents: NDArray[np.uint8]
    flags: NDArray[np.uint8]
    is_edge: NDArray[np.bool_]
    """Whether an event occurred right before the sample."""

    def __getitem__(self, places: slice) -> PlacedValues:
        return PlacedValues(*(getattr(self, field.name)[places] for field in fields(self)))


def joined(first: PlacedValues | None, second: PlacedValues) -> PlacedValues:
    """Concatenate these samples and the samples that follow them."""
    if first is None:
        return second
    names = [field.name for field in fields(second)]
    return PlacedValues(*(np.concatenate([getattr(first, n), getattr(second, n)]) for n in names))


@dataclass(slots=True, eq=False)
class StampTimeline:
    """Collects the samples of a second, and numbers them when the stamp of this second arrives."""

    uniform: UniformTimeline
    first_end: int = 0
    """1 if values belong to intervals: the interval of the first value ends a period after time 0.
    0 if values are instantaneous."""
    standing: Flag = Flag.NONE
    """Flags of all samples that are added from now on."""
    _parts: list[Values] = field(default_factory=list[Values])
    _part_flags: list[Flag] = field(default_factory=list[Flag])
    _marks: list[tuple[int, Flag]] = field(default_factory=list[tuple[int, Flag]])
    """Pairs: the number of a sample in this second, and flags that apply to this sample only."""
    _edges: list[int] = field(default_factory=list[int])
    _count: int = 0
    _hole_at: int | None = None
    """Number of received samples in this second before the first lost sample; None if no sample was
    lost."""
    _hole_count: int = 0
    """Minimum number of samples lost in this second."""
    _excess: int = 0
    """Number of received samples in excess of the number that follows from the stamps."""

    def add(self, values: Values) -> None:
        """Append samples, with the flags in `standing`."""
        self._parts.append(values)
        self._part_flags.append(self.standing)
        self._count += len(values.values)

    def add_hole(self, count: int) -> None:
        """Record a loss of at least `count` samples after the samples that were added so far."""
        self.uniform.desync_count += 1
        if self._hole_at is None:
            self._hole_at = self._count
        self._hole_count += count

    def mark_neighbours(self, flag: Flag) -> None:
        """Flag the previous and the next sample."""
        self._marks += [(self._count - 1, flag), (self._count, flag)]

    def mark_edge(self) -> None:
        """Record that an edge of the event input occurred before the next sample."""
        self._edges.append(self._count)

    def stamp(self, stamp: Stamp) -> PlacedValues | None:
        """Return the samples up to the time of this stamp, with their numbers."""
        rate_hz = self.uniform.rate_hz
        expected = round(stamp.time_ms * rate_hz / 1000) + self._excess
        missing = expected - self.uniform.next_index - self._count
        if missing > JUMP_MAX_S * rate_hz:
            self.uniform.desync()
            missing = self._hole_count
        elif missing < 0:
            self.uniform.desync()
            self._excess -= missing
            missing = 0
        if stamp.is_overflow or stamp.buffer_ratio >= 1:
            self.uniform.is_ambiguous = True
            return self._place(missing, "the meter's buffer overflowed")
        return self._place(missing, "samples lost")

    def finish(self) -> PlacedValues | None:
        """Return the samples after the last stamp, with their numbers."""
        return self._place(self._hole_count, "samples lost")

    def _place(self, missing: int, cause: str) -> PlacedValues | None:
        count, hole_at = self._count, self._hole_at
        if missing:
            first = self.uniform.next_index
            end = first + count + missing
            if hole_at is not None:
                first, end, cause = first + hole_at, first + hole_at + missing, "framing lost"
            ends = np.array([max(0, first - 1), end]) + self.first_end
            begin_ns, end_ns = self.uniform.time_ns(ends).tolist()
            self.uniform.lose_in(Gap(begin_ns, end_ns, missing, cause))
        places = self.uniform.place(count)
        if missing:
            places[: count if hole_at is None else hole_at] -= missing
        placed = self._joined(places) if count else None
        self._marks = [(place - count, flag) for place, flag in self._marks if place >= count]
        self._edges = [place - count for place in self._edges if place >= count]
        self._parts, self._part_flags, self._count = [], [], 0
        self._hole_at, self._hole_count = None, 0
        return placed

    def _joined(self, places: Places) -> PlacedValues:
        """The samples of this second with their flags and edges."""
        lengths = [len(part.values) for part in self._parts]
        flags = np.repeat(np.array(self._part_flags, np.uint8), lengths)
        for place, flag in self._marks:
            if 0 <= place < self._count:
                flags[place] |= np.uint8(flag)
        is_edge = np.zeros(self._count, np.bool_)
        is_edge[[place for place in self._edges if place < self._count]] = True
        return PlacedValues(
            places,
            np.concatenate([part.values for part in self._parts]),
            np.concatenate([part.exponents for part in self._parts]),
            flags,
            is_edge,
        )
