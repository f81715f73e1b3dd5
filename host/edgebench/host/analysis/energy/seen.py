"""Filter, noise, quantisation step and repeated values of a meter, estimated from a trace.

Drivers declare the errors of the meters they support. The instrument that wrote a file may have
other errors. The same holds for a chip that a driver reads through an interface. All estimates are
made from samples, so they apply equally to polled meters, to meters with their own clock and to
files.

Only alignment by a load code or by the loop uses changes of the recorded power, and so includes the
delay of the meter's values. After any other alignment, the values are late by the lag. The lag is
the interval between new values plus the time constant of the filter.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from edgebench.host.analysis.energy.integrate import Floats, Nanoseconds
from edgebench.host.analysis.energy.power_trace import PowerTrace
from edgebench.host.analysis.energy.sync.alignment import Alignment, ClockLine
from edgebench.host.analysis.energy.sync.choose import is_made_up
from edgebench.host.analysis.energy.sync.falls import fall_s
from edgebench.host.analysis.energy.sync.smear import smear_s
from edgebench.host.analysis.energy.values import (
    SPIKE_SIGMAS,
    SPIKE_STEPS,
    Spikes,
    idle_spikes,
    is_new,
    loop_spikes,
    noise_w,
    step_w,
    update_interval_s,
)
from edgebench.host.result.energy import SyncMethod
from edgebench.meters.base import Flag
from edgebench.meters.uncertainty import Kind, UncertaintyTerm, Unit, term
from edgebench.protocol.record import LoadCode

MAX_SAMPLES = 20_000
"""Maximum number of samples used per window, enough to estimate the noise to 1 %."""
BY_POWER = SyncMethod.CODED_LOAD, SyncMethod.LOOP
"""Alignments that include the delay of the meter's values."""
DITHER_RATIO = 0.5
"""If the noise is at least this multiple of the quantisation step, rounding errors average out."""
Window = tuple[int, int]
Samples = tuple[Nanoseconds, Floats]
"""Times and values of consecutive samples, each of shape (n,)."""


@dataclass(frozen=True, slots=True)
class SeenMeter:
    """A meter's errors, estimated from its trace; 0 if none is found or the driver declares it."""

    smoothing_s: float = 0.0
    """Time constant with which the meter smooths changes of the power."""
    noise_w: float = 0.0
    """Standard deviation of a sample of a channel."""
    update_s: float = 0.0
    """Interval between new values, if the meter repeats its values."""
    lag_s: float = 0.0
    """Upper bound of the values' delay, without the part that the alignment already includes."""
    terms: tuple[UncertaintyTerm, ...] = ()
    """Errors of all values: half a quantisation step, and the mean power of isolated spikes."""

    @classmethod
    def worst(cls, channels: Sequence[SeenMeter]) -> SeenMeter:
        """The largest value of each error among the channels."""
        largest: dict[Kind, UncertaintyTerm] = {}
        for found in (uncertainty for channel in channels for uncertainty in channel.terms):
            if found.kind not in largest or found.value > largest[found.kind].value:
                largest[found.kind] = found
        return cls(
            smoothing_s=max(channel.smoothing_s for channel in channels),
            noise_w=max(channel.noise_w for channel in channels),
            update_s=max(channel.update_s for channel in channels),
            lag_s=max(channel.lag_s for channel in channels),
            terms=tuple(largest.values()),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class AlignedRun:
    """Times of a run on the device's clock, and their alignment with a trace."""

    alignment: Alignment
    idles_ns: Sequence[Window]
    loop_ns: Window
    """Window of the timed inferences."""
    inference_count: int
    codes: Sequence[LoadCode] = ()
    """Load codes that were found in the trace."""


@dataclass(frozen=True, slots=True)
class _Readings:
    """New values of a meter in the idle windows and in the loop, at most `MAX_SAMPLES` each."""

    idles: tuple[Samples, ...]
    loop: Samples
    before: Samples
    """Samples right before the loop, when the model is loaded and the device warms up."""
    update_s: float
    """Interval between new values; 0 if each sample may have a new value."""

    @classmethod
    def of(cls, power: PowerTrace, channel: str, run: AlignedRun) -> _Readings:
        """The values of a recording, without repeated values."""
        line, loop_ns = run.alignment.line, run.loop_ns
        sample_s = 1 / power.header.capability.rate_hz
        longest_ns = round(MAX_SAMPLES * sample_s * 1e9)
        before_ns = loop_ns[0] - longest_ns, loop_ns[0]
        before, loop, *idles = [
            _samples(power, channel, line, (begin_ns, min(end_ns, begin_ns + longest_ns)))
            for begin_ns, end_ns in (before_ns, loop_ns, *run.idles_ns)
        ]
        update_s = max(update_interval_s(*part, sample_s) for part in (loop, *idles))
        if update_s:
            loop, *idles = [_new(part) for part in (loop, *idles)]
        return cls(tuple(idles), loop, before, update_s)

    @property
    def idle_runs_w(self) -> list[Floats]:
        """Values of each idle window."""
        return [values_w for _, values_w in self.idles]

    @property
    def noise_w(self) -> float:
        """Standard deviation of a value while the device is idle."""
        return noise_w(self.idle_runs_w)

    @property
    def loop_noise_w(self) -> float:
        """Standard deviation of a value in the loop, where noise may grow with the power.

        The device's own changes of power look like noise, so the noise is assumed to grow at most
        in proportion to the power.
        """
        idle_w, most = self.noise_w, 1.0
        if level_w := self.idle_w:
            most = max(1.0, abs(_median(self.loop[1]) / level_w))
        return max(idle_w, min(noise_w([self.loop[1]]), most * idle_w))

    @property
    def idle_w(self) -> float:
        """Lowest median power of an idle window; 0 if there is none."""
        return min((_median(values_w) for values_w in self.idle_runs_w if len(values_w)), default=0)

    @property
    def step_w(self) -> float:
        """Quantisation step; 0 if the noise is high enough for rounding errors to average out."""
        found_w = step_w(np.concatenate([self.before[1], self.loop[1], *self.idle_runs_w]))
        return found_w if self.noise_w < DITHER_RATIO * found_w else 0.0

    def spikes(self, inference_count: float) -> Spikes:
        """Spikes of the idle device, or those of the loop if these have the higher mean power.

        Args:
            inference_count: Number of inferences in the part of the loop that was read.
        """
        limit_w = max(SPIKE_SIGMAS * self.noise_w, SPIKE_STEPS * self.step_w)
        found = (
            idle_spikes(self.idle_runs_w, limit_w),
            loop_spikes(self.loop[1], limit_w, inference_count),
        )
        return max(found, key=lambda spikes: spikes.most_w)


def look_at_meter(power: PowerTrace, channels: Sequence[str], run: AlignedRun) -> SeenMeter:
    """Estimate the errors that the driver does not declare, as the maxima over the channels.

    Args:
        power: The recording.
        channels: Channels that are summed.
        run: The run that the trace shows.
    """
    if is_made_up(power):
        return SeenMeter()
    return SeenMeter.worst([_look_at_channel(power, channel, run) for channel in channels])


def _look_at_channel(power: PowerTrace, channel: str, run: AlignedRun) -> SeenMeter:
    capability, line, loop_ns = power.header.capability, run.alignment.line, run.loop_ns
    declared = {uncertainty.kind for uncertainty in power.header.uncertainty}
    readings = _Readings.of(power, channel, run)
    smoothing_s = lag_s = noise = 0.0
    if run.codes and not capability.smoothing_s:
        smoothing_s = smear_s(
            run.codes,
            lambda time_ns: power.cumulative_j(channel, time_ns),
            line,
            1 / capability.rate_hz,
        )
    if run.alignment.method not in BY_POWER and not capability.smoothing_s:
        after_ns = max([end_ns for _, end_ns in run.idles_ns], default=loop_ns[1])
        fall = _fall_s(power, channel, line, readings, (loop_ns[1], after_ns))
        lag_s = readings.update_s + fall
    read_ratio = min(1.0, MAX_SAMPLES / capability.rate_hz / ((loop_ns[1] - loop_ns[0]) / 1e9))
    spikes = readings.spikes(read_ratio * run.inference_count)
    # For instants, the term for the power between samples includes their noise and spikes.
    if capability.is_averaging:
        own_w = 0.0 if Kind.NOISE in declared else readings.loop_noise_w
        noise = math.hypot(own_w, spikes.deviation_w)
    # Errors that all values have: spikes, which are or are not real, and half a step.
    step_w = 0.0 if Kind.RESOLUTION in declared else readings.step_w
    terms: list[UncertaintyTerm] = []
    if spikes.most_w:
        offset = term(Kind.OFFSET, spikes.most_w, "mean power of isolated spikes", Unit.WATT)
        terms.append(replace(offset, is_common=False))
    if step_w:
        what = "step of the values, estimated from the trace"
        terms.append(term(Kind.RESOLUTION, step_w / 2, what, Unit.WATT))
    return SeenMeter(
        smoothing_s=smoothing_s,
        noise_w=noise,
        # The term for the power between samples leaves out flagged repetitions.
        update_s=0.0 if power.flags & Flag.DUPLICATE else readings.update_s,
        lag_s=lag_s,
        terms=tuple(terms),
    )


def idle_noise_w(
    power: PowerTrace, channels: Sequence[str], line: ClockLine, idles_ns: Sequence[Window]
) -> float:
    """Largest standard deviation of a sample of a channel while the device is idle."""
    return max(
        noise_w([_samples(power, channel, line, window)[1] for window in idles_ns])
        for channel in channels
    )


def _fall_s(
    power: PowerTrace, channel: str, line: ClockLine, readings: _Readings, fall_ns: Window
) -> float:
    """Upper bound on the time constant of the meter's filter, s.

    Without a visible fall of the power, the bound is the interval at which the meter updates its
    values, or else the interval of the samples.
    """
    end_ns, after_ns = fall_ns
    time_ns, power_w = _samples(power, channel, line, (2 * end_ns - after_ns, after_ns))
    if readings.update_s:
        time_ns, power_w = _new((time_ns, power_w))
    # Means of blocks of samples, so that the work does not grow with the recording.
    length = 1 + len(power_w) // MAX_SAMPLES
    whole = len(power_w) // length * length
    power_w = power_w[:whole].reshape(-1, length).mean(axis=1)
    bound_s = fall_s(
        time_ns[:whole:length],
        power_w,
        idle_w=readings.idle_w,
        loop_w=_median(readings.loop[1]),
        noise_w=readings.noise_w,
    )
    interval_s = readings.update_s or length / power.header.capability.rate_hz
    return interval_s if bound_s is None else bound_s


def _samples(power: PowerTrace, channel: str, line: ClockLine, window_ns: Window) -> Samples:
    """Times and values of the samples in a window of the device's clock; none is NaN."""
    begin_ns, end_ns = (int(time) for time in line.to_meter(window_ns))
    time_ns, power_w = power.samples(channel, begin_ns, end_ns)
    is_known = ~np.isnan(power_w)
    return time_ns[is_known], power_w[is_known]


def _new(samples: Samples) -> Samples:
    """The samples with a value that differs from the previous value."""
    time_ns, power_w = samples
    return time_ns[is_new(power_w)], power_w[is_new(power_w)]


def _median(values: Floats) -> float:
    return float(np.median(values)) if len(values) else 0.0
