"""Rows of a table as samples, checked one by one: times ascend, values are numbers; holes count."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from edgebench.host.power.imports.columns import Column, Columns
from edgebench.host.power.imports.pace import Holes, Pace, pace_of
from edgebench.meters.base import Flag, Floats, LossReport, SampleBlock
from edgebench.meters.scpi.answers import SPECIAL, flags_of
from edgebench.protocol.errors import FileRefused

Values = NDArray[np.float64] | NDArray[np.int64] | NDArray[np.object_]
"""Numbers; of the column that names the channel, words."""
TIME_LIMIT_NS = 1 << 62
_FLAG_LIMIT = 255


@dataclass(slots=True)
class Tally:
    """What was seen, for the report of losses."""

    count: int = 0
    missing_count: int = 0
    saturated_count: int = 0

    def add(self, flags: NDArray[np.uint8]) -> None:
        """The flags of the next samples."""
        self.count += len(flags)
        self.missing_count += int(np.count_nonzero(flags & int(Flag.MISSING)))
        self.saturated_count += int(np.count_nonzero(flags & int(Flag.SATURATED)))

    def loss(self) -> LossReport:
        """What a file says of its losses: the samples that it calls missing."""
        return LossReport(
            received_count=self.count - self.missing_count,
            lost_count=self.missing_count,
            saturated_count=self.saturated_count,
        )


@dataclass(slots=True, eq=False)
class Rows:
    """Makes blocks; holds where the last one ended."""

    columns: Columns
    supply_v: float | None
    place_of: Callable[[int], str]
    """Words for a row, counted from 0: its line."""
    tally: Tally = field(default_factory=Tally)
    pace: Pace | None = None
    """That of the first block: nothing else in a table says it."""
    _holes: Holes = field(default_factory=Holes)
    _last_ns: int | None = None
    _channel: object = None

    def loss(self) -> LossReport:
        """The samples that the table calls missing, and those that its times show to be."""
        told, holes = self.tally.loss(), self._holes
        lost_count = told.lost_count + holes.count
        return replace(told, lost_count=lost_count, gaps=tuple(holes.gaps))

    def block(self, values: Mapping[str, Values]) -> SampleBlock:
        """The next rows.

        Args:
            values: By name of the column, as they stand there; NaN where there is none.

        Raises:
            FileRefused: a value is none, or time does not ascend.
        """
        self._refuse_several(values)
        flags = self._flags(values) | self._overflows(values)
        is_missing = (flags & int(Flag.MISSING)) != 0
        time_ns = self._time_ns(values[self.columns.time.name])
        known = {
            name: self._known(column, values[column.name], is_missing)
            for name, column in self.columns.electrical.items()
        }
        block = SampleBlock(
            channel=0,
            index0=self.tally.count,
            time_ns=time_ns,
            power_w=self._power_w(known),
            current_a=known.get("current"),
            voltage_v=known.get("voltage"),
            flags=flags,
        )
        self.tally.add(flags)
        self._watch(time_ns)
        self._last_ns = int(time_ns[-1])
        return block

    def _refuse_several(self, values: Mapping[str, Values]) -> None:
        """Channels in one table are neither one after another nor one power."""
        if (column := self.columns.channel) is None:
            return
        names = values[column.name]
        first = names[0] if not self.tally.count else self._channel
        self._channel = first
        is_other = np.array([name != first for name in names], np.bool_)
        why = f"a channel beside {str(first)[:40]!r}: import each as a file of its own"
        self._refuse_first(is_other, column, why)

    def _watch(self, time_ns: NDArray[np.int64]) -> None:
        """Look for holes in the times, and between these and the last."""
        if self.pace is None and len(time_ns) > 1:
            self.pace = pace_of(time_ns)
        if self.pace is not None:
            before_ns = time_ns[0] if self._last_ns is None else self._last_ns
            self._holes.look(self.pace, np.concatenate([[before_ns], time_ns]))

    def _power_w(self, known: Mapping[str, Floats]) -> Floats:
        if "power" in known:
            return known["power"]
        if "voltage" in known:
            return known["current"] * known["voltage"]
        assert self.supply_v is not None, "find_columns has refused that"
        return known["current"] * self.supply_v

    def _flags(self, values: Mapping[str, Values]) -> NDArray[np.uint8]:
        column = self.columns.flags
        if column is None:
            return np.zeros(len(values[self.columns.time.name]), np.uint8)
        raw = values[column.name]
        is_wrong = ~((raw >= 0) & (raw <= _FLAG_LIMIT) & (raw == np.floor(raw)))
        self._refuse_first(is_wrong, column, f"flags are whole numbers from 0 to {_FLAG_LIMIT}")
        return raw.astype(np.uint8)

    def _overflows(self, values: Mapping[str, Values]) -> NDArray[np.uint8]:
        """What an instrument gave in the place of a value that is beyond its range, or is none."""
        flags = np.zeros(len(values[self.columns.time.name]), np.uint8)
        for column in self.columns.electrical.values():
            raw = values[column.name].astype(np.float64)
            flags |= np.where(np.isfinite(raw) & (np.abs(raw) > SPECIAL), flags_of(raw), 0)
        return flags

    def _known(self, column: Column, raw: Values, is_missing: NDArray[np.bool_]) -> Floats:
        """The values in SI; only a sample that is flagged as missing may have none."""
        self._refuse_first(~(np.isfinite(raw) | is_missing), column, "no number")
        return np.where(is_missing, np.nan, raw * column.scale)

    def _time_ns(self, raw: Values) -> NDArray[np.int64]:
        column = self.columns.time
        limit = TIME_LIMIT_NS / column.scale
        self._refuse_first(~(np.abs(raw) < limit), column, "no time")  # also where it is NaN
        # Whole numbers stay whole: as floats, nanoseconds since 1970 are off by a hundred.
        scaled = raw * int(column.scale)
        rounded = scaled if scaled.dtype.kind == "i" else np.rint(scaled)
        time_ns: NDArray[np.int64] = rounded.astype(np.int64)
        before_ns = time_ns[0] - 1 if self._last_ns is None else self._last_ns
        is_late = np.diff(time_ns, prepend=before_ns) <= 0
        self._refuse_first(is_late, column, "not later than the sample before it")
        return time_ns

    def _refuse_first(self, is_wrong: NDArray[np.bool_], column: Column, why: str) -> None:
        if is_wrong.any():
            row = self.tally.count + int(np.argmax(is_wrong))
            raise FileRefused(f"{self.place_of(row)}, column {column.name!r}: {why}")
