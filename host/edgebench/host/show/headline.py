"""The answer to the question that a command asked, as a sentence.

    sets of a command ──▶ headlines() ──▶ the last lines of `bench`, the first of `show`, a page,
                                          a notebook, and `headlines` in JSON

What was asked follows from the options: `--sustained` asks for the performance under heat, a meter
for the energy, `--accuracy` for the accuracy beside the latency, several models for the fastest,
and anything else for the headline metric of the scenario.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

from edgebench.host.analysis.compare.ratios import SetRatio, ratio_of_sets
from edgebench.host.result.marks import together
from edgebench.host.result.metrics import GROSS_ENERGY, INSTRUCTIONS, LATENCY_SPANS, Quantity
from edgebench.host.result.numbers import Number, headline_number, number_of
from edgebench.host.result.run_set import RunSet
from edgebench.host.result.thermal import ThermalResult, ThermalState
from edgebench.host.result.units import format_number, format_share, format_times
from edgebench.host.result.verdict import NumberKind
from edgebench.host.show.numbers import REFUSED
from edgebench.host.show.verdict import causes_of
from edgebench.protocol.text import printable

ACCURACY = "accuracy.value"


class Question(Enum):
    """What a command asked."""

    RESULT = "result"
    RATIO = "ratio"
    SUSTAINED = "sustained"
    ENERGY = "energy"
    ACCURACY = "accuracy"


@dataclass(frozen=True, slots=True)
class Headline:
    """An answer."""

    question: Question
    sentence: str
    """Ends without a full stop, and includes the interval."""
    marks: str
    """Verdict and marks of the numbers in the sentence."""

    @property
    def document(self) -> dict[str, str]:
        """For JSON."""
        return {
            "question": self.question.value,
            "sentence": self.sentence,
            "marks": self.marks,
        }

    @property
    def line(self) -> str:
        """The sentence with its verdict.

        >>> Headline(Question.RESULT, "a.tflite takes 7.1 µs ±1 %", "valid").line
        'a.tflite takes 7.1 µs ±1 % (valid)'
        """
        return f"{self.sentence} ({self.marks})"


def headlines(sets: Sequence[RunSet]) -> list[Headline]:
    """The answers to the question of a command; empty if nothing was measured.

    One answer for each set, or for sustained runs, energies and accuracies also the comparison of
    several sets; a single answer for several sets with the same headline metric.

    Args:
        sets: Sets of the command, in the order of measurement.
    """
    measured = [run_set for run_set in sets if run_set.first.failure is None]
    if not measured:
        return []
    question = _question(measured[0])
    own = [_answer(run_set, question) for run_set in measured]
    if len(measured) == 1:
        return own
    compared = best_of(measured)
    if question is Question.RESULT:
        return [compared] if compared is not None else own
    return [*own, *([compared] if compared is not None else [])]


def _question(run_set: RunSet) -> Question:
    run = run_set.first
    if run.spec.is_sustained:
        return Question.SUSTAINED
    if any(run.metrics.energy is not None for run in run_set.runs):
        return Question.ENERGY
    if run.metrics.accuracy is not None:
        return Question.ACCURACY
    return Question.RESULT


def _answer(run_set: RunSet, question: Question) -> Headline:
    name = f"{run_set.model} on {run_set.runtime}"
    if run_set.verdict.is_refused:
        causes = "; ".join(cause.title for cause in causes_of(run_set) if cause.is_refusal)
        return _headline(question, f"{name}: {REFUSED}, {causes}", run_set.marks.label)
    if question is Question.SUSTAINED:
        thermal = run_set.first.metrics.thermal
        return _headline(question, f"{name} {_sustained(run_set, thermal)}", run_set.marks.label)
    number = headline_number(run_set)
    result = "has no headline metric" if number is None else _result(number)
    if question is Question.ENERGY:
        energy = number_of(run_set, GROSS_ENERGY)
        if energy is None:
            return _headline(
                question,
                f"{name}: energy {REFUSED}, {_causes_of_energy(run_set)}",
                run_set.marks.label,
            )
        sentence = f"{name} uses {format_number(energy)} per inference, gross"
        return _headline(question, sentence, energy.marks.label)
    if question is Question.ACCURACY and (accuracy := number_of(run_set, ACCURACY)) is not None:
        sentence = f"{name} has an accuracy of {format_number(accuracy)}, and {result}"
        return _headline(question, sentence, run_set.marks.label)
    return _headline(question, f"{name} {result}", run_set.marks.label)


def _headline(question: Question, sentence: str, marks: str) -> Headline:
    return Headline(question, printable(sentence), marks)


def _result(number: Number) -> str:
    """A headline metric with its interval, as the end of a sentence about the model."""
    metric, shown = number.metric, format_number(number)
    if metric.path == INSTRUCTIONS:
        return f"executes {shown} per inference"
    if metric.quantity is Quantity.RATE:
        return f"completes {shown} inferences"
    span, label = metric.group, metric.label.replace("_", ".")
    counted = "query" if span == "end_to_end_ns" else "inference"
    if metric.path == f"{span}.p50" or span not in LATENCY_SPANS:
        return f"takes {shown} per {counted}"
    return f"has a {label} of {shown} per {counted}"


def _causes_of_energy(run_set: RunSet) -> str:
    """Titles of the causes that harm the energy."""
    titles = (
        cause.title
        for cause in causes_of(run_set)
        if any(NumberKind.ENERGY in finding.harmed for finding in cause.findings)
    )
    return "; ".join(titles) or "no run has one"


def _sustained(run_set: RunSet, thermal: ThermalResult | None) -> str:
    """When and why a device throttled, and what it kept, as the end of a sentence."""
    number = headline_number(run_set)
    latency = "" if number is None else f"; it {_result(number)}"
    if thermal is None or thermal.state is ThermalState.UNKNOWN:
        return f"may have slowed down: neither heat nor clock could be watched{latency}"
    if not thermal.is_slowed:
        length = f"{run_set.first.spec.duration_s:g} s"
        return f"did not slow down in {length}{latency}"
    when = "from the start" if not thermal.onset_s else f"after {thermal.onset_s:.0f} s"
    cause = {"thermal": "heat", None: "an unknown cause", "hidden": "a hidden cause"}.get(
        thermal.cause, (thermal.cause or "").replace("_", " ")
    )
    kept = thermal.retention_ratio
    share = "" if kept is None else f": {format_share(kept)} of its peak performance is left"
    return f"slowed down {when} by {cause}{share}"


def best_of(sets: Sequence[RunSet]) -> Headline | None:
    """The best of several sets, and its ratio to the second best; None without such a ratio."""
    if len(sets) < 2:
        return None
    times = {id(sets[0]): 1.0}
    for run_set in sets[1:]:
        if (ratio := ratio_of_sets(sets[0], run_set)) is None:
            return None
        times[id(run_set)] = ratio.times
    best, second = sorted(sets, key=lambda run_set: -times[id(run_set)])[:2]
    between = ratio_of_sets(second, best)
    if between is None:
        return None
    is_of_two = len(sets) == 2
    if between.is_clear:
        begin = "" if is_of_two else f"best of {len(sets)}: "
        sentence = f"{begin}{_name(best, sets)} {_ratio(between)} {_name(second, sets)}"
        sentence += f", 95 % CI {' to '.join(map(format_times, between.interval))}"
    else:
        low, high = between.interval
        begin = "" if is_of_two else f"best of {len(sets)}: "
        names = f"{_name(best, sets)} and {_name(second, sets)}"
        sentence = (
            f"{begin}{names} are the same within ±{format_share(max(high, 1 / low) - 1)} (95 % CI)"
        )
    return _headline(Question.RATIO, sentence, together(run_set.marks for run_set in sets).label)


def _name(run_set: RunSet, sets: Sequence[RunSet]) -> str:
    """Name of a set that distinguishes it: its model, with runtime and device where needed."""
    name = run_set.model
    if len({each.model for each in sets}) < len(sets):
        name += f" on {run_set.runtime}"
    if len({each.device for each in sets}) > 1:
        name += f" on {run_set.device}"
    return name


def _ratio(ratio: SetRatio) -> str:
    """The ratio of a better set to another one, up to the name of the other one."""
    factor = format_times(ratio.times, (ratio.interval[1] - ratio.interval[0]) / 2)
    if ratio.metric.path == INSTRUCTIONS:
        return f"executes {factor} fewer instructions than"
    return f"is {factor} faster than"
