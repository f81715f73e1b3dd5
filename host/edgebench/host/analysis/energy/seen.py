"""Filter and noise of a meter, estimated from a trace if the driver does not declare them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from edgebench.host.analysis.energy.integrate import Floats
from edgebench.host.analysis.energy.power_trace import PowerTrace
from edgebench.host.analysis.energy.sync.alignment import ClockLine
from edgebench.host.analysis.energy.sync.smear import smear_s
from edgebench.meters.uncertainty import Kind
from edgebench.protocol.record import LoadCode

MAX_NOISE_SAMPLES = 20_000
"""Maximum number of samples used per idle window: they give the noise to 1 %."""

ROUNDING = 1e-9
"""Ratio of step to power below which the step is a rounding error."""


@dataclass(frozen=True, slots=True)
class SeenMeter:
    """A meter's behaviour, estimated from its trace; 0 if undetected or declared by the driver."""

    smoothing_s: float = 0.0
    """Time constant with which the meter smooths changes of the power."""
    noise_w: float = 0.0
    """Standard deviation of a sample while the device is idle."""


def look_at_meter(
    power: PowerTrace,
    channel: str,
    line: ClockLine,
    codes: Sequence[LoadCode],
    idles_ns: Sequence[tuple[int, int]],
) -> SeenMeter:
    """Estimate what the driver does not declare.

    Args:
        power: The recording.
        channel: Channel in which the codes were found.
        line: Line from the device's clock to the meter's.
        codes: Load codes that were found in the trace; may be empty.
        idles_ns: Idle windows, device clock.
    """
    capability = power.header.capability
    declared = {term.kind for term in power.header.uncertainty}
    smoothing_s = noise_w = 0.0
    if codes and not capability.smoothing_s:
        smoothing_s = smear_s(
            codes,
            lambda time_ns: power.cumulative_j(channel, time_ns),
            line,
            1 / capability.rate_hz,
        )
    # For instants, the term for the power between samples includes their noise.
    if capability.is_averaging and Kind.NOISE not in declared:
        noise_w = idle_noise_w(power, channel, line, idles_ns)
    return SeenMeter(smoothing_s=smoothing_s, noise_w=noise_w)


def idle_noise_w(
    power: PowerTrace, channel: str, line: ClockLine, idles_ns: Sequence[tuple[int, int]]
) -> float:
    """Standard deviation of a sample, from successive samples while the device is idle.

    Uses the median of their differences: occasional activity of the device is not meter noise.

    Source: Rousseeuw & Croux, Alternatives to the median absolute deviation (1993), for 1.4826.
    """
    interval_ns = 1e9 / power.header.capability.rate_hz
    first_ns, last_ns = power.span_ns(channel)
    steps_w: list[Floats] = []
    highest_w = 0.0
    for begin_ns, end_ns in idles_ns:
        begin, end = (int(one) for one in line.to_meter([begin_ns, end_ns]))
        # Samples are evenly spaced, so each piece is one sample.
        first = max(0, math.ceil((begin - first_ns) / interval_ns))
        last = math.floor((min(end, last_ns) - first_ns) / interval_ns)
        places = np.arange(first, min(last, first + MAX_NOISE_SAMPLES) + 1)
        times_ns = first_ns + np.rint(places * interval_ns).astype(np.int64)
        powers_w = np.diff(power.cumulative_j(channel, times_ns)) / interval_ns * 1e9
        steps_w.append(np.abs(np.diff(powers_w)))
        highest_w = max(highest_w, float(np.abs(powers_w).max(initial=0)))
    if not any(len(one) for one in steps_w):
        return 0.0
    step_w = float(np.median(np.concatenate(steps_w)))
    return 1.4826 * step_w / math.sqrt(2) if step_w > ROUNDING * highest_w else 0.0
