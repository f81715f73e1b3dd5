"""Quick sets of runs on simulated devices, in no time, by the detector and the rules of every run.

A `HotRun` is simulated as a whole, with the model at rest between the runs of the set, and cut into
its runs. What is not about heat is that of a good run.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np

from edgebench.host.analysis.latency.stability import stability
from edgebench.host.analysis.latency.warmup import drift_ratio, find_steady_state
from edgebench.host.analysis.measurement import Measurement, measure_traces
from edgebench.host.analysis.run import analyse_run
from edgebench.host.analysis.run_set import find_set
from edgebench.host.analysis.thermal.telemetry import Series, TelemetryTrace
from edgebench.host.analysis.thermal.throttling import find_throttling
from edgebench.host.analysis.thermal.timeline import Timeline
from edgebench.host.analysis.verdict.evidence import Evidence
from edgebench.host.analysis.verdict.judge import judge
from edgebench.host.result.facts import HostFacts, SetMember
from edgebench.host.result.run import Run
from edgebench.host.result.run_set import RunSet
from edgebench.protocol.record import RunRecord, WorkerRecord
from edgebench.protocol.thermal import Expectation
from support.changes import changed
from support.hot_runs import Device, HotRun, Load, simulate
from support.records import latencies, run_record, traces_of, worker_record

RUNS, RUN_S, WARMUP_S, GAP_S = 8, 1.25, 0.5, 0.8
"""A quick set: runs, the duration of each, its warm-up, and its launch, in which nothing runs."""
BEGINS_S = tuple(GAP_S + WARMUP_S + number * (GAP_S + WARMUP_S + RUN_S) for number in range(RUNS))
"""Start of each timed loop, from the start of the set."""


def quick_set(device: Device, expected: Expectation, *, seed: int, hot_s: float = 0.0) -> RunSet:
    """Measure a quick set on the device, after the model ran on it for so long."""
    begins_s = [hot_s + begin_s for begin_s in BEGINS_S]
    whole = simulate(device, seconds=begins_s[-1] + RUN_S, seed=seed, load=_load(hot_s, begins_s))
    parts = [_part(whole, begin_s, begin_s + RUN_S) for begin_s in begins_s]
    return find_set([_run(part, expected, number) for number, part in enumerate(parts)])


def _load(hot_s: float, begins_s: list[float]) -> Load:
    def load(time_s: float) -> float:
        is_run = any(begin_s - WARMUP_S <= time_s < begin_s + RUN_S for begin_s in begins_s)
        return 1.0 if time_s < hot_s or is_run else 0.0

    return load


def _part(whole: HotRun, begin_s: float, end_s: float) -> HotRun:
    begin_ns, end_ns = int(begin_s * 1e9), int(end_s * 1e9)
    timeline = whole.timeline
    inside = (timeline.start_ns >= begin_ns) & (timeline.start_ns < end_ns)
    series: dict[str, Series] = {}
    for name, one in whole.telemetry.series.items():
        kept = (one.time_ns >= begin_ns) & (one.time_ns <= end_ns)
        if kept.any():
            series[name] = Series(one.time_ns[kept], one.value[kept])
    trace = TelemetryTrace(series, whole.telemetry.constants)
    return HotRun(Timeline(timeline.start_ns[inside], timeline.invoke_ns[inside]), trace)


@cache
def _good() -> tuple[RunRecord, WorkerRecord, Measurement, Run]:
    worker = worker_record(latencies())
    record, traces = run_record(worker), traces_of(latencies())
    run = analyse_run(record, traces, created_utc="2026-01-02", clock=None)
    return record, worker, measure_traces(record, worker, traces), run


def _run(part: HotRun, expected: Expectation, number: int) -> Run:
    record, worker, measured, run = _good()
    throttling = find_throttling(part.timeline, part.telemetry, expected)
    steady = find_steady_state(part.timeline.invoke_ns)
    record = replace(record, expected=expected)
    worker = replace(worker, yardstick=None)
    facts = HostFacts(member=SetMember("set-00000001", number, RUNS))
    timeline = part.timeline
    end_ns = int(timeline.start_ns[-1] + timeline.invoke_ns[-1])
    stable = stability(timeline.invoke_ns, timeline.start_ns, end_ns)
    measured = replace(measured, throttling=throttling, steady=steady, stability=stable)
    median_ns = float(np.median(part.timeline.invoke_ns))
    return changed(
        run,
        {
            "run_id": f"20260102-030405-{number:08d}",
            "member": facts.member,
            "metrics.thermal": throttling,
            "metrics.latency_ns.p50": int(median_ns),
            "metrics.stability": stable,
            "metrics.warmup.level_range_ratio": drift_ratio(steady),
            # The yardstick is not simulated: the sensors alone have to show the heat.
            "conditions.yardstick": None,
            "verdict": judge(Evidence(record, worker, measured, facts)),
        },
    )
