"""A lab host: makes the runs that coordinators ask for, on the devices of its lab.

Theory of operation. A lane of a campaign is a thread here. It does one job after another: it
settles what was begun on its device, then it makes runs. What happens it reports, and its
coordinator comes for the reports by one call after another. A call never lasts as long as a run,
and a lane lives in this process and not in a call: so a scheduler that is killed stops no run.

A lane whose coordinator is gone ends with its job. A new lane of the same campaign on the same
device waits for that, as the run is the campaign's; one of another campaign is told that the
device is in use. A run is stored here, and its device keeps it, until the coordinator has it.
"""

from __future__ import annotations

import queue
import secrets
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from tempfile import TemporaryFile
from typing import BinaryIO, cast, get_args

from edgebench.host.bench.cancellation import Cancellation, Interrupted
from edgebench.host.bench.events import DeviceBusy, MeasurementEvent, PhaseReport, RunBegan
from edgebench.host.bench.finish import FinishingProcess
from edgebench.host.bench.request import BenchRequest
from edgebench.host.bench.session import (
    DeviceSession,
    InProgress,
    MeasuringHost,
    RunOrder,
    RunPlan,
    device_session,
)
from edgebench.host.campaign.cluster import messages as m
from edgebench.host.campaign.cluster.files import PART_BYTES, LabFiles, pack_run
from edgebench.host.campaign.plan import Cell, attempt_name
from edgebench.host.campaign.requests import cell_request
from edgebench.host.campaign.run import may_pass
from edgebench.host.client import Client
from edgebench.host.devices.files import KnownDevice
from edgebench.host.devices.health import Outcomes
from edgebench.host.result.run import Run
from edgebench.host.store.layout import Store
from edgebench.host.store.removal import remove_runs
from edgebench.host.this_host import software
from edgebench.protocol.digests import sha256_of
from edgebench.protocol.errors import (
    EdgebenchError,
    LeaseHeld,
    LinkLost,
    NoSuchDevice,
    NoSuchRun,
    RemoteProtocolError,
)
from edgebench.system.unforeseen import named_error

LAB_DIRECTORY = "lab"
"""Directory of a host's store that is its store as a lab host: runs leave it once their coordinator
has them, which may be this host."""
IDLE_S = 60.0
"""Time without a call after which a lane without a job ends, and frees its device."""
MAX_WAIT_S = 10.0
"""Longest time for which a call waits for a report."""
MAX_CALLS = 256
"""Number of calls that are answered at the same time."""
CANCEL_POLL_S = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class LabHost:
    """What a lab host is made of: its store, its offers, and the way to its devices."""

    store: Store
    """Store for the runs on their way, and the files that coordinators send."""
    offers: tuple[m.DeviceOffer, ...]
    find: Callable[[str], tuple[KnownDevice, str | None]]
    """Finds a device by its name, and the meter that is wired to it."""
    connect: Callable[[KnownDevice], Client]
    outcomes: Callable[[KnownDevice], Outcomes]


class LabRuns(RunPlan):
    """The runs of another host's campaign on a device; they are reported to that host."""

    def __init__(self, campaign: str, device: str, report: Callable[[m.Report], None]) -> None:
        super().__init__(device, self.report_event)
        self._campaign = campaign
        self._report = report

    def report_event(self, event: MeasurementEvent) -> None:
        """Report what a coordinator shows."""
        if isinstance(event, DeviceBusy):
            self._report(m.DeviceWait(m.error_report(event.refusal), event.wait_s))
        elif isinstance(event, RunBegan):
            self._report(m.RunStartNotice(event.runtime))
        elif isinstance(event, PhaseReport):
            self._report(m.RunPhase(event.progress))

    def is_wanted(self, run_id: str) -> bool:
        """Whether the run is the campaign's; those of others are left alone."""
        name = attempt_name(run_id)
        return name is not None and name.campaign == self._campaign

    def on_progress(self, run_id: str) -> InProgress:
        """Follow a run of the campaign that another lab host has started."""
        return InProgress.FOLLOW if self.is_wanted(run_id) else InProgress.WAIT

    def fetched(self, run: Run) -> None:
        """Report it."""
        self._report(m.StoredRunNotice(run.run_id))

    def refused(self, run_id: str, error: EdgebenchError) -> None:
        """Report it."""
        if may_pass(error):
            raise error
        if not isinstance(error, NoSuchRun):
            self._report(m.RunRefusal(run_id, m.error_report(error)))


class LabLane:
    """One lane of a campaign on one device, in a thread of its own."""

    def __init__(
        self, opened: m.LaneOpen, host: LabHost, files: LabFiles, finishing: FinishingProcess
    ) -> None:
        self.id = secrets.token_hex(8)
        self.opened = opened
        self._host = host
        self._files = files
        self._finishing = finishing
        self._commands: queue.Queue[m.SettleJob | m.MakeJob | m.RunReceipt | None]
        self._commands = queue.Queue()
        self._cancellation = Cancellation()
        self._changed = threading.Condition()
        self._reports: list[m.Report] = []
        self._grant: m.IdGrant | None = None
        self._is_retired = False
        self._called_s = time.monotonic()
        self._before: LabLane | None = None
        self._packed: tuple[str, m.RunPart, BinaryIO] | None = None
        self._request = lru_cache(maxsize=64)(self._new_request)
        self._thread = threading.Thread(target=self._run, name=f"lane {opened.device}", daemon=True)

    def start(self, before: LabLane | None) -> None:
        """Begin, once the lane before this one has ended."""
        self._before = before
        self._thread.start()

    @property
    def is_over(self) -> bool:
        """Whether its thread has ended."""
        return not self._thread.is_alive()

    def retire(self) -> None:
        """End after the job in progress; one whose run has not begun ends now."""
        with self._changed:
            self._is_retired = True
            self._changed.notify_all()
        self._commands.put(None)

    def stop(self) -> None:
        """Stop the run in progress, and make no other one."""
        if self._before is not None:
            self._before.stop()
        self._cancellation.request()
        with self._changed:
            self._changed.notify_all()

    def call(self, call: m.LaneCall, command: m.LaneCommand | None) -> Sequence[m.Report]:
        """Take a command; the reports that the coordinator has not seen, once there are any."""
        self._called_s = time.monotonic()
        if isinstance(command, m.IdGrant):
            with self._changed:
                self._grant = command
                self._changed.notify_all()
        elif isinstance(command, m.LaneStop):
            self.stop()
        elif isinstance(command, m.LaneClose):
            self.retire()
        elif command is not None:
            self._commands.put(command)
        with self._changed:
            self._changed.wait_for(
                lambda: len(self._reports) > call.seen, min(call.wait_s, MAX_WAIT_S)
            )
            self._called_s = time.monotonic()
            if len(self._reports) <= call.seen and self.is_over:
                raise LinkLost("lab host has ended the lane, as nobody called")
            return self._reports[call.seen :]

    def packed(self, run_id: str, offset: int) -> tuple[m.RunPart, bytes]:
        """The packed files of a stored run, and a part of them.

        A call, too: over a slow link the parts of a run may come for longer than `IDLE_S`.
        """
        self._called_s = time.monotonic()
        if self._packed is None or self._packed[0] != run_id:
            # No `with`: later calls read from it, and the lane's end closes it.
            file = cast(BinaryIO, TemporaryFile(dir=self._host.store.root))  # noqa: SIM115
            size_bytes = pack_run(self._host.store, run_id, file)
            file.seek(0)
            described = m.RunPart(size_bytes, sha256_of(file).hexdigest())
            self._packed = run_id, described, file
        _, described, file = self._packed
        file.seek(offset)
        part = file.read(PART_BYTES)
        self._called_s = time.monotonic()
        return described, part

    def _report(self, report: m.Report) -> None:
        with self._changed:
            self._reports.append(report)
            self._changed.notify_all()

    def _run(self) -> None:
        """Do jobs until the lane is closed, or until no more calls come."""
        opened = self.opened
        try:
            self._wait_for_before()
            command = self._next()
            if command is None:
                return
            device, meter = self._host.find(opened.device)
            # Of whatever cell: all ask for the same meter.
            request = self._request(self._local_cell(opened.cell))
            energy = request.on_device(opened.device, meter).energy
            host = MeasuringHost(
                store=self._host.store,
                connect=self._host.connect,
                finish=self._finishing.finish,
                wait_s=opened.wait_s,
                is_for_another=True,
            )
            plan = LabRuns(opened.campaign, device.name, self._report)
            with device_session(host, device, energy, plan.notify, self._cancellation) as paired:
                outcomes = self._host.outcomes(device)
                while command is not None:
                    if isinstance(command, m.RunReceipt):
                        self._forget(paired, command.run_ids)
                    elif isinstance(command, m.SettleJob):
                        self._settle(paired, plan, command)
                    else:
                        self._make(paired, command, outcomes)
                    command = self._next()
        except (EdgebenchError, Interrupted) as exc:
            self._report(m.ended(exc, None))
        except Exception as exc:
            # A defect of ours: it is reported to the coordinator, and the other lanes go on.
            error = named_error(exc, "lab host")
            self._report(m.ended(error, None))
            raise error from exc

    def _wait_for_before(self) -> None:
        """Wait for the lane whose place this one takes.

        Raises:
            Interrupted: the command was cancelled; the run in progress is stopped, too.
        """
        while self._before is not None:
            self._before._thread.join(CANCEL_POLL_S)
            if self._before.is_over:
                self._before = None
        self._cancellation.check()

    def _next(self) -> m.SettleJob | m.MakeJob | m.RunReceipt | None:
        """The next command; None once the lane is closed, or if no call came for long."""
        while True:
            left_s = self._called_s + IDLE_S - time.monotonic()
            try:
                return self._commands.get(timeout=max(left_s, 0.01))
            except queue.Empty:
                if time.monotonic() - self._called_s >= IDLE_S:
                    return None

    def _settle(self, device: DeviceSession, plan: LabRuns, job: m.SettleJob) -> None:
        """Store what waits on the device.

        Raises:
            Interrupted: the command was cancelled.
            EdgebenchError: it cannot be reached, or is in use.
        """
        store = self._host.store
        if device.client.list_runs().running is None:  # else the device is left alone
            self._forget(device, job.stored)
        device.settle(plan)
        for run_id in job.begun:
            if store.has(run_id):
                self._report(m.StoredRunNotice(run_id))
        self._report(m.ended(None, None))

    def _make(self, device: DeviceSession, job: m.MakeJob, outcomes: Outcomes) -> None:
        """Make a run; that it failed is for the coordinator to judge."""
        run_id: str | None = None
        problem: EdgebenchError | Interrupted | None = None

        def new_id() -> str:
            nonlocal run_id
            run_id = self._wanted_id()
            return run_id

        meter = device.meter.request.meter if device.meter else None
        order = RunOrder(
            request=self._request(self._local_cell(job.cell)).on_device(device.name, meter),
            place=job.place,
            device_name=job.cell.device,
            member=job.member,
            references=job.references,
            new_id=new_id,
        )
        try:
            device.make(order)
            outcomes.succeeded()
        except (EdgebenchError, Interrupted) as exc:
            problem = exc
            if isinstance(exc, EdgebenchError) and not may_pass(exc):
                outcomes.failed(exc, job.cell.model)
        stored = run_id if run_id is not None and self._host.store.has(run_id) else None
        if stored is not None:
            self._report(m.StoredRunNotice(stored))
        self._report(m.ended(problem, stored))

    def _wanted_id(self) -> str:
        """An id from the coordinator, which writes it down before the run starts.

        Raises:
            Interrupted: the command was cancelled.
            LinkLost: the coordinator is gone.
        """
        self._report(m.IdRequest())
        with self._changed:
            self._changed.wait_for(
                lambda: self._grant or self._is_retired or self._cancellation.is_requested, IDLE_S
            )
            grant, self._grant = self._grant, None
        self._cancellation.check()
        if grant is None:
            raise LinkLost("coordinator of the campaign is gone")
        return grant.run_id

    def _forget(self, device: DeviceSession, run_ids: Sequence[str]) -> None:
        """Let device and store forget runs that the coordinator has."""
        if not run_ids:
            return
        on_device = device.client.list_runs().finished
        for run_id in run_ids:
            if run_id in on_device:
                device.client.acknowledge(run_id)
        store = self._host.store
        remove_runs(store, [run_id for run_id in run_ids if store.has(run_id)])

    def _local_path(self, path: str) -> str:
        """Path that a file of the coordinator has here."""
        file = self.opened.files.get(path)
        return path if file is None else str(self._files.path(file))

    def _local_cell(self, cell: Cell) -> Cell:
        return replace(cell, model=self._local_path(cell.model))

    def _new_request(self, cell: Cell) -> BenchRequest:
        settings = self.opened.settings.with_files(self._local_path)
        return cell_request(settings, self.opened.repeats, cell)


class LabService:
    """Answers the calls of coordinators."""

    def __init__(self, host: LabHost) -> None:
        self._host = host
        self._files = LabFiles(host.store)
        self._files.remove_unused()
        self._finishing = FinishingProcess()
        self._lock = threading.Lock()
        self._lanes: dict[str, LabLane] = {}
        """Last lane of each device."""
        self.pool = ThreadPoolExecutor(MAX_CALLS, "call")
        """Threads for calls, each of which may wait."""

    @property
    def scratch(self) -> Path:
        """Directory for what Dask writes; nothing in it is needed after its worker has ended."""
        return self._host.store.root / "dask"

    @property
    def offers(self) -> tuple[m.DeviceOffer, ...]:
        """Devices that it measures on."""
        return self._host.offers

    def answer(self, request: bytes, payload: bytes) -> tuple[bytes, bytes]:
        """Answer one call; an error of edgebench's is an answer, too."""
        try:
            answers, part = self._answer(m.unpack(request), payload)
        except EdgebenchError as exc:
            answers, part = [m.CallFailure(m.error_report(exc))], b""
        return m.pack(answers), part

    def _answer(
        self, request: Sequence[m.ClusterMessage], payload: bytes
    ) -> tuple[Sequence[m.ClusterMessage], bytes]:
        first, *rest = request
        if isinstance(first, m.OffersQuery):
            return [m.Offers(software(), self._host.offers)], b""
        if isinstance(first, m.FilesQuery):
            missing = tuple(file for file in first.files if not self._files.has(file))
            return [m.MissingFiles(missing)], b""
        if isinstance(first, m.FilePart):
            self._files.write(first.file, first.offset, payload)
            return [m.EmptyReply()], b""
        if isinstance(first, m.LaneOpen):
            return [m.LaneHandle(self._open(first))], b""
        if isinstance(first, m.LaneCall):
            lane = self._lane(first.lane)
            command = rest[0] if rest else None
            if isinstance(command, m.RunFetch):
                described, part = lane.packed(command.run_id, command.offset)
                return [described], part
            if command is None or isinstance(command, get_args(m.LaneCommand)):
                return lane.call(first, cast("m.LaneCommand | None", command)), b""
        raise RemoteProtocolError(f"not a call to a lab host: {type(first).__name__}")

    def _open(self, opened: m.LaneOpen) -> str:
        """Begin a lane; the lane of a coordinator before it ends first.

        Raises:
            NoSuchDevice: this lab host does not offer it.
            LeaseHeld: another campaign measures there.
        """
        if all(offer.name != opened.device for offer in self._host.offers):
            raise NoSuchDevice(f"device is not offered by this lab host: {opened.device}")
        lane = LabLane(opened, self._host, self._files, self._finishing)
        with self._lock:
            before = self._lanes.get(opened.device)
            if before is not None and before.is_over:
                before = None
            if before is not None and before.opened.campaign != opened.campaign:
                raise LeaseHeld(
                    f"{opened.device} is in use by the campaign {before.opened.campaign}"
                )
            if before is not None:
                before.retire()
            self._lanes[opened.device] = lane
            lane.start(before)
        return lane.id

    def _lane(self, lane_id: str) -> LabLane:
        with self._lock:
            for lane in self._lanes.values():
                if lane.id == lane_id:
                    return lane
        raise LinkLost("lab host does not know this lane: it was started again")

    def close(self) -> None:
        """End; runs in progress go on, on their devices."""
        with self._lock:
            for lane in self._lanes.values():
                lane.retire()
        self.pool.shutdown(wait=False, cancel_futures=True)
        with suppress(OSError):
            self._finishing.__exit__()
