"""What to measure on a device, step by step, and the walk through it."""

from __future__ import annotations

import random
import secrets
from dataclasses import dataclass, field, replace
from typing import Any

from edgebench.host.analysis.measurement import Pair
from edgebench.host.bench.dataset import Dataset
from edgebench.host.bench.references import reference_accuracy
from edgebench.host.bench.run import Model, measure
from edgebench.host.bench.watcher import Place, Watcher
from edgebench.host.client import Client
from edgebench.host.power.metering import Metering
from edgebench.host.store.layout import Store
from edgebench.protocol.device import SystemDescription
from edgebench.protocol.errors import (
    MeasurementError,
    ModelRefused,
    RuntimeUnavailable,
    UsageError,
    WorkerDied,
    WorkerTimeout,
)
from edgebench.protocol.spec import RunSpec, from_preset

ALL_RUNTIMES = "all"
ONE_RUN_ONLY = (
    ModelRefused,
    WorkerDied,
    WorkerTimeout,
    MeasurementError,
)
"""Errors that end one run of several; any other ends them all."""
BASELINE, CANDIDATE = "baseline", "candidate"


@dataclass(frozen=True, slots=True)
class Step:
    """One run to make."""

    model: Model
    runtime: str
    pair: Pair | None = None


@dataclass(frozen=True, slots=True)
class Plan:
    """What to run on each device."""

    models: list[Model]
    runtime: str | None
    """Name of a runtime, "all", or None for the preferred one of each format."""
    preset: str
    settings: dict[str, Any]
    """Fields of `RunSpec`."""
    metering: Metering | None = None
    dataset: Dataset | None = None
    references: dict[Model, Model] = field(default_factory=dict[Model, Model])
    against: Model | None = None
    """A candidate that the only model is compared with."""
    pair_count: int = 0
    ambient_c: float | None = None
    is_across_runtimes: bool = False
    """Baseline and candidate may run on different runtimes."""

    def steps(self, system: SystemDescription) -> list[Step]:
        """The runs on this device, in order.

        Raises:
            UsageError: the wanted runtime does not exist, or does not load a model.
            RuntimeUnavailable: it is not usable there.
        """
        if self.against is None:
            return [
                Step(model, runtime)
                for model in self.models
                for runtime in runtimes_for(model, self.runtime, system)
            ]
        baseline, candidate = self.models[0], self.against
        before = runtimes_for(baseline, self.runtime, system)
        after = runtimes_for(candidate, self.runtime, system)
        shared = [(runtime, runtime) for runtime in before if runtime in after]
        if not shared and not self.is_across_runtimes:
            raise UsageError(
                f"no runtime loads both {baseline.name} and {candidate.name}; "
                "to compare them on different ones: --allow runtime"
            )
        sides = shared or [(before[0], after[0])]
        return [
            step
            for runtimes in sides
            for step in self._pairs(Step(baseline, runtimes[0]), Step(candidate, runtimes[1]))
        ]

    def spec(self, step: Step) -> RunSpec:
        """The specification of one of the runs.

        Of a comparison only the first pair is checked: the models do not change meanwhile, and
        reference kernels may take longer than a run.
        """
        made = from_preset(self.preset, runtime=step.runtime, **self.settings)
        is_repeated = step.pair is not None and step.pair.number > 0
        return replace(made, is_checked=False) if is_repeated else made

    def _pairs(self, baseline: Step, candidate: Step) -> list[Step]:
        """Baseline and candidate side by side, in random order, each first as often as the other.

        Whatever drifts over the campaign, as the temperature, hits both sides of a pair alike. The
        order is drawn from the comparison's id, which is kept with every run.
        """
        comparison_id = secrets.token_hex(4)
        chance = random.Random(comparison_id)
        is_swapped = [number % 2 == 1 for number in range(self.pair_count)]
        chance.shuffle(is_swapped)
        steps: list[Step] = []
        for number in range(self.pair_count):
            sides = [(BASELINE, baseline), (CANDIDATE, candidate)]
            if is_swapped[number]:
                sides.reverse()
            steps += [replace(step, pair=Pair(comparison_id, number, side)) for side, step in sides]
        return steps


def run_plan(client: Client, store: Store, plan: Plan, watcher: Watcher) -> list[dict[str, Any]]:
    """Make every run of a plan on one device; the documents of those that did not fail.

    Raises:
        Interrupted: the user pressed Ctrl-C.
        EdgebenchError: something that ends all runs, not only one.
    """
    steps = _steps_on(client, plan, watcher)
    documents: list[dict[str, Any]] = []
    for number, step in enumerate(steps, 1):
        model, runtime = step.model, step.runtime
        watcher.run(client.device.name, model, runtime, Place(number, len(steps)))
        spec = plan.spec(step)
        try:
            document = measure(
                client,
                store,
                model,
                spec,
                dataset=plan.dataset,
                reference=reference_accuracy(plan.references.get(model), runtime, documents),
                pair=step.pair,
                ambient_c=plan.ambient_c,
                metering=plan.metering,
                on_notice=watcher.notice,
                on_bytes=watcher.pushed,
            )
        except ONE_RUN_ONLY as exc:
            watcher.failed(model, runtime, exc)
        else:
            watcher.finished(document)
            documents.append(document)
    return documents


def _steps_on(client: Client, plan: Plan, watcher: Watcher) -> list[Step]:
    """The runs that this device is able to make, which is ours from now on."""
    client.acquire()
    system = client.describe()
    if plan.metering:
        plan.metering.require_served(system)
    for report in system.runtimes:
        if plan.runtime == ALL_RUNTIMES and not report.is_usable:
            watcher.absent(report)
    return plan.steps(system)


def runtimes_for(model: Model, wanted: str | None, system: SystemDescription) -> list[str]:
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
