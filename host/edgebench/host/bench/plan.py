"""Plan the runs of a request on a device."""

from __future__ import annotations

import random
import secrets
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from edgebench.host.bench.model import Model
from edgebench.host.bench.request import BenchRequest, ComparisonRequest
from edgebench.host.bench.run import RunRequest
from edgebench.host.power.metering import OpenMeter
from edgebench.host.result.facts import (
    BASELINE,
    CANDIDATE,
    PAIRS_PREFIX,
    SET_PREFIX,
    Pair,
    SetMember,
)
from edgebench.host.result.outputs import ReferenceAccuracy
from edgebench.protocol.device import SystemDescription
from edgebench.protocol.errors import (
    NotAModel,
    RuntimeUnavailable,
    TooLarge,
    UsageError,
    unknown_name,
    with_meant,
)
from edgebench.protocol.sizes import format_distinct_sizes
from edgebench.protocol.spec import MAX_SEED, Engine, RunSpec, check_cpus, with_all_runs

ALL_RUNTIMES = "all"
MIN_EDGES_IDLE_S = 0.5
"""Minimum idle time before and after a run in which a meter times inferences by the edges of a
board's pin. The meter's data reach the host some tenths of a second late (PPK2, LPM01A); with less
idle time, the recording would end without the last edges."""


@dataclass(frozen=True, slots=True)
class Step:
    """A planned run of a model on a runtime; the run may be part of a set or of a pair."""

    model: Model
    runtime: str
    pair: Pair | None = None
    member: SetMember | None = None
    is_target: bool = False
    """Whether the device is a target, such as a microcontroller, which times inferences in
    windows."""

    @property
    def number(self) -> int:
        """Position among the runs of the same model, from 0."""
        place = self.pair or self.member
        return place.number if place else 0

    def spec(self, spec: RunSpec) -> RunSpec:
        """The specification of this run.

        Only the first run of a model checks the outputs and runs the data set. In a comparison in
        pairs, only the first pair does this. The reason is that reference kernels may take longer
        than a run. The runs of a set have different seeds; both sides of a pair have the same seed.
        """
        is_first = self.number == 0
        drawn = self.member.number if self.member else 0
        return replace(
            spec,
            runtime=self.runtime,
            engine=Engine.TARGET if self.is_target else spec.engine,
            # Targets play no load code: the meter records the pulses of a pin instead.
            load_code_chip_s=None if self.is_target else spec.load_code_chip_s,
            jitter_s=None if self.is_target else spec.jitter_s,
            is_checked=spec.is_checked and is_first and not self.model.is_on_device,
            dataset_sha256=spec.dataset_sha256 if is_first else None,
            seed=(spec.seed + drawn) % MAX_SEED,
        )


def plan_steps(request: BenchRequest, system: SystemDescription) -> list[Step]:
    """The runs of a request on this device, in order.

    Raises:
        UsageError: the requested runtime does not exist, or does not load a model.
        RuntimeUnavailable: the runtime is not usable on the device.
    """
    targets = runtimes_of_targets(system)
    if request.against is None:
        left_out = unmeasured_references(request, system)
        steps = [
            Step(model, runtime, is_target=runtime in targets)
            for model in request.models
            if model not in left_out
            for runtime in runtimes_for(model, request.runtime, system)
        ]
        return _rounds(steps, 1 if targets else request.run_count)
    baseline, candidate = request.models[0], request.against.candidate
    before = runtimes_for(baseline, request.runtime, system)
    after = runtimes_for(candidate, request.runtime, system)
    shared = [(runtime, runtime) for runtime in before if runtime in after]
    if not shared and not request.against.is_across_runtimes:
        raise UsageError(
            f"no runtime loads both {baseline.name} and {candidate.name}; "
            "to compare them on different runtimes: --allow runtime"
        )
    return [
        step
        for runtimes in shared or [(before[0], after[0])]
        for step in _pairs(
            Step(baseline, runtimes[0], is_target=runtimes[0] in targets),
            Step(candidate, runtimes[1], is_target=runtimes[1] in targets),
            request.against,
        )
    ]


def runtimes_of_targets(system: SystemDescription) -> set[str]:
    """Names of the runtimes that run on a target, such as a microcontroller."""
    return {report.name for report in system.runtimes if report.is_target}


def _rounds(steps: list[Step], run_count: int) -> list[Step]:
    """Make one run of each model per round, so that changes over time affect all models alike.

    Source: Abedi & Brecht, Conducting repeatable experiments in highly variable cloud computing
    environments (2017): trials in rounds, compared with trials in blocks.
    """
    if run_count == 1:
        return steps
    set_ids = [f"{SET_PREFIX}{secrets.token_hex(4)}" for _ in steps]
    return [
        replace(step, member=SetMember(set_id, number, run_count))
        for number in range(run_count)
        for step, set_id in zip(steps, set_ids, strict=True)
    ]


def _pairs(baseline: Step, candidate: Step, against: ComparisonRequest) -> list[Step]:
    """Pairs of a baseline run and a candidate run; in half of the pairs, the candidate comes first.

    The pairs in which the candidate comes first are drawn at random.
    Drifts during the command, for example of the temperature, affect both sides of a pair alike.
    The order is derived from the comparison's id, which is stored with every run.
    """
    comparison_id = f"{PAIRS_PREFIX}{secrets.token_hex(4)}"
    chance = random.Random(comparison_id)
    is_swapped = [number % 2 == 1 for number in range(against.pair_count)]
    chance.shuffle(is_swapped)
    steps: list[Step] = []
    for number in range(against.pair_count):
        sides = [(BASELINE, baseline), (CANDIDATE, candidate)]
        if is_swapped[number]:
            sides.reverse()
        steps += [replace(step, pair=Pair(comparison_id, number, side)) for side, step in sides]
    return steps


def single_step(request: BenchRequest, system: SystemDescription) -> Step:
    """The only run of a request for a single model, on the requested or the preferred runtime.

    Raises:
        UsageError: the requested runtime does not exist, or does not load the model.
        RuntimeUnavailable: the runtime is not usable on the device.
    """
    [model] = request.models
    runtime = runtimes_for(model, request.runtime, system)[0]
    return Step(model, runtime, is_target=runtime in runtimes_of_targets(system))


def run_request(
    request: BenchRequest, step: Step, reference: ReferenceAccuracy | None, meter: OpenMeter | None
) -> RunRequest:
    """Build the request for the run of a step, with the accuracy of the reference model."""
    accuracy = request.accuracy if step.number == 0 else None
    spec = request.spec
    if step.is_target and not (step.member or step.pair):  # targets repeat windows, not runs
        spec = with_all_runs(spec, request.run_count)
    return RunRequest(
        model=step.model,
        spec=step.spec(spec),
        inputs=request.inputs,
        dataset=accuracy.dataset if accuracy else None,
        reference=reference if accuracy else None,
        pair=step.pair,
        member=step.member,
        command=request.command,
        ambient_c=request.options.get("ambient_c"),
        meter=meter,
    )


def refuse_impossible(
    device: str, request: BenchRequest, system: SystemDescription, meter: OpenMeter | None
) -> None:
    """Reject requests that a device cannot fulfil, before anything is hashed, sent or waited for.

    Args:
        device: Name of the device, for errors.
        request: The request, for this device.
        system: The device's description of itself.
        meter: Meter of the request; None without a meter.

    Raises:
        TooLarge: the device has no room for a file.
        UsageError: the device does not have all CPUs of `--cpus`.
        MeterNotServed: the device's agent does not serve the meter.
    """
    _refuse_too_large(device, request, system)
    if system.usable_cpus is not None:  # else the agent refuses them when the run starts
        check_cpus(device, request.spec.cpus, system.usable_cpus)
    if meter is not None:
        meter.require_served(system, device)


def refuse_unseen_edges(
    request: BenchRequest, steps: Sequence[Step], meter: OpenMeter | None
) -> None:
    """Reject a board's runs if windows could not be found from the last edges that a meter records.

    Raises:
        UsageError: pulses of a data set would come after those of the windows, or the recording
            would end before the last edges.
    """
    if meter is None or not any(step.is_target for step in steps):
        return
    if request.accuracy is not None:
        raise UsageError(
            "--accuracy and --meter cannot be combined for a microcontroller: in energy mode, the "
            "pulses of the data set look like windows"
        )
    idle_s = meter.request.idle_duration_s
    if idle_s is not None and idle_s < MIN_EDGES_IDLE_S:
        raise UsageError(
            f"--idle must be at least {MIN_EDGES_IDLE_S:g} s with a microcontroller, got "
            f"{idle_s:g} s: the meter's data reach the host late, and must contain the last edges"
        )


def unmeasured_references(request: BenchRequest, system: SystemDescription) -> tuple[Model, ...]:
    """Reference models that a microcontroller cannot run, because it runs only quantised models."""
    is_target = any(report.is_target for report in system.runtimes)
    return request.accuracy.added if is_target and request.accuracy else ()


def _refuse_too_large(device: str, request: BenchRequest, system: SystemDescription) -> None:
    """Reject files that do not fit on the device, before they are hashed and sent.

    Raises:
        TooLarge: a file is larger than the device's free space for models.
    """
    if (room := system.models_room_bytes) is None:  # an older agent does not report it
        return
    files: list[tuple[Path, int]] = [(model.path, model.size_bytes) for model in request.models]
    if request.against:
        files.append((request.against.candidate.path, request.against.candidate.size_bytes))
    own = (request.inputs, request.accuracy.dataset if request.accuracy else None)
    files += [(file.path, file.size_bytes) for file in own if file is not None]
    for path, size_bytes in files:
        if size_bytes > room:
            size, most = format_distinct_sizes(size_bytes, room)
            raise TooLarge(f"file has {size}, {device} has room for {most}: {path}")


def runtimes_for(model: Model, wanted: str | None, system: SystemDescription) -> list[str]:
    """Names of the runtimes on which to run a model on this device.

    Args:
        model: The model.
        wanted: Name of a runtime, or `all` for every usable runtime. None selects the preferred
            runtime.
        system: The device's description of itself.

    Raises:
        UsageError: the requested runtime does not exist, or does not load this format.
        RuntimeUnavailable: the requested runtime is not usable on the device, or no runtime is.
    """
    fitting = [
        report for report in system.runtimes if model.is_on_device or model.format in report.formats
    ]
    if not fitting:
        formats = dict.fromkeys(name for report in system.runtimes for name in report.formats)
        expected = " or ".join(f".{name}" for name in formats) or "a device with a runtime"
        raise NotAModel(f"unknown model format, expected {expected}: {model.path}")
    if wanted is None or wanted == ALL_RUNTIMES:
        usable = [report.name for report in fitting if report.is_usable]
        if not usable:
            reasons = "; ".join(f"{report.name}: {report.reason}" for report in fitting)
            raise RuntimeUnavailable(f"no runtime for .{model.format} files: {reasons}")
        return usable if wanted == ALL_RUNTIMES else usable[:1]
    chosen = next((report for report in system.runtimes if report.name == wanted), None)
    if chosen is None:
        names = [report.name for report in system.runtimes]
        raise unknown_name("runtime", wanted, [*names, ALL_RUNTIMES])
    if not chosen.is_usable:
        error = RuntimeUnavailable(f"runtime {wanted} is not usable: {chosen.reason}")
        error.install = chosen.install or None
        raise error
    if chosen not in fitting:
        able = ", ".join(report.name for report in fitting)
        text = f"runtime {wanted} does not load .{model.format} files; {able} can: {model.path}"
        raise with_meant(UsageError(text), fitting[0].name, [fitting[0].name])
    return [wanted]
