"""State of a campaign, from its stored runs and its journal, without a connection to devices."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

from edgebench.host.campaign.journal import Journal, LaneNote, Refusal
from edgebench.host.campaign.plan import MAX_ATTEMPT, CampaignPlan, PlannedRun, attempt_name
from edgebench.host.campaign.spec import INVALID, MADE_AGAIN
from edgebench.host.store.index import DAMAGED, RunSummary, list_runs
from edgebench.host.store.layout import Store

MAX_LOST = 5
"""After this number of lost attempts in a row, a run is not tried again, because its model may
crash the device."""
LOST = Refusal("lost", f"{MAX_LOST} attempts in a row were lost because the agent stopped")


class RunState(str, Enum):
    """State of a planned run."""

    MEASURED = "measured"
    """The run is stored, whatever its verdict is."""
    FAILED = "failed"
    """The run failed or was refused, and is not tried again."""
    UNSETTLED = "unsettled"
    """The run was started, and its outcome is unknown. The run may be in progress, finished on its
    device, or lost."""
    LEFT = "left"
    """The run is still to be made."""


@dataclass(frozen=True, slots=True)
class Attempt:
    """An attempt at a planned run."""

    run_id: str
    stored: RunSummary | None = None
    refusal: Refusal | None = None
    is_gone: bool = False

    @property
    def is_unsettled(self) -> bool:
        """Whether the outcome of the attempt has not reached this host yet."""
        return self.stored is None and self.refusal is None and not self.is_gone

    @property
    def problem(self) -> Refusal | None:
        """Why the attempt has no usable measurement; None if it is usable, or not yet settled."""
        if self.refusal is not None or self.stored is None:
            return self.refusal
        if self.stored.failure is not None:
            return Refusal(self.stored.failure, "")
        if self.stored.verdict == DAMAGED:
            return Refusal(DAMAGED, "a file of the run is missing or not readable")
        return Refusal(INVALID, "") if self.stored.verdict == INVALID else None


@dataclass(frozen=True, slots=True)
class RunProgress:
    """A planned run with its attempts, oldest first."""

    planned: PlannedRun
    attempts: tuple[Attempt, ...]
    state: RunState

    @property
    def final(self) -> Attempt | None:
        """The attempt that gives the result of the run; None while the run is not finished."""
        if self.state in (RunState.MEASURED, RunState.FAILED):
            return next(
                (attempt for attempt in reversed(self.attempts) if not attempt.is_gone), None
            )
        return None

    @property
    def problem(self) -> Refusal | None:
        """Why the run or its last attempt has no usable measurement; None if it has no problem."""
        if self.state is RunState.FAILED and self.final is None:
            return LOST
        return self.attempts[-1].problem if self.attempts else None

    @property
    def next_number(self) -> int:
        """Number of the next attempt."""
        names = [attempt_name(attempt.run_id) for attempt in self.attempts]
        return 1 + max((name.attempt for name in names if name is not None), default=0)


@dataclass(frozen=True, slots=True)
class CampaignState:
    """State of all runs and devices of a campaign."""

    plan: CampaignPlan
    runs: Mapping[PlannedRun, RunProgress]
    lanes: Mapping[str, LaneNote]

    def count(self, *states: RunState, device: str | None = None) -> int:
        """Number of planned runs in these states."""
        return sum(
            run.state in states
            for planned, run in self.runs.items()
            if device is None or self.plan.cells[planned.cell].device == device
        )

    @property
    def is_over(self) -> bool:
        """Whether every run is measured or has failed."""
        return not self.count(RunState.LEFT, RunState.UNSETTLED)


def campaign_state(
    store: Store, journal: Journal, plan: CampaignPlan | None = None
) -> CampaignState:
    """Read the current state of a campaign from the store and the journal.

    Raises:
        StoreError: the store or the journal cannot be read.
    """
    plan = plan or journal.plan()
    # The journal is read first, so that a run stored in between counts as stored.
    record = journal.read()
    stored = {run.run_id: run for run in list_runs(store) if f"-{plan.id}-" in run.run_id}
    attempts: dict[PlannedRun, list[Attempt]] = {planned: [] for planned in plan.planned}
    # Ids contain the place in the plan, so a store without the journal is sufficient.
    for run_id in sorted(dict.fromkeys((*record.intended, *stored)), key=_attempt_number):
        name = attempt_name(run_id)
        if name is not None and name.campaign == plan.id and name.planned in attempts:
            attempts[name.planned].append(
                Attempt(
                    run_id, stored.get(run_id), record.refused.get(run_id), run_id in record.gone
                )
            )
    return CampaignState(
        plan=plan,
        runs={
            planned: judged(planned, found, plan.spec.retry) for planned, found in attempts.items()
        },
        lanes=record.lanes,
    )


def _attempt_number(run_id: str) -> int:
    name = attempt_name(run_id)
    return name.attempt if name else 0


def judged(
    planned: PlannedRun, attempts: Iterable[Attempt], retry: Mapping[str, int]
) -> RunProgress:
    """Derive the state of a planned run from its attempts and the permitted retries."""
    found = tuple(attempts)
    return RunProgress(planned, found, _state(found, retry))


def _state(attempts: Sequence[Attempt], retry: Mapping[str, int]) -> RunState:
    if not attempts:
        return RunState.LEFT
    last = attempts[-1]
    if last.is_unsettled:
        return RunState.UNSETTLED
    if last.stored is None and last.is_gone:
        lost = [attempt.is_gone and attempt.stored is None for attempt in attempts[-MAX_LOST:]]
        is_hopeless = len(lost) == MAX_LOST and all(lost)
        return RunState.FAILED if is_hopeless or len(attempts) >= MAX_ATTEMPT else RunState.LEFT
    if last.problem is None:
        return RunState.MEASURED
    kind = last.problem.code
    count = sum(
        attempt.problem is not None and attempt.problem.code == kind for attempt in attempts
    )
    retry_kind = INVALID if kind == DAMAGED else kind  # neither has usable numbers
    is_tried_again = kind in MADE_AGAIN or count <= retry.get(retry_kind, 0)
    if is_tried_again and len(attempts) < MAX_ATTEMPT:
        return RunState.LEFT
    return RunState.MEASURED if kind == INVALID else RunState.FAILED
