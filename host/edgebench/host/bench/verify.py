"""Recompute a stored run from its raw files, and list the differences from its run.json."""

from __future__ import annotations

import json
import re
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from edgebench.host.analysis.run import analyse_failure, analyse_run, analyse_target, fit_clock
from edgebench.host.power.trace import trace_trouble
from edgebench.host.result.document import Document, created_utc, to_document, version_of
from edgebench.host.result.migrations import CHECKSUMMED_SINCE, promised
from edgebench.host.result.run import SCHEMA_VERSION, Run
from edgebench.host.show.sentences import described
from edgebench.host.store.decode import RATIO_TOLERANCE, decode_into, have_same_rows, spool_trouble
from edgebench.host.store.files import (
    file_digests,
    read_clock,
    read_facts,
    read_queries,
    read_record,
    read_target_traces,
    read_traces,
)
from edgebench.host.store.layout import POWER_FILE, RAW_DIRECTORY, Store
from edgebench.host.store.power import RowGroup
from edgebench.host.store.power_file import read_power_facts
from edgebench.protocol.errors import MeasurementError, RunDamaged, UsageError, os_error_as
from edgebench.protocol.plain import to_plain
from edgebench.protocol.record import RunRecord
from edgebench.protocol.text import printable
from edgebench.protocol.traces import METER_FILE

_SENTENCE = re.compile(r"verdict\.rules\[\d+\]\.detail")
"""Keys of sentences whose numbers the document also contains under separate keys."""
_SENTENCE_WITH_NUMBERS = re.compile(
    r"verdict\.rules\[\d+\]\.facts\.(?:why|checks)|metrics\.thermal\.reason"
    r"|metrics\.energy\.(?:.+\.)?(?:refused|net_refused|detail|reason)"
)
"""Keys of sentences whose numbers documents of older versions contain nowhere else."""
_NUMBER = re.compile(r"\d+(?:\.\d+)?")


@dataclass(frozen=True, slots=True)
class Difference:
    """A key of run.json whose stored value differs from the value computed from the raw files."""

    key: str
    stored: object
    computed: object

    def __post_init__(self) -> None:
        # The key is not trusted, because the file may have been edited.
        object.__setattr__(self, "key", printable(self.key))


def verify(store: Store, run_id: str) -> list[Difference]:
    """All differences between the stored document and the document computed from the raw files.

    Raises:
        StoreError: a file is missing or unreadable, or the run has a newer schema.
    """
    document = store.document(run_id)
    version = version_of(document)
    directory = store.directory(run_id)
    record = read_record(directory)
    if record.run_id != run_id:
        return [Difference("run_id", run_id, record.run_id)]
    if differing := _trace_differences(directory, record, version):
        return differing
    try:
        run = _recomputed(directory, record, created_utc(run_id) or _made_utc(document))
    except MeasurementError as exc:
        return [Difference("queries.parquet", "as stored", str(exc))]
    computed = json.loads(json.dumps(to_document(run)))
    if version < SCHEMA_VERSION:
        store.run(run_id)  # raises if a key that every version has is missing
        try:
            document, computed = promised(document, computed, version)
        except (LookupError, TypeError, AttributeError) as exc:
            raise RunDamaged(f"run {run_id} is damaged: its verdict is incomplete") from exc
    found = _differences("", document, computed)
    return [difference for difference in found if not _is_reworded(difference)]


def _is_reworded(difference: Difference) -> bool:
    """Whether both values are one sentence that two versions of edgebench word differently.

    The stored sentence must not be empty. If the document contains the sentence's numbers nowhere
    else, both sentences must have the same numbers, in any order.
    """
    stored, computed = difference.stored, difference.computed
    if not isinstance(stored, str) or not isinstance(computed, str) or not stored:
        return False
    if _SENTENCE.fullmatch(difference.key):
        return True
    is_sentence = _SENTENCE_WITH_NUMBERS.fullmatch(difference.key) is not None
    return is_sentence and sorted(_NUMBER.findall(stored)) == sorted(_NUMBER.findall(computed))


def _trace_differences(directory: Path, record: RunRecord, version: int) -> list[Difference]:
    """Differences between traces and raw files; if there are any, checking metrics is useless."""
    if not record.has_measured:
        return []
    if record.worker is not None:
        queries = read_queries(directory)
        rows = len(queries), queries.warmup_count
        expected = record.worker.query_count, record.worker.warmup_query_count
        if rows != expected:
            return [Difference("queries.parquet (rows, warm-up rows)", rows, expected)]
    spool = directory / RAW_DIRECTORY / METER_FILE
    if version >= CHECKSUMMED_SINCE and (trouble := spool_trouble(spool, directory)):
        return [Difference("power.parquet", "as stored", trouble)]
    energy = read_facts(directory).energy
    if energy and energy.trace and (trouble := trace_trouble(directory, energy.trace)):
        return [Difference("power.parquet", "as stored", trouble)]
    return []


def rejudge(store: Store, run_id: str) -> Run:
    """The run, recomputed with this version's statistics and rules; nothing is stored.

    Raises:
        StoreError: a file is missing or unreadable, or the run has a newer schema.
        MeasurementError: the raw files contradict each other.
    """
    document = store.document(run_id)
    directory = store.directory(run_id)
    made_utc = created_utc(run_id) or _made_utc(document)
    return _recomputed(directory, read_record(directory), made_utc)


def _made_utc(document: Document) -> str:
    return str(document.get("created_utc"))


def _recomputed(directory: Path, record: RunRecord, made_utc: str) -> Run:
    """Compute the run from its raw files.

    Raises:
        RunDamaged: a file cannot be read.
        MeasurementError: a trace contradicts itself or the record.
    """
    clock = fit_clock(read_clock(directory), record)
    with os_error_as(RunDamaged, "run not readable"):
        if record.target is not None:
            target_traces = read_target_traces(directory)
            run = analyse_target(record, target_traces, created_utc=made_utc, clock=clock)
        elif record.worker is None:
            facts = read_facts(directory)
            run = analyse_failure(record, facts, created_utc=made_utc, clock=clock)
        else:
            traces = read_traces(directory, record, read_queries(directory))
            run = analyse_run(record, traces, created_utc=made_utc, clock=clock)
        return replace(run, files=file_digests(directory), verdict=described(run.verdict))


def verify_session(directory: Path) -> list[Difference]:
    """All differences between the stored samples of a session and its decoded raw bytes.

    A stored reason for an early end of the session is ignored if the raw bytes contain no such
    reason. The process that recorded the session may have detected the early end in another way.

    Raises:
        UsageError: the session has no raw bytes, for example after an import.
        StoreError: a file is unreadable.
    """
    spool = directory / METER_FILE
    if not spool.exists():
        raise UsageError(f"nothing to verify: {directory} has samples, but no raw bytes")
    with tempfile.TemporaryDirectory(prefix="edgebench-verify-") as folder:
        computed = decode_into(Path(folder), spool).facts
        if not (directory / POWER_FILE).exists():
            samples = f"{computed.loss.received_count} samples of {METER_FILE}"
            return [Difference(POWER_FILE, None, samples)]
        stored = read_power_facts(directory)
        if computed.loss.trouble is None:
            stored = replace(stored, loss=replace(stored.loss, trouble=None))
        computed = replace(computed, groups=_without_later_facts(stored.groups, computed.groups))
        plain = [json.loads(json.dumps(to_plain(facts))) for facts in (stored, computed)]
        differences = list(_differences("", *plain))
        if not differences and not have_same_rows(
            directory / POWER_FILE, Path(folder) / POWER_FILE
        ):
            return [Difference(POWER_FILE, "as stored", f"differs from the decoded {METER_FILE}")]
        return differences


def _without_later_facts(
    stored: tuple[RowGroup, ...], computed: tuple[RowGroup, ...]
) -> tuple[RowGroup, ...]:
    """The computed row groups, without values that an older version of edgebench did not store."""
    if len(stored) != len(computed):
        return computed
    return tuple(
        replace(computed_group, between_j=None)
        if stored_group.between_j is None
        else computed_group
        for stored_group, computed_group in zip(stored, computed, strict=True)
    )


def _differences(path: str, stored: Any, computed: Any) -> list[Difference]:
    pairs: Iterable[tuple[str, Any, Any]]
    if isinstance(stored, dict) and isinstance(computed, dict):
        keys = sorted(stored.keys() | computed.keys())
        pairs = ((f".{key}", stored.get(key), computed.get(key)) for key in keys)
    elif isinstance(stored, list) and isinstance(computed, list) and len(stored) == len(computed):
        pairs = ((f"[{i}]", *pair) for i, pair in enumerate(zip(stored, computed, strict=True)))
    else:
        return [] if _is_same(stored, computed) else [Difference(path, stored, computed)]
    return [
        difference
        for place, stored_value, computed_value in pairs
        # Most values are plain and equal; they need no recursive call.
        if type(stored_value) is not type(computed_value)
        or isinstance(stored_value, (dict, list))
        or stored_value != computed_value
        for difference in _differences(f"{path}{place}".lstrip("."), stored_value, computed_value)
    ]


def _is_same(stored: Any, computed: Any) -> bool:
    if isinstance(stored, float) and isinstance(computed, float):
        return abs(stored - computed) <= RATIO_TOLERANCE * max(abs(stored), abs(computed))
    return bool(stored == computed) and type(stored) is type(computed)
