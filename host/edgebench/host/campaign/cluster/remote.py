"""A device of a lab host, as a campaign measures on it from another host."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Sequence
from typing import cast, get_args

from edgebench.host.bench import events
from edgebench.host.bench.cancellation import Cancellation, Interrupted
from edgebench.host.bench.events import Notify
from edgebench.host.bench.session import RunOrder, RunPlan
from edgebench.host.campaign.cluster import messages as m
from edgebench.host.campaign.cluster.connection import ClusterConnection, LabDescription
from edgebench.host.campaign.cluster.files import ArrivingRun
from edgebench.host.campaign.run import CellOrder
from edgebench.host.result.run import Run
from edgebench.host.store.layout import Store
from edgebench.protocol.errors import (
    LeaseHeld,
    LinkLost,
    RemoteProtocolError,
    RunDamaged,
    RunNotStored,
    StoreError,
)

POLL_S = 2.0
"""Longest time for which a call waits: that in which Ctrl-C is heard."""

KnownRuns = Callable[[], "tuple[Collection[str], Collection[str]]"]
"""Ids of the device's runs that are stored, and of those that were only begun."""


class LabDevice:
    """A device while a campaign measures on it by a lab host."""

    def __init__(
        self,
        connection: ClusterConnection,
        lab: LabDescription,
        lane: str,
        *,
        device: str,
        store: Store,
        known_runs: KnownRuns,
        notify: Notify,
        cancellation: Cancellation,
    ) -> None:
        self._connection = connection
        self._lab = lab
        self._lane = lane
        self._device = device
        self._store = store
        self._known_runs = known_runs
        self._notify = notify
        self._cancellation = cancellation
        self._seen = 0
        self._reports: deque[m.Report] = deque()

    def settle(self, plan: RunPlan) -> None:
        """Let the lab host settle what was begun, and take over what it has stored."""
        stored, begun = self._known_runs()
        self._do(m.SettleJob(tuple(sorted(stored)), tuple(sorted(begun))), plan=plan)

    def make(self, order: RunOrder) -> Run:
        """Let the lab host make a run, and take it over."""
        assert isinstance(order, CellOrder), "lab hosts make the runs of campaigns"
        job = m.MakeJob(order.cell, order.place, order.member, order.references)
        made = self._do(job, order=order)
        if made is None:
            raise RemoteProtocolError(f"lab host {self._lab.name} did not tell which run it made")
        return made

    def finish(self) -> None:
        """Wait until lab host and device have forgotten what is stored here.

        A confirmation has no reply, and the device may be away when it comes.
        """
        stored, _ = self._known_runs()
        self._do(m.SettleJob(tuple(sorted(stored)), ()))

    def _do(
        self,
        job: m.SettleJob | m.MakeJob,
        *,
        order: CellOrder | None = None,
        plan: RunPlan | None = None,
    ) -> Run | None:
        """Wait for the end of a job; the run that it made, if it made one.

        Raises:
            Interrupted: the command was cancelled.
            LinkLost: the lab host is gone.
            EdgebenchError: the job failed.
        """
        command: m.LaneCommand | None = job
        is_stopping = False
        while True:
            try:
                self._call(command, wait_s=POLL_S)
            except KeyboardInterrupt:  # a lane alone is in the main thread
                if is_stopping:
                    raise
                self._cancellation.request()
            command = None
            kept: list[str] = []
            while self._reports:
                report = self._reports.popleft()
                if isinstance(report, m.IdRequest):
                    assert order is not None, "only a run that is made needs an id"
                    assert order.new_id is not None, "a campaign gives its runs their ids"
                    command = m.IdGrant(order.new_id())
                elif isinstance(report, m.StoredRunNotice):
                    is_new = self._fetch(report.run_id)
                    kept.append(report.run_id)
                    if plan is not None and is_new:
                        plan.fetched(self._store.run(report.run_id))
                elif isinstance(report, m.RunRefusal) and plan is not None:
                    plan.refused(report.run_id, m.reported_error(report.error))
                elif isinstance(report, m.JobResult):
                    self._confirm(kept)
                    return self._made(report)
                else:
                    self._tell(report, order)
            self._confirm(kept)
            if self._cancellation.is_requested and not is_stopping:
                command, is_stopping = m.LaneStop(), True

    def _made(self, ended: m.JobResult) -> Run | None:
        """The run of a job, if it made one.

        Raises:
            Interrupted: the command was cancelled.
            EdgebenchError: it failed.
        """
        run = self._store.run(ended.run_id) if ended.run_id is not None else None
        if ended.is_interrupted:
            raise Interrupted(run if run is not None and run.failure is None else None)
        if ended.error is not None:
            raise m.reported_error(ended.error)
        return run

    def _tell(self, report: m.Report, order: CellOrder | None) -> None:
        """Pass on what happens there."""
        device = self._device
        if isinstance(report, m.RunStartNotice) and order is not None:
            model = order.request.models[0].name
            place, runtime = order.place, report.runtime
            self._notify(events.RunBegan(device, order.device_name, model, runtime, place))
        elif isinstance(report, m.RunPhase):
            self._notify(events.PhaseReport(device, report.progress))
        elif isinstance(report, m.DeviceWait):
            refusal = m.reported_error(report.error)
            if isinstance(refusal, LeaseHeld):
                self._notify(events.DeviceBusy(device, refusal, report.wait_s))

    def _call(self, command: m.LaneCommand | None, *, wait_s: float) -> None:
        """Give a command, and take the reports that there are.

        Raises:
            Interrupted: the command was cancelled, and the lab host is gone.
            LinkLost: the lab host is gone.
        """
        call = m.LaneCall(self._lane, self._seen, wait_s)
        request = [call] if command is None else [call, command]
        try:
            answers, _ = self._connection.call(self._lab, *request, wait_s=wait_s)
        except LinkLost:
            self._cancellation.check()
            raise
        for report in answers:
            assert isinstance(report, get_args(m.Report)), report
            self._reports.append(cast(m.Report, report))
        self._seen += len(answers)

    def _fetch(self, run_id: str) -> bool:
        """Store a run that waits at the lab host; whether it was not here.

        Raises:
            LinkLost: the lab host is gone; what has come is kept, and the rest fetched later.
            RunDamaged: what came is not what the lab host has.
            RunNotStored: the store cannot be written; lab host and device keep the run.
        """
        if self._store.has(run_id):
            return False
        try:
            arriving = ArrivingRun(self._store, run_id)
            while True:
                size_bytes, sha256, part = self._part(run_id, arriving.size_bytes)
                if arriving.add(sha256, part) and arriving.size_bytes >= size_bytes:
                    break
            arriving.keep(sha256)
        except RunDamaged:
            raise
        except StoreError as exc:
            raise RunNotStored(f"run {run_id} stays on the device: {exc}") from exc
        return True

    def _part(self, run_id: str, offset: int) -> tuple[int, str, bytes]:
        """Size and digest of a run's packed files, and their next part."""
        call, fetch = m.LaneCall(self._lane, self._seen, 0.0), m.RunFetch(run_id, offset)
        [answer], part = self._connection.call(self._lab, call, fetch)
        if not isinstance(answer, m.RunPart) or (not part and offset < answer.size_bytes):
            raise RemoteProtocolError(f"lab host {self._lab.name} sent nothing of run {run_id}")
        return answer.size_bytes, answer.sha256, part

    def _confirm(self, run_ids: Sequence[str]) -> None:
        if run_ids:
            self._call(m.RunReceipt(tuple(run_ids)), wait_s=0.0)

    def close(self) -> None:
        """End the lane; a run in progress goes on."""
        self._call(m.LaneClose(), wait_s=0.0)
