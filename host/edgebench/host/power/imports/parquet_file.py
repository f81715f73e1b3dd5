"""Parquet, batch by batch: a plain table, or power.parquet of another run or session."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from edgebench.host.power.imports.blocks import Rows, Values
from edgebench.host.power.imports.columns import Columns, find_columns
from edgebench.host.store.power import SCHEMA, PowerFacts
from edgebench.meters.base import SampleBlock
from edgebench.protocol.errors import FileRefused

BATCH_ROWS = 1 << 16
OWN_KEY = b"edgebench"
_ADDED_LATER = ("spike_w",)
"""Columns that files of older versions are without."""


def is_own(path: Path) -> bool:
    """Whether edgebench wrote it.

    Raises:
        FileRefused: it is no Parquet.
        OSError: it is not readable.
    """
    try:
        return OWN_KEY in (pq.read_metadata(path).metadata or {})
    except pa.ArrowException as exc:
        raise FileRefused(f"not a Parquet file: {_line(exc)}") from exc


def read_columns(path: Path, supply_v: float | None) -> Columns:
    """What the columns of a plain table mean.

    Raises:
        FileRefused: they are not enough, or no numbers.
    """
    schema = pq.read_schema(path)
    columns = find_columns(schema.names, supply_v)
    for column in columns.used:
        kind = schema.field(column.place).type
        if not (pa.types.is_integer(kind) or pa.types.is_floating(kind)):
            raise FileRefused(f"column {column.name!r} holds {kind}, no numbers")
    return columns


def read_rows(path: Path, rows: Rows) -> Iterator[SampleBlock]:
    """All samples of a plain table.

    Raises:
        FileRefused: a value is wrong, or the file is damaged.
    """
    names = [column.name for column in rows.columns.used]
    channel = rows.columns.channel
    words = [channel.name] if channel else []
    for batch in _batches(path, names + words):
        if batch.num_rows:
            values = {name: _values(batch.column(name)) for name in names}
            told = {name: np.array(batch.column(name).to_pylist(), np.object_) for name in words}
            yield rows.block(values | told)


def read_own(path: Path, facts: PowerFacts) -> Iterator[SampleBlock]:
    """All samples of a power.parquet, channel by channel as they stand there.

    Raises:
        FileRefused: it is damaged, or its rows are not those that its account is of.
    """
    _check_schema(pq.read_schema(path))
    capability = facts.header.capability
    places = {one.name: place for place, one in enumerate(capability.channels)}
    counts = [0] * len(places)
    last_ns: dict[int, int] = {}
    for batch in _batches(path):
        # A batch may reach over the end of a row group, and so of a channel.
        names = batch.column("channel").to_pylist()
        for channel in dict.fromkeys(names):
            if channel not in places:
                raise FileRefused(f"channel {channel!r} is none of the meter's")
            place = places[channel]
            part = batch.filter(pa.array([name == channel for name in names]))
            block = _own_block(part, place, counts[place])
            if capability.is_averaging and block.begin_ns is None:
                raise FileRefused(f"channel {channel!r}: intervals without a beginning")
            before_ns = last_ns.get(place, int(block.time_ns[0]))
            if np.any(np.diff(block.time_ns, prepend=before_ns) < 0):
                raise FileRefused(f"channel {channel!r}: time does not ascend")
            counts[place] += part.num_rows
            last_ns[place] = int(block.time_ns[-1])
            yield block
    _check_counts(facts, dict(zip(places, counts, strict=True)))


def _check_counts(facts: PowerFacts, counts: dict[str, int]) -> None:
    """What is known of the losses is of all the samples that there were, and of no others."""
    for channel, count in counts.items():
        told = sum(one.row_count for one in facts.groups if one.channel == channel)
        if count != told:
            raise FileRefused(f"channel {channel!r}: {count} samples of {told}")


def _check_schema(found: Any) -> None:
    for field in SCHEMA:
        place = found.get_field_index(field.name)
        if place < 0 and field.name not in _ADDED_LATER:
            raise FileRefused(f"damaged: no column {field.name!r}")
        if place >= 0 and found.field(place).type != field.type:
            raise FileRefused(
                f"damaged: column {field.name!r} holds {found.field(place).type}, no {field.type}"
            )


def _own_block(batch: Any, channel: int, index0: int) -> SampleBlock:
    def column(name: str, kind: type[np.generic]) -> Any:
        if name in _ADDED_LATER and name not in batch.schema.names:
            return None
        found = batch.column(name)
        return None if found.null_count else found.to_numpy(zero_copy_only=False).astype(kind)

    time_ns, flags = column("time_ns", np.int64), column("flags", np.uint8)
    power_w = column("watts_w", np.float64)
    if time_ns is None or flags is None or power_w is None:
        raise FileRefused("a sample has no time, no power or no flags")
    if np.isinf(power_w).any():
        raise FileRefused("the power of a sample is no number")
    return SampleBlock(
        channel=channel,
        index0=index0,
        time_ns=time_ns,
        begin_ns=column("begin_ns", np.int64),
        power_w=power_w,
        voltage_v=column("volts_v", np.float64),
        current_a=column("amps_a", np.float64),
        digital=column("digital", np.uint8),
        ranges=column("range", np.uint8),
        flags=flags,
        spike_w=column("spike_w", np.float64),
    )


def _values(column: Any) -> Values:
    """Integers stay what they are where no row is without a value."""
    values = column.to_numpy(zero_copy_only=False)
    kind = np.int64 if values.dtype.kind in "iu" else np.float64
    found: Values = values.astype(kind)
    return found


def _batches(path: Path, columns: list[str] | None = None) -> Iterator[Any]:
    try:
        with pq.ParquetFile(path) as file:
            yield from file.iter_batches(batch_size=BATCH_ROWS, columns=columns)
    except (pa.ArrowException, OSError, KeyError) as exc:
        raise FileRefused(f"damaged Parquet: {_line(exc)}") from exc


def _line(exc: BaseException) -> str:
    return (str(exc).splitlines() or [type(exc).__name__])[0][:200]
