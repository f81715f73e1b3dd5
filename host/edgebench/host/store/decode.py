"""A meter's raw bytes, decoded again: the samples that a recording should have."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from edgebench.host.store.layout import POWER_FILE
from edgebench.host.store.power_file import read_power_facts
from edgebench.host.store.recording import Decoded, decode, open_recording
from edgebench.protocol.errors import RunDamaged, StoreError

RATIO_TOLERANCE = 1e-9
"""Means may differ in the last digits between numpy versions; everything else must be equal."""
SINGLE_TOLERANCE = 1e-6
"""Tolerance of columns in single precision."""


def decode_into(directory: Path, spool: Path) -> Decoded:
    """The samples of raw bytes, into another directory.

    Raises:
        StoreError: the bytes cannot be read, or the samples not be written.
    """
    try:
        return decode(directory, open_recording(spool))
    except OSError as exc:
        raise StoreError(f"recording not decoded: {exc.strerror or exc}: {spool}") from exc


def spool_trouble(spool: Path, directory: Path) -> str | None:
    """Why a directory's samples are not those of the meter's raw bytes; None where they are.

    A file that is missing shows by itself.
    """
    stored = directory / POWER_FILE
    if not (spool.exists() and stored.exists()):
        return None
    with tempfile.TemporaryDirectory(prefix="edgebench-verify-") as folder:
        decoded = decode_into(Path(folder), spool)
        trouble = decoded.facts.loss.trouble
        if decoded.is_damaged and trouble != read_power_facts(directory).loss.trouble:
            return trouble
        if not have_same_rows(stored, Path(folder) / POWER_FILE):
            return f"not what {spool.relative_to(directory)} decodes to"
    return None


def have_same_rows(one: Path, other: Path) -> bool:
    """Compared a row group at a time: an hour of a fast meter is larger than memory."""
    try:
        with pq.ParquetFile(one) as mine, pq.ParquetFile(other) as theirs:
            count = mine.num_row_groups
            return count == theirs.num_row_groups and all(
                _is_same_table(mine.read_row_group(number), theirs.read_row_group(number))
                for number in range(count)
            )
    except pa.ArrowException as exc:
        raise RunDamaged(f"power of the run is not readable: {exc}: {one}") from exc


def _is_same_table(one: Any, other: Any) -> bool:
    """Numbers may differ in their last digits between machines, as everywhere."""
    if len(one) != len(other) or one.schema != other.schema:
        return False
    return all(
        _is_close(one[name], other[name])
        if pa.types.is_floating(one.schema.field(name).type)
        else one[name].equals(other[name])
        for name in one.schema.names
    )


def _is_close(one: Any, other: Any) -> bool:
    tolerance = SINGLE_TOLERANCE if one.type == pa.float32() else RATIO_TOLERANCE
    mine, theirs = (np.asarray(column.to_numpy(), np.float64) for column in (one, other))
    return bool(np.allclose(mine, theirs, rtol=tolerance, atol=0.0, equal_nan=True))
