"""Parquet files of stored runs: their footers are checked before a column is read.

Theory of operation. A Parquet file of some kilobytes may hold a thousand million rows: equal values
cost nothing, and a bundle may come from a stranger. But the footer has the numbers of rows and row
groups, and the types of the columns. So a file is read only if

    its footer is short,
    its columns have the types that edgebench writes, or wider numbers: no nested ones,
    it has no more rows than the record of the run,
    it has no more rows than its bytes may hold: times of measurements do not repeat,
    its row groups are as small as those that edgebench writes.

Texts are read as the few distinct ones that they are, and not once for each row.
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
"""Limit on a footer; that of a week of a fast meter has some 40 MB, with an account of each row
group."""
FREE_ROWS = 1 << 20
"""Rows that a file of any size may have: a simulated device may have the same latency each time."""
ROWS_PER_BYTE = 2
"""Limit on the rows for each byte of a file; of a real trace, a row takes 6 bytes and more."""
MAX_GROUP_ROWS = 1 << 21
"""Limit on the rows of a row group; pyarrow's own default, 2^20, is the most that is written."""
MAX_ROW_BYTES = 128
"""Limit on the bytes of a row before compression, with those of its texts."""
_TAIL = struct.Struct("<I4s")
"""Length of the footer, and PAR1; source: https://parquet.apache.org/docs/file-format/."""


@dataclass(frozen=True, slots=True)
class Layout:
    """Columns of one kind of file, as edgebench writes them."""

    columns: Mapping[str, Any]
    """Arrow type of each column that is read, by its name; other tools may write wider numbers, and
    a column may be missing in older files."""

    @property
    def texts(self) -> list[str]:
        """Columns of texts, which are read as indices into the distinct ones."""
        return [name for name, kind in self.columns.items() if kind == TEXT]


TEXT = pa.dictionary(pa.int32(), pa.string())
"""Type of a column of texts, however it was written."""


@contextmanager
def open_parquet(path: Path, layout: Layout, *, max_rows: int | None) -> Iterator[Any]:
    """The checked file, as pyarrow's `ParquetFile`; an error as it is read is damage of the run.

    Args:
        path: The file.
        layout: Its columns.
        max_rows: Limit on its rows by the record of the run; None: the record has none.

    Raises:
        RunDamaged: the file is missing, not readable, or not as edgebench writes it.
        OutOfMemory: a part of the file does not fit into memory.
    """
    try:
        _check_footer_size(path)
        metadata = pq.read_metadata(path)
        fault = _fault_of_rows(metadata, max_rows, path.stat().st_size)
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
    """Refuse a file whose footer is too long to be read."""
    with path.open("rb") as file:
        size_bytes = file.seek(0, os.SEEK_END)
        if size_bytes < _TAIL.size:
            raise RunDamaged(f"trace not readable: {size_bytes} bytes are no Parquet file: {path}")
        file.seek(size_bytes - _TAIL.size)
        footer_bytes, magic = _TAIL.unpack(file.read(_TAIL.size))
    if magic == b"PAR1" and footer_bytes > MAX_FOOTER_BYTES:
        raise RunDamaged(
            f"trace is damaged: a footer of {footer_bytes} bytes, at most {MAX_FOOTER_BYTES}: "
            f"{path}"
        )


def _fault_of_rows(metadata: Any, max_rows: int | None, size_bytes: int) -> str | None:
    """Why a file of this size cannot have the rows of its footer; None if it can."""
    row_count = metadata.num_rows
    if max_rows is not None and row_count > max_rows:
        return f"{row_count} rows, at most {max_rows} by the record of the run"
    if row_count > (most := FREE_ROWS + ROWS_PER_BYTE * size_bytes):
        return f"{row_count} rows, at most {most} in a file of {size_bytes} bytes"
    total = 0
    for number in range(metadata.num_row_groups):
        group = metadata.row_group(number)
        total += group.num_rows
        if not 0 <= group.num_rows <= MAX_GROUP_ROWS:
            return f"a row group of {group.num_rows} rows, at most {MAX_GROUP_ROWS}"
        if group.total_byte_size > MAX_ROW_BYTES * group.num_rows + MAX_GROUP_ROWS:
            return f"a row group of {group.num_rows} rows has {group.total_byte_size} bytes"
    return None if total == row_count else f"{row_count} rows, {total} in its row groups"


def _fault_of_columns(schema: Any, layout: Layout) -> str | None:
    """Why columns are not those of a layout; None if they are."""
    if len(set(schema.names)) < len(schema.names):
        return "two columns of one name"
    for name, needed in layout.columns.items():
        if name in schema.names and not _holds(kind := schema.field(name).type, needed):
            return f"column {name!r} is of {one_line(str(kind))}, must be of {needed}"
    return None


def _holds(kind: Any, needed: Any) -> bool:
    """Whether an Arrow type has every value of another one."""
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
    """Arrow table of the columns of a layout that a file has; other columns are not read."""
    names = [name for name in layout.columns if name in file.schema_arrow.names]
    return file.read(columns=names)
