"""A cache over the run directories, to list thousands of runs at once; never the truth."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from dataclasses import astuple, dataclass, fields
from typing import Any

from edgebench.host.result.document import created_utc
from edgebench.host.store.layout import RUN_FILE, Store
from edgebench.protocol.errors import StoreError
from edgebench.protocol.spec import Scenario

INDEX_FILE = "index.sqlite"
_VERSION = 5
MAX_INTEGER = 2**63
INVALID = "invalid"
DAMAGED = "damaged"
"""In place of a verdict: there is a directory, but no document that makes sense."""


@dataclass(frozen=True, slots=True)
class Row:
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
    """Gross."""
    energy_u95_absolute_j: float | None
    energy_boundary: str | None
    """What is inside; None where there is no energy, and where nobody knows."""
    energy_refused: str | None
    """Why a metered run has no energy."""
    verdict: str
    """An invalid run has no numbers here; its document has them."""

    @property
    def headline_ns(self) -> list[int | None]:
        """P50, p90 and p99 of what the scenario is about."""
        if self.scenario == Scenario.SINGLE_STREAM.value:
            return [self.latency_ns_p50, self.latency_ns_p90, self.latency_ns_p99]
        return [self.end_to_end_ns_p50, self.end_to_end_ns_p90, self.end_to_end_ns_p99]


_COLUMNS = ", ".join(field.name for field in fields(Row))


def list_runs(store: Store) -> list[Row]:
    """Every run in the store, oldest first; the index is brought up to date on the way."""
    try:
        with closing(sqlite3.connect(store.root / INDEX_FILE)) as index:
            return _up_to_date(store, index)
    except sqlite3.DatabaseError:  # damaged, locked, or on a read-only disk
        with closing(sqlite3.connect(":memory:")) as index:
            return _up_to_date(store, index)


def _up_to_date(store: Store, index: sqlite3.Connection) -> list[Row]:
    _prepare(index)
    stamps = {run_id: _stamp(store, run_id) for run_id in store.run_ids()}
    known = dict(index.execute("SELECT run_id, stamp FROM runs"))
    for run_id in known.keys() - stamps.keys():
        index.execute("DELETE FROM runs WHERE run_id = ?", (run_id,))
    marks = ", ".join("?" * (len(fields(Row)) + 1))
    for run_id, stamp in stamps.items():
        if known.get(run_id) != stamp:
            values = (*astuple(_row(store, run_id)), stamp)
            index.execute(
                f"INSERT OR REPLACE INTO runs ({_COLUMNS}, stamp) VALUES ({marks})", values
            )
    index.commit()
    found = index.execute(f"SELECT {_COLUMNS} FROM runs ORDER BY run_id").fetchall()
    return [Row(*values) for values in found]


def _prepare(index: sqlite3.Connection) -> None:
    if index.execute("PRAGMA user_version").fetchone()[0] != _VERSION:
        index.execute("DROP TABLE IF EXISTS runs")
        index.execute(f"PRAGMA user_version = {_VERSION}")
    index.execute(f"CREATE TABLE IF NOT EXISTS runs ({_COLUMNS}, stamp, PRIMARY KEY (run_id))")
    index.commit()


def _stamp(store: Store, run_id: str) -> str:
    """Changes when somebody writes the run's document again."""
    try:
        found = (store.directory(run_id) / RUN_FILE).stat()
    except OSError:
        return "absent"
    return f"{found.st_mtime_ns} {found.st_size}"


def _row(store: Store, run_id: str) -> Row:
    try:
        row = row_of(store.document(run_id))
    except (StoreError, KeyError, TypeError, AttributeError):
        return _damaged(run_id)
    is_sane = all(_is_sane(field.type, getattr(row, field.name)) for field in fields(Row))
    return row if is_sane and row.run_id == run_id else _damaged(run_id)


def _is_sane(kind: object, value: object) -> bool:
    """Whether a value fits its field, and into the index."""
    if value is None:
        return "None" in str(kind)
    if isinstance(value, str):
        return "str" in str(kind) and value.isprintable()
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return False
    return "str" not in str(kind) and abs(value) < MAX_INTEGER


def _damaged(run_id: str) -> Row:
    """A run whose document makes no sense; `edgebench verify` says what is wrong with it."""
    row: dict[str, Any] = {field.name: None for field in fields(Row)}
    row |= dict.fromkeys(("device", "model", "runtime", "scenario", "kind"), "unknown")
    row |= {"run_id": run_id, "created_utc": created_utc(run_id) or "", "verdict": DAMAGED}
    row["threads"] = 0
    return Row(**row)


def row_of(document: dict[str, Any]) -> Row:
    """The list entry of a run document."""
    verdict = document["verdict"]["state"]
    is_refused = verdict == INVALID
    return Row(
        run_id=document["run_id"],
        created_utc=document["created_utc"],
        device=document["device"]["name"],
        model=document["model"]["name"],
        precision=document["model"]["precision"],
        runtime=document["runtime"]["name"],
        threads=document["spec"]["threads"],
        scenario=document["spec"]["scenario"],
        kind=("simulated " if document["simulated"] else "") + document["kind"],
        **(_NO_NUMBERS if is_refused else _numbers(document["metrics"])),
        verdict=verdict,
    )


_SPANS = ("latency_ns", "end_to_end_ns")
_PERCENTILES = ("p50", "p90", "p99")
_NO_NUMBERS: dict[str, Any] = dict.fromkeys(
    [f"{span}_{p}" for span in _SPANS for p in _PERCENTILES]
    + ["throughput_per_s", "peak_rss_bytes", "energy_j_per_inference", "energy_u95_absolute_j"]
    + ["energy_boundary", "energy_refused"]
)


def _numbers(metrics: dict[str, Any]) -> dict[str, Any]:
    found = {f"{span}_{p}": (metrics[span] or {}).get(p) for span in _SPANS for p in _PERCENTILES}
    return found | {
        "throughput_per_s": metrics["throughput_per_s"],
        "peak_rss_bytes": metrics["memory_bytes"]["peak_rss"],
        **_energy(metrics.get("energy") or {}),
    }


def _energy(energy: dict[str, Any]) -> dict[str, Any]:
    reason = energy.get("refused")
    return {
        "energy_j_per_inference": energy.get("gross_j_per_inference"),
        "energy_u95_absolute_j": energy.get("u95_absolute_j"),
        "energy_boundary": energy.get("boundary"),
        # A meter's own words may be in it, which are no reason to doubt the run.
        "energy_refused": reason and "".join(c if c.isprintable() else "?" for c in reason),
    }
