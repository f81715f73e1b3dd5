"""Stored recording of power, which is read on demand.

The metadata contain the times and the energy of each row group. Therefore at most two row
groups are read to compute the energy between two times, independent of the length of the recording.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from functools import partial, reduce
from operator import or_
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from edgebench.host.analysis.energy.integrate import Floats, Nanoseconds, PowerLine
from edgebench.host.analysis.energy.plausible.texture import SampleRows, texture_of
from edgebench.host.analysis.energy.power_trace import TracePiece
from edgebench.host.analysis.energy.uncertainty import EnergyWindow, RangePart
from edgebench.host.store.arrow import to_arrow, to_numpy
from edgebench.host.store.layout import POWER_FILE
from edgebench.host.store.parquet_file import TEXT, Layout, open_parquet
from edgebench.host.store.power import (
    KEY,
    SCHEMA,
    PowerFacts,
    RangeShare,
    RowGroup,
    between_samples_j,
    line_of,
    mean_volts_v,
    missing_ns,
    missing_spans_ns,
    row_group_of,
    samples_of,
    shares_of,
    spikes_j,
)
from edgebench.meters.arrival import ArrivalLine
from edgebench.meters.base import Flag, Header, LossReport
from edgebench.protocol.errors import EdgebenchError, MeasurementError, OutOfMemory, RunDamaged
from edgebench.protocol.plain import from_plain

_K = TypeVar("_K")
_V = TypeVar("_V")
_DIGITAL_BITS = 8
Read = Callable[[int, list[str]], Any]
"""Function that reads the named columns of a row group, given the number of the row group."""
TableKey = tuple[int, tuple[str, ...]]
"""Number of a row group, and its columns that were read."""
_SAMPLE_COLUMNS = [name for name in SCHEMA.names if name not in ("channel", "digital")]
"""All columns except `digital` and `channel`; the metadata contain the channel of a row group."""
KEPT_LINES = 2
"""Number of row groups whose power line stays in memory, up to 6 MB each. Two are enough, because
the ends of a window are in at most two row groups."""
KEPT_TABLES = 2
"""Number of tables that stay in memory, because successive windows of a run often need the samples
of the same row group."""
CONSTANT_ROWS_PER_BYTE = 32
"""Limit on the rows per byte of power.parquet. The limit is higher than for other files, because
the value of a fast meter may never change. For example, a dead meter takes a byte for 18 rows. A
high limit is safe, because the file is read by row group."""
POWER_LAYOUT = Layout(
    {field.name: field.type for field in SCHEMA} | {"channel": TEXT}, CONSTANT_ROWS_PER_BYTE
)
"""Columns of power.parquet."""


@dataclass(frozen=True, slots=True)
class PowerFile:
    """Recording of a run; implements `PowerTrace`."""

    path: Path
    facts: PowerFacts
    _metadata: Any = field(repr=False, compare=False)
    """Parquet metadata of the file."""
    _left_out: Mapping[str, Nanoseconds] = field(
        default_factory=dict[str, Nanoseconds], compare=False
    )
    """Maps each channel to the ascending times of samples that are read as missing."""
    _kept_lines: dict[int, PowerLine] = field(
        default_factory=dict[int, PowerLine], init=False, repr=False, compare=False
    )
    """Maps the position of each recently used row group to its power over time."""
    _kept_tables: dict[TableKey, Any] = field(
        default_factory=dict[TableKey, Any], init=False, repr=False, compare=False
    )
    """Tables that were read last, found by row group and columns."""

    @classmethod
    def open(cls, directory: Path) -> PowerFile:
        """Open the recording of a run.

        Raises:
            RunDamaged: the file is missing or not readable.
        """
        path = directory / POWER_FILE
        metadata = _read_metadata(path)
        return cls(path, _facts_of(metadata, path), metadata)

    @property
    def header(self) -> Header:
        """Description of the meter."""
        return self.facts.header

    @property
    def loss(self) -> LossReport:
        """Completeness of the recording."""
        return self.facts.loss

    @property
    def arrival(self) -> ArrivalLine | None:
        """Arrival times of the samples."""
        return self.facts.arrival

    @property
    def flags(self) -> int:
        """Bitwise OR of the flags of all samples."""
        return reduce(or_, (group.flags for group in self.facts.groups), 0)

    def span_ns(self, channel: str) -> tuple[int, int]:
        """First and last time of a channel on the meter's clock.

        Raises:
            MeasurementError: the channel has no valid sample.
        """
        line = _outline(self.facts.of(channel))
        return int(line.time_ns[0]), int(line.time_ns[-1])

    def energy_j(self, channel: str, begin_ns: int, end_ns: int) -> float:
        """Energy of a channel in a window between two times of the meter's clock.

        Raises:
            MeasurementError: the window is empty, or extends beyond the recording.
            RunDamaged: the file is damaged.
        """
        _outline(self.facts.of(channel)).check(begin_ns, end_ns)
        begin_j, end_j = self.cumulative_j(channel, np.array([begin_ns, end_ns]))
        return float(end_j - begin_j)

    def cumulative_j(self, channel: str, time_ns: Nanoseconds) -> Floats:
        """Energy from the channel's first sample to each of these times, shape (m,).

        Raises:
            MeasurementError: a time is outside the recording.
            RunDamaged: the file is damaged.
        """
        groups = self._numbered(channel)
        outline = _outline([group for _, group in groups])
        if len(time_ns):
            outline.check_inside(int(time_ns.min()), int(time_ns.max()))
        # Segments are alternately row groups and the lines between adjacent row groups.
        passed_s = np.diff(outline.time_ns) / 1e9
        pieces_j = passed_s * (outline.power_w[1:] + outline.power_w[:-1]) / 2
        pieces_j[::2] = [group.energy_j for _, group in groups]
        before_j = np.concatenate([[0.0], np.cumsum(pieces_j)])
        order = np.argsort(time_ns, kind="stable")
        ordered = time_ns[order]
        first = np.searchsorted(ordered, outline.time_ns[:-1], side="left")
        last = np.searchsorted(ordered, outline.time_ns[1:], side="right")
        energy_j = np.full(len(ordered), np.nan)
        with self._reading() as read:
            for piece in np.flatnonzero(first < last):
                if piece % 2:
                    ends = slice(piece, piece + 2)
                    line = PowerLine(outline.time_ns[ends], outline.power_w[ends])
                else:
                    line = self._line(read, groups[piece // 2][0])
                here = slice(first[piece], last[piece])
                energy_j[here] = before_j[piece] + line.cumulative_j(ordered[here])
        in_given_order = np.empty_like(energy_j)
        in_given_order[order] = energy_j
        return in_given_order

    def window(self, channel: str, begin_ns: int, end_ns: int) -> EnergyWindow:
        """Energy between two times, with the quantities that determine its uncertainty.

        Raises:
            MeasurementError: the window is empty, or extends beyond the recording.
            RunDamaged: the file is damaged.
        """
        energy_j = self.energy_j(channel, begin_ns, end_ns)
        duration_s = (end_ns - begin_ns) / 1e9
        parts = self._parts(channel, begin_ns, end_ns)
        capability = self.header.capability
        mean_w = energy_j / duration_s
        gaps = (min(end_ns, gap.end_ns) - max(begin_ns, gap.begin_ns) for gap in self.loss.gaps)
        gaps_s = sum(max(0, passed_ns) for passed_ns in gaps) / 1e9
        missing_count = self._missing_count(channel, begin_ns, end_ns)
        volts_v = [part.volts_v for part in parts if part.volts_v is not None]
        given_v = self.header.facts.get("supply_v")
        measured_v = sum(volts_v) / len(volts_v) if volts_v else None
        return EnergyWindow(
            energy_j=energy_j,
            duration_s=duration_s,
            sample_count=sum(part.row_count for part in parts),
            supply_v=measured_v or (float(given_v) if given_v else math.nan),
            edge_power_w=(mean_w, mean_w),
            ranges=_range_parts(parts, energy_j, duration_s),
            missing_s=gaps_s + missing_count / capability.rate_hz,
            saturated_s=self._saturated_count(channel, begin_ns, end_ns) / capability.rate_hz,
            sample_s=max(1 / capability.rate_hz, capability.smoothing_s or 0.0),
            spike_j=sum(part.spike_j for part in parts),
            between_j=math.hypot(*(part.between_j or 0.0 for part in parts)),
            power_w_span=max(part.max_w for part in parts) - min(part.min_w for part in parts),
        )

    def peak_w(self, channel: str, begin_ns: int, end_ns: int) -> float:
        """Highest power of a channel in a window.

        Raises:
            MeasurementError: the window has no sample.
            RunDamaged: the file is damaged.
        """
        return max(part.max_w for part in self._parts(channel, begin_ns, end_ns))

    def _line(self, read: Read, number: int) -> PowerLine:
        """Power over time in a row group; kept in memory, as the next window often needs it."""
        line = self._kept_lines.get(number)
        if line is None:
            line = line_of(read(number, ["time_ns", "begin_ns", "watts_w"]), self._is_averaging)
            _kept(self._kept_lines, number, line, KEPT_LINES)
        return line

    def lines(self, channel: str) -> Iterator[PowerLine]:
        """Power over time of a channel, by row group.

        Raises:
            RunDamaged: the file is damaged.
        """
        with self._reading() as read:
            for number, _ in self._numbered(channel):
                yield line_of(read(number, ["time_ns", "begin_ns", "watts_w"]), self._is_averaging)

    def gaps_ns(self, channel: str) -> Nanoseconds:
        """Start and end of each gap without a sample, ascending, shape (g, 2), meter clock.

        The energy is computed with power interpolated linearly across gaps.

        Raises:
            RunDamaged: the file is damaged.
        """
        parts = [np.array([(gap.begin_ns, gap.end_ns) for gap in self.loss.gaps], np.int64)]
        with self._reading() as read:
            for number, group in enumerate(self.facts.groups):
                if group.channel == channel and group.missing_count:
                    parts.append(
                        missing_spans_ns(read(number, _SAMPLE_COLUMNS), self._is_averaging)
                    )
        gaps = np.concatenate([part.reshape(-1, 2) for part in parts])
        ordered: Nanoseconds = gaps[np.argsort(gaps[:, 0], kind="stable")]
        return ordered

    def samples(
        self, channel: str, begin_ns: int | None, end_ns: int | None
    ) -> tuple[Nanoseconds, Floats]:
        """Times and powers of a channel's samples between two meter times; None means no bound.

        Returns:
            Times of the samples on the meter's clock, and watts, both of shape (n,); missing
            samples are NaN.

        Raises:
            RunDamaged: the file is damaged.
        """
        times: list[Nanoseconds] = [np.zeros(0, np.int64)]
        powers: list[Floats] = [np.zeros(0)]
        with self._reading() as read:
            for number, group in self._numbered(channel):
                first_ns, last_ns = group.rows_ns or (group.first_ns, group.last_ns)
                if (begin_ns is not None and last_ns < begin_ns) or (
                    end_ns is not None and end_ns < first_ns
                ):
                    continue
                table = read(number, ["time_ns", "watts_w"])
                time_ns = to_numpy(table["time_ns"])
                bounds = (
                    0 if begin_ns is None else np.searchsorted(time_ns, begin_ns),
                    None if end_ns is None else np.searchsorted(time_ns, end_ns, side="right"),
                )
                times.append(time_ns[slice(*bounds)])
                powers.append(to_numpy(table["watts_w"])[slice(*bounds)].astype(np.float64))
        return np.concatenate(times), np.concatenate(powers)

    def pieces(self, channel: str) -> list[TracePiece]:
        """Parts of a channel's recording, each of which is a row group.

        Raises:
            RunDamaged: the file is damaged.
        """
        found: list[TracePiece] = []
        for number, group in self._numbered(channel):
            texture = group.texture or texture_of(self._rows(number))
            if texture is not None:
                found.append(
                    TracePiece(
                        first_ns=group.first_ns,
                        last_ns=group.last_ns,
                        sample_count=group.row_count,
                        lowest_w=group.min_w,
                        highest_w=group.max_w,
                        texture=texture,
                        read=partial(self._rows, number),
                    )
                )
        return found

    def without(self, times_ns: Mapping[str, Nanoseconds]) -> PowerFile:
        """A view of the recording without each channel's samples at these times.

        Raises:
            RunDamaged: the file is damaged.
        """
        left_out = dict(self._left_out)
        for channel, some_ns in times_ns.items():
            before_ns = left_out.get(channel, np.zeros(0, np.int64))
            left_out[channel] = np.union1d(before_ns, some_ns)
        masked = replace(self, _left_out=left_out)
        groups = list(self.facts.groups)
        with masked._reading() as read:
            for channel, some_ns in times_ns.items():
                for number, group in self._numbered(channel):
                    first, last = np.searchsorted(some_ns, [group.first_ns, group.last_ns + 1])
                    if first < last:
                        table = read(number, _SAMPLE_COLUMNS)
                        line = line_of(table, self._is_averaging)
                        groups[number] = row_group_of(channel, table, self._is_averaging, line)
        return replace(masked, facts=replace(self.facts, groups=tuple(groups)))

    def _rows(self, number: int) -> SampleRows:
        """Samples of a row group that have a value."""
        with self._reading() as read:
            return samples_of(read(number, ["time_ns", "watts_w", "flags", "amps_a", "volts_v"]))

    def falling_edges(self) -> dict[int, Nanoseconds]:
        """Map each digital input to its falling edges, halfway between high and low samples."""
        falls: dict[int, list[Nanoseconds]] = {}
        channel = self.header.capability.channels[0].name
        last: tuple[int, int] | None = None
        with self._reading() as read:
            for number, _ in self._numbered(channel):
                table = read(number, ["time_ns", "digital"])
                if table["digital"].null_count:
                    return {}
                last = _note_falls(falls, table, last)
        return {bit: np.concatenate(times) for bit, times in falls.items()}

    def _numbered(self, channel: str) -> list[tuple[int, RowGroup]]:
        """Row groups of a channel with a known power, with their position in the file."""
        return [
            (number, group)
            for number, group in enumerate(self.facts.groups)
            if group.channel == channel and group.node_count
        ]

    def _parts(self, channel: str, begin_ns: int, end_ns: int) -> list[RowGroup]:
        """Row groups of a window; the first and the last are cut to the window."""
        parts: list[RowGroup] = []
        with self._reading() as read:
            for number, group in self._numbered(channel):
                first, last = max(begin_ns, group.first_ns), min(end_ns, group.last_ns)
                if first >= last:
                    continue
                is_whole = (first, last) == (group.first_ns, group.last_ns)
                if is_whole and group.between_j is not None:
                    parts.append(group)
                else:
                    parts.append(
                        _part(read(number, _SAMPLE_COLUMNS), self._is_averaging, first, last)
                    )
        if not parts:
            raise MeasurementError("no sample in the window")
        return parts

    @property
    def _is_averaging(self) -> bool:
        return self.header.capability.is_averaging

    def _missing_count(self, channel: str, begin_ns: int, end_ns: int) -> int:
        """Number of missing rows in a window; see `missing_ns`."""
        count = 0
        with self._reading() as read:
            for number, group in enumerate(self.facts.groups):
                span_ns = group.rows_ns
                if group.channel != channel or not group.missing_count or span_ns is None:
                    continue
                if begin_ns <= span_ns[0] and span_ns[1] <= end_ns:
                    count += group.missing_count
                elif begin_ns <= span_ns[1] and span_ns[0] <= end_ns:
                    time_ns = missing_ns(read(number, _SAMPLE_COLUMNS), self._is_averaging)
                    count += int(np.count_nonzero((time_ns >= begin_ns) & (time_ns <= end_ns)))
        return count

    def _saturated_count(self, channel: str, begin_ns: int, end_ns: int) -> int:
        """Number of saturated rows (value at the end of the measuring range) in a window."""
        count = 0
        with self._reading() as read:
            for number, group in self._numbered(channel):
                is_apart = group.last_ns < begin_ns or end_ns < group.first_ns
                if is_apart or not group.flags & Flag.SATURATED:
                    continue
                table = read(number, ["time_ns", "flags"])
                time_ns, flags = to_numpy(table["time_ns"]), to_numpy(table["flags"])
                is_inside = (time_ns >= begin_ns) & (time_ns <= end_ns)
                count += int(np.count_nonzero(flags[is_inside] & np.uint8(Flag.SATURATED)))
        return count

    @contextmanager
    def _reading(self) -> Iterator[Read]:
        """Reader of row groups, which opens the file on first use.

        The reader reuses metadata that were read before. An hour of a fast meter has thousands of
        row groups, and reading their metadata takes longer than reading a row group.
        """
        with ExitStack() as stack:
            opened: list[Any] = []

            def read(number: int, columns: list[str]) -> Any:
                key = number, tuple(columns)
                if key in self._kept_tables:
                    return self._kept_tables[key]
                try:
                    if not opened:
                        file = pq.ParquetFile(self.path, metadata=self._metadata)
                        opened.append(stack.enter_context(file))
                    table = self._masked(number, opened[0].read_row_group(number, columns))
                    return _kept(self._kept_tables, key, table, KEPT_TABLES)
                except MemoryError as exc:
                    raise OutOfMemory(f"power does not fit into memory: {self.path}") from exc
                except (OSError, pa.ArrowException) as exc:
                    raise _unreadable(exc, self.path) from exc

            yield read

    def _masked(self, number: int, table: Any) -> Any:
        """The table of a row group, with NaN for the power of samples that are left out."""
        times_ns = self._left_out.get(self.facts.groups[number].channel)
        if times_ns is None or "watts_w" not in table.column_names:
            return table
        power_w = to_numpy(table["watts_w"]).copy()
        power_w[np.isin(to_numpy(table["time_ns"]), times_ns)] = np.nan
        place = table.column_names.index("watts_w")
        return table.set_column(place, "watts_w", to_arrow(power_w))


def _kept(values: dict[_K, _V], key: _K, value: _V, max_count: int) -> _V:
    """Return the value after adding it to a cache; a full cache drops its oldest values."""
    while len(values) >= max_count:
        values.pop(next(iter(values)))
    values[key] = value
    return value


def _note_falls(
    falls: dict[int, list[Nanoseconds]], table: Any, last: tuple[int, int] | None
) -> tuple[int, int]:
    """Add each input's falling edges in a row group; return the last sample for the next call."""
    time_ns, digital = to_numpy(table["time_ns"]), to_numpy(table["digital"])
    if last is not None:
        time_ns = np.concatenate([[last[0]], time_ns])
        digital = np.concatenate([np.array([last[1]], np.uint8), digital])
    fell = digital[:-1] & ~digital[1:]
    middle_ns = (time_ns[:-1] + time_ns[1:]) // 2
    for bit in range(_DIGITAL_BITS):
        if (is_edge := (fell >> bit) & 1 == 1).any():
            falls.setdefault(bit, []).append(middle_ns[is_edge])
    return int(time_ns[-1]), int(digital[-1])


def _part(table: Any, is_averaging: bool, begin_ns: int, end_ns: int) -> RowGroup:
    """Row group cut to a window."""
    line = line_of(table, is_averaging)
    time_ns = to_numpy(table["time_ns"])
    inside = table.filter(to_arrow((time_ns >= begin_ns) & (time_ns <= end_ns)))
    cut = line.cut(begin_ns, end_ns)
    return RowGroup(
        channel="",
        row_count=len(inside),
        min_w=float(cut.power_w.min()),
        max_w=float(cut.power_w.max()),
        volts_v=mean_volts_v(inside),
        shares=shares_of(table, line, is_averaging, begin_ns, end_ns),
        spike_j=spikes_j(inside),
        between_j=between_samples_j(inside, is_averaging),
    )


def _range_parts(
    groups: list[RowGroup], energy_j: float, duration_s: float
) -> dict[int | None, RangePart]:
    """Energy and time in each measuring range.

    The energy and the time of segments between row groups are divided among the ranges, in
    proportion to the energy and the time of each range.
    """
    shares: list[RangeShare] = [share for group in groups for share in group.shares]
    sum_j, sum_s = (
        sum(share.energy_j for share in shares),
        sum(share.duration_s for share in shares),
    )
    if not sum_j or not sum_s:
        return {}
    return {
        number: RangePart(
            energy_j=energy_j / sum_j * sum(o.energy_j for o in shares if o.range == number),
            duration_s=duration_s / sum_s * sum(o.duration_s for o in shares if o.range == number),
        )
        for number in sorted({share.range for share in shares})
    }


def _outline(groups: Sequence[RowGroup]) -> PowerLine:
    """Line through the first and the last node of each row group."""
    if not groups:
        raise MeasurementError("the meter recorded nothing of this channel")
    times = [(group.first_ns, group.last_ns) for group in groups]
    powers = [(group.first_w, group.last_w) for group in groups]
    return PowerLine(np.array(times).reshape(-1), np.array(powers).reshape(-1))


def read_power_facts(directory: Path) -> PowerFacts:
    """Metadata of a run's power.parquet.

    Raises:
        RunDamaged: the file is missing or not readable.
    """
    return read_facts_of(directory / POWER_FILE)


def read_facts_of(path: Path) -> PowerFacts:
    """Metadata of a power file, whose name need not be power.parquet.

    Raises:
        RunDamaged: the file is not readable, or was not written by edgebench.
    """
    return _facts_of(_read_metadata(path), path)


def _read_metadata(path: Path) -> Any:
    """Read and check the Parquet metadata of a file; later readers of the file reuse them."""
    try:
        with open_parquet(path, POWER_LAYOUT, max_rows=None) as file:
            return file.metadata
    except RunDamaged as exc:
        raise _unreadable(exc, path) from exc


def _facts_of(metadata: Any, path: Path) -> PowerFacts:
    text = (metadata.metadata or {}).get(KEY.encode())
    if text is None:
        raise _unreadable("no metadata of the meter", path)
    try:
        facts = from_plain(json.loads(text), PowerFacts)
    except (ValueError, KeyError, TypeError, EdgebenchError) as exc:
        raise _unreadable(exc, path) from exc
    expected = [group.row_count for group in facts.groups]
    stored = [metadata.row_group(i).num_rows for i in range(metadata.num_row_groups)]
    if expected and expected != stored:
        raise _unreadable(f"row groups have {sum(stored)} of {sum(expected)} samples", path)
    return facts


def _unreadable(why: object, path: Path) -> RunDamaged:
    return RunDamaged(f"power of the run is not readable: {why}: {path}")
