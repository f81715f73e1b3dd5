"""Synthetic meter, which is always available and has the same session as a real meter.

Theory of operation. Without a shape such as `square`, the power follows the work of this machine's
workers (follow.py). With a shape, a sample is the mean of the waveform over the sample's interval.
The mean is computed from the integral in closed form, so the energy of any number of samples is
exact and not estimated. Samples are generated as time passes, and go through the same session and
spool as the samples of a real meter (packed float64, watts). The times of samples refer to a
separate clock, which is `error` ppm faster than the host's clock.
"""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path

import numpy as np

from edgebench.meters.base import Capability, Channel, Floats, Header, MeterInfo
from edgebench.meters.options import Options
from edgebench.meters.polled import Clock
from edgebench.meters.stream import StreamSession
from edgebench.meters.synthetic.decoder import SAMPLE
from edgebench.meters.synthetic.follow import READ_SAMPLES, Follower
from edgebench.meters.synthetic.waveform import SyntheticSettings, settings_of
from edgebench.meters.uncertainty import Distribution, Kind, UncertaintyTerm, Unit, term
from edgebench.protocol.plain import to_plain

_TICK_S = 0.01
_COMPUTED = "synthetic: computed, nothing is measured"


class Generator:
    """Source of the samples of a waveform that are due at the time of each read."""

    def __init__(self, settings: SyntheticSettings, clock_ns: Clock) -> None:
        self._settings = settings
        self._clock_ns = clock_ns
        self._noise = np.random.default_rng(settings.seed)
        self._began_ns = 0
        self._sent = 0

    def start(self) -> None:
        """Start at sample 0."""
        self._began_ns = self._clock_ns()

    def read(self, timeout_s: float) -> bytes:
        """Return the samples since the last read; wait up to 10 ms if none are due."""
        count = self._due()
        if count == 0:
            time.sleep(min(timeout_s, _TICK_S))
            count = self._due()
        return self.samples(count).astype(SAMPLE).tobytes()

    def samples(self, count: int) -> Floats:
        """Compute the next samples, in W; shape (count,)."""
        wanted = self._settings
        time_s = np.arange(self._sent, self._sent + count + 1) / wanted.rate_hz
        power_w = np.diff(wanted.waveform.energy_j(time_s)) * wanted.rate_hz
        self._sent += count
        if wanted.noise_w:
            power_w += self._noise.normal(0.0, wanted.noise_w, count)
        return power_w

    def stop(self) -> None:
        """Nothing to release."""

    def _due(self) -> int:
        rate_hz = self._settings.rate_hz * (1 + self._settings.rate_error_ppm * 1e-6)
        due = int((self._clock_ns() - self._began_ns) / 1e9 * rate_hz)
        return min(due - self._sent, READ_SAMPLES)


class Synthetic:
    """A meter that computes a waveform."""

    name = "synthetic"

    def __init__(self, settings: SyntheticSettings, clock_ns: Clock = time.perf_counter_ns) -> None:
        self._settings = settings
        self._clock_ns = clock_ns

    def open(self) -> Header:
        """Describe the meter; it is always available."""
        return Header(
            driver=self.name,
            info=MeterInfo(vendor="edgebench", model="synthetic, nothing is measured"),
            capability=Capability(
                driver=self.name,
                channels=(Channel("synthetic", "synthetic"),),
                rate_hz=self._settings.rate_hz,
                is_averaging=True,
                is_uniform=True,
                clock_domain="meter:synthetic",
                loss_detection="wallclock",
                min_window_s=1 / self._settings.rate_hz,
            ),
            uncertainty=_uncertainty(self._settings),
            facts=to_plain(self._settings),
        )

    def session(self, path: Path) -> StreamSession:
        """Create a recording from the start of the waveform."""
        make = Follower if self._settings.waveform.shape == "follow" else Generator
        source = make(self._settings, self._clock_ns)
        return StreamSession(source, self.open(), path, start=source.start, stop=source.stop)

    def close(self) -> None:
        """Nothing to release."""


def _uncertainty(settings: SyntheticSettings) -> tuple[UncertaintyTerm, ...]:
    model = term(Kind.MODEL, 0.0, _COMPUTED)
    noise = term(Kind.NOISE, settings.noise_w, _COMPUTED, Unit.WATT)
    normal = replace(noise, distribution=Distribution.NORMAL)
    return (model, normal) if settings.noise_w else (model,)


def make_meter(options: Options) -> Synthetic:
    """Create the meter for options like `square,low=0.2,high=1.0,period=0.1`."""
    return Synthetic(settings_of(options))
