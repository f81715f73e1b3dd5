"""run.json: the document of a run, computed from the agent's record and the traces.

Pure: the same record and traces give the same document, which is how `edgebench verify` finds
out that a stored one was changed. Keys may be added with a higher `SCHEMA_VERSION`, never
renamed.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgebench.host.analysis.latency import LatencySummary, summarize
from edgebench.host.analysis.verdict import Evidence, Verdict, judge
from edgebench.protocol.clock import ClockModel, ClockProbe, fit
from edgebench.protocol.codec import to_plain
from edgebench.protocol.errors import MeasurementError
from edgebench.protocol.record import RunRecord, WorkerRecord

SCHEMA_VERSION = 1
RUN_ID_TIME = "%Y%m%d-%H%M%S"
"""Run ids begin with the time in UTC."""


@dataclass(frozen=True, slots=True)
class Queries:
    """The query trace.

    Attributes:
        start_ns: Shape (n,), device clock, issue order, warm-up first.
        end_ns: Shape (n,), device clock.
        warmup_count: The first so many rows are warm-up.
    """

    start_ns: NDArray[np.int64]
    end_ns: NDArray[np.int64]
    warmup_count: int

    @property
    def latency_ns(self) -> NDArray[np.int64]:
        """Latencies of the timed queries, shape (n - warmup_count,)."""
        return (self.end_ns - self.start_ns)[self.warmup_count :]

    def check(self) -> None:
        """Raise when the trace cannot be true.

        Raises:
            MeasurementError: a query ends before it starts, or starts before the last one ended.
        """
        if len(self.start_ns) != len(self.end_ns):
            raise MeasurementError("query trace has columns of different length")
        if np.any(self.end_ns < self.start_ns) or np.any(self.start_ns[1:] < self.end_ns[:-1]):
            raise MeasurementError("query trace is not in order: the device clock went backwards")


def build_document(
    record: RunRecord, queries: Queries, *, created_utc: str, clock: ClockModel | None
) -> dict[str, Any]:
    """The document of a run that measured something.

    Raises:
        MeasurementError: the trace is empty or cannot be true.
    """
    worker = record.worker
    if worker is None:
        raise MeasurementError("the run measured nothing")
    queries.check()
    if len(queries.start_ns) != worker.query_count:
        raise MeasurementError(
            f"query trace has {len(queries.start_ns)} rows, the worker made {worker.query_count}"
        )
    latency_ns = queries.latency_ns
    latency = summarize(latency_ns)
    timed = slice(queries.warmup_count, None)
    span_ns = int(queries.end_ns[-1] - queries.start_ns[timed][0])
    verdict = judge(Evidence(record, worker, latency, latency_ns, span_ns))
    spec: dict[str, Any] = to_plain(record.spec)
    return {
        "schema_version": SCHEMA_VERSION,
        "run_id": record.run_id,
        "created_utc": created_utc,
        "simulated": record.simulated,
        "emulated": record.emulated,
        "spec": spec,
        "model": to_plain(worker.model),
        "device": to_plain(record.device),
        "runtime": to_plain(worker.runtime),
        "metrics": _metrics(worker, queries, latency, span_ns),
        "environment": to_plain(record.environment),
        "conditions": _conditions(record, worker, clock),
        "verdict": _verdict(verdict),
    }


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


def _metrics(
    worker: WorkerRecord, queries: Queries, latency: LatencySummary, span_ns: int
) -> dict[str, Any]:
    warmup_ns = 0
    if queries.warmup_count:
        warmup_ns = int(queries.end_ns[queries.warmup_count - 1] - queries.start_ns[0])
    cold, memory = worker.cold_start, worker.memory
    return {
        "latency_ns": to_plain(latency),
        "throughput_per_s": latency.count * 1e9 / span_ns if span_ns > 0 else None,
        "warmup": {
            "class": None,
            "query_count": queries.warmup_count,
            "duration_ns": warmup_ns,
        },
        "cold_start_ns": {
            "import": cold.import_ns,
            "load": cold.load_ns,
            "first_inference": cold.first_inference_ns,
        },
        "memory_bytes": {
            "peak_rss": memory.peak_rss_bytes,
            "model": memory.model_bytes,
            "arena": None,
        },
        "harness_ns": {"p50": worker.harness.p50_ns, "per_query": worker.harness.per_query_ns},
    }


def _conditions(
    record: RunRecord, worker: WorkerRecord, clock: ClockModel | None
) -> dict[str, Any]:
    return {
        "load_1m_before": record.environment.load_1m,
        "load_1m_after": record.load_1m_after,
        "cpu_affinity": list(worker.cpu_affinity),
        "background_busy_ratio": worker.background_busy_ratio,
        "involuntary_switch_count": worker.involuntary_switch_count,
        "telemetry_absent": {item.sensor: item.reason for item in record.telemetry_absent},
        "clock": to_plain(clock) if clock else None,
        "output_sha256": worker.output.sha256,
        "inputs": to_plain(worker.inputs),
        "outputs": to_plain(worker.outputs),
        "ambient_c": None,
        "power_source": None,
    }


def _verdict(verdict: Verdict) -> dict[str, Any]:
    return {
        "state": verdict.state.value,
        "rules": [
            {"id": rule.id, "outcome": rule.outcome.value, "detail": rule.detail}
            for rule in verdict.rules
        ],
    }
