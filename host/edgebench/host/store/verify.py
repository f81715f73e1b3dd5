"""Compute a stored run again from its raw files, and say where the document differs."""

from __future__ import annotations

import json
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from edgebench.host.result.document import SCHEMA_VERSION, build_document, created_utc, fit_clock
from edgebench.host.store.files import (
    file_digests,
    read_clock,
    read_queries,
    read_record,
    read_traces,
)
from edgebench.host.store.layout import POWER_FILE, RAW_DIRECTORY, Store
from edgebench.host.store.power import Group, PowerFacts
from edgebench.host.store.power_file import read_power_facts
from edgebench.host.store.recording import open_recording, write_power
from edgebench.meters.spool import DAMAGED
from edgebench.protocol.codec import to_plain
from edgebench.protocol.errors import MeasurementError, RunDamaged, StoreError, UsageError
from edgebench.protocol.traces import METER_FILE

RATIO_TOLERANCE = 1e-9
"""Means may differ in the last digits between numpy versions; everything else must be equal."""

SINGLE_TOLERANCE = 1e-6
"""Of columns in single precision."""


@dataclass(frozen=True, slots=True)
class Difference:
    """A key of run.json that does not follow from the raw files."""

    key: str
    stored: object
    computed: object


def verify(store: Store, run_id: str) -> list[Difference]:
    """Every difference between the stored document and the one that its raw files give.

    Raises:
        StoreError: a file is missing or unreadable, or of a newer schema.
    """
    document = store.document(run_id)
    version = document.get("schema_version")
    if version != SCHEMA_VERSION:
        raise StoreError(f"run has schema version {version}, this edgebench knows {SCHEMA_VERSION}")
    directory = store.directory(run_id)
    record, queries = read_record(directory), read_queries(directory)
    if record.worker is None:
        raise RunDamaged(f"record of run {run_id} says that nothing was measured")
    if record.run_id != run_id:
        return [Difference("run_id", run_id, record.run_id)]
    rows = len(queries), queries.warmup_count
    expected = record.worker.query_count, record.worker.warmup_query_count
    if rows != expected:
        return [Difference("queries.parquet (rows, warm-up rows)", rows, expected)]
    if trouble := spool_trouble(directory / RAW_DIRECTORY / METER_FILE, directory):
        return [Difference("power.parquet", "as stored", trouble)]
    clock = fit_clock(read_clock(directory), record)
    try:
        made_utc = created_utc(run_id) or str(document.get("created_utc"))
        computed = build_document(
            record, read_traces(directory, record, queries), created_utc=made_utc, clock=clock
        )
        computed |= {"files": file_digests(directory)}
    except MeasurementError as exc:
        return [Difference("queries.parquet", "as stored", str(exc))]
    except OSError as exc:
        raise RunDamaged(f"run not readable: {exc.strerror}: {exc.filename}") from exc
    return list(_differences("", document, json.loads(json.dumps(computed))))


def verify_session(directory: Path) -> list[Difference]:
    """Every difference between the samples of a session and what its raw bytes decode to.

    What ended it early may have been seen by the session alone, and is in no byte of the meter's.

    Raises:
        UsageError: there are no raw bytes, as after an import.
        StoreError: a file is unreadable.
    """
    spool = directory / METER_FILE
    if not spool.exists():
        raise UsageError(f"nothing to verify: {directory} has samples without the meter's bytes")
    with tempfile.TemporaryDirectory(prefix="edgebench-verify-") as folder:
        computed = decode_into(Path(folder), spool)
        if not (directory / POWER_FILE).exists():
            samples = f"{computed.loss.received_count} samples of {METER_FILE}"
            return [Difference(POWER_FILE, None, samples)]
        stored = read_power_facts(directory)
        if computed.loss.trouble is None:
            stored = replace(stored, loss=replace(stored.loss, trouble=None))
        computed = replace(computed, groups=_as_told(stored.groups, computed.groups))
        plain = [json.loads(json.dumps(to_plain(facts))) for facts in (stored, computed)]
        found = list(_differences("", *plain))
        if not found and not _have_same_rows(directory / POWER_FILE, Path(folder) / POWER_FILE):
            return [Difference(POWER_FILE, "as stored", f"not what {METER_FILE} decodes to")]
        return found


def _as_told(stored: tuple[Group, ...], computed: tuple[Group, ...]) -> tuple[Group, ...]:
    """Without what an older edgebench did not tell of its row groups."""
    if len(stored) != len(computed):
        return computed
    return tuple(
        replace(mine, between_j=None) if theirs.between_j is None else mine
        for theirs, mine in zip(stored, computed, strict=True)
    )


def decode_into(directory: Path, spool: Path) -> PowerFacts:
    """The samples of raw bytes, into another directory.

    Raises:
        StoreError: the bytes cannot be read, or the samples not be written.
    """
    try:
        return write_power(directory, open_recording(spool))
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
        loss = decode_into(Path(folder), spool).loss
        is_damaged = loss.trouble is not None and loss.trouble.startswith(DAMAGED)
        if is_damaged and loss.trouble != read_power_facts(directory).loss.trouble:
            return loss.trouble
        if not _have_same_rows(stored, Path(folder) / POWER_FILE):
            return f"not what {spool.relative_to(directory)} decodes to"
    return None


def _have_same_rows(one: Path, other: Path) -> bool:
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


def _differences(path: str, stored: Any, computed: Any) -> list[Difference]:
    if isinstance(stored, dict) and isinstance(computed, dict):
        keys = sorted(set(stored) | set(computed))
        children = [(f"{path}.{key}".lstrip("."), key) for key in keys]
        return [
            difference
            for child, key in children
            for difference in _differences(child, stored.get(key), computed.get(key))
        ]
    if isinstance(stored, list) and isinstance(computed, list) and len(stored) == len(computed):
        return [
            difference
            for i, pair in enumerate(zip(stored, computed, strict=True))
            for difference in _differences(f"{path}[{i}]", *pair)
        ]
    return [] if _is_same(stored, computed) else [Difference(path, stored, computed)]


def _is_same(stored: Any, computed: Any) -> bool:
    if isinstance(stored, float) and isinstance(computed, float):
        return abs(stored - computed) <= RATIO_TOLERANCE * max(abs(stored), abs(computed))
    return bool(stored == computed) and type(stored) is type(computed)
