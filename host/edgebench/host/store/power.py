"""Format and writer of power.parquet: samples of a meter in row groups.

    time_ns    meter clock: the instant, or the end of the averaging interval
    begin_ns   start of the averaging interval; null for an instant
    channel, watts_w, volts_v, amps_a, digital, range, flags
    spike_w    power that the driver's filter removed; null without a filter

Long recordings also have power-outline.parquet, with the lowest, mean and highest power of blocks
of 1,024 samples. So a chart of an hour is drawn without reading samples.

A row group contains a single channel. The metadata contain the meter's header, the report of lost
samples, and the times and the energy of each row group. Therefore at most two row groups are read
to compute the energy of any window, independent of the length of the recording.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from edgebench.host.analysis.energy.integrate import (
    Floats,
    PowerLine,
    between_j,
    line_of_instants,
    line_of_means,
)
from edgebench.host.analysis.energy.outline import OutlineBuilder
from edgebench.host.analysis.energy.plausible.texture import SampleRows, Texture, texture_of
from edgebench.host.store.arrow import table_of, to_arrow, to_numpy
from edgebench.host.store.layout import POWER_FILE, POWER_OUTLINE_FILE
from edgebench.meters.arrival import ArrivalEnvelope, ArrivalLine
from edgebench.meters.base import Flag, Header, LossReport, SampleBlock
from edgebench.protocol.plain import to_plain

GROUP_ROWS = 1 << 17
OUTLINE_ROWS = 1 << 10
"""Number of segments of the power line in a block of the outline."""
OUTLINED_ROWS = 1 << 17
"""Maximum number of rows of a recording without an outline; so few rows are read quickly."""
OUTLINE_COLUMNS = ("begin_ns", "end_ns", "low_w", "mean_w", "high_w")
KEY = "edgebench"
"""Key of edgebench's metadata in the Parquet file."""
_PART_FILE = f"{POWER_FILE}.part"
"""Name of the file while it is being written."""
SCHEMA = pa.schema(
    [
        ("time_ns", pa.int64()),
        ("begin_ns", pa.int64()),
        ("channel", pa.string()),
        ("watts_w", pa.float64()),
        ("volts_v", pa.float32()),
        ("amps_a", pa.float32()),
        ("digital", pa.uint8()),
        ("range", pa.uint8()),
        ("flags", pa.uint8()),
        ("spike_w", pa.float32()),
    ]
)
"""Columns; files of older versions lack `spike_w`."""
_PACKING: dict[str, Any] = {
    "compression": "zstd",
    "use_dictionary": ["channel", "digital", "range", "flags"],
    "column_encoding": {
        **dict.fromkeys(("time_ns", "begin_ns"), "DELTA_BINARY_PACKED"),
        **dict.fromkeys(("watts_w", "volts_v", "amps_a", "spike_w"), "BYTE_STREAM_SPLIT"),
    },
}
"""Parquet encodings. Delta encoding stores evenly spaced times in almost no space. Byte-stream
splitting puts similar bytes of floating-point numbers next to each other."""


@dataclass(frozen=True, slots=True)
class RangeShare:
    """Energy and time in a measuring range of the meter."""

    range: int
    energy_j: float
    duration_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class RowGroup:
    """Summary of a row group, stored in the metadata."""

    channel: str
    row_count: int
    flags: int = 0
    """Bitwise OR of the flags of all samples."""
    node_count: int = 0
    """Number of points of the power line; if it is 0, all samples are NaN, and the power is
    unknown."""
    first_ns: int = 0
    last_ns: int = 0
    first_w: float = 0.0
    last_w: float = 0.0
    min_w: float = 0.0
    max_w: float = 0.0
    energy_j: float = 0.0
    volts_v: float | None = None
    """Mean voltage; None if it was not measured."""
    shares: tuple[RangeShare, ...] = ()
    """Energy and time in each measuring range; empty if the meter has no ranges."""
    spike_j: float = 0.0
    """Energy that the driver's filter removed."""
    between_j: float | None = None
    """Standard uncertainty of the energy due to the unknown power between the samples; None in
    files of older versions."""
    missing_count: int = 0
    """Number of missing rows, whose power is NaN and whose time is in no other row's interval."""
    rows_ns: tuple[int, int] | None = None
    """Times of the first and the last row, if rows are missing; None otherwise."""
    texture: Texture | None = None
    """Statistics of repeated values; None in files of older versions."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PowerFacts:
    """Metadata of power.parquet."""

    header: Header
    loss: LossReport
    groups: tuple[RowGroup, ...] = ()
    arrival: ArrivalLine | None = None
    """Arrival times of the samples, for a meter with its own clock."""

    def of(self, channel: str) -> tuple[RowGroup, ...]:
        """Row groups of a channel with a known power, in order of time."""
        return tuple(
            group for group in self.groups if group.channel == channel and group.node_count
        )


def remove_power(directory: Path) -> None:
    """Remove the power files of an earlier attempt, complete or partial."""
    for name in (POWER_FILE, _PART_FILE, POWER_OUTLINE_FILE):
        (directory / name).unlink(missing_ok=True)


def write_blocks(
    directory: Path,
    header: Header,
    blocks: Iterable[SampleBlock],
    loss: Callable[[], LossReport],
    envelope: ArrivalEnvelope | None = None,
) -> PowerFacts:
    """Write blocks of samples to power.parquet; `loss` is called after the last block.

    The file gets its final name only once it is complete.
    """
    part = directory / _PART_FILE
    capability = header.capability
    try:
        with pq.ParquetWriter(part, SCHEMA, **_PACKING) as parquet:
            names = [channel.name for channel in capability.channels]
            writer = _RowGroupWriter(parquet, names, capability.is_averaging)
            for block in blocks:
                writer.add(block)
            writer.finish()
            facts = PowerFacts(
                header=header,
                loss=loss(),
                groups=tuple(writer.groups),
                arrival=envelope.line() if envelope and capability.is_uniform else None,
            )
            parquet.add_key_value_metadata({KEY: json.dumps(to_plain(facts))})
        writer.write_outline(directory / POWER_OUTLINE_FILE)
        part.replace(directory / POWER_FILE)
    except BaseException:  # also on Ctrl-C: the next attempt starts from scratch
        part.unlink(missing_ok=True)
        (directory / POWER_OUTLINE_FILE).unlink(missing_ok=True)
        raise
    return facts


@dataclass(slots=True)
class _RowGroupWriter:
    """Collects blocks into row groups."""

    parquet: Any
    names: list[str]
    is_averaging: bool
    groups: list[RowGroup] = field(default_factory=list[RowGroup])
    _waiting: dict[int, list[SampleBlock]] = field(default_factory=dict[int, list[SampleBlock]])
    _row_counts: dict[int, int] = field(default_factory=dict[int, int])
    """Maps each channel to the number of rows in its blocks that are not written yet."""
    _outlines: dict[int, OutlineBuilder] = field(default_factory=dict[int, OutlineBuilder])

    def add(self, block: SampleBlock) -> None:
        self._waiting.setdefault(block.channel, []).append(block)
        row_count = self._row_counts.get(block.channel, 0) + len(block.time_ns)
        self._row_counts[block.channel] = row_count
        if row_count >= GROUP_ROWS:
            self._write(block.channel)

    def finish(self) -> None:
        for channel in sorted(self._waiting):
            self._write(channel)

    def _write(self, channel: int) -> None:
        blocks = self._waiting.pop(channel)
        del self._row_counts[channel]
        table = _table(blocks, self.names[channel])
        self.parquet.write_table(table, row_group_size=len(table))
        line = line_of(table, self.is_averaging)
        self.groups.append(row_group_of(self.names[channel], table, self.is_averaging, line))
        self._outlines.setdefault(channel, OutlineBuilder(OUTLINE_ROWS)).add(line)

    def write_outline(self, path: Path) -> None:
        """Write the outline of the recording, if it has more than `OUTLINED_ROWS` rows."""
        path.unlink(missing_ok=True)
        if sum(group.row_count for group in self.groups) <= OUTLINED_ROWS:
            return
        tables = []
        for channel, builder in sorted(self._outlines.items()):
            outline = builder.outline()
            columns = {name: getattr(outline, name) for name in OUTLINE_COLUMNS}
            number = np.full(len(outline), channel, np.int32)
            tables.append(table_of({"channel": number, **columns}))
        pq.write_table(pa.concat_tables(tables), path, compression="zstd")


def _table(blocks: list[SampleBlock], channel: str) -> Any:  # a pyarrow table
    time_ns = np.concatenate([block.time_ns for block in blocks])
    columns = {
        "time_ns": time_ns,
        "channel": pa.repeat(channel, len(time_ns)),
        "watts_w": np.concatenate([block.power_w for block in blocks]),
        "flags": np.concatenate([block.flags for block in blocks]),
    }
    for name, attribute in (
        ("begin_ns", "begin_ns"),
        ("volts_v", "voltage_v"),
        ("amps_a", "current_a"),
        ("digital", "digital"),
        ("range", "ranges"),
        ("spike_w", "spike_w"),
    ):
        parts = [getattr(block, attribute) for block in blocks]
        kind = SCHEMA.field(name).type
        columns[name] = (
            pa.nulls(len(time_ns), kind)
            if any(part is None for part in parts)
            else to_arrow(np.concatenate(parts)).cast(kind, safe=False)
        )
    return pa.table([columns[name] for name in SCHEMA.names], schema=SCHEMA)


def row_group_of(channel: str, table: Any, is_averaging: bool, line: PowerLine) -> RowGroup:
    """Summary of the rows of a channel; `line` is the power line of these rows."""
    flags = int(np.bitwise_or.reduce(to_numpy(table["flags"])))
    group = RowGroup(channel=channel, row_count=len(table), flags=flags)
    if count := len(missing_ns(table, is_averaging)):
        time_ns = to_numpy(table["time_ns"])
        rows_ns = int(time_ns[0]), int(time_ns[-1])
        group = replace(group, missing_count=count, rows_ns=rows_ns)
    if not len(line.time_ns):
        return group
    begin_ns, end_ns = int(line.time_ns[0]), int(line.time_ns[-1])
    return replace(
        group,
        node_count=len(line.time_ns),
        first_ns=begin_ns,
        last_ns=end_ns,
        first_w=float(line.power_w[0]),
        last_w=float(line.power_w[-1]),
        min_w=float(line.power_w.min()),
        max_w=float(line.power_w.max()),
        energy_j=line.energy_j(),
        volts_v=mean_volts_v(table),
        shares=shares_of(table, line, is_averaging, begin_ns, end_ns),
        spike_j=spikes_j(table),
        between_j=between_samples_j(table, is_averaging),
        texture=texture_of(samples_of(table)),
    )


def samples_of(table: Any) -> SampleRows:
    """Samples of a table that have a value, except samples that the driver marked as duplicates."""
    power_w = to_numpy(table["watts_w"])
    flags = to_numpy(table["flags"])
    is_kept = np.isfinite(power_w) & ((flags & np.uint8(Flag.DUPLICATE)) == 0)
    kept = table if is_kept.all() else table.filter(to_arrow(is_kept))

    def column(name: str) -> Floats | None:
        values = kept[name]
        if values.null_count:
            return None
        found: Floats = to_numpy(values).astype(np.float64)
        return found if np.isfinite(found).all() else None

    return SampleRows(
        time_ns=to_numpy(kept["time_ns"]),
        power_w=to_numpy(kept["watts_w"]),
        current_a=column("amps_a"),
        voltage_v=column("volts_v"),
    )


def between_samples_j(table: Any, is_averaging: bool) -> float:
    """Standard uncertainty of the energy due to the unknown power between instantaneous samples.

    Samples that are marked as duplicates are left out. The result is 0 for samples that are means
    over their intervals.
    """
    if is_averaging:
        return 0.0
    is_duplicate = to_numpy(table["flags"]) & np.uint8(Flag.DUPLICATE)
    first = table.filter(to_arrow(is_duplicate == 0)) if is_duplicate.any() else table
    return between_j(line_of(first, is_averaging))


def spikes_j(table: Any) -> float:
    """Energy that the driver's filter removed; the samples must be evenly spaced."""
    if len(table) < 2 or table["spike_w"].null_count:
        return 0.0
    time_ns, spike_w = to_numpy(table["time_ns"]), to_numpy(table["spike_w"])
    period_s = float(time_ns[-1] - time_ns[0]) / 1e9 / (len(table) - 1)
    return float(np.nansum(spike_w, dtype=np.float64)) * period_s


def missing_ns(table: Any, is_averaging: bool) -> NDArray[np.int64]:
    """Times of the missing rows, whose power is NaN and whose time is in no other row's interval.

    The interval of the next valid reading of a counter is the whole time since the last valid
    reading, so the NaN rows between these two readings are not missing.
    """
    time_ns = to_numpy(table["time_ns"])
    is_missing = np.isnan(to_numpy(table["watts_w"]))
    if is_averaging and is_missing.any():
        begin_ns = to_numpy(table["begin_ns"])
        known_ns = np.where(is_missing, np.iinfo(np.int64).max, begin_ns)
        following_ns = np.minimum.accumulate(known_ns[::-1])[::-1]
        is_missing &= following_ns > begin_ns
    missing: NDArray[np.int64] = time_ns[is_missing]
    return missing


def missing_spans_ns(table: Any, is_averaging: bool) -> NDArray[np.int64]:
    """Start and end of each gap (a sequence of missing rows), shape (g, 2).

    A gap between instantaneous samples extends from the row before the gap to the row after the
    gap, if these rows are in this row group. A gap of averaged samples extends from the start of
    its first interval to the end of its last interval.
    """
    time_ns = to_numpy(table["time_ns"])
    is_missing = np.isin(time_ns, missing_ns(table, is_averaging))
    edges = np.diff(np.concatenate([[False], is_missing, [False]]).astype(np.int8))
    first, last = np.flatnonzero(edges == 1), np.flatnonzero(edges == -1) - 1
    if is_averaging:
        return np.stack([to_numpy(table["begin_ns"])[first], time_ns[last]], axis=1)
    before, behind = np.maximum(first - 1, 0), np.minimum(last + 1, len(time_ns) - 1)
    return np.stack([time_ns[before], time_ns[behind]], axis=1)


def mean_volts_v(table: Any) -> float | None:
    """Mean of the measured voltage; None if the voltage was not measured."""
    volts_v = to_numpy(table["volts_v"].drop_null())
    volts_v = volts_v[~np.isnan(volts_v)]
    return float(volts_v.mean(dtype=np.float64)) if len(volts_v) else None


def shares_of(
    table: Any, line: PowerLine, is_averaging: bool, begin_ns: int, end_ns: int
) -> tuple[RangeShare, ...]:
    """Energy and time in each measuring range between two times.

    A segment of the power line is in the measuring range of the sample at its end.
    """
    if not len(table) or table["range"].null_count:
        return ()
    ranges = to_numpy(table["range"])[~np.isnan(to_numpy(table["watts_w"]))].astype(np.int64)
    ranges = np.repeat(ranges, 2)[1:] if is_averaging else ranges[1:]
    passed_s = np.diff(np.clip(line.time_ns, begin_ns, end_ns)) / 1e9
    energy_j = passed_s * (line.power_w[1:] + line.power_w[:-1]) / 2
    return tuple(
        RangeShare(int(r), float(energy_j[ranges == r].sum()), float(passed_s[ranges == r].sum()))
        for r in np.unique(ranges[passed_s > 0])
    )


def line_of(table: Any, is_averaging: bool) -> PowerLine:
    """Power over time, from the rows that are not NaN."""
    time_ns = to_numpy(table["time_ns"])
    power_w = to_numpy(table["watts_w"])
    if is_averaging:
        return line_of_means(to_numpy(table["begin_ns"]), time_ns, power_w)
    return line_of_instants(time_ns, power_w)
