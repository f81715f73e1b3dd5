"""Histories of a store, read from its index, or from its documents if the index lacks a metric.

Reading the documents of ten thousand runs would take half a minute. Therefore, if the index has the
metric, only a few documents are read: a document for each history, and a document for each set of
conditions. The latter name the conditions that changed.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from datetime import datetime
from functools import cache

from edgebench.host.analysis.compare.runs import find_metric
from edgebench.host.analysis.history.changes import (
    LevelChange,
    find_changes,
    runs_beside,
    start_temperatures_c,
)
from edgebench.host.analysis.history.conditions import SUBJECT_KEYS, conditions_of, settings_of
from edgebench.host.analysis.history.history import (
    MAX_HISTORY_POINTS,
    History,
    HistoryRun,
    HistorySubject,
    find_history,
)
from edgebench.host.result.metrics import METRICS, Metric, headline
from edgebench.host.result.run import SCHEMA_VERSION
from edgebench.host.result.verdict import State
from edgebench.host.store.address import find_each
from edgebench.host.store.index import (
    NEWER,
    RunFilter,
    RunSummary,
    as_created_utc,
    list_runs,
    without_replaced,
)
from edgebench.host.store.layout import Store
from edgebench.protocol.errors import NoSuchRun, RunNewer

_STATES = frozenset(state.value for state in State)
_MEASUREMENT = "measurement"


def read_histories(
    store: Store,
    wanted: RunFilter,
    *,
    runs: Sequence[str] = (),
    metric: str | None = None,
    margin_ratio: float | None = None,
) -> list[History]:
    """Histories of the selected runs, in the order of their first runs.

    A history consists of the runs of a model on a device with the same settings. Failed runs and
    profiles are left out.

    Args:
        store: Store of the runs.
        wanted: Selection of the runs.
        runs: Names of runs, sets or tags. Only histories that contain these runs are selected. If
            empty, all histories are selected.
        metric: Path of a metric, or its short name. None selects the headline of each history.
        margin_ratio: Largest tolerated change for the worse; None selects 1 %.

    Raises:
        UsageError: the metric is unknown, or neither higher nor lower values are defined as better.
        NoSuchRun: no run was selected.
        RunNewer: all selected runs are of a newer schema.
        StoreError: the store cannot be read.
    """
    given_metric = None if metric is None else find_metric(metric)
    rows = list_runs(store, replace(wanted, last=None))
    if wanted.last is not None:  # the newest runs, with all runs of their sets and comparisons
        ids = {row.set_id or row.comparison_id or row.run_id for row in rows[-wanted.last :]}
        rows = [row for row in rows if (row.set_id or row.comparison_id or row.run_id) in ids]
    groups = _groups(rows)
    if runs:
        named = {address.run_id for address in find_each(store, runs)}
        groups = [rows for rows in groups if any(row.run_id in named for row in rows)]
    if not groups and (newer := newer_line(store, wanted)) is not None:
        raise RunNewer(newer)
    if not groups:
        raise NoSuchRun(f"no matching runs for a history in {store.place}")
    return [_history(store, rows, given_metric, margin_ratio) for rows in groups]


def read_changes(
    store: Store,
    wanted: RunFilter,
    since: datetime,
    *,
    metric: str | None = None,
    margin_ratio: float | None = None,
) -> tuple[list[LevelChange], list[History]]:
    """Changes of a metric's level since a time, worst first, and histories with runs since then.

    Args:
        store: Store of the runs.
        wanted: Selection of the runs. The selection must include runs before `since`, because a
            change is relative to an earlier level.
        since: The time.
        metric: As for `read_histories`.
        margin_ratio: As for `read_histories`.

    Raises:
        The errors of `read_histories`.
    """
    since_utc = as_created_utc(since)
    histories = [
        history
        for history in read_histories(store, wanted, metric=metric, margin_ratio=margin_ratio)
        if history.points and history.points[-1].created_utc >= since_utc
    ]
    changes: list[LevelChange] = []
    for change in find_changes(histories, since_utc):
        before, after = (list(map(store.run, ids)) for ids in runs_beside(change))
        changes.append(replace(change, start_temp_c=start_temperatures_c(before, after)))
    return changes, histories


def newer_line(store: Store, wanted: RunFilter) -> str | None:
    """Line about runs that are left out because of a newer schema; None if there are none."""
    # Model and device of such runs are unknown.
    dated = RunFilter(since=wanted.since)
    count = sum(row.verdict == NEWER for row in list_runs(store, dated))
    if not count:
        return None
    are = "1 run is" if count == 1 else f"{count} runs are"
    return (
        f"{are} left out: made by a newer edgebench; this version supports schema {SCHEMA_VERSION}"
    )


def histories_of(store: Store, run_ids: Collection[str]) -> list[History]:
    """Histories of the headline metric that have at least two points and any of these runs.

    Raises:
        StoreError: the store cannot be read.
    """
    groups = [
        rows
        for rows in _groups(list_runs(store))
        if len(rows) > 1 and any(row.run_id in run_ids for row in rows)
    ]
    histories = [_history(store, rows, None, None) for rows in groups]
    return [history for history in histories if len(history.points) > 1]


def _groups(rows: Iterable[RunSummary]) -> list[list[RunSummary]]:
    """Group measurements by model, device and settings; in each group, the oldest is first."""
    groups: dict[tuple[str, str | None], list[RunSummary]] = {}
    for row in rows:
        if row.verdict in _STATES and row.kind.endswith(_MEASUREMENT):
            groups.setdefault((row.model, row.settings_digest), []).append(row)
    return list(groups.values())


def _history(
    store: Store,
    rows: Sequence[RunSummary],
    given_metric: Metric | None,
    margin_ratio: float | None,
) -> History:
    read = cache(store.run)
    rows = without_replaced(rows)
    counted = [row for row in rows if row.verdict != State.INVALID.value]
    newest = (counted or rows)[-1]
    newest_run = read(newest.run_id)
    metric = given_metric or headline(newest_run)
    commands: dict[tuple[str, str | None], list[RunSummary]] = {}
    for row in counted:
        command = row.set_id or f"{row.comparison_id or row.run_id} {row.side}"
        commands.setdefault((command, row.conditions_digest), []).append(row)
    recent = list(commands.values())[-MAX_HISTORY_POINTS:]
    by_digest = {row.conditions_digest: row.run_id for group in recent for row in group}
    conditions = {digest: conditions_of(read(run_id)) for digest, run_id in by_digest.items()}
    column = None if metric.is_tail or metric.is_exact or metric.budget else metric.column
    # The verdict of a set judges the spread of its runs by the headline, or by the median if the
    # headline is a tail percentile; not by metrics that the index lacks, nor by exact counts.
    judged_metric = headline(newest_run)
    if judged_metric.is_tail:
        judged_metric = METRICS[f"{newest_run.spec.scenario.traits.headline}.p50"]
    judged = None if judged_metric.is_exact else judged_metric.column

    def history_run(row: RunSummary) -> HistoryRun:
        run = None if column else read(row.run_id)
        return HistoryRun(
            run_id=row.run_id,
            created_utc=row.created_utc,
            set_id=row.set_id,
            marks=metric.relevant(row.marks),
            value=metric.bounded_value(run) if run else getattr(row, column or ""),
            conditions=conditions[row.conditions_digest],
            headline_value=getattr(row, judged) if judged else None,
            run=run,
        )

    return find_history(
        HistorySubject(
            model=newest.model,
            device=newest.device,
            runtime=newest.runtime,
            scenario=newest.scenario,
            threads=newest.threads,
            kind=" ".join(metric.relevant(newest_run.marks).origin),
            settings={k: v for k, v in settings_of(newest_run).items() if k not in SUBJECT_KEYS},
        ),
        [list(map(history_run, group)) for group in recent],
        metric,
        margin_ratio=margin_ratio,
        refused_count=len(rows) - len(counted),
        earlier_count=len(commands) - len(recent),
    )
