"""Cache over the run directories, to list thousands of runs at once; never the truth."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from contextlib import closing, suppress
from dataclasses import astuple, dataclass, fields
from pathlib import Path
from typing import Any
from zlib import crc32

from edgebench.host.result.document import created_utc
from edgebench.host.result.facts import SET_PREFIX
from edgebench.host.result.metrics import METRICS
from edgebench.host.result.run import Run
from edgebench.host.result.verdict import State
from edgebench.host.store.layout import RUN_FILE, Store
from edgebench.protocol.errors import NoSuchRun, StoreError
from edgebench.protocol.spec import SCENARIOS
from edgebench.protocol.text import printable

INDEX_FILE = "index.sqlite"
_MEANING = 7
"""Raised when a column means something else; a column more or less is noticed without it."""
MAX_INTEGER = 2**63
INVALID = "invalid"
_BY_INVOCATION = {one.value for one, has in SCENARIOS.items() if has.headline == "latency_ns"}
FAILED = "failed"
"""Verdict of a run that measured nothing: in a list it is not one with refused numbers."""
DAMAGED = "damaged"
"""Verdict of a directory without a document that makes sense."""


@dataclass(frozen=True, slots=True)
class RunSummary:
    """One run in a list."""

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
    peak_rss_bytes: int | None
    energy_j_per_inference: float | None
    """Gross energy."""
    energy_u95_absolute_j: float | None
    energy_boundary: str | None
    """Boundary of the meter; None where there is no energy, and where it is unknown."""
    energy_refused: str | None
    """Why a metered run has no energy."""
    set_id: str | None
    """Set that the run is one of."""
    verdict: str
    """Verdict of the run, `failed` or `damaged`; an invalid one has no numbers here, its document
    has them."""
    unwatched: str | None = None
    """What nobody could see during a valid run, as `clock, heat`."""

    @property
    def headline_ns(self) -> list[int | None]:
        """Percentiles p50, p90 and p99 of the scenario's headline."""
        if self.scenario in _BY_INVOCATION:
            return [self.latency_ns_p50, self.latency_ns_p90, self.latency_ns_p99]
        return [self.end_to_end_ns_p50, self.end_to_end_ns_p90, self.end_to_end_ns_p99]


_COLUMNS = ", ".join(field.name for field in fields(RunSummary))


def list_runs(store: Store) -> list[RunSummary]:
    """All runs of the store, oldest first; the index is brought up to date on the way."""
    path = store.root / INDEX_FILE
    try:
        return _listed(store, path)
    except sqlite3.OperationalError:
        pass  # locked, or on a read-only disk
    except sqlite3.DatabaseError:  # damaged, or no database at all
        with suppress(OSError, sqlite3.Error):
            path.unlink()
            return _listed(store, path)
    return _listed(store, ":memory:")


def _listed(store: Store, path: Path | str) -> list[RunSummary]:
    with closing(sqlite3.connect(path)) as index:
        return _up_to_date(store, index)


def runs_named(store: Store, name: str) -> list[str]:
    """Ids of the runs that a name means: those of a set, or the one of `Store.resolve`.

    Raises:
        NoSuchRun: no such run or set, or several.
    """
    if name.startswith(SET_PREFIX):
        found = [row.run_id for row in list_runs(store) if row.set_id == name]
        if not found:
            raise NoSuchRun(f"no set {name!r} in {store.root}")
        return found
    return [store.resolve(name)]


def _up_to_date(store: Store, index: sqlite3.Connection) -> list[RunSummary]:
    _prepare(index)
    stamps = {run_id: _stamp(store, run_id) for run_id in store.run_ids()}
    rows = {row[0]: row for row in index.execute(f"SELECT {_COLUMNS}, stamp, checksum FROM runs")}
    for run_id in rows.keys() - stamps.keys():
        index.execute("DELETE FROM runs WHERE run_id = ?", (run_id,))
    marks = ", ".join("?" * (len(fields(RunSummary)) + 2))
    for run_id, stamp in stamps.items():
        *cells, checksum = rows.get(run_id, (None, None))
        if cells[-1] != stamp or checksum != _checksum(cells):
            cells = [*astuple(_summary(store, run_id)), stamp]
            rows[run_id] = (*cells, _checksum(cells))
            index.execute(
                f"INSERT OR REPLACE INTO runs ({_COLUMNS}, stamp, checksum) VALUES ({marks})",
                rows[run_id],
            )
    index.commit()
    return [RunSummary(*rows[run_id][:-2]) for run_id in sorted(stamps)]


def _prepare(index: sqlite3.Connection) -> None:
    version = crc32(f"{_MEANING} {_COLUMNS}".encode()) >> 1  # a positive integer of 32 bits
    if index.execute("PRAGMA user_version").fetchone()[0] != version:
        index.execute("DROP TABLE IF EXISTS runs")
        index.execute(f"PRAGMA user_version = {version}")
    index.execute(
        f"CREATE TABLE IF NOT EXISTS runs ({_COLUMNS}, stamp, checksum, PRIMARY KEY (run_id))"
    )
    index.commit()


def _checksum(cells: Sequence[object]) -> int:
    """Checksum of a row: what was changed in the index is computed again, not shown."""
    return crc32(repr(list(cells)).encode())


def _stamp(store: Store, run_id: str) -> str:
    """Stamp that changes when the run's document is written again."""
    try:
        found = (store.directory(run_id) / RUN_FILE).stat()
    except OSError:
        return "absent"
    return f"{found.st_mtime_ns} {found.st_size}"


def _summary(store: Store, run_id: str) -> RunSummary:
    try:
        summary = summary_of(store.run(run_id))
    except StoreError:
        return _damaged(run_id)
    is_sane = all(_is_sane(one.type, getattr(summary, one.name)) for one in fields(RunSummary))
    return summary if is_sane and summary.run_id == run_id else _damaged(run_id)


def _is_sane(kind: object, value: object) -> bool:
    """Whether a value fits its field, and into the index."""
    if value is None:
        return "None" in str(kind)
    if isinstance(value, str):
        return "str" in str(kind) and value.isprintable()
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return False
    return "str" not in str(kind) and abs(value) < MAX_INTEGER


def _damaged(run_id: str) -> RunSummary:
    """Summary of a run whose document makes no sense; `edgebench verify` says what is wrong."""
    row: dict[str, Any] = {field.name: None for field in fields(RunSummary)}
    row |= dict.fromkeys(("device", "model", "runtime", "scenario", "kind"), "unknown")
    row |= {"run_id": run_id, "created_utc": created_utc(run_id) or "", "verdict": DAMAGED}
    row["threads"] = 0
    return RunSummary(**row)


def summary_of(run: Run) -> RunSummary:
    """Summary of a run; that of an invalid one has no numbers in it."""
    numbers: dict[str, Any] = {one.column: None for one in METRICS.values() if one.column}
    energy = None
    if not run.verdict.is_refused:
        numbers = {one.column: one.value(run) for one in METRICS.values() if one.column}
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
        kind=("simulated " if run.simulated else "") + run.kind,
        **numbers,
        energy_u95_absolute_j=energy.u95_absolute_j if energy else None,
        energy_boundary=energy.boundary if energy else None,
        # A meter's own words may be in it, which are no reason to doubt the run.
        energy_refused=printable(energy.refused) if energy and energy.refused else None,
        set_id=run.member.set_id if run.member else None,
        verdict=FAILED if run.failure else run.verdict.state.value,
        unwatched=", ".join(run.verdict.unwatched) if run.verdict.state is State.VALID else None,
    )
