"""Waveforms with a known energy, and the options that select them.

    follow,low=2,high=4
    constant,power=0.5
    square,low=0.2,high=1.0,period=0.1,duty=0.5
    ramp,low=0,high=2,period=10

Each waveform also takes the options rate=1000 (samples per second), noise=0.01 (W), seed=7 (a
number) and error=50 (ppm of the rate).

The power of `follow` is derived from the work of this machine's workers (follow.py). The energy of
the other shapes is known in closed form.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from edgebench.meters.base import Floats
from edgebench.meters.options import Options
from edgebench.protocol.errors import UsageError

RATE_LIMITS_HZ = (1.0, 200_000.0)
"""Lowest and highest sample rate. With fewer samples, a session would regard the meter as silent;
with more samples, Python may be too slow."""
FOLLOW_RATE_HZ = 200.0
"""Default sample rate of the waveform `follow`. This rate suffices to show a load code and takes
0.6 % of a CPU, while a higher rate would disturb the timed work."""
_FOLLOW_RATE_MAX_HZ = 1000.0
FOLLOW_NOISE_W = 0.01
"""Invented noise. The CPU time varies only while workers are busy. Without this noise, all samples
of an idle time would be equal, as if the meter were stuck."""
_FOLLOW_W = (2.0, 4.0)
"""Invented powers, which resemble those of a single-board computer with no busy CPU and with one
busy CPU."""
_POWER_LIMITS_W = (-1e6, 1e6)
_PERIOD_LIMITS_S = (1e-6, 86_400.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Waveform:
    """Power as a function of the meter's own time."""

    shape: Literal["follow", "constant", "square", "ramp"]
    low_w: float
    high_w: float
    period_s: float = 1.0
    duty_ratio: float = 1.0
    """Share of a square's period in which the power is high, from the start of the period."""

    def energy_j(self, time_s: Floats) -> Floats:
        """Exact energy in J since time 0; same shape as `time_s`."""
        periods: Floats = np.floor(time_s / self.period_s)
        phase_s: Floats = time_s - periods * self.period_s
        rise_w = self.high_w - self.low_w
        if self.shape == "ramp":
            whole_s, part_s = self.period_s / 2, phase_s**2 / (2 * self.period_s)
        else:
            whole_s = self.duty_ratio * self.period_s
            part_s = np.minimum(phase_s, whole_s)
        risen_s: Floats = periods * whole_s + part_s
        return self.low_w * time_s + rise_w * risen_s


@dataclass(frozen=True, slots=True, kw_only=True)
class SyntheticSettings:
    """The user's options, which are stored as the facts of a recording's header."""

    waveform: Waveform
    rate_hz: float = 1000.0
    noise_w: float = 0.0
    """Standard deviation of the noise in a sample."""
    seed: int = 0
    rate_error_ppm: float = 0.0


def settings_of(options: Options) -> SyntheticSettings:
    """Parse options such as `square,low=0.2,high=1.0,period=0.1`; `follow` is the default.

    Raises:
        UsageError: the shape is unknown, or a value is outside its limits.
    """
    waveform = _waveform(options)
    is_following = waveform.shape == "follow"
    low_hz, high_hz = RATE_LIMITS_HZ
    settings = SyntheticSettings(
        waveform=waveform,
        rate_hz=options.within(
            "rate",
            FOLLOW_RATE_HZ if is_following else 1000.0,
            (low_hz, _FOLLOW_RATE_MAX_HZ if is_following else high_hz),
        ),
        noise_w=options.within("noise", FOLLOW_NOISE_W if is_following else 0.0, (0.0, 1e6)),
        seed=int(options.within("seed", 0.0, (0.0, 2.0**53))),
        rate_error_ppm=options.within("error", 0.0, (-500_000.0, 500_000.0)),
    )
    options.finish()
    return settings


def _waveform(options: Options) -> Waveform:
    # A power without a shape selects constant, which used to be the only shape.
    shape = options.address or ("constant" if "power" in options.values else "follow")
    if shape == "follow":
        low_w, high_w = (
            options.within(name, usual_w, _POWER_LIMITS_W)
            for name, usual_w in zip(("low", "high"), _FOLLOW_W, strict=True)
        )
        return Waveform(shape="follow", low_w=low_w, high_w=high_w)
    if shape == "constant":
        power_w = options.within("power", 1.0, _POWER_LIMITS_W)
        return Waveform(shape="constant", low_w=power_w, high_w=power_w)
    low_w = options.within("low", 0.0, _POWER_LIMITS_W)
    high_w = options.within("high", 1.0, _POWER_LIMITS_W)
    period_s = options.within("period", 1.0, _PERIOD_LIMITS_S)
    if shape == "ramp":
        return Waveform(shape="ramp", low_w=low_w, high_w=high_w, period_s=period_s)
    if shape != "square":
        raise UsageError(
            f"meter {options.driver} has no shape {shape!r}; available: follow, constant, square, "
            "ramp"
        )
    duty_ratio = options.within("duty", 0.5, (0.0, 1.0))
    return Waveform(
        shape="square", low_w=low_w, high_w=high_w, period_s=period_s, duty_ratio=duty_ratio
    )
