"""The main result of a command as a sentence, with its interval and its marks.

    sets of a command ──▶ headlines() ──▶ the end of the results of `bench`, the beginning of
                                          `show`, of a page and of a notebook, `headlines` in JSON

The options of the runs determine the subject of the sentence. Sustained runs: whether and why the
device slowed down. A meter: the energy. `--accuracy`: the accuracy and the latency. Several models:
the ratio of the best two. In all other cases: the headline metric of the scenario.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import Enum

from edgebench.host.analysis.occasions import OCCASION_S
from edgebench.host.analysis.verdict.energy import EnergyRule
from edgebench.host.result.marks import together
from edgebench.host.result.metrics import GROSS_ENERGY, INSTRUCTIONS, LATENCY_SPANS, Quantity
from edgebench.host.result.numbers import Number, headline_number, number_of
from edgebench.host.result.run import Run
from edgebench.host.result.run_set import RunSet
from edgebench.host.result.thermal import (
    MEMORY_CLOCK,
    POWER_LIMIT,
    UNKNOWN_CAUSE,
    ThermalResult,
    ThermalState,
)
from edgebench.host.result.units import format_number, format_share, format_times
from edgebench.host.result.verdict import State
from edgebench.host.show.accuracy import accuracy_in, accuracy_words
from edgebench.host.show.numbers import REFUSED
from edgebench.host.show.times import simulated_pace
from edgebench.host.show.verdict import causes_of, evidence_words, named_sets, titles_of
from edgebench.protocol.text import printable

TYPE_CHECKING = False  # see edgebench.host
if TYPE_CHECKING:
    from edgebench.host.analysis.compare.ratios import SetRatio

SAME_RATIO = 1.05
"""Two valid sets are called the same if the upper bound of their ratio is at most this value.
Charts are drawn so that a change of 5 % is visible. With a larger bound, or with a suspect set, the
sentence states that the sets cannot be distinguished."""
_THERMAL_CAUSES = {
    "thermal": "heat",
    "hidden": "heat",
    POWER_LIMIT: "a power limit",
    MEMORY_CLOCK: "a lower clock of the memory",
    UNKNOWN_CAUSE: "a lower clock",
}
Settings = Callable[[RunSet], str]


class HeadlineKind(Enum):
    """Subject of a main result."""

    RESULT = "result"
    RATIO = "ratio"
    SUSTAINED = "sustained"
    ENERGY = "energy"
    ACCURACY = "accuracy"


@dataclass(frozen=True, slots=True)
class Headline:
    """A main result."""

    kind: HeadlineKind
    sentence: str
    """The result as a sentence without a full stop, with the interval of each number."""
    marks: str
    """Verdict and marks of the numbers in the sentence."""

    @property
    def document(self) -> dict[str, str]:
        """For JSON."""
        return {"kind": self.kind.value, "sentence": self.sentence, "marks": self.marks}

    @property
    def line(self) -> str:
        """The sentence with its marks.

        >>> Headline(HeadlineKind.RESULT, "a.tflite takes 7.1 µs ±1 %", "valid").line
        'a.tflite takes 7.1 µs ±1 % (valid)'
        """
        return f"{self.sentence} ({self.marks})"


def headlines(sets: Sequence[RunSet], settings: Settings | None = None) -> list[Headline]:
    """The main results of a command; empty if nothing was measured.

    If all sets are of the same kind and can be compared, a ratio replaces the results of the single
    sets. For sustained runs, energies and accuracies, the ratio is added to these results.

    Args:
        sets: Sets of the command, in the order of measurement.
        settings: Text that distinguishes sets of the same model and device. None selects the ids of
            the sets.
    """
    measured = [run_set for run_set in sets if any(run.failure is None for run in run_set.runs)]
    results = [_result_of(run_set, _kind_of(run_set)) for run_set in measured]
    kinds = {result.kind for result in results}
    best = best_of(measured, settings) if len(kinds) == 1 else None
    if best is None:
        return results
    return [best] if kinds == {HeadlineKind.RESULT} else [*results, best]


def best_of(sets: Sequence[RunSet], settings: Settings | None = None) -> Headline | None:
    """The best of several sets, and its ratio to the second best.

    None in any of these cases:

    - There are fewer than two sets.
    - The first run of a set failed, or is a profile.
    - A set is invalid, or a ratio of two sets has no interval.
    - The sets differ in more than model, runtime and device.
    - The sets were measured on different occasions.
    - A set after the second best is not clearly worse than the best.

    Args:
        sets: The sets.
        settings: Text that distinguishes sets of the same model and device. None selects the ids of
            the sets.
    """
    if len(sets) < 2 or not _are_comparable(sets):
        return None
    from edgebench.host.analysis.compare.ratios import ratio_of_sets  # slow to import

    times: list[float] = []
    for run_set in sets:
        ratio = None if run_set is sets[0] else ratio_of_sets(sets[0], run_set)
        if ratio is None and run_set is not sets[0]:
            return None
        times.append(1.0 if ratio is None else ratio.times)
    best, second, *others = sorted(range(len(sets)), key=lambda place: -times[place])
    between = ratio_of_sets(sets[second], sets[best])
    ratios = [ratio_of_sets(sets[other], sets[best]) for other in others]
    if between is None or any(ratio is None or not ratio.is_clear for ratio in ratios):
        return None
    better, worse = _name(sets, best, settings), _name(sets, second, settings)
    begin = "" if len(sets) == 2 else f"best of {len(sets)}: "
    marks = together(run_set.marks for run_set in sets)
    is_valid = marks.state == State.VALID.value
    sentence = f"{begin}{_ratio_words(better, worse, between, is_valid=is_valid)}"
    return Headline(HeadlineKind.RATIO, printable(sentence), marks.label)


def _are_comparable(sets: Sequence[RunSet]) -> bool:
    """Whether the sets differ only in model, runtime and device; else `compare` is needed."""
    from edgebench.host.analysis.compare.comparability import unshown_differences  # slow to import

    firsts = [run_set.first for run_set in sets]
    if any(run.failure is not None or run.metrics.profile is not None for run in firsts):
        return False
    begins = [datetime.fromisoformat(run.created_utc) for run in firsts]
    is_of_one_occasion = (max(begins) - min(begins)).total_seconds() < OCCASION_S
    return is_of_one_occasion and not unshown_differences(firsts)


def _name(sets: Sequence[RunSet], place: int, settings: Settings | None) -> str:
    """Name of a set: its model, or more if several sets have the same model."""
    models = [run_set.model for run_set in sets]
    if models.count(models[place]) == 1 and len({run_set.device for run_set in sets}) == 1:
        return models[place]
    # Of a pair, `named_sets` writes the names that distinguish them.
    return named_sets(sets, [place], settings)


def _ratio_words(better: str, worse: str, ratio: SetRatio, *, is_valid: bool) -> str:
    """Sentence about the ratio of two sets, or about its bounds if the difference is not clear."""
    low, high = ratio.interval
    if not ratio.is_clear:
        if not is_valid or max(high, 1 / low) > SAME_RATIO:
            bounds = f"{format_times(low)} to {format_times(high)}"
            return f"{better} and {worse} cannot be distinguished: {bounds} (95 % CI)"
        reach = format_share(max(high, 1 / low) - 1)
        return f"{better} and {worse} are the same within ±{reach} (95 % CI)"
    factor = format_times(ratio.times, (high - low) / 2)
    bounds = f"95 % CI {format_times(low)} to {format_times(high)}"
    if ratio.metric.path == INSTRUCTIONS:
        return f"{better} executes {factor} fewer instructions than {worse}, {bounds}"
    return f"{better} is {factor} faster than {worse}, {bounds}"


def _kind_of(run_set: RunSet) -> HeadlineKind:
    run = run_set.first
    if run.spec.is_sustained:
        return HeadlineKind.SUSTAINED
    if any(run.metrics.energy is not None for run in run_set.runs):
        return HeadlineKind.ENERGY
    if run.metrics.accuracy is not None:
        return HeadlineKind.ACCURACY
    return HeadlineKind.RESULT


def _result_of(run_set: RunSet, kind: HeadlineKind) -> Headline:
    """The main result of a set."""
    name, marks = f"{run_set.model} on {run_set.runtime}", run_set.marks.label
    if run_set.verdict.is_refused:
        sentence = f"{name}: {REFUSED}, {titles_of(run_set)}"
    elif (profile := run_set.first.metrics.profile) is not None:
        sentence = f"{name}: {len(profile.operators)} operators timed"
    elif kind is HeadlineKind.SUSTAINED:
        sentence = f"{name} {_sustained(run_set)}"
    elif kind is HeadlineKind.ENERGY:
        energy = number_of(run_set, GROSS_ENERGY)
        if energy is None:
            sentence = f"{name}: {_why_no_energy(run_set)}"
        else:
            sentence = f"{name} uses {format_number(energy)} per inference, gross"
            marks = energy.marks.label
    else:
        sentence = f"{name} {_measured(run_set)}"
        accuracy = accuracy_in(run_set) if kind is HeadlineKind.ACCURACY else None
        if accuracy is not None:
            sentence += f", with an accuracy of {accuracy_words(accuracy)}"
    return Headline(kind, printable(sentence), marks)


def _measured(run_set: RunSet) -> str:
    """The headline metric with its interval, as the end of a sentence about the model."""
    number = headline_number(run_set)
    return "has no headline metric" if number is None else _number_words(number)


def _number_words(number: Number) -> str:
    metric, shown, span = number.metric, format_number(number), number.metric.group
    if metric.path == INSTRUCTIONS:
        return f"executes {shown} instructions per inference"
    if metric.quantity is Quantity.RATE:
        return f"has a throughput of {shown}"
    counted = "query" if span == "end_to_end_ns" else "inference"
    if metric.path == f"{span}.p50" or span not in LATENCY_SPANS:
        return f"takes {shown} per {counted}"
    return f"has a {metric.label.replace('_', '.')} of {shown} per {counted}"


def _why_no_energy(run_set: RunSet) -> str:
    """Why a set has no energy."""
    for diagnosis in causes_of(run_set):
        if any(finding.id == EnergyRule.id for finding in diagnosis.evidence):
            return evidence_words(run_set, diagnosis)
        if any(finding.id == EnergyRule.id for finding in diagnosis.effects):
            return f"energy {REFUSED}: {diagnosis.title}"
    energies = (run.metrics.energy for run in run_set.runs if run.metrics.energy is not None)
    reasons = [energy.refused for energy in energies if energy.refused is not None]
    return f"energy {REFUSED}: {reasons[0] if reasons else 'no run has an energy'}"


def _sustained(run_set: RunSet) -> str:
    """When and why a device slowed down, and how fast it then was, as the end of a sentence."""
    run, thermal = _slowest(run_set)
    count = len(run_set.counted)
    where = "" if count == 1 else f" in the worst of {count} runs"
    if thermal is None or thermal.state is ThermalState.UNKNOWN:
        why = "no telemetry" if thermal is None else thermal.reason
        return f"{_measured(run_set)}; whether it slowed down is unknown: {why}"
    if thermal.state is ThermalState.NOT_THROTTLED:
        length = f"{run.spec.duration_s:g} s{simulated_pace(run)}"
        return f"did not slow down in {length}; it {_measured(run_set)}"
    onset_s, kept = thermal.onset_s, thermal.retention_ratio
    when = "from the start" if onset_s is None or onset_s < 1 else f"after {onset_s:.0f} s"
    cause = "an unknown cause"
    if thermal.cause is not None:
        cause = _THERMAL_CAUSES.get(thermal.cause, thermal.cause)
    left = ""
    if kept is not None:
        left = (
            f": at the end, {format_share(kept)} of its peak performance is left, measured by "
            "latency"
        )
    return f"slowed down {when}{where}{simulated_pace(run)} by {cause}{left}"


def _slowest(run_set: RunSet) -> tuple[Run, ThermalResult | None]:
    """The counted run with the lowest retained performance.

    If any runs slowed down, only these runs are considered.
    """

    def kept(run: Run) -> tuple[bool, float]:
        thermal = run.metrics.thermal
        is_slowed = thermal is not None and thermal.is_slowed
        return not is_slowed, (thermal.retention_ratio or 1.0) if thermal else 1.0

    run = min(run_set.counted, key=kept)
    return run, run.metrics.thermal
