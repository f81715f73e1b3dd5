"""Activity of the device that falls between instantaneous samples.

Theory of operation. A meter takes one sample in each interval of its own clock. The device does
many things at a fixed rate of its own clock: a scheduler's tick, a backlight's PWM, a regulator's
pulses. If the two rates have a simple ratio, all samples fall on the same moments of that activity.
Then either no sample shows the activity or every sample does, and the mean power is wrong by up to
the power of the activity. The spread of the samples does not show this.

Two clocks never agree exactly, so the samples move along the activity. Once the samples have moved
by one sample interval, they have met every moment of any such activity. An activity that no sample
has shown by then does not exist. The number of sample intervals by which the samples move within
the compared time is

    r = |rate difference of the two clocks| · time / sample interval

If no sample met an activity, the activity is shorter than 1 - r of the interval. If every sample
met an activity, the pauses of the activity are shorter than 1 - r of the interval. The power of the
activity is unknown, and therefore assumed (`assumed_w`).

The rate difference is measured by the alignment with an uncertainty. Below `MIN_INSTANTS_HZ`, ticks
and bursts of any processor fall between the samples, so the lower bound of r at 95 % is used. Above
this rate, only pulses of a regulator are short enough to fall between samples, and most regulators
have their own clocks. So r plus its standard uncertainty is used: the clocks count as equal only if
the recording shows it.

The lower bound of r would be too strict above this rate. A load code is the coded pattern of load
and rest that aligns the clocks. If a device switches 10 us too late at the edges of its load code,
the energy of a run of one second would always be refused.

The edges of a load code are shifted at random, so that the errors of sampled edges average out
(`common_error_s`). Suppose that the errors average out, and that the device is on time. At 25,000
instants per second, the rate difference is then known to 2 ppm after three seconds. This is a drift
of 0.15 sample intervals.

An activity that every sample met is part of every level. So the energy is too high by at most the
lowest level of the recording. The uncertainty interval reaches down to the energy without that
level.

If the samples met an activity in only a part of the time, the level of the power changes: between
the idle windows, or between the quarters of a window. Such a change counts as an activity, with its
full height. Samples that move slowly may meet an activity during all of the loop and in neither
idle phase, or the reverse. The loop's level alone does not show this. The chips of the load codes
show it: in half of these chips the device is idle, right before the warm-up and right after the
loop.

The bound does not include an activity with a higher power than is assumed. The bound also does not
include an activity that is timed by a third clock, if that clock agrees with the meter's clock by
chance. An activity that exists only while the loop runs is included only to the extent that the
samples moved within the loop.

Source: our own, compared with simulated runs in benchmarks/energy_simulated.py; the error of a
sample at a given moment of a power with two steps in a period is span · sqrt(2 / 12), as in
in_step.py.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from edgebench.host.analysis.energy.in_step import MIN_INSTANTS_HZ, ONE_MOMENT
from edgebench.host.analysis.energy.refusal import EnergyRefused
from edgebench.host.analysis.energy.sync.alignment import Alignment
from edgebench.host.analysis.energy.uncertainty import COVERAGE, U95_LIMIT_RATIO
from edgebench.host.result.energy import SyncMethod
from edgebench.host.result.reasons.energy import unsampled_activity
from edgebench.protocol.record import LoadCode

BURST_W = 1.0
"""Power that a small board may draw in periodic bursts, whatever the power of its loop.

Source: ESP32 Series Datasheet, RF power consumption: 240 mA at 3.3 V for 802.11b at 19.5 dBm."""
PULSE_RATIO = 4.0
"""Highest power of a regulator's pulses, relative to the mean, for an assumed duty cycle of 1/4."""
LEVELS_PER_WINDOW = 4
"""Number of equal pieces of a window whose mean powers are compared with each other."""
NOISE_FACTOR = 3.6
"""The range of four normal values exceeds this many standard deviations in 5 % of cases.

Source: Harter, Tables of range and studentized range, Ann. Math. Statist. 31 (1960), n = 4."""
SAWTOOTH_HARMONICS = 30
"""Number of harmonics of a sampled edge's error; all higher harmonics make up 1 % of the error."""
BEATS = 3.0
"""Number of beats, each of which is a drift by one sample interval. With more beats, the error of
their mean is inversely proportional to their number, as in in_step.py."""


@dataclass(frozen=True, slots=True)
class ClockDifference:
    """Relative difference between the rates of meter and device, as measured."""

    ratio: float
    deviation: float
    """Standard uncertainty of `ratio`."""

    @classmethod
    def of(
        cls, alignment: Alignment, codes: Sequence[LoadCode], span_s: float, interval_s: float
    ) -> ClockDifference:
        """Make it from an alignment's slope, and from its `rate_error` or the errors of its ends.

        Args:
            alignment: The alignment.
            codes: Load codes at the two ends of the run; empty for other marks.
            span_s: Time between the two load codes; for marks without load codes, the length of the
                timed loop.
            interval_s: Sample interval. An edge of the power is located to within a fraction of
                this interval.
        """
        slope = alignment.line.slope
        if alignment.rate_error is not None:
            return cls(slope, alignment.rate_error / COVERAGE)
        common_s = interval_s / math.sqrt(12)
        if codes and alignment.method is SyncMethod.CODED_LOAD:
            common_s = max(
                common_error_s(alignment.line.to_meter(_changes_ns(code)), interval_s)
                for code in codes
            )
        end_s = alignment.error_ns / 1e9 / math.sqrt(3)
        if alignment.residual_ns is not None and alignment.mark_count:
            marks_s = alignment.residual_ns / 1e9 / math.sqrt(alignment.mark_count / 2)
            end_s = math.hypot(marks_s, common_s)
        return cls(slope, math.sqrt(2) * end_s / span_s)

    @property
    def least_ratio(self) -> float:
        """Lower bound of the absolute rate difference, with 95 % confidence."""
        return max(0.0, abs(self.ratio) - COVERAGE * self.deviation)

    def beats(self, watched_s: float, rate_hz: float) -> float:
        """Number of sample intervals by which the samples moved along an activity of the device.

        For a sample rate below `MIN_INSTANTS_HZ`, this is the lower bound at 95 %. For a higher
        rate, it is the measured number plus its standard uncertainty.

        Args:
            watched_s: Time in which activity would have been seen.
            rate_hz: Samples per second.
        """
        most_ratio = abs(self.ratio) + self.deviation
        ratio = self.least_ratio if rate_hz < MIN_INSTANTS_HZ else most_ratio
        return ratio * watched_s * rate_hz


def common_error_s(edge_ns: NDArray[np.int64], interval_s: float) -> float:
    """Standard uncertainty of the mean time of edges that were sampled, s.

    An edge between two samples is placed midway between them, so its error is a sawtooth function
    of its phase, with a height of one sample interval. If all edges have the same phase, their mean
    has the same error as each edge; if the phases are spread, the errors cancel. The phase of the
    samples is unknown.

    Args:
        edge_ns: Times of the edges, meter clock, shape (n,).
        interval_s: Sample interval.

    Source: Fourier series of a sawtooth: harmonic k has the amplitude interval / (k · pi).
    """
    harmonics = np.arange(1, SAWTOOTH_HARMONICS + 1)
    turns = np.outer(harmonics, (edge_ns - edge_ns[0]) / (interval_s * 1e9))
    common = np.abs(np.exp(2j * np.pi * turns).mean(axis=1)) / harmonics
    return interval_s / (math.pi * math.sqrt(2)) * float(np.sqrt(np.sum(common**2)))


def _changes_ns(code: LoadCode) -> NDArray[np.int64]:
    """Edges at which the load changes, device clock."""
    is_busy = np.array(code.is_busy)
    changes_ns: NDArray[np.int64] = np.array(code.edges_ns)[1:-1][is_busy[1:] != is_busy[:-1]]
    return changes_ns


@dataclass(frozen=True, slots=True)
class PowerLevels:
    """Mean powers of consecutive pieces of a window."""

    power_w: NDArray[np.float64]
    """Shape (`LEVELS_PER_WINDOW`,)."""
    noise_w: float
    """Standard uncertainty of each mean power, from the differences of successive samples."""
    duration_s: float

    @property
    def change_w(self) -> float:
        """Range of the mean powers, minus the range that noise explains; at least 0."""
        return max(0.0, float(np.ptp(self.power_w)) - NOISE_FACTOR * self.noise_w)

    def noise_within_w(self, length_s: NDArray[np.float64]) -> NDArray[np.float64]:
        """Standard uncertainty of mean powers over periods of these lengths, shape (n,)."""
        density: float = self.noise_w * math.sqrt(self.duration_s / LEVELS_PER_WINDOW)
        return density / np.sqrt(length_s)


@dataclass(frozen=True, slots=True)
class IdleChips:
    """Chips of the load codes in which the device is idle, right before and after the loop."""

    power_w: NDArray[np.float64]
    """Mean power of each chip, shape (n,)."""
    noise_w: NDArray[np.float64]
    """Standard uncertainty of each mean power due to noise, shape (n,)."""
    apart_s: float
    """Longest time between a moment of the loop and the nearest quarter of an idle window."""

    def change_w(self, clocks: ClockDifference, idle_w: Sequence[float], rate_hz: float) -> float:
        """Largest power difference, W, of chips and idle windows that noise does not explain.

        The result is 0 if the samples moved by an interval or more between the loop and the idle
        windows. The idle windows then show the same moments as the loop.
        """
        if clocks.least_ratio * self.apart_s * rate_hz >= 1 or not len(self.power_w):
            return 0.0
        noise_w = _extreme_factor(len(self.power_w)) * self.noise_w
        most_w = max(float((np.abs(self.power_w - each_w) - noise_w).max()) for each_w in idle_w)
        return max(0.0, most_w)


def _extreme_factor(count: int) -> float:
    """Bound, in standard deviations, that any of `count` normal values exceeds in 5 % of cases."""
    return NormalDist().inv_cdf((1 + 0.95 ** (1 / count)) / 2)


def unsampled_w(
    clocks: ClockDifference,
    loop: PowerLevels,
    idles: Sequence[PowerLevels],
    rate_hz: float,
    chips: IdleChips | None = None,
) -> float:
    """Standard uncertainty of the loop's mean power from activity between the samples, W.

    Args:
        clocks: Rates of the two clocks.
        loop: The timed loop.
        idles: Idle windows before and after the loop.
        rate_hz: Samples per second.
        chips: Idle chips of the load codes; None if the codes were not found.

    Raises:
        EnergyRefused: the activity may take more than `U95_LIMIT_RATIO` of the loop's power.
    """
    watched_s = loop.duration_s + sum(idle.duration_s for idle in idles)
    highest_w = max(float(part.power_w.max()) for part in (loop, *idles))
    lowest_w = max(0.0, min(float(part.power_w.min()) for part in (loop, *idles)))
    unseen_ratio = max(0.0, 1 - clocks.beats(watched_s, rate_hz))
    unseen_w = max(ONE_MOMENT * assumed_w(highest_w, rate_hz), lowest_w / COVERAGE) * unseen_ratio
    idle_w = [float(idle.power_w.mean()) for idle in idles] or [0.0]
    change_w = max(max(idle_w) - min(idle_w), *(part.change_w for part in (loop, *idles)))
    if chips is not None and idles:
        change_w = max(change_w, chips.change_w(clocks, idle_w, rate_hz))
    beats = clocks.beats(loop.duration_s, rate_hz)
    seen_w = change_w * min(1.0, BEATS / beats if beats else 1.0)
    unsampled = math.hypot(unseen_w, ONE_MOMENT * seen_w)
    mean_w = abs(float(loop.power_w.mean()))
    if COVERAGE * unsampled > U95_LIMIT_RATIO * mean_w:
        raise EnergyRefused(
            unsampled_activity(
                rate_hz=rate_hz,
                missed_ratio=COVERAGE * unsampled / max(mean_w, sys.float_info.min),
                limit_ratio=U95_LIMIT_RATIO,
                difference_ppm=abs(clocks.ratio) * 1e6,
                deviation_ppm=COVERAGE * clocks.deviation * 1e6,
                watched_s=watched_s,
                needed_ppm=1e6 / rate_hz / watched_s,
            )
        )
    return unsampled


def assumed_w(highest_w: float, rate_hz: float) -> float:
    """Highest power that an activity between the samples may take, W.

    Below `MIN_INSTANTS_HZ`, a sample interval is as long as bursts of a processor or a radio. Such
    bursts draw up to the highest level of the recording, or `BURST_W` if that is higher. At higher
    rates, only pulses of a regulator are shorter than the interval.
    """
    highest_w = abs(highest_w)
    if rate_hz < MIN_INSTANTS_HZ:
        return max(highest_w, BURST_W)
    return PULSE_RATIO * highest_w
