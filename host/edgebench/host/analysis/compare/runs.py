"""Stored runs, side against side: which metric, which design, and what may be said."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgebench.host.analysis.compare.comparability import Differences, check_comparable
from edgebench.host.analysis.compare.comparison import (
    Better,
    Comparison,
    Design,
    Rules,
    compare_many,
)
from edgebench.host.analysis.compare.energy import (
    BATTERY,
    ENERGY,
    SHORT_NAMES,
    energy_metric,
    instrument_ratio,
    is_metered,
    no_energy,
)
from edgebench.host.analysis.outputs import ERROR_METRICS
from edgebench.protocol.errors import MeasurementError, NotMetered, UsageError

DEFAULT_MARGIN_RATIO = 0.01
"""Changes smaller than this do not matter, unless the user says otherwise.

A change of just the margin is found half of the time; one of three times the margin, nearly always.
"""
HIGHER_IS_BETTER = frozenset(
    {
        "throughput_per_s",
        "accuracy.value",
        "agreement.fraction_equal",
        "agreement.top1_equal_ratio",
        "loadgen.samples_per_s",
    }
)
LOWER_IS_BETTER = (
    "latency_ns.",
    "end_to_end_ns.",
    "early_stopping.p",
    "cold_start_ns.",
    "memory_bytes.",
    "harness_ns.",
    "loadgen.p",
    "loadgen.early_stopping_",
    "agreement.max_abs_diff",
    "agreement.relative_rms",
    "accuracy.drop_vs_reference",
)
"""Beginnings of the names of metrics that are better when lower; energies have a table of their
own."""
DEFAULT_METRICS = {
    "single_stream": "latency_ns.p50",
    "multi_stream": "end_to_end_ns.p50",
    "server": "end_to_end_ns.p99",
    "offline": "throughput_per_s",
}

Document = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Verdicts:
    """How many of the compared runs are not beyond doubt."""

    valid_count: int
    suspect_count: int


@dataclass(frozen=True, slots=True)
class Compared:
    """One metric of two sides."""

    metric: str
    baseline: str
    """Name of the baseline's model."""
    candidate: str
    runtime: str
    device: str
    baseline_runs: tuple[str, ...]
    candidate_runs: tuple[str, ...]
    differs_in: Differences
    """Keys in which the sides differ, and were allowed to."""
    verdicts: Verdicts
    is_in_blocks: bool
    """All runs of one side were made before any of the other: a drift looks like a change."""
    result: Comparison


Sides = tuple[Sequence[Document], Sequence[Document]]


def compare_groups(
    groups: Sequence[Sides],
    *,
    metrics: Sequence[str] | None = None,
    margin_ratio: float | None = None,
    allowed: Iterable[str] = (),
) -> list[Compared]:
    """Compare each metric of each group of stored runs; p values are adjusted for their number.

    Runs that one command made as pairs are compared as pairs; all others as independent runs.

    Args:
        groups: Baseline and candidate runs.
        metrics: Numbers under `metrics` in run.json, as `latency_ns.p50`; None: what the
            scenario is about.
        margin_ratio: Changes smaller than this do not matter; None: 1 %.
        allowed: Keys in which the sides may differ.

    Raises:
        UsageError: the runs differ in more than the model, or the metric does not exist.
        MeasurementError: a run is invalid, or has no such number.
    """
    margin = DEFAULT_MARGIN_RATIO if margin_ratio is None else margin_ratio
    allowed = tuple(allowed)
    prepared = [
        _prepare(group, metric, margin, allowed)
        for group in groups
        for metric in map(_full_name, metrics or [_default_metric(group)])
    ]
    names = [f"{number}: {one.metric}" for number, one in enumerate(prepared)]
    results = compare_many(
        {name: one.values for name, one in zip(names, prepared, strict=True)},
        {name: one.rules for name, one in zip(names, prepared, strict=True)},
    )
    return [one.compared(results[name]) for name, one in zip(names, prepared, strict=True)]


@dataclass(frozen=True, slots=True)
class _Prepared:
    """A comparison that may be made."""

    baseline: list[Document]
    candidate: list[Document]
    metric: str
    rules: Rules
    differs_in: Differences

    @property
    def values(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        return _values(self.baseline, self.metric), _values(self.candidate, self.metric)

    def compared(self, result: Comparison) -> Compared:
        before, after = self.baseline, self.candidate
        states = [document["verdict"]["state"] for document in (*before, *after)]
        return Compared(
            metric=self.metric,
            baseline=before[0]["model"]["name"],
            candidate=after[0]["model"]["name"],
            runtime=before[0]["runtime"]["name"],
            device=before[0]["device"]["name"],
            baseline_runs=tuple(document["run_id"] for document in before),
            candidate_runs=tuple(document["run_id"] for document in after),
            differs_in=self.differs_in,
            verdicts=Verdicts(states.count("valid"), states.count("suspect")),
            is_in_blocks=_is_in_blocks(before, after),
            result=result,
        )


def _prepare(sides: Sides, metric: str, margin_ratio: float, allowed: tuple[str, ...]) -> _Prepared:
    baseline, candidate = sides
    if not baseline or not candidate:
        raise UsageError("a comparison needs runs on both sides")
    _refuse_invalid([*baseline, *candidate])
    _refuse_twice([*baseline, *candidate])
    found = check_comparable(baseline, candidate, allowed)
    pairs = _pairs(baseline, candidate)
    design = Design.INDEPENDENT if pairs is None else Design.PAIRED
    before, after = pairs or (list(baseline), list(candidate))
    # A metric that does not exist is told before one without direction.
    values = _values([*before, *after], metric)
    rules = Rules(
        design=design,
        better=_better(metric, before),
        margin_ratio=margin_ratio,
        # An energy that is not positive is refused where the ratio is made.
        instrument_ratio=instrument_ratio(metric, before, after) if values.min() > 0 else 0.0,
    )
    return _Prepared(before, after, metric, rules, found)


def _full_name(metric: str) -> str:
    return SHORT_NAMES.get(metric, metric)


def _is_energy_missing(document: Document, metrics: Sequence[str]) -> bool:
    names = [name for name in map(_full_name, metrics) if name.startswith(ENERGY)]
    return any(no_energy(document, name) is not None for name in names)


def check_metrics(metrics: Sequence[str], *, is_metered: bool, has_battery: bool = False) -> None:
    """Refuse metrics that no run could have, before runs are made for them.

    Raises:
        UsageError: nobody knows which direction is good or how uncertain it is, or it takes a
            meter.
    """
    for metric in map(_full_name, metrics):
        _direction(metric)
        if metric.startswith(ENERGY) and not is_metered:
            raise UsageError(f"metric {metric} needs a meter: --meter METER")
        if metric.startswith(BATTERY) and not has_battery:
            raise UsageError(f"metric {metric} needs a capacity: --battery 18.5Wh")


def split_sides(
    documents: Sequence[Document], metrics: Sequence[str] = ()
) -> tuple[list[Document], list[Document]]:
    """The runs of a paired comparison by side, without pairs of which one has no such number."""
    good = [
        document
        for document in documents
        if document["verdict"]["state"] != "invalid" and not _is_energy_missing(document, metrics)
    ]
    sides = {
        side: {d["pair"]["number"]: d for d in good if d["pair"]["side"] == side}
        for side in ("baseline", "candidate")
    }
    whole = sorted(sides["baseline"].keys() & sides["candidate"].keys())
    return [sides["baseline"][n] for n in whole], [sides["candidate"][n] for n in whole]


def _is_in_blocks(baseline: Sequence[Document], candidate: Sequence[Document]) -> bool:
    before, after = (
        sorted(document["run_id"] for document in side) for side in (baseline, candidate)
    )
    # Ids begin with the time. A single run a side has no order to speak of.
    return len(before) + len(after) > 2 and (before[-1] < after[0] or after[-1] < before[0])


def _refuse_twice(documents: Sequence[Document]) -> None:
    ids = [document["run_id"] for document in documents]
    twice = {run_id for run_id in ids if ids.count(run_id) > 1}
    if twice:
        raise UsageError(f"run {min(twice)} is named twice; a run counts once")


def _refuse_invalid(documents: Sequence[Document]) -> None:
    for document in documents:
        if document["verdict"]["state"] == "invalid":
            failed = [r["id"] for r in document["verdict"]["rules"] if r["outcome"] == "fail"]
            raise MeasurementError(
                f"run {document['run_id']} is invalid ({', '.join(failed)}): nothing to compare"
            )


def _pairs(
    baseline: Sequence[Document], candidate: Sequence[Document]
) -> tuple[list[Document], list[Document]] | None:
    """Both sides in the order of their pairs; None when they were not made as pairs."""
    sides = [_by_pair(baseline), _by_pair(candidate)]
    if any(side is None for side in sides):
        return None
    before, after = (side or {} for side in sides)
    if before.keys() != after.keys():
        return None
    keys = sorted(before)
    return [before[key] for key in keys], [after[key] for key in keys]


def _by_pair(documents: Sequence[Document]) -> dict[tuple[str, int], Document] | None:
    found: dict[tuple[str, int], Document] = {}
    for document in documents:
        pair = document.get("pair")
        if pair is None:
            return None
        found[pair["comparison_id"], pair["number"]] = document
    return found if len(found) == len(documents) else None


def _default_metric(group: Sides) -> str:
    scenarios = {document["spec"]["scenario"] for side in group for document in side}
    return DEFAULT_METRICS.get(min(scenarios, default=""), "latency_ns.p50")


def _better(metric: str, documents: Sequence[Document]) -> Better:
    """Which direction is good in these runs; raises as `_direction`."""
    names = {(document["metrics"]["accuracy"] or {}).get("metric") for document in documents}
    if metric == "accuracy.value" and names & ERROR_METRICS:
        return Better.LOWER
    return _direction(metric)


def _direction(metric: str) -> Better:
    """Which direction is good, whatever the runs.

    Raises:
        UsageError: nobody knows: more warm-up queries are neither good nor bad.
    """
    if metric.startswith(ENERGY):
        return energy_metric(metric).better
    if metric in HIGHER_IS_BETTER:
        return Better.HIGHER
    if metric.startswith(LOWER_IS_BETTER):
        return Better.LOWER
    raise UsageError(f"metric {metric!r} has no better or worse; compare latency_ns.p50")


def _values(documents: Sequence[Document], metric: str) -> NDArray[np.float64]:
    return np.array([_value(document, metric) for document in documents], np.float64)


def _value(document: Document, metric: str) -> float:
    value: Any = document["metrics"]
    if metric.startswith(ENERGY) and (reason := no_energy(document, metric)):
        kind = MeasurementError if is_metered(document) else NotMetered
        raise kind(f"run {document['run_id']} has no {metric}: {reason}")
    for name in metric.split("."):
        if not isinstance(value, Mapping) or name not in value:
            raise UsageError(f"unknown metric {metric!r}; see edgebench show RUN --json")
        value = value[name]
        if value is None:
            raise MeasurementError(f"run {document['run_id']} has no {metric}")
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise UsageError(f"metric {metric!r} is not a number; see edgebench show RUN --json")
    return float(value)
