"""Time limits of a worker, which the daemon derives from the worker's job only, and enforces.

Theory of operation. A worker may be hostile, so no report from it extends these times. A worker
reports its phases in the order of `PHASES`, and may omit some. Each phase has a time limit, and so
has the whole run. A worker may report the expected duration of a phase. The report can shorten the
limit of the phase, but not extend it beyond the limit that follows from the specification.

The time that a given number of queries takes is unknown before the first query. The first inference
has to end within the load timeout, so no inference is expected to take longer than this timeout.
All inferences together are expected to take no longer than `COUNTED_LIMIT_S`.
"""

from __future__ import annotations

from edgebench.agent.worker.job import Job
from edgebench.agent.worker.load_code import code_s
from edgebench.protocol.record import Phase
from edgebench.protocol.spec import RunSpec, samples_per_query

TIMEOUT_FACTOR, TIMEOUT_MARGIN_S = 3.0, 30.0
"""The timeout of a phase is its expected duration times this factor, plus the margin."""
COUNTED_LIMIT_S = 4 * 3600.0
"""Limit on the expected time to reach a number of inferences: 14 s for each of the default 1024
inferences."""
UPLOAD_BYTES_PER_S = 2000.0
"""Lowest allowed rate at which a model is uploaded to a target. It is about a fifth of the rate at
115200 baud, for a serial line that loses frames."""
MARKS_S = 1.0
"""Upper limit of the time for the pulses on a sync line and the idle time before and after them."""
FIRST_INFERENCES_S = 60.0
"""Time for the first inferences of a target, whose duration is still unknown."""
FIRST_SOUND_S = 1200.0
"""Time for the first window of streaming firmware, which plays a file to its end; the file of
MLPerf Tiny takes 20 minutes."""
TARGET_WINDOWS = 5
"""Number of windows on a target, each after a warm-up. Source: MLPerf Tiny run rules: the median of
five windows."""
SPOOL_TIMEOUT_S = 120.0
CHECK_TIMEOUT_S = 600.0
"""Timeout of the checks. It is long, because reference kernels are slow and data sets may be large.
For a target that runs a data set, the timeout also applies from each line of progress to the
next."""
COMPLETE_TIMEOUT_S = 20.0
"""Timeout of the work after a worker's record is final; the worker's own alarm is far shorter."""
STOP_GRACE_S = 20.0
"""Time that a worker gets to stop; it stops only when the current inference has ended."""

PHASES = (
    *(Phase.STARTING, Phase.LOADING, Phase.SYNCING, Phase.WARMING_UP, Phase.MEASURING),
    *(Phase.SYNCING, Phase.SPOOLING, Phase.CHECKING, Phase.SPOOLING, Phase.CHECKING),
)
"""Phases of a worker in order; a worker may omit some phases. Only the worker of a target has the
last two phases. Such a worker does the following:

- first CHECKING: profile the model, and run the data set;
- second SPOOLING: release the target;
- second CHECKING: compare the outputs.
"""


def phase_limit_s(job: Job, phase: Phase, expected_s: float | None = None) -> float:
    """Time after which a worker is killed in this phase, seconds.

    Args:
        job: Job of the worker.
        phase: The phase.
        expected_s: Duration that the worker expects; None: the longest that the job allows.
    """
    spec = job.spec
    if phase in (Phase.STARTING, Phase.LOADING):
        is_upload, size_bytes = job.target is not None, job.model.size_bytes or 0
        upload_s = size_bytes / UPLOAD_BYTES_PER_S if is_upload else 0.0
        return spec.limits.load_timeout_s + (upload_s if phase is Phase.LOADING else 0.0)
    longest_s = _longest_expected_s(job, phase)
    expected_s = longest_s if expected_s is None else min(expected_s, longest_s)
    if phase is Phase.SPOOLING:
        return SPOOL_TIMEOUT_S + TIMEOUT_FACTOR * expected_s
    if phase is Phase.CHECKING:
        return CHECK_TIMEOUT_S + TIMEOUT_FACTOR * expected_s
    # The limit applies to the measurement; marks for a meter are not part of it.
    if phase is not Phase.SYNCING and spec.limits.measure_timeout_s is not None:
        return spec.limits.measure_timeout_s
    return TIMEOUT_FACTOR * expected_s + TIMEOUT_MARGIN_S


def run_limit_s(job: Job) -> float:
    """Time limit of the whole run, seconds; a measuring worker gets `STOP_GRACE_S` in addition."""
    return sum(phase_limit_s(job, phase) for phase in PHASES) + COMPLETE_TIMEOUT_S


def _longest_expected_s(job: Job, phase: Phase) -> float:
    """The longest duration that a worker may report as the expected duration of a phase."""
    spec, is_target = job.spec, job.target is not None
    if phase is Phase.SYNCING:
        return MARKS_S + (code_s(spec.load_code_chip_s) if spec.load_code_chip_s else 0.0)
    if phase is Phase.WARMING_UP:
        first_s = max(FIRST_INFERENCES_S, FIRST_SOUND_S) if is_target else 0.0
        return max(first_s, spec.warmup_duration_s, _counted_s(spec, spec.warmup_query_count))
    if phase is Phase.MEASURING:
        return _measured_s(spec, is_target=is_target)
    if phase is Phase.SPOOLING and is_target:  # a window in progress continues to its end
        return _measured_s(spec, is_target=True)
    if phase is Phase.CHECKING and is_target and job.dataset_path is not None:
        return spec.dataset_limit_s
    return 0.0


def _measured_s(spec: RunSpec, *, is_target: bool) -> float:
    if is_target:
        before_s = TARGET_WINDOWS * spec.warmup_duration_s
        count = spec.min_query_count + TARGET_WINDOWS * (spec.warmup_query_count + 1)
        return max(2 * spec.duration_s, FIRST_SOUND_S, _counted_s(spec, count)) + before_s
    count = spec.min_query_count * samples_per_query(spec)
    if spec.target_qps is not None:
        count = max(count, int(spec.target_qps * spec.duration_s))
    longest_s = max(spec.duration_s, _counted_s(spec, count))
    return longest_s if spec.max_duration_s is None else min(longest_s, spec.max_duration_s)


def _counted_s(spec: RunSpec, count: int) -> float:
    return min(count * spec.limits.load_timeout_s, COUNTED_LIMIT_S)
