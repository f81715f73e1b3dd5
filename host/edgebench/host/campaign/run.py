"""The runs of a campaign on a device, with recovery from failures of host, link and device."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime, timedelta, timezone
from functools import partial

from edgebench.host.analysis.verdict.table import was_stopped
from edgebench.host.bench import events
from edgebench.host.bench.events import Notify, Place
from edgebench.host.bench.references import achieved_accuracy
from edgebench.host.bench.request import BenchRequest
from edgebench.host.bench.session import InProgress, RunOrder, RunPlan, RunSession
from edgebench.host.campaign.estimate import expected_run_s
from edgebench.host.campaign.journal import NO_LAB, DeviceAtLab, Journal, Refusal
from edgebench.host.campaign.plan import (
    AttemptName,
    CampaignPlan,
    Cell,
    PlannedRun,
    attempt_name,
    is_of_campaign,
)
from edgebench.host.campaign.requests import CellRequests
from edgebench.host.campaign.spec import METER_LOST, STOPPED
from edgebench.host.campaign.state import Attempt, RunProgress, RunState, campaign_state, judged
from edgebench.host.result.run import Run
from edgebench.host.store.index import summary_of
from edgebench.host.store.layout import Store
from edgebench.protocol.errors import (
    EdgebenchError,
    LabHostsUnreachable,
    LeaseHeld,
    MeterLost,
    NoSpace,
    NoSuchMeter,
    NoSuchRun,
    RunDamaged,
    SeatLeft,
    StoreError,
    TooLarge,
    TransportError,
)

FIRST_PAUSE_S = 0.5
LONGEST_PAUSE_S = 30.0
"""Shortest and longest pause between attempts to reach a device. Each pause is twice as long as the
previous pause."""


_PASSING = (TransportError, LeaseHeld, NoSpace, SeatLeft, MeterLost, StoreError)
"""Errors whose cause is the environment, not the run. Such errors may be temporary, so the run is
made later."""
_LASTING = (TooLarge, RunDamaged, LabHostsUnreachable)
"""Subclasses of errors in `_PASSING` that are permanent, or are raised only after a wait."""


def may_pass(error: EdgebenchError) -> bool:
    """Whether an error may be temporary, because a link, disk, device or meter can come back."""
    return isinstance(error, _PASSING) and not isinstance(error, _LASTING)


@dataclass(frozen=True, slots=True, kw_only=True)
class CampaignWork:
    """Plan, journal and other parts of a campaign that all of its devices share."""

    plan: CampaignPlan
    journal: Journal
    store: Store
    requests: CellRequests
    notify: Notify
    end_s: float | None = None
    """End of the campaign's time budget, on the clock of `time.monotonic`; None if there is no
    limit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CellOrder(RunOrder):
    """An order for an attempt at a campaign's run."""

    cell: Cell
    attempt: AttemptName


class CampaignRuns(RunPlan):
    """The runs of a campaign on a device, with recovery from failures of host, link and device."""

    def __init__(
        self,
        work: CampaignWork,
        device: str,
        *,
        request: Callable[[Cell], BenchRequest],
        at: Callable[[], DeviceAtLab] = lambda: NO_LAB,
    ) -> None:
        """Create the plan; the remaining runs are determined when `orders` is called.

        Args:
            work: The campaign.
            device: Name of the device in the plan.
            request: Returns the request of a cell for this device.
            at: Returns the current lab host of the device, for the journal.
        """
        super().__init__(device, work.notify)
        self._work = work
        self._request = request
        self._at = at
        self._progress: dict[PlannedRun, RunProgress] = {}
        self._runs: list[Run] = []
        """Runs that were stored by this process, and runs of reference models."""
        self._took_s: list[float] = []
        self._pause = Pause(work.plan.spec.wait_s)
        self._intended: str | None = None
        """Id of the attempt in progress, once it is in the journal."""
        self._used: set[str] = set()
        """Ids that were used before. An id contains the time only in whole seconds, so an attempt
        that is repeated within a second would get the same id."""

    def opened(self) -> None:
        """Record in the journal that the device is being measured."""
        self._work.journal.note_lane(self.device, "measuring", at=self._at())

    def on_progress(self, run_id: str) -> InProgress:
        """Follow a run of this campaign that an earlier process started; wait for any other run."""
        return InProgress.FOLLOW if is_of_campaign(run_id, self._work.plan.id) else InProgress.WAIT

    def fetched(self, run: Run) -> None:
        """Count a run that was left on the device, unless the run failed; see `campaign_state`."""
        super().fetched(run)
        if run.failure is None:
            self._keep(run)

    def refused(self, run_id: str, error: EdgebenchError) -> None:
        """Record that a run can never be stored; raise an error that may be temporary."""
        if may_pass(error):
            raise error
        if isinstance(error, NoSuchRun):  # neither on the device nor stored here: it is lost
            return
        super().refused(run_id, error)
        if attempt_name(run_id) is not None:
            self._work.journal.refuse(run_id, _refusal(error))

    def orders(self, session: RunSession) -> Iterator[CellOrder]:
        """Yield orders for the remaining runs, until the budget ends."""
        del session
        self._find_left()
        self._pause.reached()
        plan = self._work.plan
        order = self._references_first(self._order())
        for number, planned in enumerate(order, 1):
            cell = plan.cells[planned.cell]
            place = Place(number, len(order), plan.settings(planned.cell))
            while self._progress[planned].state is RunState.LEFT:
                if self._is_over_budget(planned):
                    return
                begin_s, self._intended = time.monotonic(), None
                attempt = AttemptName(plan.id, planned, self._progress[planned].next_number)
                request = self._request(cell)
                accuracy = request.accuracy
                reference = accuracy.references.get(request.models[0]) if accuracy else None
                yield CellOrder(
                    request=request,
                    place=place,
                    device_name=cell.device,
                    member=plan.member(planned),
                    references=achieved_accuracy(reference, self._runs),
                    new_id=partial(self._intend, attempt),
                    cell=cell,
                    attempt=attempt,
                )
                self._took_s.append(time.monotonic() - begin_s)
                self._pause.made()

    def _intend(self, attempt: AttemptName) -> str:
        """Record in the journal that an attempt is about to start; return the id of its run."""
        now = datetime.now(timezone.utc)
        while (run_id := attempt.run_id(now)) in self._used:  # an attempt that was withdrawn
            now += timedelta(seconds=1)
        self._used.add(run_id)
        self._work.journal.intend(run_id)
        self._intended = run_id
        return run_id

    def stored(self, order: RunOrder, run: Run) -> None:
        """Count a run that was made by this process."""
        del order
        self._keep(run)

    def failed(self, order: RunOrder, error: EdgebenchError) -> None:
        """Record why an attempt failed, unless its outcome is known only to the device.

        Raises:
            EdgebenchError: the error may be temporary, so the run is made later.
        """
        assert isinstance(order, CellOrder), "an order of this plan"
        journal, planned, run_id = self._work.journal, order.attempt.planned, self._intended
        if may_pass(error) and run_id is not None and error.is_unstarted:
            with suppress(StoreError):  # without the entry, the attempt counts as lost
                journal.withdraw(run_id)
        run_id = run_id or order.attempt.run_id(datetime.now(timezone.utc))
        is_meter_lost = isinstance(error, MeterLost) and error.run_id is not None
        if error.run_id is not None and not is_meter_lost:
            self._note(planned, self._stored(error.run_id))
        elif is_meter_lost or not may_pass(error):
            refusal = Refusal(METER_LOST, str(error)) if is_meter_lost else _refusal(error)
            journal.refuse(run_id, refusal)
            self._note(planned, Attempt(run_id, refusal=refusal))
        if may_pass(error):
            raise error

    def ended(self) -> None:
        """Record in the journal that all runs of the device have ended."""
        self._work.journal.note_lane(self.device, "ended", at=self._at())

    def pause_s(self, error: EdgebenchError) -> float | None:
        """Pause after an error; None if the error is permanent, or has lasted for `wait_s`."""
        # A meter that was never present is the user's mistake; a meter used before may return.
        is_unplugged = isinstance(error, NoSuchMeter) and self._was_measured()
        if not (may_pass(error) or is_unplugged) or self._pause.is_over(error):
            return None
        self._work.journal.note_lane(self.device, "waiting", str(error), at=self._at())
        wait_s = self._work.plan.spec.wait_s
        self.notify(events.DeviceUnavailable(self.device, error, wait_s))
        return self._pause.next_s()

    def given_up(self, error: EdgebenchError) -> None:
        """Record why no further runs are made on this device; other devices continue."""
        self._work.journal.note_lane(self.device, "given_up", str(error), at=self._at())
        self.notify(events.DeviceFailed(self.device, error))

    def _was_measured(self) -> bool:
        """Whether any process began a run on this device, which proves that a meter was present."""
        plan = self._work.plan
        names = map(attempt_name, self._work.journal.read().intended)
        begun = {plan.cells[name.planned.cell].device for name in names if name is not None}
        return bool(self._took_s) or self.device in begun

    def _find_left(self) -> None:
        """Determine the remaining runs, after the earlier runs on the device have been stored."""
        work = self._work
        state = campaign_state(work.store, work.journal, work.plan)
        self._progress = dict(state.runs)
        for planned in self._order():
            for attempt in self._progress[planned].attempts:
                if attempt.is_unsettled:  # here: neither stored nor on its device
                    work.journal.miss(attempt.run_id)
                    self._note(planned, replace(attempt, is_gone=True))
        self._remember_references()

    def _remember_references(self) -> None:
        """Load runs of reference models that earlier processes stored."""
        known, digests = {run.run_id for run in self._runs}, self._reference_digests()
        cells = self._work.plan.cells
        for planned, progress in self._progress.items():
            cell, final = cells[planned.cell], progress.final
            is_one = self._work.plan.digests[cell.model] in digests and planned.repeat == 0
            if cell.device != self.device or not is_one or final is None or final.stored is None:
                continue
            if final.run_id not in known and final.problem is None:
                self._runs.insert(0, self._work.store.run(final.run_id))

    def _order(self) -> list[PlannedRun]:
        return self._work.plan.order(self.device)

    def _reference_digests(self) -> set[str]:
        """Digests of the models that are accuracy references of other models on this device."""
        cells, requests = self._work.plan.cells, self._work.requests
        return {
            reference.sha256
            for planned in self._order()
            if (accuracy := requests.of(cells[planned.cell]).accuracy)
            for reference in accuracy.references.values()
        }

    def _references_first(self, order: list[PlannedRun]) -> list[PlannedRun]:
        """Sort runs by repeat; in the first repeat, reference models come before other models."""
        cells, digests = self._work.plan.cells, self._work.plan.digests
        references = self._reference_digests()
        return sorted(
            order,
            key=lambda run: (
                run.repeat,
                run.repeat == 0 and digests[cells[run.cell].model] not in references,
            ),
        )

    def _is_over_budget(self, planned: PlannedRun) -> bool:
        """Whether a run would exceed the time budget if it takes as long as earlier runs."""
        if (end_s := self._work.end_s) is None:
            return False
        spec = self._work.requests.of(self._work.plan.cells[planned.cell]).spec
        took_s = sorted(self._took_s)
        expected_s = took_s[len(took_s) // 2] if took_s else expected_run_s(spec)
        return time.monotonic() + expected_s > end_s

    def _keep(self, run: Run) -> None:
        """Count a stored run; a stopped run is recorded as unusable, so that it is made again."""
        self._runs.append(run)
        name = attempt_name(run.run_id)
        if name is None or name.campaign != self._work.plan.id:
            return
        attempt = self._stored(run.run_id)
        if was_stopped(run):
            refusal = Refusal(STOPPED, "the run was stopped before its end")
            self._work.journal.refuse(run.run_id, refusal)
            attempt = replace(attempt, refusal=refusal)
        if name.planned in self._progress:
            self._note(name.planned, attempt)

    def _stored(self, run_id: str) -> Attempt:
        return Attempt(run_id, stored=summary_of(self._work.store.run(run_id)))

    def _note(self, planned: PlannedRun, attempt: Attempt) -> None:
        known = self._progress[planned].attempts
        attempts = [*(earlier for earlier in known if earlier.run_id != attempt.run_id), attempt]
        self._progress[planned] = judged(planned, attempts, self._work.plan.spec.retry)


class Pause:
    """Computes the pauses during a wait for a device, and whether the wait has become too long."""

    def __init__(self, limit_s: float) -> None:
        self._limit_s = limit_s
        self._pause_s = FIRST_PAUSE_S
        self._since_s: float | None = None
        self._is_link = False

    def is_over(self, error: EdgebenchError) -> bool:
        """Whether errors have lasted too long, or the lease was unavailable for the full wait."""
        if isinstance(error, LeaseHeld) and error.waited_s:
            return True
        self._is_link = isinstance(error, TransportError)
        now_s = time.monotonic()
        self._since_s = now_s if self._since_s is None else self._since_s
        return now_s - self._since_s >= self._limit_s

    def next_s(self) -> float:
        """Length of the next pause, seconds; doubles with each call up to `LONGEST_PAUSE_S`."""
        pause_s, self._pause_s = self._pause_s, min(2 * self._pause_s, LONGEST_PAUSE_S)
        return pause_s

    def reached(self) -> None:
        """Reset the pauses and the wait: the device was reached after an error of the link."""
        if self._is_link:
            self.made()

    def made(self) -> None:
        """Reset the pauses and the wait: a run was made, which shows that the problem is gone."""
        self._since_s, self._pause_s = None, FIRST_PAUSE_S


def _refusal(error: EdgebenchError) -> Refusal:
    return Refusal(error.code.name.lower(), str(error))
