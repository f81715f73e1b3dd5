"""Reads Parquet in batches of rows: a plain table, or the power.parquet of a run or session."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from edgebench.host.power.imports.blocks import TableDecoder, Values
from edgebench.host.power.imports.columns import TableColumns, find_columns
from edgebench.host.result.facts import ImportOptions
from edgebench.host.store.power import SCHEMA, PowerFacts
from edgebench.meters.base import SampleBlock
from edgebench.protocol.errors import FileRefused
from edgebench.protocol.text import one_line

BATCH_ROWS = 1 << 16
OWN_KEY = b"edgebench"
_ADDED_LATER = ("spike_w",)
"""Columns that files of older edgebench versions lack."""


def is_own(path: Path) -> bool:
    """Whether edgebench wrote the file.

    Raises:
        FileRefused: the file is not Parquet.
        OSError: the file is not readable.
    """
    try:
        return OWN_KEY in (pq.read_metadata(path).metadata or {})
    except pa.ArrowException as exc:
        raise FileRefused(f"not a Parquet file: {one_line(exc)}") from exc


def read_columns(path: Path, options: ImportOptions) -> TableColumns:
    """The columns of a plain table, by quantity.

    Raises:
        FileRefused: there is no power, or a used column is not numeric.
    """
    schema = pq.read_schema(path)
    columns = find_columns(schema.names, options)
    for column in columns.used:
        kind = schema.field(column.index).type
        if not (pa.types.is_integer(kind) or pa.types.is_floating(kind)):
            raise FileRefused(f"column {column.name!r} holds {kind}, not numbers")
    return columns


def read_rows(path: Path, table: TableDecoder) -> Iterator[SampleBlock]:
    """Yield all samples of a plain table.

    Raises:
        FileRefused: a value is invalid, or the file is damaged.
    """
    names = [column.name for column in table.columns.used]
    channel = table.columns.channel
    words = [channel.name] if channel else []
    for batch in _batches(path, names + words):
        if batch.num_rows:
            values: dict[str, Values] = {}
            for name in names:
                numbers = batch.column(name).to_numpy(zero_copy_only=False)
                # Integers stay integers if every row has a value.
                is_whole = numbers.dtype.kind in "iu"
                values[name] = numbers.astype(np.int64 if is_whole else np.float64)
            texts = {name: np.array(batch.column(name).to_pylist(), np.object_) for name in words}
            yield table.block(values | texts)


def read_own(path: Path, facts: PowerFacts) -> Iterator[SampleBlock]:
    """Yield all samples of a power.parquet in file order; each block belongs to a single channel.

    Raises:
        FileRefused: the file is damaged, or its rows do not match its metadata.
    """
    _check_schema(pq.read_schema(path))
    capability = facts.header.capability
    numbers = {channel.name: number for number, channel in enumerate(capability.channels)}
    counts = dict.fromkeys(numbers, 0)
    last_ns: dict[str, int] = {}
    for batch in _batches(path):
        # A batch may span row groups and thus channels.
        names = batch.column("channel").to_pylist()
        for channel in dict.fromkeys(names):
            if channel not in numbers:
                raise FileRefused(f"channel {channel!r} is not a channel of the meter")
            part = batch.filter(pa.array([name == channel for name in names]))
            block = _own_block(part, numbers[channel], counts[channel])
            if capability.is_averaging and block.begin_ns is None:
                raise FileRefused(f"channel {channel!r}: the intervals lack their beginnings")
            before_ns = last_ns.get(channel, int(block.time_ns[0]))
            if np.any(np.diff(block.time_ns, prepend=before_ns) < 0):
                raise FileRefused(f"channel {channel!r}: times do not ascend")
            counts[channel] += part.num_rows
            last_ns[channel] = int(block.time_ns[-1])
            yield block
    # The losses in the metadata apply only to this number of samples.
    for channel, count in counts.items():
        row_count = sum(group.row_count for group in facts.groups if group.channel == channel)
        if count != row_count:
            raise FileRefused(f"channel {channel!r}: {count} of {row_count} samples")


def _check_schema(schema: Any) -> None:
    for field in SCHEMA:
        index = schema.get_field_index(field.name)
        if index < 0 and field.name not in _ADDED_LATER:
            raise FileRefused(f"damaged: no column {field.name!r}")
        if index >= 0 and schema.field(index).type != field.type:
            raise FileRefused(
                f"damaged: column {field.name!r} holds {schema.field(index).type}, not {field.type}"
            )


def _own_block(batch: Any, channel: int, index0: int) -> SampleBlock:
    def column(name: str, kind: type[np.generic]) -> Any:
        if name in _ADDED_LATER and name not in batch.schema.names:
            return None
        values = batch.column(name)
        return None if values.null_count else values.to_numpy(zero_copy_only=False).astype(kind)

    time_ns, flags = column("time_ns", np.int64), column("flags", np.uint8)
    power_w = column("watts_w", np.float64)
    if time_ns is None or flags is None or power_w is None:
        raise FileRefused("a sample lacks time, power or flags")
    if np.isinf(power_w).any():
        raise FileRefused("the power of a sample is not a number")
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


def _batches(path: Path, columns: list[str] | None = None) -> Iterator[Any]:
    try:
        with pq.ParquetFile(path) as file:
            yield from file.iter_batches(batch_size=BATCH_ROWS, columns=columns)
    except (pa.ArrowException, OSError, KeyError) as exc:
        raise FileRefused(f"damaged Parquet: {one_line(exc)}") from exc
