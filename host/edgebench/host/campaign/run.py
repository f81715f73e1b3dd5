"""The runs of a campaign on one device; failures of host, link and device are survived."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime, timezone

from edgebench.host.bench.cancellation import Cancellation, Interrupted
from edgebench.host.bench.model import Model
from edgebench.host.bench.references import reference_accuracy
from edgebench.host.bench.watcher import Place, Watcher
from edgebench.host.campaign.device import CampaignDevice, OpenDevice, RunOrder, may_pass
from edgebench.host.campaign.estimate import expected_run_s
from edgebench.host.campaign.journal import NO_LAB, Journal, Refusal
from edgebench.host.campaign.plan import AttemptName, CampaignPlan, PlannedRun, attempt_name
from edgebench.host.campaign.requests import CellRequests
from edgebench.host.campaign.spec import METER_LOST, STOPPED
from edgebench.host.campaign.state import Attempt, RunProgress, RunState, campaign_state, judged
from edgebench.host.result.outputs import ReferenceAccuracy
from edgebench.host.result.run import Run
from edgebench.host.store.index import summary_of
from edgebench.host.store.layout import Store
from edgebench.protocol.errors import (
    EdgebenchError,
    LeaseHeld,
    MeterLost,
    NoSuchMeter,
    StoreError,
    TransportError,
)
from edgebench.protocol.record import Outcome

FIRST_PAUSE_S = 0.5
LONGEST_PAUSE_S = 30.0
"""Bounds of the pauses between attempts to reach a device; each is twice as long as the last."""


def was_stopped(run: Run) -> bool:
    """Whether a run was stopped that had measured something, or its data set.

    One that became too hot, or reached its longest time, has a reason, and would again.
    """
    failed = {rule.id: rule.facts for rule in run.verdict.failures}
    complete, dataset = failed.get("complete", {}), failed.get("dataset_complete", {})
    is_cut = complete.get("ended") == Outcome.INTERRUPTED.value and complete.get("why") is None
    return is_cut or dataset.get("is_stopped") is True


@dataclass(frozen=True, slots=True, kw_only=True)
class CampaignWork:
    """What the lanes of a campaign have in common."""

    plan: CampaignPlan
    journal: Journal
    store: Store
    requests: CellRequests
    watcher: Watcher
    """Told of devices on which nothing more can be measured."""
    end_s: float | None = None
    """Time, as `time.monotonic` has it, at which the budget ends."""


class DeviceCampaign:
    """The runs of a campaign on one device."""

    def __init__(
        self,
        work: CampaignWork,
        device: str,
        open_device: OpenDevice,
        *,
        watcher: Watcher,
        cancellation: Cancellation,
        on_given_up: Callable[[EdgebenchError], None],
    ) -> None:
        self._work = work
        self._device = device
        self._open_device = open_device
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
            Interrupted: the command was cancelled.
        """
        name, journal, at = self._device, self._work.journal, NO_LAB
        while True:
            try:
                with self._open_device(self._watcher, self._cancellation) as device:
                    at = device.at
                    journal.note_lane(name, "measuring", at=at)
                    self._settle(device)
                    self._pause.reached()
                    self._make_all(device)
                    device.finish()
                journal.note_lane(name, "ended", at=at)
                return self._runs
            except EdgebenchError as exc:
                # A meter that was never there is a mistake; one that was may be plugged in again.
                is_unplugged = isinstance(exc, NoSuchMeter) and self._was_measured()
                if not (may_pass(exc) or is_unplugged) or self._pause.is_over(exc):
                    journal.note_lane(name, "given_up", str(exc), at=at)
                    self._on_given_up(exc)
                    self._work.watcher.device_failed(name, exc)
                    return self._runs
                journal.note_lane(name, "waiting", str(exc), at=at)
                self._watcher.device_unavailable(exc, self._work.plan.spec.wait_s)
                self._cancellation.wait(self._pause.next_s())

    def _was_measured(self) -> bool:
        """Whether a run was begun here, by whatever process: it had all that it needs."""
        plan = self._work.plan
        names = map(attempt_name, self._work.journal.read().intended)
        begun = {plan.cells[one.planned.cell].device for one in names if one is not None}
        return bool(self._took_s) or self._device in begun

    def _settle(self, device: CampaignDevice) -> None:
        """Store what waits on the device, and find out what is still to be made."""
        work = self._work

        def refused(run_id: str, error: EdgebenchError) -> None:
            if attempt_name(run_id) is not None:
                work.journal.refuse(run_id, _refusal(error))

        device.settle(self._keep, refused)
        state = campaign_state(work.store, work.journal, work.plan)
        self._progress = dict(state.runs)
        for planned in self._order():
            for attempt in self._progress[planned].attempts:
                if attempt.is_unsettled:  # and neither stored nor on its device
                    work.journal.miss(attempt.run_id)
                    self._note(planned, replace(attempt, is_gone=True))
        self._remember_references()

    def _remember_references(self) -> None:
        """Know what the reference models have achieved before this process, too."""
        known, digests = {run.run_id for run in self._runs}, self._reference_digests()
        cells = self._work.plan.cells
        for planned, progress in self._progress.items():
            cell, final = cells[planned.cell], progress.final
            is_one = self._work.plan.digests[cell.model] in digests and planned.repeat == 0
            if cell.device != self._device or not is_one or final is None or final.stored is None:
                continue
            if final.run_id not in known and final.problem is None:
                self._runs.insert(0, self._work.store.run(final.run_id))

    def _order(self) -> list[PlannedRun]:
        return self._work.plan.order(self._device)

    def _make_all(self, device: CampaignDevice) -> None:
        """Make what is left, until the budget ends."""
        plan = self._work.plan
        order = self._references_first(self._order())
        for number, planned in enumerate(order, 1):
            while self._progress[planned].state is RunState.LEFT:
                self._cancellation.check()
                if self._is_over_budget(planned):
                    return
                begin_s = time.monotonic()
                place = Place(number, len(order), plan.settings(planned.cell))
                self._make(device, planned, place)
                self._took_s.append(time.monotonic() - begin_s)
                self._pause.made()

    def _reference_digests(self) -> set[str]:
        """Digests of the models that the accuracy of others on this device is held against."""
        cells, requests = self._work.plan.cells, self._work.requests
        return {
            reference.sha256
            for planned in self._order()
            if (accuracy := requests.of(cells[planned.cell]).accuracy)
            for reference in accuracy.references.values()
        }

    def _references_first(self, order: list[PlannedRun]) -> list[PlannedRun]:
        """The order, with the models that others' accuracy is held against before those."""
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
        """Whether a run would end after the budget, going by those that were made here."""
        if (end_s := self._work.end_s) is None:
            return False
        spec = self._work.requests.of(self._work.plan.cells[planned.cell]).spec
        took_s = sorted(self._took_s)
        expected_s = took_s[len(took_s) // 2] if took_s else expected_run_s(spec)
        return time.monotonic() + expected_s > end_s

    def _make(self, device: CampaignDevice, planned: PlannedRun, place: Place) -> None:
        """Make one attempt at a run.

        Raises:
            Interrupted: the command was cancelled.
            EdgebenchError: it cannot be made now, and may be later.
        """
        work, plan = self._work, self._work.plan
        cell, number = plan.cells[planned.cell], self._progress[planned].next_number
        name = AttemptName(plan.id, planned, number)
        run_id: str | None = None

        def new_id() -> str:
            nonlocal run_id
            run_id = name.run_id(datetime.now(timezone.utc))
            work.journal.intend(run_id)
            return run_id

        request = work.requests.of(cell)
        accuracy, model = request.accuracy, request.models[0]
        reference = accuracy.references.get(model) if accuracy else None
        order = RunOrder(
            cell=cell,
            place=place,
            member=plan.member(planned),
            references=_achieved(reference, self._runs),
        )
        try:
            self._keep(device.make(order, new_id))
        except Interrupted as exc:
            if exc.run is not None:
                self._keep(exc.run)
            raise
        except EdgebenchError as exc:
            if may_pass(exc) and run_id is not None and exc.is_unstarted:
                with suppress(StoreError):  # then it counts as lost
                    work.journal.withdraw(run_id)
            self._failed(planned, run_id or name.run_id(datetime.now(timezone.utc)), exc)
            if may_pass(exc):
                raise
            self._watcher.run_failed(model, request.runtime or "", exc)
        else:
            self._watcher.run_finished(self._runs[-1])

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


def _achieved(reference: Model | None, runs: Iterable[Run]) -> Mapping[str, ReferenceAccuracy]:
    """What a reference model has achieved on each runtime, the newest last."""
    known, achieved = list(runs), dict[str, ReferenceAccuracy]()
    for run in known:
        if reference is not None and run.model.sha256 == reference.sha256:
            own = [one for one in known if one.runtime.name == run.runtime.name]
            if (accuracy := reference_accuracy(reference, run.runtime.name, own)) is not None:
                achieved.pop(run.runtime.name, None)
                achieved[run.runtime.name] = accuracy
    return achieved
