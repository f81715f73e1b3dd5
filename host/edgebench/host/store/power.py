"""What a meter recorded, in the store: power.parquet, and beside it the raw bytes.

    time_ns    meter clock: the instant, or the end of the interval averaged over
    begin_ns   where that interval begins; null for an instant
    channel, watts_w, volts_v, amps_a, digital, range, flags

A row group holds one channel. The metadata have the meter's header, the losses, and of each row
group its times and its energy, so that the energy of any window takes two row groups to read,
however long the recording is.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from edgebench.host.analysis.integrate import PowerLine, line_of_instants, line_of_means
from edgebench.host.store.layout import POWER_FILE
from edgebench.meters.base import Header, LossReport, Recording, SampleBlock, blocks_of
from edgebench.meters.registry import find_decoder
from edgebench.meters.spool import read_packets
from edgebench.protocol.codec import from_plain, to_plain
from edgebench.protocol.errors import EdgebenchError, MeasurementError, StoreError

GROUP_ROWS = 1 << 17
_KEY = "edgebench"
_SCHEMA = pa.schema(
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
    ]
)
_PACKING: dict[str, Any] = {
    "compression": "zstd",
    "use_dictionary": ["channel", "digital", "range", "flags"],
    "column_encoding": {
        **dict.fromkeys(("time_ns", "begin_ns"), "DELTA_BINARY_PACKED"),
        **dict.fromkeys(("watts_w", "volts_v", "amps_a"), "BYTE_STREAM_SPLIT"),
    },
}
"""Times of a steady meter become nothing, and what is alike in numbers is together."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """What is known of a row group without reading it."""

    channel: str
    row_count: int
    flags: int = 0
    """All that is wrong with any of its samples."""
    node_count: int = 0
    """Of its line of power; 0: none of its samples is a number, and nothing below is known."""
    first_ns: int = 0
    last_ns: int = 0
    first_w: float = 0.0
    last_w: float = 0.0
    max_w: float = 0.0
    energy_j: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class PowerFacts:
    """The metadata."""

    header: Header
    loss: LossReport
    groups: tuple[Group, ...] = ()

    def of(self, channel: str) -> tuple[Group, ...]:
        """The row groups of a channel that have numbers, in order of time."""
        return tuple(one for one in self.groups if one.channel == channel and one.node_count)


def write_power(directory: Path, recording: Recording) -> PowerFacts:
    """Decode a recording into power.parquet, a row group at a time.

    Raises:
        MeasurementError: its driver is unknown here, or it is damaged.
    """
    decoder = find_decoder(recording.header)

    def loss() -> LossReport:
        # What the meter itself says of its end is the cause of what the session saw.
        found = decoder.loss()
        return replace(found, trouble=found.trouble or recording.trouble)

    blocks = blocks_of(decoder, read_packets(recording.path))
    return write_blocks(directory, recording.header, blocks, loss)


def write_blocks(
    directory: Path,
    header: Header,
    blocks: Iterable[SampleBlock],
    loss: Callable[[], LossReport],
) -> PowerFacts:
    """The same from blocks, wherever they come from; the losses are asked for behind the last."""
    names = [channel.name for channel in header.capability.channels]
    with pq.ParquetWriter(directory / POWER_FILE, _SCHEMA, **_PACKING) as writer:
        out = _Writer(writer, names, header.capability.is_averaging)
        for block in blocks:
            out.add(block)
        out.finish()
        facts = PowerFacts(header=header, loss=loss(), groups=tuple(out.groups))
        writer.add_key_value_metadata({_KEY: json.dumps(to_plain(facts))})
    return facts


@dataclass(slots=True)
class _Writer:
    """Collects blocks until they are a row group."""

    writer: Any
    names: list[str]
    is_averaging: bool
    groups: list[Group] = field(default_factory=list[Group])
    _waiting: dict[int, list[SampleBlock]] = field(default_factory=dict[int, list[SampleBlock]])

    def add(self, block: SampleBlock) -> None:
        waiting = self._waiting.setdefault(block.channel, [])
        waiting.append(block)
        if sum(len(one.time_ns) for one in waiting) >= GROUP_ROWS:
            self._write(block.channel)

    def finish(self) -> None:
        for channel in sorted(self._waiting):
            self._write(channel)

    def _write(self, channel: int) -> None:
        blocks = self._waiting.pop(channel)
        table = _table(blocks, self.names[channel])
        self.writer.write_table(table, row_group_size=len(table))
        self.groups.append(_group(self.names[channel], table, self.is_averaging))


def _table(blocks: list[SampleBlock], channel: str) -> Any:  # a pyarrow table
    time_ns = np.concatenate([block.time_ns for block in blocks])
    columns = {
        "time_ns": time_ns,
        "channel": pa.array([channel] * len(time_ns), pa.string()),
        "watts_w": np.concatenate([block.power_w for block in blocks]),
        "flags": np.concatenate([block.flags for block in blocks]),
    }
    for name, attribute in (
        ("begin_ns", "begin_ns"),
        ("volts_v", "voltage_v"),
        ("amps_a", "current_a"),
        ("digital", "digital"),
        ("range", "ranges"),
    ):
        parts = [getattr(block, attribute) for block in blocks]
        kind = _SCHEMA.field(name).type
        columns[name] = (
            pa.nulls(len(time_ns), kind)
            if any(part is None for part in parts)
            else pa.array(np.concatenate(parts), kind, safe=False)
        )
    return pa.table([columns[name] for name in _SCHEMA.names], schema=_SCHEMA)


def _group(channel: str, table: Any, is_averaging: bool) -> Group:
    line = _line(table, is_averaging)
    flags = int(np.bitwise_or.reduce(table["flags"].to_numpy()))
    group = Group(channel=channel, row_count=len(table), flags=flags)
    if not len(line.time_ns):
        return group
    return replace(
        group,
        node_count=len(line.time_ns),
        first_ns=int(line.time_ns[0]),
        last_ns=int(line.time_ns[-1]),
        first_w=float(line.power_w[0]),
        last_w=float(line.power_w[-1]),
        max_w=float(line.power_w.max()),
        energy_j=line.energy_j(),
    )


def _line(table: Any, is_averaging: bool) -> PowerLine:
    time_ns = table["time_ns"].to_numpy()
    power_w = table["watts_w"].to_numpy()
    if is_averaging:
        return line_of_means(table["begin_ns"].to_numpy(), time_ns, power_w)
    return line_of_instants(time_ns, power_w)


@dataclass(frozen=True, slots=True)
class PowerFile:
    """A stored recording, read where it is asked for."""

    path: Path
    facts: PowerFacts

    @classmethod
    def open(cls, directory: Path) -> PowerFile:
        """The recording of a run.

        Raises:
            StoreError: there is none, or it is not readable.
        """
        return cls(directory / POWER_FILE, read_power_facts(directory))

    def energy_j(self, channel: str, begin_ns: int, end_ns: int) -> float:
        """Energy of a window of the meter's clock.

        Raises:
            MeasurementError: the window is empty, or reaches beyond what was recorded.
            StoreError: the file is damaged.
        """
        return sum(self._energies(channel, begin_ns, end_ns))

    def _energies(self, channel: str, begin_ns: int, end_ns: int) -> Iterator[float]:
        groups = [
            (number, group)
            for number, group in enumerate(self.facts.groups)
            if group.channel == channel and group.node_count
        ]
        outline = _outline([group for _, group in groups])
        outline.cut(begin_ns, end_ns)  # complains of a window that is not inside
        for number, group in groups:
            first, last = max(begin_ns, group.first_ns), min(end_ns, group.last_ns)
            if first < last:
                is_whole = (first, last) == (group.first_ns, group.last_ns)
                yield group.energy_j if is_whole else self._line(number).cut(first, last).energy_j()
        for (_, one), (_, other) in pairwise(groups):
            first, last = max(begin_ns, one.last_ns), min(end_ns, other.first_ns)
            if first < last:
                yield _outline([one, other]).cut(first, last).energy_j()

    def _line(self, group: int) -> PowerLine:
        try:
            with pq.ParquetFile(self.path) as file:
                table = file.read_row_group(group)
        except (OSError, pa.ArrowException) as exc:
            raise StoreError(f"power of the run is not readable: {exc}: {self.path}") from exc
        return _line(table, self.facts.header.capability.is_averaging)


def _outline(groups: list[Group]) -> PowerLine:
    """First and last node of each row group."""
    if not groups:
        raise MeasurementError("the meter recorded nothing of this channel")
    times = [(group.first_ns, group.last_ns) for group in groups]
    powers = [(group.first_w, group.last_w) for group in groups]
    return PowerLine(np.array(times).reshape(-1), np.array(powers).reshape(-1))


def read_power_facts(directory: Path) -> PowerFacts:
    """What power.parquet says of itself.

    Raises:
        StoreError: there is none, or it is not readable.
    """
    return read_facts_of(directory / POWER_FILE)


def read_facts_of(path: Path) -> PowerFacts:
    """The same of a file of another name.

    Raises:
        StoreError: it is not readable, or not one of ours.
    """
    try:
        plain = json.loads(pq.read_metadata(path).metadata[_KEY.encode()])
        return from_plain(plain, PowerFacts)
    except (OSError, ValueError, KeyError, TypeError, pa.ArrowException, EdgebenchError) as exc:
        raise StoreError(f"power of the run is not readable: {exc}: {path}") from exc
