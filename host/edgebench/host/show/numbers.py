"""Short text about a run or a set, with the headline, its uncertainty, and the marks."""

from __future__ import annotations

from edgebench.host.result.metrics import METRICS, headline
from edgebench.host.result.numbers import headline_number
from edgebench.host.result.run import Run
from edgebench.host.result.run_set import RunSet
from edgebench.host.result.units import ABSENT, format_number

REFUSED = "refused"
"""Replaces a number that was measured but cannot be trusted."""


def headline_words(result: Run | RunSet) -> str:
    """The headline and the marks of a run or set, as a line.

    For a profile, the headline is the number of operators, because the latencies include the
    profiler's own time.
    """
    return f"{labelled_headline(result)}, {result.marks.label}"


def headline_text(result: Run | RunSet) -> str:
    """The headline with its uncertainty, `refused`, or a dash if it was not measured."""
    if result.marks.are_numbers_refused:
        return REFUSED
    number = headline_number(result)
    return ABSENT if number is None else format_number(number)


def labelled_headline(result: Run | RunSet) -> str:
    """The headline with its label, without marks; for a profile, the number of operators."""
    if result.marks.are_numbers_refused:
        return REFUSED
    run = result.first if isinstance(result, RunSet) else result
    if run.metrics.profile is not None:
        return f"{len(run.metrics.profile.operators)} operators timed"
    metric = METRICS[result.headline] if isinstance(result, RunSet) else headline(result)
    return f"{metric.label.replace('_', ' ')} {headline_text(result)}"
