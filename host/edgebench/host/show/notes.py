"""Notes on runs, about facts that a reader should know although they invalidate no number."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from edgebench.host.analysis.verdict.clock import ClockDriftRule, ClockRule
from edgebench.host.result.run import Run
from edgebench.host.result.run_set import RunSet
from edgebench.host.result.verdict import RuleOutcome
from edgebench.host.show.bench_command import is_of_demo
from edgebench.host.show.settings import setting_notes
from edgebench.host.show.verdict import named_sets
from edgebench.protocol.text import printable

_OF_DEMO = (
    "the simulated board of edgebench demo is gone; to start a board that stays: "
    "edgebench-agent serve --simulate BOARD (docs/throttling.md)"
)
_CLOCK_RULES = (ClockRule, ClockDriftRule)


def run_notes(*runs: Run) -> list[str]:
    """Notes on settings without the requested effect, wall clocks set during a run, and demos."""
    notes = setting_notes(runs)
    for run in runs:
        steps = [
            finding.detail
            for finding in run.verdict.rules
            if finding.id in {rule.id for rule in _CLOCK_RULES}
            and finding.reason == ClockRule.was_set.id
            and finding.outcome is RuleOutcome.PASS
        ]
        notes += steps[:1]
    if any(map(is_of_demo, runs)):
        notes.append(_OF_DEMO)
    return notes


def note_lines(sets: Sequence[RunSet], titles: Callable[[RunSet], str] | None = None) -> list[str]:
    """Notes on sets, each note once; a note names its sets unless it applies to all sets.

    Args:
        sets: The sets.
        titles: Text that distinguishes sets of the same model and device; None selects their ids.
    """
    sharing: dict[str, list[int]] = {}
    for index, run_set in enumerate(sets):
        for note in dict.fromkeys(run_notes(*run_set.runs)):
            sharing.setdefault(note, []).append(index)
    return [
        printable(f"note: {note}")
        if len(indexes) == len(sets)
        else printable(f"note: {named_sets(sets, indexes, titles)}: {note}")
        for note, indexes in sharing.items()
    ]
