"""Pauses of a whole device while its clock continued, found by a pure function of the traces.

The worker and the sampler are two processes that have nothing in common but the device. If neither
has a timestamp for a while, the device, its virtual machine or its container was paused. The
sampler reads ten times a second, so a pause is found if it lasts several of its periods. Threads
that wait for a CPU look the same in the traces, but the kernel's statistics count their time as
waiting, which distinguishes the two cases.
"""

from __future__ import annotations

import numpy as np

from edgebench.host.analysis.latency.queries import Queries
from edgebench.host.analysis.thermal.telemetry import TelemetryTrace

PAUSE_LIMIT_S = 0.5
"""Shortest pause that is found, which is five periods of the sampler."""
MIN_READINGS = 5
"""Minimum number of readings from which the usual interval between readings is estimated."""


def paused_s(queries: Queries, telemetry: TelemetryTrace) -> float | None:
    """Time of the run in which neither the worker nor the sampler ran; None without telemetry.

    Args:
        queries: Trace of the queries.
        telemetry: Trace of the sampler, on the same clock.
    """
    times_ns = [series.time_ns for series in telemetry.series.values()]
    read_ns = np.unique(np.concatenate(times_ns)) if times_ns else np.empty(0, np.int64)
    if read_ns.size < MIN_READINGS:
        return None
    # An inference is due when its query is due and the previous inference has ended.
    due_ns = np.maximum(queries.scheduled_ns, np.append(queries.start_ns[:1], queries.end_ns[:-1]))
    limit_ns = PAUSE_LIMIT_S * 1e9
    usual_read_ns = np.median(np.diff(read_ns))
    usual_ns = np.median(queries.end_ns - due_ns)
    paused_ns = 0.0
    for gap in np.flatnonzero(np.diff(read_ns) > limit_ns + usual_read_ns):
        begin_ns, end_ns = read_ns[gap], read_ns[gap + 1]
        both_ns = np.minimum(queries.end_ns, end_ns) - np.maximum(due_ns, begin_ns)
        if both_ns.max() > limit_ns + usual_ns:
            paused_ns += float(both_ns.max())
    return paused_ns / 1e9
