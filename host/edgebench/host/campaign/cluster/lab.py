"""A lab host is a Dask worker that offers devices as resources, and runs jobs on them as tasks.

Theory of operation. A job first stores earlier runs of its device. Then the job makes a run under
the id given by the coordinator. If a run with this id was started before, the job makes no run. So
jobs are idempotent: Dask may restart a job, and the coordinator may assign a job to another lab
host that offers the device. The agent's lease is the only lock. The lab host and the device both
keep a run until the coordinator has the run.

A device stays open between the jobs of a campaign. During that time, jobs of other campaigns are
refused. A job continues if its scheduler dies. The next job on the device waits until this job
ends.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import pickle
import shutil
import socket
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from edgebench.host.bench import events
from edgebench.host.bench.cancellation import Cancellation, Interrupted
from edgebench.host.bench.events import Place
from edgebench.host.bench.finish import FinishingProcess
from edgebench.host.bench.host import BenchHost
from edgebench.host.bench.request import BenchRequest
from edgebench.host.bench.session import (
    DeviceSession,
    InProgress,
    MeasuringHost,
    RunOrder,
    RunPlan,
    Target,
    device_session,
)
from edgebench.host.campaign.cluster.address import (
    CONNECT_TIMEOUT_S,
    ClusterAddress,
    configure_dask,
)
from edgebench.host.campaign.cluster.remote_files import put_file
from edgebench.host.campaign.plan import Cell, is_of_campaign
from edgebench.host.campaign.requests import cell_request
from edgebench.host.campaign.run import may_pass
from edgebench.host.campaign.spec import Settings
from edgebench.host.devices.files import KnownDevice
from edgebench.host.result.facts import SetMember
from edgebench.host.result.outputs import ReferenceAccuracy
from edgebench.host.result.run import Run
from edgebench.host.store.address import Address
from edgebench.host.store.bundle import write_bundle
from edgebench.host.store.bundle_file import SUFFIX, refuse_bundle
from edgebench.host.store.layout import Store
from edgebench.host.store.removal import remove_runs
from edgebench.host.this_host import software
from edgebench.protocol.errors import EdgebenchError, LeaseHeld, NoSuchDevice, NoSuchRun, StoreError
from edgebench.system.unforeseen import named_error
from edgebench.system.whole_files import make_directory, write_whole

LAB_DIRECTORY = "lab"
"""Directory within a host's store. It contains a second store, for the runs that the host makes as
a lab host. A run is removed from this second store once the coordinator has the run; the
coordinator may be the same host."""
FILES_DIRECTORY = "cluster"
IDLE_S = 60.0
"""Time without a job after which a device is closed."""
UNUSED_S = 30 * 86400.0
"""Time after which a lab host removes a file that no campaign has used."""
RECONNECT_S = 1.0
"""Pause between attempts to connect to the scheduler."""
SPARE_THREADS = 8
"""Threads of a worker for offers, files and parts of runs; each device has one more thread."""
LAB_RESOURCE, DEVICE_RESOURCE = "lab:", "device:"
"""Prefixes of the names of Dask resources. The name of the lab host or of a device follows the
prefix."""
MAX_JOBS = 10_000
"""Maximum number of simultaneous jobs of a lab host; each job takes a unit of the host's Dask
resource."""
NAME_TAKEN = "name taken"
"""Part of the scheduler's error message for a second worker with the same name. Source: distributed
2026.8.0, `Scheduler.add_worker`."""
_SENT = (
    events.DeviceBusy,
    events.DeviceStillBusy,
    events.FilesOpen,
    events.RunBegan,
    events.PushProgress,
    events.PhaseReport,
    events.TelemetryReport,
    events.EarlierRunFailed,
)
"""Events that are sent to the coordinator; the coordinator derives all other events from the
outcome of a job."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceOffer:
    """A device that a lab host offers."""

    name: str
    id: str
    pin: str
    """SHA-256 of the agent's certificate, which distinguishes devices with the same name."""
    seat: str = ""
    arch: str = ""
    labels: tuple[str, ...] = ()
    meter: str | None = None
    """Meter of the device in the lab host's farm file."""


@dataclass(frozen=True, slots=True)
class FileRef:
    """A file that runs need: a model, inputs or a data set."""

    sha256: str
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceJob:
    """A job that makes a run on a device; without `run_id`, it only stores earlier runs."""

    device: str
    campaign: str
    wait_s: float
    repeats: int
    settings: Settings
    cell: Cell
    files: Mapping[str, FileRef]
    """Maps each path in the campaign's settings and cells to its file."""
    stored: tuple[str, ...]
    """Runs that the coordinator has stored; lab host and device may delete them."""
    begun: tuple[str, ...] = ()
    """Runs that were begun, but whose outcome the coordinator does not know."""
    run_id: str | None = None
    place: Place | None = None
    member: SetMember | None = None
    references: Mapping[str, ReferenceAccuracy] = field(default_factory=dict)
    is_last: bool = False
    """Whether to close the device after the job."""
    store_url: str | None = None
    """fsspec URL to which bundles of runs are uploaded; if None, the coordinator fetches them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobOutcome:
    """The outcome of a job, which the lab host returns to the coordinator."""

    lab: str
    """Name of the lab host."""
    missing: tuple[FileRef, ...] = ()
    """Files that the lab host lacks; if there are any, the job was not begun."""
    runs: Mapping[str, int] = field(default_factory=dict)
    """Maps the id of each run that can be fetched to the size of its bundle, bytes."""
    refused: tuple[tuple[str, EdgebenchError], ...] = ()
    """Ids of runs that can never be stored, each with the reason as an error."""
    error: EdgebenchError | None = None
    is_interrupted: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class LabHost:
    """A lab host with its devices and its store."""

    name: str
    host: BenchHost
    store: Store
    """Store for runs in transit, and for files from coordinators."""
    offers: tuple[DeviceOffer, ...]

    def path(self, file: FileRef) -> Path:
        """Path of a file from a coordinator; the file keeps its name, which results contain."""
        digest = hashlib.sha256(f"{file.sha256} {file.name}".encode()).hexdigest()
        return self.store.root / FILES_DIRECTORY / digest[:32] / Path(file.name).name

    def bundle(self, run_id: str) -> Path:
        """Path of the bundle with which a run is sent to the coordinator."""
        return self.store.root / FILES_DIRECTORY / f"{self.store.directory(run_id).name}{SUFFIX}"

    def not_writable(self, exc: OSError) -> StoreError:
        """Convert a store's `OSError` to a temporary error: disk space may be freed later."""
        return StoreError(f"store not writable: {exc.strerror}: {self.store.root}")


class LabRuns(RunPlan):
    """The runs of a campaign on a device of this lab host."""

    def __init__(self, job: DeviceJob, notify: events.Notify) -> None:
        super().__init__(job.device, notify)
        self._campaign = job.campaign
        self.fetched_ids: list[str] = []
        self.refusals: list[tuple[str, EdgebenchError]] = []

    def is_wanted(self, run_id: str) -> bool:
        """Whether the run belongs to the campaign; other runs stay on the device."""
        return is_of_campaign(run_id, self._campaign)

    def on_progress(self, run_id: str) -> InProgress:
        """Follow a run that another lab host started for the campaign; wait for any other run."""
        return InProgress.FOLLOW if self.is_wanted(run_id) else InProgress.WAIT

    def fetched(self, run: Run) -> None:
        """Add the run's id to the answer to the coordinator."""
        self.fetched_ids.append(run.run_id)

    def refused(self, run_id: str, error: EdgebenchError) -> None:
        """Add the error to the answer to the coordinator, unless the error may be temporary."""
        if may_pass(error):
            raise error
        if not isinstance(error, NoSuchRun):
            self.refusals.append((run_id, error))


class LabDevice:
    """A device of this lab host, which does one job at a time and stays open during a campaign."""

    def __init__(self, host: LabHost, finishing: FinishingProcess) -> None:
        self._host = host
        self._finishing = finishing
        self._lock = threading.Lock()
        self._campaign: str | None = None
        """Campaign for which the device is open."""
        self._open = ExitStack()
        self._session: DeviceSession | None = None
        self._cancellation = Cancellation()
        self._timer = threading.Timer(IDLE_S, self._let_go)
        self._started: set[str] = set()
        """Ids of runs that must not be started, because they were, or may have been, started
        before."""

    def stop(self) -> None:
        """Stop the run in progress on the device, if there is one; called from any thread."""
        self._cancellation.request()

    def _let_go(self) -> None:
        """Close the device after `IDLE_S` without a job, unless a job has just begun."""
        if self._lock.acquire(blocking=False):
            with ExitStack() as stack:
                stack.callback(self._lock.release)
                self._close()

    def _close(self) -> None:
        self._session = self._campaign = None
        with suppress(EdgebenchError):  # the lease of a lost link expires
            self._open.close()

    def do(self, job: DeviceJob, notify: events.Notify) -> JobOutcome:
        """Do a job, after the previous job has ended.

        Errors are returned in the outcome, because the coordinator decides whether a failed run is
        repeated.
        """
        if self._campaign not in (None, job.campaign):
            busy = LeaseHeld(f"{job.device} is in use by the campaign {self._campaign}")
            busy.is_unstarted = True
            return JobOutcome(lab=self._host.name, error=busy)
        with self._lock:
            self._cancellation = Cancellation()
            plan, outcome = LabRuns(job, notify), JobOutcome(lab=self._host.name)
            try:
                self._do(job, plan, notify)
            except Interrupted:
                outcome = replace(outcome, is_interrupted=True)
            except EdgebenchError as exc:
                exc.is_unstarted |= job.run_id not in self._started
                outcome = replace(outcome, error=exc)
                if may_pass(exc):
                    self._close()  # the next job connects again
            except OSError as exc:
                error = self._host.not_writable(exc)
                error.is_unstarted = job.run_id not in self._started
                outcome = replace(outcome, error=error)
            except Exception as exc:  # a bug, which the coordinator reports
                outcome = replace(outcome, error=named_error(exc, "lab host"))
            if job.is_last:
                self._close()
            self._timer.cancel()
            self._timer = threading.Timer(IDLE_S, self._let_go)
            self._timer.daemon = True
            self._timer.start()
            ids = dict.fromkeys([*plan.fetched_ids, *job.begun, *filter(None, [job.run_id])])
            stored = [run_id for run_id in ids if self._host.store.has(run_id)]
            runs = {run_id: self._bundled(run_id, job.store_url) for run_id in stored}
            return replace(outcome, runs=runs, refused=tuple(plan.refusals))

    def _do(self, job: DeviceJob, plan: LabRuns, notify: events.Notify) -> None:
        """Store earlier runs, then make the run of a job, unless this run was started before.

        Raises:
            Interrupted: the command was cancelled.
            EdgebenchError: the device cannot be measured, or the run failed.
            OSError: the store cannot be written.
        """
        store, run_id = self._host.store, job.run_id
        # A run that was started before is on the device, or lost, so its id is not used again. The
        # same holds for settled runs: Dask may begin a job late, after the coordinator gave it up.
        self._started.update(job.begun)
        if run_id is not None and (store.unfinished / run_id).exists():
            self._started.add(run_id)  # by this lab host, before it was killed
        is_again = run_id in self._started

        device, wired = self._host.host.find(job.device)
        request = self._request(job).on_device(job.device, wired)
        is_new, session = self._session is None, self._opened(job, device, request, notify)
        session.cancellation = self._cancellation
        self._forget(session, job.stored)
        if is_new or run_id is None:
            session.settle(plan)
        if run_id is None or is_again or store.has(run_id):
            return

        def new_id() -> str:
            self._started.add(run_id)
            return run_id

        outcomes = self._host.host.outcomes(device)
        order = RunOrder(
            request=request,
            place=job.place or Place(1, 1),
            device_name=job.cell.device,
            member=job.member,
            references=job.references,
            new_id=new_id,
        )
        try:
            session.make(order)
        except EdgebenchError as exc:
            if not may_pass(exc):
                outcomes.failed(exc, job.cell.model)
            raise
        outcomes.succeeded()

    def _request(self, job: DeviceJob) -> BenchRequest:
        """The request of a job's cell, with the local paths of the coordinator's files."""

        def local(path: str) -> str:
            file = job.files.get(path)
            return path if file is None else str(self._host.path(file))

        cell = replace(job.cell, model=local(job.cell.model))
        return cell_request(job.settings.with_files(local), job.repeats, cell)

    def _opened(
        self, job: DeviceJob, device: KnownDevice, request: BenchRequest, notify: events.Notify
    ) -> DeviceSession:
        """Return the open session of the campaign with the device; open it first if necessary."""
        if self._session is None:
            measuring = MeasuringHost(
                store=self._host.store,
                connect=self._host.host.connect,
                analyse=self._finishing.finish,
                wait_s=job.wait_s,
                is_for_another=True,
            )
            target = Target(device, request.energy)
            opened = device_session(measuring, target, notify, self._cancellation)
            self._session = self._open.enter_context(opened)
            self._campaign = job.campaign
        return self._session

    def _forget(self, session: DeviceSession, stored: Sequence[str]) -> None:
        """Delete, on the device and in the store, the runs that the coordinator has stored."""
        listing, store = session.client.list_runs(), self._host.store
        if listing.running is not None:
            return  # do not disturb a measurement
        for run_id in set(stored) & set(listing.finished):
            session.client.acknowledge(run_id)
        remove_runs(store, [run_id for run_id in stored if store.has(run_id)])
        for run_id in stored:
            self._host.bundle(run_id).unlink(missing_ok=True)

    def _bundled(self, run_id: str, store_url: str | None) -> int:
        """Write the bundle of a run for the coordinator, and return its size in bytes.

        Raises:
            StoreError: the run cannot be read, or the bundle cannot be written.
        """
        path = self._host.bundle(run_id)
        if not path.exists():
            make_directory(path.parent)
            write_bundle(path, [Address(self._host.store, run_id)], is_annotated=False)
        if store_url is not None:
            put_file(path, f"{store_url}/{path.name}")
        return path.stat().st_size


_here: list[tuple[LabHost, Mapping[str, LabDevice]]] = []
"""The lab host of this process and its devices, for the functions below, which Dask calls."""


def offers() -> tuple[str, str, tuple[DeviceOffer, ...]]:
    """Dask task that returns the lab host's name and version, and its devices."""
    [(host, _)] = _here
    return host.name, software(), host.offers


def do_job(job: DeviceJob, contents: Mapping[FileRef, bytes]) -> JobOutcome:
    """Dask task that does a job on a device, and sends events to the coordinator by a Dask topic.

    Args:
        job: The job.
        contents: Files that were missing on the lab host at an earlier submission of the job.

    Raises:
        StoreError: the files cannot be written.
    """
    from distributed import get_worker

    [(host, devices)], worker = _here, get_worker()
    try:
        for file, content in contents.items():
            make_directory(host.path(file).parent)
            write_whole(host.path(file), content)
    except OSError as exc:
        raise host.not_writable(exc) from exc
    missing = tuple(file for file in job.files.values() if not host.path(file).exists())
    if missing:
        return JobOutcome(lab=host.name, missing=missing)
    for file in job.files.values():
        os.utime(host.path(file).parent)  # marks the file as used; see `UNUSED_S`

    def notify(event: events.MeasurementEvent) -> None:
        if isinstance(event, _SENT):
            with suppress(OSError, RuntimeError, ValueError):  # the scheduler is unreachable
                worker.log_event(job.campaign, pickle.dumps(event))

    return devices[job.device].do(job, notify)


def stop_job(device: str) -> None:
    """Dask task that stops the run in progress on a device."""
    [(_, devices)] = _here
    devices[device].stop()


def read_part(run_id: str, offset: int, size_bytes: int) -> bytes:
    """Dask task that reads a part of a run's bundle."""
    [(host, _)] = _here
    with host.bundle(run_id).open("rb") as file:
        file.seek(offset)
        return file.read(size_bytes)


def work_for(
    bench: BenchHost,
    cluster: ClusterAddress,
    *,
    words: Sequence[str],
    name: str | None,
    address: str | None,
    on_connected: Callable[[str, Sequence[str]], None],
    on_away: Callable[[str], None],
) -> None:
    """Run as a lab host until Ctrl-C; reconnect if the scheduler goes away.

    Args:
        bench: This host.
        cluster: The scheduler.
        words: Words that select the devices to offer.
        name: Unique name of the lab host; None selects this machine's name.
        address: Address at which the scheduler reaches this host; if None, Dask finds it.
        on_connected: Called each time the scheduler accepts the lab host. The arguments are the
            name of the lab host and the names of its devices.
        on_away: Called with the reason if the scheduler is away or rejects the lab host. While the
            reason stays the same, `on_away` is not called again.

    Raises:
        UsageError: Dask is not installed, or the store is a bundle.
        NoSuchDevice: no paired device is selected.
    """
    refuse_bundle(bench.store)
    configure_dask()
    farm = bench.farm()
    chosen = [device for device in bench.choose(words, farm) if device.pin]
    if not chosen:
        raise NoSuchDevice(
            "no paired device is selected; only paired devices can be offered, not this machine"
        )
    offers = [
        DeviceOffer(
            name=device.name,
            id=device.id,
            pin=device.pin,
            seat=device.seat,
            arch=device.arch,
            labels=farm.entry(device).labels,
            meter=farm.entry(device).meter,
        )
        for device in chosen
    ]
    store = Store(bench.store.root / LAB_DIRECTORY)
    name = name or socket.gethostname()
    host = LabHost(name=name, host=bench, store=store, offers=tuple(offers))
    with suppress(OSError):
        for kept in list((host.store.root / FILES_DIRECTORY).iterdir()):
            if time.time() - kept.stat().st_mtime > UNUSED_S:
                if kept.is_dir():
                    shutil.rmtree(kept, ignore_errors=True)
                else:
                    kept.unlink()
    with FinishingProcess() as finishing:
        devices = {offer.name: LabDevice(host, finishing) for offer in host.offers}
        _here[:] = [(host, devices)]
        names = [device.name for device in chosen]
        connected = partial(on_connected, name, names)
        asyncio.run(_work(host, cluster, address, connected, on_away))


async def _work(
    host: LabHost,
    cluster: ClusterAddress,
    address: str | None,
    on_connected: Callable[[], None],
    on_away: Callable[[str], None],
) -> None:
    from distributed import Worker

    reported: str | None = None
    folder = host.store.root / "dask"
    resources = {f"{DEVICE_RESOURCE}{offer.name}": 1 for offer in host.offers}
    while True:
        worker: Any = None
        shutil.rmtree(folder, ignore_errors=True)  # left by a worker that was killed
        try:
            # Dask's worker retries for ever without reporting that no scheduler responds.
            opened = asyncio.open_connection(cluster.host, cluster.port)
            _, writer = await asyncio.wait_for(opened, CONNECT_TIMEOUT_S)
            writer.close()
            folder.mkdir(parents=True)
            worker = await Worker(
                cluster.address,
                name=host.name,
                host=address,
                security=cluster.security(),
                resources={f"{LAB_RESOURCE}{host.name}": MAX_JOBS, **resources},
                nthreads=len(host.offers) + SPARE_THREADS,
                memory_limit=0,
                dashboard=False,
                local_directory=str(folder),
            )
            on_connected()
            reported = None
            await worker.finished()
            reason = f"no scheduler at {cluster.address}: connection lost"
        except (OSError, RuntimeError, ValueError, asyncio.TimeoutError) as exc:
            why = why_away(exc.__cause__ or exc)
            reason = f"no scheduler at {cluster.address}: {why}"
            if NAME_TAKEN in why:
                reason = (
                    f"name {host.name} is taken by another lab host at {cluster.address}; "
                    "choose another name with --name NAME"
                )
        finally:
            if worker is not None:
                with suppress(OSError, RuntimeError, asyncio.TimeoutError):
                    await worker.close(timeout=2, executor_wait=False)
            shutil.rmtree(folder, ignore_errors=True)
        if reason != reported:
            on_away(reason)
            reported = reason
        await asyncio.sleep(RECONNECT_S)


def why_away(exc: BaseException) -> str:
    """Message that states why the scheduler cannot be reached.

    >>> why_away(ConnectionRefusedError(111, "Connect call failed ('127.0.0.1', 8786)"))
    'Connection refused'
    """
    errno, text = (exc.errno, exc.strerror) if isinstance(exc, OSError) else (None, None)
    if errno is not None and errno > 0:  # resolver errors have negative numbers
        return os.strerror(errno)
    if isinstance(exc, asyncio.TimeoutError):
        return f"no response within {CONNECT_TIMEOUT_S:g} s"
    return text or str(exc) or type(exc).__name__
