"""Whether the device may be in step with a meter that samples instants by its own clock.

If the device is in step, every sample falls on the same few moments of an inference, in every run,
and the trace does not show this. A loop is in step when M samples take as long as k inferences. The
samples then fall on M moments, which are 1 / k of the sample interval apart. During the loop, the
samples drift towards the next moments for two reasons: M samples do not take exactly as long as k
inferences, and the inferences vary in duration. The first drift is the difference between the two
times, summed over the loop; the second drift is a random walk. If the samples drift beyond the next
moments, the error falls in inverse proportion to the drift.

Any other periodic activity of the device may also be in step: the tick of its scheduler, a PWM, a
radio. Its period is unknown beforehand, but it shows in the samples: the mean of every M-th sample
differs from the mean of the neighbours of these samples. A tick that falls between two samples does
not show; `unsampled.py` bounds the energy that it may take.

Source: our own, compared with simulated loops in the tests. For a power with two steps in a period,
each of them anywhere between two samples, the error of M evenly spaced samples is
span / M · sqrt(2 / 12).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from edgebench.host.analysis.energy.refusal import EnergyRefused
from edgebench.host.result.reasons.energy import too_few_instants
from edgebench.meters.base import Capability
from edgebench.meters.polled import HOST_CLOCK

MAX_PHASES = 1 << 20
"""Highest number of distinct moments that is tried. With more moments, the error is at most 4e-7 of
the power's span."""
MIN_INSTANTS_HZ = 20_000.0
"""Minimum sample rate of a meter that samples instants. It gives 20 samples in 1 ms, which is the
shortest usual interval of scheduler ticks (FreeRTOS, Zephyr and Linux tick at 100 Hz to 1 kHz)."""
TICK_MIN_HZ = 100.0
"""Slowest tick that is searched for. Samples at usual rates resolve slower ticks well."""
FOLD_SAMPLES = 1 << 15
"""Maximum number of samples that are searched for ticks."""
FOLD_TIMES = 8
"""Minimum number of tick intervals that the searched samples must span."""
_BLOCK = 1 << 12
"""Number of moment counts (values of M) that are tried in one operation."""
ONE_MOMENT = math.sqrt(2 / 12)
"""Error of the mean power, relative to the power's span, if every sample falls on the same moment
of a period. It applies to a power with two steps in a period."""
_LEFT = 3.0
"""Factor on the error that remains after the samples have drifted by the distance between two
moments. A drift alone leaves a smaller error; a drift with a random walk leaves this error. The
factor was found by the tests."""
_QUARTILES_OF_NORMAL = 1.349
"""Distance between the quartiles of a normal distribution, in standard deviations."""


@dataclass(frozen=True, slots=True)
class Loop:
    """Loop of consecutive inferences."""

    period_s: float
    deviation_s: float
    """Standard deviation of the periods, from their quartiles. Quartiles ignore rare late
    inferences. This is intended, because each late inference moves the samples only once."""
    count: int
    stretch_count: int = 1
    """Number of stretches of the loop between random gaps. Each stretch starts at a random moment
    of the sample interval."""

    @classmethod
    def of(cls, start_ns: NDArray[np.int64]) -> Loop | None:
        """Make a loop from the starts of its inferences, shape (n,); None for fewer than three."""
        if len(start_ns) < 3:
            return None
        periods_s = np.diff(start_ns) / 1e9
        low_s, high_s = np.percentile(periods_s, [25, 75])
        deviation_s = float(high_s - low_s) / _QUARTILES_OF_NORMAL
        return cls(float(np.median(periods_s)), deviation_s, len(periods_s))


def refuse_few_instants(capability: Capability) -> None:
    """Refuse a meter whose instants cannot resolve periodic activity of the device.

    This applies to recordings for which the rate difference between the clocks of the device and
    the meter was not measured. If it was measured, `unsampled` bounds the power of the activity
    instead.

    Raises:
        MeasurementError: the rate is too low, and the meter does not average.
    """
    if (
        has_own_clock(capability)
        and samples_instants(capability)
        and capability.rate_hz < MIN_INSTANTS_HZ
    ):
        raise EnergyRefused(too_few_instants(rate_hz=capability.rate_hz, limit_hz=MIN_INSTANTS_HZ))


def has_own_clock(capability: Capability) -> bool:
    """Whether the meter decides when it samples.

    The host decides when polled samples are taken. If the host only timestamps the samples, the
    meter's clock determines when they are taken.
    """
    return capability.is_paced or capability.clock_domain != HOST_CLOCK


def samples_instants(capability: Capability) -> bool:
    """Whether the samples are evenly spaced instants, without averaging or smoothing."""
    smoothing_s = capability.smoothing_s or 0.0
    is_smooth = capability.is_averaging or smoothing_s * capability.rate_hz >= 1
    return (capability.is_uniform or capability.is_paced) and not is_smooth


def ticks_w(power_w: NDArray[np.float64], rate_hz: float) -> float:
    """Standard uncertainty of the mean power from ticks in step with the samples, W.

    Args:
        power_w: Consecutive samples, shape (n,).
        rate_hz: Samples per second.
    """
    largest_w = 0.0
    for places in range(2, int(min(rate_hz / TICK_MIN_HZ, len(power_w) / FOLD_TIMES)) + 1):
        whole = power_w[: len(power_w) // places * places]
        profile_w = whole.reshape(-1, places).mean(axis=0)
        largest_w = max(largest_w, float(np.ptp(profile_w)) / places)
    return ONE_MOMENT * largest_w


def in_step_ratio(loop: Loop, interval_s: float, rate_error: float = 0.0) -> float:
    """Largest standard uncertainty of the mean power for any M, relative to the power's span.

    Args:
        loop: The inferences.
        interval_s: Sample interval, on the same clock.
        rate_error: Relative error of the sample interval. A drift that is smaller than this error
            may not be real.
    """
    largest = 0.0
    for first in range(1, MAX_PHASES, _BLOCK):
        if ONE_MOMENT / first <= largest:
            return largest  # more moments give a smaller error, in step or not
        phases = np.arange(first, first + _BLOCK)
        # Uncertainty for each number of samples after which the moments repeat, shape (n,).
        inferences = np.maximum(1.0, np.rint(phases * interval_s / loop.period_s))
        off_s = np.abs(loop.period_s - phases * interval_s / inferences)
        off_s = np.maximum(0.0, off_s - rate_error * loop.period_s)
        moved_s = loop.count * off_s + math.sqrt(loop.count) * loop.deviation_s
        left = np.ones(len(phases))
        np.divide(_LEFT * interval_s / inferences, moved_s, out=left, where=moved_s > 0)
        # The errors of stretches at random moments are independent of each other.
        left = np.minimum(left, 1 / math.sqrt(loop.stretch_count))
        ratios: NDArray[np.float64] = ONE_MOMENT / phases * left
        largest = max(largest, float(ratios.max()))
    return max(largest, ONE_MOMENT / MAX_PHASES)
