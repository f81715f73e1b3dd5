"""Occasions (separate times) on which a device measured the same model, found in a store."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from statistics import median

from edgebench.host.analysis.compare.runs import Sides
from edgebench.host.analysis.extra_runs import without_disturbed_sets
from edgebench.host.analysis.occasions import (
    NextTime,
    OccasionSpread,
    next_time,
    occasion_spread,
    occasion_starts,
    start_s,
)
from edgebench.host.result.facts import side_id
from edgebench.host.result.metrics import METRICS, Metric
from edgebench.host.result.run_set import RunSet
from edgebench.host.store.index import (
    COUNTED_STATES,
    RunSummary,
    list_runs,
    summary_of,
    without_replaced,
)
from edgebench.host.store.layout import Store

_Subject = tuple[str, str | None, str | None]
"""Model, digest of the settings and digest of the conditions. Sets in which these are equal repeat
the same measurement on different occasions."""


def next_time_of(store: Store, run_set: RunSet) -> NextTime | None:
    """How far the next set's headline may be from this set's; None if there are too few sets.

    The result is also None for energies, exact counts, tail percentiles, headlines that the index
    does not contain, and sets with an invalid verdict.

    Raises:
        StoreError: the store cannot be read.
    """
    metric = METRICS[run_set.headline]
    column = None if metric.budget or metric.is_exact or metric.is_tail else metric.column
    if run_set.set_id is None or column is None or run_set.verdict.is_refused:
        return None
    rows = [row for row in list_runs(store) if row.device == run_set.device]
    groups = _by_subject(rows, lambda row: getattr(row, column))
    subject = next((_subject(row) for row in rows if row.set_id == run_set.set_id), None)
    own = groups.pop(subject, []) if subject is not None else []
    return next_time(own, groups.values())


def spread_in(
    store: Store, sides: Sides, metric: Metric, *, left_out: Collection[str] = ()
) -> OccasionSpread:
    """Spread of a metric between occasions (separate times), for the models of a comparison.

    The spread includes the sets of the store and the compared sets, which may be in other stores.
    If both sides have the same model, settings and conditions, the candidate is left out, because a
    change between the sides would count as spread. If no set of the sides was disturbed, disturbed
    sets of the store are left out, unless too few sets remain. Sets of other models on the device
    are included only if the index contains the metric.

    Args:
        store: The store.
        sides: The compared runs.
        metric: The metric.
        left_out: Ids of the runs of disturbed sets that the caller left out of `sides`. If there
            are any, only undisturbed sets are used, even if too few remain, because the caller
            needs the spread of undisturbed sets.

    Raises:
        StoreError: the store cannot be read.
    """
    stored = {row.run_id: row for row in list_runs(store)}
    before, after = ([stored.get(run.run_id) or summary_of(run) for run in side] for side in sides)
    is_quiet = bool(left_out) or (_are_undisturbed(before) and _are_undisturbed(after))
    own = {_subject(row) for row in before}
    after = [row for row in after if _subject(row) not in own]
    own.update(map(_subject, after))
    read = {run.run_id: run for side in sides for run in side}

    def value_of(row: RunSummary) -> float | None:
        if metric.column is not None:
            indexed: float | None = getattr(row, metric.column)
            return indexed
        if _subject(row) not in own:
            return None
        return metric.bounded_value(read.get(row.run_id) or store.run(row.run_id))

    compared = {*read, *left_out}
    device = before[0].device
    rows = [
        row
        for row in without_replaced(stored.values())
        if row.device == device and row.run_id not in compared
    ]

    def spread_with(rows: Iterable[RunSummary]) -> OccasionSpread:
        groups = _by_subject([*rows, *before, *after], value_of)
        return occasion_spread([groups.pop(subject, []) for subject in own], groups.values())

    # For undisturbed sides, disturbed occasions count only if there are too few undisturbed ones.
    quiet_spread = spread_with(_undisturbed(rows)) if is_quiet else OccasionSpread()
    if left_out or quiet_spread.deviation is not None:
        return quiet_spread
    return spread_with(rows)


def _subject(row: RunSummary) -> _Subject:
    return row.model, row.settings_digest, row.conditions_digest


def _undisturbed(rows: Iterable[RunSummary]) -> list[RunSummary]:
    """Leave out all runs of a set if half or more of the set's runs were disturbed."""
    return without_disturbed_sets(rows, _set_of, lambda row: row.disturbances is not None)


def _are_undisturbed(side: Sequence[RunSummary]) -> bool:
    """Whether no set of a side is disturbed."""
    counted = without_replaced(side)
    return len(_undisturbed(counted)) == len(counted)


def _set_of(row: RunSummary) -> str | None:
    """Id of the set that the run belongs to; for a run in a pair, the id of a side of the pairs."""
    if row.set_id is None and row.comparison_id is not None and row.side is not None:
        return side_id(row.comparison_id, row.side)
    return row.set_id


def _by_subject(
    rows: Iterable[RunSummary], value_of: Callable[[RunSummary], float | None]
) -> dict[_Subject, list[float]]:
    """Map each subject to the medians of the first set of each occasion, oldest first.

    If both sides of a comparison in pairs have the same subject, they count as one occasion.
    """
    sets: dict[_Subject, dict[str, list[tuple[float, float]]]] = {}
    for row in without_replaced(rows):
        name = row.set_id or row.comparison_id
        if name is None or row.verdict not in COUNTED_STATES:
            continue
        value = value_of(row)
        if value is not None and value > 0:
            runs = sets.setdefault(_subject(row), {}).setdefault(name, [])
            runs.append((start_s(row.created_utc), float(value)))
    groups: dict[_Subject, list[float]] = {}
    for subject, by_name in sets.items():
        runs_of_sets = list(by_name.values())
        first = occasion_starts(min(start for start, _ in runs) for runs in runs_of_sets)
        groups[subject] = [median(value for _, value in runs_of_sets[place]) for place in first]
    return groups
