"""Rows of a table as blocks of samples: times ascend, values are numbers, and gaps are counted."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from edgebench.host.power.imports.columns import TableColumn, TableColumns
from edgebench.host.power.imports.pace import GapFinder, Pace, pace_of
from edgebench.meters.base import Flag, Floats, LossReport, SampleBlock
from edgebench.meters.scpi.answers import SPECIAL, flags_of
from edgebench.protocol.errors import FileRefused

Values = NDArray[np.float64] | NDArray[np.int64] | NDArray[np.object_]
"""Values of a column: numbers, or the words that name a channel."""
TIME_LIMIT_NS = 1 << 62
_FLAG_LIMIT = 255


@dataclass(slots=True)
class SampleTally:
    """Counts of samples, for the report of losses."""

    count: int = 0
    missing_count: int = 0
    saturated_count: int = 0

    def add(self, flags: NDArray[np.uint8]) -> None:
        """Count the next samples by their flags."""
        self.count += len(flags)
        self.missing_count += int(np.count_nonzero(flags & int(Flag.MISSING)))
        self.saturated_count += int(np.count_nonzero(flags & int(Flag.SATURATED)))

    def loss(self) -> LossReport:
        """Losses that the file itself states: the samples that it calls missing."""
        return LossReport(
            received_count=self.count - self.missing_count,
            lost_count=self.missing_count,
            saturated_count=self.saturated_count,
        )


@dataclass(slots=True, eq=False)
class TableDecoder:
    """Rows of a table to blocks of samples; holds where the last block ended."""

    columns: TableColumns
    supply_v: float | None
    place_of: Callable[[int], str]
    """Words for a row, counted from 0: its line."""
    tally: SampleTally = field(default_factory=SampleTally)
    pace: Pace | None = None
    """Pace of the first block: nothing else in a table tells the rate."""
    _gaps: GapFinder = field(default_factory=GapFinder)
    _last_ns: int | None = None
    _channel: object = None

    def loss(self) -> LossReport:
        """Samples that the table calls missing, and those that are missing by its times."""
        told = self.tally.loss()
        lost_count = told.lost_count + self._gaps.count
        return replace(told, lost_count=lost_count, gaps=tuple(self._gaps.gaps))

    def block(self, values: Mapping[str, Values]) -> SampleBlock:
        """The next rows.

        Args:
            values: Values by the name of their column, as in the file; NaN where there is none.

        Raises:
            FileRefused: a value is no number, or time does not ascend.
        """
        self._refuse_several(values)
        flags = self._flags(values)
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
        if self.pace is None and len(time_ns) > 1:
            self.pace = pace_of(time_ns)
        if self.pace is not None:
            before_ns = time_ns[0] if self._last_ns is None else self._last_ns
            self._gaps.look(self.pace, np.concatenate([[before_ns], time_ns]))
        self._last_ns = int(time_ns[-1])
        return block

    def _refuse_several(self, values: Mapping[str, Values]) -> None:
        """Refuse a second channel: a table of several is neither one series nor one power."""
        if (column := self.columns.channel) is None:
            return
        names = values[column.name]
        first = names[0] if not self.tally.count else self._channel
        self._channel = first
        is_other = np.array([name != first for name in names], np.bool_)
        why = f"a channel beside {str(first)[:40]!r}: import each as a file of its own"
        self._refuse_first(is_other, column, why)

    def _power_w(self, known: Mapping[str, Floats]) -> Floats:
        if "power" in known:
            return known["power"]
        if "voltage" in known:
            return known["current"] * known["voltage"]
        assert self.supply_v is not None, "find_columns has refused that"
        return known["current"] * self.supply_v

    def _flags(self, values: Mapping[str, Values]) -> NDArray[np.uint8]:
        """Flags of the table, and of values that an instrument writes for overrange or no value."""
        flags = np.zeros(len(values[self.columns.time.name]), np.uint8)
        if (column := self.columns.flags) is not None:
            raw = values[column.name]
            is_wrong = ~((raw >= 0) & (raw <= _FLAG_LIMIT) & (raw == np.floor(raw)))
            self._refuse_first(is_wrong, column, f"flags are whole numbers from 0 to {_FLAG_LIMIT}")
            flags = raw.astype(np.uint8)
        for column in self.columns.electrical.values():
            number = values[column.name].astype(np.float64)
            is_special = np.isfinite(number) & (np.abs(number) > SPECIAL)
            flags |= np.where(is_special, flags_of(number), 0)
        return flags

    def _known(self, column: TableColumn, raw: Values, is_missing: NDArray[np.bool_]) -> Floats:
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

    def _refuse_first(self, is_wrong: NDArray[np.bool_], column: TableColumn, why: str) -> None:
        if is_wrong.any():
            row = self.tally.count + int(np.argmax(is_wrong))
            raise FileRefused(f"{self.place_of(row)}, column {column.name!r}: {why}")
