"""The Python interface to a store and to devices, with methods named like the commands."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from edgebench.host.bench.cancellation import Cancellation
from edgebench.host.bench.events import Notify, ignore_events, raise_failures
from edgebench.host.bench.host import BenchHost
from edgebench.host.bench.lease import stop_run
from edgebench.host.bench.request import BenchOptions, BenchRequest, PairOptions, new_request
from edgebench.host.bench.runs import compare_measured
from edgebench.host.bench.stored_model import comparison_request
from edgebench.host.campaign import commands
from edgebench.host.campaign.campaign import Campaign
from edgebench.host.campaign.cluster.address import ClusterAddress
from edgebench.host.client import Client
from edgebench.host.devices.discovery import DiscoveredDevice, named
from edgebench.host.devices.farm import farm_path
from edgebench.host.devices.files import HostFiles, KnownDevice
from edgebench.host.devices.health import HealthCheck, HealthFiles
from edgebench.host.devices.names import LOCAL_NAME
from edgebench.host.devices.roster import forget, label, rename
from edgebench.host.devices.selection import ALL
from edgebench.host.options.values import name_list
from edgebench.host.result.run import Run
from edgebench.host.stored_run import StoredResults, StoredRun
from edgebench.protocol.errors import EdgebenchError

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from edgebench.host.analysis.compare.runs import RunComparison
    from edgebench.host.campaign.plan import CampaignPlan
    from edgebench.host.devices.deploy import DeployReport
    from edgebench.host.devices.install import OnStep
    from edgebench.host.devices.lab_file import JoinReport
    from edgebench.host.devices.on_device import UninstallReport
    from edgebench.host.devices.pairing import Decide
    from edgebench.host.serve.server import PageAddress
    from edgebench.host.watch import Update


class Lab(StoredResults):
    """A result store, and the devices that this host is paired with.

    Methods that contact devices raise a `UsageError` if the store is a bundle. Several methods have
    the following parameters. `watcher` is called with every event of a measurement; without a
    watcher, failures are raised. `cancellation` stops a measurement from another thread, as Ctrl-C
    does in the main thread. `cluster` is the address of the scheduler of several lab hosts, such as
    "tcp://server:8786"; without `cluster`, the devices paired with this host are used.
    """

    def __init__(
        self,
        store: str | Path | None = None,
        *,
        config: Path | None = None,
        agent_state: Path | None = None,
        state: Path | None = None,
    ) -> None:
        """Open the store and the settings; None selects a default location of this user.

        Args:
            store: Directory of the results, or a bundle. A bundle is read-only.
            config: Directory of this host's identity, its devices and the farm file.
            agent_state: Directory of the agent that serves this machine.
            state: Directory of the health records of devices. If `state` is None and `config` is
                given, `config` is also the directory of the health records.
        """
        super().__init__(store)
        self._host = BenchHost(
            store=self.store,
            files=HostFiles(config),
            health=HealthFiles(state or config),
            farm_file=farm_path(config),
            agent_state=agent_state,
        )

    def devices(
        self, timeout_s: float = 3.0, *, on_doubt: Callable[[EdgebenchError], None] | None = None
    ) -> list[DiscoveredDevice]:
        """List this machine, paired devices, and agents that announce themselves on the network.

        Args:
            timeout_s: Time to wait for announcements.
            on_doubt: Called with an error for each source of devices that cannot be read. The
                devices of all other sources are still returned.
        """
        return self._host.devices(timeout_s, on_doubt or (lambda _: None))

    def watch(self, *names: str) -> AsyncGenerator[Update, None]:
        """Live state of devices, as an endless iterator: `async for update in lab.watch()`.

        Args:
            names: Devices, by name or id; an agent's name selects all its devices. Without names,
                all paired devices, and this machine if it runs an agent.

        Raises:
            NoSuchDevice: a name matches no paired device, or there are no devices.
        """
        from edgebench.host.watch import watch

        devices = self._host.watched(names)
        return watch(devices, self._host.files, state=self._host.agent_state)

    def check(
        self, *names: str, on_checked: Callable[[HealthCheck], None] | None = None
    ) -> list[HealthCheck]:
        """Check each device with a quick run, whose result may start or end a quarantine.

        Args:
            *names: Devices; without names, this machine and every seat of every paired agent.
            on_checked: Called with the outcome of each check, in any order.

        Raises:
            NoSuchDevice: a name matches no device, or several.
        """
        return self._host.check(names, on_checked or (lambda _: None))

    def rename(self, device: str, name: str) -> KnownDevice:
        """Rename a paired device, on this host and in the farm file."""
        return rename(self._host.files, self._host.farm_file, device, name)

    def label(
        self, device: str, *labels: str, remove: Sequence[str] = ()
    ) -> tuple[KnownDevice, tuple[str, ...]]:
        """Add and remove labels of a device in the farm file; return the device and its labels."""
        return label(self._host.files, self._host.farm_file, device, add=labels, remove=remove)

    def forget(self, device: str) -> KnownDevice:
        """Remove a device, its pairing and its history; its runs stay in the store."""
        return forget(self._host.files, self._host.health, device)

    def pair(self, text: str, decide: Decide | None = None) -> KnownDevice:
        """Pair with the agent that printed this string.

        Args:
            text: Pairing string.
            decide: Callback that returns whether the agent replaces a known device that no longer
                responds. If so, the agent takes over that device's name, labels and history. None:
                the agent is always a new device.
        """
        return self._host.pair(text, decide)

    def export_lab(self, path: str | Path) -> tuple[KnownDevice, ...]:
        """Write this host's identity and devices to a new file, for hosts that will share them.

        Raises:
            UsageError: the file exists.
        """
        from edgebench.host.devices.lab_file import export_lab

        return export_lab(self._host.files, Path(path)).devices

    def join_lab(self, path: str | Path, *, replaces: bool = False) -> JoinReport:
        """Take over the identity and the devices of the host that wrote this file, to share them.

        Afterwards, each host with this identity can collect the runs that any of these hosts
        started.

        Raises:
            UsageError: the file is not the file of a lab, or this host already has devices.
        """
        from edgebench.host.devices.lab_file import join_lab

        return join_lab(self._host.files, Path(path), replaces=replaces)

    def deploy(self, target: str, on_step: OnStep | None = None, **settings: Any) -> DeployReport:
        """Install an agent over SSH or adb, and pair with it.

        Args:
            target: Account or phone, in the form that `edgebench deploy` takes.
            on_step: Called with each step.
            settings: Fields of `DeployRequest`.
        """
        from edgebench.host.devices.deploy import deploy_request

        return self._host.deploy(deploy_request(target, **settings), on_step)

    def undeploy(
        self, target: str, on_step: OnStep | None = None, **settings: Any
    ) -> UninstallReport:
        """Remove a deployed agent with all its data, and forget the device."""
        from edgebench.host.devices.deploy import deploy_request, undeploy

        return undeploy(self._host.files, deploy_request(target, **settings), on_step)

    def connect(self, device: str = LOCAL_NAME, *, any_environment: bool = False) -> Client:
        """Open a connection to a device.

        Args:
            device: Name of the device.
            any_environment: Whether the agent on this machine may run in another Python environment
                than this process. True is only for connections that do not measure.
        """
        known = named(self._host.files.devices(), device)
        return self._host.connect(known, any_environment=any_environment)

    def bench(
        self, *models: str | Path, watcher: Notify | None = None, **options: Unpack[BenchOptions]
    ) -> list[StoredRun]:
        """Measure models on devices; without models, the built-in models.

        Args:
            *models: Paths, or names of built-in models.
            watcher: As described for the class.
            **options: Devices and settings: on, duration_s, threads, meter, …; see `BenchOptions`.

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
        watcher: Notify | None = None,
        **options: Unpack[PairOptions],
    ) -> tuple[list[RunComparison], list[StoredRun]]:
        """Measure two models in pairs, in random order within each pair, and compare them.

        The models are compared separately on each device.

        Args:
            baseline: Path of a model, name of a built-in model, or name of stored runs, such as the
                id of a set. For stored runs, the model file is found by its SHA-256 and measured
                again.
            candidate: Second side of the comparison, in the same form as `baseline`.
            watcher: As described for the class.
            **options: The options of `bench`, and pairs, metrics, margin_ratio, allowed; see
                `PairOptions`.

        Raises:
            Interrupted: the user pressed Ctrl-C.
            EdgebenchError: a measurement failed, and there is no watcher.
        """
        request = comparison_request(self.store, str(baseline), str(candidate), **options)
        assert request.against is not None, "it is a comparison"
        runs = self.measure(request, watcher)
        return compare_measured(request.against, [run.result for run in runs]), runs

    def measure(
        self,
        request: BenchRequest,
        watcher: Notify | None = None,
        cancellation: Cancellation | None = None,
    ) -> list[StoredRun]:
        """Execute the runs of a request; return the runs that did not fail.

        Raises:
            Interrupted: the user pressed Ctrl-C, or `cancellation` was used.
            EdgebenchError: a measurement failed, and there is no watcher.
        """
        runs = self._host.measure(
            request, watcher or raise_failures, cancellation or Cancellation()
        )
        return self._stored(runs)

    def _stored(self, runs: Sequence[Run]) -> list[StoredRun]:
        return [StoredRun(self.store, run.run_id) for run in runs]

    def stop(self, device: str = LOCAL_NAME) -> str | None:
        """Stop this user's run on a device; return its id, or None if no run is in progress.

        `collect`, or the next `bench` on that device, stores the stopped run.

        Raises:
            LeaseHeld: another client is measuring on the device.
            EdgebenchError: the device cannot be reached, or the run does not end.
        """
        with self.connect(device, any_environment=True) as client:
            return stop_run(client)

    def collect(
        self,
        on: str | Sequence[str] = (LOCAL_NAME,),
        *,
        is_waiting: bool = True,
        watcher: Notify | None = None,
        cancellation: Cancellation | None = None,
    ) -> list[StoredRun]:
        """Fetch and store runs that earlier commands left on devices; wait for runs in progress.

        Args:
            on: Devices, in the form that `bench` takes.
            is_waiting: Whether to wait for runs in progress. If False, devices with a run in
                progress are skipped.
            watcher: As described for the class.
            cancellation: As described for the class. Runs in progress are stopped, too.

        Returns:
            The runs, including runs that failed on their device (`result.failure`).

        Raises:
            Interrupted: the user pressed Ctrl-C, or `cancellation` was used.
            LeaseHeld: `on` selects a single device, and another client is measuring on this device.
            EdgebenchError: `on` selects a single device, and this device cannot be reached. Or the
                store cannot be written.
        """
        notify, cancelled = watcher or raise_failures, cancellation or Cancellation()
        runs = self._host.collect(name_list(on), notify, cancelled, is_waiting=is_waiting)
        return self._stored(runs)

    def analyse_set_aside(self, watcher: Notify | None = None) -> list[StoredRun]:
        """Analyse again the runs that could not be analysed, for example after an upgrade.

        Args:
            watcher: Receives an event for each run that is stored now, and for each run that still
                cannot be analysed.

        Returns:
            The runs that are stored now, including runs that failed on their device.

        Raises:
            StoreError: the store cannot be read or written.
        """
        return self._stored(self._host.analyse_set_aside(watcher or raise_failures))

    def plan_campaign(
        self,
        file: str | Path,
        watcher: Notify | None = None,
        cluster: str | ClusterAddress | None = None,
    ) -> CampaignPlan:
        """Create a campaign's plan from its file and the current devices; no run is made.

        The watcher receives an event for each device that is left out because of its quarantine.

        Raises:
            UsageError: the file, or a model or setting in it, is invalid.
            NoSuchDevice: the file names a device that is not paired.
            DeviceNotOffered: the file names a device that no lab host offers.
            LabHostsUnreachable: the scheduler does not respond, or no lab host is connected.
        """
        return commands.plan_campaign(self._host, Path(file), watcher or raise_failures, cluster)

    def begin_campaign(
        self,
        file: str | Path,
        watcher: Notify | None = None,
        cluster: str | ClusterAddress | None = None,
    ) -> Campaign:
        """Write the plan of a campaign to the store; `resume_campaign` makes its runs.

        Raises:
            UsageError: the file, or a model or setting in it, is invalid.
            NoSuchDevice: the file names a device that is not paired.
            MeterNotServed: the agent of a device does not serve the meter.
            StoreError: the store cannot be written.
        """
        notify = watcher or raise_failures
        return self.campaign(commands.begin_campaign(self._host, Path(file), notify, cluster).id)

    def resume_campaign(
        self,
        name: str = "last",
        watcher: Notify | None = None,
        cancellation: Cancellation | None = None,
        cluster: str | ClusterAddress | None = None,
        store_url: str | None = None,
    ) -> Campaign:
        """Fetch a campaign's finished runs from its devices, and make the remaining runs.

        Args:
            name: Id or name of the campaign, or `last`.
            watcher: Called with every event; without a watcher, failures are ignored.
            cancellation: As described for the class; the campaign can be resumed afterwards.
            cluster: As described for the class.
            store_url: fsspec URL through which lab hosts transfer finished runs, such as
                "s3://bucket/runs". None selects a transfer through the scheduler.

        Raises:
            Interrupted: the user pressed Ctrl-C, or `cancellation` was used.
            NoSuchCampaign: the store has no such campaign.
            CampaignRunning: another process is running the campaign.
            FileChanged: a model changed since the campaign was planned.
            LabHostsUnreachable: the scheduler does not respond.
        """
        campaign = self.campaign(name)
        commands.resume_campaign(
            self._host,
            campaign,
            notify=watcher or ignore_events,
            cancellation=cancellation or Cancellation(),
            cluster=cluster,
            store_url=store_url,
        )
        return campaign

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
        """Act as a lab host of a cluster until Ctrl-C: offer this host's devices to campaigns.

        Args:
            cluster: As described for the class.
            on: Devices to offer, in the form that `bench` takes. This machine itself is not
                offered.
            name: Name of this lab host; None selects this machine's name.
            host: Address at which the scheduler reaches this machine. If None, Dask finds the
                address.
            on_connected: Called each time the scheduler accepts this lab host. The arguments are
                the name of the lab host and the names of its devices.
            on_away: Called with the reason if the scheduler cannot be reached, or rejects this lab
                host. Attempts to connect continue.

        Raises:
            UsageError: the address is malformed, or Dask is not installed.
            NoSuchDevice: an item of `on` selects no device, or no paired device is selected.
        """
        from edgebench.host.campaign.cluster.lab import work_for

        work_for(
            self._host,
            ClusterAddress.of(cluster),
            words=name_list(on),
            name=name,
            address=host,
            on_connected=on_connected,
            on_away=on_away,
        )

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
            on_ready: Called with the page's address once the server is listening.
            host: Address to listen on; any address other than loopback needs a token.
            port: Port to listen on; 0 selects any free port.
            token: Token that every request needs. None means no token on loopback, and a new random
                token on any other address.

        Raises:
            UsageError: the extra `serve` is not installed, the token is too short, or the server
                cannot listen on the address.
        """
        from edgebench.host.campaign.newest import NewestCampaigns
        from edgebench.host.serve.overview import OverviewSources
        from edgebench.host.serve.server import serve

        sources = OverviewSources(
            store=self.store,
            files=self._host.files,
            health=self._host.health,
            farm=self._host.farm_file,
            campaigns=NewestCampaigns(self.store).read,
        )
        serve(sources, host=host, port=port, token=token, on_ready=on_ready)
