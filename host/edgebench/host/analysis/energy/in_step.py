"""Whether the device may be in step with a meter that samples instants by a clock of its own.

Then every sample falls on the same few moments of an inference, in every run again, and nothing in
the trace shows it. A loop is in step when M samples take as long as k inferences. The samples then
fall on M moments, 1 / k of their interval apart, until the difference, summed over the loop, or the
random walk of the inferences' own spread has moved them to where the next ones are; moving further
reduces the error by as much.

Anything else that the device does periodically may be in step as well: the tick of its scheduler, a
PWM, a radio. Its period is not known beforehand, but it shows in the samples: those of every M-th
place, taken together, differ from those of the next place. A tick that falls on a single place, or
between two, shows nothing, and costs all of its energy; so instants that are too few to see a tick
of a millisecond in many places are not used.

Source: our own, compared with simulated loops in the tests; the error of M evenly spaced samples of
a power with two steps in a period, each anywhere between two samples, is span / M · sqrt(2 / 12).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from edgebench.meters.base import Capability
from edgebench.meters.polled import HOST_CLOCK
from edgebench.protocol.errors import MeasurementError

MAX_PHASES = 1 << 20
"""Number of different moments up to which all are tried; beyond, what is left is taken: 4e-7."""
MIN_INSTANTS_HZ = 20_000.0
"""Fewest instants in a second: 20 in a tick of a millisecond, the fastest usual one (FreeRTOS and
Zephyr: 100 Hz to 1 kHz, Linux: 100 Hz to 1 kHz)."""
TICK_MIN_HZ = 100.0
"""Slowest tick that is looked for: of a slower one the samples see hundreds of places."""
FOLD_SAMPLES = 1 << 15
"""Samples that are looked at for ticks, at most."""
FOLD_TIMES = 8
"""Ticks that these samples hold at least."""
_BLOCK = 1 << 12
"""Numbers of moments that are tried together."""
_WHOLE = math.sqrt(2 / 12)
"""Error of one moment of a power with two steps in a period, in spans of that power."""
_LEFT = 3.0
"""Factor on what is left of the error where the samples moved by as much as they are apart: a drift
leaves less, a drift with a random walk this much. From the tests."""
_QUARTILES_OF_NORMAL = 1.349
"""Distance between the quartiles of a normal distribution, in standard deviations."""


@dataclass(frozen=True, slots=True)
class Loop:
    """Inferences one after another."""

    period_s: float
    deviation_s: float
    """Spread of a period, by its quartiles: a rare late one moves the samples once, not evenly."""
    count: int

    @classmethod
    def of(cls, start_ns: NDArray[np.int64]) -> Loop | None:
        """Loop of these starts, shape (n,); None for fewer than three."""
        if len(start_ns) < 3:
            return None
        periods_s = np.diff(start_ns) / 1e9
        low_s, high_s = np.percentile(periods_s, [25, 75])
        deviation_s = float(high_s - low_s) / _QUARTILES_OF_NORMAL
        return cls(float(np.median(periods_s)), deviation_s, len(periods_s))


def refuse_few_instants(capability: Capability) -> None:
    """Refuse instants that cannot see what the device does periodically.

    Raises:
        MeasurementError: there are too few a second, and the meter does not average.
    """
    # Polls come at random times; what is only stamped by the host does not.
    is_own = capability.is_paced or capability.clock_domain != HOST_CLOCK
    if is_own and samples_instants(capability) and capability.rate_hz < MIN_INSTANTS_HZ:
        raise MeasurementError(
            f"{capability.rate_hz:g} instantaneous samples per second may be in step with whatever "
            f"the device does periodically: take {MIN_INSTANTS_HZ:g} or more, or let the meter "
            "average"
        )


def samples_instants(capability: Capability) -> bool:
    """Whether the samples are evenly spaced instants, of which each shows no more than itself."""
    smoothing_s = capability.smoothing_s or 0.0
    is_smooth = capability.is_averaging or smoothing_s * capability.rate_hz >= 1
    return (capability.is_uniform or capability.is_paced) and not is_smooth


def ticks_w(power_w: NDArray[np.float64], rate_hz: float) -> float:
    """Standard uncertainty of the mean power by ticks that the samples are in step with.

    Args:
        power_w: Samples that follow each other, shape (n,).
        rate_hz: Number of them per second.
    """
    largest_w = 0.0
    for places in range(2, int(min(rate_hz / TICK_MIN_HZ, len(power_w) / FOLD_TIMES)) + 1):
        whole = power_w[: len(power_w) // places * places]
        profile_w = whole.reshape(-1, places).mean(axis=0)
        largest_w = max(largest_w, float(np.ptp(profile_w)) / places)
    return _WHOLE * largest_w


def in_step_ratio(loop: Loop, interval_s: float, rate_error: float = 0.0) -> float:
    """Standard uncertainty of the mean power, in spans of the power: the largest of any M.

    Args:
        loop: The inferences.
        interval_s: Interval of the samples, on the same clock.
        rate_error: Relative error of that interval: a smaller drift may be none.
    """
    largest = 0.0
    for first in range(1, MAX_PHASES, _BLOCK):
        if _WHOLE / first <= largest:
            return largest  # more moments leave less of the span, in step or not
        phases = np.arange(first, first + _BLOCK)
        # Uncertainty for each number of samples after which the moments are the same, shape (n,).
        inferences = np.maximum(1.0, np.rint(phases * interval_s / loop.period_s))
        off_s = np.abs(loop.period_s - phases * interval_s / inferences)
        off_s = np.maximum(0.0, off_s - rate_error * loop.period_s)
        moved_s = loop.count * off_s + math.sqrt(loop.count) * loop.deviation_s
        left = np.ones(len(phases))
        np.divide(_LEFT * interval_s / inferences, moved_s, out=left, where=moved_s > 0)
        ratios: NDArray[np.float64] = _WHOLE / phases * np.minimum(1.0, left)
        largest = max(largest, float(ratios.max()))
    return max(largest, _WHOLE / MAX_PHASES)
