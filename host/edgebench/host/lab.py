"""The Python interface: a store and devices, with methods named like the commands."""

from __future__ import annotations

import socket
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from edgebench.host.analysis.compare.runs import RunComparison
from edgebench.host.analysis.run_set import find_sets
from edgebench.host.bench.cancellation import Cancellation
from edgebench.host.bench.events import (
    Notify,
    ignore_events,
    raise_failures,
)
from edgebench.host.bench.host import BenchHost
from edgebench.host.bench.lease import stop_run
from edgebench.host.bench.live import publish_status
from edgebench.host.bench.request import (
    DEFAULT_PAIRS,
    BenchOptions,
    BenchRequest,
    ComparisonRequest,
    new_request,
)
from edgebench.host.bench.runs import compare_measured
from edgebench.host.bench.stored_model import find_sides
from edgebench.host.campaign.campaign import Campaign
from edgebench.host.campaign.journal import LAST, begin_journal
from edgebench.host.campaign.lanes import make_runs, paired_lanes, plan_campaign
from edgebench.host.campaign.meters import refuse_unserved
from edgebench.host.campaign.plan import CampaignPlan
from edgebench.host.campaign.requests import CellRequests
from edgebench.host.client import Client
from edgebench.host.devices.discovery import (
    DiscoveredDevice,
    named,
)
from edgebench.host.devices.farm import farm_path
from edgebench.host.devices.files import HostFiles, KnownDevice
from edgebench.host.devices.health import HealthCheck, HealthFiles
from edgebench.host.devices.names import LOCAL_NAME
from edgebench.host.devices.roster import forget, label, rename, take_over
from edgebench.host.devices.selection import ALL
from edgebench.host.result.run import Run
from edgebench.host.store import index
from edgebench.host.store.address import find_run, find_runs
from edgebench.host.store.bundle import default_name, write_bundle
from edgebench.host.store.bundle_file import BundleStore, open_store
from edgebench.host.store.incomplete import follow_agent
from edgebench.host.stored_run import StoredRun, StoredSet, compare_stored, runs_frame
from edgebench.protocol.errors import (
    EdgebenchError,
    NoSuchCampaign,
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
"""Maximum number of devices of lab hosts measured in parallel, each with a thread on this host."""


class Lab:
    """A result store, and the devices that this host is paired with."""

    def __init__(
        self,
        store: str | Path | None = None,
        *,
        config: Path | None = None,
        agent_state: Path | None = None,
        state: Path | None = None,
    ) -> None:
        """Open the store; None selects the default location from the user's environment.

        Args:
            store: Directory of the results, or a bundle, which is read-only.
            config: Directory of this host's identity, its devices and the farm file.
            agent_state: Directory of the agent that serves this machine.
            state: Directory of the health records of devices; default: `config`, if given.
        """
        self.store = open_store(Path(store) if store is not None else None)
        self._host = BenchHost(
            store=self.store,
            files=HostFiles(config),
            health=HealthFiles(state or config),
            farm_file=farm_path(config),
            agent_state=agent_state,
        )

    def _check_not_sent(self) -> None:
        """Check that the store is not a bundle, before any device is contacted.

        Raises:
            UsageError: the store is a bundle, which is read-only.
        """
        if isinstance(self.store, BundleStore):
            self.store.check_writable()

    def runs(self, *names: str | Path, **selected: Unpack[index.RunSelection]) -> pd.DataFrame:
        """The stored runs, one row each, oldest first; column `created` is the run's time in UTC.

        Args:
            *names: Bundles, tags, sets, or runs as for `run`; without names, all runs of the store.
            **selected: model, device (names, or patterns such as `digits_*`), tag, since (earliest
                time; local time if it has no zone), last (number of the newest runs).
        """
        return runs_frame(self.store, list(map(str, names)), index.RunFilter(**selected))

    def run(self, name: str | Path = "last") -> StoredRun:
        """A stored run, by id or a unique part of it, tag, directory, or bundle.

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
        """Write runs to a bundle, a file that can be used in place of a run.

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
        metric: str | None = None,
        margin_ratio: float | None = None,
        **selected: Unpack[index.RunSelection],
    ) -> list[History]:
        """A metric over time and its changes, for each model, device and settings.

        Args:
            runs: Only histories with these runs: ids, sets, tags; empty: all.
            metric: A metric such as `latency_ns.p50` or `energy_j`; None: the headline of the runs.
            margin_ratio: Largest change for the worse that is ignored; None: 1 %.
            **selected: As for `runs`.

        Raises:
            UsageError: no such runs, or the metric is unknown or has no direction that is better.
        """
        from edgebench.host.store.history import read_histories

        return read_histories(
            self.store,
            index.RunFilter(**selected),
            runs=runs,
            metric=metric,
            margin_ratio=margin_ratio,
        )

    def export(self, *names: str, file: str | Path, file_format: str | None = None) -> None:
        """Write stored runs in the format of another tool; docs/export.md lists the formats.

        Args:
            *names: Runs, as for `runs`.
            file: File to write, or a directory for MLPerf's logs.
            file_format: Name of a format; None: selected by the suffix of the file.

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
        """This machine, paired devices, and agents announced on the network.

        Args:
            timeout_s: Time to wait for announcements.
            on_doubt: Called with the error of each source that cannot be read; devices of other
                sources are still returned.
        """
        return self._host.devices(timeout_s, on_doubt or (lambda _: None))

    def watch(self, *names: str) -> AsyncGenerator[Update, None]:
        """Live state of devices, as an endless iterator: `async for update in lab.watch()`.

        Args:
            names: Devices, by name or id; an agent's name selects all its seats. Without names, all
                paired devices, and this machine if it runs an agent.

        Raises:
            NoSuchDevice: no paired device has a name, or there are no devices.
        """
        from edgebench.host.watch import watch

        devices = self._host.watched(names)
        return watch(devices, self._host.files, state=self._host.agent_state)

    def check(
        self, *names: str, on_checked: Callable[[HealthCheck], None] | None = None
    ) -> list[HealthCheck]:
        """Check devices with a quick run on each; start or end their quarantine accordingly.

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
        """Add and remove labels of a device or seat in the farm file; return its labels."""
        return label(self._host.files, self._host.farm_file, device, add=labels, remove=remove)

    def forget(self, device: str) -> KnownDevice:
        """Remove a device, its pairing and its history; its runs stay in the store."""
        return forget(self._host.files, self._host.health, device)

    def pair(self, text: str, decide: Decide | None = None) -> KnownDevice:
        """Pair with the agent that printed this string.

        Args:
            text: Pairing string.
            decide: Returns whether the agent replaces a known device that no longer responds, and
                takes over its name, labels and history; None: the agent is always a new device.
        """
        from edgebench.host.devices.pairing import pair

        pairing = pair(self._host.files, text, decide=decide)
        self._take_over(pairing)
        return pairing.device

    def _take_over(self, pairing: Pairing) -> None:
        if pairing.replaced is not None:
            take_over(
                self._host.files,
                self._host.health,
                self._host.farm_file,
                pairing.replaced,
                pairing.device,
            )
            follow_agent(self.store, pairing.replaced.pin, pairing.device.pin)

    def export_lab(self, path: str | Path) -> tuple[KnownDevice, ...]:
        """Write this host's identity and devices to a new file, for hosts that will share them.

        Raises:
            UsageError: the file exists.
        """
        from edgebench.host.devices.lab_file import export_lab

        return export_lab(self._host.files, Path(path)).devices

    def join_lab(self, path: str | Path, *, replaces: bool = False) -> JoinReport:
        """Share the identity and devices of the host that wrote this file.

        Afterwards, each host with this identity can collect the runs of all of these hosts.

        Raises:
            UsageError: the file is not the file of a lab, or this host already has devices.
        """
        from edgebench.host.devices.lab_file import join_lab

        return join_lab(self._host.files, Path(path), replaces=replaces)

    def deploy(self, target: str, say: OnStep | None = None, **settings: Any) -> DeployReport:
        """Install an agent over SSH or adb, and pair with it.

        Args:
            target: Account or phone, as for `edgebench deploy`.
            say: Called with each step.
            settings: Fields of `DeployRequest`.
        """
        from edgebench.host.devices.deploy import deploy, deploy_request

        request = deploy_request(target, **settings)
        report = deploy(self._host.files, request, say, on_paired=self._take_over)
        self._host.health.deployed(report.device)
        return report

    def undeploy(self, target: str, say: OnStep | None = None, **settings: Any) -> UninstallReport:
        """Remove a deployed agent with all its data, and forget the device."""
        from edgebench.host.devices.deploy import deploy_request, undeploy

        return undeploy(self._host.files, deploy_request(target, **settings), say)

    def connect(self, device: str = LOCAL_NAME, *, any_environment: bool = False) -> Client:
        """Open a connection to a device.

        Args:
            device: Name of the device.
            any_environment: Whether the agent on this machine may run in another Python environment
                than this process, if nothing is measured.
        """
        known = named(self._host.files.devices(), device)
        return self._host.connect(known, any_environment=any_environment)

    def bench(
        self,
        *models: str | Path,
        watcher: Notify | None = None,
        **options: Unpack[BenchOptions],
    ) -> list[StoredRun]:
        """Measure models on devices; without models, the built-in models.

        Args:
            *models: Paths, or names of built-in models.
            watcher: Called with every event; without a watcher, failures are raised.
            **options: Devices and settings of the measurement: on, duration_s, threads, meter, …

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
        watcher: Notify | None = None,
        **options: Unpack[BenchOptions],
    ) -> tuple[list[RunComparison], list[StoredRun]]:
        """Measure two models in pairs, in random order within each pair, and compare them.

        Args:
            baseline: Path, name of a built-in model, or stored runs such as the id of a set: the
                file that they measured is found by its SHA-256 and measured again.
            candidate: As the baseline.
            pairs: Runs of each model; with fewer than 6, no difference can be significant.
            margin_ratio: Smallest relevant change; None: 1 %.
            metrics: Metrics to compare, such as `latency_ns.p50` or `energy_j`.
            allowed: Keys in which the sides may differ; see `comparability.KEYS`.
            watcher: As for `bench`.
            **options: As for `bench`; the models are compared separately on each device.

        Raises:
            Interrupted: the user pressed Ctrl-C.
            EdgebenchError: a measurement failed, and there is no watcher.
        """
        before, after = find_sides(self.store, str(baseline), str(candidate))
        against = ComparisonRequest(
            candidate=after,
            pair_count=pairs,
            metrics=tuple(_listed(metrics or ())),
            margin_ratio=margin_ratio,
            allowed=tuple(_listed(allowed)),
        )
        runs = self.measure(new_request([before.path], against=against, **options), watcher)
        return compare_measured(against, [run.result for run in runs]), runs

    def measure(
        self,
        request: BenchRequest,
        watcher: Notify | None = None,
        cancellation: Cancellation | None = None,
    ) -> list[StoredRun]:
        """Make the runs of a request; return the runs that did not fail.

        Args:
            request: The models, the devices and the settings.
            watcher: Called with every event; without a watcher, failures are raised.
            cancellation: Stops the measurement from another thread, as Ctrl-C does in the main
                thread.

        Raises:
            Interrupted: the user pressed Ctrl-C, or the command was cancelled.
            EdgebenchError: a measurement failed, and there is no watcher.
        """
        self._check_not_sent()
        runs = self._host.measure(
            request, watcher or raise_failures, cancellation or Cancellation()
        )
        return self._stored(runs)

    def _stored(self, runs: Sequence[Run]) -> list[StoredRun]:
        return [StoredRun(self.store, run.run_id) for run in runs]

    def plan_campaign(
        self,
        file: str | Path,
        watcher: Notify | None = None,
        cluster: str | ClusterAddress | None = None,
    ) -> CampaignPlan:
        """Plan a campaign file with the current devices; no run is made.

        Args:
            file: The campaign file.
            watcher: Receives an event for each device that is left out because of its quarantine.
            cluster: Scheduler, such as "tcp://server:8786", of the lab hosts that offer the
                devices; None: the devices are paired with this host.

        Raises:
            UsageError: the file, or a model or setting in it, is invalid.
            NoSuchDevice: the file names a device that is not paired.
            DeviceNotOffered: the file names a device that no lab host offers.
            LabHostsUnreachable: the scheduler does not respond, or no lab host is connected.
        """
        offered = None
        if cluster is not None:
            from edgebench.host.campaign.cluster.lanes import offered_devices

            offered = offered_devices(_address(cluster))
        return plan_campaign(self._host, Path(file), watcher or raise_failures, offered)

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
            cluster: Scheduler, such as "tcp://server:8786".
            on: Devices to offer, as for `bench`; this machine itself is not offered.
            name: Name of this lab host; None: this machine's name.
            host: Address at which the scheduler reaches this machine; None: determined by Dask.
            on_connected: Called each time the scheduler accepts this lab host, with its name and
                the names of its devices.
            on_away: Called with the reason if the scheduler is away, or rejects this lab host;
                further attempts follow.

        Raises:
            UsageError: the address is malformed, or Dask is not installed.
            NoSuchDevice: a word selects no device, or no paired device is selected.
        """
        from edgebench.host.campaign.cluster.lab import work_for

        self._check_not_sent()
        work_for(
            self._host,
            _address(cluster),
            words=_listed(on),
            name=name or socket.gethostname(),
            address=host,
            on_connected=on_connected,
            on_away=on_away,
        )

    def begin_campaign(
        self,
        file: str | Path,
        watcher: Notify | None = None,
        cluster: str | ClusterAddress | None = None,
    ) -> Campaign:
        """Write the plan of a campaign to the store; `resume_campaign` makes its runs.

        Args:
            file: As for `plan_campaign`.
            watcher: As for `plan_campaign`.
            cluster: As for `plan_campaign`.

        Raises:
            UsageError: the file, or a model or setting in it, is invalid.
            NoSuchDevice: the file names a device that is not paired.
            MeterNotServed: the agent of a device does not serve the meter.
            StoreError: the store cannot be written.
        """
        self._check_not_sent()
        plan = self.plan_campaign(file, watcher, cluster)
        if cluster is None:
            refuse_unserved(plan, CellRequests(plan), self._host)
        begin_journal(self.store, plan)
        return self.campaign(plan.id)

    def resume_campaign(
        self,
        name: str = "last",
        watcher: Notify | None = None,
        cancellation: Cancellation | None = None,
        cluster: str | ClusterAddress | None = None,
        store_url: str | None = None,
    ) -> Campaign:
        """Fetch a campaign's finished runs from its devices, and make the runs that are left.

        Args:
            name: Id or name of the campaign, or `last`.
            watcher: Called with every event.
            cancellation: Stops the campaign from another thread; it can be resumed.
            cluster: As for `plan_campaign`.
            store_url: fsspec URL through which lab hosts transfer finished runs, such as
                "s3://bucket/runs"; None: through the scheduler.

        Raises:
            Interrupted: the user pressed Ctrl-C, or the command was cancelled.
            NoSuchCampaign: the store has no such campaign.
            CampaignRunning: another process is running the campaign.
            FileChanged: a model changed since the campaign was planned.
            LabHostsUnreachable: the scheduler does not respond.
        """
        campaign, notify = self.campaign(name), watcher or ignore_events
        parallel, lanes = self._host.farm().parallel, paired_lanes(self._host)
        with publish_status(self.store, "campaign", notify, campaign.plan.id) as publisher:
            if cluster is not None:
                from edgebench.host.campaign.cluster.lanes import cluster_lanes

                lanes = cluster_lanes(
                    _address(cluster), campaign.journal, self.store, publisher, store_url
                )
                parallel = MAX_PARALLEL_LANES
            make_runs(
                campaign.journal,
                self.store,
                lanes,
                notify=publisher,
                cancellation=cancellation or Cancellation(),
                parallel=parallel,
            )
        return campaign

    def campaign(self, name: str = "last") -> Campaign:
        """A campaign in this store, by id or name.

        Raises:
            NoSuchCampaign: the store has no such campaign.
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
            on_ready: Called with the page's address once the server is listening.
            host: Address to listen on; any address other than loopback needs a token.
            port: Port to listen on; 0: any free port.
            token: Token that every request needs; None: no token on loopback, else a new token.

        Raises:
            UsageError: the extra `serve` is not installed, the token is too short, or the address
                cannot be listened on.
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
        """Store what earlier commands left on devices; a run in progress is followed to its end.

        Args:
            on: Devices, as for `bench`.
            is_waiting: Whether to follow runs in progress; if not, their devices are skipped.
            watcher: Called with every event; without a watcher, failures are raised.
            cancellation: Stops the collection and the runs that it follows, from another thread.

        Returns:
            The runs, including runs that failed on their device (`result.failure`).

        Raises:
            Interrupted: the user pressed Ctrl-C, or the command was cancelled.
            LeaseHeld: another client is measuring on the only device.
            EdgebenchError: the only device cannot be reached, or the store cannot be written.
        """
        self._check_not_sent()
        notify = watcher or raise_failures
        cancelled = cancellation or Cancellation()
        runs = self._host.collect(_listed(on), notify, cancelled, is_waiting=is_waiting)
        return self._stored(runs)

    def analyse_set_aside(self, watcher: Notify | None = None) -> list[StoredRun]:
        """Analyse again the runs that were set aside, for example after an upgrade.

        Args:
            watcher: Receives events for runs that are stored now, and for runs that stay set aside.

        Returns:
            The runs that are stored now, including runs that failed on their device.

        Raises:
            StoreError: the store cannot be read or written.
        """
        return self._stored(self._host.analyse_set_aside(watcher or raise_failures))

    def compare(
        self,
        baseline: str | Path | Sequence[str | Path],
        candidate: str | Path | Sequence[str | Path] | None = None,
        *,
        metrics: str | Sequence[str] | None = None,
        margin_ratio: float | None = None,
        allowed: str | Sequence[str] = (),
    ) -> list[RunComparison]:
        """Compare stored runs, selected as for `runs`; one result per metric.

        Args:
            baseline: The runs of one side; without a candidate, runs that `bench_against` made,
                named by the id of their comparison: `pairs-1f2e3d4c`.
            candidate: The runs of the other side.
            metrics: As for `bench_against`.
            margin_ratio: As for `bench_against`.
            allowed: As for `bench_against`.

        Raises:
            UsageError: no such run or metric, or the runs differ in more than the model.
            MeasurementError: a run is invalid; for pairs, all pairs have an invalid run.
        """
        return compare_stored(
            self.store,
            _listed(baseline),
            None if candidate is None else _listed(candidate),
            metrics=None if metrics is None else _listed(metrics),
            margin_ratio=margin_ratio,
            allowed=_listed(allowed),
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
            output: File to write; None: a file in the current directory, named after the first run.
            allowed: Keys in which compared runs may differ; see `comparability.KEYS`.
            is_anonymous: Leave out names of devices, hosts and users, paths and addresses.

        Returns:
            Path of the file.

        Raises:
            NoSuchRun: a name matches neither a run nor a campaign.
            UsageError: the file exists and is not a report, or a key is unknown.
            RunDamaged: traces of a run are damaged; the file is written without them.
            StoreError: a run cannot be read, or the file cannot be written.
        """
        from edgebench.host.report.page import write_campaign_report, write_run_report

        path = None if output is None else Path(output)
        if len(names) == 1 and names[0] != LAST:  # `last` is a run
            with suppress(NoSuchCampaign):
                facts = self.campaign(names[0]).report_facts()
                return write_campaign_report(facts, path, is_anonymous=is_anonymous)
        return write_run_report(self.store, names, path, allowed=allowed, is_anonymous=is_anonymous)


def _listed(names: str | Path | Sequence[str | Path]) -> list[str]:
    """Names as a list of strings; a single name becomes a list with one item."""
    return [str(one) for one in ([names] if isinstance(names, (str, Path)) else names)]


def _address(cluster: str | ClusterAddress) -> ClusterAddress:
    from edgebench.host.campaign.cluster.address import ClusterAddress

    return cluster if isinstance(cluster, ClusterAddress) else ClusterAddress(cluster)
