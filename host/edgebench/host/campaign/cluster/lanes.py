"""The coordinator of a campaign, which sends jobs to lab hosts by Dask, and stores the runs."""

from __future__ import annotations

import asyncio
import hashlib
import pickle
import secrets
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import CancelledError
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from edgebench.host.bench import events
from edgebench.host.bench.cancellation import Cancellation, Interrupted
from edgebench.host.bench.collect import failure_of
from edgebench.host.bench.runs import DeviceRuns
from edgebench.host.bench.session import RunOrder, RunPlan, Target
from edgebench.host.campaign.cluster import lab as tasks
from edgebench.host.campaign.cluster.address import (
    CONNECT_TIMEOUT_S,
    ClusterAddress,
    configure_dask,
)
from edgebench.host.campaign.cluster.lab import (
    DEVICE_RESOURCE,
    FILES_DIRECTORY,
    LAB_RESOURCE,
    DeviceJob,
    DeviceOffer,
    FileRef,
    JobOutcome,
)
from edgebench.host.campaign.cluster.remote_files import get_file
from edgebench.host.campaign.journal import NO_LAB, DeviceAtLab, Journal
from edgebench.host.campaign.lanes import OpenLanes
from edgebench.host.campaign.meters import refuse_own_meter
from edgebench.host.campaign.plan import CampaignPlan
from edgebench.host.campaign.requests import CellRequests
from edgebench.host.campaign.run import CampaignRuns, CampaignWork, CellOrder
from edgebench.host.campaign.state import campaign_state
from edgebench.host.devices.farm import Farm, FarmDevice
from edgebench.host.devices.files import KnownDevice
from edgebench.host.power.metering import FARM_METER, is_of_host
from edgebench.host.result.run import Run
from edgebench.host.store.bundle_file import SUFFIX, Bundle
from edgebench.host.store.index import note_run
from edgebench.host.store.layout import Store
from edgebench.host.store.merge import copy_whole
from edgebench.host.this_host import software
from edgebench.protocol.errors import (
    EdgebenchError,
    FileChanged,
    LabHostsUnreachable,
    LinkLost,
    RunDamaged,
    RunNotStored,
    StoreError,
    UsageError,
    os_error_as,
)
from edgebench.protocol.text import one_line
from edgebench.system.whole_files import make_directory

LOOK_S = 0.5
"""Interval at which jobs and lab hosts are polled."""
TASK_TIMEOUT_S = 20.0
"""Timeout of tasks that measure nothing; long enough to transfer a part of a run over a slow
link."""
PART_BYTES = 2**20
"""Size of the parts in which runs are transferred; a link with 420 kbit/s transfers a part within
the timeout of a task. If the link breaks, the transfer resumes with the part that did not
arrive."""
VIA = "lab"
"""Name of the transport for devices that are reached only through a lab host."""
_BROKEN = (
    OSError,
    RuntimeError,
    LookupError,
    ValueError,
    asyncio.TimeoutError,
    asyncio.CancelledError,
    CancelledError,
)
"""Exceptions that Dask raises if a scheduler or worker is unreachable."""


@dataclass(frozen=True, slots=True)
class LabDescription:
    """A lab host that is connected to the scheduler."""

    name: str
    address: str
    """Address of the lab host's Dask worker, which changes at each start."""
    version: str
    devices: tuple[DeviceOffer, ...]

    def device(self, name: str) -> DeviceAtLab | None:
        """A device of this lab host, as in the journal; None if the host does not offer it."""
        offer = next((offer for offer in self.devices if offer.name == name), None)
        return DeviceAtLab(self.name, offer.pin, offer.seat) if offer else None


class ClusterConnection:
    """Thread-safe client of a scheduler, which reconnects after a loss of the connection."""

    def __init__(
        self, cluster: ClusterAddress, topic: str = "", on_event: events.Notify | None = None
    ) -> None:
        """Create a client, without connecting.

        Args:
            cluster: The scheduler.
            topic: Id of the campaign whose events are received. If empty, no events are received.
            on_event: Consumer of the events of lab hosts.
        """
        self._cluster = cluster
        self._topic = topic
        self._on_event = on_event
        self._client: Any = None
        self._lock = threading.Lock()
        self._labs: dict[str, LabDescription] = {}
        """Maps the address of each Dask worker to its lab host."""
        self._looked_s = 0.0

    def __enter__(self) -> ClusterConnection:
        configure_dask()
        try:
            self.client()
        except LinkLost as exc:
            raise LabHostsUnreachable(str(exc)) from exc
        return self

    def __exit__(self, *_: object) -> None:
        self._close()

    def _close(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            with suppress(*_BROKEN):
                client.close(timeout=CONNECT_TIMEOUT_S)

    def client(self) -> Any:
        """The connected Dask client; connects first if necessary.

        Raises:
            LinkLost: the scheduler does not respond.
        """
        from distributed import Client

        with self._lock:
            if self._client is None or self._client.status != "running":
                self._close()
                self._labs, self._looked_s = {}, 0.0
                try:
                    self._client = Client(
                        self._cluster.address,
                        security=self._cluster.security(),
                        timeout=CONNECT_TIMEOUT_S,
                        set_as_default=False,
                        name="edgebench",
                    )
                    if self._on_event is not None:
                        self._client.subscribe_topic(self._topic, self._received)
                except _BROKEN as exc:
                    raise LinkLost(f"no scheduler responds at {self._cluster.address}") from exc
            return self._client

    def _received(self, event: tuple[float, bytes]) -> None:
        assert self._on_event is not None, "it was subscribed to"
        with suppress(Exception):  # an exception would end Dask's receiving thread
            self._on_event(pickle.loads(event[1]))

    def labs(self) -> list[LabDescription]:
        """The connected lab hosts, sorted by name.

        Raises:
            LinkLost: the scheduler does not respond.
        """
        client = self.client()
        if time.monotonic() - self._looked_s < LOOK_S:  # one request for all lanes
            return sorted(self._labs.values(), key=lambda lab: lab.name)
        try:
            workers = client.scheduler_info(n_workers=-1)["workers"]
        except _BROKEN as exc:
            raise LinkLost(f"no scheduler responds at {self._cluster.address}") from exc
        at = [
            address
            for address, worker in workers.items()
            if any(name.startswith(LAB_RESOURCE) for name in worker["resources"])
        ]
        known = {address: self._labs[address] for address in at if address in self._labs}
        for address in at:
            if address not in known:
                with suppress(EdgebenchError):  # a failing lab host must not hide the others
                    name, version, devices = self.task(address, tasks.offers)
                    offered = devices if version == software() else ()
                    known[address] = LabDescription(name, address, version, offered)
        self._labs, self._looked_s = known, time.monotonic()
        return sorted(known.values(), key=lambda lab: lab.name)

    def task(self, address: str, function: Callable[..., Any], *args: object) -> Any:
        """Run a task that measures nothing on a lab host, and return its result.

        Raises:
            LinkLost: the lab host is unreachable, or has no result within `TASK_TIMEOUT_S`.
        """
        try:
            future = self.client().submit(function, *args, workers=[address], pure=False)
            return future.result(timeout=TASK_TIMEOUT_S)
        except _BROKEN as exc:
            raise LinkLost(f"lab host at {address} does not respond: {one_line(exc)}") from exc


def offered_devices(cluster: ClusterAddress) -> tuple[list[KnownDevice], Farm]:
    """The devices that lab hosts offer, and the entry of each device in its host's farm file.

    Raises:
        UsageError: lab hosts use the same name for different devices.
        LabHostsUnreachable: the scheduler does not respond, or no lab host offers a device.
    """
    with ClusterConnection(cluster) as connection:
        labs = connection.labs()
    offers: dict[str, tuple[str, DeviceOffer]] = {}
    for lab in labs:
        for offer in lab.devices:
            other, known = offers.setdefault(offer.name, (lab.name, offer))
            if (known.pin, known.seat) != (offer.pin, offer.seat):
                raise UsageError(
                    f"lab hosts {other} and {lab.name} have different devices with the name "
                    f"{offer.name}; rename one of the devices"
                )
    if not offers:
        raise LabHostsUnreachable(f"no lab host offers a device: {_seen(labs)}")
    return (
        [_known_device(name, offer) for name, (_, offer) in offers.items()],
        Farm(
            device={
                name: FarmDevice(labels=offer.labels, meter=offer.meter)
                for name, (_, offer) in offers.items()
            }
        ),
    )


def _known_device(name: str, offer: DeviceOffer | None) -> KnownDevice:
    if offer is None:
        return KnownDevice(name, "", "", (), 0, VIA)
    return KnownDevice(name, offer.id, offer.pin, (), 0, VIA, arch=offer.arch)


def _seen(labs: Sequence[LabDescription]) -> str:
    """List of the connected lab hosts, for an error message."""
    names = [lab.name if lab.devices else f"{lab.name} ({lab.version})" for lab in labs]
    return f"connected lab hosts: {', '.join(names)}" if names else "no lab host is connected"


@dataclass(slots=True)
class LaneHome:
    """The lab host that currently measures on a device."""

    at: DeviceAtLab = NO_LAB
    """The lab host, and the identity of the device. Only a lab host that offers a device with this
    identity may replace the lab host."""
    away_s: float | None = None
    """Time at which the lab host was first missing; None if it is connected."""


class LabSession:
    """A session of a campaign with a device of a lab host."""

    def __init__(
        self, lanes: ClusterLanes, device: str, notify: events.Notify, cancellation: Cancellation
    ) -> None:
        self._lanes = lanes
        self._device = device
        self._notify = notify
        self._cancellation = cancellation
        self._plan: RunPlan | None = None
        self._taken: list[str] = []
        """Runs of the last job; they are stored here, so the lab host may delete its copies."""

    def settle(self, plan: RunPlan) -> None:
        """Fetch and store the campaign's runs that are on the device or at the lab host."""
        self._plan = plan
        stored, begun = self._lanes.known_runs(self._device)
        outcome = self._do(self._job(stored=tuple(stored), begun=tuple(begun)))
        self._take_over(outcome)
        if outcome.is_interrupted:
            raise Interrupted(None)
        if outcome.error is not None:
            raise outcome.error

    def make(self, order: RunOrder) -> Run:
        """Let the lab host make a run, then fetch and store the run."""
        assert isinstance(order, CellOrder), "lab hosts make the runs of campaigns"
        assert order.new_id is not None, "a campaign gives its runs their ids"
        run_id = order.new_id()
        outcome = self._do(
            self._job(
                cell=order.cell,
                stored=tuple(self._taken),
                run_id=run_id,
                place=order.place,
                member=order.member,
                references=order.references,
            )
        )
        self._take_over(outcome, made=run_id)
        run = self._lanes.store.run(run_id) if run_id in outcome.runs else None
        if outcome.is_interrupted:
            raise Interrupted(run if run is not None and run.failure is None else None)
        refusal = dict(outcome.refused).get(run_id)
        if (error := outcome.error or refusal or (failure_of(run) if run else None)) is not None:
            raise error
        if run is None:  # a restarted job found no trace of it
            raise LinkLost(f"run {run_id} was lost when its lab host stopped")
        return run

    def finish(self) -> None:
        """Allow lab host and device to delete the runs that the coordinator has stored."""
        stored, _ = self._lanes.known_runs(self._device)
        outcome = self._do(self._job(stored=tuple(stored), is_last=True))
        if outcome.error is not None:
            raise outcome.error

    def _job(self, **changes: Any) -> DeviceJob:
        plan, lanes = self._lanes.plan, self._lanes
        cells = [cell for cell in plan.cells if cell.device == self._device]
        paths = {cell.model for cell in cells} | set(plan.spec.settings.files().values())
        job = DeviceJob(
            device=self._device,
            campaign=plan.id,
            wait_s=plan.spec.wait_s,
            repeats=plan.spec.repeats,
            settings=plan.spec.settings,
            cell=cells[0],
            files=lanes.files_of(paths),
            stored=(),
            store_url=lanes.store_url,
        )
        return replace(job, **changes)

    def _do(self, job: DeviceJob) -> JobOutcome:
        """Submit a job, send the files that the lab host lacks, and return the outcome.

        Raises:
            Interrupted: the command was cancelled, and the lab host is away.
            LabHostsUnreachable: no lab host offers the device.
            LinkLost: the scheduler does not respond.
            UsageError: a file cannot be read.
            FileChanged: a file changed during the campaign.
        """
        paths = {file: path for path, file in job.files.items()}
        contents: dict[FileRef, bytes] = {}
        while True:
            outcome = self._outcome(job, contents)
            if not outcome.missing:
                return outcome
            for file in outcome.missing:
                contents[file] = _content(paths[file])
                if hashlib.sha256(contents[file]).hexdigest() != file.sha256:
                    raise FileChanged(f"file changed while it was sent: {paths[file]}")

    def _outcome(self, job: DeviceJob, contents: Mapping[FileRef, bytes]) -> JobOutcome:
        """Wait for a job; Dask restarts it when the lab host reconnects.

        After `lab_wait_s`, the job is assigned to another lab host that offers the device.
        """
        from distributed import KilledWorker, wait

        lanes, cancellation = self._lanes, self._cancellation
        lab: LabDescription | None = None
        future: Any = None
        is_stopping, run_id = False, job.run_id
        with ExitStack() as given:  # releases the job, so that it cannot begin later
            while True:
                try:
                    found = lanes.lab_of(self._device, self._notify)
                    if found is not None and (lab is None or found.name != lab.name):
                        if lab is not None and run_id is not None:
                            # The run may have been started there, so only settle the device.
                            job = replace(job, run_id=None, begun=(run_id,))
                        given.close()
                        lab, future = found, self._submitted(job, contents, found)
                        given.callback(future.release)
                    if future is None or lab is None:
                        cancellation.wait(LOOK_S)
                        continue
                    with suppress(asyncio.TimeoutError, TimeoutError), future.client.as_current():
                        wait([future], timeout=LOOK_S)
                    if future.done():
                        outcome: JobOutcome = future.result()
                        return outcome
                    if cancellation.is_requested and found is None:
                        raise Interrupted(None)
                    if cancellation.is_requested and found is not None:
                        is_stopping = True  # repeated, because the job may not have begun yet
                        lanes.connection.task(found.address, tasks.stop_job, job.device)
                except KeyboardInterrupt:  # a single lane runs in the main thread
                    if is_stopping:
                        raise
                    cancellation.request()
                except KilledWorker as exc:  # Dask gives up a job after several dead workers
                    raise LinkLost(f"lab host died repeatedly: {one_line(exc)}") from exc
                except _BROKEN as exc:
                    raise LinkLost(f"scheduler does not respond: {one_line(exc)}") from exc

    def _submitted(
        self, job: DeviceJob, contents: Mapping[FileRef, bytes], lab: LabDescription
    ) -> Any:
        """Submit the job as a task that requires the device and the lab host as resources."""
        return self._lanes.connection.client().submit(
            tasks.do_job,
            job,
            contents,
            key=f"{job.campaign}-{job.device}-{job.run_id}-{secrets.token_hex(4)}",
            resources={f"{DEVICE_RESOURCE}{job.device}": 1, f"{LAB_RESOURCE}{lab.name}": 1},
        )

    def _take_over(self, outcome: JobOutcome, made: str | None = None) -> None:
        """Fetch and store the runs that an outcome lists; report them to the plan, except `made`.

        Raises:
            LinkLost: the lab host is away; received parts are kept, and missing parts are fetched
                later.
            RunDamaged: the received file is not a bundle of the run.
            RunNotStored: the store cannot be written; lab host and device keep the run.
        """
        store = self._lanes.store
        assert self._plan is not None, "a device is settled first"
        self._taken = []
        for run_id in outcome.runs:
            if store.has(run_id):
                self._taken.append(run_id)
                continue
            path = store.root / FILES_DIRECTORY / f"{store.directory(run_id).name}{SUFFIX}"
            try:
                make_directory(path.parent)
                self._receive(path, run_id, outcome)
                bundle = Bundle(path)
                copy_whole(store, run_id, partial(_unpack, bundle, run_id))
                note_run(store, run_id)
                path.unlink()
            except (RunDamaged, UsageError) as exc:
                path.unlink(missing_ok=True)
                raise RunDamaged(f"run {run_id} arrived damaged: {exc}") from exc
            except (StoreError, OSError) as exc:
                raise RunNotStored(
                    f"run {run_id} not stored; it is kept on the device: {one_line(exc)}"
                ) from exc
            self._taken.append(run_id)
            if run_id != made:
                self._plan.fetched(store.run(run_id))
        for run_id, error in outcome.refused:
            if run_id != made:
                self._plan.refused(run_id, error)

    def _receive(self, path: Path, run_id: str, outcome: JobOutcome) -> None:
        """Fetch the bundle of a run; parts that were received before are not fetched again."""
        size_bytes, url = outcome.runs[run_id], self._lanes.store_url
        if url is not None:
            get_file(f"{url}/{path.name}", path)
            return
        part = path.with_suffix(".part")
        lab = next((lab for lab in self._lanes.connection.labs() if lab.name == outcome.lab), None)
        if lab is None:
            raise LinkLost(f"lab host {outcome.lab} is away")
        while (done := part.stat().st_size if part.exists() else 0) < size_bytes:
            got = self._lanes.connection.task(
                lab.address, tasks.read_part, run_id, done, PART_BYTES
            )
            if not got:
                raise LinkLost(f"lab host {outcome.lab} sent no data of run {run_id}")
            with part.open("ab") as file:
                file.write(got)
        part.replace(path)


def _unpack(bundle: Bundle, run_id: str, directory: Path) -> None:
    if run_id not in bundle.files:
        raise RunDamaged(f"bundle has no run {run_id}")
    for name in bundle.files[run_id]:
        bundle.unpack(run_id, name, directory)


def _content(path: str) -> bytes:
    with os_error_as(UsageError, "file not readable", path):
        return Path(path).read_bytes()


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterLanes:
    """Creates a lane (the runs of one device) for each device that lab hosts offer."""

    connection: ClusterConnection
    journal: Journal
    store: Store
    plan: CampaignPlan
    requests: CellRequests
    store_url: str | None = None
    homes: dict[str, LaneHome] = field(default_factory=dict)
    """Maps the name of each device to its lab host."""
    files: dict[str, FileRef] = field(default_factory=dict)
    """Maps paths to the files of the campaign."""
    choosing: threading.Lock = field(default_factory=threading.Lock)
    """Lock that is held during the choice of a lab host, so that devices measured in parallel get
    different lab hosts."""

    def lane(self, device: str, work: CampaignWork) -> DeviceRuns:
        """The runs of a device; opening the session waits for a lab host that is away."""
        home = self.homes.setdefault(device, LaneHome())
        labs = [lab for lab in self.connection.labs() if lab.device(device)]
        lab = self._preferred(home, labs) if labs else None
        offer = (
            next((known for known in lab.devices if known.name == device), None) if lab else None
        )
        meter = self.plan.spec.settings.meter
        wired = offer.meter if offer and meter == FARM_METER else None
        shared = f"{lab.name}: {wired}" if lab and wired and is_of_host(wired) else None
        if meter == FARM_METER and offer is not None and wired is None:
            work.notify(events.MeterMissing(device))
        return DeviceRuns(
            target=Target(_known_device(device, offer), wire=shared),
            plan=CampaignRuns(work, device, request=self.requests.of, at=lambda: home.at),
            open=partial(self._open, device, work.notify),
        )

    @contextmanager
    def _open(
        self, device: str, notify: events.Notify, cancellation: Cancellation
    ) -> Iterator[LabSession]:
        """Wait for a lab host that offers the device, and open a session.

        Raises:
            Interrupted: the command was cancelled.
            LabHostsUnreachable: no lab host offers the device.
            LinkLost: the scheduler does not respond.
        """
        while self.lab_of(device, notify) is None:
            cancellation.wait(LOOK_S)
        yield LabSession(self, device, notify, cancellation)

    def lab_of(self, device: str, notify: events.Notify) -> LabDescription | None:
        """The device's last lab host, or another lab host after `lab_wait_s`; None during the wait.

        Raises:
            LabHostsUnreachable: no lab host offers the device after `lab_wait_s`.
            LinkLost: the scheduler does not respond.
        """
        home, wait_s, now_s = self.homes[device], self.plan.spec.lab_wait_s, time.monotonic()
        labs = self.connection.labs()
        offering = {lab.name: lab for lab in labs if _is_offered(device, home.at, lab)}
        is_late = home.away_s is not None and now_s - home.away_s >= wait_s
        own = offering.pop(home.at.lab, None)
        if own is not None and not (is_late and offering):
            home.at, home.away_s = own.device(device) or NO_LAB, None
            return own
        if offering and (is_late or not home.at.lab):
            with self.choosing:
                lab = self._preferred(home, list(offering.values()))
                home.at, home.away_s = lab.device(device) or NO_LAB, None
            return lab
        gone = f"lab host {home.at.lab} is away" if home.at.lab else f"no lab host offers {device}"
        if is_late:
            raise LabHostsUnreachable(
                f"{gone}, and no other lab host offered {device} within {wait_s:g} s; {_seen(labs)}"
            )
        if home.away_s is None:
            home.away_s = now_s
            error = LabHostsUnreachable(f"{gone}; {_seen(labs)}")
            notify(events.DeviceUnavailable(device, error, wait_s))
            self.journal.note_lane(device, "waiting", gone, at=home.at)
        return None

    def _preferred(self, home: LaneHome, labs: Sequence[LabDescription]) -> LabDescription:
        """The device's last lab host if listed, else the one with the fewest devices in use."""
        lanes = [other.at.lab for other in self.homes.values() if other is not home]
        return min(labs, key=lambda lab: (lab.name != home.at.lab, lanes.count(lab.name), lab.name))

    def files_of(self, paths: set[str]) -> Mapping[str, FileRef]:
        """Map each path that is a file to its reference.

        Other paths are names of built-in models and data sets, and are left out.

        Raises:
            UsageError: a file cannot be read.
        """
        for path in paths - set(self.files):
            if Path(path).is_file():
                digest = hashlib.sha256(_content(path)).hexdigest()
                self.files[path] = FileRef(digest, Path(path).name)
        return {path: self.files[path] for path in sorted(paths) if path in self.files}

    def known_runs(self, device: str) -> tuple[list[str], list[str]]:
        """Ids of a device's stored runs, and ids of begun runs whose outcome is unknown."""
        state = campaign_state(self.store, self.journal, self.plan)
        attempts = [
            attempt
            for planned, progress in state.runs.items()
            if self.plan.cells[planned.cell].device == device
            for attempt in progress.attempts
        ]
        return (
            [attempt.run_id for attempt in attempts if attempt.stored],
            [attempt.run_id for attempt in attempts if attempt.is_unsettled],
        )


def _is_offered(device: str, at: DeviceAtLab, lab: LabDescription) -> bool:
    """Whether a lab host offers this device, and not a different device with the same name.

    If the lab host measured on the device before, an equal name is enough. The certificate may have
    changed: a device that was set up again has a new certificate, which the lab host's operator has
    confirmed.
    """
    there = lab.device(device)
    if there is None:
        return False
    return not at.pin or there.lab == at.lab or (there.pin, there.seat) == (at.pin, at.seat)


def resumed_homes(journal: Journal) -> dict[str, LaneHome]:
    """Map each device of a campaign to its last lab host."""
    return {name: LaneHome(note.at) for name, note in journal.read().lanes.items() if note.at.lab}


def cluster_lanes(
    cluster: ClusterAddress,
    journal: Journal,
    store: Store,
    notify: events.Notify,
    store_url: str | None = None,
) -> OpenLanes:
    """A function that opens a `LaneFactory` for the devices that lab hosts offer.

    Args:
        cluster: The scheduler that the lab hosts are connected to.
        journal: The campaign; its last entries contain the lab host of each device.
        store: The campaign's store.
        notify: Consumer of the events of lab hosts.
        store_url: fsspec URL to which lab hosts upload finished runs; if None, Dask sends the runs.
    """

    @contextmanager
    def open_lanes(
        plan: CampaignPlan, requests: CellRequests, count: int
    ) -> Iterator[ClusterLanes]:
        del count
        refuse_own_meter(plan.spec.settings.meter)
        # Remove the files of runs that a killed coordinator has already stored.
        for path in (store.root / FILES_DIRECTORY).glob(f"*-{plan.id}-*"):
            if path.suffix == SUFFIX or store.has(path.stem):
                path.unlink()
        with ClusterConnection(cluster, plan.id, notify) as connection:
            yield ClusterLanes(
                connection=connection,
                journal=journal,
                store=store,
                plan=plan,
                requests=requests,
                store_url=store_url,
                homes=resumed_homes(journal),
            )

    return open_lanes
