"""run.json: the document of a run, computed from the agent's record and the traces.

Pure: the same record and traces give the same document, which is how `edgebench verify` finds
out that a stored one was changed. Keys may be added with a higher `SCHEMA_VERSION`, never
renamed.
"""

from __future__ import annotations

from datetime import datetime, timezone
from typing import Any

from edgebench.host.analysis.energy.result import RunEnergy
from edgebench.host.analysis.energy.run import Asked, find_energy
from edgebench.host.analysis.energy.windows import Timed
from edgebench.host.analysis.measurement import HostFacts, Measurement, Traces, measure_traces
from edgebench.host.analysis.thermal.throttling import Throttling
from edgebench.host.analysis.verdict.evidence import Evidence
from edgebench.host.analysis.verdict.judge import Verdict, judge
from edgebench.host.analysis.verdict.machine import background_busy_ratio
from edgebench.host.analysis.verdict.outputs import accuracy_drop
from edgebench.host.result.energy_document import energy_document
from edgebench.protocol.clock import ClockModel, ClockProbe, fit
from edgebench.protocol.codec import to_plain
from edgebench.protocol.errors import MeasurementError
from edgebench.protocol.record import RunRecord, TelemetryFacts, WorkerRecord
from edgebench.protocol.spec import RunSpec, Scenario

SCHEMA_VERSION = 6
RUN_ID_TIME = "%Y%m%d-%H%M%S"
"""Run ids begin with the time in UTC."""


def build_document(
    record: RunRecord, traces: Traces, *, created_utc: str, clock: ClockModel | None
) -> dict[str, Any]:
    """The document of a run that measured something.

    Raises:
        MeasurementError: the trace is empty or cannot be true.
    """
    worker = record.worker
    if worker is None:
        raise MeasurementError("the run measured nothing")
    measured, energy, verdict = _computed(record, worker, traces, clock)
    return {
        "schema_version": SCHEMA_VERSION,
        "run_id": record.run_id,
        "created_utc": created_utc,
        "kind": "profile" if record.spec.is_profiled else "measurement",
        "pair": to_plain(traces.facts.pair),
        "simulated": record.simulated,
        "emulated": record.emulated,
        "spec": to_plain(record.spec),
        "model": to_plain(worker.model),
        "device": to_plain(record.device),
        "runtime": to_plain(worker.runtime) | {"placement": to_plain(worker.placement)},
        "metrics": _metrics(record.spec, worker, measured, traces.facts)
        | {"energy": energy_document(energy)},
        "environment": to_plain(record.environment),
        "conditions": _conditions(record, worker, clock) | {"ambient_c": traces.facts.ambient_c},
        "verdict": _verdict(verdict),
    }


def _computed(
    record: RunRecord, worker: WorkerRecord, traces: Traces, clock: ClockModel | None
) -> tuple[Measurement, RunEnergy | None, Verdict]:
    try:
        measured = measure_traces(record, worker, traces)
        energy = _energy(record, worker, traces, measured, clock)
        return measured, energy, judge(Evidence(record, worker, measured, traces.facts, energy))
    except MeasurementError:
        raise
    except (ArithmeticError, LookupError, ValueError, TypeError, RecursionError) as exc:
        # Whatever a device sends: what cannot be computed is not stored, and blocks nobody.
        raise MeasurementError(f"record makes no sense: {type(exc).__name__}: {exc}") from exc


def headline_ns(document: dict[str, Any]) -> dict[str, Any]:
    """The latencies that a run is about.

    Of invocations in a single stream, of queries in the other scenarios; empty for a profile,
    which is about its operators.
    """
    metrics = document["metrics"]
    is_single = document["spec"]["scenario"] == Scenario.SINGLE_STREAM.value
    found = None if is_single else metrics["end_to_end_ns"]
    return found or metrics["latency_ns"] or {}


def created_utc(run_id: str) -> str | None:
    """The time that a run id begins with; a run may be stored long after it was made."""
    try:
        made = datetime.strptime(run_id[:15], RUN_ID_TIME)
    except ValueError:
        return None
    return made.replace(tzinfo=timezone.utc).isoformat()


def fit_clock(probes: list[list[ClockProbe]], record: RunRecord) -> ClockModel | None:
    """The clock model of a run; None when no probe was taken (the host was away)."""
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
) -> RunEnergy | None:
    """The energy of a run that asked for it, from a meter of the host or of the agent."""
    facts = traces.facts
    meter = facts.meter or record.spec.meter
    if meter is None:
        return None
    asked = Asked(meter=meter, sync=facts.sync, battery_capacity_j=facts.battery_capacity_j)
    timed = Timed(traces.queries, measured.first_row)
    return find_energy(record, worker, timed, traces.power, clock, asked)


def _metrics(
    spec: RunSpec, worker: WorkerRecord, measured: Measurement, facts: HostFacts
) -> dict[str, Any]:
    # A profile slows its own run down: its latencies are no headline.
    is_headline = not spec.is_profiled
    return {
        "latency_ns": to_plain(measured.invoke) if is_headline else None,
        "end_to_end_ns": to_plain(measured.query) if is_headline else None,
        "throughput_per_s": measured.throughput_per_s if is_headline else None,
        "early_stopping": to_plain(measured.early_stopping) if is_headline else None,
        "outliers": to_plain(measured.outliers),
        "warmup": {
            "class": measured.steady.steady_class.value if measured.steady.steady_class else None,
            "query_count": measured.first_row,
            "duration_ns": measured.warmup_ns,
        },
        **_costs(worker),
        "accuracy": _accuracy(measured, facts),
        "agreement": to_plain(measured.agreement),
        "loadgen": to_plain(measured.loadgen),
        "thermal": _thermal(measured.throttling),
        "profile": _profile(worker, measured) if spec.is_profiled else None,
    }


def _costs(worker: WorkerRecord) -> dict[str, Any]:
    """What the worker itself found out: its start, its memory, its own loop."""
    start, memory, harness = worker.cold_start, worker.memory, worker.harness
    return {
        "cold_start_ns": {
            "import": start.import_ns,
            "load": start.load_ns,
            "first_inference": start.first_inference_ns,
        },
        "memory_bytes": {
            "peak_rss": memory.peak_rss_bytes,
            "steady_rss": memory.steady_rss_bytes,
            "steady_pss": memory.steady_pss_bytes,
            "model": memory.model_bytes,
            "arena": memory.arena_bytes,
        },
        "harness_ns": {
            "p50": harness.p50_ns,
            "per_query": harness.per_query_ns,
            "end_to_end_p50": harness.end_to_end_p50_ns,
        },
    }


def _accuracy(measured: Measurement, facts: HostFacts) -> dict[str, Any] | None:
    found = measured.accuracy
    if found is None:
        return None
    drop = accuracy_drop(found, facts.reference)
    reference = to_plain(facts.reference) if facts.reference else None
    plain: dict[str, Any] = to_plain(found)
    return plain | {
        "dataset": facts.dataset,
        "drop_vs_reference": drop,
        "reference": reference,
    }


def _profile(worker: WorkerRecord, measured: Measurement) -> dict[str, Any]:
    """The operators, and what the profiler itself costs beside the unprofiled pass before it."""
    check = worker.check
    total_ns = sum(operator.total_ns for operator in check.operators)
    per_run_ns = total_ns / check.profile_run_count if check.profile_run_count else None
    return {
        "run_count": check.profile_run_count,
        "operators": to_plain(check.operators),
        "sum_ns_per_inference": per_run_ns,
        "unprofiled_p50_ns": measured.invoke.p50,
        "error": check.profile_error,
    }


def _conditions(
    record: RunRecord, worker: WorkerRecord, clock: ClockModel | None
) -> dict[str, Any]:
    return {
        "load_1m_before": record.environment.load_1m,
        "load_1m_after": record.load_1m_after,
        "before": to_plain(worker.before),
        "after": to_plain(worker.after),
        "scheduling": to_plain(worker.scheduling),
        "background_busy_ratio": background_busy_ratio(worker),
        "sample_count": worker.sample_count,
        "expected": to_plain(record.expected),
        "cooldown": to_plain(record.cooldown),
        "telemetry": _telemetry(record.telemetry),
        "telemetry_absent": {item.sensor: item.reason for item in record.telemetry.absent},
        "clock": to_plain(clock) if clock else None,
        "marks": to_plain(worker.sync),
        "metered": to_plain(record.metered),
        "output_sha256": worker.output.sha256,
        "inputs": to_plain(worker.inputs),
        "outputs": to_plain(worker.outputs),
        "power_source": None,
    }


def _thermal(found: Throttling | None) -> dict[str, Any] | None:
    return None if found is None else {"verdict": found.verdict} | to_plain(found)


def _telemetry(facts: TelemetryFacts) -> dict[str, Any]:
    """What was sampled, and what that cost."""
    return {
        "sensors": list(facts.sensors),
        "constants": facts.constants,
        "rate_hz": facts.rate_hz,
        "reading_count": facts.reading_count,
        "sampler_cpu_ratio": facts.cpu_s / facts.wall_s if facts.wall_s > 0 else None,
    }


def _verdict(verdict: Verdict) -> dict[str, Any]:
    return {
        "state": verdict.state.value,
        "rules": [
            {
                "id": rule.id,
                "outcome": rule.outcome.value,
                "severity": rule.severity.value,
                "detail": rule.detail,
            }
            for rule in verdict.rules
        ],
    }
