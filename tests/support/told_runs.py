"""Runs as a story tells them: latency, clock, heat, core and cooling by time, in numpy alone.

Where `hot_runs` simulates a device, these runs are made of what the detector sees, so that each
detail of a case can be chosen: the length of a cycle, a clock that dips alone, a core that changes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from edgebench.host.analysis.thermal.telemetry import Series, TelemetryTrace
from edgebench.host.analysis.thermal.timeline import Timeline
from support.hot_runs import HotRun

Floats = NDArray[np.float64]
ByTime = Callable[[Floats], Floats]
"""Value at each of these times, seconds."""
NOMINAL_HZ = {0: 1.8e9, 4: 2.4e9}
CPU_OF = {0: 1.0, 4: 5.0}
MASKS = {"cpufreq.policy0.cpu_mask": 15.0, "cpufreq.policy4.cpu_mask": 240.0}
TOPS = {f"cpufreq.policy{policy}.freq_hz_max": hz for policy, hz in NOMINAL_HZ.items()}


def flat(value: float) -> ByTime:
    """The same all the time."""
    return lambda time_s: np.full(len(time_s), value)


def step(before: float, after: float, at_s: float, until_s: float = 1e9) -> ByTime:
    """One value, then another one, until a time."""
    return lambda time_s: np.where((time_s >= at_s) & (time_s < until_s), after, before)


@dataclass(frozen=True, slots=True)
class Cycle:
    """A part of each period, from a time on."""

    low_s: float
    period_s: float
    from_s: float = 60.0
    until_s: float = 1e9

    def __call__(self, time_s: Floats) -> NDArray[np.bool_]:
        inside = (time_s >= self.from_s) & (time_s < self.until_s)
        is_in: NDArray[np.bool_] = inside & ((time_s - self.from_s) % self.period_s < self.low_s)
        return is_in

    def of(self, value: float, rest: float = 1.0) -> ByTime:
        """This value in the cycle, and another one in the rest."""
        return lambda time_s: np.where(self(time_s), value, rest)


def line(first: float, last: float, begin_s: float, end_s: float) -> ByTime:
    """A value that changes linearly from one time to another, and stays there."""
    return lambda time_s: np.interp(time_s, [begin_s, end_s], [first, last])


_SAME, _COOL, _FIRST = flat(1.0), flat(50.0), flat(0.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Story:
    """What happens in a run."""

    seconds: float = 240.0
    latency: ByTime = _SAME
    """Latency over the undisturbed one."""
    clock: ByTime | None = _SAME
    """Clock of the model's policy over the nominal one; None: it cannot be read."""
    cap: ByTime = _SAME
    temp_c: ByTime | None = _COOL
    policy: ByTime = _FIRST
    """Policy that the model runs on."""
    cooling: Mapping[str, ByTime] = field(default_factory=dict[str, ByTime])
    """State of each cooling device, by its type."""
    devfreq: Mapping[str, ByTime] = field(default_factory=dict[str, ByTime])
    """Clock of each accelerator over 1 GHz, by its name; the cap stays where it is."""
    sensors: Mapping[str, ByTime] = field(default_factory=dict[str, ByTime])
    """Readings of further sensors, by their whole name."""
    constants: Mapping[str, float] = field(default_factory=dict[str, float])
    """Further constants of the telemetry."""
    temp_step_c: float = 0.5
    """Step of the thermometer."""
    invoke_s: float = 0.02
    pause_s: float = 0.0
    """Idle time after each inference."""
    noise: float = 0.01
    """Standard deviation of the logarithm of a latency."""
    outlier_ratio: float = 0.01
    reading_s: float = 0.1

    def run(self, seed: int) -> HotRun:
        """The run, with noise by the seed."""
        draw = np.random.default_rng(seed)
        return HotRun(self._timeline(draw), self._telemetry(draw))

    def _timeline(self, draw: np.random.Generator) -> Timeline:
        shortest_s = self.invoke_s / 2
        count = int(self.seconds / shortest_s)
        chance = np.exp(self.noise * draw.standard_normal(count))
        is_outlier = draw.random(count) < self.outlier_ratio
        chance[is_outlier] *= 1 + draw.exponential(0.5, int(is_outlier.sum()))
        # What the story tells at a step of 10 ms holds for the inferences that begin in it.
        factors = self.latency(np.arange(0, self.seconds + 1, 0.01)).tolist()
        starts = [0.0]
        # Lists, for the time of the next inference depends on that of the last one.
        for one in (self.invoke_s * chance).tolist():
            now_s = starts[-1] + one * factors[int(starts[-1] * 100)] + self.pause_s
            starts.append(now_s)
            if now_s >= self.seconds:
                break
        edges_ns = np.array(starts) * 1e9
        invoke_ns = np.diff(edges_ns) - self.pause_s * 1e9
        return Timeline(edges_ns[:-1].astype(np.int64), invoke_ns.astype(np.int64))

    def _telemetry(self, draw: np.random.Generator) -> TelemetryTrace:
        time_s = np.arange(0, self.seconds, self.reading_s)
        time_ns = (time_s * 1e9).astype(np.int64)
        policy = self.policy(time_s)
        series = {"worker.cpu": np.where(policy == 0, CPU_OF[0], CPU_OF[4])}
        if self.temp_c is not None:
            noisy = self.temp_c(time_s) + draw.normal(0, 0.2, len(time_s))
            steps = np.round(noisy / self.temp_step_c)
            series["thermal.cpu-thermal.0.temp_c"] = steps * self.temp_step_c
        for number, nominal_hz in NOMINAL_HZ.items():
            is_here = policy == number
            if self.clock is not None:
                ratio = np.where(is_here, self.clock(time_s), 1.0)
                series[f"cpufreq.policy{number}.freq_hz"] = nominal_hz * ratio
                cap = np.where(is_here, self.cap(time_s), 1.0)
                series[f"cpufreq.policy{number}.freq_hz_cap"] = nominal_hz * cap
        for name, ratio_at in self.devfreq.items():
            series[f"devfreq.{name}.freq_hz"] = 1e9 * ratio_at(time_s)
            series[f"devfreq.{name}.freq_hz_cap"] = np.full(len(time_s), 1e9)
        for kind, state in self.cooling.items():
            series[f"cooling.{kind}.0.state"] = state(time_s)
        series |= {name: value_at(time_s) for name, value_at in self.sensors.items()}
        made = {name: Series(time_ns, values) for name, values in series.items()}
        trip = {"thermal.cpu-thermal.0.throttle_c": 85.0}
        return TelemetryTrace(made, {**MASKS, **TOPS, **trip, **self.constants})
