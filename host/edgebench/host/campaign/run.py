"""The runs of a campaign on one device, whatever becomes of host, link or device meanwhile."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import datetime, timezone

from edgebench.host.bench.cancellation import Cancellation, Interrupted
from edgebench.host.bench.collect import collect_waiting, settle_lost
from edgebench.host.bench.finish import Finish
from edgebench.host.bench.follow import follow
from edgebench.host.bench.lanes import Target
from edgebench.host.bench.lease import take_lease
from edgebench.host.bench.plan import Step, refuse_too_large, run_request, runtimes_for
from edgebench.host.bench.run import DeviceLane, measure
from edgebench.host.bench.watcher import Place, Watcher
from edgebench.host.campaign.estimate import expected_run_s
from edgebench.host.campaign.journal import Journal, Refusal
from edgebench.host.campaign.plan import AttemptName, CampaignPlan, PlannedRun, attempt_name
from edgebench.host.campaign.requests import CellRequests
from edgebench.host.campaign.spec import METER_LOST, STOPPED
from edgebench.host.campaign.state import Attempt, RunProgress, RunState, campaign_state, judged
from edgebench.host.client import Client
from edgebench.host.devices.files import KnownDevice
from edgebench.host.power.metering import OpenMeter
from edgebench.host.result.run import Run
from edgebench.host.store.index import summary_of
from edgebench.host.store.layout import Store
from edgebench.protocol.device import SystemDescription
from edgebench.protocol.errors import (
    EdgebenchError,
    LeaseHeld,
    MeterLost,
    NoSpace,
    NoSuchMeter,
    RunDamaged,
    StoreError,
    TooLarge,
    TransportError,
)
from edgebench.protocol.record import Outcome

FIRST_PAUSE_S = 0.5
LONGEST_PAUSE_S = 30.0
"""Bounds of the pauses between attempts to reach a device; each is twice as long as the last."""
_PASSING = (TransportError, LeaseHeld, NoSpace, MeterLost, StoreError)
"""Errors of the place and not of the run: they may pass, and the run is still to be made."""
_LASTING = (TooLarge, RunDamaged)


def may_pass(error: EdgebenchError) -> bool:
    """Whether it is worth waiting: a link, a disk or a meter that comes back."""
    return isinstance(error, _PASSING) and not isinstance(error, _LASTING)


def was_stopped(run: Run) -> bool:
    """Whether somebody stopped a run that had measured something.

    One that became too hot, or reached its longest time, has a reason, and would again.
    """
    return any(
        rule.id == "complete"
        and rule.facts.get("ended") == Outcome.INTERRUPTED.value
        and rule.facts.get("why") is None
        for rule in run.verdict.failures
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class CampaignWork:
    """What the lanes of a campaign have in common."""

    plan: CampaignPlan
    journal: Journal
    store: Store
    requests: CellRequests
    connect: Callable[[KnownDevice], Client]
    finish: Finish
    watcher: Watcher
    """Hears of devices on which nothing more can be measured."""
    end_s: float | None = None
    """Time, as `time.monotonic` has it, at which the budget ends."""


class DeviceCampaign:
    """The runs of a campaign on one device."""

    def __init__(
        self,
        work: CampaignWork,
        target: Target,
        watcher: Watcher,
        cancellation: Cancellation,
        on_given_up: Callable[[EdgebenchError], None],
    ) -> None:
        self._work = work
        self._target = target
        self._watcher = watcher
        self._cancellation = cancellation
        self._on_given_up = on_given_up
        self._progress: dict[PlannedRun, RunProgress] = {}
        self._runs: list[Run] = []
        self._took_s: list[float] = []
        self._pause = Pause(work.plan.spec.wait_s)

    def measure(self) -> list[Run]:
        """Make the runs that are left; those that were made.

        What keeps the device from being measured is waited for, as long as the campaign says.

        Raises:
            Interrupted: somebody cancelled.
        """
        name, journal = self._target.device.name, self._work.journal
        while True:
            try:
                journal.note_lane(name, "measuring")
                with self._at_device() as (lane, meter):
                    self._make_all(lane, meter)
                journal.note_lane(name, "ended")
                return self._runs
            except EdgebenchError as exc:
                # A meter that was never there is a mistake; one that was may be plugged in again.
                is_unplugged = isinstance(exc, NoSuchMeter) and self._was_measured()
                if not (may_pass(exc) or is_unplugged) or self._pause.is_over(exc):
                    journal.note_lane(name, "given_up", str(exc))
                    self._on_given_up(exc)
                    self._work.watcher.device_failed(name, exc)
                    return self._runs
                journal.note_lane(name, "waiting", str(exc))
                self._watcher.paused(exc, self._work.plan.spec.wait_s)
                self._cancellation.wait(self._pause.next_s())

    def _was_measured(self) -> bool:
        """Whether a run was begun here, by whatever process: it had all that it needs."""
        if self._took_s:
            return True
        plan, device = self._work.plan, self._target.device.name
        names = map(attempt_name, self._work.journal.read().intended)
        return any(
            one is not None and plan.cells[one.planned.cell].device == device for one in names
        )

    @contextmanager
    def _at_device(self) -> Iterator[tuple[DeviceLane, OpenMeter | None]]:
        """The device with its lease, after everything that was begun on it is settled."""
        device, work = self._target.device, self._work
        with ExitStack() as stack:
            energy, meter = self._target.request.energy, None
            if energy is not None:
                meter = stack.enter_context(closing(OpenMeter.of(energy)))
            client = stack.enter_context(work.connect(device))
            lane = DeviceLane(client, work.store, self._watcher, self._cancellation, work.finish)
            self._follow_running(lane)
            wait_s = work.plan.spec.wait_s
            take_lease(client, device.name, wait_s, self._watcher, self._cancellation)
            self._settle(lane)
            self._pause.reached()
            try:
                yield lane, meter
            finally:
                with suppress(EdgebenchError):  # the lease of a lost link expires
                    client.release()

    def _follow_running(self, lane: DeviceLane) -> None:
        """Follow a run of this campaign that a host before us has started, to its end."""
        run_id = lane.client.list_runs().running
        name = attempt_name(run_id) if run_id else None
        if run_id is None or name is None or name.campaign != self._work.plan.id:
            return
        try:
            self._keep(follow(lane, run_id))
        except EdgebenchError as exc:
            if may_pass(exc):
                raise
        except Interrupted as exc:
            if exc.run is not None:
                self._keep(exc.run)
            raise

    def _settle(self, lane: DeviceLane) -> None:
        """Store what waits on the device, and find out what is still to be made."""
        work, client = self._work, lane.client

        def doubted(run_id: str, error: EdgebenchError) -> None:
            if may_pass(error):
                raise error
            self._watcher.doubted(run_id, error)
            if attempt_name(run_id) is not None:
                work.journal.refuse(run_id, _refusal(error))

        for run in collect_waiting(
            client,
            work.store,
            on_doubt=doubted,
            on_failure=self._watcher.failed_meanwhile,
            finish=work.finish,
        ):
            self._watcher.collected(run)
            self._keep(run)
        for lost in settle_lost(client, work.store):
            self._watcher.lost(lost)
        state = campaign_state(work.store, work.journal, work.plan)
        self._progress = dict(state.runs)
        for planned in self._order():
            for attempt in self._progress[planned].attempts:
                if attempt.is_unsettled:  # and neither stored nor on its device
                    work.journal.miss(attempt.run_id)
                    self._note(planned, replace(attempt, is_gone=True))

    def _order(self) -> list[PlannedRun]:
        return self._work.plan.order(self._target.device.name)

    def _make_all(self, lane: DeviceLane, meter: OpenMeter | None) -> None:
        """Make what is left, until the budget ends."""
        plan, system = self._work.plan, lane.client.describe()
        if meter is not None:
            meter.require_served(system)
        order = self._references_first(self._order())
        for number, planned in enumerate(order, 1):
            while self._progress[planned].state is RunState.LEFT:
                self._cancellation.check()
                if self._is_over_budget(planned):
                    return
                begin_s = time.monotonic()
                self._make(
                    lane,
                    planned,
                    Place(number, len(order), plan.settings(planned.cell)),
                    system,
                    meter,
                )
                self._took_s.append(time.monotonic() - begin_s)
                self._pause.made()

    def _references_first(self, order: list[PlannedRun]) -> list[PlannedRun]:
        """The order, with the models that others' accuracy is held against before those."""
        cells, requests = self._work.plan.cells, self._work.requests
        references = {
            reference.sha256
            for planned in order
            if (accuracy := requests.of(cells[planned.cell]).accuracy)
            for reference in accuracy.references.values()
        }
        digests = self._work.plan.digests
        return sorted(
            order,
            key=lambda run: (
                run.repeat,
                run.repeat == 0 and digests[cells[run.cell].model] not in references,
            ),
        )

    def _is_over_budget(self, planned: PlannedRun) -> bool:
        """Whether a run would end after the budget, going by those that were made here."""
        if (end_s := self._work.end_s) is None:
            return False
        spec = self._work.requests.of(self._work.plan.cells[planned.cell]).spec
        took_s = sorted(self._took_s)
        expected_s = took_s[len(took_s) // 2] if took_s else expected_run_s(spec)
        return time.monotonic() + expected_s > end_s

    def _make(
        self,
        lane: DeviceLane,
        planned: PlannedRun,
        place: Place,
        system: SystemDescription,
        meter: OpenMeter | None,
    ) -> None:
        """Make one attempt at a run.

        Raises:
            Interrupted: somebody cancelled.
            EdgebenchError: it cannot be made now, and may be later.
        """
        work, plan = self._work, self._work.plan
        cell, number = plan.cells[planned.cell], self._progress[planned].next_number
        name = AttemptName(plan.id, planned, number)
        run_id: str | None = None
        is_refused = False

        def new_id() -> str:
            nonlocal run_id
            run_id = name.run_id(datetime.now(timezone.utc))
            work.journal.intend(run_id)
            return run_id

        def refused(_: str) -> None:
            nonlocal is_refused
            is_refused = True

        energy = self._target.request.energy
        request = work.requests.of(cell).on_device(cell.device, energy.meter if energy else None)
        try:
            refuse_too_large(lane.client.device.name, request, system)
            runtime = runtimes_for(request.models[0], request.runtime, system)[0]
            if (asked := meter or request.instrument) is not None:
                spec = asked.spec(request.spec, is_duration_fixed=request.is_duration_fixed)
                request = replace(request, spec=spec)
            step = Step(request.models[0], runtime, member=plan.member(planned))
            self._watcher.run(cell.device, step.model, runtime, place)
            made = run_request(request, step, self._runs, meter)
            self._keep(measure(lane, replace(made, new_id=new_id, on_refused=refused)))
        except Interrupted as exc:
            if exc.run is not None:
                self._keep(exc.run)
            raise
        except EdgebenchError as exc:
            if may_pass(exc) and run_id is not None and is_refused:
                with suppress(StoreError):  # then it counts as lost
                    work.journal.withdraw(run_id)
            self._failed(planned, run_id or name.run_id(datetime.now(timezone.utc)), exc)
            if may_pass(exc):
                raise
            self._watcher.failed(request.models[0], request.runtime or "", exc)
        else:
            self._watcher.finished(self._runs[-1])

    def _failed(self, planned: PlannedRun, run_id: str, error: EdgebenchError) -> None:
        """Note why an attempt failed, unless only its device can tell whether it did."""
        if isinstance(error, MeterLost) and error.run_id is not None:
            refusal = Refusal(METER_LOST, str(error))
        elif error.run_id is not None:
            self._note(planned, self._stored(error.run_id))
            return
        elif may_pass(error):
            return
        else:
            refusal = _refusal(error)
        self._work.journal.refuse(run_id, refusal)
        self._note(planned, Attempt(run_id, refusal=refusal))

    def _keep(self, run: Run) -> None:
        """Count a stored run; one that was cut short is made again."""
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
        attempts = [*(one for one in known if one.run_id != attempt.run_id), attempt]
        self._progress[planned] = judged(planned, attempts, self._work.plan.spec.retry)


class Pause:
    """How long a device is waited for."""

    def __init__(self, limit_s: float) -> None:
        self._limit_s = limit_s
        self._pause_s = FIRST_PAUSE_S
        self._since_s: float | None = None
        self._is_link = False

    def is_over(self, error: EdgebenchError) -> bool:
        """Whether an error has kept us from measuring for too long, or was waited for already."""
        if isinstance(error, LeaseHeld) and error.waited_s:
            return True
        self._is_link = isinstance(error, TransportError)
        now_s = time.monotonic()
        self._since_s = now_s if self._since_s is None else self._since_s
        return now_s - self._since_s >= self._limit_s

    def next_s(self) -> float:
        """Length of the next pause."""
        pause_s, self._pause_s = self._pause_s, min(2 * self._pause_s, LONGEST_PAUSE_S)
        return pause_s

    def reached(self) -> None:
        """The device was reached: a link that was away is back."""
        if self._is_link:
            self.made()

    def made(self) -> None:
        """A run was made: whatever it was has passed."""
        self._since_s, self._pause_s = None, FIRST_PAUSE_S


def _refusal(error: EdgebenchError) -> Refusal:
    return Refusal(error.code.name.lower(), str(error))
