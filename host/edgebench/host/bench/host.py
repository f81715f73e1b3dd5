"""This host's store and devices, and the measurements on these devices."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from edgebench.host.bench.cancellation import Cancellation
from edgebench.host.bench.collect import analyse_set_aside
from edgebench.host.bench.events import (
    DeviceSelected,
    DeviceSkipped,
    EarlierRunRejected,
    FarmSourceFailed,
    FetchBegan,
    LabgridPlaceTaken,
    MeterMissing,
    Notify,
    RunFetched,
    ignore_events,
)
from edgebench.host.bench.finish import FinishingProcess, finish
from edgebench.host.bench.health_check import check_device, refused
from edgebench.host.bench.lanes import measure_side_by_side
from edgebench.host.bench.live import publish_status
from edgebench.host.bench.request import BenchRequest
from edgebench.host.bench.runs import BenchRuns, CollectRuns, DeviceRuns, local_runs
from edgebench.host.bench.session import MeasuringHost, Target
from edgebench.host.client import Client
from edgebench.host.devices.discovery import (
    THIS_MACHINE,
    DiscoveredDevice,
    find_devices,
    named,
    open_known,
)
from edgebench.host.devices.farm import DEFAULT_PARALLEL, Farm, load_farm
from edgebench.host.devices.files import HostFiles, KnownDevice
from edgebench.host.devices.health import CheckState, HealthCheck, HealthFiles, Outcomes
from edgebench.host.devices.labgrid import LabgridPlaces, places_of, with_places
from edgebench.host.devices.roster import recorder, take_over
from edgebench.host.devices.selection import select
from edgebench.host.power.metering import check_wiring
from edgebench.host.result.run import Run
from edgebench.host.store import index
from edgebench.host.store.bundle_file import refuse_bundle
from edgebench.host.store.incomplete import follow_agent
from edgebench.host.store.layout import Store
from edgebench.host.transports import local as local_transport
from edgebench.protocol.errors import EdgebenchError, NoSuchDevice

if TYPE_CHECKING:
    from edgebench.host.devices.deploy import DeployReport, DeployRequest
    from edgebench.host.devices.install import OnStep
    from edgebench.host.devices.pairing import Decide, Pairing


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchHost:
    """The store of this host, its paired devices, and their health."""

    store: Store
    files: HostFiles
    health: HealthFiles
    farm_file: Path
    agent_state: Path | None
    """State directory of the agent that serves this machine; None for the user's default."""

    def farm(self) -> Farm:
        """Load the current farm file."""
        return load_farm(self.farm_file)

    def merged_farm(self, notify: Notify = ignore_events) -> tuple[Farm, LabgridPlaces]:
        """Merge the farm file with the places of labgrid; return the merged farm and the places."""
        farm, paired = self.farm(), self.files.devices()
        places = places_of(farm.labgrid, paired)
        for doubt in places.doubts:
            notify(FarmSourceFailed(doubt))
        return with_places(farm, places, paired), places

    def devices(
        self, timeout_s: float, on_doubt: Callable[[EdgebenchError], None]
    ) -> list[DiscoveredDevice]:
        """This machine, paired devices and devices on the network; see `Lab.devices`."""
        farm, places = self.merged_farm()
        for doubt in places.doubts:
            on_doubt(doubt)
        record = recorder(farm, self.health, places)
        return find_devices(self.files, timeout_s=timeout_s, state=self.agent_state, record=record)

    def pair(self, text: str, decide: Decide | None) -> KnownDevice:
        """Pair with an agent; the records of a paired device that the agent replaces are kept."""
        from edgebench.host.devices.pairing import pair

        pairing = pair(self.files, text, decide=decide)
        self._take_over(pairing)
        return pairing.device

    def deploy(self, request: DeployRequest, on_step: OnStep | None) -> DeployReport:
        """Install an agent, and pair with it."""
        from edgebench.host.devices.deploy import deploy

        report = deploy(self.files, request, on_step, on_paired=self._take_over)
        self.health.deployed(report.device)
        return report

    def _take_over(self, pairing: Pairing) -> None:
        old, new = pairing.replaced, pairing.device
        if old is not None:
            take_over(self.files, self.health, self.farm_file, old, new)
            follow_agent(self.store, old.pin, new.pin)

    def watched(self, names: Sequence[str]) -> list[KnownDevice]:
        """The named devices, or else all paired devices and this machine if it runs an agent.

        Raises:
            NoSuchDevice: no paired device has one of the names, or there are no devices.
        """
        paired = self.files.devices()
        if names:
            return [named(paired, name) for name in names]
        is_running = local_transport.is_running(self.agent_state)
        devices = [*([THIS_MACHINE] if is_running else []), *paired]
        if not devices:
            raise NoSuchDevice("no device is paired with this host")
        return devices

    def choose(
        self, words: Sequence[str], farm: Farm, notify: Notify = ignore_events
    ) -> list[KnownDevice]:
        """Devices that the words select; a quarantined device only if a word is the device's name.

        Raises:
            NoSuchDevice: a word matches no device.
        """
        paired = self.files.devices()
        fitting = select(words, paired, farm)
        if not farm.quarantine_after:
            return fitting
        health = {device.name: self.health.of(device) for device in fitting}
        quarantined = {name for name, known in health.items() if known.is_quarantined}
        devices = select(words, paired, farm, quarantined)
        for name in sorted(quarantined - {device.name for device in devices}):
            notify(DeviceSkipped(name, health[name]))
        return devices

    def find(self, name: str) -> tuple[KnownDevice, str | None]:
        """Return the device with this name in a plan, and the meter that is wired to it, if any.

        Raises:
            NoSuchDevice: the device and its pairing were removed after the plan was made.
        """
        farm = self.farm()
        [known] = select([name], self.files.devices(), farm)
        return known, farm.entry(known).meter

    def connect(self, device: KnownDevice, *, any_environment: bool = False) -> Client:
        """Connect to a device, and record that it was reachable.

        Args:
            device: The device.
            any_environment: Whether this machine's agent may run in another Python environment than
                this process; only allowed if nothing is measured.

        Raises:
            TransportError: the device cannot be reached.
        """
        client = open_known(
            self.files, device, state=self.agent_state, any_environment=any_environment
        )
        self.health.seen(device, client.seat)
        return client

    def outcomes(self, device: KnownDevice) -> Outcomes:
        """Recorder that adds successes and failures of runs to a device's health record."""
        return Outcomes(self.health, device, self.farm().quarantine_after)

    @contextmanager
    def _measuring(
        self, command: str, notify: Notify, device_count: int, wait_s: float = 0.0
    ) -> Iterator[tuple[MeasuringHost, Notify]]:
        """Yield the `MeasuringHost` of a command, and a consumer of events that publishes them."""
        with (
            publish_status(self.store, command, notify) as publisher,
            FinishingProcess() if device_count > 1 else nullcontext() as other,
        ):
            host = MeasuringHost(
                store=self.store,
                connect=partial(self.connect, any_environment=command == "collect"),
                analyse=other.finish if other else finish,
                wait_s=wait_s,
            )
            yield host, publisher

    def measure(
        self, request: BenchRequest, notify: Notify, cancellation: Cancellation
    ) -> list[Run]:
        """Make the runs of a request; return the runs that did not fail.

        Raises:
            Interrupted: the user pressed Ctrl-C, or the command was cancelled.
            UsageError: the store is a bundle.
            EdgebenchError: a consumer of the events raised a failure, or the only device failed.
        """
        refuse_bundle(self.store)
        farm, places = self.merged_farm(notify)
        devices = self.choose(request.devices, farm, notify)
        for device in devices:
            if (place := places.by_device.get(device.name)) and place.is_taken:
                notify(LabgridPlaceTaken(device.name, place.name, place.acquired_by or ""))
        if request.energy is not None:
            check_wiring(request.energy.meter, [device.name for device in devices])
        with (
            index.kept_open(self.store),
            self._measuring("bench", notify, len(devices), wait_s=request.wait_s) as (
                host,
                publish,
            ),
        ):
            works: list[DeviceRuns] = []
            plans: list[BenchRuns] = []
            for device in devices:
                own = request.on_device(device.name, farm.entry(device).meter)
                if request.energy is not None and own.energy is None:
                    publish(MeterMissing(device.name))
                plans.append(BenchRuns(own, device.name, publish))
                target, outcomes = Target(device, own.energy), self.outcomes(device)
                works.append(local_runs(host, target, plans[-1], outcomes))
            measure_side_by_side(works, publish, cancellation, parallel=farm.parallel)
        return [run for plan in plans for run in plan.runs]

    def collect(
        self, words: Sequence[str], notify: Notify, cancellation: Cancellation, *, is_waiting: bool
    ) -> list[Run]:
        """Store the runs that earlier commands left on devices, or that are in progress there.

        Args:
            words: Words that select the devices.
            notify: Consumer of the events.
            cancellation: Lets another thread stop the collection and the runs that it follows.
            is_waiting: Whether to follow runs in progress. If False, devices with a run in progress
                are skipped.

        Raises:
            Interrupted: the user pressed Ctrl-C, or the command was cancelled.
            LeaseHeld: another client is measuring on the only device.
            EdgebenchError: the only device cannot be reached, or the store cannot be written.
        """
        refuse_bundle(self.store)
        farm, _ = self.merged_farm(notify)
        devices = select(words, self.files.devices(), farm)
        with self._measuring("collect", notify, len(devices)) as (host, publish):
            plans = [CollectRuns(device.name, publish, is_waiting=is_waiting) for device in devices]
            works = [
                local_runs(host, Target(device), plan)
                for device, plan in zip(devices, plans, strict=True)
            ]
            measure_side_by_side(works, publish, cancellation, parallel=farm.parallel)
        return [run for plan in plans for run in plan.runs]

    def analyse_set_aside(self, notify: Notify) -> list[Run]:
        """Repeat the analysis of runs that were set aside; return the runs that could be stored.

        Raises:
            StoreError: the store cannot be read or written.
        """
        name = "this machine"
        notify(DeviceSelected(name, 1))
        runs = analyse_set_aside(
            self.store,
            on_doubt=lambda run_id, error: notify(EarlierRunRejected(name, run_id, error)),
        )
        for run in runs:
            notify(FetchBegan(name, run.run_id))
            notify(RunFetched(name, run))
        return runs

    def check(
        self, names: Sequence[str], on_checked: Callable[[HealthCheck], None]
    ) -> list[HealthCheck]:
        """Check devices with a quick run on each; start or end their quarantine accordingly.

        Args:
            names: Names of devices. If empty, this machine and all devices of all paired agents
                are checked; a device of an agent is called a seat.
            on_checked: Called with the outcome of each check, in any order.

        Raises:
            NoSuchDevice: a name matches no device, or several devices.
        """
        paired = self.files.devices()
        devices = [named(paired, name) for name in dict.fromkeys(names)]
        limit, cancellation = self.farm().quarantine_after, Cancellation()

        def check(device: KnownDevice) -> list[HealthCheck]:
            checks = self._check(device, cancellation, with_seats=not names, limit=limit)
            for checked in checks:
                on_checked(checked)
            return checks

        with ThreadPoolExecutor(DEFAULT_PARALLEL) as pool:
            try:
                checked = list(pool.map(check, devices or (THIS_MACHINE, *paired)))
            except BaseException:  # including Ctrl-C
                cancellation.request()  # because the pool waits for its threads
                raise
        return [check for checks in checked for check in checks]

    def _check(
        self, device: KnownDevice, cancellation: Cancellation, *, with_seats: bool, limit: int
    ) -> list[HealthCheck]:
        """Check a device; with `with_seats`, also the other seats (devices) of its agent."""
        others: list[KnownDevice] = []
        name = device.name
        try:
            with self.connect(device) as client:
                seats = client.seats() if with_seats else ()
                others = [device.at_seat(seat.name) for seat in seats[1:]]
                name = device.at_seat(client.seat).name if others else device.name
                check = check_device(client, name, cancellation)
        except EdgebenchError as exc:
            check = refused(name, exc)
        if check.state is CheckState.WELL:
            self.health.succeeded(device)
        elif check.is_of_device and check.code is not None and limit:
            self.health.quarantine(device, check.code, check.reason)
        checks = [check]
        for other in others:
            checks += self._check(other, cancellation, with_seats=False, limit=limit)
        return checks
