"""The whole request of the user: made once, checked once, and passed on."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, cast

from edgebench.host.analysis.compare.comparability import check_keys
from edgebench.host.analysis.compare.comparison import ALPHA
from edgebench.host.analysis.compare.runs import check_metrics
from edgebench.host.analysis.median import MIN_RUNS
from edgebench.host.analysis.verdict.machine import MIN_JUDGED_S
from edgebench.host.bench.builtin import builtin_models, find_model
from edgebench.host.bench.dataset import Dataset, open_dataset
from edgebench.host.bench.inputs import InputFile, open_inputs
from edgebench.host.bench.lease import check_wait
from edgebench.host.bench.model import Model, model_on_device
from edgebench.host.bench.references import find_references, with_references_first
from edgebench.host.devices.names import LOCAL_NAME
from edgebench.host.power.metering import (
    FARM_METER,
    OtherInstrument,
    check_wiring,
    new_energy_request,
    other_instrument,
)
from edgebench.host.result.facts import EnergyRequest
from edgebench.protocol.device import SystemDescription
from edgebench.protocol.errors import OwnModelOnly, RunsTooShort, UsageError, unknown_name
from edgebench.protocol.spec import (
    DEFAULT_PRESET,
    MAX_SUSTAINED_QUERIES,
    MLPERF_PRESET,
    Engine,
    Limits,
    RunSpec,
    SpecChanges,
    from_preset,
    is_divided,
    with_duration,
)

if TYPE_CHECKING:
    from typing_extensions import Unpack

MIN_PAIRS = 6
"""Fewest pairs with which any result can be significant: 2 / 2**6 is below 0.05, 2 / 2**5 is not.

Source: the smallest two-sided p value of Wilcoxon's signed-rank test.
"""
DEFAULT_PAIRS = 10
DEFAULT_RUN_COUNT = MIN_RUNS
MAX_RUN_COUNT = 1000
MIN_AMBIENT_C, MAX_AMBIENT_C = -60, 90
_ONLY_LATENCIES = "--against compares latencies; measure accuracy and profile on their own"


def needed_pair_count(comparison_count: int) -> int:
    """Fewest pairs with which a result can be significant among so many comparisons made together.

    Holm multiplies the smallest of their p values by their number.

    >>> needed_pair_count(1), needed_pair_count(2), needed_pair_count(12)
    (6, 7, 9)
    """
    too_large = comparison_count * 2 / 2**MIN_PAIRS / ALPHA
    return MIN_PAIRS + math.ceil(math.log2(max(1.0, too_large)))


@dataclass(frozen=True, slots=True, kw_only=True)
class AccuracyRequest:
    """A labelled data set that every model answers."""

    dataset: Dataset
    references: Mapping[Model, Model]
    """Unquantised sibling of each model that has one."""
    added: tuple[Model, ...] = ()
    """References that the user did not name as models, and that are measured too."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparisonRequest:
    """A candidate that the only model is compared with, in pairs of runs."""

    candidate: Model
    pair_count: int = DEFAULT_PAIRS
    """Runs of each; below 6 no difference can be significant."""
    metrics: tuple[str, ...] = ()
    """Metrics to compare; empty: what the scenario is about."""
    margin_ratio: float | None = None
    """Changes smaller than this do not matter; None: 1 %."""
    allowed: tuple[str, ...] = ()
    """Keys in which the sides may differ."""

    @property
    def is_across_runtimes(self) -> bool:
        """Whether baseline and candidate may run on different runtimes."""
        return "runtime" in self.allowed


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchRequest:
    """Models on devices, and how they are measured."""

    models: tuple[Model, ...]
    """In the order of their runs: references before those that are held against them."""
    has_named_models: bool = True
    """Whether the user named the models; else they are the built-in ones, or that of a device."""
    devices: tuple[str, ...] = (LOCAL_NAME,)
    """Names of devices, or words that choose them; see `devices.selection`."""
    runtime: str | None = None
    """Name of a runtime, "all", or None for the preferred one of each format."""
    spec: RunSpec = field(default_factory=lambda: from_preset(DEFAULT_PRESET))
    """Specification of every run, but for its runtime and what a meter needs."""
    run_count: int = 1
    """Runs of each model, which make a set; `spec` is that of one of them."""
    is_duration_fixed: bool = False
    """The user chose the duration, and no meter makes it longer."""
    ambient_c: float | None = None
    """Temperature of the air around the devices."""
    energy: EnergyRequest | None = None
    instrument: OtherInstrument | None = None
    """Instrument that edgebench does not drive, for which the load code is played."""
    inputs: InputFile | None = None
    """Inputs that every model runs on; None: they are drawn by the seed."""
    accuracy: AccuracyRequest | None = None
    against: ComparisonRequest | None = None
    wait_s: float = 0.0
    """Longest wait for a device on which another command measures; 0: none."""

    def __post_init__(self) -> None:
        check_wait(self.wait_s)
        if isinstance(self.devices, str):
            raise UsageError(f"devices must be a list of names, got {self.devices!r}")
        ambient_c = self.ambient_c
        if ambient_c is not None and not MIN_AMBIENT_C <= ambient_c <= MAX_AMBIENT_C:
            raise UsageError(
                f"ambient temperature must be {MIN_AMBIENT_C} to {MAX_AMBIENT_C} °C, "
                f"got {ambient_c:g}"
            )
        if self.against is not None:
            self._check_comparison(self.against)

    def on_device(self, device: str, wired: str | None) -> BenchRequest:
        """The request for one of the devices.

        Args:
            device: Name of the device.
            wired: Meter that the farm file says is wired to it; None: none.

        Raises:
            UsageError: the farm's meter is asked for, and cannot be used there.
        """
        energy = self.energy
        if energy is not None and energy.meter == FARM_METER:
            energy = replace(energy, meter=wired) if wired is not None else None
            if energy is not None:
                check_wiring(energy.meter, (device,))
        return replace(self, devices=(device,), energy=energy)

    def on_system(self, system: SystemDescription) -> BenchRequest:
        """The request for one device, which may have a model in its firmware, and take no other.

        Of the built-in models it gets those that it can run.

        Raises:
            OwnModelOnly: other models are asked for, or inputs or outputs that nobody knows.
            UsageError: the model in its firmware is asked for, and there is none.
        """
        name = system.own_model
        device = self.devices[0]  # as `--on` takes it; the board's own name is only a part of that
        if name is None and any(model.is_on_device for model in self.models):
            raise UsageError(f"{device} has no model in its firmware")
        formats = {one for report in system.runtimes if report.is_target for one in report.formats}
        if name is None and formats and not self.has_named_models:
            # Microcontrollers run quantised models only.
            quantised = builtin_models(precision="int8")
            return replace(self, models=tuple(one for one in quantised if one.format in formats))
        if name is None or (system.takes_own_file and self.has_named_models):
            return self
        if self.has_named_models:
            raise OwnModelOnly(f"{device} takes no model: its firmware has {name}", device)
        if self.inputs is not None or self.accuracy is not None:
            raise OwnModelOnly(
                f"the model {name} is part of the firmware of {device}: its inputs are drawn by "
                "the seed",
                device,
            )
        return replace(self, models=(model_on_device(name),))

    def _check_comparison(self, against: ComparisonRequest) -> None:
        """Refuse a comparison that cannot be made, before twenty runs are made for nothing."""
        if len(self.models) != 1:
            raise UsageError(f"--against compares one model with another, got {len(self.models)}")
        if self.accuracy or self.spec.is_profiled:
            raise UsageError(_ONLY_LATENCIES)
        if not 1 <= against.pair_count <= MAX_RUN_COUNT:
            raise UsageError(f"pairs must be 1..{MAX_RUN_COUNT}, got {against.pair_count}")
        check_keys(against.allowed)
        check_metrics(
            against.metrics,
            is_metered=self.energy is not None,
            has_battery=self.energy is not None and self.energy.battery_capacity_j is not None,
        )


class BenchOptions(SpecChanges, total=False):
    """Settings of a measurement; what is left out or None is as the preset or the device has it.

    Most have an option of the command line, whose help is in `host/options/bench.py`.
    """

    on: str | Sequence[str]
    """Name of a device, "all", or conditions as "label:pi,arch:aarch64"; or a list of these."""
    wait_s: float | None
    """Longest wait for a device on which another command measures; 0: none."""
    runtime: str | None
    """Name of a runtime, "all", or None for the preferred one of each format."""
    load_timeout_s: float | None
    memory_limit_bytes: int | None
    """Limits on the worker, before those of `limits`."""
    inputs: str | Path | None
    """A .npz file of inputs by their names, first axis: samples; None: drawn by the seed."""
    sustained_s: float | None
    """Duration of a run that measures sustained performance."""
    runs: int | None
    """Runs of each model, among which duration and queries are divided; None: 5, or 1 where the
    request is about one run. `StoredSet` has what they show together."""
    preset: str | None
    """Where the settings start from."""
    accuracy: str | None
    """A labelled data set, a .npz file or "digits", that every model is judged by."""
    reference: str | Path | None
    """The unquantised model whose accuracy the others are compared with."""
    ambient_c: float | None
    meter: str | None
    """Energy meter of this machine, or, as `agent:NAME`, one that the device's agent serves."""
    sync: str | None
    """How its clock is aligned with the device's; None: the best way that there is."""
    trace_rate_hz: float | None
    """Samples a second of an instrument that edgebench does not drive."""
    idle_duration_s: float | None
    """Idle time before and after each run; None: as the meter needs it."""
    battery_capacity_j: float | None


def new_request(
    models: Sequence[str | Path],
    *,
    against: ComparisonRequest | None = None,
    **options: Unpack[BenchOptions],
) -> BenchRequest:
    """The request that these settings make; the built-in models when none is named.

    Duration and number of queries are those of all runs of a model together.

    Raises:
        UsageError: a file is not there, a value is out of bounds, or two of them contradict.
    """
    changes = _changes(options)
    accuracy, reference = options.get("accuracy"), options.get("reference")
    opened = [find_model(str(name)) for name in models] or builtin_models()
    if reference is not None and not accuracy:
        if against is not None:
            raise UsageError(_ONLY_LATENCIES)
        raise UsageError("a reference model needs a data set that both answer: --accuracy")
    on = options.get("on", (LOCAL_NAME,))
    devices = (on,) if isinstance(on, str) else tuple(on)
    asked = _accuracy_request(opened, accuracy, reference) if accuracy else None
    if asked is not None:
        opened = with_references_first(opened, asked.references)
        changes["dataset_sha256"] = asked.dataset.sha256
    own = None
    if (inputs := options.get("inputs")) is not None:
        own = open_inputs(Path(inputs), changes.get("input_shapes") or {})
        changes["inputs_sha256"] = own.sha256
        if changes.get("sample_count") is None:
            changes["sample_count"] = own.sample_count
    spec = from_preset(options.get("preset") or DEFAULT_PRESET, **changes)
    meter, sync = options.get("meter"), options.get("sync")
    idle_duration_s = options.get("idle_duration_s")
    instrument = other_instrument(
        meter, sync=sync, rate_hz=options.get("trace_rate_hz"), idle_duration_s=idle_duration_s
    )
    run_count = _run_count(
        options.get("runs"),
        spec,
        is_comparison=against is not None,
        is_for_trace=instrument is not None,
    )
    return BenchRequest(
        inputs=own,
        models=tuple(opened),
        has_named_models=bool(models) and not all(model.is_on_device for model in opened),
        devices=devices,
        runtime=options.get("runtime"),
        spec=_share(spec, run_count),
        run_count=run_count,
        is_duration_fixed=changes.get("duration_s") is not None,
        ambient_c=options.get("ambient_c"),
        energy=new_energy_request(
            meter,
            devices,
            sync=sync,
            battery_capacity_j=options.get("battery_capacity_j"),
            idle_duration_s=idle_duration_s,
        ),
        instrument=instrument,
        accuracy=asked,
        against=against,
        wait_s=options.get("wait_s") or 0.0,
    )


def _accuracy_request(
    models: Sequence[Model], dataset: str, reference: str | Path | None
) -> AccuracyRequest:
    """A data set for these models, with the references that they are compared with."""
    opened, references = open_dataset(dataset), find_references(models, reference)
    added = tuple(
        model
        for model in dict.fromkeys(references.values())
        if not any(map(model.is_same_as, models))
    )
    return AccuracyRequest(dataset=opened, references=references, added=added)


def _changes(options: BenchOptions) -> SpecChanges:
    """What the settings change of the preset's specification.

    Raises:
        UsageError: there is no such setting, or two of them contradict.
    """
    if unknown := options.keys() - BenchOptions.__annotations__.keys():
        raise unknown_name("setting", min(unknown), BenchOptions.__annotations__)
    names = SpecChanges.__annotations__
    of_spec = {name: value for name, value in options.items() if name in names}
    changes = cast("SpecChanges", of_spec)
    limits = options.get("limits") or Limits()
    if (memory_bytes := options.get("memory_limit_bytes")) is not None:
        limits = replace(limits, memory_bytes=memory_bytes)
    if (timeout_s := options.get("load_timeout_s")) is not None:
        limits = replace(limits, load_timeout_s=timeout_s)
    changes["limits"] = limits
    if (sustained_s := options.get("sustained_s")) is not None:
        if options.get("duration_s") is not None:
            raise UsageError("--sustained and --duration contradict each other")
        changes["duration_s"] = sustained_s
        changes["is_sustained"] = True
        changes["max_query_count"] = MAX_SUSTAINED_QUERIES
    return changes


def _run_count(
    wanted: int | None, spec: RunSpec, *, is_comparison: bool, is_for_trace: bool
) -> int:
    """Runs of each model: as many as wanted, else several, unless the specification is of one run.

    Raises:
        UsageError: out of bounds, or of a kind of which only one run is made.
    """
    only_one = {
        "--against makes pairs of runs: --pairs": is_comparison,
        "a sustained run is one run": spec.is_sustained,
        "a profile is one run": spec.is_profiled,
    }
    reason = next((reason for reason, is_so in only_one.items() if is_so), None)
    if wanted is None:
        # MLPerf's rules, LoadGen's verdict and a target latency are about one run of full length,
        # and so is the file of an instrument.
        is_judged_whole = (
            is_for_trace
            or spec.preset.startswith(MLPERF_PRESET)
            or spec.engine is Engine.LOADGEN
            or spec.target_latency_s is not None
        )
        return 1 if reason or is_judged_whole else DEFAULT_RUN_COUNT
    if not 1 <= wanted <= MAX_RUN_COUNT:
        raise UsageError(f"runs must be 1..{MAX_RUN_COUNT}, got {wanted}")
    if reason and wanted > 1:
        raise UsageError(f"{reason}, got --runs {wanted}")
    return wanted


def _share(spec: RunSpec, run_count: int) -> RunSpec:
    """The specification of one of several runs, which take the time of one together.

    Each run under MLPerf's preset keeps the length that MLPerf's rules ask for.

    Raises:
        RunsTooShort: the time of each is too short for the rules about the machine.
    """
    if run_count == 1 or not is_divided(spec):
        return spec
    duration_s = spec.duration_s / run_count
    run_limit = math.floor(spec.duration_s / MIN_JUDGED_S + 1e-9)  # 0.3 / 0.1 is below 3
    if run_count > run_limit:
        raise RunsTooShort(
            f"{run_count} runs share {spec.duration_s:g} s: each may end after {duration_s:.2g} s, "
            f"at least {MIN_JUDGED_S:g} s needed",
            enough_s=MIN_JUDGED_S * run_count,
            run_limit=max(1, run_limit),
        )
    return replace(
        with_duration(spec, duration_s),
        min_query_count=math.ceil(spec.min_query_count / run_count),
    )
