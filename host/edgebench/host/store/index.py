"""Index of a store, a cache of the runs' summaries that makes lists of thousands of runs fast."""

from __future__ import annotations

import marshal
import os
import re
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass, fields, replace
from datetime import datetime, timezone
from fnmatch import translate
from pathlib import Path
from typing import Any, TypedDict
from zlib import crc32

from edgebench.host.analysis.history.conditions import conditions_of, digest, settings_of
from edgebench.host.result.document import created_utc
from edgebench.host.result.energy import SYNTHETIC
from edgebench.host.result.marks import EMULATED, SIMULATED, SYNTHETIC_POWER, ResultMarks
from edgebench.host.result.metrics import METRICS
from edgebench.host.result.run import SCHEMA_VERSION, Run
from edgebench.host.result.verdict import NumberKind, State
from edgebench.host.store.annotations import UNREADABLE, read_annotations
from edgebench.host.store.layout import ANNOTATIONS_FILE, RUN_FILE, Store, names_in
from edgebench.host.store.names import INDEX_FILE
from edgebench.protocol.errors import RunNewer, StoreError
from edgebench.protocol.record import RUN_ID
from edgebench.protocol.spec import SCENARIOS
from edgebench.protocol.text import printable
from edgebench.system.whole_files import make_directory

INDEX_FILES = (INDEX_FILE, f"{INDEX_FILE}-wal", f"{INDEX_FILE}-shm")
"""Files of the index, including those that a killed process leaves behind."""
_MEANING = 15
"""Version number that is raised if the meaning of a column changes. Added and removed columns do
not change it, because they are detected by their names."""
MAX_INTEGER = 2**63
INVALID = "invalid"
_BY_INVOCATION = {
    scenario.value for scenario, has in SCENARIOS.items() if has.headline == "latency_ns"
}
DAMAGED = "damaged"
"""Verdict of a run directory without a valid document."""
NEWER = "newer"
"""Verdict of a run of a newer schema, whose numbers are not in the index."""


@dataclass(frozen=True, slots=True)
class RunSummary:
    """Summary of a run for lists: a row of the index."""

    run_id: str
    created_utc: str
    device: str
    model: str
    precision: str | None
    runtime: str
    threads: int
    scenario: str
    kind: str
    latency_ns_p50: int | None
    latency_ns_p90: int | None
    latency_ns_p99: int | None
    end_to_end_ns_p50: int | None
    end_to_end_ns_p90: int | None
    end_to_end_ns_p99: int | None
    throughput_per_s: float | None
    instructions_per_inference: float | None
    """Number of instructions per inference of an emulated target, which has no latency."""
    peak_rss_bytes: int | None
    energy_j_per_inference: float | None
    """Gross energy (idle power included) per inference."""
    energy_u95_absolute_j: float | None
    energy_boundary: str | None
    """What the measured power includes; None if this is unknown, or if there is no energy."""
    energy_refused: str | None
    """Why a run with a meter has no energy; None if it has energy or no meter."""
    set_id: str | None
    verdict: str
    """Verdict of the run, `failed`, `damaged` or `newer`; the numbers of an invalid run are only in
    its document."""
    failure: str | None = None
    """Error code of a failed run, such as `worker_died`."""
    unwatched: str | None = None
    """Conditions that could not be monitored during the run, such as `clock, heat`."""
    suspect: str | None = None
    """Kinds of numbers that are suspect, such as `tail, mean`."""
    tags: tuple[str, ...] = ()
    """Tags set by users."""
    note: str | None = None
    """Note set by users, or `UNREADABLE` if tags and note are not readable."""
    comparison_id: str | None = None
    """Id of the comparison, for a run that is part of a pair."""
    settings_digest: str | None = None
    """Hash of the settings; None if the document cannot be read."""
    conditions_digest: str | None = None
    """Hash of the conditions, such as model content, firmware, runtime version and governor."""
    side: str | None = None
    """Side of the comparison, `baseline` or `candidate`, for a run that is part of a pair."""
    replaces: str | None = None
    """Id of the disturbed run that this run replaces in its set."""
    command_id: str | None = None
    disturbances: str | None = None
    """Failed rules, such as `background_load`, that indicate a disturbance with a cause other
    than the model; the disturbance may be temporary."""

    @property
    def marks(self) -> ResultMarks:
        """Marks of the run's numbers; the state may also be `damaged` or `newer`."""
        is_synthetic = self.energy_boundary == SYNTHETIC
        return ResultMarks(
            self.verdict,
            tuple(self.unwatched.split(", ")) if self.unwatched else (),
            tuple(name for name in self.kind.split() if name in (SIMULATED, EMULATED)),
            (SYNTHETIC_POWER,) if is_synthetic else (),
            tuple(map(NumberKind, self.suspect.split(", "))) if self.suspect else (),
        )

    @property
    def headline_ns(self) -> list[int | None]:
        """Percentiles p50, p90 and p99 of the scenario's headline metric, nanoseconds."""
        if self.scenario in _BY_INVOCATION:
            return [self.latency_ns_p50, self.latency_ns_p90, self.latency_ns_p99]
        return [self.end_to_end_ns_p50, self.end_to_end_ns_p90, self.end_to_end_ns_p99]


COUNTED_STATES = frozenset({State.VALID.value, State.SUSPECT.value})
"""Verdicts of the runs that have numbers."""


class HistorySelection(TypedDict, total=False):
    """Fields of `RunFilter` that select whole histories, as keyword arguments."""

    model: str | None
    device: str | None
    tag: str | None


class RunSelection(HistorySelection, total=False):
    """Fields of `RunFilter`, as keyword arguments."""

    since: datetime | None
    last: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFilter:
    """Selection of runs; a field that is None selects all runs."""

    model: str | None = None
    """Name of the model, or a pattern such as `digits_*`."""
    device: str | None = None
    """Name of the device, or a pattern such as `pi*`."""
    tag: str | None = None
    since: datetime | None = None
    """Earliest time; without a time zone, in local time."""
    last: int | None = None

    def chosen(self, rows: Sequence[RunSummary]) -> list[RunSummary]:
        """The selected rows, in their order."""
        models, devices = (
            re.compile(translate(pattern or "*")) for pattern in (self.model, self.device)
        )
        since_utc = None if self.since is None else as_created_utc(self.since)
        selected = [
            row
            for row in rows
            if models.match(row.model)
            and devices.match(row.device)
            and (self.tag is None or self.tag in row.tags)
            and (since_utc is None or row.created_utc >= since_utc)
        ]
        return selected if self.last is None else selected[max(0, len(selected) - self.last) :]


_FIELDS = fields(RunSummary)
_NAMES = tuple(field.name for field in _FIELDS)
_COLUMNS = ", ".join(_NAMES)
_TAGS = _NAMES.index("tags")
"""Column number of the tags, the only cells that are converted to a string."""
BUSY_S = 5.0
"""Maximum time to wait for another process that writes the index; a write takes milliseconds."""
Row = tuple[Any, ...]
"""Cells of a row of the index, which are the summary, the stamp and the checksum."""


def as_created_utc(when: datetime) -> str:
    """Format a time like `created_utc`; a time without a time zone counts as local time."""
    return when.astimezone(timezone.utc).isoformat(timespec="seconds")


def list_runs(store: Store, wanted: RunFilter | None = None) -> list[RunSummary]:
    """The selected runs of the store, oldest first; also updates the index.

    A document is read again only if its modification time or its size has changed. If the index
    cannot be read or written, the documents are read instead.
    """
    known = _read_rows(store)  # before the directories, so that new runs do not look removed
    stamps = _stamps(store)
    rows: dict[str, Row] = {}
    new: list[Row] = []
    for run_id, stamp in stamps.items():
        row = known.get(run_id)
        if row is None or row[-2] != stamp or row[-1] != _checksum(row[:-1]):
            row = _row(store, run_id, stamp)
            new.append(row)
        rows[run_id] = row
    gone = known.keys() - rows.keys()
    if new or gone:
        with suppress(OSError, sqlite3.Error):
            _write_rows(store, new, gone)
    summaries: list[RunSummary] = []
    for run_id in sorted(rows):
        cells = list(rows[run_id][:-2])  # without stamp and checksum
        cells[_TAGS] = tuple(cells[_TAGS].split())
        summaries.append(RunSummary(*cells))
    return wanted.chosen(summaries) if wanted else summaries


def without_replaced(rows: Iterable[RunSummary]) -> list[RunSummary]:
    """Leave out runs that are replaced by a valid or suspect run in `rows`."""
    listed = list(rows)
    replaced = {row.replaces for row in listed if row.verdict in COUNTED_STATES}
    return [row for row in listed if row.run_id not in replaced]


def note_run(store: Store, run_id: str, run: Run | None = None) -> None:
    """Update the index row of a run that was just stored or changed.

    If the index cannot be written, the next call of `list_runs` updates it.

    Args:
        store: The store.
        run_id: The run.
        run: Content of the run, if it is already loaded; its document is then not read.
    """
    with suppress(OSError, sqlite3.Error, StoreError):
        stamp = _stamp(f"{store.directory(run_id)}{os.sep}")
        if stamp is None:
            _write_rows(store, [], [run_id])
        else:
            _write_rows(store, [_row(store, run_id, stamp, run)], [])


@contextmanager
def kept_open(store: Store) -> Iterator[None]:
    """Keep the index open while several runs are stored.

    The connection that is closed last copies the write-ahead log into the index and removes the
    log; this takes longer than writing a row.
    """
    with ExitStack() as stack:
        with suppress(OSError, sqlite3.Error):
            make_directory(store.root)
            index = stack.enter_context(closing(_connected(store.root / INDEX_FILE, "mode=rwc")))
            _prepare(index)
        yield


def _read_rows(store: Store) -> dict[str, Row]:
    """Map run ids to the readable rows of the index."""
    path = store.root / INDEX_FILE
    if not path.is_file():
        return {}
    # Without write access, the file is read as it is: checksums detect incomplete rows.
    for mode in ("mode=rw", "immutable=1"):
        try:
            with closing(_connected(path, mode)) as index:
                if index.execute("PRAGMA user_version").fetchone()[0] != _version():
                    return {}
                rows = index.execute(f"SELECT {_COLUMNS}, stamp, checksum FROM runs").fetchall()
                return {row[0]: row for row in rows}
        except sqlite3.OperationalError:
            continue  # locked for long, or on a read-only disk
        except sqlite3.DatabaseError:  # damaged, or not a database
            _remove_index(path)
            return {}
    return {}


def _write_rows(store: Store, new: Sequence[Row], gone: Iterable[str]) -> None:
    path = store.root / INDEX_FILE
    try:
        _write_into(path, new, gone)
    except sqlite3.OperationalError:
        raise
    except sqlite3.DatabaseError:
        _remove_index(path)
        _write_into(path, new, gone)


def _write_into(path: Path, new: Sequence[Row], gone: Iterable[str]) -> None:
    marks = ", ".join("?" * (len(_NAMES) + 2))
    with closing(_connected(path, "mode=rwc")) as index:
        _prepare(index)
        with index:
            index.executemany("DELETE FROM runs WHERE run_id = ?", [(run_id,) for run_id in gone])
            index.executemany(
                f"INSERT OR REPLACE INTO runs ({_COLUMNS}, stamp, checksum) VALUES ({marks})", new
            )


def _connected(path: Path, mode: str) -> sqlite3.Connection:
    return sqlite3.connect(f"{path.as_uri()}?{mode}", uri=True, timeout=BUSY_S)


def _prepare(index: sqlite3.Connection) -> None:
    """Create the table, if the index is new or has another version.

    With a write-ahead log, readers do not wait for writers. Nothing is synced to disk. Rows that
    are lost when a process is killed are restored from the documents. Rows that a power cut has
    damaged are detected by their checksums, and restored in the same way.
    """
    index.execute("PRAGMA synchronous = OFF")
    if index.execute("PRAGMA user_version").fetchone()[0] == _version():
        return
    index.execute("PRAGMA journal_mode = WAL")
    with index:
        index.execute("BEGIN IMMEDIATE")
        if index.execute("PRAGMA user_version").fetchone()[0] != _version():
            index.execute("DROP TABLE IF EXISTS runs")
            index.execute(f"CREATE TABLE runs ({_COLUMNS}, stamp, checksum, PRIMARY KEY (run_id))")
            index.execute(f"PRAGMA user_version = {_version()}")


def _version() -> int:
    # Includes the schema version: runs of a newer schema are read again after an upgrade.
    checksum = crc32(f"{_MEANING} {SCHEMA_VERSION} {_COLUMNS}".encode())
    return checksum >> 1  # a positive 32-bit integer


def _remove_index(path: Path) -> None:
    for name in INDEX_FILES:
        with suppress(OSError):
            (path.parent / name).unlink()


def _checksum(cells: Sequence[Any]) -> int:
    """Checksum of a row, which detects that the row was modified in the index.

    In version 2 of marshal, equal values have equal bytes; marshal is five times as fast as `repr`.
    """
    return crc32(marshal.dumps(tuple(cells), 2))


def _stamps(store: Store) -> dict[str, str]:
    runs = f"{store.runs}{os.sep}"
    names = filter(RUN_ID.fullmatch, names_in(store.runs))
    stamps = ((name, _stamp(f"{runs}{name}{os.sep}")) for name in names)
    return {name: stamp for name, stamp in stamps if stamp is not None}


def _stamp(directory: str) -> str | None:
    """Value that changes when the run's document or its annotations are written again.

    None if there is no document.
    """
    try:
        document = os.stat(directory + RUN_FILE)
    except OSError:
        return None
    try:
        annotated_ns = os.stat(directory + ANNOTATIONS_FILE).st_mtime_ns
    except OSError:
        annotated_ns = 0
    return f"{document.st_mtime_ns} {document.st_size} {annotated_ns}"


def _row(store: Store, run_id: str, stamp: str, run: Run | None = None) -> Row:
    summary = stored_summary(store, run_id, run)
    cells: list[Any] = [*(getattr(summary, name) for name in _NAMES), stamp]
    cells[_TAGS] = " ".join(cells[_TAGS])
    return (*cells, _checksum(cells))


def stored_summary(store: Store, run_id: str, run: Run | None = None) -> RunSummary:
    """Summary of a stored run; its document is read unless `run` is given."""
    try:
        added = read_annotations(store.document_path(run_id).parent)
        summary = summary_of(run or store.run(run_id))
    except RunNewer:
        return replace(_damaged(run_id), verdict=NEWER)
    except StoreError:
        return _damaged(run_id)
    is_readable = added.fault is None and _is_sane("tuple", added.tags)
    tags, note = (added.tags, added.note) if is_readable else ((), UNREADABLE)
    summary = replace(summary, tags=tags, note=note)
    is_sane = all(_is_sane(field.type, getattr(summary, field.name)) for field in _FIELDS)
    return summary if is_sane and summary.run_id == run_id else _damaged(run_id)


def _is_sane(kind: object, value: object) -> bool:
    """Whether a value is valid for its field and for the index."""
    if value is None:
        return "None" in str(kind)
    if isinstance(value, str):
        return "str" in str(kind) and value.isprintable()
    if isinstance(value, tuple):
        return all(_is_sane("str", text) and " " not in text for text in value)
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return False
    return "str" not in str(kind) and abs(value) < MAX_INTEGER


def _damaged(run_id: str) -> RunSummary:
    """Summary of a run without a valid document; `edgebench verify` reports the fault."""
    row: dict[str, Any] = dict.fromkeys(_NAMES)
    row |= dict.fromkeys(("device", "model", "runtime", "scenario", "kind"), "unknown")
    row |= {"run_id": run_id, "created_utc": created_utc(run_id) or "", "verdict": DAMAGED}
    row |= {"threads": 0, "tags": ()}
    return RunSummary(**row)


def summary_of(run: Run) -> RunSummary:
    """Summary of a run; the summary of an invalid run has no numbers."""
    # Imported here: a list of runs that are in the index needs no rules.
    from edgebench.host.analysis.extra_runs import external_disturbances_of

    numbers: dict[str, Any] = {metric.column: None for metric in METRICS.values() if metric.column}
    energy = None
    if not run.verdict.is_refused:
        numbers = {
            metric.column: metric.bounded_value(run) for metric in METRICS.values() if metric.column
        }
        energy = run.metrics.energy
    return RunSummary(
        run_id=run.run_id,
        created_utc=run.created_utc,
        device=run.device.name,
        model=run.model.name,
        precision=run.model.precision,
        runtime=run.runtime.name,
        threads=run.spec.threads,
        scenario=run.spec.scenario.value,
        kind=" ".join([*run.marks.device, run.kind]),
        **numbers,
        energy_u95_absolute_j=energy.u95_absolute_j if energy else None,
        energy_boundary=energy.boundary if energy else None,
        # The text may quote a meter, whose control characters must not make the run look damaged.
        energy_refused=printable(energy.refused) if energy and energy.refused else None,
        set_id=run.member.set_id if run.member else None,
        verdict=run.marks.state,
        failure=run.failure.code if run.failure else None,
        unwatched=", ".join(run.marks.unread) or None,
        suspect=", ".join(kind.value for kind in run.marks.suspect or ()) or None,
        comparison_id=run.pair.comparison_id if run.pair else None,
        side=run.pair.side if run.pair else None,
        replaces=run.member.replaces.run_id if run.member and run.member.replaces else None,
        command_id=run.command.id if run.command else None,
        disturbances=", ".join(external_disturbances_of(run)) or None,
        settings_digest=digest(settings_of(run)),
        conditions_digest=digest(conditions_of(run)),
    )
