"""Decode the raw bytes of a meter again, to check the stored samples of a recording."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from edgebench.host.store.arrow import to_numpy
from edgebench.host.store.layout import POWER_FILE
from edgebench.host.store.parquet_file import open_parquet
from edgebench.host.store.power_file import POWER_LAYOUT, read_power_facts
from edgebench.host.store.recording import DecodedSamples, decode, open_recording
from edgebench.protocol.errors import StoreError

RATIO_TOLERANCE = 1e-9
"""Relative tolerance for floats, because the last digits of means depend on numpy's version."""
SINGLE_TOLERANCE = 1e-6
"""Relative tolerance for columns in single precision."""


def decode_into(directory: Path, spool: Path) -> DecodedSamples:
    """Decode raw bytes into another directory.

    Raises:
        StoreError: the bytes cannot be read, or the samples cannot be written.
    """
    try:
        return decode(directory, open_recording(spool))
    except OSError as exc:
        raise StoreError(f"recording not decoded: {exc.strerror or exc}: {spool}") from exc


def spool_trouble(spool: Path, directory: Path) -> str | None:
    """Reason why a directory's samples differ from the meter's raw bytes; None if equal.

    Missing files are not reported here: `verify` detects them by their digests.
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
            return f"differs from the decoded {spool.relative_to(directory)}"
    return None


def have_same_rows(one: Path, other: Path) -> bool:
    """Whether two power files have the same rows.

    The files are compared by row group, because an hour of a fast meter does not fit into memory.
    """
    with (
        open_parquet(one, POWER_LAYOUT, max_rows=None) as mine,
        open_parquet(other, POWER_LAYOUT, max_rows=None) as theirs,
    ):
        count = mine.num_row_groups
        return count == theirs.num_row_groups and all(
            _is_same_table(mine.read_row_group(number), theirs.read_row_group(number))
            for number in range(count)
        )


def _is_same_table(one: Any, other: Any) -> bool:
    """Whether two tables are equal; floats may differ in their last digits between machines."""
    if len(one) != len(other) or one.schema != other.schema:
        return False
    for column in one.schema:
        mine, theirs = one[column.name], other[column.name]
        if not pa.types.is_floating(column.type):
            if not mine.equals(theirs):
                return False
            continue
        tolerance = SINGLE_TOLERANCE if column.type == pa.float32() else RATIO_TOLERANCE
        a, b = (np.asarray(to_numpy(values), np.float64) for values in (mine, theirs))
        if not np.allclose(a, b, rtol=tolerance, atol=0.0, equal_nan=True):
            return False
    return True
