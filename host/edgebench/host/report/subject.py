"""Subject of a report: a run or a set of runs, which fills a column of a page.

The traces of a run are read for its part of the page and then discarded, so that memory use does
not grow with the number of runs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from edgebench.host.analysis.compare.comparability import differences
from edgebench.host.analysis.history.conditions import settings_of
from edgebench.host.analysis.history.history import History
from edgebench.host.analysis.verdict.diagnosis import excess
from edgebench.host.report.charts import (
    ChartMark,
    DistributionChart,
    TimeChart,
    distribution_chart,
    time_charts,
)
from edgebench.host.report.evidence import evidence_strip
from edgebench.host.report.intervals import IntervalPlot, PlottedValue, interval_plot
from edgebench.host.report.numbers import (
    Interval,
    ReportNumber,
    all_numbers,
    headline_numbers,
    labels_of,
    shown_interval,
    shown_number,
)
from edgebench.host.report.suspect_sections import SuspectSection, sections_of
from edgebench.host.report.trace_table import TraceTable, trace_tables
from edgebench.host.result.energy import EnergyResult
from edgebench.host.result.latency import PERCENTILES
from edgebench.host.result.marks import in_words
from edgebench.host.result.metrics import METRICS
from edgebench.host.result.run import Run
from edgebench.host.result.run_set import RunSet
from edgebench.host.result.units import (
    format_joules,
    format_joules_within,
    format_ns,
    format_uncertainty_joules,
    format_watts,
    half_width_of,
)
from edgebench.host.result.verdict import Finding, RuleOutcome, State, Verdict
from edgebench.host.series.envelope import Floats
from edgebench.host.series.run_series import RunSeries, read_series
from edgebench.host.show.energy import energy_lines
from edgebench.host.show.headline import headlines
from edgebench.host.show.history import setting_text
from edgebench.host.show.notes import note_lines
from edgebench.host.show.operators import OperatorLines, operator_lines
from edgebench.host.show.page import heat_lines
from edgebench.host.show.sentences import sentence
from edgebench.host.show.set_page import replaced_words, variance_lines
from edgebench.host.show.verdict import CauseText, advices, cause_texts, causes_of, titles_of
from edgebench.host.store.annotations import Annotations
from edgebench.protocol.errors import RunDamaged, StoreError

MOST_LATENCIES = 20_001
"""Maximum number of latencies that are stored for each subject. A larger number of latencies is
replaced by quantiles 0.005 % apart."""
_WORDS = {
    RuleOutcome.PASS: "passed",
    RuleOutcome.FAIL: "failed",
    RuleOutcome.UNKNOWN: "unknown",
    RuleOutcome.NOT_APPLICABLE: "not applicable",
}


@dataclass(frozen=True, slots=True)
class ReportedRun:
    """A stored run to report, with its directory."""

    run: Run
    directory: Path | None
    """Directory of the run; None if its traces are not shown."""
    annotations: Annotations = field(default_factory=Annotations)
    history: History | None = None
    """History of the run's headline in its store; runs of the same history share the object."""
    show: Callable[[str], str] = str
    """Filter for texts that may contain paths; it anonymises them in an anonymous report."""


@dataclass(frozen=True, slots=True)
class RuleLine:
    """Finding of a rule as text."""

    id: str
    outcome: str
    text: str
    severity: str


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetPart:
    """Component of an uncertainty budget."""

    name: str
    shown: str
    variance_ratio: float
    """Fraction of the total variance."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EnergyPart:
    """Energy of a run: lines of text, plot, uncertainty budget and phases."""

    lines: tuple[tuple[str, str], ...]
    plot: IntervalPlot | None
    budget: tuple[BudgetPart, ...]
    phases: tuple[tuple[str, str, str, str], ...]
    """Name, energy, duration and mean power of each phase."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TracePart:
    """Traces of a run."""

    run_id: str
    created_utc: str
    state: str
    note: str
    """Reason for a separate time axis of the power, or for missing traces; empty otherwise."""
    charts: tuple[TimeChart, ...]
    tables: tuple[TraceTable, ...]
    damage: str
    """Damage of the traces as text, anonymised if requested; empty if they are not damaged."""


@dataclass(frozen=True, slots=True)
class EvidencePart:
    """Picture of a cause."""

    run_id: str
    """The run that shows the cause best."""
    chart: TimeChart


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportSubject:
    """Content of a page about a run or a set of runs."""

    name: str
    run_set: RunSet
    state: str
    labels: tuple[str, ...]
    """Labels of a simulated or emulated device and of synthetic power."""
    headline: str
    """Main result in a line; empty if the run failed."""
    sentence: str
    causes_line: str
    """Titles of the causes, for places that do not list the causes. For an invalid set, the line is
    empty, because the headline of an invalid set contains the titles."""
    causes: tuple[CauseText, ...]
    strips: dict[int, EvidencePart]
    """Pictures of the causes that a trace shows, keyed by the index of the cause."""
    sections: tuple[SuspectSection, ...]
    """Sections about the failed rules."""
    advices: tuple[str, ...]
    """Advice on quantities that were not watched; empty if the verdict has causes, which have their
    own advice."""
    problems: tuple[RuleLine, ...]
    """Failed rules, then rules that could not be checked."""
    problems_line: str
    kept: tuple[RuleLine, ...]
    kept_line: str
    numbers: tuple[ReportNumber, ...]
    all_numbers: tuple[ReportNumber, ...]
    notes: tuple[tuple[str, str], ...]
    distribution: DistributionChart | None
    latencies_ns: Floats
    """Latencies after the warm-up of all runs, at most `MOST_LATENCIES`, ascending."""
    percentiles: tuple[ReportNumber, ...]
    spread: IntervalPlot | None
    """Main result of each run of a set, with the interval of that run; None for a single run."""
    traces: tuple[TracePart, ...]
    energy: EnergyPart | None
    energy_run: str
    """Which run of a set the energy belongs to; empty for a single run."""
    operators: OperatorLines | None
    command: str


def subject_names(sets: Sequence[RunSet]) -> list[str]:
    """Name of each set: model, device and runtime, made unique if several sets share these.

    If several sets have the same name, the settings in which they differ are appended. If their
    settings are equal, the ids of the sets are appended.
    """
    names = [f"{run_set.model} on {run_set.device}, {run_set.runtime}" for run_set in sets]
    similar: dict[str, list[Run]] = {}
    for name, run_set in zip(names, sets, strict=True):
        similar.setdefault(name, []).append(run_set.first)
    differing = {name: differences(runs) for name, runs in similar.items()}
    longer: list[str] = []
    for name, run_set in zip(names, sets, strict=True):
        settings = settings_of(run_set.first).items()
        own = [setting_text(key, value) for key, value in settings if key in differing[name]]
        longer.append(", ".join([name, *own]))
    return [
        f"{name}, {run_set.set_id or run_set.first.run_id}" if longer.count(name) > 1 else name
        for name, run_set in zip(longer, sets, strict=True)
    ]


def subject_of(
    run_set: RunSet, runs: Sequence[ReportedRun], *, name: str, command: str, run_count: int
) -> ReportSubject:
    """Content of a page about a set.

    Args:
        run_set: The set.
        runs: Runs of the set with their directories.
        name: Name of the set, unique on the page.
        command: Command that repeats the measurement.
        run_count: Number of runs on the page; they share the limit on the size of the page.
    """
    is_refused, is_failed = run_set.verdict.is_refused, run_set.first.failure is not None
    # For a failed run, the sentence with the reason is enough.
    causes = () if is_failed else tuple(cause_texts(run_set, runs[0].run))
    typical = _typical(run_set)
    ordered = sorted(runs, key=lambda each: each.run.run_id != typical.run_id)
    worst = [(cause, _worst_run(run_set, cause)) for cause in causes]
    traces = _traces(ordered, worst, run_count)
    percentiles = [
        number for number in all_numbers(run_set) if number.path.rpartition(".")[2] in PERCENTILES
    ]
    marks = [
        ChartMark(
            number.path.rpartition(".")[2].replace("_", "."),
            number.value,
            *(number.interval or (None, None)),
        )
        for number in percentiles
        if number.path.startswith("latency_ns.")
    ]
    settings = [f"{line[:1].upper()}{line[1:]}." for line in note_lines([run_set])]
    problems, problems_line = _rules(run_set.verdict, RuleOutcome.FAIL, RuleOutcome.UNKNOWN)
    kept, kept_line = _rules(run_set.verdict, RuleOutcome.PASS, RuleOutcome.NOT_APPLICABLE)
    profile, energy = typical.metrics.profile, typical.metrics.energy
    energy_run = (
        f"run {typical.run_id}, one of {len(run_set.runs)} runs" if len(run_set.runs) > 1 else ""
    )
    return ReportSubject(
        name=name,
        run_set=run_set,
        state="failed" if is_failed else run_set.verdict.state.value,
        labels=labels_of(run_set),
        headline="".join(headline.line for headline in headlines([run_set])),
        sentence=" ".join([_sentence(run_set), *settings]),
        causes_line="" if is_refused or not causes_of(run_set) else titles_of(run_set),
        causes=causes,
        strips=traces.strips,
        sections=tuple(sections_of(rule.id for rule in run_set.verdict.failures)),
        advices=() if is_failed or causes_of(run_set) else tuple(advices(run_set, runs[0].run)),
        problems=problems,
        problems_line=problems_line,
        kept=kept,
        kept_line=kept_line,
        numbers=tuple(headline_numbers(run_set)),
        all_numbers=tuple(all_numbers(run_set)),
        notes=tuple(_notes(run_set, runs)),
        distribution=None if is_refused else distribution_chart(traces.latencies, marks),
        latencies_ns=_quantiles([] if is_refused else [values for _, values in traces.latencies]),
        percentiles=tuple(percentiles),
        spread=_spread(run_set),
        traces=tuple(traces.parts),
        energy=None if energy is None or is_refused else _energy(energy),
        energy_run=energy_run,
        operators=None if profile is None or is_refused else operator_lines(profile),
        command=command,
    )


def _quantiles(values: Sequence[Floats]) -> Floats:
    """All values in ascending order, or evenly spaced quantiles of them if there are too many."""
    ordered: Floats = np.sort(np.concatenate([np.zeros(0), *values]))
    if len(ordered) <= MOST_LATENCIES:
        return ordered
    thinned: Floats = ordered[np.linspace(0, len(ordered) - 1, MOST_LATENCIES).astype(int)]
    return thinned


def _typical(run_set: RunSet) -> Run:
    """The run whose headline is closest to the set's, or the first run of an invalid set."""
    metric, summary = METRICS[run_set.headline], run_set.metrics.get(run_set.headline)
    if summary is None or not run_set.counted:
        return run_set.first
    values = [(metric.value(run), run) for run in run_set.counted]
    known = [(abs(value - summary.median), run.run_id, run) for value, run in values if value]
    return min(known)[2] if known else run_set.counted[0]


def _sentence(run_set: RunSet) -> str:
    failure, verdict = run_set.first.failure, run_set.verdict
    if failure is not None:
        where = f" while {failure.phase.value.replace('_', ' ')}" if failure.phase else ""
        return f"The run failed{where}: {failure.message} ({failure.code}). Nothing was measured."
    unknown = [rule for rule in verdict.rules if rule.outcome is RuleOutcome.UNKNOWN]
    if verdict.state is State.INVALID:
        return "The numbers cannot be trusted and are not shown."
    if verdict.state is State.SUSPECT:
        return "The numbers may be wrong."
    if also := run_set.marks.also_suspect:
        return f"The main metric can be trusted, but {in_words(also)} may be wrong."
    if verdict.unwatched:
        names = ", ".join(verdict.unwatched)
        return f"The numbers can be trusted, but {names} could not be read."
    if unknown:
        return f"The numbers can be trusted, but {len(unknown)} rules could not be checked."
    return "The numbers can be trusted: all applicable rules passed."


def _rules(verdict: Verdict, *outcomes: RuleOutcome) -> tuple[tuple[RuleLine, ...], str]:
    """Rules with these outcomes, the most severe failures first, and a text that counts them."""
    rules = [*verdict.failures, *(rule for rule in verdict.rules if rule not in verdict.failures)]
    found = [rule for outcome in outcomes for rule in rules if rule.outcome is outcome]
    counts = Counter(rule.outcome for rule in found)
    line = ", ".join(f"{count} {_WORDS[outcome]}" for outcome, count in counts.items())
    return tuple(map(_rule_line, found)), line


def _rule_line(finding: Finding) -> RuleLine:
    outcome = _WORDS[finding.outcome]
    return RuleLine(finding.id, outcome, sentence(finding), finding.severity.value)


def _worst_run(run_set: RunSet, cause: CauseText) -> str:
    """Id of the run that fails the most rules of a cause.

    If several runs do, the run whose values are furthest beyond the limits is chosen.
    """

    def excess_in(run: Run) -> tuple[int, float]:
        failed = [finding for finding in run.verdict.failures if finding.id in cause.rules]
        return len(failed), sum(map(excess, failed))

    return max(run_set.counted or run_set.runs, key=excess_in).run_id


@dataclass(frozen=True, slots=True)
class _Traces:
    """Parts of a page that are computed from the traces of a set's runs."""

    parts: list[TracePart] = field(default_factory=list)
    strips: dict[int, EvidencePart] = field(default_factory=dict)
    """Pictures of the causes that a trace shows, keyed by the index of the cause."""
    latencies: list[tuple[str, Floats]] = field(default_factory=list)
    """Id of each run that is not refused, and its latencies after the warm-up, nanoseconds."""


def _traces(
    runs: Sequence[ReportedRun], worst: Sequence[tuple[CauseText, str]], run_count: int
) -> _Traces:
    """Read the traces of the runs for a page; only one run's traces are in memory at a time.

    Args:
        runs: The runs, in the order in which their traces are shown.
        worst: Causes, each with the id of the run that shows it best.
        run_count: Number of runs on the page.
    """
    content = _Traces()
    for reported in runs:
        part, series = _trace_part(reported, run_count)
        if part is not None:
            content.parts.append(part)
        if series is None:
            continue
        run_id = reported.run.run_id
        if series.latency is not None and not reported.run.verdict.is_refused:
            content.latencies.append((run_id, series.latency.steady_ns))
        for place, (cause, worst_id) in enumerate(worst):
            if worst_id == run_id and (strip := evidence_strip(cause.cause, series, reported.run)):
                content.strips[place] = EvidencePart(run_id, strip)
    return content


def _trace_part(reported: ReportedRun, run_count: int) -> tuple[TracePart | None, RunSeries | None]:
    """Traces of a run, as shown and as read. Both are None if the traces are not shown."""
    run, directory = reported.run, reported.directory
    if directory is None:
        return None, None
    charts: list[TimeChart] = []
    tables: list[TraceTable] = []
    series: RunSeries | None = None
    note = damage = ""
    try:
        series = read_series(directory, run)
    except StoreError as exc:
        note = reported.show(f"traces left out: {exc}")
        damage = reported.show(str(exc)) if isinstance(exc, RunDamaged) else ""
    else:
        charts = time_charts(series, run_count=run_count)
        tables = trace_tables(series)
        if series.power and series.power_apart is not None:
            note = f"The power has a separate time axis: {series.power_apart}."
        elif not charts:
            note = "The run has no traces."
        elif not any(chart.panels for chart in charts):
            note = (
                "Only the phases are shown: the run has no trace of latency, power, "
                "temperature or clock."
            )
    state = run.marks.state
    part = TracePart(
        run_id=run.run_id,
        created_utc=run.created_utc,
        state=state,
        note=note,
        charts=tuple(charts),
        tables=tuple(tables),
        damage=damage,
    )
    return part, series


def _spread(run_set: RunSet) -> IntervalPlot | None:
    """Plot of the headline of each run that is not refused, and of the headline of the set."""
    summary = run_set.metrics.get(run_set.headline)
    if run_set.set_id is None or summary is None or run_set.verdict.is_refused:
        return None
    metric = METRICS[run_set.headline]

    def plotted(label: str, value: float, bounds: Interval | None, state: State) -> PlottedValue:
        half_width = half_width_of(bounds, value)
        return PlottedValue(
            label=label,
            value=value,
            interval=bounds,
            shown=shown_number(metric, value, half_width),
            bounds="none" if bounds is None else shown_interval(metric, bounds, value),
            state=state.value,
        )

    values = [
        plotted(run.run_id, float(value), metric.expanded_interval(run), run.headline_state)
        for run in run_set.counted
        if (value := metric.value(run)) is not None
    ]
    name = f"median of {summary.count} runs"
    values.append(plotted(name, summary.median, summary.ci95, run_set.verdict.state))
    return interval_plot(values)


def _notes(run_set: RunSet, runs: Sequence[ReportedRun]) -> list[tuple[str, str]]:
    """Facts about the runs other than numbers."""
    first = run_set.first
    notes = [
        ("run" if run_set.set_id is None else "first run", f"{first.run_id}, {first.created_utc}")
    ]
    if run_set.set_id is not None:
        refused = len(run_set.refused_run_ids)
        counts = f"{len(run_set.run_ids)} of {run_set.planned_count} runs count"
        notes.append(
            ("set", f"{run_set.set_id}, {counts}" + (f", {refused} invalid" * bool(refused)))
        )
        if replaced := replaced_words(run_set):
            notes.append(("replaced", replaced))
    if run_set.variance is not None:
        notes += [("variation", line) for line in variance_lines(run_set.variance)]
    if first.kind == "profile":
        # A board is profiled in separate windows.
        is_apart = first.conditions.firmware is not None
        latencies = "are without it" if is_apart else "include the profiler's overhead"
        notes.append(("kind", f"profile of operators: latencies {latencies}"))
    for reported in runs:
        added, member = reported.annotations, reported.run.member
        if run_set.set_id is None and member is not None:
            place = f"run {member.number + 1} of {member.count}"
            notes.append(("set", f"{place}; all runs: edgebench report {member.set_id}"))
        if run_set.set_id is None and (pair := reported.run.pair) is not None:
            place = f"{pair.side} of pair {pair.number + 1}"
            notes.append(("pair", f"{place}; all pairs: edgebench report {pair.comparison_id}"))
        if added.tags:
            notes.append(("tags", ", ".join(added.tags)))
        if note := added.fault or added.note:
            notes.append(("note", note))
    if not run_set.verdict.is_refused:
        typical = _typical(run_set)
        run = "" if run_set.set_id is None else f"run {typical.run_id}: "
        if (warmup := typical.metrics.warmup) is not None:
            steady = warmup.steady_class or "unknown"
            notes.append(("warm-up", f"{run}{steady}, {warmup.query_count} inferences excluded"))
        notes += [("thermal", f"{run}{line}") for line in heat_lines(typical.metrics.thermal)]
    return list(dict.fromkeys(notes))


def _energy(energy: EnergyResult) -> EnergyPart:
    plotted = [
        PlottedValue(
            label=label,
            value=value_j,
            interval=None if u95_j is None else (value_j - u95_j, value_j + u95_j),
            shown=format_joules(value_j, u95_j or 0.0),
            bounds="unknown" if u95_j is None else f"{format_uncertainty_joules(u95_j)}, k = 2",
        )
        for label, value_j, u95_j in (
            ("gross", energy.gross_j_per_inference, energy.u95_absolute_j),
            ("net of idle", energy.net_j_per_inference, energy.net_u95_absolute_j),
        )
        if value_j is not None
    ]
    components = sorted((energy.components_j or {}).items(), key=lambda item: -item[1])
    variance = sum(value * value for _, value in components) or 1.0
    budget = tuple(
        BudgetPart(
            name=name,
            shown=format_uncertainty_joules(value_j),
            variance_ratio=value_j * value_j / variance,
        )
        for name, value_j in components
    )
    phases = [
        (
            name,
            phase.refused or ""
            if phase.energy_j is None
            else format_joules_within(phase.energy_j, phase.u95_absolute_j),
            format_ns(None if phase.duration_s is None else phase.duration_s * 1e9),
            format_watts(phase.power_w_mean),
        )
        for name, phase in (energy.phases or {}).items()
    ]
    return EnergyPart(
        lines=tuple(energy_lines(energy)),
        plot=interval_plot(plotted, from_zero=True) if plotted else None,
        budget=budget if energy.is_measured else (),
        phases=tuple(phases),
    )
