"""Converts rows of a table to blocks of samples: checks times and values, and counts gaps.

A table does not number its samples, so a loss shows only as a gap in its times. If the steps
between successive times are uniform, a step that is about twice as long, or longer, is a gap. If
the steps are not uniform, as in a log that contains only changes, gaps cannot be detected.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from shlex import quote
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgebench.host.power.imports.clock_times import TIME_LIMIT_NS
from edgebench.host.power.imports.columns import ROWS, TableColumn, TableColumns
from edgebench.host.power.imports.known_tables import Samples
from edgebench.meters.base import Flag, Floats, Gap, LossReport, SampleBlock
from edgebench.meters.scpi.responses import SPECIAL, flags_of
from edgebench.protocol.errors import FileRefused
from edgebench.protocol.percent import format_percent

Values = NDArray[np.float64] | NDArray[np.int64] | NDArray[np.object_]
"""Values of a column, which are numbers or texts."""
_FLAG_LIMIT = 255
MAX_ROWS_OF_ONE_TIME = 1 << 20
"""Maximum number of buffered rows that share a time, enough for 200 s at 5000 samples per
second."""
FULL_RATIO = 0.9
"""If a file's rate is more than this share of the instrument's full rate, the assumption is that
the instrument ran at its full rate and samples were lost."""
STEADY_SHARE = 0.9
"""Gaps are detected only if at least this share of the time steps is uniform; a choice of
edgebench."""
ALIKE_RATIO = 0.5
"""A time step counts as uniform if it deviates by at most this ratio from the typical step. The
ratio is large, because a busy computer logs late."""
GAP_STEPS = 1.9
"""A time step is a gap only if it is longer than this many typical steps. The limit is the same as
for a polled meter."""
LATE_STEPS = 2.5
"""A long step is a gap only if it and the step after it together exceed this many typical steps.
The sum is less if a sample was not lost but written late."""
COUNTER_LIMIT_RATIO = 0.05
"""An energy counter contradicts the powers if it differs from their integral by more than this
ratio of the integral. The ratio is assumed. An instrument's error affects counter and powers alike,
but a program that computes its counter with an assumed rate is off by a few percent."""
COUNTER_MIN_ROWS = 20
"""Minimum number of rows for comparing counter and integral. In fewer rows, the counter may not
have advanced."""
_SI_UNITS = {"time": "s", "power": "W", "current": "A", "voltage": "V"}
"""Maps quantities to the units of their columns in known tables with an energy counter."""
GAPS_MAX = 1000
"""Maximum number of listed gaps; the last listed gap includes all later gaps."""


@dataclass(frozen=True, slots=True)
class Pace:
    """Rate of the first samples, and whether their time steps are uniform."""

    rate_hz: float
    """Rate of the samples. If gaps can be detected, it is computed from the uniform steps only."""
    is_steady: bool


def pace_of(time_ns: NDArray[np.int64]) -> Pace:
    """Determine the pace (rate) from times of shape (n,), in ns, ascending, n >= 2."""
    steps_ns = np.diff(time_ns)
    typical_ns = np.median(steps_ns)
    is_alike = np.abs(steps_ns - typical_ns) <= ALIKE_RATIO * typical_ns
    is_steady = bool(is_alike.mean() >= STEADY_SHARE)
    kept_ns = steps_ns[is_alike] if is_steady else steps_ns
    return Pace(1e9 / float(kept_ns.mean()), is_steady)


@dataclass(slots=True)
class GapFinder:
    """Detects gaps and counts the samples missing in them."""

    tick_ns: int = 0
    """Resolution of the times if they are coarse, such as whole seconds, otherwise 0. A step may be
    longer by this resolution without being a gap."""
    count: int = 0
    gaps: list[Gap] = field(default_factory=list[Gap])

    def look(self, pace: Pace, time_ns: NDArray[np.int64]) -> None:
        """Process sample times, shape (n,); they begin with the last time of the previous call."""
        if not pace.is_steady:
            return
        steps = np.diff(time_ns) * (pace.rate_hz / 1e9)
        allowed = self.tick_ns * (pace.rate_hz / 1e9)
        # A sample that was not lost but written late is followed closely by the next sample.
        with_next = steps + np.append(steps[1:], np.inf)
        for place in np.flatnonzero(
            (steps > GAP_STEPS + allowed) & (with_next > LATE_STEPS + allowed)
        ):
            begin_ns, end_ns = int(time_ns[place]), int(time_ns[place + 1])
            count = round(float(steps[place])) - 1
            self.count += count
            if len(self.gaps) == GAPS_MAX:
                last = self.gaps.pop()
                begin_ns, count = last.begin_ns, last.count + count
            self.gaps.append(Gap(begin_ns, end_ns, count, "no samples in the file"))


@dataclass(slots=True)
class CounterTally:
    """Energy of the same rows from two sources: the instrument's counter and its powers."""

    counted_j: float = 0.0
    integral_j: float = 0.0
    row_count: int = 0
    highest_j: float = 0.0
    """Largest step of the counter from row to row; the counter may be as coarse as this step."""
    _last: tuple[int, float] | None = None
    """Time and counter of the last row."""

    def add(self, time_ns: NDArray[np.int64], power_w: Floats, counter_j: Floats) -> None:
        """Add the next rows, each of shape (n,).

        Rows without a power or a counter are left out. The first row after a gap is also left out,
        because the powers in the gap are missing. The first row after a reset of the counter is
        left out, too.
        """
        last_ns, last_j = self._last or (int(time_ns[0]), math.nan)
        self._last = int(time_ns[-1]), float(counter_j[-1])
        steps_ns = np.diff(time_ns, prepend=last_ns)
        counted_j = np.diff(counter_j, prepend=last_j)
        is_gap = steps_ns > GAP_STEPS * np.median(steps_ns)
        is_used = np.isfinite(power_w) & (counted_j >= 0) & ~is_gap
        self.counted_j += float(counted_j[is_used].sum())
        self.integral_j += float((power_w * steps_ns)[is_used].sum()) / 1e9
        self.row_count += int(np.count_nonzero(is_used))
        self.highest_j = max(self.highest_j, float(counted_j[is_used].max(initial=0.0)))

    @property
    def is_contradiction(self) -> bool:
        """Whether there are enough rows, and the two energies differ by more than their errors."""
        allowed_j = COUNTER_LIMIT_RATIO * abs(self.integral_j) + self.highest_j
        is_apart = abs(self.counted_j - self.integral_j) > allowed_j
        return self.row_count >= COUNTER_MIN_ROWS and is_apart


@dataclass(slots=True)
class SampleTally:
    """Counts of samples, for the loss report."""

    count: int = 0
    missing_count: int = 0
    saturated_count: int = 0

    def add(self, flags: NDArray[np.uint8]) -> None:
        """Count the next samples by their flags."""
        self.count += len(flags)
        self.missing_count += int(np.count_nonzero(flags & int(Flag.MISSING)))
        self.saturated_count += int(np.count_nonzero(flags & int(Flag.SATURATED)))

    def loss(self) -> LossReport:
        """Loss report, which counts the samples that the file marks as missing."""
        return LossReport(
            received_count=self.count - self.missing_count,
            lost_count=self.missing_count,
            saturated_count=self.saturated_count,
        )


def saturated(values: Floats | None, limit: float | None) -> NDArray[np.uint8] | int:
    """Flags of values at the end of an instrument's range, or beyond it.

    Args:
        values: Currents or voltages, shape (n,), NaN if missing; None if they were not recorded.
        limit: End of the range; None if it is unknown.
    """
    if values is None or limit is None:
        return 0
    return (np.abs(values) >= limit).view(np.uint8) * np.uint8(Flag.SATURATED)


@dataclass(slots=True, eq=False)
class TableDecoder:
    """Converts rows of a table to blocks of samples; keeps the last time and value of a block."""

    columns: TableColumns
    supply_v: float | None
    place_of: Callable[[int], str]
    """Function that takes a row number, from 0, and describes the row in errors, such as by its
    line."""
    samples: Samples = Samples.INSTANTS
    may_miss: bool = False
    """Whether a value that is not a number counts as a missing sample. If False, a table with such
    a value is refused."""
    full_rate_hz: float | None = None
    """Full rate of the instrument, at which its program does not average; None: unknown."""
    limit_a: float | None = None
    """Current at the end of the instrument's range; None: unknown."""
    tick_ns: int = 0
    """Resolution of the times if they are coarse, such as whole seconds, otherwise 0."""
    tally: SampleTally = field(default_factory=SampleTally)
    pace: Pace | None = None
    """Pace (rate), computed from the first block because a table does not state its rate."""
    counter: CounterTally = field(default_factory=CounterTally)
    """Compares the table's energy counter with the integral of its powers."""
    _gaps: GapFinder = field(default_factory=GapFinder)
    _last_ns: int | None = None
    _channel: object = None
    _held: tuple[float, int] = (np.nan, int(Flag.MISSING))
    """Power and flags of the previous row, for a file that contains only changes."""

    def __post_init__(self) -> None:
        self._gaps.tick_ns = self.tick_ns

    def loss(self) -> LossReport:
        """Samples that are marked as missing in the table, and samples that are missing in gaps."""
        loss = self.tally.loss()
        lost_count = loss.lost_count + self._gaps.count
        return replace(loss, lost_count=lost_count, gaps=tuple(self._gaps.gaps))

    def refuse_contradiction(self) -> None:
        """Refuse a table whose energy counter contradicts the integral of its powers.

        Raises:
            FileRefused: the energies differ by more than `COUNTER_LIMIT_RATIO`.
        """
        counter = self.counter
        if self.columns.energy is None or not counter.is_contradiction:
            return
        electrical = self.columns.electrical
        names = " and ".join(repr(column.name) for column in electrical.values())
        only = " ".join(
            f"--{quantity} {quote(f'{column.name}:{_SI_UNITS[quantity]}')}"
            for quantity, column in {"time": self.columns.time, **electrical}.items()
        )
        raise FileRefused(
            f"energy counter {self.columns.energy.name!r} increased by {counter.counted_j:.4g} "
            f"J, but the power of column {names} integrates to {counter.integral_j:.4g} J; the "
            f"limit of the difference is {format_percent(COUNTER_LIMIT_RATIO)}. If the counter "
            f"is wrong, pass only the columns to use: {only} --samples {self.samples.value}"
        )

    def block(self, values: Mapping[str, Values]) -> SampleBlock:
        """Convert the next rows.

        Args:
            values: Values by column name, as in the file; NaN for missing values.

        Raises:
            FileRefused: a value is not a number, or the times do not ascend.
        """
        self._refuse_several(values)
        time_ns = self._time_ns(values)
        flags = self._flags(values, len(time_ns))
        is_missing = (flags & int(Flag.MISSING)) != 0
        known: dict[str, Floats] = {}
        for name, column in self.columns.electrical.items():
            raw = values[column.name]
            # Only a sample that is flagged as missing may have no value.
            self._refuse_first(~(np.isfinite(raw) | is_missing), column, "not a number")
            known[name] = np.where(is_missing, np.nan, raw * column.scale)
        flags |= saturated(known.get("current"), self.limit_a)
        if (power_w := known.get("power")) is None:
            voltage_v = known.get("voltage", self.supply_v)
            assert voltage_v is not None, "checked by find_columns"
            power_w = known["current"] * voltage_v
        block = SampleBlock(
            channel=0,
            index0=self.tally.count,
            time_ns=time_ns,
            power_w=power_w,
            current_a=known.get("current"),
            voltage_v=known.get("voltage"),
            flags=flags,
        )
        self.tally.add(flags)
        if self.columns.energy is not None:
            counter_j = values[self.columns.energy.name] * self.columns.energy.scale
            self.counter.add(time_ns, power_w, counter_j)
        if self.pace is None and len(time_ns) > 1:
            self.pace = pace_of(time_ns)
            if self.full_rate_hz and self.pace.rate_hz > FULL_RATIO * self.full_rate_hz:
                self.samples = Samples.INSTANTS
        before_ns = time_ns[0] if self._last_ns is None else self._last_ns
        if self.pace is not None and self.samples is not Samples.HELD:
            self._gaps.look(self.pace, np.concatenate([[before_ns], time_ns]))
        if self.samples is Samples.MEANS:
            block = self._means(block, self._last_ns)
        elif self.samples is Samples.HELD:
            block = self._held_values(block, self._last_ns)
        self._last_ns = int(time_ns[-1])
        return block

    def _means(self, block: SampleBlock, last_ns: int | None) -> SampleBlock:
        """Add to each sample the interval over which its value is a mean.

        After a gap, this interval is one typical step and does not include the gap.
        """
        if last_ns is None:
            typical_ns = 1e9 / self.pace.rate_hz if self.pace else 1.0
            last_ns = int(block.time_ns[0] - max(1.0, typical_ns))
        begin_ns = np.concatenate([[last_ns], block.time_ns[:-1]])
        if self.pace is not None and self.pace.is_steady:
            step_ns = 1e9 / self.pace.rate_hz
            is_gap = block.time_ns - begin_ns > GAP_STEPS * step_ns + self.tick_ns
            begin_ns = np.where(is_gap, block.time_ns - round(step_ns), begin_ns)
        return replace(block, begin_ns=begin_ns.astype(np.int64))

    def _held_values(self, block: SampleBlock, last_ns: int | None) -> SampleBlock:
        """Extend each value from its row to the next row.

        The first row of the file ends no interval, so it adds no sample.
        """
        first = 1 if last_ns is None else 0
        times_ns = block.time_ns if first else np.concatenate([[last_ns or 0], block.time_ns])
        power_w, flags = (
            np.append(self._held[0], block.power_w),
            np.append(self._held[1], block.flags),
        )
        self._held = float(power_w[-1]), int(flags[-1])
        return replace(
            block,
            index0=max(0, block.index0 - 1),
            begin_ns=times_ns[:-1],
            time_ns=times_ns[1:],
            power_w=power_w[first:-1],
            flags=flags[first:-1].astype(np.uint8),
            current_a=None,
            voltage_v=None,
        )

    def _refuse_several(self, values: Mapping[str, Values]) -> None:
        """Refuse rows of several channels, because they are not a single series of power."""
        if (column := self.columns.channel) is None:
            return
        names = values[column.name]
        first = names[0] if not self.tally.count else self._channel
        self._channel = first
        is_other = np.array([name != first for name in names], np.bool_)
        why = (
            f"channel differs from the channel of the first row, {str(first)[:40]!r}: import each "
            "channel from its own file"
        )
        self._refuse_first(is_other, column, why)

    def _flags(self, values: Mapping[str, Values], count: int) -> NDArray[np.uint8]:
        """Flags in the table, plus flags for values that mark an overrange or a missing value."""
        flags = np.zeros(count, np.uint8)
        if (column := self.columns.flags) is not None:
            raw = values[column.name]
            is_wrong = ~((raw >= 0) & (raw <= _FLAG_LIMIT) & (raw == np.floor(raw)))
            self._refuse_first(is_wrong, column, f"flags are whole numbers from 0 to {_FLAG_LIMIT}")
            flags = raw.astype(np.uint8)
        for column in self.columns.electrical.values():
            number = values[column.name].astype(np.float64)
            is_special = np.isfinite(number) & (np.abs(number) > SPECIAL)
            flags |= np.where(is_special, flags_of(number), 0)
            if self.may_miss:
                flags |= np.where(np.isnan(number), int(Flag.MISSING), 0).astype(np.uint8)
        return flags

    def _time_ns(self, values: Mapping[str, Values]) -> NDArray[np.int64]:
        """Times of the rows in ns: the time column or, without one, row number divided by rate."""
        column = self.columns.time
        if column.name == ROWS:
            count = len(next(iter(values.values())))
            rows = np.arange(self.tally.count, self.tally.count + count)
            time_ns: NDArray[np.int64] = np.rint(rows * column.scale).astype(np.int64)
        else:
            raw = values[column.name]
            limit = TIME_LIMIT_NS / column.scale
            self._refuse_first(~(np.abs(raw) < limit), column, "not a time")  # also where it is NaN
            # Integers stay integers: as floats, nanoseconds since 1970 are off by about a hundred.
            scaled = raw * int(column.scale)
            rounded = scaled if scaled.dtype.kind == "i" else np.rint(scaled)
            time_ns = rounded.astype(np.int64)
        before_ns = time_ns[0] - 1 if self._last_ns is None else self._last_ns
        is_late = np.diff(time_ns, prepend=before_ns) <= 0
        self._refuse_first(is_late, column, "the time is not later than in the row before")
        return time_ns

    def _refuse_first(self, is_wrong: NDArray[np.bool_], column: TableColumn, why: str) -> None:
        if is_wrong.any():
            row = self.tally.count + int(np.argmax(is_wrong))
            raise FileRefused(f"{self.place_of(row)}, column {column.name!r}: {why}")


def spread_rows(batches: Iterator[dict[str, Values]], name: str) -> Iterator[dict[str, Values]]:
    """Spread rows evenly up to the next time if they share a time, or if their times step back.

    A program that records the times of packets, or whole seconds, writes several samples with the
    same time. Rows with the same time are buffered only until the next time, so the whole file is
    never in memory.

    Args:
        batches: Values by column name.
        name: Column of the times, in whole nanoseconds.

    Raises:
        FileRefused: more than MAX_ROWS_OF_ONE_TIME rows share a time.
    """
    held: dict[str, Values] = {}
    typical_ns, is_begin = 0, True
    for batch in batches:
        if not held:
            held = batch
            continue
        rows: dict[str, Values] = {}
        for key, values in batch.items():
            parts: list[Any] = [held[key], values]
            rows[key] = np.concatenate(parts)
        time_ns, is_first, typical_ns = _spread_ns(rows[name], typical_ns, is_begin=is_begin)
        count = int(np.flatnonzero(is_first)[-1])
        if len(time_ns) - count > MAX_ROWS_OF_ONE_TIME:
            raise FileRefused(
                f"more than {MAX_ROWS_OF_ONE_TIME} samples have the same time: export finer "
                "times, or pass the rate, as in --rate 1000"
            )
        held = {key: values[count:] for key, values in rows.items()}
        held[name] = np.maximum(held[name], time_ns[count])
        if count:
            is_begin = False
            yield {key: values[:count] for key, values in rows.items()} | {name: time_ns[:count]}
    if held:
        yield held | {name: _spread_ns(held[name], typical_ns, is_begin=is_begin)[0]}


def _spread_ns(
    time_ns: Values, typical_ns: int, *, is_begin: bool
) -> tuple[NDArray[np.int64], NDArray[np.bool_], int]:
    """Spread equal times evenly up to the next time.

    Rows before a gap get the typical duration of a row and are not spread into the gap. The
    recording may begin in the middle of a time step. Then fewer rows than usual have the first time
    of the file, and these rows are placed right before the second time.

    Args:
        time_ns: Times of the rows, shape (n,), n >= 1.
        typical_ns: Typical duration of a row so far, used if all rows share a time.
        is_begin: Whether these are the first rows of the file.

    Returns:
        A tuple: the times, shape (n,); a mask of the first row with each time, shape (n,); the
        typical duration of a row.
    """
    stamped_ns = np.maximum.accumulate(time_ns.astype(np.int64))
    is_first = np.diff(stamped_ns, prepend=stamped_ns[0] - 1) > 0
    starts = np.flatnonzero(is_first)
    counts = np.diff(np.append(starts, len(stamped_ns)))
    steps_ns = np.diff(stamped_ns[starts])
    if len(steps_ns):
        typical_ns = round(float(np.median(steps_ns / counts[:-1])))
        is_gap = steps_ns > GAP_STEPS * float(np.median(steps_ns))
        steps_ns = np.where(is_gap, np.minimum(steps_ns, typical_ns * counts[:-1]), steps_ns)
    lasting_ns = np.append(steps_ns, max(1, typical_ns * int(counts[-1])))
    group = np.cumsum(is_first) - 1
    place = np.arange(len(stamped_ns)) - starts[group]
    spread: NDArray[np.int64] = stamped_ns + (place * lasting_ns[group]) // counts[group]
    if is_begin and len(starts) > 1 and typical_ns * counts[0] < lasting_ns[0]:
        first = np.arange(-counts[0], 0) * typical_ns
        spread[: counts[0]] = stamped_ns[starts[1]] + first
    return spread, is_first, typical_ns
