"""Timeouts of a worker's phases: what the daemon ends it by, and what bounds its CPU time."""

from __future__ import annotations

TIMEOUT_FACTOR, TIMEOUT_MARGIN_S = 3.0, 30.0
"""Timeout of a phase: so many times its expected duration, and so much more."""
UPLOAD_BYTES_PER_S = 2000.0
"""Slowest upload of a model to a target: a fifth of 115200 baud, as on a line that loses frames."""
SPOOL_TIMEOUT_S = 120.0
CHECK_TIMEOUT_S = 600.0
"""Timeout of the checks: reference kernels are slow, and a data set may be large."""
COMPLETE_TIMEOUT_S = 20.0
"""Timeout of what a worker does after its record stands, which its kernel ends long before."""
STOP_GRACE_S = 20.0
"""Time to stop in: a stop takes effect when the current inference has ended."""
MARGIN_COUNT = 4
"""Phases with a margin: the warm-up, the timed loop, and the marks for a meter around it."""
BESIDE_MEASUREMENT_S = (
    SPOOL_TIMEOUT_S
    + CHECK_TIMEOUT_S
    + COMPLETE_TIMEOUT_S
    + STOP_GRACE_S
    + MARGIN_COUNT * TIMEOUT_MARGIN_S
)
"""Longest time of a worker beside load and measurement: results, checks, margins."""
