"""Numbers computed from the traces of a run, before the verdict."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgebench.host.analysis.energy.power_trace import PowerTrace
from edgebench.host.analysis.latency import early_stopping
from edgebench.host.analysis.latency.clock_step import clock_step_ns
from edgebench.host.analysis.latency.mllog import read_result
from edgebench.host.analysis.latency.outliers import label_outliers
from edgebench.host.analysis.latency.queries import Nanoseconds, Queries
from edgebench.host.analysis.latency.stability import comes_back, find_levels, stability
from edgebench.host.analysis.latency.summary import summarize
from edgebench.host.analysis.latency.warmup import SteadyClass, SteadyState, find_steady_state
from edgebench.host.analysis.outputs import OutputQuality, Outputs, judge_outputs
from edgebench.host.analysis.pauses import paused_s
from edgebench.host.analysis.phone import PhoneConditions, phone_conditions
from edgebench.host.analysis.thermal.telemetry import TelemetryTrace
from edgebench.host.analysis.thermal.throttling import find_throttling
from edgebench.host.analysis.thermal.timeline import Timeline
from edgebench.host.result.facts import HostFacts
from edgebench.host.result.latency import (
    EarlyStopping,
    LatencySummary,
    LoadgenResult,
    Outliers,
    Stability,
)
from edgebench.host.result.thermal import ThermalResult
from edgebench.protocol.errors import MeasurementError
from edgebench.protocol.record import RunRecord, WorkerRecord
from edgebench.protocol.spec import Engine, RunSpec, samples_per_query


@dataclass(frozen=True, slots=True)
class TargetTraces:
    """Raw data of a device that timed itself, in addition to its record."""

    outputs: Outputs = field(default_factory=dict[str, NDArray[Any]])
    labels: Outputs = field(default_factory=dict[str, NDArray[Any]])
    """Labels of the data set under the name `y`; its samples under `x` if the metric needs them."""
    facts: HostFacts = field(default_factory=HostFacts)
    power: PowerTrace | None = None


@dataclass(frozen=True, slots=True)
class Traces:
    """Raw data of a run, in addition to its record."""

    queries: Queries
    outputs: Outputs = field(default_factory=dict[str, NDArray[Any]])
    labels: Outputs = field(default_factory=dict[str, NDArray[Any]])
    """Labels, as in `TargetTraces`."""
    facts: HostFacts = field(default_factory=HostFacts)
    loadgen_log: str | None = None
    """LoadGen's detail log; None if LoadGen did not issue the queries."""
    telemetry: TelemetryTrace = field(default_factory=TelemetryTrace)
    power: PowerTrace | None = None


@dataclass(frozen=True, slots=True)
class Measurement:
    """Numbers of a run."""

    traces: Traces
    """Raw data of the run, from which rules compute the numbers that no other code needs."""
    steady: SteadyState
    first_row: int
    """First row that counts, which follows the issued warm-up and the detected warm-up."""
    invoke_ns: Nanoseconds
    """Counted invocations, shape (n,)."""
    invoke: LatencySummary
    query_ns: Nanoseconds | None
    """Latencies of counted queries. None for the offline scenario, which has a single query. Also
    None for LoadGen's server scenario, whose due times are unknown."""
    query: LatencySummary | None
    outliers: Outliers
    stability: Stability
    early_stopping: EarlyStopping
    span_ns: int
    """Time from the start of the first counted inference to the end of the last."""
    warmup_ns: int
    quality: OutputQuality
    loadgen: LoadgenResult | None = None
    throttling: ThermalResult | None = None
    """Thermal result; None if the run has no timeline."""
    phone: PhoneConditions = field(default_factory=PhoneConditions)
    """State of a phone; empty for other devices."""
    clock_step_ns: float | None = None
    """Step of the clock that timed the inferences; None if the step is too fine to matter."""
    paused_s: float | None = None
    """Time in which neither the worker nor the sampler ran; None without telemetry."""

    @property
    def query_count(self) -> int:
        """Number of counted queries; in the offline scenario, number of counted samples."""
        return len(self.invoke_ns) if self.query_ns is None else len(self.query_ns)

    @property
    def warmup_change_ratio(self) -> float | None:
        """Relative change of the median if the warm-up were included; None without a warm-up."""
        issued = self.traces.queries.warmup_count
        if self.first_row <= issued:
            return None
        whole_ns = float(np.median(self.traces.queries.invoke_ns[issued:]))
        return whole_ns / max(float(np.median(self.invoke_ns)), 1.0) - 1

    @property
    def throughput_per_s(self) -> float | None:
        """Inferences per second; None if the counted inferences took no time."""
        return len(self.invoke_ns) * 1e9 / self.span_ns if self.span_ns > 0 else None


def measure_traces(record: RunRecord, worker: WorkerRecord, traces: Traces) -> Measurement:
    """Compute the numbers of a run.

    Raises:
        MeasurementError: a trace is empty or impossible.
    """
    spec, queries = record.spec, traces.queries
    queries.check()
    if len(queries) != worker.query_count:
        raise MeasurementError(
            f"query trace has {len(queries)} rows, the worker reports {worker.query_count} queries"
        )
    steady = _steady_state(queries, spec)
    # The longer of the issued and the detected warm-up, in whole queries.
    first_row = queries.warmup_count
    if steady.steady_class is SteadyClass.WARMUP and steady.first_steady_index is not None:
        first_row = max(first_row, steady.first_steady_index)
    first_row += (queries.warmup_count - first_row) % samples_per_query(spec)
    invoke_ns = queries.invoke_ns[first_row:]
    if not len(invoke_ns):
        raise MeasurementError("no query was measured")
    query_ns = None
    # Only LoadGen has the due times of the queries in its server scenario.
    if spec.engine is not Engine.LOADGEN or not spec.scenario.traits.is_scheduled:
        query_ns = queries.query_ns(spec, first_row)
    step_ns = _step_ns(record, invoke_ns)
    realtime = worker.scheduling.realtime
    is_paused = bool(spec.jitter_s) or (realtime is not None and realtime.paused_s > 0)
    return Measurement(
        traces=traces,
        steady=steady,
        first_row=first_row,
        invoke_ns=invoke_ns,
        clock_step_ns=step_ns,
        invoke=summarize(invoke_ns, step_ns),
        query_ns=query_ns,
        query=None if query_ns is None or not len(query_ns) else summarize(query_ns, step_ns),
        outliers=label_outliers(invoke_ns),
        stability=stability(invoke_ns, queries.start_ns[first_row:], int(queries.end_ns[-1])),
        early_stopping=_early_stopping(queries, query_ns, spec),
        span_ns=queries.span_ns(first_row, is_paused=is_paused),
        warmup_ns=int(queries.end_ns[first_row - 1] - queries.start_ns[0]) if first_row else 0,
        quality=judge_outputs(
            worker.check, worker.outputs, traces.outputs, traces.labels, traces.facts.metric
        ),
        loadgen=_loadgen(traces.loadgen_log),
        throttling=find_throttling(
            Timeline(queries.start_ns[first_row:], invoke_ns),
            traces.telemetry,
            record.expected,
            threads=max(1, spec.threads),
            placement=worker.placement,
        ),
        paused_s=paused_s(queries, traces.telemetry),
        phone=phone_conditions(
            traces.telemetry, worker.before.monotonic_ns, worker.after.monotonic_ns
        ),
    )


def _loadgen(log: str | None) -> LoadgenResult | None:
    """LoadGen's result; None if LoadGen was stopped before its end, or its log is damaged.

    The measured numbers are kept in either case.
    """
    try:
        return None if log is None else read_result(log)
    except MeasurementError:
        return None


def _step_ns(record: RunRecord, invoke_ns: Nanoseconds) -> float | None:
    """The larger of the clock step that the agent reports and the step that the durations show.

    If the inferences take close to a whole number of steps, all durations are equal and show no
    step. Older agents do not describe the clock.
    """
    described = record.environment.clock
    steps_ns = clock_step_ns(invoke_ns), described.step_ns if described else None
    return max((step_ns for step_ns in steps_ns if step_ns is not None), default=None)


def _steady_state(queries: Queries, spec: RunSpec) -> SteadyState:
    """Steady state of the inferences, including the warm-up if it was issued in the same way.

    The warm-up of a server run is excluded, because it has no gaps. In the timed part, other data
    replaces the model's data in the caches during the gaps between arrivals. If
    latencies as high as in the warm-up occur again later in the run, the warm-up is not cut.
    """
    timed = slice(queries.warmup_count, None)
    if not spec.scenario.traits.is_scheduled:
        steady = find_steady_state(queries.invoke_ns)
    else:
        steady = find_steady_state(queries.invoke_ns[timed])
        if steady.first_steady_index is not None:
            first = steady.first_steady_index + queries.warmup_count
            steady = replace(steady, first_steady_index=first)
    end_ns = int(queries.end_ns[-1])
    is_switching = bool(find_levels(queries.invoke_ns[timed], queries.start_ns[timed], end_ns))
    first_index = steady.first_steady_index
    if steady.steady_class is SteadyClass.WARMUP and first_index is not None:
        is_switching |= comes_back(queries.invoke_ns, queries.warmup_count, first_index)
    if not is_switching:
        return steady
    return replace(steady, steady_class=SteadyClass.SWITCHING, first_steady_index=None)


def _early_stopping(queries: Queries, query_ns: Nanoseconds | None, spec: RunSpec) -> EarlyStopping:
    if query_ns is None or not len(query_ns):
        return EarlyStopping()
    if spec.scenario.traits.is_scheduled:
        # Every arrival counts: a device that falls behind at first does not meet its target.
        query_ns = queries.query_ns(spec, queries.warmup_count)
        if spec.target_latency_s is None or query_ns is None:
            return EarlyStopping()
        over = int(np.count_nonzero(query_ns > spec.target_latency_s * 1e9))
        passes = early_stopping.server_passes(len(query_ns), over, spec.target_percentile)
        return EarlyStopping(over_latency_count=over, is_target_met=passes)
    ordered = np.sort(query_ns)
    return EarlyStopping(
        p90_ns=early_stopping.estimate(ordered, 0.90), p99_ns=early_stopping.estimate(ordered, 0.99)
    )
