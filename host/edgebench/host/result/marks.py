"""Marks of a number: its verdict, and which parts of its measurement are simulated.

    Run.marks, RunSet.marks ──▶ together() ──▶ comparisons, effects and points of a history

Every table, page, chart and export takes its wording from `ResultMarks`, so that each number is
shown with its marks.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from edgebench.host.result.energy import SYNTHETIC, EnergyResult
from edgebench.host.result.verdict import NumberKind, State, Verdict

FAILED = "failed"
"""State of a run that measured nothing; its verdict is invalid, and it has no numbers."""
SIMULATED = "simulated"
EMULATED = "emulated"
SYNTHETIC_POWER = "synthetic power"
_BEST_FIRST = (State.VALID.value, State.SUSPECT.value, State.INVALID.value, FAILED)


@dataclass(frozen=True, slots=True)
class ResultMarks:
    """Marks of the numbers of a run, of a set, or of several runs together."""

    state: str
    """State of the headline: `valid`, `suspect`, `invalid` or `failed`."""
    unread: tuple[str, ...] = ()
    """Conditions that could not be read, so that changes of them were not detected."""
    device: tuple[str, ...] = ()
    """`simulated` and `emulated`, if they apply to the device; empty for a real device."""
    power: tuple[str, ...] = ()
    """`synthetic power` if no instrument measured the power."""
    suspect: tuple[NumberKind, ...] | None = None
    """Kinds of numbers that are suspect; if unknown (None), all numbers have the `state`."""

    @property
    def are_numbers_refused(self) -> bool:
        """Whether numbers must not be shown."""
        return self.state not in (State.VALID.value, State.SUSPECT.value)

    @property
    def unwatched(self) -> tuple[str, ...]:
        """Conditions that could not be read, if the state is `valid`; else empty."""
        return self.unread if self.state == State.VALID.value else ()

    @property
    def origin(self) -> tuple[str, ...]:
        """Marks of a simulated or emulated device, and of synthetic power."""
        return (*self.device, *self.power)

    @property
    def also_suspect(self) -> tuple[NumberKind, ...]:
        """Kinds of numbers that are suspect although the headline is valid."""
        return self.suspect or () if self.state == State.VALID.value else ()

    @property
    def label(self) -> str:
        """All marks.

        >>> ResultMarks("valid", ("temperature",), ("simulated",)).label
        'valid, unwatched: temperature, simulated'
        >>> ResultMarks("valid", suspect=(NumberKind.TAIL, NumberKind.MEAN)).label
        'valid, suspect: tail and mean'
        """
        suspect = [f"suspect: {in_words(self.also_suspect)}"] if self.also_suspect else []
        unwatched = [f"unwatched: {', '.join(self.unwatched)}"] if self.unwatched else []
        return ", ".join([self.state, *suspect, *unwatched, *self.origin])

    def of_kind(self, kind: NumberKind) -> ResultMarks:
        """Marks of the numbers of a kind."""
        if self.are_numbers_refused or self.suspect is None:
            return self
        state = State.SUSPECT if kind in self.suspect else State.VALID
        return replace(self, state=state.value, suspect=None)


def in_words(kinds: Iterable[NumberKind]) -> str:
    """Kinds of numbers as words.

    >>> in_words([NumberKind.TAIL, NumberKind.MEAN, NumberKind.COLD_START])
    'tail, mean and cold start'
    """
    *others, last = [kind.value.replace("_", " ") for kind in kinds]
    return " and ".join(filter(None, (", ".join(others), last)))


def marks_of(
    verdict: Verdict,
    headline: NumberKind,
    *,
    has_failed: bool,
    simulated: bool,
    emulated: bool,
    energy: EnergyResult | None,
) -> ResultMarks:
    """Marks of a run, from the fields of its document.

    Args:
        verdict: Verdict of the run.
        headline: Kind of the run's headline.
        has_failed: Whether the run measured nothing.
        simulated: Whether the device is simulated.
        emulated: Whether the device is emulated.
        energy: Energy of the run, if a meter was requested.
    """
    device = {SIMULATED: simulated, EMULATED: emulated}
    is_synthetic = energy is not None and energy.boundary == SYNTHETIC
    return ResultMarks(
        FAILED if has_failed else verdict.state_of(headline).value,
        verdict.unwatched,
        tuple(name for name, applies in device.items() if applies),
        (SYNTHETIC_POWER,) if is_synthetic else (),
        verdict.suspect_kinds,
    )


def together(
    marks: Iterable[ResultMarks], verdict: Verdict | None = None, headline: NumberKind | None = None
) -> ResultMarks:
    """Marks of a number computed from several runs.

    Args:
        marks: Marks of each run, at least one.
        verdict: Verdict on all runs, such as a set's verdict; None selects the worst verdict of the
            runs.
        headline: Kind of number whose state in `verdict` becomes the state of the result. Unused
            without a verdict.
    """
    each = list(marks)
    state = max((marks.state for marks in each), key=_BEST_FIRST.index)
    unread, suspect = union(marks.unread for marks in each), None
    if (
        verdict is not None
        and headline is not None
        and any(marks.state != FAILED for marks in each)
    ):
        state, unread = verdict.state_of(headline).value, verdict.unwatched
        suspect = verdict.suspect_kinds
    return ResultMarks(
        state,
        unread,
        union(marks.device for marks in each),
        union(marks.power for marks in each),
        suspect,
    )


def union(names: Iterable[tuple[str, ...]]) -> tuple[str, ...]:
    """All names without duplicates, in order of first appearance."""
    return tuple(dict.fromkeys(name for several in names for name in several))
