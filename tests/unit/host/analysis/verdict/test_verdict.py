"""Verdict rules: each one passes on good evidence, and fails on evidence of its own."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.records import (
    ENVIRONMENT,
    YARDSTICK,
    latencies,
    run_record,
    traces_of,
    worker_record,
)

from edgebench.host.analysis.latency.warmup import Segment, SteadyClass, SteadyState
from edgebench.host.analysis.measurement import measure_traces
from edgebench.host.analysis.outputs import agreement
from edgebench.host.analysis.phone import PhoneConditions
from edgebench.host.analysis.run import analyse_run
from edgebench.host.analysis.verdict.advice import Situation
from edgebench.host.analysis.verdict.cause import Cause
from edgebench.host.analysis.verdict.diagnosis import diagnose
from edgebench.host.analysis.verdict.evidence import Evidence
from edgebench.host.analysis.verdict.judge import judge
from edgebench.host.analysis.verdict.outputs import accuracy_drop
from edgebench.host.analysis.verdict.rule import EVERY_NUMBER
from edgebench.host.analysis.verdict.table import BY_ID, RULES, cause_of
from edgebench.host.result.document import from_document, to_document
from edgebench.host.result.energy import (
    EnergyResult,
    EnergySync,
    MeterCheck,
    QueryEnergy,
    SyncAttempt,
    SyncMethod,
)
from edgebench.host.result.facts import BASELINE, HostFacts, Pair, SetMember
from edgebench.host.result.latency import (
    EarlyStopping,
    EffectiveCount,
    LatencyLevels,
    LoadgenResult,
    Stability,
)
from edgebench.host.result.outputs import Accuracy, Agreement, ReferenceAccuracy
from edgebench.host.result.reasons import recording
from edgebench.host.result.reasons.energy import energy_uncertain, stated
from edgebench.host.result.thermal import MEMORY_CLOCK, ThermalResult, ThermalState
from edgebench.host.result.verdict import Finding, NumberKind, RuleOutcome, State, Verdict
from edgebench.host.show.sentences import described
from edgebench.host.show.verdict import advice_for
from edgebench.protocol.clock import ClockJump, ClockModel
from edgebench.protocol.device import AndroidSystem
from edgebench.protocol.record import (
    AndroidGroups,
    BindingFacts,
    CpuQuota,
    CpuTime,
    HarnessFacts,
    LoadCode,
    MemoryFacts,
    OperatorPlacement,
    OperatorTime,
    Outcome,
    OutputFacts,
    QuantizedOperands,
    QuotaUse,
    RealtimeLimit,
    RuntimeFacts,
    Scheduling,
    SyncFacts,
    TensorSpec,
    ThreadTime,
    TimedPathFacts,
    TimedPathFault,
)
from edgebench.protocol.spec import Engine, Scenario
from edgebench.protocol.telemetry import AbsentSensor
from edgebench.protocol.thermal import CooldownFacts, CooldownOutcome, ExpectedCluster

Change = Callable[[Evidence], Evidence]


WARM = CooldownFacts(CooldownOutcome.TIMED_OUT, 600.0, 85.1, 59.3, 45.0, -0.2)
COOL = ThermalResult(
    state=ThermalState.NOT_THROTTLED,
    cause=None,
    is_certain=False,
    reason="the latency did not grow",
    peak_latency_ns=100_000.0,
    sustained_latency_ns=100_000.0,
    retention_ratio=1.0,
    throttled_ratio=0.0,
    start_temp_c=40.0,
    throttle_temp_c=80.0,
    baseline_freq_hz=1.5e9,
    nominal_freq_hz=1.5e9,
    max_temp_c=50.0,
    is_baseline_cool=True,
)


ENERGY = EnergyResult(
    meter="Example Meter",
    checks=(
        MeterCheck("complete", True, (recording.samples_received(sample_count=1000),)),
        MeterCheck("rate", None, (recording.too_short_for_rate(),)),
    ),
    sync=EnergySync(method=SyncMethod.EDGE, error_ns=1e5),
    duration_s=10.0,
    inference_count=1000,
    gross_j_per_inference=3e-3,
    u95_absolute_j=2e-5,
    u95_comparative_j=2e-5,
    components_j={"gain": 1e-5},
    power_w_mean=3.0,
    power_w_mean_u95_absolute=0.02,
    power_w_peak=3.5,
    power_w_peak_u95_absolute=0.07,
    energy_delay_js=3e-6,
    energy_delay_u95_absolute_js=2e-8,
    net_j_per_inference=3e-3,
    net_u95_absolute_j=2e-5,
    power_w_idle=1.0,
    power_w_idle_before=1.0,
    power_w_idle_after=1.1,
    phases={},
    per_query=QueryEnergy(refusal=(stated(text="too short"),)),
)
REFUSED = EnergyResult(meter=ENERGY.meter, checks=ENERGY.checks)
"""The recording of a meter that gives no energy."""


def energy(**fields: Any) -> Change:
    """Change what the meter's recording gave."""
    return lambda evidence: replace(evidence, energy=replace(ENERGY, **fields))


def no_energy(refused: str, **fields: Any) -> Change:
    """Give a reason why the meter's recording gave nothing."""
    refusal = (stated(text=refused),)
    return lambda evidence: replace(evidence, energy=replace(REFUSED, refusal=refusal, **fields))


def speed_after(**fields: Any) -> Change:
    """Change the yardstick after the run."""
    after = replace(YARDSTICK.after, **fields)
    return worker(yardstick=replace(YARDSTICK, after=after))


def unseen(evidence: Evidence) -> Evidence:
    """A code was played, and the meter did not see it; its power is synthetic."""
    code = LoadCode((0, 1, 2), (True, False))
    tried = (SyncAttempt(SyncMethod.CODED_LOAD, None, (stated(text="not seen"),)),)
    by_arrival = EnergySync(method=SyncMethod.ARRIVAL, error_ns=2e6, tried=tried)
    return worker(sync=SyncFacts(codes=(code,)))(energy(sync=by_arrival)(evidence))


def blind(evidence: Evidence) -> Evidence:
    """A code was played, and the meter saw nothing of the device."""
    changed = unseen(evidence)
    assert changed.energy is not None
    assert changed.energy.sync is not None
    sync = replace(changed.energy.sync, method=None, error_ns=None)
    return replace(changed, energy=replace(changed.energy, sync=sync))


def same(evidence: Evidence) -> Evidence:
    """Change nothing of the good run."""
    return evidence


def not_checked(evidence: Evidence) -> Evidence:
    """No comparison with the reference kernels was requested."""
    return spec(is_checked=False)(quality(agreement=None)(evidence))


def no_meter(evidence: Evidence) -> Evidence:
    """No energy was requested."""
    return replace(evidence, energy=None)


@cache
def good() -> Evidence:
    """Return evidence without any fault."""
    worker = worker_record(latencies())
    record = run_record(worker)
    measured = measure_traces(record, worker, traces_of(latencies()))
    accuracy = Accuracy("top1", 0.97, (0.95, 0.99), 360)
    reference = ReferenceAccuracy("run-1", "digits_fp32.tflite", 0.98)
    facts = HostFacts("digits", "top1", reference)
    measured = replace(
        measured, quality=replace(measured.quality, accuracy=accuracy), throttling=COOL
    )
    return Evidence(record, worker, measured, facts, ENERGY)


def record(**fields: Any) -> Change:
    """Change fields of the agent's record."""
    return lambda evidence: replace(evidence, record=replace(evidence.record, **fields))


def spec(**fields: Any) -> Change:
    """Change fields of the specification."""
    return lambda evidence: replace(
        evidence, record=replace(evidence.record, spec=replace(evidence.record.spec, **fields))
    )


def worker(**fields: Any) -> Change:
    """Change fields of the worker's record."""
    return lambda evidence: replace(evidence, worker=replace(evidence.worker, **fields))


def measured(**fields: Any) -> Change:
    """Change the numbers."""
    return lambda evidence: replace(evidence, measured=replace(evidence.measured, **fields))


def quality(**fields: Any) -> Change:
    """Change the quality of the outputs."""
    return lambda evidence: measured(quality=replace(evidence.measured.quality, **fields))(evidence)


def after(**fields: Any) -> Change:
    """Change clocks and counters after the timed loop."""
    return lambda evidence: worker(after=replace(evidence.worker.after, **fields))(evidence)


def both(**fields: Any) -> Change:
    """Change clocks and counters before and after."""
    return lambda evidence: worker(
        before=replace(evidence.worker.before, **fields),
        after=replace(evidence.worker.after, **fields),
    )(evidence)


def accuracy(value: float, metric: str = "top1") -> Change:
    """Set another accuracy."""
    return quality(accuracy=Accuracy(metric, value, None, 360))


def held_against(value: float) -> Change:
    """Set a reference with this accuracy."""
    reference = ReferenceAccuracy("run-1", "digits_fp32.tflite", value)
    return lambda evidence: replace(evidence, facts=HostFacts("digits", "top1", reference))


def not_judged(why: str) -> Change:
    """A data set was run, and its outputs could not be judged."""
    return lambda evidence: quality(accuracy=None, accuracy_error=why)(
        spec(dataset_sha256="0" * 64)(evidence)
    )


def heat(**fields: Any) -> Change:
    """Change what the detector of throttling reports."""
    return measured(throttling=replace(COOL, **fields))


def slow_from_the_start(*clusters: ExpectedCluster, is_limit_sustained: bool = False) -> Change:
    """Run at 1.5 GHz of 2, on a board whose profile knows these clusters, or has no turbo."""

    def change(evidence: Evidence) -> Evidence:
        expected = replace(
            evidence.record.expected, clusters=clusters, is_limit_sustained=is_limit_sustained
        )
        return record(expected=expected)(heat(nominal_freq_hz=2.0e9)(evidence))

    return change


def watched(**fields: Any) -> Change:
    """Change what the sampler reports of itself."""
    return lambda evidence: record(telemetry=replace(evidence.record.telemetry, **fields))(evidence)


def steady(what: SteadyClass | None, *levels_ns: float) -> Change:
    """Set another class of the run, with levels of the same length."""
    segments = tuple(
        Segment(100 * index, 100 * (index + 1), level_ns)
        for index, level_ns in enumerate(levels_ns)
    )
    return measured(steady=SteadyState(what, None, segments, 1))


def differs(best: float | None, worst: float | None, *, is_constant: bool = False) -> Change:
    """Set outputs whose best and worst differ so much from those of the reference."""
    largest = None if worst is None else 1.0
    found = Agreement("tflite reference kernels", 4, largest, 0.5, 0.5, worst, best, is_constant)
    return quality(agreement=found)


def timed_path(fault: TimedPathFault) -> Change:
    """Let half of the inferences of the timed calls have other outputs than the checks."""
    return worker(timed_path=TimedPathFacts(8, 4, fault))


def switching(high_ratio: float) -> Change:
    """Set a run that switches between two levels, and is on the higher one for this share."""
    levels = LatencyLevels(1000.0, 1400.0, high_ratio, 0.3, 0.1)
    found = SteadyState(SteadyClass.SWITCHING, None, (), 1)
    return measured(steady=found, stability=Stability(0.1, (), 0.05, levels))


def repeated(evidence: Evidence) -> Evidence:
    """Set a model with one of two outputs that is the same for every sample."""
    same = Agreement("kernels", 4, 0.0, 1.0, 1.0, 0.0, 0.0, repeated_count=1, output_count=2)
    return quality(agreement=same)(evidence)


def drawn_at_random(evidence: Evidence) -> Evidence:
    """Set outputs that differ from the reference's, and from those of another inference."""
    path = TimedPathFacts(reason="repeated inferences differ", is_repeatable=False)
    return worker(timed_path=path)(differs(1.4, 1.4)(evidence))


def of_floats(evidence: Evidence, *delegates: str, **facts: Any) -> Evidence:
    """The model multiplies floats, except for what these facts state."""
    model = replace(evidence.worker.model, **({"precision": "fp32"} | facts))
    runtime = replace(evidence.worker.runtime, delegates_requested=delegates)
    return worker(model=model, runtime=runtime)(evidence)


def served(*, is_met: bool | None) -> Change:
    """A server run that met its target, or did not."""
    wanted = spec(scenario=Scenario.SERVER, target_qps=10.0, target_latency_s=0.1)
    return lambda evidence: measured(early_stopping=EarlyStopping(None, None, 9, is_met))(
        wanted(evidence)
    )


def delegates(requested: tuple[str, ...], used: tuple[str, ...]) -> Change:
    """Set the delegates that were requested, and those that were used."""
    return worker(runtime=RuntimeFacts("tflite", "2.14.0", requested, used))


def issued_by_loadgen(*, is_valid: bool) -> Change:
    """LoadGen issued the queries, and reports this of its run."""
    result = LoadgenResult(is_valid, None, 64, 1, 1, 1, 1, 1, None, 0)
    return lambda evidence: measured(loadgen=result)(spec(engine=Engine.LOADGEN)(evidence))


def profiled(**fields: Any) -> Change:
    """A profile was requested, with this result."""
    return lambda evidence: worker(check=replace(evidence.worker.check, **fields))(
        spec(is_profiled=True)(evidence)
    )


def full(evidence: Evidence) -> Evidence:
    """As many queries as allowed, in too short a time."""
    issued = evidence.worker.query_count - evidence.worker.warmup_query_count
    return spec(duration_s=3600.0, max_query_count=issued)(evidence)


def own_clock(ratio: float) -> Change:
    """A wall clock that runs at this ratio to the monotonic clock."""
    return lambda evidence: after(
        wall_ns=evidence.worker.before.wall_ns + int(_loop_ns(evidence) * ratio)
    )(evidence)


def against_the_host(slope: float, slope_error: float = 1e-5, *, slept_s: float = 0.0) -> Change:
    """A device whose clock has this slope against the host's, by probes around the loop."""

    def change(evidence: Evidence) -> Evidence:
        span_ns = _loop_ns(evidence) + 10**9
        slope_now = slope - slept_s * 1e9 / span_ns
        clock = ClockModel(
            "host:a", "device:b", 0, 0.0, slope_now, 1e5, span_ns=span_ns, slope_error=slope_error
        )
        return replace(evidence, clock=clock)

    return change


def stood_still(seconds: float, *, after_s: float = 0.0) -> Change:
    """A step of the device's clock against the host's, so long after the loop began."""

    def change(evidence: Evidence) -> Evidence:
        begin_ns = evidence.worker.before.monotonic_ns + int(after_s * 1e9)
        jump = ClockJump(seconds * 1e9, begin_ns, begin_ns + 10**9)
        known = against_the_host(1e-6)(evidence)
        assert known.clock is not None
        return replace(known, clock=replace(known.clock, jump=jump))

    return change


def set_by(seconds: float) -> Change:
    """A wall clock that was set during the loop."""
    return lambda evidence: after(
        wall_ns=evidence.worker.before.wall_ns + _loop_ns(evidence) + int(seconds * 1e9)
    )(evidence)


def _loop_ns(evidence: Evidence) -> int:
    return evidence.worker.after.monotonic_ns - evidence.worker.before.monotonic_ns


def busy(ratio: float) -> Change:
    """Other processes took this share of all CPU time."""

    def change(evidence: Evidence) -> Evidence:
        before, now = evidence.worker.before, evidence.worker.after
        total_s = (now.cpu_total_s or 0.0) - (before.cpu_total_s or 0.0)
        own_s = now.own_cpu_s - before.own_cpu_s
        return after(cpu_busy_s=(before.cpu_busy_s or 0.0) + own_s + ratio * total_s)(evidence)

    return change


def occupied(*busy: float, own: float, threads: int = 1, bound: tuple[int, ...] = ()) -> Change:
    """Each of these CPUs was busy for this share of the loop; the worker took `own` CPUs."""
    cpus = bound or tuple(range(len(busy)))

    def change(evidence: Evidence) -> Evidence:
        before = evidence.worker.before
        loop_s = _loop_ns(evidence) / 1e9
        at_first = tuple(CpuTime(cpu, 100.0 + cpu) for cpu in range(len(busy)) if cpu in cpus)
        at_last = tuple(
            replace(one, busy_s=one.busy_s + busy[one.cpu] * loop_s) for one in at_first
        )
        changed = spec(threads=threads, cpus=bound)(evidence)
        return worker(
            before=replace(before, cpus=at_first),
            after=replace(
                evidence.worker.after, cpus=at_last, own_cpu_s=before.own_cpu_s + own * loop_s
            ),
            scheduling=Scheduling(cpus, "other", 0),
        )(changed)

    return change


def ran(*threads: tuple[float, float]) -> Change:
    """The worker's threads ran and waited for these shares of the loop."""

    def change(evidence: Evidence) -> Evidence:
        before = evidence.worker.before
        loop_s = _loop_ns(evidence) / 1e9
        at_first = tuple(ThreadTime(40 + i, 0.5, 0.25) for i in range(len(threads)))
        at_last = tuple(
            ThreadTime(one.thread, one.run_s + run * loop_s, one.wait_s + wait * loop_s)
            for one, (run, wait) in zip(at_first, threads, strict=True)
        )
        own_s = before.own_cpu_s + sum(run for run, _ in threads) * loop_s
        changed = spec(threads=len(threads))(evidence)
        return worker(
            before=replace(before, threads=at_first),
            after=replace(
                evidence.worker.after,
                threads=at_last,
                own_cpu_s=own_s,
                # No other process took anything: this is about the threads.
                cpu_busy_s=(before.cpu_busy_s or 0.0) + own_s - before.own_cpu_s,
            ),
        )(changed)

    return change


def after_with_share(share: float) -> Change:
    """The worker got this share of a CPU."""

    def change(evidence: Evidence) -> Evidence:
        before, now = evidence.worker.before, evidence.worker.after
        loop_s = (now.monotonic_ns - before.monotonic_ns) / 1e9
        own_s = share * loop_s
        busy_s = (before.cpu_busy_s or 0.0) + own_s
        return after(own_cpu_s=before.own_cpu_s + own_s, cpu_busy_s=busy_s)(evidence)

    return change


def in_real_time(wait: float, runtime_s: float | None = 0.95, paused_s: float = 0.0) -> Change:
    """The worker had real-time priority, and waited for this share of the loop."""

    def change(evidence: Evidence) -> Evidence:
        limit = RealtimeLimit(runtime_s, 1.0, paused_s)
        scheduling = replace(evidence.worker.scheduling, policy="fifo", realtime=limit)
        return worker(scheduling=scheduling)(ran((1 - wait, wait))(evidence))

    return change


def throttled(used_up: float, cpu_count: float = 0.5) -> Change:
    """A quota was used up in periods that are this share of the run; the worker lost nothing."""

    def change(evidence: Evidence) -> Evidence:
        scheduling = replace(
            evidence.worker.scheduling, quotas=(CpuQuota(8.0, 0.1), CpuQuota(cpu_count, 1e-6))
        )
        count = round(used_up * evidence.loop_s / 1e-6)
        quiet = QuotaUse(1000, 5, 0.25)
        begin, end = QuotaUse(1000, 7, 0.25), QuotaUse(2000, 7 + count, 9.0)
        before = replace(evidence.worker.before, quotas=(quiet, begin))
        now = replace(evidence.worker.after, quotas=(quiet, end))
        return worker(scheduling=scheduling, before=before, after=now)(evidence)

    return change


def through_a_binding(p50_ns: int | None, c_p50_ns: int | None) -> Change:
    """A trivial model took this long through the binding, and in C."""
    reason = None if c_p50_ns is not None else "no symbol"
    return worker(harness=HarnessFacts(60, 110.5, binding=BindingFacts(p50_ns, c_p50_ns, reason)))


def queries_of_a_busy_loop(evidence: Evidence) -> Evidence:
    """Queries of two samples, and a loop that takes 2.2 µs for each of them."""
    changed = spec(scenario=Scenario.MULTI_STREAM, samples_per_query=2, min_query_count=100)
    harness = worker(harness=HarnessFacts(60, 100.0, 2_200))
    return harness(measured(query_ns=latencies()[:245] * 2)(changed(evidence)))


def unclocked(evidence: Evidence) -> Evidence:
    """Telemetry without a frequency."""
    return measured(throttling=replace(COOL, baseline_freq_hz=None, nominal_freq_hz=None))(evidence)


def precise_to(half_width: float | None, worth: int = 400) -> Change:
    """A median whose interval extends this far to both sides, relative to it."""

    def change(evidence: Evidence) -> Evidence:
        found = evidence.measured.invoke
        assert found.p50 is not None
        reach = round((half_width or 0) * found.p50)
        interval = None if half_width is None else (found.p50 - reach, found.p50 + reach)
        count = EffectiveCount(worth, worth, worth, worth)
        invoke = replace(found, p50_ci95=interval, effective_count=count)
        return measured(invoke=invoke)(evidence)

    return change


def counted(count: int) -> Change:
    """A precise median of this many queries."""
    return lambda e: measured(invoke=replace(e.measured.invoke, count=count))(e)


def fell_back(evidence: Evidence) -> Evidence:
    """All operators ran on the runtime's own kernels."""
    placement = (OperatorPlacement("builtin", "CONV_2D", 3),)
    return worker(placement=placement)(delegates(("xnnpack",), ())(evidence))


def mostly_on_the_cpu(evidence: Evidence) -> Evidence:
    """One of three operators ran where it was meant to run."""
    placement = (OperatorPlacement("cuda", "Conv", 1), OperatorPlacement("cpu", "Conv", 2))
    return worker(placement=placement)(delegates(("cuda",), ("cuda", "cpu"))(evidence))


PHONE = AndroidSystem("shiba", "Pixel 8", "16", 36, "2025-11-05", None, is_shell=True)
GROUPS = AndroidGroups("/", 0.0, 1.0)
COOL_PHONE = PhoneConditions(
    charging_ratio=0.0, screen_off_ratio=0.0, power_saver_ratio=0.0, thermal_status_max=0
)


def phone(groups: AndroidGroups | None = GROUPS, **fields: Any) -> Change:
    """A phone with this state; fields of `PhoneConditions`."""

    def change(evidence: Evidence) -> Evidence:
        environment = replace(evidence.record.environment, android=PHONE)
        scheduling = replace(evidence.worker.scheduling, android=groups)
        changed = record(environment=environment)(worker(scheduling=scheduling)(evidence))
        return measured(phone=replace(COOL_PHONE, **fields))(changed)

    return change


def few_cpus(evidence: Evidence) -> Evidence:
    """A phone that lets its shell use four of eight CPUs."""
    changed = phone()(evidence)
    environment = changed.record.environment
    cpu = replace(environment.cpu, logical_count=8, usable_count=4)
    return record(environment=replace(environment, cpu=cpu))(changed)


def hot_phone(status: int, **fields: Any) -> Change:
    """A phone with this thermal status at most."""
    return phone(thermal_status_max=status, **fields)


def in_airplane_mode(**fields: Any) -> Change:
    """A phone on which the run requested airplane mode."""
    return lambda evidence: spec(is_airplane_mode=True)(phone(**fields)(evidence))


def dimmed(**fields: Any) -> Change:
    """A phone on which the run requested a brightness of 40."""
    return lambda evidence: spec(screen_brightness=40)(phone(**fields)(evidence))


OPERATOR = OperatorTime(0, "CONV_2D", "", "builtin", 10, 1000)
FAILING: list[tuple[str, State, Change]] = [
    ("complete", State.INVALID, record(outcome=Outcome.INTERRUPTED)),
    ("complete", State.INVALID, record(outcome=Outcome.FAILED)),
    ("real_time", State.INVALID, record(emulated=True)),
    ("real_device", State.SUSPECT, record(simulated=True)),
    ("enough_queries", State.INVALID, spec(min_query_count=491)),
    ("enough_time", State.INVALID, spec(duration_s=3600.0)),
    ("keeps_up", State.INVALID, spec(scenario=Scenario.SERVER, target_qps=10_000.0)),
    ("latency_target", State.INVALID, served(is_met=False)),
    ("loadgen", State.INVALID, spec(engine=Engine.LOADGEN)),
    ("loadgen", State.INVALID, issued_by_loadgen(is_valid=False)),
    ("finite_outputs", State.INVALID, worker(output=OutputFacts("", is_finite=False))),
    ("timed_path", State.INVALID, timed_path(TimedPathFault.VALUES)),
    ("timed_path", State.INVALID, timed_path(TimedPathFault.OTHER_SAMPLE)),
    ("timed_path", State.INVALID, timed_path(TimedPathFault.FORM)),
    ("accuracy_floor", State.INVALID, accuracy(0.90)),
    ("accuracy_floor", State.INVALID, lambda e: held_against(0.0)(accuracy(0.0)(e))),
    ("accuracy_floor", State.INVALID, not_judged("label 5 is outside the 2 classes")),
    ("accuracy", State.SUSPECT, accuracy(0.95)),
    ("agreement", State.INVALID, differs(0.31, 1.0)),
    ("agreement", State.INVALID, differs(None, None)),
    ("agreement", State.INVALID, differs(0.0, 0.0, is_constant=True)),
    ("agreement_of_all", State.SUSPECT, lambda e: of_floats(differs(0.0, 0.051)(e))),
    ("agreement_of_all", State.SUSPECT, differs(0.0, 0.31)),
    ("agreement_of_all", State.SUSPECT, differs(0.0, None)),
    ("delegation", State.INVALID, fell_back),
    ("delegation", State.INVALID, delegates(("cuda",), ("cpu",))),
    ("delegation", State.INVALID, delegates(("/opt/libedgetpu.so",), ())),
    ("delegated_share", State.SUSPECT, mostly_on_the_cpu),
    ("profile", State.INVALID, profiled(profile_error="no profiler")),
    ("profile", State.INVALID, profiled(operators=())),
    ("harness_dominates", State.INVALID, worker(harness=HarnessFacts(15_000, 15_000.0))),
    ("harness_share", State.SUSPECT, worker(harness=HarnessFacts(2_100, 2_100.0))),
    ("binding_share", State.SUSPECT, through_a_binding(3_200, 1_000)),
    ("suspended", State.SUSPECT, lambda e: set_by(0.021)(after(suspended_ns=5_021_000_000)(e))),
    ("suspended", State.SUSPECT, stood_still(-0.021)),
    ("suspended", State.SUSPECT, measured(paused_s=0.51)),
    ("charging", State.SUSPECT, phone(charging_ratio=0.5)),
    ("screen", State.SUSPECT, phone(screen_off_ratio=0.5)),
    ("power_saver", State.SUSPECT, phone(power_saver_ratio=1.0)),
    ("phone_settings", State.SUSPECT, in_airplane_mode()),
    ("phone_settings", State.SUSPECT, dimmed()),
    (
        "phone_settings",
        State.SUSPECT,
        lambda e: spec(is_airplane_mode=True)(dimmed(airplane_mode_ratio=1.0)(e)),
    ),
    ("phone_settings", State.SUSPECT, in_airplane_mode(airplane_mode_ratio=0.5)),
    ("phone_settings", State.SUSPECT, dimmed(screen_brightness=(40, 102))),
    ("phone_settings", State.SUSPECT, dimmed(screen_brightness=(102, 102))),
    ("scheduling_group", State.SUSPECT, phone(AndroidGroups("/background", None, None))),
    ("scheduling_group", State.SUSPECT, phone(AndroidGroups("/foreground", 0.0, 0.5))),
    ("scheduling_group", State.SUSPECT, few_cpus),
    ("thermal_status", State.SUSPECT, hot_phone(1)),
    ("thermal_status_moderate", State.INVALID, hot_phone(2)),
    ("thermal_status_moderate", State.INVALID, hot_phone(3, is_thermal_overridden=True)),
    ("thermal", State.SUSPECT, heat(state=ThermalState.THROTTLED, cause="thermal", onset_s=9.0)),
    ("thermal", State.SUSPECT, heat(state=ThermalState.FREQUENCY_LIMITED, cause="power_limit")),
    ("thermal", State.SUSPECT, heat(state=ThermalState.FREQUENCY_LIMITED, cause=MEMORY_CLOCK)),
    ("interference", State.SUSPECT, heat(state=ThermalState.INTERFERENCE)),
    ("interference", State.SUSPECT, heat(moved_ratio=0.37, moved_latency_ratio=2.5)),
    ("interference", State.SUSPECT, heat(moved_ratio=0.06, moved_latency_ratio=0.4)),
    ("start_temperature", State.SUSPECT, heat(is_baseline_cool=False)),
    ("nominal_clock", State.SUSPECT, slow_from_the_start(ExpectedCluster(0, 2_000_000_000))),
    ("nominal_clock", State.SUSPECT, slow_from_the_start(is_limit_sustained=True)),
    ("telemetry", State.SUSPECT, watched(absent=(AbsentSensor("all", "it was killed"),))),
    ("telemetry", State.SUSPECT, watched(cpu_s=0.11)),
    ("cooldown", State.SUSPECT, record(cooldown=WARM)),
    ("cooldown", State.SUSPECT, record(cooldown=replace(WARM, reached_c=44.0))),
    ("cooldown", State.SUSPECT, record(cooldown=replace(WARM, outcome=CooldownOutcome.STOPPED))),
    ("steady_state", State.SUSPECT, steady(SteadyClass.SLOWDOWN, 1000, 1020)),
    ("steady_state", State.SUSPECT, steady(SteadyClass.NO_STEADY_STATE, 1000, 1011)),
    ("steady_state", State.SUSPECT, steady(SteadyClass.NO_STEADY_STATE, 1040, 1051, 1000)),
    ("steady_share", State.SUSPECT, measured(invoke_ns=latencies()[:244])),
    ("cpu_share", State.SUSPECT, after_with_share(0.89)),
    ("scheduling", State.SUSPECT, spec(cpus=(0, 1))),
    ("precision_floor", State.INVALID, precise_to(0.26)),
    ("precision", State.SUSPECT, precise_to(0.051)),
    ("precision", State.SUSPECT, precise_to(None)),
    ("precision", State.SUSPECT, precise_to(0.01, worth=99)),
    ("precision", State.SUSPECT, counted(99)),
    ("spread", State.SUSPECT, measured(stability=Stability(0.26, (), None, None))),
    ("block_stability", State.SUSPECT, measured(stability=Stability(0.0, (), 0.11, None))),
    ("clock", State.INVALID, own_clock(1.011)),
    ("clock", State.INVALID, own_clock(0.989)),
    ("clock", State.INVALID, own_clock(-1.0)),
    ("clock_drift", State.SUSPECT, own_clock(1.0011)),
    ("clock", State.INVALID, against_the_host(-0.1)),
    ("clock", State.INVALID, against_the_host(0.011)),
    ("clock_drift", State.SUSPECT, against_the_host(-0.005)),
    ("clock_drift", State.SUSPECT, against_the_host(-0.008, 0.0015)),
    # Probes over a bad link do not show the rate.
    ("clock", State.INVALID, lambda e: against_the_host(0.0, 0.05)(set_by(3.0)(e))),
    ("harness_share", State.SUSPECT, queries_of_a_busy_loop),
    ("frequency", State.SUSPECT, after(freq_hz=(1_500_000_000, 800_000_000) * 2)),
    ("frequency", State.SUSPECT, after(governors=("powersave",))),
    ("frequency", State.SUSPECT, heat(freq_change_ratio=0.021)),
    ("frequency", State.SUSPECT, lambda e: both(freq_hz=())(heat(freq_change_ratio=0.1)(e))),
    ("scheduling", State.SUSPECT, worker(scheduling=Scheduling((0,), "other", 0, ("no fifo",)))),
    ("cpu_quota", State.SUSPECT, throttled(used_up=0.011)),
    ("background_load", State.SUSPECT, busy(0.11)),
    # A neighbour on one of 16 CPUs, next to a model that the kernel may put anywhere.
    ("background_load", State.SUSPECT, occupied(1.0, *[0.0] * 14, 1.0, own=1.0)),
    # Both move around, and no CPU is ever busy for long.
    ("background_load", State.SUSPECT, occupied(*[2 / 16] * 16, own=1.0)),
    ("background_load", State.SUSPECT, occupied(*[1.0] * 5, *[0.0] * 11, own=4.0, threads=4)),
    ("background_load", State.SUSPECT, occupied(0.0, 1.1, 1.0, own=1.88, threads=2, bound=(1, 2))),
    ("cpu_pressure", State.SUSPECT, after(cpu_stall_s=0.8)),
    ("cpu_pressure", State.SUSPECT, in_real_time(0.06)),
    # One of 16 threads shares its CPU: the mean of all would be 0.4 %.
    ("cpu_pressure", State.SUSPECT, ran(*[(0.99, 0.01)] * 15, (0.93, 0.06))),
    ("cpu_share", State.SUSPECT, spec(threads=4)),
    ("cpu_share", State.SUSPECT, ran(*[(0.25, 0.04)] * 3)),
    ("memory_pressure", State.SUSPECT, after(memory_stall_s=0.1)),
    ("memory", State.SUSPECT, worker(memory=MemoryFacts(8 * 2**30, 0))),
    ("swap", State.SUSPECT, after(swapped_page_count=8)),
    ("yardstick", State.SUSPECT, speed_after(integer_ns_per_unit=13_200.0 * 1.031)),
    ("yardstick", State.SUSPECT, speed_after(memory_bytes_per_s=4.0e9 / 1.51)),
    (
        "meter",
        State.SUSPECT,
        no_energy(
            "complete: port /dev/x is gone",
            checks=(MeterCheck("complete", False, (stated(text="port /dev/x is gone"),)),),
        ),
    ),
    (
        "energy_sync",
        State.SUSPECT,
        no_energy(
            "the clocks could not be aligned; edge: no line",
            sync=EnergySync(tried=(SyncAttempt(SyncMethod.EDGE, None, (stated(text="no line"),)),)),
        ),
    ),
    (
        "energy_idle",
        State.SUSPECT,
        energy(power_w_idle_after=1.5),
    ),
    ("energy", State.SUSPECT, no_energy("window is too short", sync=ENERGY.sync)),
    ("energy", State.SUSPECT, energy(boundary="synthetic")),
]
WITHOUT_ENERGY = {"meter": "energy", "energy_sync": "energy"}
"""A recording that cannot be used, or with no common clock, gives no energy either."""
UNKNOWN: list[tuple[str, Change]] = [
    ("binding_share", worker(harness=HarnessFacts(60, 110.5))),
    ("binding_share", through_a_binding(None, None)),
    # More than the limit at most, but by an unknown amount.
    ("binding_share", through_a_binding(2_200, None)),
    (
        "delegation",
        lambda e: worker(placement=())(delegates(("/opt/libedgetpu.so",), ())(e)),
    ),
    ("delegated_share", lambda e: worker(placement=())(delegates(("xnnpack",), ("xnnpack",))(e))),
    ("delegation", lambda e: worker(placement=())(delegates(("cuda",), ("cuda",))(e))),
    ("latency_target", served(is_met=None)),
    ("accuracy", lambda evidence: replace(evidence, facts=HostFacts("digits", "top1", None))),
    ("timed_path", worker(timed_path=None)),
    ("timed_path", worker(timed_path=TimedPathFacts(reason="2 samples have equal outputs"))),
    ("agreement", quality(agreement=None)),
    ("agreement_of_all", quality(agreement=None)),
    ("steady_state", steady(None)),
    ("thermal", heat(state=ThermalState.UNKNOWN)),
    ("thermal", measured(throttling=None)),
    ("interference", heat(state=ThermalState.UNKNOWN)),
    ("start_temperature", heat(is_baseline_cool=None)),
    ("start_temperature", heat(throttle_temp_c=None)),
    ("nominal_clock", slow_from_the_start()),
    ("nominal_clock", heat(nominal_freq_hz=None)),
    ("nominal_clock", heat(baseline_freq_hz=None)),
    ("telemetry", watched(sensors=())),
    ("cooldown", record(cooldown=CooldownFacts(CooldownOutcome.NO_SENSOR))),
    ("frequency", both(freq_hz=())),
    (
        "frequency",  # the CPU next to an accelerator may idle
        lambda e: after(freq_hz=(600_000_000,) * 4)(
            worker(placement=(OperatorPlacement("cuda", "Conv", 3),))(e)
        ),
    ),
    ("background_load", both(cpu_total_s=None)),
    (
        "background_load",
        lambda e: after(
            monotonic_ns=e.worker.before.monotonic_ns + 99_000_000,
            wall_ns=e.worker.before.wall_ns + 99_000_000,
        )(e),
    ),
    ("cpu_quota", worker(scheduling=Scheduling((0, 1), "other", 0))),
    ("cpu_pressure", both(cpu_stall_s=None)),
    ("yardstick", worker(yardstick=None)),
    ("yardstick", speed_after(integer_ns_per_unit=0.0)),
    ("yardstick", speed_after(memory_bytes_per_s=-1.0)),
    ("memory_pressure", both(memory_stall_s=None)),
    ("memory", record(environment=replace(ENVIRONMENT, memory_available_bytes=None))),
    ("memory", record(environment=replace(ENVIRONMENT, memory_available_bytes=0))),
    ("memory", worker(memory=MemoryFacts(0, 0))),
    ("swap", both(swapped_page_count=None)),
    ("suspended", both(suspended_ns=None)),
    ("charging", phone(charging_ratio=None)),
    ("charging", phone(charging_ratio=None, is_battery_faked=True)),
    ("screen", phone(screen_off_ratio=None)),
    ("power_saver", phone(power_saver_ratio=None)),
    ("scheduling_group", phone(None)),
    ("thermal_status", phone(thermal_status_max=None)),
    ("thermal_status", phone(thermal_status_max=0, is_thermal_overridden=True)),
    ("thermal_status_moderate", phone(thermal_status_max=None, is_thermal_overridden=True)),
    ("energy_idle", energy(power_w_idle_after=None)),
]
NEVER_ASKED: list[tuple[str, Change]] = [
    ("keeps_up", same),
    ("latency_target", same),
    ("latency_target", spec(scenario=Scenario.SERVER, target_qps=10.0)),
    ("loadgen", same),
    *((name, quality(accuracy=None)) for name in ("accuracy_floor", "accuracy")),
    *((name, not_checked) for name in ("agreement", "agreement_of_all")),
    ("cpu_quota", same),
    ("delegation", same),
    ("delegation", delegates(("none",), ())),
    ("delegated_share", same),
    ("delegated_share", delegates(("none",), ())),
    ("profile", same),
    ("cpu_share", spec(scenario=Scenario.SERVER, target_qps=10.0)),
    ("cpu_share", worker(placement=(OperatorPlacement("cuda", "Conv", 3),))),
    ("yardstick", worker(placement=(OperatorPlacement("cuda", "Conv", 3),))),
    ("cooldown", record(cooldown=CooldownFacts())),
    ("telemetry", lambda e: spec(telemetry_rate_hz=0.0)(watched(sensors=())(e))),
    *((name, same) for name in ("charging", "screen", "power_saver", "scheduling_group")),
    *((name, same) for name in ("thermal_status", "thermal_status_moderate")),
    ("phone_settings", same),
    ("phone_settings", phone(airplane_mode_ratio=0.0, screen_brightness=(102, 102))),
    *((name, no_meter) for name in ("meter", "energy_sync", "energy_idle", "energy")),
]
"""What the run has nothing to do with: not reported, as it was not requested."""
PASSING: list[tuple[str, Change]] = [
    ("enough_queries", spec(min_query_count=490)),
    ("enough_time", full),
    ("latency_target", served(is_met=True)),
    ("loadgen", issued_by_loadgen(is_valid=True)),
    ("accuracy_floor", accuracy(0.93 * 0.98)),
    ("accuracy", accuracy(0.98 * 0.98)),
    ("agreement", differs(0.3, 0.31)),
    ("agreement_of_all", differs(0.0, 0.3)),
    ("delegation", delegates(("xnnpack",), ("xnnpack",))),
    ("delegation", delegates(("XnnpackExecutionProvider",), ("xnnpack",))),
    ("delegated_share", delegates(("xnnpack",), ("xnnpack",))),
    ("steady_share", measured(invoke_ns=latencies()[:245])),
    ("cpu_share", after_with_share(0.901)),
    ("scheduling", spec(cpus=(0, 1, 2, 3))),
    ("profile", profiled(operators=(OPERATOR,), profile_run_count=10)),
    ("harness_dominates", worker(harness=HarnessFacts(1_030, 1_030.0))),
    ("harness_share", worker(harness=HarnessFacts(2_000, 2_000.0))),
    ("binding_share", through_a_binding(3_000, 1_000)),
    ("binding_share", through_a_binding(2_000, None)),
    ("steady_state", steady(SteadyClass.WARMUP)),
    ("steady_state", steady(SteadyClass.NO_STEADY_STATE, 1000, 1009.9)),
    ("clock", own_clock(1.0099)),
    ("clock_drift", own_clock(0.9991)),
    ("clock_drift", against_the_host(-0.0005)),
    ("clock_drift", against_the_host(0.0015, 0.0006)),
    *(
        (name, lambda e, by=by: against_the_host(1e-6)(set_by(by)(e)))
        for name in ("clock", "clock_drift")
        for by in (1.0, 3 * 3600.0, -3.0, 56 * 365.25 * 86400.0)
    ),
    ("frequency", after(freq_hz=(2_360_000_000,) * 4)),
    ("frequency", after(freq_hz=(2_400_000_000, 800_000_000) * 2)),
    ("frequency", heat(freq_change_ratio=0.02)),
    ("yardstick", speed_after(integer_ns_per_unit=13_200.0 * 1.029)),
    ("yardstick", speed_after(memory_bytes_per_s=4.0e9 / 1.49)),
    ("yardstick", speed_after(memory_bytes_per_s=None)),
    # What the rule about heat names is not reported twice.
    ("frequency", heat(state=ThermalState.THROTTLED, cause="thermal", freq_change_ratio=0.4)),
    ("interference", heat(moved_ratio=0.05, moved_latency_ratio=2.5)),
    ("interference", heat(moved_ratio=0.37, moved_latency_ratio=0.96)),
    ("interference", heat(moved_ratio=0.04)),
    ("cpu_quota", throttled(used_up=0.0099)),
    ("background_load", busy(0.0999)),
    # What others do elsewhere does not affect a worker that is bound.
    ("background_load", occupied(1.0, 1.0, 1.0, 1.0, own=0.95, bound=(2,))),
    ("background_load", occupied(*[1.0] * 4, *[0.03] * 12, own=4.0, threads=4)),
    ("cpu_pressure", after(cpu_stall_s=0.55)),
    # Other tasks wait for each other on other CPUs.
    ("cpu_pressure", lambda e: after(cpu_stall_s=1.4)(ran((1.0, 0.01))(e))),
    # Threads without work: the model cannot be split any further.
    ("cpu_share", ran((1.0, 0.0), (0.4, 0.01), (0.4, 0.01), (0.4, 0.01))),
    ("cpu_share", lambda e: spec(threads=4)(after_with_share(3.61)(e))),
    ("suspended", after(suspended_ns=5_019_000_000)),
    ("suspended", after(suspended_ns=4_999_000_000)),
    ("suspended", stood_still(-0.019)),
    ("suspended", stood_still(3.0)),  # the host's clock stood still
    ("suspended", stood_still(-3.0, after_s=100.0)),
    ("suspended", measured(paused_s=0.49)),
    # Its threads were runnable: they waited for a CPU.
    ("suspended", lambda e: measured(paused_s=0.6)(ran((0.88, 0.12))(e))),
    *((name, phone()) for name in ("charging", "screen", "power_saver", "scheduling_group")),
    *((name, hot_phone(0)) for name in ("thermal_status", "thermal_status_moderate")),
    ("thermal_status_moderate", hot_phone(1)),
    ("phone_settings", in_airplane_mode(airplane_mode_ratio=1.0)),
    ("phone_settings", dimmed(screen_brightness=(40, 40))),
    ("scheduling_group", phone(AndroidGroups("/top-app", None, None))),
    ("energy_idle", energy(power_w_idle_after=1.199)),
    (
        "energy_idle",  # a device that idles as it works: only rounding separates its powers
        energy(power_w_mean=1.0, power_w_idle=1.0 - 1e-15, power_w_idle_after=1.0 - 1e-15),
    ),
]


def rule_of(verdict: Verdict, name: str) -> Finding:
    """Return the finding of one rule."""
    (found,) = [rule for rule in verdict.rules if rule.id == name]
    return found


def judged(evidence: Evidence) -> Verdict:
    """Return the verdict, with its sentences."""
    return described(judge(evidence))


def test_good_evidence_is_valid_and_every_rule_has_looked() -> None:
    """Otherwise a good run would be thrown away, or a rule would never be evaluated."""
    verdict = judge(good())
    assert verdict.state is State.VALID
    assert [rule.id for rule in verdict.rules] == [rule.id for rule in RULES]
    never_asked = {name for name, change in NEVER_ASKED if change is same}
    assert {rule.id: rule.outcome for rule in verdict.rules} == {
        rule.id: RuleOutcome.NOT_APPLICABLE if rule.id in never_asked else RuleOutcome.PASS
        for rule in RULES
    }
    assert verdict.failures == ()


@pytest.mark.parametrize(
    ("change", "unwatched"),
    [
        (lambda evidence: evidence, ()),
        (lambda evidence: unclocked(both(freq_hz=(), governors=())(evidence)), ("clock",)),
        (measured(throttling=None), ("heat",)),
        (both(cpu_busy_s=None, cpu_total_s=None, cpu_stall_s=None), ("load",)),
    ],
)
def test_verdict_names_what_nobody_watched(change: Change, unwatched: tuple[str, ...]) -> None:
    """Otherwise a run with an unreadable clock would be as valid as one with a steady clock."""
    found = judge(change(good()))
    assert (found.state, found.unwatched) == (State.VALID, unwatched)


@pytest.mark.parametrize(
    ("facts", "delegates", "limit"),
    [
        ({}, (), 0.05),
        ({}, ("xnnpack",), 0.05),
        ({}, ("CPUExecutionProvider",), 0.05),
        ({"precision": "fp16-weights"}, (), 0.05),
        ({}, ("/opt/libgpu.so",), 0.3),
        ({"quantized": (QuantizedOperands("float32", "int8", 8, is_qdq=False),)}, (), 0.3),
        ({"precision": "int8-dynamic"}, (), 0.3),
        ({"precision": None}, (), 0.3),
    ],
)
def test_limit_of_agreement_is_that_of_the_arithmetic(
    facts: dict[str, Any], delegates: tuple[str, ...], limit: float
) -> None:
    """Otherwise a float kernel with a wrong channel would pass by the limit of quantised ones."""
    for share, outcome in ((limit, RuleOutcome.PASS), (limit * 1.01, RuleOutcome.FAIL)):
        evidence = of_floats(differs(share, share)(good()), *delegates, **facts)
        assert rule_of(judged(evidence), "agreement").outcome is outcome


def test_outputs_that_never_change_are_suspect_and_the_latency_is_not() -> None:
    """Otherwise a dead classifier would agree with itself, or noise refuse a good one's latency."""
    verdict = judged(repeated(good()))
    found = rule_of(verdict, "agreement")
    assert (found.outcome, found.severity) == (RuleOutcome.FAIL, State.SUSPECT)
    assert found.detail.startswith("1 of 2 outputs of kernels has the same values for 4 different")
    assert verdict.suspect_kinds == (NumberKind.OUTPUTS,)


VARYING_OUTPUT = np.random.default_rng(3).normal(size=(4, 10))
CONSTANT_OUTPUTS: dict[str, tuple[Any, ...]] = {
    "classifier": (np.tile(np.linspace(0.0, 0.5, 10), (4, 1)),),
    "detector without a box": (VARYING_OUTPUT, np.zeros((4, 100, 4)) + np.arange(4.0)),
    "last of three": (VARYING_OUTPUT, VARYING_OUTPUT * 2, np.tile([1.0, 2.0], (4, 1))),
    "first of two": (np.full((4, 1), 7.0), VARYING_OUTPUT),
    "image": (np.tile(np.arange(64.0).reshape(1, 8, 8, 1), (4, 1, 1, 1)),),
}


@pytest.mark.parametrize("name", CONSTANT_OUTPUTS)
def test_constant_vector_of_any_output_makes_the_outputs_suspect(name: str) -> None:
    """Otherwise kernels would count as compared by an output that no kernel changes."""
    arrays: dict[str, Any] = {}
    for number, values in enumerate(CONSTANT_OUTPUTS[name]):
        arrays |= {f"{side}.{number}": np.asarray(values) for side in ("used", "reference")}
    specs = [TensorSpec(f"out{number}", (1,), "float32") for number in range(3)]
    found = agreement(arrays, specs, "kernels", distinct_count=4)
    verdict = judged(quality(agreement=found)(good()))
    assert rule_of(verdict, "agreement").outcome is RuleOutcome.FAIL
    assert verdict.suspect_kinds == (NumberKind.OUTPUTS,)


def test_random_outputs_differ_from_themselves() -> None:
    """Otherwise the kernels of the runtime would be blamed for an operator that draws numbers."""
    for change, is_random in ((drawn_at_random, True), (differs(1.4, 1.4), False)):
        rule = rule_of(judged(change(good())), "agreement")
        assert (rule.outcome, rule.severity) == (RuleOutcome.FAIL, State.INVALID)
        assert rule.detail.startswith("the model differs from itself") == is_random


@pytest.mark.parametrize("high_ratio", [0.17, 0.83])
def test_level_of_few_inferences_harms_the_tail_and_the_mean(high_ratio: float) -> None:
    """Otherwise a median that a second level does not touch would be distrusted."""
    verdict = judged(switching(high_ratio)(good()))
    assert verdict.state is State.SUSPECT
    assert verdict.suspect_kinds == (NumberKind.TAIL, NumberKind.MEAN, NumberKind.ENERGY)


@pytest.mark.parametrize("high_ratio", [0.3, 0.5, 0.7])
def test_level_of_many_inferences_harms_the_median_too(high_ratio: float) -> None:
    """Otherwise the median of a run that is half of the time on either level would be believed."""
    verdict = judged(switching(high_ratio)(good()))
    assert NumberKind.MEDIAN in verdict.suspect_kinds


@pytest.mark.parametrize(
    ("slow_count", "is_harmed"), [(1, False), (2, False), (3, True), (7, True)]
)
def test_few_slow_blocks_do_not_harm_the_median(slow_count: int, is_harmed: bool) -> None:
    """Otherwise a neighbour of a quarter of a second would make a median suspect."""
    blocks = (1e5,) * (10 - slow_count) + (1.2e5,) * slow_count
    verdict = judged(measured(stability=Stability(0.0, blocks, 0.2, None))(good()))
    assert rule_of(verdict, "block_stability").outcome is RuleOutcome.FAIL
    assert {NumberKind.TAIL, NumberKind.MEAN} <= set(verdict.suspect_kinds)
    assert (NumberKind.MEDIAN in verdict.suspect_kinds) is is_harmed


@pytest.mark.parametrize(
    ("slow_count", "is_harmed"), [(1, False), (2, False), (3, True), (7, True)]
)
def test_change_at_the_end_of_one_of_several_runs_does_not_harm_its_median(
    slow_count: int, is_harmed: bool
) -> None:
    """Otherwise a neighbour in the last tenth of two runs would make the set suspect."""
    blocks = (1e5,) * (10 - slow_count) + (1.2e5,) * slow_count
    stability = measured(stability=Stability(0.0, blocks, 0.05, None))
    drifting = steady(SteadyClass.NO_STEADY_STATE, 1000, 1200)(stability(good()))
    alone = judged(drifting)
    facts = replace(drifting.facts, member=SetMember("set-1", 0, 8))
    in_set = judged(replace(drifting, facts=facts))
    for verdict in (alone, in_set):
        assert [one.id for one in verdict.failures] == ["steady_state"]
        assert {NumberKind.TAIL, NumberKind.MEAN} <= set(verdict.suspect_kinds)
    assert NumberKind.MEDIAN in alone.suspect_kinds
    assert (NumberKind.MEDIAN in in_set.suspect_kinds) is is_harmed


@pytest.mark.parametrize("work", ["integer_ns_per_unit", "memory_bytes_per_s"])
def test_work_that_was_disturbed_before_the_run_is_accepted(work: str) -> None:
    """Otherwise a neighbour before the run would make its latencies suspect."""
    faster = {"integer_ns_per_unit": 13_200.0 / 2, "memory_bytes_per_s": 4.0e9 * 2}
    rule = rule_of(judged(speed_after(**{work: faster[work]})(good())), "yardstick")
    assert rule.outcome is RuleOutcome.PASS


def test_documentation_lists_what_each_rule_harms() -> None:
    """Otherwise a reader would distrust every number of a run with a bad meter."""
    page = (Path(__file__).parents[5] / "docs/verdict.md").read_text()
    table = page[page.index("| rule | harms |") : page.index("Three rules harm fewer")]
    rows = dict(re.findall(r"^\| ((?:`\w+`(?:, )?)+) \| ([a-z, ]+) \|$", table, re.M))
    told = {name: kinds for names, kinds in rows.items() for name in re.findall(r"`(\w+)`", names)}
    harms = {
        rule.id: ", ".join(
            kind.value.replace("_", " ") for kind in NumberKind if kind in rule.harms
        )
        for rule in RULES
        if rule.severity is State.SUSPECT and rule.harms != EVERY_NUMBER
    }
    assert told == harms, "write it: python devtools/write_verdict_tables.py"


def test_documentation_lists_the_causes() -> None:
    """Otherwise the page would explain a cause by rules that no longer show it."""
    tool = Path(__file__).parents[5] / "devtools/write_verdict_tables.py"
    done = subprocess.run([sys.executable, str(tool), "--check"], check=False)
    assert done.returncode == 0, "write it: python devtools/write_verdict_tables.py"


def test_clock_that_was_set_is_named() -> None:
    """Otherwise each board without a battery for its clock would refuse its first good run."""
    verdict = judged(against_the_host(1e-6)(set_by(10_800.0)(good())))
    assert verdict.state is State.VALID
    assert rule_of(verdict, "clock").detail == (
        "the wall clock was set by +3 h during the run; the monotonic clock, which times the "
        "inferences, agrees with the host's within 0.001 %"
    )


@pytest.mark.parametrize(("step_s", "by"), [(-3.0, "-3.00 s"), (1.7672e9, "+56 years")])
def test_clock_that_was_set_can_be_stored(step_s: float, by: str) -> None:
    """Otherwise a wall clock that was slewed back by 5 ms would cost the run."""
    found = rule_of(judged(against_the_host(1e-6)(set_by(step_s)(good()))), "clock")
    assert found.detail.startswith(f"the wall clock was set by {by} during the run")
    run = analyse_run(
        run_record(worker_record(latencies())),
        traces_of(latencies()),
        created_utc="2026-01-02T03:04:05+00:00",
        clock=None,
    )
    stored = replace(run, verdict=replace(run.verdict, rules=(found,)))
    assert from_document(json.loads(json.dumps(to_document(stored)))) == stored


def test_pause_suspend_and_step_are_told_apart() -> None:
    """Otherwise a paused virtual machine would be kept awake, and a busy one resumed."""
    slept = judged(after(suspended_ns=8_000_000_000)(stood_still(-3.0)(good())))
    stopped = judged(stood_still(-3.0)(good()))
    paused = judged(measured(paused_s=3.0)(good()))
    details = [rule_of(verdict, "suspended").detail for verdict in (slept, stopped, paused)]
    assert details == [
        "the device was suspended for 3 s during the run, limit 0.02 s",
        "all clocks of the device stood still for 3 s of the host's time, limit 0.02 s: its "
        "virtual machine was paused",
        "neither the model nor the sensor sampler ran for 3 s, limit 0.5 s, while the clock went "
        "on: the device, its virtual machine or its container was paused",
    ]
    assert rule_of(judged(set_by(3.0)(against_the_host(0.0)(good()))), "clock").reason == "set"


def test_paused_worker_shared_its_cpu_with_nobody() -> None:
    """Otherwise the advice for a paused machine would be to end other programs."""
    paused_s = 0.5 * _loop_ns(good()) / 1e9
    verdict = judged(measured(paused_s=paused_s)(after_with_share(0.5)(good())))
    assert {rule.id for rule in verdict.failures} == {"suspended"}


def test_device_that_slept_has_a_right_clock() -> None:
    """Otherwise a suspend would be reported as a clock that runs too slowly."""
    slept = after(suspended_ns=8_000_000_000)
    verdict = judged(against_the_host(0.0, slept_s=3.0)(slept(set_by(3.0)(good()))))
    failed = {one.id for one in verdict.failures}
    assert not failed & {"clock", "clock_drift"}, failed


def test_virtual_machine_is_named_and_fails_nothing() -> None:
    """Otherwise times of a shared machine would pass for a board's, or none be valid there."""
    environment = replace(ENVIRONMENT, virtualization="docker on KVM")
    verdict = judged(record(environment=environment)(good()))
    assert verdict.state is State.VALID
    detail = rule_of(verdict, "real_time").detail
    assert detail == "the CPU is real; the run was made in docker on KVM"


def test_documentation_lists_the_rules() -> None:
    """Otherwise a rule, or its effect on a run, would be missing from the documentation."""
    page = (Path(__file__).parents[5] / "docs/verdict.md").read_text()
    table = page[page.index("| rule |") : page.index("`agreement` and `agreement_of_all` name")]
    rows = [line.split(" | ") for line in table.splitlines() if line.startswith("| `")]
    told = {row[0].strip("|` "): re.split("[,; ]", row[-1])[0] for row in rows}
    assert told == {rule.id: rule.severity.value for rule in RULES}


def test_every_rule_has_evidence_that_fails_it() -> None:
    """Otherwise a rule could be added that can never fail."""
    assert {name for name, _, _ in FAILING} == {rule.id for rule in RULES}


@pytest.mark.parametrize(("name", "state", "change"), FAILING, ids=[case[0] for case in FAILING])
def test_rule_fails_on_its_evidence_alone(name: str, state: State, change: Change) -> None:
    """Otherwise a number that cannot be trusted would be printed as valid."""
    verdict = judged(change(good()))
    rule = rule_of(verdict, name)
    assert rule.outcome is RuleOutcome.FAIL
    assert (rule.severity, verdict.state) == (state, state)
    assert rule.detail
    assert "\n" not in rule.detail
    also = {BY_ID[name].includes, WITHOUT_ENERGY.get(name)} - {None}
    assert {failed.id for failed in verdict.failures} == {name} | also


@pytest.mark.parametrize("is_in_pair", [False, True])
@pytest.mark.parametrize("steady_class", [SteadyClass.SLOWDOWN, SteadyClass.NO_STEADY_STATE])
def test_one_of_several_runs_may_drift_within_the_precision(
    steady_class: SteadyClass, is_in_pair: bool
) -> None:
    """Otherwise every second set of a shared machine would be suspect.

    Its drift is within its interval.
    """
    pair, member = Pair("pairs-1", 0, BASELINE), SetMember("set-1", 0, 5)
    several: dict[str, Any] = {"pair": pair} if is_in_pair else {"member": member}
    outcomes = []
    for highest_ns in (1049, 1051):
        drifting = steady(steady_class, 1000, highest_ns)(good())
        one = replace(drifting, facts=replace(drifting.facts, **several))
        outcomes.append(rule_of(judged(one), "steady_state").outcome)
    assert outcomes == [RuleOutcome.PASS, RuleOutcome.FAIL]


def test_quota_is_named_where_the_worker_got_less_than_a_cpu() -> None:
    """Otherwise other processes would be blamed for the limit of the container."""
    of_loop_s = (good().worker.after.monotonic_ns - good().worker.before.monotonic_ns) / 1e9
    waiting = both(threads=(ThreadTime(7, 1.0, 1.0),))(throttled(used_up=0.9)(good()))
    threads = (ThreadTime(7, 1.0 + 0.5 * of_loop_s, 1.0 + 0.5 * of_loop_s),)
    verdict = judged(after(threads=threads)(after_with_share(0.5)(waiting)))
    failed = {one.id: one for one in verdict.failures}
    assert failed.keys() == {"cpu_quota", "cpu_share", "cpu_pressure"}
    assert "used up its CPU quota of 0.5 CPUs in" in failed["cpu_quota"].detail
    for name in ("cpu_share", "cpu_pressure"):
        assert "control group has a quota of 0.5 CPUs" in failed[name].detail
    assert {cause_of(one) for one in failed.values()} == {Cause.CPU_LIMIT}
    advised = {advice_for(one, Situation()) for one in failed.values()}
    assert len(advised) == 1, "one thing is to be done"
    assert "end other programs" not in str(advised.pop())


def test_worker_that_got_less_than_a_cpu_beside_an_unused_quota_has_another_reason() -> None:
    """Otherwise a quota that was never reached would hide the neighbour that took the CPU."""
    failed = judged(after_with_share(0.5)(throttled(used_up=0.0)(good()))).failures
    assert [(one.id, one.reason) for one in failed] == [("cpu_share", None)]


def test_code_that_was_seen_need_not_be_the_best_way() -> None:
    """Otherwise a slow meter, with arrivals finer than its code, would be another device's."""

    def seen(evidence: Evidence) -> Evidence:
        changed = unseen(evidence)
        assert changed.energy is not None
        assert changed.energy.sync is not None
        tried = (SyncAttempt(SyncMethod.CODED_LOAD, 5e6),)
        sync = replace(changed.energy.sync, tried=tried)
        return replace(changed, energy=replace(changed.energy, sync=sync))

    assert judge(seen(good())).state is State.VALID


def test_meter_that_does_not_see_the_device_work_is_suspect() -> None:
    """Otherwise a meter that is wired to another board would give joules of this one."""
    verdict = judged(unseen(good()))
    assert verdict.state is State.SUSPECT
    assert [failed.id for failed in verdict.failures] == ["energy_sync"]
    assert "is the meter wired to this device?" in verdict.failures[0].detail


def test_meter_that_sees_nothing_of_the_device_says_what_to_look_at() -> None:
    """Otherwise there would be no energy, with a correlation as the reason."""
    verdict = judged(blind(good()))
    assert [failed.id for failed in verdict.failures] == ["energy_sync"]
    detail = verdict.failures[0].detail
    assert detail == "coded_load: not seen; is the meter wired to this device?"


@pytest.mark.parametrize(("name", "change"), UNKNOWN, ids=[case[0] for case in UNKNOWN])
def test_rule_without_evidence_says_unknown_and_leaves_the_verdict(
    name: str, change: Change
) -> None:
    """Otherwise what was not measured would be guessed."""
    verdict = judge(change(good()))
    assert rule_of(verdict, name).outcome is RuleOutcome.UNKNOWN
    assert verdict.state is State.VALID


@pytest.mark.parametrize(("name", "change"), NEVER_ASKED, ids=[case[0] for case in NEVER_ASKED])
def test_rule_that_was_never_asked_is_told_from_one_that_cannot_tell(
    name: str, change: Change
) -> None:
    """Otherwise 8 of 14 unknown rules would be about what the run has nothing to do with."""
    verdict = judged(change(good()))
    assert rule_of(verdict, name).outcome is RuleOutcome.NOT_APPLICABLE
    assert rule_of(verdict, name).detail


@pytest.mark.parametrize(("name", "change"), PASSING, ids=[case[0] for case in PASSING])
def test_rule_passes_at_its_limit(name: str, change: Change) -> None:
    """Otherwise a limit would be off by one."""
    assert rule_of(judge(change(good())), name).outcome is RuleOutcome.PASS


def test_more_threads_than_cpus_are_the_cause_that_is_told() -> None:
    """Otherwise, with forty threads waiting for each other, the advice would be wrong.

    It would be to end other programs.
    """
    evidence = ran(*[(0.5, 0.5)] * 4)(good())
    scheduling = replace(evidence.worker.scheduling, cpus=(0, 1))
    verdict = judged(worker(scheduling=scheduling)(evidence))
    rule = rule_of(verdict, "cpu_pressure")
    assert rule.detail == (
        "more threads (4) than CPUs (2): a thread waited during 50.0 % of the run, limit 5 %"
    )
    assert str(advice_for(rule, Situation())).endswith(
        "no more threads than CPUs: edgebench bench MODEL --threads 2"
    )


def test_advice_for_a_share_of_the_binding_makes_the_inference_longer() -> None:
    """Otherwise the advice would be followed, and the rule fail again."""
    rule = rule_of(judged(through_a_binding(3_200, 1_000)(good())), "binding_share")
    open_inputs = Situation(larger_shapes={"ids": (8, 1), "mask": (8, 1)})
    first, second = str(advice_for(rule, open_inputs)).split("; or ")
    assert first.endswith("edgebench bench MODEL --shape ids=8x1 --shape mask=8x1")
    assert second.startswith("use the latency only for programs in Python")
    assert str(advice_for(rule, Situation())) == second, "a fixed shape cannot be changed"


def test_binding_that_is_slow_beside_other_programs_is_an_effect_of_them() -> None:
    """Otherwise a larger model would be advised where another program took the caches."""
    [diagnosis] = diagnose(judged(through_a_binding(3_200, 1_000)(busy(0.11)(good()))))
    assert diagnosis.cause is Cause.OTHER_PROGRAMS
    assert "binding_share" in [finding.id for finding in diagnosis.effects]


@pytest.mark.parametrize(
    ("component", "is_of_instrument", "advised"),
    [
        (
            "offset of range 3",
            True,
            "use a smaller range of the meter, or a meter for smaller powers: ",
        ),
        (
            "in step",
            False,
            "measure for longer: edgebench bench MODEL --meter METER --duration 120s",
        ),
    ],
)
def test_advice_for_an_uncertain_energy_is_about_its_largest_component(
    component: str, is_of_instrument: bool, advised: str
) -> None:
    """Otherwise a longer run would be advised against an offset, which every run has."""
    uncertain = energy_uncertain(
        energy_j=0.3,
        u95_j=0.28,
        limit_j=0.27,
        component=component,
        is_of_instrument=is_of_instrument,
    )
    refused = replace(REFUSED, refusal=(uncertain,))
    rule = rule_of(judged(replace(good(), energy=refused)), "energy")
    assert rule.detail.startswith("refused: energy is 0.3 ± 0.28 J, limit ± 0.27 J; ")
    assert str(advice_for(rule, Situation())).startswith(advised)


def test_four_threads_that_got_one_cpu_are_told() -> None:
    """Otherwise four threads on one CPU would have 100 % of it, which is what one thread needs."""
    verdict = judged(ran(*[(0.25, 0.75)] * 4)(good()))
    assert [rule.id for rule in verdict.failures] == ["cpu_pressure", "cpu_share"]
    assert rule_of(verdict, "cpu_share").detail == (
        "the worker's 4 threads had 1.00 CPUs during the run: 25.0 % of what they could have used, "
        "at least 90 % needed"
    )


def test_thread_that_was_made_in_the_loop_counts_from_its_beginning() -> None:
    """LoadGen's own thread runs the model, and does not exist yet when the loop begins."""
    evidence = ran((0.1, 0.0), (0.9, 0.3))(good())
    before = evidence.worker.before
    late = worker(before=replace(before, threads=before.threads[:1]))(evidence)
    late = spec(threads=1)(late)
    assert rule_of(judge(late), "cpu_pressure").outcome is RuleOutcome.FAIL


def test_worst_rule_decides_and_comes_first() -> None:
    """Otherwise a suspect detail would hide that the number is worthless."""
    verdict = judge(busy(0.5)(worker(output=OutputFacts("", is_finite=False))(good())))
    assert verdict.state is State.INVALID
    assert [rule.id for rule in verdict.failures] == ["finite_outputs", "background_load"]


def test_details_tell_the_value_and_the_limit() -> None:
    """Otherwise the user would read that something is wrong, but not by how much."""
    verdict = judged(spec(min_query_count=501)(good()))
    assert rule_of(verdict, "enough_queries").detail == "490 queries, at least 501 needed"
    verdict = judged(spec(min_query_count=501, max_duration_s=600.0)(good()))
    assert rule_of(verdict, "enough_queries").detail == (
        "490 queries, at least 501 needed: the run ended at its maximum of 600 s"
    )


def test_server_run_whose_latest_queries_were_cut_off_is_invalid() -> None:
    """Otherwise the queries that waited longest would be left out, and the tail look better."""
    evidence = record(outcome=Outcome.INTERRUPTED)(served(is_met=True)(good()))
    longest_s = evidence.loop_s
    rule = rule_of(judged(spec(max_duration_s=longest_s)(evidence)), "complete")
    assert rule.detail == (
        "run interrupted: queries were still waiting at the run's maximum duration of "
        f"{longest_s:g} s"
    )
    stopped = rule_of(judged(spec(max_duration_s=2 * longest_s)(evidence)), "complete")
    assert stopped.detail == "run interrupted"


def test_missed_target_tells_what_was_reached_or_how_many_queries_are_needed() -> None:
    """Otherwise “0 of 262 took over 40 ms” would be the reason of a failure and of a success."""
    evidence = served(is_met=False)(good())
    rule = rule_of(judged(evidence), "latency_target")
    assert "p99 is" in rule.detail
    assert "of 10 queries per second were completed" in rule.detail
    few = replace(evidence.measured, early_stopping=EarlyStopping(None, None, 0, False))
    rule = rule_of(judged(replace(evidence, measured=few)), "latency_target")
    assert rule.detail.endswith(
        "too few queries to decide whether p99 meets the target; 459 are enough"
    )


def test_zero_latencies_do_not_divide_by_zero() -> None:
    """Otherwise a clock that does not move would crash the analysis."""
    assert judge(measured(invoke_ns=np.zeros(500, np.int64))(good())).state is State.INVALID


def test_error_is_better_when_it_is_lower() -> None:
    """Otherwise a model with half the error of its reference would be called invalid."""
    reference = ReferenceAccuracy("run-1", "fp32", 2.0)
    better = replace(accuracy(1.0, "mean_abs_error")(good()), facts=HostFacts("d", "", reference))
    worse = replace(accuracy(4.0, "mean_abs_error")(good()), facts=HostFacts("d", "", reference))
    assert rule_of(judge(better), "accuracy").outcome is RuleOutcome.PASS
    assert rule_of(judge(worse), "accuracy_floor").outcome is RuleOutcome.FAIL
    assert accuracy_drop(Accuracy("mean_abs_error", 4.0, None, 1), reference) == 2.0
    assert accuracy_drop(Accuracy("top1", 0.5, None, 1), ReferenceAccuracy("", "", 0.75)) == 0.25


def test_data_set_that_was_not_answered_fails() -> None:
    """Otherwise a run would be valid without the accuracy that was requested."""
    evidence = spec(dataset_sha256="ab" * 32)(quality(accuracy=None)(good()))
    assert judge(evidence).state is State.INVALID


def test_data_set_whose_labels_are_elsewhere_is_unknown() -> None:
    """Otherwise a run that another host requested, collected here, would be called wrong."""
    asked = spec(dataset_sha256="ab" * 32)(quality(accuracy=None)(good()))
    answered = worker(check=replace(asked.worker.check, dataset_sample_count=360))(asked)
    verdict = judged(answered)
    assert verdict.state is State.VALID
    assert rule_of(verdict, "accuracy").outcome is RuleOutcome.UNKNOWN
    assert "labels of the data set are on another host" in rule_of(verdict, "accuracy").detail


def test_reason_why_a_data_set_was_not_answered_is_told() -> None:
    """Otherwise a missing accuracy would be reported, but not that the shapes do not fit."""
    asked = spec(dataset_sha256="ab" * 32)(quality(accuracy=None)(good()))
    failed = worker(check=replace(asked.worker.check, dataset_error="shape [4]"))(asked)
    assert rule_of(judged(failed), "accuracy_floor").detail == "shape [4]"


def test_frequencies_of_sleeping_cpus_do_not_divide_by_zero() -> None:
    """Otherwise a CPU that is off would read as 0 Hz, and crash the analysis of every run there."""
    verdict = judge(both(freq_hz=(0, 0))(good()))
    assert rule_of(verdict, "frequency").outcome is RuleOutcome.UNKNOWN


@pytest.mark.parametrize(
    ("change", "is_named"),
    [
        (in_real_time(0.069), True),
        (in_real_time(0.3), False),
        (in_real_time(0.06, runtime_s=None), False),
        (ran((0.94, 0.06)), False),
    ],
)
def test_stop_of_a_real_time_task_is_named(change: Change, is_named: bool) -> None:
    """Otherwise the advice would be to end other programs, which stopped nothing."""
    found = rule_of(judged(change(good())), "cpu_pressure")
    assert found.outcome is RuleOutcome.FAIL
    assert ("sched_rt_runtime_us" in str(found.detail)) == is_named


def test_pauses_of_a_real_time_loop_are_no_lack_of_a_cpu() -> None:
    """Otherwise a loop that leaves its CPU to others would seem to have lost it to them."""
    evidence = good()
    lost_s = 0.15 * evidence.loop_s
    for paused_s, outcome in ((0.0, RuleOutcome.FAIL), (lost_s, RuleOutcome.PASS)):
        changed = in_real_time(0.0, paused_s=paused_s)(evidence)
        share = after_with_share(0.85)(changed)
        assert rule_of(judge(share), "cpu_share").outcome is outcome
