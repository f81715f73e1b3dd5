"""Names, verdict and numbers of a run or a set, which are the same in all export formats.

An invalid run has no numbers here, so no format can write any. Names and sentences are printable
text; each format escapes the special characters of its own syntax.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from edgebench.host.analysis.run_set import choose_sets
from edgebench.host.result.metrics import BY_SHORT_NAME, GROSS_ENERGY, METRICS
from edgebench.host.result.numbers import Number, numbers_of
from edgebench.host.result.run import Run
from edgebench.host.result.run_set import RunSet
from edgebench.host.result.verdict import State, Verdict
from edgebench.host.show.sentences import sentence
from edgebench.host.store.address import find_each
from edgebench.host.store.layout import Store
from edgebench.protocol.text import printable

CHIEF = (
    *("latency_ns.p50", "latency_ns.p90", "latency_ns.p99"),
    *("end_to_end_ns.p50", "end_to_end_ns.p90", "end_to_end_ns.p99"),
    *("throughput_per_s", "instructions_per_inference", "windows.duration_ns_per_inference"),
    *("cold_start_ns.load", "cold_start_ns.first_inference", "memory_bytes.peak_rss"),
    *("accuracy.value", GROSS_ENERGY, BY_SHORT_NAME["net_energy_j"].path, "energy.power_w_mean"),
)
"""Metrics that are exported to formats with a time series for each metric; table formats have all
metrics."""

MAX_PART_CHARS = 150
"""Maximum length of each part of a benchmark's name; Bencher accepts 1024 characters in total."""


@dataclass(frozen=True, slots=True)
class Judgement:
    """Options of a comparison; the defaults match `edgebench compare`."""

    metrics: tuple[str, ...] = ()
    """Metrics to compare; if empty, the main metric of the scenario."""
    margin_ratio: float | None = None
    """Largest change that counts as equivalent; None selects 1 %."""
    allowed: tuple[str, ...] = ()
    """Comparability keys in which the sides may differ."""


@dataclass(frozen=True, slots=True)
class ExportedRun:
    """A run and the directory with its files."""

    run: Run
    directory: Path
    judgement: Judgement = Judgement()
    """Options of the run's paired comparison; the defaults for a run outside of a comparison."""


def find_exported(store: Store, names: Iterable[str]) -> list[ExportedRun]:
    """The runs that the names refer to, in order, without duplicates.

    Raises:
        NoSuchRun: a name is unknown or ambiguous.
        StoreError: a run cannot be read.
    """
    return [ExportedRun(address.run(), address.directory) for address in find_each(store, names)]


def exported_numbers(result: Run | RunSet, paths: Iterable[str] = METRICS) -> list[Number]:
    """Numbers that may be shown, without those that JSON cannot represent.

    A value or a bound is left out if it is NaN or infinite; upper bounds may be infinite.
    """
    return [
        number if _is_finite(number.interval or ()) else replace(number, interval=None)
        for number in numbers_of(result, paths)
        if _is_finite([number.value])
    ]


def _is_finite(values: Iterable[float]) -> bool:
    return all(map(math.isfinite, values))


def mark(run_set: RunSet) -> str:
    """Marks appended to the name of a benchmark; empty for a valid set from a real device."""
    state = run_set.verdict.state
    marks = [*([] if state is State.VALID else [state.value]), *run_set.marks.origin]
    return f" [{', '.join(marks)}]" if marks else ""


def number_mark(number: Number, run_set: RunSet) -> str:
    """Mark appended to the name of a suspect number, if the main metric of the set is valid."""
    return f" [{State.SUSPECT.value}]" if number.metric.kind in run_set.marks.also_suspect else ""


def reasons(verdict: Verdict) -> list[str]:
    """Sentences of the failed rules, worst first."""
    return [printable(f"{rule.id}: {sentence(rule)}") for rule in verdict.failures]


def benchmark_names(sets: Iterable[RunSet]) -> list[str]:
    """Name of each set; if a benchmark is measured again, its set gets the same name.

    Sets with equal names are numbered. A suspect or simulated set has its label in the name, so
    that its numbers never continue a series of valid numbers.
    """
    limit = MAX_PART_CHARS
    names: list[str] = []
    counts: dict[str, int] = {}
    for run_set in sets:
        spec = run_set.first.spec
        delegates = ",".join(run_set.first.runtime.delegates_used)
        parts: list[str] = [run_set.model, run_set.device, run_set.runtime, spec.scenario.value]
        parts += [f"{spec.threads} threads"] * (spec.threads != 1) + [delegates] * bool(delegates)
        parts += ["profile"] * (run_set.first.kind == "profile")
        shown = map(printable, parts)
        short = [part if len(part) <= limit else f"{part[: limit - 1]}…" for part in shown]
        name = "/".join(short) + mark(run_set)
        counts[name] = counts.get(name, 0) + 1
        names.append(name if counts[name] == 1 else f"{name} #{counts[name]}")
    return names


def sets_of(runs: Sequence[ExportedRun]) -> list[RunSet]:
    """Exported runs grouped into sets."""
    return choose_sets(run.run for run in runs)
