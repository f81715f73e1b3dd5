"""A run, computed from the agent's record and the traces.

The functions are pure: the same record and traces give the same run, so `edgebench verify` detects
a changed run in the store.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

from edgebench.host.analysis.arithmetic import strict_arithmetic
from edgebench.host.analysis.energy.pulses import find_pulsed_energy
from edgebench.host.analysis.energy.run import find_energy
from edgebench.host.analysis.energy.windows import TimedQueries
from edgebench.host.analysis.latency.warmup import drift_ratio
from edgebench.host.analysis.measurement import Measurement, TargetTraces, Traces, measure_traces
from edgebench.host.analysis.outputs import OutputQuality, judge_outputs
from edgebench.host.analysis.profile import profile_of_target, profile_of_worker
from edgebench.host.analysis.settings import find_settings
from edgebench.host.analysis.verdict.evidence import Evidence
from edgebench.host.analysis.verdict.judge import judge, judge_failure, judge_target
from edgebench.host.analysis.verdict.machine import background_busy_ratio
from edgebench.host.analysis.verdict.outputs import accuracy_drop
from edgebench.host.analysis.verdict.target import TargetEvidence
from edgebench.host.analysis.windows import WindowMeasurement, measure_windows
from edgebench.host.result.energy import EnergyResult
from edgebench.host.result.facts import EnergyRequest, HostFacts
from edgebench.host.result.latency import WarmupCut
from edgebench.host.result.measured import BindingNs, ColdStartNs, HarnessNs, MemoryBytes, Metrics
from edgebench.host.result.outputs import Accuracy
from edgebench.host.result.run import (
    SCHEMA_VERSION,
    Conditions,
    Failure,
    Run,
    RuntimeUse,
    TelemetrySummary,
)
from edgebench.host.result.verdict import Verdict
from edgebench.host.result.windows import TargetMemoryBytes
from edgebench.protocol.clock import ClockModel, ClockProbe, fit
from edgebench.protocol.errors import EdgebenchError, ErrorCode, MeasurementError
from edgebench.protocol.record import (
    BindingFacts,
    CheckFacts,
    Phase,
    RunRecord,
    SyncFacts,
    TargetRecord,
    WorkerRecord,
)
from edgebench.protocol.runtime import RUNTIME_PACKAGES
from edgebench.protocol.spec import RunSpec


@contextmanager
def _named_errors() -> Iterator[None]:
    """Convert unexpected exceptions, which an invalid record may cause in an analysis.

    Raises:
        MeasurementError: the analysis raised an exception that is neither an EdgebenchError nor an
            OSError.
    """
    try:
        with strict_arithmetic():
            yield
    except (EdgebenchError, OSError):
        raise
    except Exception as exc:  # MemoryError and RecursionError among them
        raise MeasurementError(f"invalid record: {type(exc).__name__}: {exc}") from exc


@_named_errors()
def analyse_run(
    record: RunRecord, traces: Traces, *, created_utc: str, clock: ClockModel | None
) -> Run:
    """The result of a run with measurements.

    Raises:
        MeasurementError: the record has no measurement, or a trace is empty or impossible.
    """
    worker = record.worker
    if worker is None:
        raise MeasurementError("the run measured nothing")
    facts = traces.facts
    measured = measure_traces(record, worker, traces)
    energy = _energy(record, worker, traces, measured, clock)
    verdict = judge(Evidence(record, worker, measured, facts, energy, clock))
    runtime = RuntimeUse(
        name=worker.runtime.name,
        version=worker.runtime.version,
        delegates_requested=worker.runtime.delegates_requested,
        delegates_used=worker.runtime.delegates_used,
        distribution=worker.runtime.distribution,
        library=worker.runtime.library,
        placement=worker.placement,
    )
    run = _run_without_numbers(record, worker, facts, clock, created_utc, runtime, verdict)
    return replace(
        run,
        model=worker.model,
        metrics=_metrics(record.spec, worker, measured, facts, energy),
    )


@_named_errors()
def analyse_target(
    record: RunRecord, traces: TargetTraces, *, created_utc: str, clock: ClockModel | None
) -> Run:
    """The result of a run of a device that timed itself, or whose pulses a meter recorded.

    Raises:
        MeasurementError: the record has no target or no windows, or reports impossible values.
    """
    target = record.target
    if target is None:
        raise MeasurementError("the device did not time itself")
    facts = traces.facts
    request = _energy_request(record, facts)
    energy = find_pulsed_energy(record, target, traces.power, request) if request else None
    edges = energy.edge_windows if energy else ()
    measured = replace(
        measure_windows(target, [window.duration_s for window in edges] or None),
        quality=judge_outputs(
            target.check, target.outputs, traces.outputs, traces.labels, facts.metric
        ),
    )
    verdict = judge_target(TargetEvidence(record, target, measured, facts, energy))
    runtime = RuntimeUse(name=target.runtime.name, version=target.runtime.version)
    run = _run_without_numbers(record, None, facts, clock, created_utc, runtime, verdict)
    return replace(
        run,
        emulated=record.emulated or target.firmware.emulator is not None,
        model=target.model,
        metrics=_target_metrics(record.spec, target, measured, facts, energy),
        conditions=replace(
            run.conditions,
            sample_count=target.output.sample_count,
            output_sha256=target.output.sha256,
            inputs=target.inputs,
            inputs_clipped_ratio=target.inputs_clipped_ratio,
            outputs=target.outputs,
            firmware=target.firmware,
        ),
    )


def _target_metrics(
    spec: RunSpec,
    target: TargetRecord,
    measured: WindowMeasurement,
    facts: HostFacts,
    energy: EnergyResult | None,
) -> Metrics:
    memory = target.memory
    flash = (memory.flash_bytes, memory.firmware_flash_bytes)
    ram = (memory.ram_bytes, memory.firmware_ram_bytes, memory.stack_peak_bytes)
    return replace(
        NO_METRICS,
        latency_ns=measured.latency,
        throughput_per_s=measured.throughput_per_s,
        instructions_per_inference=measured.instructions_per_inference,
        windows=measured.summary,
        target_memory_bytes=TargetMemoryBytes(
            flash=memory.flash_bytes,
            ram=memory.ram_bytes,
            arena=memory.arena_bytes,
            flash_total=_total(flash),
            ram_total=_total(ram),
            firmware_flash=memory.firmware_flash_bytes,
            firmware_ram=memory.firmware_ram_bytes,
            stack=memory.stack_bytes,
            stack_peak=memory.stack_peak_bytes,
        ),
        upload_s=target.upload_s,
        accuracy=_accuracy(measured.quality, target.check, facts),
        agreement=measured.quality.agreement,
        profile=profile_of_target(target, measured) if spec.is_profiled else None,
        energy=energy,
    )


def _total(parts: Sequence[int | None]) -> int | None:
    """Sum of numbers; None if any of the numbers is unknown."""
    known = [part for part in parts if part is not None]
    return sum(known) if len(known) == len(parts) else None


NO_METRICS = Metrics(
    throughput_per_s=None, warmup=None, cold_start_ns=None, memory_bytes=None, harness_ns=None
)
_PHASES = {phase.value: phase for phase in Phase}


@_named_errors()
def analyse_failure(
    record: RunRecord, facts: HostFacts, *, created_utc: str, clock: ClockModel | None
) -> Run:
    """The result of an admitted run without measurements: the failure, without numbers.

    Raises:
        MeasurementError: the record has measurements.
    """
    if record.has_measured:
        raise MeasurementError("the failed run has measurements")
    spec = record.spec
    entered = [_PHASES[event.kind] for event in record.events if event.kind in _PHASES]
    failure = Failure(
        code=ErrorCode(record.error_code).name.lower(),
        message=record.error or "the run failed without a reason",
        phase=entered[-1] if entered else None,
    )
    runtime = RuntimeUse(
        name=spec.runtime,
        version=record.environment.packages.get(RUNTIME_PACKAGES.get(spec.runtime, ""), ""),
        delegates_requested=(spec.delegate,) if spec.delegate else (),
    )
    run = _run_without_numbers(
        record, None, facts, clock, created_utc, runtime, judge_failure(failure)
    )
    return replace(run, failure=failure)


def _run_without_numbers(
    record: RunRecord,
    worker: WorkerRecord | None,
    facts: HostFacts,
    clock: ClockModel | None,
    created_utc: str,
    runtime: RuntimeUse,
    verdict: Verdict,
) -> Run:
    """The result of a run, without numbers; the worker's record describes the conditions."""
    return Run(
        schema_version=SCHEMA_VERSION,
        run_id=record.run_id,
        created_utc=created_utc,
        kind="profile" if record.spec.is_profiled else "measurement",
        pair=facts.pair,
        member=facts.member,
        command=facts.command,
        simulated=record.simulated,
        emulated=record.emulated,
        time_scale=record.time_scale,
        spec=record.spec,
        model=record.model,
        device=record.device,
        runtime=runtime,
        metrics=NO_METRICS,
        environment=record.environment,
        conditions=_conditions(record, worker, facts, clock),
        verdict=verdict,
    )


@_named_errors()
def fit_clock(probes: list[list[ClockProbe]], record: RunRecord) -> ClockModel | None:
    """Fit the clock model of a run; None without clock probes, which need a connected host."""
    if not any(probes):
        return None
    return fit(
        probes, host_domain=f"host:{record.owner}", device_domain=f"device:{record.device.id}"
    )


def _energy(
    record: RunRecord,
    worker: WorkerRecord,
    traces: Traces,
    measured: Measurement,
    clock: ClockModel | None,
) -> EnergyResult | None:
    """The energy of a run; None if the run did not request it."""
    request = _energy_request(record, traces.facts)
    if request is None:
        return None
    timed = TimedQueries(traces.queries, measured.first_row, has_gaps=bool(record.spec.jitter_s))
    return find_energy(record, worker, timed, traces.power, clock, request)


def _energy_request(record: RunRecord, facts: HostFacts) -> EnergyRequest | None:
    """The request to a meter of the host or of the agent; None if no meter was requested."""
    served = record.spec.meter
    if facts.energy is None and served is not None:
        return EnergyRequest(meter=served)
    return facts.energy


def _metrics(
    spec: RunSpec,
    worker: WorkerRecord,
    measured: Measurement,
    facts: HostFacts,
    energy: EnergyResult | None,
) -> Metrics:
    # Profiling slows a run down, so the latencies of a profiled run are not a headline.
    is_headline = not spec.is_profiled
    start, memory, harness = worker.cold_start, worker.memory, worker.harness
    steady_class = measured.steady.steady_class
    return Metrics(
        latency_ns=measured.invoke if is_headline else None,
        end_to_end_ns=measured.query if is_headline else None,
        throughput_per_s=measured.throughput_per_s if is_headline else None,
        early_stopping=measured.early_stopping if is_headline else None,
        outliers=measured.outliers,
        stability=measured.stability,
        warmup=WarmupCut(
            steady_class=steady_class.value if steady_class else None,
            query_count=measured.first_row,
            duration_ns=measured.warmup_ns,
            level_range_ratio=drift_ratio(measured.steady),
            p50_change_ratio=measured.warmup_change_ratio,
        ),
        cold_start_ns=ColdStartNs(start.import_ns, start.load_ns, start.first_inference_ns),
        memory_bytes=MemoryBytes(
            peak_rss=memory.peak_rss_bytes or None,  # older agents: 0 where it was not reported
            steady_rss=memory.steady_rss_bytes,
            steady_pss=memory.steady_pss_bytes,
            model=memory.model_bytes if memory.peak_rss_bytes else None,
            arena=memory.arena_bytes,
        ),
        harness_ns=HarnessNs(
            harness.p50_ns,
            harness.per_query_ns,
            harness.end_to_end_p50_ns,
            _binding(harness.binding),
            measured.clock_step_ns,
        ),
        accuracy=_accuracy(measured.quality, worker.check, facts),
        agreement=measured.quality.agreement,
        loadgen=measured.loadgen,
        thermal=measured.throttling,
        profile=profile_of_worker(worker, measured) if spec.is_profiled else None,
        energy=energy,
    )


def _accuracy(quality: OutputQuality, check: CheckFacts, facts: HostFacts) -> Accuracy | None:
    accuracy = quality.accuracy
    if accuracy is None:
        return None
    return Accuracy(
        metric=accuracy.metric,
        value=accuracy.value,
        ci95=accuracy.ci95,
        sample_count=accuracy.sample_count,
        planned_count=check.dataset_wanted_count or None,
        dataset=facts.dataset,
        drop_vs_reference=accuracy_drop(accuracy, facts.reference),
        reference=facts.reference,
    )


def _binding(facts: BindingFacts | None) -> BindingNs | None:
    if facts is None:
        return None
    p50_ns, c_p50_ns = facts.p50_ns, facts.c_p50_ns
    added_ns = None if p50_ns is None or c_p50_ns is None else p50_ns - c_p50_ns
    return BindingNs(p50_ns, c_p50_ns, added_ns, facts.reason)


def _conditions(
    record: RunRecord, worker: WorkerRecord | None, facts: HostFacts, clock: ClockModel | None
) -> Conditions:
    """State of the machine during the run; without a worker's record, only the agent's part."""
    sampled = record.telemetry
    return Conditions(
        load_1m_before=record.environment.load_1m,
        load_1m_after=record.load_1m_after,
        before=worker.before if worker else None,
        after=worker.after if worker else None,
        scheduling=worker.scheduling if worker else None,
        settings=find_settings(record.spec, worker) if worker else None,
        confinement=record.confinement,
        background_busy_ratio=(
            background_busy_ratio(worker, record.spec.threads) if worker else None
        ),
        sample_count=worker.sample_count if worker else 0,
        expected=record.expected,
        cooldown=record.cooldown,
        telemetry=TelemetrySummary(
            sensors=sampled.sensors,
            constants=sampled.constants,
            rate_hz=sampled.rate_hz,
            reading_count=sampled.reading_count,
            sampler_cpu_ratio=sampled.cpu_s / sampled.wall_s if sampled.wall_s > 0 else None,
        ),
        telemetry_absent={item.sensor: item.reason for item in sampled.absent},
        clock=clock,
        yardstick=worker.yardstick if worker else None,
        marks=worker.sync if worker else SyncFacts(),
        metered=record.metered,
        output_sha256=worker.output.sha256 if worker else None,
        inputs_file=facts.inputs,
        inputs=worker.inputs if worker else (),
        inputs_clipped_ratio=worker.inputs_clipped_ratio if worker else None,
        outputs=worker.outputs if worker else (),
        timed_path=worker.timed_path if worker else None,
        power_source=None,
        ambient_c=facts.ambient_c,
        supply_v=facts.energy.supply_v if facts.energy is not None else None,
    )
