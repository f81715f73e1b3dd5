"""What every format says of a run or a set: its names, its verdict, and the numbers it may have.

An invalid run has no numbers here, so that no format can print one. Names and sentences are
printable text; each format escapes what its own syntax would obey.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from edgebench.host.analysis.run_set import alone, find_sets
from edgebench.host.result.energy import SYNTHETIC
from edgebench.host.result.metrics import BY_SHORT_NAME, GROSS_ENERGY, METRICS, Metric
from edgebench.host.result.run import Run
from edgebench.host.result.run_set import RunSet
from edgebench.host.result.verdict import State, Verdict
from edgebench.host.show.sentences import sentence
from edgebench.host.store.address import find_runs
from edgebench.host.store.layout import Store
from edgebench.protocol.text import printable

Bounds = tuple[float, float]
CHIEF = (
    *("latency_ns.p50", "latency_ns.p90", "latency_ns.p99"),
    *("end_to_end_ns.p50", "end_to_end_ns.p90", "end_to_end_ns.p99"),
    *("throughput_per_s", "instructions_per_inference", "windows.duration_ns_per_inference"),
    *("cold_start_ns.load", "cold_start_ns.first_inference", "memory_bytes.peak_rss"),
    *("accuracy.value", GROSS_ENERGY, BY_SHORT_NAME["net_energy_j"].path, "energy.power_w_mean"),
)
"""Metrics for those who keep a series of each: the others are in the table formats."""

MAX_PART_CHARS = 150
"""Length of a model's or a device's name in that of a benchmark: Bencher takes 1024 characters."""


@dataclass(frozen=True, slots=True)
class ExportedRun:
    """A run and the directory with its files."""

    run: Run
    directory: Path


@dataclass(frozen=True, slots=True)
class ExportedNumber:
    """A metric of a run or a set, in the unit of the metric."""

    metric: Metric
    value: float
    interval: Bounds | None
    """95 % interval; None where nobody knows one."""


def find_exported(store: Store, names: Iterable[str]) -> list[ExportedRun]:
    """The runs that the names mean, each once, in their order.

    Raises:
        NoSuchRun: a name is unknown, or a part of several ids.
        StoreError: a run cannot be read.
    """
    found = {one.directory: one for name in names for one in find_runs(store, name)}
    return [ExportedRun(one.run(), directory) for directory, one in found.items()]


def run_numbers(run: Run) -> list[ExportedNumber]:
    """The numbers of a run; none of an invalid one, and no tail that too few queries bound."""
    if run.verdict.is_refused:
        return []
    return [
        ExportedNumber(metric, value, _finite(metric.expanded_interval(run)))
        for metric in METRICS.values()
        if (value := metric.bounded_value(run)) is not None and math.isfinite(value)
    ]


def set_numbers(one: RunSet, paths: Sequence[str] = CHIEF) -> list[ExportedNumber]:
    """The numbers of a set with the interval between its runs; none of an invalid one.

    A run on its own has the intervals within it.
    """
    if one.verdict.is_refused:
        return []
    return [
        ExportedNumber(
            METRICS[path],
            found.median,
            _finite(
                METRICS[path].expanded_interval(one.first) if one.set_id is None else found.ci95
            ),
        )
        for path in paths
        if (found := one.metrics.get(path)) is not None and math.isfinite(found.median)
    ]


def _finite(interval: Bounds | None) -> Bounds | None:
    """The interval, if it has two ends: JSON has no word for infinity, and not for NaN either."""
    return interval if interval is not None and all(map(math.isfinite, interval)) else None


def label(verdict: Verdict, run: Run) -> str:
    """The verdict in words, and what of the run was no real device or no real power."""
    return ", ".join([verdict.label, *_unreal(run)])


def mark(one: RunSet) -> str:
    """What stands behind a name where a file keeps nothing else of a run; empty for valid ones."""
    state = one.verdict.state
    marks = [*([] if state is State.VALID else [state.value]), *_unreal(one.first)]
    return f" [{', '.join(marks)}]" if marks else ""


def _unreal(run: Run) -> list[str]:
    energy = run.metrics.energy
    is_synthetic = energy is not None and energy.boundary == SYNTHETIC
    kinds = {
        "simulated": run.simulated,
        "emulated": run.emulated,
        "synthetic power": is_synthetic,
    }
    return [name for name, is_so in kinds.items() if is_so]


def reasons(verdict: Verdict) -> list[str]:
    """The rules that failed, as sentences, worst first."""
    return [printable(f"{rule.id}: {sentence(rule)}") for rule in verdict.failures]


def _shorten(text: str) -> str:
    """Part of a name as printable text, at most `MAX_PART_CHARS` of it."""
    shown = printable(text)
    return shown if len(shown) <= MAX_PART_CHARS else f"{shown[: MAX_PART_CHARS - 1]}…"


def benchmark_names(sets: Iterable[RunSet]) -> list[str]:
    """A name for each set that is the same whenever the same thing is measured again.

    Sets that have the same one are numbered. What is not valid has a name of its own, so that no
    series of valid numbers continues with it.
    """
    names: list[str] = []
    counts: dict[str, int] = {}
    for one in sets:
        spec = one.first.spec
        delegates = ",".join(one.first.runtime.delegates_used)
        parts: list[str] = [one.model, one.device, one.runtime, spec.scenario.value]
        parts += [f"{spec.threads} threads"] * (spec.threads != 1) + [delegates] * bool(delegates)
        parts += ["profile"] * (one.first.kind == "profile")
        name = "/".join(_shorten(part) for part in parts) + mark(one)
        counts[name] = counts.get(name, 0) + 1
        names.append(name if counts[name] == 1 else f"{name} #{counts[name]}")
    return names


def sets_of(runs: Sequence[ExportedRun]) -> list[RunSet]:
    """The sets that the exported runs make; a single run of a set stands for itself."""
    sets = find_sets(one.run for one in runs)
    return [alone(one.first) if len(one.runs) == 1 else one for one in sets]
