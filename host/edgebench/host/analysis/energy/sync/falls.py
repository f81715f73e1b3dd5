"""Time constant of a meter, bounded by the falls of the power after the timed loop.

Theory of operation. A filter of time constant T lets its output fall no faster than exponentially
towards its lowest input. A device draws at least its idle power P_i. So for a fall from P_1 to P_2
within the time t

    T ≤ t / ln((P_1 - P_i) / (P_2 - P_i))

Each fall gives such a bound, and the smallest bound applies. The bound holds whatever the device
does meanwhile: activity after the loop makes a fall slower, never faster. Rises give no bound,
because the power may be higher for a moment than any value shows. A meter without a filter shows
the whole fall between two samples. The bound is then about a sample interval.

Source: the step response of a first-order filter.
"""

from __future__ import annotations

import numpy as np

from edgebench.host.analysis.energy.integrate import Floats, Nanoseconds

MIN_DROP = 0.25
"""Minimum fall that is used, relative to the height of the loop's power above the idle power."""
DROP_SIGMAS = 8.0
"""Minimum fall that is used, in standard deviations of the noise."""
LOW, LOW_SIGMAS = 0.05, 4.0
"""Minimum distance of a power from the idle power, relative to the loop's height above idle, and in
standard deviations of the noise. The idle power is not exact. So a power that is closer to the idle
power is treated as if it were at this distance."""
APART = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128)
"""Distances, in samples, at which two powers of a fall are compared."""


def fall_s(
    time_ns: Nanoseconds, power_w: Floats, *, idle_w: float, loop_w: float, noise_w: float
) -> float | None:
    """Upper bound of the time constant, s; None if the loop is hardly above the idle power.

    Args:
        time_ns: Times of new values, ascending, shape (n,).
        power_w: Values, shape (n,).
        idle_w: Lowest mean power of the idle device.
        loop_w: Power in the loop.
        noise_w: Standard deviation of a value.
    """
    height_w = loop_w - idle_w
    if height_w <= 0 or DROP_SIGMAS * noise_w >= height_w * (1 - LOW):
        return None
    noise = noise_w / height_w
    # The median of three removes a single spike, which would fall at once.
    if len(power_w) >= 3:
        middle_w = np.median([power_w[:-2], power_w[1:-1], power_w[2:]], axis=0)
        power_w = np.concatenate([power_w[:1], middle_w, power_w[-1:]])
    share = (power_w - idle_w) / height_w
    drop, low = max(MIN_DROP, DROP_SIGMAS * noise), max(LOW, LOW_SIGMAS * noise)
    shortest_s = np.inf
    for apart in APART:
        high, following = share[:-apart], np.maximum(share[apart:], low)
        is_fall = high - following >= drop
        if not is_fall.any():
            continue
        passed_s = (time_ns[apart:] - time_ns[:-apart])[is_fall] / 1e9
        bounds_s = passed_s / np.log(high[is_fall] / following[is_fall])
        shortest_s = min(shortest_s, float(bounds_s.min()))
    return shortest_s if np.isfinite(shortest_s) else None
