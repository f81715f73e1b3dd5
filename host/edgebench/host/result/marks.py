"""Marks of every number: its verdict, and which parts of the measurement were not real.

    Run.marks, RunSet.marks ──▶ together() ──▶ comparisons, effects and points of a history

Every table, page, chart and export takes its wording from `ResultMarks`, so that each number is
shown with its marks.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from edgebench.host.result.energy import SYNTHETIC, EnergyResult
from edgebench.host.result.verdict import State, Verdict

FAILED = "failed"
"""State of a run that measured nothing: its verdict is invalid, and it has no numbers."""
SIMULATED = "simulated"
EMULATED = "emulated"
SYNTHETIC_POWER = "synthetic power"
_BEST_FIRST = (State.VALID.value, State.SUSPECT.value, State.INVALID.value, FAILED)


@dataclass(frozen=True, slots=True)
class ResultMarks:
    """Marks of the numbers of a run, of a set, or of several runs together."""

    state: str
    """`valid`, `suspect`, `invalid` or `failed`."""
    unwatched: tuple[str, ...] = ()
    """If valid: conditions that could not be read, so that changes of them were not detected."""
    device: tuple[str, ...] = ()
    """`simulated` and `emulated`, if they apply to the device; empty for a real device."""
    power: tuple[str, ...] = ()
    """`synthetic power` if no instrument measured the power."""

    @property
    def are_numbers_refused(self) -> bool:
        """Whether numbers must not be shown."""
        return self.state not in (State.VALID.value, State.SUSPECT.value)

    @property
    def origin(self) -> tuple[str, ...]:
        """Which of device and power were not real."""
        return (*self.device, *self.power)

    @property
    def label(self) -> str:
        """All marks.

        >>> ResultMarks("valid", ("temperature",), ("simulated",)).label
        'valid, unwatched: temperature, simulated'
        """
        unwatched = [f"unwatched: {', '.join(self.unwatched)}"] if self.unwatched else []
        return ", ".join([self.state, *unwatched, *self.origin])


def marks_of(
    verdict: Verdict,
    *,
    has_failed: bool,
    simulated: bool,
    emulated: bool,
    energy: EnergyResult | None,
) -> ResultMarks:
    """Marks of a run, from the fields of its document."""
    device = {SIMULATED: simulated, EMULATED: emulated}
    is_synthetic = energy is not None and energy.boundary == SYNTHETIC
    return ResultMarks(
        FAILED if has_failed else verdict.state.value,
        verdict.unwatched if verdict.state is State.VALID else (),
        tuple(name for name, applies in device.items() if applies),
        (SYNTHETIC_POWER,) if is_synthetic else (),
    )


def together(marks: Iterable[ResultMarks], verdict: Verdict | None = None) -> ResultMarks:
    """Marks of a number computed from several runs.

    Args:
        marks: Marks of each run, at least one.
        verdict: Verdict on all runs, such as a set's verdict; None: the worst verdict of the runs.
    """
    each = list(marks)
    state = max((one.state for one in each), key=_BEST_FIRST.index)
    unwatched = union(one.unwatched for one in each)
    if verdict is not None and not all(one.state == FAILED for one in each):
        state, unwatched = verdict.state.value, verdict.unwatched
    return ResultMarks(
        state,
        unwatched if state == State.VALID.value else (),
        union(one.device for one in each),
        union(one.power for one in each),
    )


def union(names: Iterable[tuple[str, ...]]) -> tuple[str, ...]:
    """All names without duplicates, in order of first appearance."""
    return tuple(dict.fromkeys(name for several in names for name in several))
