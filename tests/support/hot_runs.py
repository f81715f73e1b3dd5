"""Whole runs on simulated devices, in no time: what was measured, and what was sampled."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from edgebench.host.analysis.thermal.telemetry import Series, TelemetryTrace
from edgebench.host.analysis.thermal.timeline import Timeline
from edgebench.protocol.thermal import Expectation, ExpectedZone
from edgebench.simulation.controllers import STICKY_SHIFT, Controller, Effect
from edgebench.simulation.heat import Body, at_rest

Floats = NDArray[np.float64]

STEP_S = 0.1
INVOKE_S = 0.02
FIRMWARE_EVERY = 10
"""Steps between two looks at the firmware: each starts a process, so they come once a second."""
BARE_BOARD = Body(junction_k_per_w=4.0, junction_j_per_k=5.0, case_k_per_w=6.0, case_j_per_k=50.0)
"""About a Raspberry Pi without a cooler: 20 s and 5 min."""
RASPBERRY_PI = Expectation(
    profile="raspberrypi-4b",
    zones=(ExpectedZone("cpu-thermal", 80.0),),
    is_freq_a_request=True,
    freq_truth=("vcgencmd:arm", "cpuinfo_avg_freq", "scaling_cur_freq"),
    thermal_now=0xC,
    thermal_sticky=0xC0000,
    power_now=0x1,
    power_sticky=0x10000,
)
LINUX = Expectation(profile="board", zones=(ExpectedZone("cpu-thermal", 85.0, True),))

Load = Callable[[float], float]
"""Share of the time in which the model runs, by time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Device:
    """A simulated device, and what of it can be read."""

    controller: Controller
    body: Body = BARE_BOARD
    ambient_c: float = 25.0
    idle_w: float = 2.0
    busy_w: float = 5.0
    """On top of the idle power, at full clock."""
    has_firmware: bool = False
    has_cpufreq: bool = True
    has_zone: bool = True
    zone: str = "cpu-thermal"
    """Type of the thermal zone."""
    policy: int = 0
    """Number of the cpufreq policy of the CPUs that run the model."""
    freq_hz: float = 1.5e9
    cooling: str | None = None
    """Type of the cooling device."""
    constants: dict[str, float] = field(default_factory=dict)
    little_from_s: tuple[float, float] | None = None
    """While the scheduler has the model on slow cores."""


@dataclass(frozen=True, slots=True)
class HotRun:
    """One run."""

    timeline: Timeline
    telemetry: TelemetryTrace


def always(_: float) -> float:
    """One inference after another."""
    return 1.0


def simulate(device: Device, *, seconds: float, seed: int, load: Load = always) -> HotRun:
    """Run the model on the device for so long."""
    draw = np.random.default_rng(seed)
    heat = at_rest(device.body, device.ambient_c + draw.normal(0, 1), device.idle_w)
    steps = round(seconds / STEP_S)
    temps, effects, shares = np.empty(steps), [], np.empty(steps)
    for step in range(steps):
        share = load(step * STEP_S)
        effect = device.controller.act(step * STEP_S, heat.junction_c, share)
        power_w = device.idle_w + device.busy_w * share * effect.clock**2.5 * (1 - effect.idle)
        heat.advance(STEP_S, power_w, case_k_per_w=device.body.case_k_per_w / (1 + 2 * effect.fan))
        temps[step], shares[step] = heat.junction_c, share
        effects.append(effect)
    speed = np.array([effect.speed for effect in effects])
    is_little = _is_little(device, steps)
    timeline = _timeline(speed * np.where(is_little, 0.4, 1.0), shares, draw)
    return HotRun(timeline, _telemetry(device, temps, effects, shares, is_little, draw))


def _is_little(device: Device, steps: int) -> NDArray[np.bool_]:
    time_s = np.arange(steps) * STEP_S
    if device.little_from_s is None:
        return np.zeros(steps, np.bool_)
    begin, end = device.little_from_s
    inside: NDArray[np.bool_] = (time_s >= begin) & (time_s < end)
    return inside


def _timeline(speed: Floats, shares: Floats, draw: np.random.Generator) -> Timeline:
    done = np.floor(np.cumsum(STEP_S * shares * speed / INVOKE_S) + 1e-9)
    counts = np.diff(done, prepend=0).astype(int)
    begins = np.repeat(np.arange(len(speed)) * STEP_S, counts)
    number = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
    invoke_s = (
        INVOKE_S / np.repeat(speed, counts) * np.exp(0.01 * draw.standard_normal(len(begins)))
    )
    is_outlier = draw.random(len(begins)) < 0.01
    invoke_s[is_outlier] *= 1 + draw.exponential(0.5, int(is_outlier.sum()))
    start_s = begins + number * STEP_S / np.repeat(counts, counts)
    return Timeline((start_s * 1e9).astype(np.int64), (invoke_s * 1e9).astype(np.int64))


def _telemetry(
    device: Device,
    temps: Floats,
    effects: list[Effect],
    shares: Floats,
    is_little: NDArray[np.bool_],
    draw: np.random.Generator,
) -> TelemetryTrace:
    time_ns = (np.arange(len(temps)) * STEP_S * 1e9).astype(np.int64)
    series: dict[str, Series] = {}

    def add(name: str, values: Floats, every: int = 1) -> None:
        kept = np.append(np.arange(0, len(time_ns) - 1, every), len(time_ns) - 1)
        series[name] = Series(time_ns[kept], values[kept])  # the last look comes at the end

    if device.has_zone:
        noisy = temps + draw.normal(0, 0.3, len(temps))
        add(f"thermal.{device.zone}.0.temp_c", np.round(noisy * 2) / 2)
    if device.has_cpufreq:
        name, full_hz = f"cpufreq.policy{device.policy}", device.freq_hz
        told = full_hz * np.array([effect.told_clock for effect in effects])
        told = np.where(shares > 0, told, 0.6e9)
        add(f"{name}.freq_hz", told)
        add(f"{name}.freq_hz_cap", full_hz * np.array([effect.cap for effect in effects]))
        add(f"{name}.cycles", np.cumsum(told * STEP_S))
    if device.little_from_s is not None:
        add("cpufreq.policy4.freq_hz", np.full(len(temps), 2.4e9))
        add("cpufreq.policy4.freq_hz_cap", np.full(len(temps), 2.4e9))
        add("cpufreq.policy4.cycles", np.cumsum(np.full(len(temps), 2.4e9 * STEP_S)))
        add("worker.cpu", np.where(is_little, 1.0, 5.0))
    if device.has_firmware:
        now = np.array([effect.bits for effect in effects])
        sticky = np.bitwise_or.accumulate(now) << STICKY_SHIFT
        add("rpi.throttled_bits", (now | sticky).astype(float), FIRMWARE_EVERY)
        clock_hz = device.freq_hz * np.array([effect.clock for effect in effects])
        add("rpi.arm_freq_hz", clock_hz, FIRMWARE_EVERY)
    if device.cooling:
        states = np.array([float(effect.cooling_state) for effect in effects])
        add(f"cooling.{device.cooling}.0.state", states)
    events = np.array([float(effect.overcurrent_count) for effect in effects])
    if events.any():
        add("hwmon.soctherm_oc.0.oc3.event_count", events)
    masks = {"cpufreq.policy0.cpu_mask": 15.0, "cpufreq.policy4.cpu_mask": 240.0}
    return TelemetryTrace(series, masks | device.constants)
