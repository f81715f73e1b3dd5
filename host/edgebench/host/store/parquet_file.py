"""Parquet files of stored runs, with a check of their footers before any column is read.

Theory of operation. A Parquet file of a few kilobytes can contain a billion rows, because equal
values take no space. A bundle with such a file may come from an untrusted source. But the footer
states the numbers of rows and row groups, and the types of the columns. So a file is read only if

    its footer is short,
    its columns have the types that edgebench writes, or wider numbers,
    no column is nested,
    the number of rows is not larger than in the record of the run,
    the number of rows is not too large for the size of the file,
    no row group is larger than the row groups that edgebench writes.

The size limits the number of rows, because times of measurements do not repeat.

Text columns are read as dictionaries of their few distinct values, not as a string per row.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from edgebench.protocol.errors import OutOfMemory, RunDamaged
from edgebench.protocol.text import one_line

MAX_FOOTER_BYTES = 1 << 26
"""Maximum size of a footer; a week's recording of a fast meter has a footer of about 40 MB."""
FREE_ROWS = 1 << 20
"""Number of rows that a file of any size may have. If all latencies are equal, as on a
simulated device, they take almost no space."""
ROWS_PER_BYTE = 2
"""Maximum number of rows per byte of a file; in real traces, a row takes at least 6 bytes."""
MAX_GROUP_ROWS = 1 << 21
"""Maximum number of rows of a row group; edgebench writes at most 2^20, pyarrow's default."""
MAX_ROW_BYTES = 128
"""Maximum size of a row before compression, bytes, including its strings."""
_TAIL = struct.Struct("<I4s")
"""Length of the footer, then `PAR1`; source: https://parquet.apache.org/docs/file-format/."""


@dataclass(frozen=True, slots=True)
class Layout:
    """Columns that edgebench writes into one kind of file."""

    columns: Mapping[str, Any]
    """Maps each column to its Arrow type. Other tools may write wider numbers, and older files may
    lack a column."""
    rows_per_byte: int = ROWS_PER_BYTE
    """Maximum number of rows per byte of a file."""

    @property
    def texts(self) -> list[str]:
        """Text columns, which are read as dictionaries."""
        return [name for name, kind in self.columns.items() if kind == TEXT]


TEXT = pa.dictionary(pa.int32(), pa.string())
"""Type in which text columns are read, independent of the file."""


@contextmanager
def open_parquet(path: Path, layout: Layout, *, max_rows: int | None) -> Iterator[Any]:
    """Open a checked file as pyarrow's `ParquetFile`; read errors in the block count as damage.

    Args:
        path: The file.
        layout: Columns of the file.
        max_rows: Maximum number of rows according to the run's record; None if the record states
            none.

    Raises:
        RunDamaged: the file is missing, not readable, or has an unexpected layout.
        OutOfMemory: a part of the file does not fit into memory.
    """
    try:
        _check_footer_size(path)
        metadata = pq.read_metadata(path)
        fault = _fault_of_rows(metadata, layout, max_rows, path.stat().st_size)
        if fault is not None:
            raise RunDamaged(f"trace is damaged: {fault}: {path}")
        texts = [name for name in layout.texts if name in metadata.schema.names]
        with pq.ParquetFile(path, metadata=metadata, read_dictionary=texts) as file:
            if (fault := _fault_of_columns(file.schema_arrow, layout)) is not None:
                raise RunDamaged(f"trace is damaged: {fault}: {path}")
            yield file
    except FileNotFoundError as exc:
        raise RunDamaged(f"trace not readable: no such file: {path}") from exc
    except MemoryError as exc:
        raise OutOfMemory(f"trace does not fit into memory: {one_line(exc)}: {path}") from exc
    except (OSError, pa.ArrowException) as exc:
        raise RunDamaged(f"trace not readable: {one_line(exc)}: {path}") from exc


def _check_footer_size(path: Path) -> None:
    """Check the length of a file's footer.

    Raises:
        RunDamaged: the footer is longer than `MAX_FOOTER_BYTES`, or the file is too short.
    """
    with path.open("rb") as file:
        size_bytes = file.seek(0, os.SEEK_END)
        if size_bytes < _TAIL.size:
            raise RunDamaged(f"trace not readable: {size_bytes} bytes, not a Parquet file: {path}")
        file.seek(size_bytes - _TAIL.size)
        footer_bytes, magic = _TAIL.unpack(file.read(_TAIL.size))
    if magic == b"PAR1" and footer_bytes > MAX_FOOTER_BYTES:
        raise RunDamaged(
            f"trace is damaged: its footer is {footer_bytes} bytes, at most {MAX_FOOTER_BYTES} are "
            f"allowed: {path}"
        )


def _fault_of_rows(
    metadata: Any, layout: Layout, max_rows: int | None, size_bytes: int
) -> str | None:
    """Reason why a file of this size cannot have the rows that its footer states, or None."""
    row_count = metadata.num_rows
    if max_rows is not None and row_count > max_rows:
        return f"{row_count} rows, at most {max_rows} according to the run's record"
    if row_count > (most := FREE_ROWS + layout.rows_per_byte * size_bytes):
        return f"{row_count} rows, at most {most} in a file of {size_bytes} bytes"
    total = 0
    for number in range(metadata.num_row_groups):
        group = metadata.row_group(number)
        total += group.num_rows
        if not 0 <= group.num_rows <= MAX_GROUP_ROWS:
            return f"a row group of {group.num_rows} rows, at most {MAX_GROUP_ROWS} are allowed"
        if group.total_byte_size > MAX_ROW_BYTES * group.num_rows + MAX_GROUP_ROWS:
            size = f"{group.total_byte_size} bytes, more than allowed"
            return f"a row group of {group.num_rows} rows has {size}"
    return None if total == row_count else f"{row_count} rows, but {total} in its row groups"


def _fault_of_columns(schema: Any, layout: Layout) -> str | None:
    """Reason why columns do not match a layout; None if they match."""
    if len(set(schema.names)) < len(schema.names):
        return "two columns with the same name"
    for name, needed in layout.columns.items():
        if name in schema.names and not _holds(kind := schema.field(name).type, needed):
            return f"column {name!r} has type {one_line(str(kind))}, must have type {needed}"
    return None


def _holds(kind: Any, needed: Any) -> bool:
    """Whether an Arrow type can represent all values of another type."""
    if kind == needed:
        return True
    if not pa.types.is_primitive(kind) or kind.bit_width <= needed.bit_width:
        return False
    is_integer, is_unsigned = pa.types.is_integer, pa.types.is_unsigned_integer
    return bool(
        (pa.types.is_floating(kind) and pa.types.is_floating(needed))
        or (pa.types.is_signed_integer(kind) and is_integer(needed))
        or (is_unsigned(kind) and is_unsigned(needed))
    )


def read_columns(file: Any, layout: Layout) -> Any:
    """Arrow table of the columns that both layout and file have; other columns are not read."""
    names = [name for name in layout.columns if name in file.schema_arrow.names]
    return file.read(columns=names)
