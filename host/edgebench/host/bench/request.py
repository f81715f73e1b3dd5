"""Request for a measurement: models, devices and settings, checked when the request is built."""

from __future__ import annotations

import math
import secrets
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, cast

from edgebench.host.analysis.compare.comparability import check_keys
from edgebench.host.analysis.compare.runs import ComparisonOptions, check_metrics
from edgebench.host.analysis.extra_runs import DEFAULT_EXTRA_RUNS
from edgebench.host.analysis.verdict.machine import MIN_JUDGED_S
from edgebench.host.bench.builtin import builtin_models, find_model
from edgebench.host.bench.dataset import Dataset, open_dataset
from edgebench.host.bench.inputs import InputFile, open_inputs
from edgebench.host.bench.lease import check_wait
from edgebench.host.bench.model import Model, model_on_device
from edgebench.host.bench.references import find_references, with_references_first
from edgebench.host.devices.names import LOCAL_NAME
from edgebench.host.options.bench import HostOptions, words_of
from edgebench.host.power.metering import (
    FARM_METER,
    OtherInstrument,
    check_wiring,
    new_energy_request,
    other_instrument,
    with_set_supply,
)
from edgebench.host.result.facts import CommandFacts, EnergyRequest
from edgebench.protocol.device import SystemDescription
from edgebench.protocol.errors import (
    OwnModelOnly,
    RunsTooShort,
    UsageError,
    WrongMeterOption,
    unknown_name,
)
from edgebench.protocol.spec import (
    DEFAULT_PRESET,
    DEFAULT_RUN_COUNT,
    MAX_SUSTAINED_QUERIES,
    MLPERF_PRESET,
    Engine,
    Limits,
    RunSpec,
    SpecChanges,
    from_preset,
    is_divided,
    usual_run_count,
    with_duration,
)

if TYPE_CHECKING:
    from typing_extensions import Unpack

DEFAULT_PAIRS = 10
MAX_RUN_COUNT = 1000
MIN_AMBIENT_C, MAX_AMBIENT_C = -60, 90
_ONLY_LATENCIES = "--against compares latencies; measure accuracy and profile separately"


@dataclass(frozen=True, slots=True, kw_only=True)
class AccuracyRequest:
    """A labelled data set that every model is run on."""

    dataset: Dataset
    references: Mapping[Model, Model]
    """Maps each model to its unquantised reference."""
    added: tuple[Model, ...] = ()
    """References that are measured although the user did not name them as models."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparisonRequest:
    """A candidate to compare with the request's only model, in pairs of runs."""

    candidate: Model
    pair_count: int = DEFAULT_PAIRS
    """Number of pairs; with fewer than 6 pairs, no difference can be significant."""
    metrics: tuple[str, ...] = ()
    """Metrics to compare; if empty, the headline metric of the scenario."""
    margin_ratio: float | None = None
    """Changes smaller than this ratio count as equivalent; None selects 0.01."""
    allowed: tuple[str, ...] = ()
    """Keys of the fingerprint in which baseline and candidate may differ, such as `runtime`."""

    @property
    def is_across_runtimes(self) -> bool:
        """Whether baseline and candidate may run on different runtimes."""
        return "runtime" in self.allowed


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchRequest:
    """Models, devices, and settings of the measurement."""

    models: tuple[Model, ...]
    """Models in the order of their runs; references come before the models that are compared with
    them."""
    has_named_models: bool = True
    """Whether the user named the models; otherwise built-in models or a device's model are used."""
    devices: tuple[str, ...] = (LOCAL_NAME,)
    """Names of devices, or words that select them; see `devices.selection`."""
    runtime: str | None = None
    """Name of a runtime, "all", or None for the preferred runtime of each format."""
    spec: RunSpec = field(default_factory=lambda: from_preset(DEFAULT_PRESET))
    """Specification of every run; the runtime and the idle times for a meter are added later."""
    run_count: int = 1
    """Number of runs of each model, which form a set; `spec` describes a single run."""
    extra_run_count: int = 0
    """Maximum number of extra runs in each set; an extra run replaces a disturbed run."""
    is_duration_fixed: bool = False
    """Whether the user chose the duration; if so, it is not extended for a meter."""
    energy: EnergyRequest | None = None
    instrument: OtherInstrument | None = None
    """Power instrument that edgebench does not drive; the runs play a load code for its
    alignment."""
    inputs: InputFile | None = None
    """Inputs for every model; if None, the device draws random inputs from the seed."""
    accuracy: AccuracyRequest | None = None
    against: ComparisonRequest | None = None
    options: HostOptions = field(default_factory=HostOptions)
    """Options as the user gave them. Code reads an option from this field only if the option has
    not been converted into another field of the request."""
    command: CommandFacts | None = field(default=None, compare=False)
    """The command that makes the request; None in a campaign."""

    def __post_init__(self) -> None:
        check_wait(self.wait_s)
        if isinstance(self.devices, str):
            raise UsageError(f"devices must be a list of names, got {self.devices!r}")
        ambient_c = self.options.get("ambient_c")
        if ambient_c is not None and not MIN_AMBIENT_C <= ambient_c <= MAX_AMBIENT_C:
            raise UsageError(
                f"ambient temperature must be {MIN_AMBIENT_C} to {MAX_AMBIENT_C} °C, "
                f"got {ambient_c:g}"
            )
        if self.against is not None:
            # Check that the comparison is possible before any of its runs is made.
            against = self.against
            if len(self.models) != 1:
                raise UsageError(f"--against takes a single baseline model, got {len(self.models)}")
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

    @property
    def wait_s(self) -> float:
        """Longest wait for a device while another command is measuring on it; 0 means no wait."""
        return self.options.get("wait_s") or 0.0

    def on_device(self, device: str, wired: str | None) -> BenchRequest:
        """The request for a single device.

        Args:
            device: Name of the device.
            wired: Meter that is wired to the device according to the farm file; None without meter.

        Raises:
            UsageError: the farm's meter is requested, but cannot be used with this device, or
                cannot set the requested supply voltage.
        """
        energy = self.energy
        if energy is not None and energy.meter == FARM_METER:
            if wired is None and energy.supply_v is not None:
                raise WrongMeterOption(
                    f"no meter is wired to {device}, so nothing sets its supply to "
                    f"{energy.supply_v:g} V"
                )
            energy = replace(energy, meter=wired) if wired is not None else None
            if energy is not None:
                check_wiring(energy.meter, (device,))
                energy = with_set_supply(energy)
        return replace(self, devices=(device,), energy=energy)

    def on_system(self, system: SystemDescription) -> BenchRequest:
        """Adapt the request to a device, which may be able to run only the model in its firmware.

        If the user named no models, a microcontroller gets the built-in models that it can run.

        Raises:
            OwnModelOnly: the device runs only its own model, but other models, inputs or an
                accuracy are requested.
            UsageError: the model in the device's firmware is requested, but there is none.
        """
        name = system.own_model
        device = self.devices[0]  # the name for `--on`; the board's name is only a part of it
        if name is None and any(model.is_on_device for model in self.models):
            raise UsageError(f"{device} has no model in its firmware")
        formats = {
            suffix for report in system.runtimes if report.is_target for suffix in report.formats
        }
        if name is None and formats and not self.has_named_models:
            # Microcontrollers run only quantised models.
            quantised = builtin_models(precision="int8")
            return replace(
                self, models=tuple(model for model in quantised if model.format in formats)
            )
        if name is None or (system.takes_own_file and self.has_named_models):
            return self
        if self.has_named_models:
            raise OwnModelOnly(f"{device} accepts no model: its firmware contains {name}", device)
        if self.inputs is not None or self.accuracy is not None:
            raise OwnModelOnly(
                f"the model {name} is part of the firmware of {device}: its inputs cannot be "
                "chosen",
                device,
            )
        return replace(self, models=(model_on_device(name),))


class BenchOptions(SpecChanges, HostOptions, total=False):
    """Settings of a measurement; the preset or the device sets a value that is missing or None.

    Most settings correspond to options of the command line, whose help texts are in
    `host/options/bench.py`.
    """


class PairOptions(BenchOptions, ComparisonOptions, total=False):
    """Settings of a measurement in pairs, and of the comparison."""

    pairs: int | None
    """Number of pairs; with fewer than 6, no difference can be significant. None selects 10."""


def new_request(
    models: Sequence[str | Path],
    *,
    against: ComparisonRequest | None = None,
    **options: Unpack[BenchOptions],
) -> BenchRequest:
    """Build a request from settings; if `models` is empty, the built-in models are measured.

    Duration and number of queries apply to all runs of a model together.

    Raises:
        UsageError: a file is missing, a value is out of bounds, or settings contradict each other.
    """
    changes = _changes(options)
    accuracy, reference = options.get("accuracy"), options.get("reference")
    opened = [find_model(str(name)) for name in models] or builtin_models()
    if reference is not None and not accuracy:
        if against is not None:
            raise UsageError(_ONLY_LATENCIES)
        raise UsageError("a reference model needs a data set: --accuracy")
    on = options.get("on", (LOCAL_NAME,))
    devices = (on,) if isinstance(on, str) else tuple(on)
    accuracy_request = _accuracy_request(opened, accuracy, reference) if accuracy else None
    if accuracy_request is not None:
        opened = with_references_first(opened, accuracy_request.references)
        changes["dataset_sha256"] = accuracy_request.dataset.sha256
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
    of_host = {key: value for key, value in options.items() if key in HostOptions.__annotations__}
    return BenchRequest(
        inputs=own,
        models=tuple(opened),
        has_named_models=bool(models) and not all(model.is_on_device for model in opened),
        devices=devices,
        runtime=options.get("runtime"),
        spec=_share(spec, run_count),
        run_count=run_count,
        extra_run_count=_extra_run_count(options.get("extra_runs")),
        is_duration_fixed=changes.get("duration_s") is not None,
        energy=new_energy_request(
            meter,
            devices,
            sync=sync,
            battery_capacity_j=options.get("battery_capacity_j"),
            idle_duration_s=idle_duration_s,
            supply_v=options.get("supply_v"),
        ),
        instrument=instrument,
        accuracy=accuracy_request,
        against=against,
        options=cast("HostOptions", of_host),
        command=command_facts(map(str, models), options),
    )


def command_facts(models: Iterable[str], options: Mapping[str, object]) -> CommandFacts:
    """Describe a command, and give it a new id.

    Args:
        models: Models as the user named them.
        options: Maps field names to the values of the options that the user gave.
    """
    on = options.get("on")
    given = {**options, "on": [on]} if isinstance(on, str) else options
    words = [*([model] for model in models), *words_of(given)]
    return CommandFacts(f"command-{secrets.token_hex(4)}", tuple(map(tuple, words)))


def _accuracy_request(
    models: Sequence[Model], dataset: str, reference: str | Path | None
) -> AccuracyRequest:
    """Open the data set, and find the references of these models."""
    opened, references = open_dataset(dataset), find_references(models, reference)
    added = tuple(
        model
        for model in dict.fromkeys(references.values())
        if not any(map(model.is_same_as, models))
    )
    return AccuracyRequest(dataset=opened, references=references, added=added)


def _changes(options: BenchOptions) -> SpecChanges:
    """Changes that the settings make to the specification of the preset.

    Raises:
        UsageError: a setting is unknown, or settings contradict each other.
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
    """Number of runs of each model; None means the default, which is 1 if only one run is possible.

    Raises:
        UsageError: the number is out of bounds, or above 1 for a request about a single run.
    """
    only_one = {
        "--against makes pairs of runs; set their number by --pairs": is_comparison,
        "--sustained makes a single run": spec.is_sustained,
        "--profile makes a single run": spec.is_profiled,
    }
    reason = next((reason for reason, is_so in only_one.items() if is_so), None)
    if wanted is None:
        # MLPerf's rules, LoadGen's verdict, a target latency and the file of an instrument apply to
        # a single run of full length.
        is_judged_whole = (
            is_for_trace
            or spec.preset.startswith(MLPERF_PRESET)
            or spec.engine is Engine.LOADGEN
            or spec.target_latency_s is not None
        )
        if reason or is_judged_whole:
            return 1
        limit = math.floor(spec.duration_s / MIN_JUDGED_S + 1e-9)
        return max(DEFAULT_RUN_COUNT, min(usual_run_count(spec.preset), limit))
    if not 1 <= wanted <= MAX_RUN_COUNT:
        raise UsageError(f"runs must be 1..{MAX_RUN_COUNT}, got {wanted}")
    if reason and wanted > 1:
        error = UsageError(f"{reason}, got --runs {wanted}")
        error.meant = f"--pairs {wanted}" if is_comparison else None
        raise error
    return wanted


def _extra_run_count(wanted: int | None) -> int:
    """Maximum number of extra runs of each model; None selects the default.

    Raises:
        UsageError: the number is out of bounds.
    """
    if wanted is None:
        return DEFAULT_EXTRA_RUNS
    if not 0 <= wanted <= MAX_RUN_COUNT:
        raise UsageError(f"extra runs must be 0..{MAX_RUN_COUNT}, got {wanted}")
    return wanted


def _share(spec: RunSpec, run_count: int) -> RunSpec:
    """The specification of each of several runs, which share the duration and the queries.

    With MLPerf's preset, each run keeps the length required by MLPerf's rules.

    Raises:
        RunsTooShort: each run would be too short to check the state of the machine.
    """
    if run_count == 1 or not is_divided(spec):
        return spec
    duration_s = spec.duration_s / run_count
    run_limit = math.floor(spec.duration_s / MIN_JUDGED_S + 1e-9)  # 0.3 / 0.1 is below 3
    if run_count > run_limit:
        raise RunsTooShort(
            f"{run_count} runs share {spec.duration_s:g} s: each run takes {duration_s:.2g} s, at "
            f"least {MIN_JUDGED_S:g} s needed",
            enough_s=MIN_JUDGED_S * run_count,
            run_limit=max(1, run_limit),
        )
    return replace(
        with_duration(spec, duration_s), min_query_count=math.ceil(spec.min_query_count / run_count)
    )
