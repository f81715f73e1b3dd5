"""The Python interface: the store and the devices, with the verbs of the command line."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from edgebench.host.builtin import builtin_models, find_model
from edgebench.host.client import Client
from edgebench.host.dataset import Dataset, open_dataset
from edgebench.host.devices.discovery import Found, find_devices, open_device
from edgebench.host.devices.files import LOCAL_NAME, HostFiles, KnownDevice
from edgebench.host.measure import Model, OpenMeter, collect_waiting, measure, open_meter
from edgebench.host.references import (
    find_references,
    reference_accuracy,
    with_references_first,
)
from edgebench.host.store import index
from edgebench.host.store.layout import QUERIES_FILE, TELEMETRY_FILE, Store
from edgebench.protocol.device import RuntimeReport, SystemDescription
from edgebench.protocol.errors import (
    EdgebenchError,
    MeasurementError,
    ModelRefused,
    RuntimeUnavailable,
    UsageError,
    WorkerDied,
    WorkerTimeout,
)
from edgebench.protocol.messages import Progress
from edgebench.protocol.spec import DEFAULT_PRESET, Limits, from_preset

if TYPE_CHECKING:
    import pandas as pd

    from edgebench.host.devices.deploy import Deployed, Removed, Say

ALL_RUNTIMES = "all"
ONE_RUN_ONLY = (
    ModelRefused,
    WorkerDied,
    WorkerTimeout,
    MeasurementError,
)
"""Errors that end one run of several; any other ends them all."""


@dataclass(frozen=True, slots=True)
class Place:
    """Which of a device's runs it is."""

    number: int
    """From 1."""
    count: int


class Watcher(Protocol):
    """Somebody who wants to see how a measurement goes."""

    def absent(self, report: RuntimeReport) -> None:
        """A runtime cannot be used on this device."""

    def run(self, device: str, model: Model, runtime: str, place: Place) -> None:
        """A run begins."""

    def progress(self, progress: Progress) -> None:
        """The run entered a phase."""

    def pushed(self, done: int, total: int) -> None:
        """So many bytes of the model are on the device."""

    def collected(self, document: dict[str, Any]) -> None:
        """A run that had finished earlier was fetched."""

    def doubted(self, run_id: str, error: EdgebenchError) -> None:
        """A run that had finished earlier cannot be stored; it stays on the device."""

    def finished(self, document: dict[str, Any]) -> None:
        """A run is stored."""

    def failed(self, model: Model, runtime: str, error: EdgebenchError) -> None:
        """A run failed; the next one follows."""


class Silent:
    """A watcher that does not look."""

    def absent(self, report: RuntimeReport) -> None:
        """Ignore it."""

    def run(self, device: str, model: Model, runtime: str, place: Place) -> None:
        """Ignore it."""

    def progress(self, progress: Progress) -> None:
        """Ignore it."""

    def pushed(self, done: int, total: int) -> None:
        """Ignore it."""

    def collected(self, document: dict[str, Any]) -> None:
        """Ignore it."""

    def doubted(self, run_id: str, error: EdgebenchError) -> None:
        """Ignore it: it is still there."""

    def finished(self, document: dict[str, Any]) -> None:
        """Ignore it."""

    def failed(self, model: Model, runtime: str, error: EdgebenchError) -> None:
        """Raise it: nobody else will hear of it."""
        raise error


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

    def devices(self, timeout_s: float = 3.0) -> list[Found]:
        """This machine, the paired devices and the ones on the network."""
        return find_devices(self._files, timeout_s=timeout_s, state=self._agent_state)

    def pair(self, text: str) -> KnownDevice:
        """Pair with the agent that printed this string."""
        from edgebench.host.devices.pairing import pair

        return pair(self._files, text)

    def deploy(self, target: str, say: Say | None = None, **settings: Any) -> Deployed:
        """Install an agent over SSH, and pair with it; `settings` are fields of `Order`."""
        from edgebench.host.devices.deploy import deploy, new_order

        return deploy(self._files, new_order(target, **settings), say)

    def undeploy(self, target: str, say: Say | None = None, **settings: Any) -> Removed:
        """Remove a deployed agent with all that it keeps, and forget the device."""
        from edgebench.host.devices.deploy import new_order, undeploy

        return undeploy(self._files, new_order(target, **settings), say)

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
            meter: Energy meter on this machine that records its power beside each run.
            watcher: Hears of every step; a failure is raised when there is none.
            **settings: Fields of `RunSpec`: duration_s, min_query_count, threads, delegate, …

        Raises:
            Interrupted: the user pressed Ctrl-C.
            EdgebenchError: a measurement failed, and nobody watches.
        """
        watcher = watcher or Silent()
        opened = [find_model(str(name)) for name in models] or builtin_models()
        # Find mistakes in the settings before the first connection.
        from_preset(preset, runtime="?", limits=limits, **settings)
        elsewhere = [device for device in on if device != LOCAL_NAME]
        if meter and elsewhere:
            raise UsageError(f"meter {meter} measures this machine, not {elsewhere[0]}")
        recorder = open_meter(meter) if meter else None
        if reference is not None and not accuracy:
            raise UsageError("a reference model needs a data set that both answer: --accuracy")
        dataset = open_dataset(accuracy) if accuracy else None
        references = find_references(opened, reference) if dataset else {}
        if dataset:
            settings |= {"dataset_sha256": dataset.sha256}
            opened = with_references_first(opened, references)
        documents: list[dict[str, Any]] = []
        for device in on:
            with self.connect(device) as client:
                # The lease first: another process of ours may be fetching its run just now.
                client.acquire()
                for document in collect_waiting(client, self.store, watcher.doubted):
                    watcher.collected(document)
                plan = _Plan(
                    opened,
                    runtime,
                    preset,
                    settings | {"limits": limits},
                    recorder,
                    dataset,
                    references,
                )
                try:
                    documents += self._bench_device(client, plan, watcher)
                finally:
                    with suppress(EdgebenchError):  # the lease of a lost link expires
                        client.release()
        return [Run(self.store, document["run_id"]) for document in documents]

    def _bench_device(self, client: Client, plan: _Plan, watcher: Watcher) -> list[dict[str, Any]]:
        client.acquire()
        system = client.describe()
        for report in system.runtimes:
            if plan.runtime == ALL_RUNTIMES and not report.is_usable:
                watcher.absent(report)
        pairs = [
            (model, runtime)
            for model in plan.models
            for runtime in _runtimes_for(model, plan.runtime, system)
        ]
        documents: list[dict[str, Any]] = []
        for number, (model, runtime) in enumerate(pairs, 1):
            watcher.run(client.device.name, model, runtime, Place(number, len(pairs)))
            spec = from_preset(plan.preset, runtime=runtime, **plan.settings)
            try:
                document = measure(
                    client,
                    self.store,
                    model,
                    spec,
                    dataset=plan.dataset,
                    reference=reference_accuracy(plan.references.get(model), runtime, documents),
                    meter=plan.meter,
                    on_progress=watcher.progress,
                    on_bytes=watcher.pushed,
                )
            except ONE_RUN_ONLY as exc:
                watcher.failed(model, runtime, exc)
            else:
                watcher.finished(document)
                documents.append(document)
        return documents


@dataclass(frozen=True, slots=True)
class _Plan:
    """What to run on each device."""

    models: list[Model]
    runtime: str | None
    preset: str
    settings: dict[str, Any]
    meter: OpenMeter | None
    dataset: Dataset | None
    references: dict[Model, Model]


def _runtimes_for(model: Model, wanted: str | None, system: SystemDescription) -> list[str]:
    """The runtimes that are to run this model on this device.

    Raises:
        UsageError: the wanted runtime does not exist, or does not load this format.
        RuntimeUnavailable: it is not usable there, or none is.
    """
    fitting = [report for report in system.runtimes if model.format in report.formats]
    if not fitting:
        raise UsageError(f"unknown model format, expected .tflite or .onnx: {model.path}")
    if wanted is None or wanted == ALL_RUNTIMES:
        usable = [report.name for report in fitting if report.is_usable]
        if not usable:
            reasons = "; ".join(f"{report.name}: {report.reason}" for report in fitting)
            raise RuntimeUnavailable(f"no runtime for .{model.format} files: {reasons}")
        return usable if wanted == ALL_RUNTIMES else usable[:1]
    found = next((report for report in system.runtimes if report.name == wanted), None)
    if found is None:
        names = ", ".join(report.name for report in system.runtimes)
        raise UsageError(f"unknown runtime {wanted!r}: there are {names}, {ALL_RUNTIMES}")
    if not found.is_usable:
        raise RuntimeUnavailable(f"runtime {wanted} is not usable: {found.reason}")
    if found not in fitting:
        raise UsageError(f"runtime {wanted} does not load .{model.format} files: {model.path}")
    return [wanted]
