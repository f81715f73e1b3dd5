"""Occasions in a store: the other sets that a device made, by model, settings and conditions."""

from __future__ import annotations

from collections.abc import Iterable
from statistics import median

from edgebench.host.analysis.occasions import NextTime, next_time
from edgebench.host.result.metrics import METRICS
from edgebench.host.result.run_set import RunSet
from edgebench.host.store.index import COUNTED_STATES, RunSummary, list_runs, without_replaced
from edgebench.host.store.layout import Store


def next_time_of(store: Store, one: RunSet) -> NextTime | None:
    """How far the headline of the next set may be from this one; None with too few sets.

    None also for headlines that the index lacks, energies, and counts, which do not scatter.

    Raises:
        StoreError: the store cannot be read.
    """
    metric = METRICS[one.headline]
    column = None if metric.budget or metric.is_exact or metric.is_tail else metric.column
    if one.set_id is None or column is None or one.verdict.is_refused:
        return None
    rows = [row for row in list_runs(store) if row.device == one.device]
    groups = _by_subject(rows, column)
    subject = next((_subject(row) for row in rows if row.set_id == one.set_id), None)
    own = groups.pop(subject, []) if subject is not None else []
    return next_time(own, groups.values())


_Subject = tuple[str, str | None, str | None]


def _subject(row: RunSummary) -> _Subject:
    """What two sets must share to be occasions of one measurement."""
    return row.model, row.settings_digest, row.conditions_digest


def _by_subject(rows: Iterable[RunSummary], column: str) -> dict[_Subject, list[float]]:
    """Median of each set, by subject, oldest first."""
    sets: dict[tuple[_Subject, str], list[float]] = {}
    for row in without_replaced(rows):
        value = getattr(row, column)
        if row.set_id is not None and row.verdict in COUNTED_STATES and value:
            sets.setdefault((_subject(row), row.set_id), []).append(float(value))
    groups: dict[_Subject, list[float]] = {}
    for (subject, _), values in sets.items():
        groups.setdefault(subject, []).append(median(values))
    return groups
