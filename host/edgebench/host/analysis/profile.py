"""Times of the operators, and the time of inferences without profiling."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

from edgebench.host.analysis.measurement import Measurement
from edgebench.host.analysis.windows import EDGE_TICKS, WindowMeasurement
from edgebench.host.result.measured import ProfileResult
from edgebench.protocol.record import CheckFacts, TargetRecord, WorkerRecord


def profile_of_worker(worker: WorkerRecord, measured: Measurement) -> ProfileResult:
    """The operators, and the median latency without profiling, which shows the profiler's cost."""
    check = worker.check
    return ProfileResult(
        run_count=check.profile_run_count,
        operators=check.operators,
        sum_ns_per_inference=_sum_ns(check),
        unprofiled_p50_ns=measured.invoke.p50,
        error=check.profile_error,
        reading_ns=check.profile_reading_ns,
    )


def profile_of_target(target: TargetRecord, measured: WindowMeasurement) -> ProfileResult:
    """The operators of a target, and the time of an unprofiled inference on the same input."""
    check, rate_hz = target.check, target.firmware.tick_rate_hz
    operators, inference_ns = check.operators, measured.inference_ns
    instructions = measured.instructions_per_inference
    # The profile runs on the input of the first window, and some operators depend on the input.
    first = target.inference_ticks[: len(target.inference_ticks) // len(target.windows)]
    if first and rate_hz and inference_ns:
        first_ns = median(first) * 1e9 / rate_hz
        instructions = instructions and instructions * first_ns / inference_ns
        inference_ns = first_ns
    return ProfileResult(
        run_count=check.profile_run_count,
        operators=operators,
        sum_ns_per_inference=_sum_ns(check),
        unprofiled_p50_ns=None if inference_ns is None else round(inference_ns),
        error=check.profile_error,
        sum_instructions_per_inference=_sum([operator.instructions for operator in operators]),
        unprofiled_instructions=instructions,
        sum_cycles_per_inference=_sum([operator.cycles for operator in operators]),
        resolution_ns=1e9 / rate_hz if rate_hz else None,
        reading_ns=check.profile_reading_ns,
    )


def sum_difference(profile: ProfileResult) -> tuple[float, float] | None:
    """Difference of operator sum and whole inference, and the part that the counter may explain.

    Both are relative to the time of the whole inference, which includes one reading of the counter
    that the operators' times do not include. None if the target did not time whole inferences.
    """
    whole_ns, sum_ns = profile.unprofiled_p50_ns, profile.sum_ns_per_inference
    if not whole_ns or sum_ns is None or profile.resolution_ns is None:
        return None
    difference_ns = abs(sum_ns + (profile.reading_ns or 0.0) - whole_ns)
    return difference_ns / whole_ns, EDGE_TICKS * profile.resolution_ns / whole_ns


def _sum_ns(check: CheckFacts) -> float | None:
    total_ns = sum(operator.total_ns for operator in check.operators)
    return total_ns / check.profile_run_count if check.profile_run_count else None


def _sum(counts: Sequence[float | None]) -> float | None:
    known = [count for count in counts if count is not None]
    return sum(known) if known else None
