"""A cache over the run directories, to list thousands of runs at once; never the truth."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from dataclasses import astuple, dataclass, fields
from typing import Any

from edgebench.host.document import headline_ns
from edgebench.host.store.layout import Store
from edgebench.protocol.errors import StoreError

INDEX_FILE = "index.sqlite"
_VERSION = 1


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
    latency_ns_p50: int | None
    latency_ns_p90: int | None
    latency_ns_p99: int | None
    throughput_per_s: float | None
    peak_rss_bytes: int | None
    verdict: str


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
    ids = store.run_ids()
    known = {row[0] for row in index.execute("SELECT run_id FROM runs")}
    for run_id in known - set(ids):
        index.execute("DELETE FROM runs WHERE run_id = ?", (run_id,))
    marks = ", ".join("?" * len(fields(Row)))
    for run_id in ids:
        row = None if run_id in known else _row(store, run_id)
        if row is not None:
            index.execute(f"INSERT INTO runs ({_COLUMNS}) VALUES ({marks})", astuple(row))
    index.commit()
    found = index.execute(f"SELECT {_COLUMNS} FROM runs ORDER BY run_id").fetchall()
    return [Row(*values) for values in found]


def _prepare(index: sqlite3.Connection) -> None:
    if index.execute("PRAGMA user_version").fetchone()[0] != _VERSION:
        index.execute("DROP TABLE IF EXISTS runs")
        index.execute(f"PRAGMA user_version = {_VERSION}")
    index.execute(f"CREATE TABLE IF NOT EXISTS runs ({_COLUMNS}, PRIMARY KEY (run_id))")
    index.commit()


def _row(store: Store, run_id: str) -> Row | None:
    try:
        row = row_of(store.document(run_id))
    except (StoreError, KeyError, TypeError):
        return None  # `edgebench verify` says what is wrong with it
    is_plain = all(isinstance(value, (str, int, float, type(None))) for value in astuple(row))
    return row if is_plain and row.run_id == run_id else None


def row_of(document: dict[str, Any]) -> Row:
    """The list entry of a run document."""
    metrics = document["metrics"]
    latency = headline_ns(document)
    return Row(
        run_id=document["run_id"],
        created_utc=document["created_utc"],
        device=document["device"]["name"],
        model=document["model"]["name"],
        precision=document["model"]["precision"],
        runtime=document["runtime"]["name"],
        threads=document["spec"]["threads"],
        latency_ns_p50=latency.get("p50"),
        latency_ns_p90=latency.get("p90"),
        latency_ns_p99=latency.get("p99"),
        throughput_per_s=metrics["throughput_per_s"],
        peak_rss_bytes=metrics["memory_bytes"]["peak_rss"],
        verdict=document["verdict"]["state"],
    )
