"""Samples of a run far below its idle power, and sources whose value never changes.

A device never draws less power than when it is idle. So samples far below the power of every idle
phase are not measurements: a program wrote zeros where it had no value, or a connection was loose.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from edgebench.host.analysis.energy.integrate import Nanoseconds
from edgebench.host.analysis.energy.power_trace import PowerTrace
from edgebench.host.result.reason import Reason
from edgebench.host.result.reasons.plausible import source_stands_still

BELOW_IDLE_RATIO = 0.5
"""A sample below this share of the median idle power may count as far below the idle power."""
LOW_QUANTILE = 0.02
"""Quantile of the idle samples that counts as the lowest idle power. It is not the minimum, because
a few idle samples may be wrong themselves."""
_BELOW_WIDTHS = 3.0
"""A sample is too low if its distance below the median exceeds this multiple of the distance
between the median and the quantile `LOW_QUANTILE`. For normal noise, the limit is 6 standard
deviations below the median; less than one sample in a billion is lower."""
_LEAST_SAMPLES = 8
"""Minimum number of samples in an idle window. The lowest of 8 samples is 1.4 standard deviations
below the median, and the limit is then three times as far below the median."""
_LEAST_STILL = 50
"""A source counts as dead if at least this many samples are all equal. A sound plug with a new
value each second, in steps of 0.1 W, may repeat a value for half a minute."""


def far_below_idle(
    power: PowerTrace, channel: str, idles_ns: Sequence[tuple[int, int]], end_ns: int
) -> tuple[Nanoseconds, float]:
    """Times of the samples that are far below the idle power, and the idle power, W.

    Args:
        power: The recording.
        channel: Channel of the device.
        idles_ns: Idle windows on the meter's clock. The run begins with the first idle window.
        end_ns: End of the run on the meter's clock.
    """
    nothing = np.zeros(0, np.int64)
    sampled_w = (power.samples(channel, *window_ns)[1] for window_ns in idles_ns)
    idle_w = [powers_w[np.isfinite(powers_w)] for powers_w in sampled_w]
    if not idle_w or min(map(len, idle_w)) < _LEAST_SAMPLES:
        return nothing, 0.0
    limits_w: list[float] = []
    medians_w: list[float] = []
    for powers_w in idle_w:
        median_w, low_w = np.quantile(powers_w, [0.5, LOW_QUANTILE])
        if median_w <= 0:  # the source may have stopped before this idle time
            continue
        medians_w.append(float(median_w))
        width_w = _BELOW_WIDTHS * (median_w - low_w)
        limits_w.append(float(min(BELOW_IDLE_RATIO * median_w, median_w - width_w)))
    if not limits_w:
        return nothing, 0.0
    limit_w, begin_ns = min(limits_w), idles_ns[0][0]
    found: list[Nanoseconds] = [nothing]
    for piece in power.pieces(channel):
        if piece.lowest_w < limit_w and piece.first_ns <= end_ns and begin_ns <= piece.last_ns:
            rows = piece.read()
            is_inside = (begin_ns <= rows.time_ns) & (rows.time_ns <= end_ns)
            found.append(rows.time_ns[is_inside & (rows.power_w < limit_w)])
    return np.concatenate(found), min(medians_w)


def standing_still(power: PowerTrace, channels: Sequence[str]) -> Reason | None:
    """Reason to call a source dead, if all its values are equal, idle or loaded; else None."""
    power_w, sample_count = 0.0, 0
    for channel in channels:
        pieces = power.pieces(channel)
        lowest_w = min((piece.lowest_w for piece in pieces), default=0.0)
        highest_w = max((piece.highest_w for piece in pieces), default=0.0)
        if lowest_w != highest_w:
            return None
        power_w += lowest_w
        sample_count += sum(piece.sample_count for piece in pieces)
    if sample_count < _LEAST_STILL:
        return None
    return source_stands_still(power_w=power_w, sample_count=sample_count)
