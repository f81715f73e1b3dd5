"""The Python interface: the store and the devices, with the verbs of the command line."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing, nullcontext, suppress
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from edgebench.host.analysis.compare.comparability import check_keys
from edgebench.host.analysis.compare.runs import (
    Compared,
    Document,
    check_metrics,
    compare_groups,
    split_sides,
)
from edgebench.host.bench.builtin import builtin_models, find_model
from edgebench.host.bench.collect import collect_waiting
from edgebench.host.bench.dataset import Dataset, open_dataset
from edgebench.host.bench.plan import Plan, run_plan
from edgebench.host.bench.references import find_references, with_references_first
from edgebench.host.bench.watcher import Watcher
from edgebench.host.client import Client
from edgebench.host.devices.discovery import DiscoveredDevice, find_devices, open_device
from edgebench.host.devices.files import LOCAL_NAME, HostFiles, KnownDevice
from edgebench.host.power.metering import Metering, open_metering
from edgebench.host.store import index
from edgebench.host.store.layout import QUERIES_FILE, TELEMETRY_FILE, Store
from edgebench.protocol.errors import EdgebenchError, MeasurementError, UsageError
from edgebench.protocol.spec import DEFAULT_PRESET, Limits, Scenario, from_preset

if TYPE_CHECKING:
    import pandas as pd

    from edgebench.host.devices.deploy import DeployReport
    from edgebench.host.devices.install import OnStep
    from edgebench.host.devices.on_device import UninstallReport

DEFAULT_PAIRS = 10


class Run:
    """A stored run."""

    def __init__(self, store: Store, run_id: str) -> None:
        self._store = store
        self.id = run_id

    def __repr__(self) -> str:
        return f"<Run {self.id}: {self.verdict}>"

    @cached_property
    def document(self) -> dict[str, Any]:
        """The run.json."""
        return self._store.document(self.id)

    @property
    def metrics(self) -> dict[str, Any]:
        """The computed numbers."""
        metrics: dict[str, Any] = self.document["metrics"]
        return metrics

    @property
    def verdict(self) -> str:
        """valid, suspect or invalid."""
        return str(self.document["verdict"]["state"])

    @cached_property
    def queries(self) -> pd.DataFrame:
        """One row an inference, the warm-up included; `latency_ns` is the invocation alone."""
        frame = self._frame(QUERIES_FILE)
        frame["latency_ns"] = frame["invoke_end_ns"] - frame["invoke_start_ns"]
        frame["end_to_end_ns"] = frame["end_ns"] - frame["scheduled_ns"]
        return frame

    @cached_property
    def telemetry(self) -> pd.DataFrame:
        """Sensor readings: time_ns, sensor, value."""
        return self._frame(TELEMETRY_FILE)

    def _frame(self, name: str) -> pd.DataFrame:
        from edgebench.host.store.files import read_table

        frame: pd.DataFrame = read_table(self._store.directory(self.id) / name).to_pandas()
        return frame


class Lab:
    """A result store and the devices that this host knows."""

    def __init__(
        self,
        store: str | Path | None = None,
        *,
        config: Path | None = None,
        agent_state: Path | None = None,
    ) -> None:
        self.store = Store(Path(store) if store is not None else None)
        self._files = HostFiles(config)
        self._agent_state = agent_state

    def runs(self) -> pd.DataFrame:
        """Every stored run, one row each, oldest first."""
        import pandas as pd

        rows = index.list_runs(self.store)
        columns = list(index.Row.__dataclass_fields__)
        return pd.DataFrame([asdict(row) for row in rows], columns=columns)

    def run(self, name: str = "last") -> Run:
        """One stored run, by id or a unique part of it.

        Raises:
            UsageError: no such run.
        """
        return Run(self.store, self.store.resolve(name))

    def devices(self, timeout_s: float = 3.0) -> list[DiscoveredDevice]:
        """This machine, the paired devices and the ones on the network."""
        return find_devices(self._files, timeout_s=timeout_s, state=self._agent_state)

    def pair(self, text: str) -> KnownDevice:
        """Pair with the agent that printed this string."""
        from edgebench.host.devices.pairing import pair

        return pair(self._files, text)

    def deploy(self, target: str, say: OnStep | None = None, **settings: Any) -> DeployReport:
        """Install an agent over SSH, and pair with it; `settings` are those of `DeployRequest`."""
        from edgebench.host.devices.deploy import deploy, deploy_request

        return deploy(self._files, deploy_request(target, **settings), say)

    def undeploy(self, target: str, say: OnStep | None = None, **settings: Any) -> UninstallReport:
        """Remove a deployed agent with all that it keeps, and forget the device."""
        from edgebench.host.devices.deploy import deploy_request, undeploy

        return undeploy(self._files, deploy_request(target, **settings), say)

    def connect(self, device: str = LOCAL_NAME) -> Client:
        """Open a connection to a device."""
        return open_device(self._files, device, state=self._agent_state)

    def bench(
        self,
        *models: str | Path,
        on: Sequence[str] = (LOCAL_NAME,),
        runtime: str | None = None,
        preset: str = DEFAULT_PRESET,
        limits: Limits | None = None,
        accuracy: str | None = None,
        reference: str | Path | None = None,
        meter: str | None = None,
        sync: str | None = None,
        battery_capacity_j: float | None = None,
        idle_duration_s: float | None = None,
        ambient_c: float | None = None,
        watcher: Watcher | None = None,
        **settings: Any,
    ) -> list[Run]:
        """Measure models on devices, one after another; the built-in models when none is named.

        Args:
            *models: Paths, or names of built-in models.
            on: Names of devices.
            runtime: Name of a runtime, "all", or None for the preferred one of each format.
            preset: Where the settings start from.
            limits: Bounds on the worker.
            accuracy: A labelled data set, a .npz file or "digits", that every model answers.
            reference: The unquantised model whose accuracy the others are held against; the
                built-in models have theirs.
            meter: Energy meter that records beside each run, on this machine, or, as
                `agent:NAME`, one that the device's agent serves.
            sync: How its clock is laid over the device's; None: the best way that there is.
            battery_capacity_j: Of a charge, for an estimate of how long it lasts.
            idle_duration_s: Before and after each run; None: as the meter needs it.
            ambient_c: Temperature of the air around the devices; kept with the runs.
            watcher: Hears of every step; a failure is raised when there is none.
            **settings: Fields of `RunSpec`: duration_s, min_query_count, threads, delegate, …

        Raises:
            Interrupted: the user pressed Ctrl-C.
            EdgebenchError: a measurement failed, and nobody watches.
        """
        opened = [find_model(str(name)) for name in models] or builtin_models()
        if reference is not None and not accuracy:
            raise UsageError("a reference model needs a data set that both answer: --accuracy")
        dataset = open_dataset(accuracy) if accuracy else None
        references = find_references(opened, reference) if dataset else {}
        plan = Plan(
            models=with_references_first(opened, references),
            runtime=runtime,
            preset=preset,
            settings=_settings(preset, settings, limits, dataset),
            ambient_c=_ambient(ambient_c),
            dataset=dataset,
            references=references,
        )
        wanted = _Metered(meter, sync, battery_capacity_j, idle_duration_s)
        return self._run(wanted.with_meter(plan, on), on, watcher or Watcher())

    def bench_against(
        self,
        baseline: str | Path,
        candidate: str | Path,
        *,
        pairs: int = DEFAULT_PAIRS,
        margin_ratio: float | None = None,
        metrics: Sequence[str] | None = None,
        allowed: Sequence[str] = (),
        on: Sequence[str] = (LOCAL_NAME,),
        runtime: str | None = None,
        preset: str = DEFAULT_PRESET,
        limits: Limits | None = None,
        meter: str | None = None,
        sync: str | None = None,
        battery_capacity_j: float | None = None,
        idle_duration_s: float | None = None,
        ambient_c: float | None = None,
        watcher: Watcher | None = None,
        **settings: Any,
    ) -> tuple[list[Compared], list[Run]]:
        """Measure two models in pairs, in random order within each pair, and compare them.

        Args:
            baseline: Path, or name of a built-in model.
            candidate: The same.
            pairs: Runs of each; below 6 no difference can be significant.
            margin_ratio: Changes smaller than this do not matter; None: 1 %.
            metrics: Numbers to compare, as `latency_ns.p50` or `energy_j`.
            allowed: Keys in which the sides may differ; see `comparability.KEYS`.
            on: Names of devices; each is compared on its own.
            runtime: As for `bench`.
            preset: As for `bench`.
            limits: As for `bench`.
            meter: As for `bench`.
            sync: As for `bench`.
            battery_capacity_j: As for `bench`.
            idle_duration_s: As for `bench`.
            ambient_c: As for `bench`.
            watcher: As for `bench`.
            **settings: Fields of `RunSpec`.

        Raises:
            Interrupted: the user pressed Ctrl-C.
            EdgebenchError: a measurement failed, and nobody watches.
        """
        if pairs < 1:
            raise UsageError(f"pairs must be >= 1, got {pairs}")
        check_keys(allowed)  # before twenty runs are made for nothing
        check_metrics(
            metrics or (),
            is_metered=meter is not None,
            has_battery=battery_capacity_j is not None,
        )
        models = find_model(str(baseline)), find_model(str(candidate))
        plan = Plan(
            models=[models[0]],
            runtime=runtime,
            preset=preset,
            settings=_settings(preset, settings, limits, None),
            ambient_c=_ambient(ambient_c),
            against=models[1],
            pair_count=pairs,
            is_across_runtimes="runtime" in allowed,
        )
        wanted = _Metered(meter, sync, battery_capacity_j, idle_duration_s)
        runs = self._run(wanted.with_meter(plan, on), on, watcher or Watcher())
        sides = _sides(runs, metrics or ())
        found = compare_groups(sides, metrics=metrics, margin_ratio=margin_ratio, allowed=allowed)
        return found, runs

    def compare(
        self,
        baseline: Sequence[str],
        candidate: Sequence[str],
        *,
        metrics: Sequence[str] | None = None,
        margin_ratio: float | None = None,
        allowed: Sequence[str] = (),
    ) -> list[Compared]:
        """Compare stored runs, named by id or a unique part of it; one result a metric.

        Raises:
            UsageError: no such run or metric, or the runs differ in more than the model.
            MeasurementError: a run is invalid.
        """
        sides = [[self.run(name).document for name in names] for names in (baseline, candidate)]
        return compare_groups(
            [(sides[0], sides[1])], metrics=metrics, margin_ratio=margin_ratio, allowed=allowed
        )

    def _run(self, plan: Plan, on: Sequence[str], watcher: Watcher) -> list[Run]:
        documents: list[dict[str, Any]] = []
        with closing(plan.metering) if plan.metering else nullcontext():
            for device in on:
                documents += self._run_on(device, plan, watcher)
        return [Run(self.store, document["run_id"]) for document in documents]

    def _run_on(self, device: str, plan: Plan, watcher: Watcher) -> list[dict[str, Any]]:
        with self.connect(device) as client:
            # The lease first: another process of ours may be fetching its run just now.
            client.acquire()
            for document in collect_waiting(client, self.store, watcher.doubted):
                watcher.collected(document)
            try:
                return run_plan(client, self.store, plan, watcher)
            finally:
                with suppress(EdgebenchError):  # the lease of a lost link expires
                    client.release()


@dataclass(frozen=True, slots=True)
class _Metered:
    """What the user asked for of a meter."""

    name: str | None
    sync: str | None
    battery_capacity_j: float | None
    idle_duration_s: float | None

    def with_meter(self, plan: Plan, on: Sequence[str]) -> Plan:
        """The plan with the meter opened: last, as whoever has the plan must close it.

        Raises:
            UsageError: it cannot be used, or not for these devices.
        """
        metering = open_metering(
            self.name,
            on,
            sync=self.sync,
            battery_capacity_j=self.battery_capacity_j,
            idle_duration_s=self.idle_duration_s,
        )
        if metering is None:
            return plan
        try:
            return replace(plan, settings=_metered_settings(plan, metering), metering=metering)
        except BaseException:  # settings that no run takes: the meter is let go of
            metering.close()
            raise


def _metered_settings(plan: Plan, metering: Metering) -> dict[str, Any]:
    """With what the meter needs; how long arrivals are waited for is not its to say."""
    settings = plan.settings | metering.settings()
    spec = from_preset(plan.preset, runtime="?", **settings)
    if settings.get("duration_s") is None and spec.scenario is not Scenario.SERVER:
        settings["duration_s"] = metering.loop_s(spec.duration_s)
    return settings


def _sides(
    runs: Sequence[Run], metrics: Sequence[str]
) -> list[tuple[list[Document], list[Document]]]:
    """Documents of baseline and candidate, by comparison.

    Raises:
        MeasurementError: a comparison has no pair of valid runs.
    """
    groups: dict[str, list[Document]] = {}
    for run in runs:
        groups.setdefault(run.document["pair"]["comparison_id"], []).append(run.document)
    sides = [split_sides(documents, metrics) for documents in groups.values()]
    if not all(baseline for baseline, _ in sides) or not sides:
        raise MeasurementError("no pair of valid runs is left to compare")
    return sides


def _settings(
    preset: str, settings: dict[str, Any], limits: Limits | None, dataset: Dataset | None
) -> dict[str, Any]:
    """Fields of `RunSpec`, checked before the first connection.

    Raises:
        UsageError: there is no such field, or a value is out of bounds.
    """
    found = settings | {"limits": limits}
    if dataset:
        found |= {"dataset_sha256": dataset.sha256}
    from_preset(preset, runtime="?", **found)
    return found


def _ambient(ambient_c: float | None) -> float | None:
    if ambient_c is not None and not -60 <= ambient_c <= 90:
        raise UsageError(f"ambient temperature must be -60 to 90 °C, got {ambient_c:g}")
    return ambient_c
