"""The Python interface: the store and the devices, with the verbs of the command line."""

from __future__ import annotations

import shlex
import socket
from collections.abc import AsyncGenerator, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, nullcontext, suppress
from dataclasses import asdict, replace
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from edgebench.host.analysis.compare.runs import RunComparison, compare_groups, compare_pairs
from edgebench.host.analysis.run_set import find_sets
from edgebench.host.bench.builtin import find_model
from edgebench.host.bench.cancellation import Cancellation
from edgebench.host.bench.collect import analyse_set_aside, collect_waiting, settle_lost
from edgebench.host.bench.fetch import DeviceTarget, fetch_all
from edgebench.host.bench.finish import Finish, FinishingProcess, finish
from edgebench.host.bench.health_check import check_device, refused
from edgebench.host.bench.lanes import Target, measure_targets
from edgebench.host.bench.lease import open_when_free, stop_run, take_lease
from edgebench.host.bench.live import publish_status
from edgebench.host.bench.plan import refuse_impossible, run_all
from edgebench.host.bench.request import (
    DEFAULT_PAIRS,
    BenchOptions,
    BenchRequest,
    ComparisonRequest,
    new_request,
)
from edgebench.host.bench.run import DeviceLane
from edgebench.host.bench.watcher import OutcomeWatcher, Watcher
from edgebench.host.campaign.campaign import Campaign
from edgebench.host.campaign.journal import LAST, begin_journal
from edgebench.host.campaign.lanes import QuietWatcher, make_runs, paired_lanes
from edgebench.host.campaign.meters import refuse_unserved
from edgebench.host.campaign.plan import CampaignPlan, new_plan
from edgebench.host.campaign.requests import CellRequests
from edgebench.host.campaign.spec import load_spec
from edgebench.host.client import Client
from edgebench.host.devices.discovery import (
    THIS_MACHINE,
    DiscoveredDevice,
    find_devices,
    named,
    open_known,
)
from edgebench.host.devices.farm import DEFAULT_PARALLEL, Farm, farm_path, load_farm
from edgebench.host.devices.files import HostFiles, KnownDevice
from edgebench.host.devices.health import CheckState, HealthCheck, HealthFiles, Outcomes
from edgebench.host.devices.labgrid import LabgridPlaces, places_of, with_places
from edgebench.host.devices.names import LOCAL_NAME
from edgebench.host.devices.roster import forget, label, recorder, rename, take_over
from edgebench.host.devices.selection import ALL, select
from edgebench.host.power.metering import OpenMeter, check_wiring
from edgebench.host.result.run import Run
from edgebench.host.store import index
from edgebench.host.store.address import find_each, find_run, find_runs, list_named
from edgebench.host.store.bundle import default_name, write_bundle
from edgebench.host.store.bundle_file import BundleStore, open_store
from edgebench.host.store.incomplete import follow_agent
from edgebench.host.store.layout import Store
from edgebench.host.stored_run import StoredRun, StoredSet
from edgebench.host.transports import local as local_transport
from edgebench.protocol.errors import (
    DeviceNotOffered,
    EdgebenchError,
    MeasurementError,
    NoSecondSide,
    NoSuchCampaign,
    NoSuchDevice,
    RunDamaged,
)

if TYPE_CHECKING:
    import pandas as pd
    from typing_extensions import Unpack

    from edgebench.host.analysis.history.history import History
    from edgebench.host.campaign.cluster.address import ClusterAddress
    from edgebench.host.devices.deploy import DeployReport
    from edgebench.host.devices.install import OnStep
    from edgebench.host.devices.lab_file import JoinReport
    from edgebench.host.devices.on_device import UninstallReport
    from edgebench.host.devices.pairing import Decide, Pairing
    from edgebench.host.serve.server import PageAddress
    from edgebench.host.watch import Update


MAX_PARALLEL_LANES = 512
"""Devices of lab hosts that are measured at the same time: each takes a thread here."""


class Lab:
    """A result store and the devices that this host knows."""

    def __init__(
        self,
        store: str | Path | None = None,
        *,
        config: Path | None = None,
        agent_state: Path | None = None,
        state: Path | None = None,
    ) -> None:
        """Open the store; whatever is None is where the user's environment has it.

        Args:
            store: Directory of the results, or a bundle, which is read-only.
            config: Directory of this host's identity, its devices and the farm file.
            agent_state: Directory of the agent that serves this machine.
            state: Directory of what this host has seen of its devices; with a `config` of your own:
                that one.
        """
        self.store = open_store(Path(store) if store is not None else None)
        self._files = HostFiles(config)
        self._health = HealthFiles(state or config)
        self._farm = farm_path(config)
        self._agent_state = agent_state

    def _check_not_sent(self) -> None:
        """Refuse to measure into a bundle, before any device is contacted.

        Raises:
            UsageError: the store is a bundle.
        """
        if isinstance(self.store, BundleStore):
            self.store.check_writable()

    def runs(
        self,
        *names: str | Path,
        model: str | None = None,
        device: str | None = None,
        tag: str | None = None,
        since: datetime | None = None,
        last: int | None = None,
    ) -> pd.DataFrame:
        """The stored runs, one row each, oldest first; `created` is their time as a date, UTC.

        Args:
            *names: Bundles, tags, sets, or runs as `run` takes them; none: every run of the store.
            model: Name, or a pattern as `digits_*`.
            device: Name, or a pattern.
            tag: Tag of the runs.
            since: Earliest time; one without a zone is of this machine's.
            last: Number of the newest runs.
        """
        import pandas as pd

        wanted = index.RunFilter(model=model, device=device, tag=tag, since=since, last=last)
        if names:
            rows = list_named(self.store, map(str, names), wanted)
        else:
            rows = index.list_runs(self.store, wanted)
        columns = list(index.RunSummary.__dataclass_fields__)
        frame = pd.DataFrame([asdict(row) for row in rows], columns=columns)
        frame["created"] = pd.to_datetime(frame["created_utc"], utc=True, errors="coerce")
        return frame

    def run(self, name: str | Path = "last") -> StoredRun:
        """One stored run, by id or a unique part of it, tag, directory, or bundle.

        Raises:
            UsageError: no such run.
        """
        address = find_run(self.store, str(name))
        return StoredRun(address.store, address.run_id)

    def bundle(
        self,
        runs: str | Path | Sequence[str | Path],
        path: str | Path | None = None,
        *,
        is_annotated: bool = True,
    ) -> Path:
        """Write runs into a bundle, a file that can be used in place of a run.

        Args:
            runs: A run, set, tag, directory or bundle, or several.
            path: `.zip` file to write, which must not exist; None: a file in the working directory,
                named after the runs.
            is_annotated: Whether to include tags and notes.

        Raises:
            UsageError: no such run, or the file exists or has another suffix.
            StoreError: the file cannot be written.
        """
        addresses = [one for name in _listed(runs) for one in find_runs(self.store, name)]
        target = Path(path) if path is not None else Path(default_name(addresses))
        write_bundle(target, addresses, is_annotated=is_annotated)
        return target

    def history(
        self,
        *,
        runs: Sequence[str] = (),
        model: str | None = None,
        device: str | None = None,
        tag: str | None = None,
        since: datetime | None = None,
        last: int | None = None,
        metric: str | None = None,
        margin_ratio: float | None = None,
    ) -> list[History]:
        """A metric over time and its changes, for each model, device and settings.

        Args:
            runs: Only histories with these runs: ids, sets, tags; empty: all.
            model: Name, or a pattern, as for `runs`.
            device: Name, or a pattern.
            tag: Tag of the runs.
            since: Earliest time.
            last: Number of the newest runs.
            metric: Such as `latency_ns.p50` or `energy_j`; None: the headline of the runs.
            margin_ratio: Changes for the worse up to this do not matter; None: 1 %.

        Raises:
            UsageError: no such runs, or the metric is unknown or has no better direction.
        """
        from edgebench.host.store.history import read_histories

        wanted = index.RunFilter(model=model, device=device, tag=tag, since=since, last=last)
        return read_histories(
            self.store, wanted, runs=runs, metric=metric, margin_ratio=margin_ratio
        )

    def export(self, *names: str, file: str | Path, file_format: str | None = None) -> None:
        """Write stored runs in the format of another tool; docs/export.md lists the formats.

        Args:
            *names: Runs, named as for `runs`.
            file: File to write, or a directory for MLPerf's logs.
            file_format: Name of a format; None: by the suffix of the file.

        Raises:
            UsageError: no such run or format.
            FileNotWritten: the file cannot be written.
        """
        from edgebench.host.export.exported import find_exported
        from edgebench.host.export.files import export_runs
        from edgebench.host.export.registry import format_of_file, named_format

        path = Path(file)
        form = named_format(file_format) if file_format else format_of_file(path.name)
        export_runs(find_exported(self.store, names), form, path)

    def sets(self, runs: Sequence[StoredRun]) -> list[StoredSet]:
        """Sets of runs of the same model, each with the interval between its runs."""
        return [StoredSet.of(one) for one in find_sets(run.result for run in runs)]

    def devices(
        self, timeout_s: float = 3.0, *, on_doubt: Callable[[EdgebenchError], None] | None = None
    ) -> list[DiscoveredDevice]:
        """This machine, the paired devices and the ones on the network.

        Args:
            timeout_s: Longest time to listen.
            on_doubt: Called with sources that cannot be read; the others are listed all the same.
        """
        farm, places = self._merged_farm()
        if on_doubt is not None:
            for doubt in places.doubts:
                on_doubt(doubt)
        record = recorder(farm, self._health, places)
        return find_devices(
            self._files, timeout_s=timeout_s, state=self._agent_state, record=record
        )

    def _merged_farm(self, watcher: Watcher | None = None) -> tuple[Farm, LabgridPlaces]:
        """The farm file with what labgrid adds to it, and its places."""
        farm, paired = load_farm(self._farm), self._files.devices()
        places = places_of(farm.labgrid, paired)
        if watcher is not None:
            for doubt in places.doubts:
                watcher.farm_source_failed(doubt)
        return with_places(farm, places, paired), places

    def watch(self, *names: str) -> AsyncGenerator[Update, None]:
        """How devices are, for as long as it is iterated: `async for update in lab.watch()`.

        Args:
            names: Devices, by name or id; an agent stands for all of its seats. None: every paired
                one, and this machine if an agent is running on it.

        Raises:
            NoSuchDevice: no paired device has that name, or none is paired.
        """
        from edgebench.host.watch import watch

        paired = self._files.devices()
        if names:
            devices = [named(paired, name) for name in names]
        else:
            is_running = local_transport.is_running(self._agent_state)
            devices = [*([THIS_MACHINE] if is_running else []), *paired]
        if not devices:
            raise NoSuchDevice("no device is paired with this host")
        return watch(devices, self._files, state=self._agent_state)

    def check(
        self, *names: str, on_checked: Callable[[HealthCheck], None] | None = None
    ) -> list[HealthCheck]:
        """Check devices, with a quick run on each; what is found ends or begins their quarantine.

        Args:
            *names: Names of devices; none: this machine and every seat of every paired agent.
            on_checked: Called with each device when it is checked, in any order.

        Raises:
            NoSuchDevice: a name is not that of one device.
        """
        paired = self._files.devices()
        devices = [named(paired, name) for name in dict.fromkeys(names)]
        limit = load_farm(self._farm).quarantine_after
        cancellation = Cancellation()

        def check(device: KnownDevice) -> list[HealthCheck]:
            checks = self._check(device, cancellation, with_seats=not names, limit=limit)
            if on_checked is not None:
                for one in checks:
                    on_checked(one)
            return checks

        with ThreadPoolExecutor(DEFAULT_PARALLEL) as pool:
            try:
                checked = list(pool.map(check, devices or (THIS_MACHINE, *paired)))
            except BaseException:  # Ctrl-C as well
                cancellation.request()  # the threads are waited for
                raise
        return [one for checks in checked for one in checks]

    def _check(
        self, device: KnownDevice, cancellation: Cancellation, *, with_seats: bool, limit: int
    ) -> list[HealthCheck]:
        """Check a device, and those that the same agent serves."""
        others: list[KnownDevice] = []
        name = device.name
        try:
            with open_known(self._files, device, state=self._agent_state) as client:
                self._health.seen(device, client.seat)
                seats = client.seats() if with_seats else ()
                others = [device.at_seat(seat.name) for seat in seats[1:]]
                name = device.at_seat(client.seat).name if others else device.name
                check = check_device(client, name, cancellation)
        except EdgebenchError as exc:
            check = refused(name, exc)
        if check.state is CheckState.WELL:
            self._health.succeeded(device)
        elif check.is_of_device and check.code is not None and limit:
            self._health.quarantine(device, check.code, check.reason)
        return [
            check,
            *(
                one
                for other in others
                for one in self._check(other, cancellation, with_seats=False, limit=limit)
            ),
        ]

    def rename(self, device: str, name: str) -> KnownDevice:
        """Give a paired device another name, in the farm file too."""
        return rename(self._files, self._farm, device, name)

    def label(
        self, device: str, *labels: str, remove: Sequence[str] = ()
    ) -> tuple[KnownDevice, tuple[str, ...]]:
        """Add and remove labels of a device or seat, in the farm file; what it has now."""
        return label(self._files, self._farm, device, add=labels, remove=remove)

    def forget(self, device: str) -> KnownDevice:
        """Remove a device, its pairing and its history; its runs stay."""
        return forget(self._files, self._health, device)

    def pair(self, text: str, decide: Decide | None = None) -> KnownDevice:
        """Pair with the agent that printed this string.

        Args:
            text: Pairing string.
            decide: Whether the agent takes the place of a known device that does not answer any
                more, with its name, labels and history; None: it is always another one.
        """
        from edgebench.host.devices.pairing import pair

        pairing = pair(self._files, text, decide=decide)
        self._take_over(pairing)
        return pairing.device

    def _take_over(self, pairing: Pairing) -> None:
        if pairing.replaced is not None:
            take_over(self._files, self._health, self._farm, pairing.replaced, pairing.device)
            follow_agent(self.store, pairing.replaced.pin, pairing.device.pin)

    def export_lab(self, path: str | Path) -> tuple[KnownDevice, ...]:
        """Write this host's identity and devices into a new file, for the hosts that share them.

        Raises:
            UsageError: the file exists.
        """
        from edgebench.host.devices.lab_file import export_lab

        return export_lab(self._files, Path(path)).devices

    def join_lab(self, path: str | Path, *, replaces: bool = False) -> JoinReport:
        """Become one owner with the host that wrote this file: each collects the runs of all.

        Raises:
            UsageError: that is no such file, or this host has devices of its own.
        """
        from edgebench.host.devices.lab_file import join_lab

        return join_lab(self._files, Path(path), replaces=replaces)

    def deploy(self, target: str, say: OnStep | None = None, **settings: Any) -> DeployReport:
        """Install an agent over SSH or adb, and pair with it.

        Args:
            target: Account or phone, as `edgebench deploy` takes it.
            say: Called with each step.
            settings: Fields of `DeployRequest`.
        """
        from edgebench.host.devices.deploy import deploy, deploy_request

        request = deploy_request(target, **settings)
        report = deploy(self._files, request, say, on_paired=self._take_over)
        self._health.deployed(report.device)
        return report

    def undeploy(self, target: str, say: OnStep | None = None, **settings: Any) -> UninstallReport:
        """Remove a deployed agent with all that it keeps, and forget the device."""
        from edgebench.host.devices.deploy import deploy_request, undeploy

        return undeploy(self._files, deploy_request(target, **settings), say)

    def connect(self, device: str = LOCAL_NAME, *, any_environment: bool = False) -> Client:
        """Open a connection to a device.

        Args:
            device: Its name.
            any_environment: Whether the agent on this machine may be of another environment than
                this process, as nothing is measured.
        """
        known = named(self._files.devices(), device)
        client = open_known(
            self._files, known, state=self._agent_state, any_environment=any_environment
        )
        self._health.seen(known, client.seat)
        return client

    def bench(
        self,
        *models: str | Path,
        watcher: Watcher | None = None,
        **options: Unpack[BenchOptions],
    ) -> list[StoredRun]:
        """Measure models on devices, one after another; the built-in models when none is named.

        Args:
            *models: Paths, or names of built-in models.
            watcher: Receives every event; failures are raised if there is none.
            **options: What is measured on, how and with what: duration_s, threads, meter, …

        Raises:
            Interrupted: the user pressed Ctrl-C.
            EdgebenchError: a measurement failed, and there is no watcher.
        """
        return self.measure(new_request(models, **options), watcher)

    def bench_against(
        self,
        baseline: str | Path,
        candidate: str | Path,
        *,
        pairs: int = DEFAULT_PAIRS,
        margin_ratio: float | None = None,
        metrics: str | Sequence[str] | None = None,
        allowed: str | Sequence[str] = (),
        watcher: Watcher | None = None,
        **options: Unpack[BenchOptions],
    ) -> tuple[list[RunComparison], list[StoredRun]]:
        """Measure two models in pairs, in random order within each pair, and compare them.

        Args:
            baseline: Path, or name of a built-in model.
            candidate: Path, or name of a built-in model.
            pairs: Runs of each; below 6 no difference can be significant.
            margin_ratio: Changes smaller than this do not matter; None: 1 %.
            metrics: Numbers to compare, as `latency_ns.p50` or `energy_j`.
            allowed: Keys in which the sides may differ; see `comparability.KEYS`.
            watcher: As for `bench`.
            **options: As for `bench`; each device is compared by itself.

        Raises:
            Interrupted: the user pressed Ctrl-C.
            EdgebenchError: a measurement failed, and there is no watcher.
        """
        against = ComparisonRequest(
            candidate=find_model(str(candidate)),
            pair_count=pairs,
            metrics=tuple(_listed(metrics or ())),
            margin_ratio=margin_ratio,
            allowed=tuple(_listed(allowed)),
        )
        runs = self.measure(new_request([baseline], against=against, **options), watcher)
        return compare_measured(against, runs), runs

    def measure(
        self,
        request: BenchRequest,
        watcher: Watcher | None = None,
        cancellation: Cancellation | None = None,
    ) -> list[StoredRun]:
        """Measure what a request asks for; the runs that did not fail.

        Args:
            request: The models, the devices and the settings.
            watcher: Receives every event; failures are raised if there is none.
            cancellation: Stops it from another thread, as Ctrl-C does in the main one.

        Raises:
            Interrupted: the user pressed Ctrl-C, or the command was cancelled.
            EdgebenchError: a measurement failed, and there is no watcher.
        """
        self._check_not_sent()
        watcher = watcher or Watcher()
        farm, places = self._merged_farm(watcher)
        devices = self._healthy(request.devices, farm, watcher)
        for device in devices:
            if (place := places.by_device.get(device.name)) and place.is_taken:
                watcher.labgrid_place_taken(device.name, place.name, place.acquired_by or "")
        if request.energy is not None:
            check_wiring(request.energy.meter, [device.name for device in devices])
        targets = [
            Target(device, request.on_device(device.name, farm.entry(device).meter))
            for device in devices
        ]
        for target in targets:
            if request.energy is not None and target.request.energy is None:
                watcher.meter_missing(target.device.name)
        with (
            index.kept_open(self.store),
            publish_status(self.store, "bench", watcher) as publisher,
            FinishingProcess() if len(targets) > 1 else nullcontext() as other,
        ):
            measure_on = partial(
                self._measure_recording_health,
                other.finish if other else finish,
                farm.quarantine_after,
            )
            runs = measure_targets(
                targets,
                measure_on,
                publisher,
                cancellation or Cancellation(),
                parallel=farm.parallel,
            )
        return [StoredRun(self.store, run.run_id) for run in runs]

    def _healthy(self, words: Sequence[str], farm: Farm, watcher: Watcher) -> list[KnownDevice]:
        """The devices that the words choose, without those in quarantine that no word names."""
        paired = self._files.devices()
        fitting = select(words, paired, farm)
        if not farm.quarantine_after:
            return fitting
        health = {device.name: self._health.of(device) for device in fitting}
        quarantined = {name for name, known in health.items() if known.is_quarantined}
        devices = select(words, paired, farm, quarantined)
        for name in sorted(quarantined - {device.name for device in devices}):
            watcher.device_skipped(name, health[name])
        return devices

    def _measure_recording_health(
        self,
        finish: Finish,
        quarantine_after: int,
        target: Target,
        watcher: Watcher,
        cancellation: Cancellation,
    ) -> list[Run]:
        """Measure on one device, and record in its health how the runs ended."""
        outcomes = Outcomes(self._health, target.device, quarantine_after)
        watcher = OutcomeWatcher(watcher, outcomes.succeeded, outcomes.failed)
        try:
            return self._measure_on(finish, target, watcher, cancellation)
        except EdgebenchError as exc:
            outcomes.failed(exc)
            raise

    def _measure_on(
        self, finish: Finish, target: Target, watcher: Watcher, cancellation: Cancellation
    ) -> list[Run]:
        """Measure on one device, after what it still has of earlier runs is stored."""
        with ExitStack() as stack:
            request, meter = target.request, None
            if request.energy is not None:
                meter = stack.enter_context(closing(OpenMeter.of(request.energy)))
            if (meter_address := meter or request.instrument) is not None:
                is_fixed = request.is_duration_fixed
                spec = meter_address.spec(request.spec, is_duration_fixed=is_fixed)
                request = replace(request, spec=spec)
            client = stack.enter_context(
                open_when_free(
                    partial(open_known, self._files, target.device, state=self._agent_state),
                    *(target.device.name, request.wait_s, watcher, cancellation),
                )
            )
            self._health.seen(target.device, client.seat)
            # The lease first: another process of ours may be fetching its run just now.
            take_lease(
                client,
                target.device.name,
                request.wait_s,
                watcher,
                cancellation,
                check=partial(refuse_impossible, client, request, meter),
            )
            for run in collect_waiting(
                client,
                self.store,
                on_doubt=watcher.earlier_run_rejected,
                on_failure=watcher.earlier_run_failed,
                finish=finish,
            ):
                watcher.earlier_run_stored(run)
            for lost in settle_lost(client, self.store):
                watcher.run_lost(lost)
            try:
                lane = DeviceLane(client, self.store, watcher, cancellation, finish)
                return run_all(lane, request, meter)
            finally:
                with suppress(EdgebenchError):  # the lease of a lost link expires
                    client.release()

    def plan_campaign(
        self,
        file: str | Path,
        watcher: Watcher | None = None,
        cluster: str | ClusterAddress | None = None,
    ) -> CampaignPlan:
        """What a campaign file would do with the devices of now; nothing is begun.

        Args:
            file: The campaign file.
            watcher: Receives the devices that are left out, as they are in quarantine.
            cluster: Scheduler of a cluster, as "tcp://server:8786", whose lab hosts offer the
                devices; None: the devices are those of this host.

        Raises:
            UsageError: the file, or a model or setting in it, makes no sense.
            NoSuchDevice: it names a device that is not paired.
            DeviceNotOffered: it names one that no lab host offers.
            LabHostsUnreachable: no scheduler answers, or no lab host is there.
        """
        watcher = watcher or Watcher()
        farm, _ = self._merged_farm(watcher)
        offered: list[KnownDevice] = []
        if cluster is not None:
            offered, farm = self._offered(cluster)

        def choose(word: str) -> list[str]:
            if cluster is not None:
                names = [device.name for device in select([word], offered, farm)]
                known = [device.name for device in offered]
                for name in names:
                    if name not in known:
                        raise DeviceNotOffered(
                            f"no lab host offers {name}; offered: {', '.join(known)}",
                            shlex.quote(name),
                        )
                return names
            return [device.name for device in self._healthy([word], farm, watcher)]

        path = Path(file)
        plan = new_plan(load_spec(path), path, choose)
        meter = plan.spec.settings.meter
        if cluster is not None:
            from edgebench.host.campaign.cluster.lanes import check_meter

            check_meter(meter)
        elif meter:
            check_wiring(meter, plan.devices)
        CellRequests(plan)
        return plan

    @staticmethod
    def _offered(cluster: str | ClusterAddress) -> tuple[list[KnownDevice], Farm]:
        from edgebench.host.campaign.cluster.connection import ClusterConnection
        from edgebench.host.campaign.cluster.lanes import offered_devices

        with ClusterConnection(_address(cluster)) as connection:
            connection.connect()
            return offered_devices(connection.labs())

    def work_for(
        self,
        cluster: str | ClusterAddress,
        *,
        on: str | Sequence[str] = (ALL,),
        name: str | None = None,
        host: str | None = None,
        on_connected: Callable[[str, Sequence[str]], None] = lambda *_: None,
        on_away: Callable[[str], None] = lambda _: None,
    ) -> None:
        """Offer this host's devices to campaigns over several lab hosts, until Ctrl-C.

        Args:
            cluster: Scheduler, as "tcp://server:8786".
            on: Devices to offer, as for `bench`; this machine itself is not offered.
            name: Name of this lab host; None: that of this machine.
            host: Address of this machine at which the scheduler reaches it; None: Dask finds one.
            on_connected: Called each time that the scheduler has accepted this lab host, with its
                name and the names of its devices.
            on_away: Called with the reason if the scheduler is away, or does not accept this lab
                host; it is waited for.

        Raises:
            UsageError: the address makes no sense, or Dask is not installed.
            NoSuchDevice: there is no such device.
        """
        from edgebench.host.campaign.cluster.lab import LAB_DIRECTORY, LabHost, LabService
        from edgebench.host.campaign.cluster.messages import DeviceOffer
        from edgebench.host.campaign.cluster.worker import work_for

        self._check_not_sent()
        farm, address = load_farm(self._farm), _address(cluster)
        chosen = self._healthy(_listed(on), farm, Watcher())
        devices = {device.name: device for device in chosen if device.pin}
        if not devices:
            raise NoSuchDevice("a lab host offers paired devices, and this machine itself is none")
        offers = tuple(
            DeviceOffer(
                name=device.name,
                id=device.id,
                pin=device.pin,
                seat=device.seat,
                arch=device.arch,
                labels=farm.entry(device).labels,
                meter=farm.entry(device).meter,
            )
            for device in devices.values()
        )
        host_of_lab = LabHost(
            store=Store(self.store.root / LAB_DIRECTORY),
            offers=offers,
            find=lambda name: (devices[name], farm.entry(devices[name]).meter),
            connect=partial(open_known, self._files, state=self._agent_state),
            outcomes=lambda device: Outcomes(self._health, device, farm.quarantine_after),
        )
        own_name = name or socket.gethostname()
        with closing(LabService(host_of_lab)) as service:
            work_for(
                service,
                address,
                name=own_name,
                host=host,
                on_connected=lambda: on_connected(own_name, list(devices)),
                on_away=on_away,
            )

    def begin_campaign(
        self,
        file: str | Path,
        watcher: Watcher | None = None,
        cluster: str | ClusterAddress | None = None,
    ) -> Campaign:
        """Write the plan of a campaign into the store; `resume_campaign` makes its runs.

        Args:
            file: As for `plan_campaign`.
            watcher: As for `plan_campaign`.
            cluster: As for `plan_campaign`.

        Raises:
            UsageError: the file, or a model or setting in it, makes no sense.
            NoSuchDevice: it names a device that is not paired.
            MeterNotServed: the agent of one does not serve the meter.
            StoreError: the store cannot be written.
        """
        self._check_not_sent()
        plan = self.plan_campaign(file, watcher, cluster)
        if cluster is None:
            farm = load_farm(self._farm)
            refuse_unserved(
                plan,
                CellRequests(plan),
                find=partial(self._find, farm=farm, paired=self._files.devices()),
                connect=partial(open_known, self._files, state=self._agent_state),
            )
        begin_journal(self.store, plan)
        return self.campaign(plan.id)

    def resume_campaign(
        self,
        name: str = "last",
        watcher: Watcher | None = None,
        cancellation: Cancellation | None = None,
        cluster: str | ClusterAddress | None = None,
    ) -> Campaign:
        """Make the runs of a campaign that are neither stored nor waiting on their devices.

        Args:
            name: Id or name of the campaign, or `last`.
            watcher: Receives every event.
            cancellation: Stops it from another thread; it can be resumed.
            cluster: As for `plan_campaign`.

        Raises:
            Interrupted: the user pressed Ctrl-C, or the command was cancelled.
            NoSuchCampaign: there is no such campaign.
            CampaignRunning: another process makes its runs.
            FileChanged: a model is not what it was.
            LabHostsUnreachable: no scheduler answers.
        """
        campaign, farm = self.campaign(name), load_farm(self._farm)
        if cluster is not None:
            from edgebench.host.campaign.cluster.lanes import cluster_lanes

            lanes = cluster_lanes(_address(cluster), campaign.journal, self.store)
        else:
            lanes = paired_lanes(
                self.store,
                find=partial(self._find, farm=farm, paired=self._files.devices()),
                connect=partial(open_known, self._files, state=self._agent_state),
                outcomes=lambda device: Outcomes(self._health, device, farm.quarantine_after),
            )

        watcher = watcher or QuietWatcher()
        with publish_status(self.store, "campaign", watcher, campaign.plan.id) as publisher:
            make_runs(
                campaign.journal,
                self.store,
                lanes,
                watcher=publisher,
                cancellation=cancellation or Cancellation(),
                parallel=MAX_PARALLEL_LANES if cluster is not None else farm.parallel,
            )
        return campaign

    @staticmethod
    def _find(
        name: str, *, farm: Farm, paired: Sequence[KnownDevice]
    ) -> tuple[KnownDevice, str | None]:
        """A device by its name in a plan, and the meter that is wired to it."""
        [known] = select([name], paired, farm)
        return known, farm.entry(known).meter

    def campaign(self, name: str = "last") -> Campaign:
        """A campaign of this store, by id or name.

        Raises:
            NoSuchCampaign: there is none.
        """
        return Campaign(self.store, name)

    def serve(
        self,
        on_ready: Callable[[PageAddress], None],
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        token: str | None = None,
    ) -> None:
        """Serve a live page of store and devices until Ctrl-C; no device is contacted.

        Args:
            on_ready: Called with the page's address once it is listening.
            host: Address to listen on; any address other than loopback needs a token.
            port: Port to listen on; 0: a free one.
            token: Token that every request needs; None: no token on loopback, else a new one.

        Raises:
            UsageError: the extra `serve` is not installed, the token is too short, or the address
                cannot be listened on.
        """
        from edgebench.host.campaign.newest import NewestCampaigns
        from edgebench.host.serve.overview import OverviewSources
        from edgebench.host.serve.server import serve

        sources = OverviewSources(
            store=self.store,
            files=self._files,
            health=self._health,
            farm=self._farm,
            campaigns=NewestCampaigns(self.store).read,
        )
        serve(sources, host=host, port=port, token=token, on_ready=on_ready)

    def stop(self, device: str = LOCAL_NAME) -> str | None:
        """Stop this user's run on a device; its id, or None if nothing runs there.

        `collect`, or the next `bench` on that device, stores what it measured.

        Raises:
            LeaseHeld: another client measures there.
            EdgebenchError: the device cannot be reached, or the run does not end.
        """
        with self.connect(device, any_environment=True) as client:
            return stop_run(client)

    def collect(
        self,
        on: str | Sequence[str] = (LOCAL_NAME,),
        *,
        is_waiting: bool = True,
        watcher: Watcher | None = None,
        cancellation: Cancellation | None = None,
    ) -> list[StoredRun]:
        """Store what earlier commands left on devices; a run in progress is followed to its end.

        Args:
            on: Devices, as for `bench`.
            is_waiting: Whether a run in progress is waited for; if not, its device is left alone.
            watcher: Receives every event; what cannot be stored is raised if there is none.
            cancellation: Stops it from another thread, with the runs that are followed.

        Returns:
            The runs, also those that failed on their device (`result.failure`).

        Raises:
            Interrupted: the user pressed Ctrl-C, or the command was cancelled.
            LeaseHeld: another client measures on the only device.
            EdgebenchError: the only device cannot be reached, or the store cannot be written.
        """
        self._check_not_sent()
        farm, _ = self._merged_farm(watcher)
        targets = list(map(DeviceTarget, select(_listed(on), self._files.devices(), farm)))
        with (
            publish_status(self.store, "collect", watcher or Watcher()) as publisher,
            FinishingProcess() if len(targets) > 1 else nullcontext() as other,
        ):
            finisher = other.finish if other else finish

            def fetch(
                target: DeviceTarget, watcher: Watcher, cancellation: Cancellation
            ) -> list[Run]:
                with open_known(
                    self._files, target.device, state=self._agent_state, any_environment=True
                ) as client:
                    lane = DeviceLane(client, self.store, watcher, cancellation, finisher)
                    return fetch_all(lane, target.device.name, is_waiting=is_waiting)

            runs = measure_targets(
                targets,
                fetch,
                publisher,
                cancellation or Cancellation(),
                parallel=farm.parallel,
            )
        return [StoredRun(self.store, run.run_id) for run in runs]

    def analyse_set_aside(self, watcher: Watcher | None = None) -> list[StoredRun]:
        """Analyse the runs again that were set aside, as after an upgrade.

        Args:
            watcher: Receives the runs that are stored now, and those that stay set aside.

        Returns:
            The runs that are stored now, also those that failed on their device.

        Raises:
            StoreError: the store cannot be read or written.
        """
        name = "this machine"
        device_watcher = (watcher or Watcher()).for_device(name, 1)
        runs = analyse_set_aside(self.store, on_doubt=device_watcher.earlier_run_rejected)
        for run in runs:
            device_watcher.fetch_started(name, run.run_id)
            device_watcher.fetch_finished(run)
        return [StoredRun(self.store, run.run_id) for run in runs]

    def compare(
        self,
        baseline: str | Path | Sequence[str | Path],
        candidate: str | Path | Sequence[str | Path] | None = None,
        *,
        metrics: str | Sequence[str] | None = None,
        margin_ratio: float | None = None,
        allowed: str | Sequence[str] = (),
    ) -> list[RunComparison]:
        """Compare stored runs, named as for `runs`; one result per metric.

        Args:
            baseline: The runs of one side; without a candidate, runs that `bench_against` made,
                named by the id of their comparison: `pairs-1f2e3d4c`.
            candidate: The runs of the other side.
            metrics: As for `bench_against`.
            margin_ratio: As for `bench_against`.
            allowed: As for `bench_against`.

        Raises:
            UsageError: no such run or metric, or the runs differ in more than the model.
            MeasurementError: a run is invalid, or of pairs, all of them.
        """
        wanted = None if metrics is None else _listed(metrics)
        keys = _listed(allowed)
        if candidate is None:
            names = _listed(baseline)
            runs = [one.run() for one in find_each(self.store, names)]
            if len(runs) == 1 and (pair := runs[0].pair) and pair.comparison_id not in names:
                raise NoSecondSide(
                    f"a comparison needs a second side: {runs[0].run_id} is one run of a pair",
                    pair.comparison_id,
                )
            if any(run.pair is None for run in runs):
                raise NoSecondSide(
                    f"a comparison needs a second side: {', '.join(names)} is not of pairs",
                    sides=tuple(names) if len(names) == 2 else (),
                )
            return compare_pairs(runs, metrics=wanted, margin_ratio=margin_ratio, allowed=keys)
        before, after = (
            [one.run() for name in _listed(names) for one in find_runs(self.store, name)]
            for names in (baseline, candidate)
        )
        return compare_groups(
            [(before, after)], metrics=wanted, margin_ratio=margin_ratio, allowed=keys
        )

    def report(
        self,
        *names: str,
        output: str | Path | None = None,
        allowed: Sequence[str] = (),
        is_anonymous: bool = False,
    ) -> Path:
        """Write stored runs, or a campaign, as one self-contained HTML file.

        Args:
            *names: Runs by id, part of it, set, tag or directory; or one campaign by id or name.
                The first run or set is the baseline of the others.
            output: File to write; None: one named after the first run in the current directory.
            allowed: Keys in which compared runs may differ; see `comparability.KEYS`.
            is_anonymous: Leave out names of devices, hosts and users, paths and addresses.

        Returns:
            Path of the file.

        Raises:
            NoSuchRun: no such run, and no such campaign.
            UsageError: the file exists and is not a report, or there is no such key.
            RunDamaged: traces of a run are damaged; the file is written, without them.
            StoreError: a run cannot be read, or the file cannot be written.
        """
        from edgebench.host.analysis.compare.comparability import check_keys
        from edgebench.host.report import page

        check_keys(allowed)
        if (campaign := self._campaign_called(names)) is not None:
            text = page.campaign_report(campaign.report_facts(), is_anonymous=is_anonymous)
            name, damages = campaign.plan.id, []
        else:
            runs = page.find_reported(self.store, names)
            content = page.run_page(runs, allowed=allowed, is_anonymous=is_anonymous)
            text, name, damages = page.rendered(content), page.name_of(runs), content.damages
        path = Path(output or f"edgebench-{name}.html").absolute()
        page.write_report(path, text)
        if damages:
            raise RunDamaged(f"the numbers in {path} cannot be checked: {damages[0]}")
        return path

    def _campaign_called(self, names: Sequence[str]) -> Campaign | None:
        """The campaign with this single name or id; None otherwise, as `last` names a run."""
        if len(names) == 1 and names[0] != LAST:
            with suppress(NoSuchCampaign):
                return self.campaign(names[0])
        return None


def _listed(names: str | Path | Sequence[str | Path]) -> list[str]:
    """Names as a list; a single name becomes a list of one."""
    return [str(one) for one in ([names] if isinstance(names, (str, Path)) else names)]


def _address(cluster: str | ClusterAddress) -> ClusterAddress:
    from edgebench.host.campaign.cluster.address import ClusterAddress

    return cluster if isinstance(cluster, ClusterAddress) else ClusterAddress(cluster)


def compare_measured(against: ComparisonRequest, runs: Sequence[StoredRun]) -> list[RunComparison]:
    """Compare the runs that were made for this request.

    Raises:
        UsageError: the runs differ in more than the model.
        MeasurementError: a comparison has no pair of valid runs.
    """
    if not runs:
        raise MeasurementError("no pair of valid runs is left to compare")
    compared = compare_pairs(
        [run.result for run in runs],
        metrics=against.metrics,
        margin_ratio=against.margin_ratio,
        allowed=against.allowed,
    )
    return [
        replace(one, left_out_count=against.pair_count - one.result.baseline_count)
        for one in compared
    ]
