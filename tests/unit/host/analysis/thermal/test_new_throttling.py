"""Causes at the edges of what the detector sees: budgets of seconds, memory clocks, odd sensors.

Each story is what a device of that kind does; its verdict is what a person who knew the device
would call it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
from support.hot_runs import LINUX, RASPBERRY_PI
from support.told_runs import ByTime, Cycle, Floats, Story, flat, line, step

from edgebench.host.analysis.thermal.throttling import find_throttling
from edgebench.protocol.record import OperatorPlacement
from edgebench.protocol.thermal import Expectation, ExpectedAccelerator, ExpectedZone

SEEDS = range(3)
THERMAL, HIDDEN, VOLTAGE = "throttled:thermal", "throttled:hidden", "throttled:undervoltage"
LIMITED, UNNAMED = "frequency_limited:power_limit", "frequency_limited:unknown"
MEMORY, OTHER = "frequency_limited:memory_clock", "interference"
NONE, UNKNOWN = "not_throttled", "unknown"
HOT, WARM = flat(86.0), flat(70.0)
HEATING = step(70.0, 86.0, 50.0)
GPU = "fb000000.gpu"
ON_GPU = (OperatorPlacement("gpu", "CONV_2D", 10),)
GPU_BOARD = replace(LINUX, accelerators=(ExpectedAccelerator("mali", "gpu", GPU),))
SILENT_PHONE = Expectation("phone")
TWO_ZONES = replace(
    LINUX, zones=(ExpectedZone("cpu-thermal", 85.0), ExpectedZone("soc-thermal", 75.0))
)


@dataclass(frozen=True, slots=True)
class Case:
    """A story, and what is to be reported of it."""

    story: Story
    verdict: str
    says: str = ""
    """Part of the reason."""
    expected: Expectation = LINUX
    placement: tuple[OperatorPlacement, ...] = ()


def falls(at_s: float, ratio: float = 0.75, **fields: Any) -> Story:
    """Return a story whose clock falls at a time, and slows the model down as much."""
    story = Story(latency=step(1.0, 1 / ratio, at_s), clock=step(1.0, ratio, at_s), temp_c=WARM)
    return replace(story, **fields)


def memory(name: str, before: float, after: float, at_s: float, **fields: Any) -> Story:
    """Return a story in which the clock of the memory falls, in GHz, and costs 35 %."""
    devfreq = {name: step(before, after, at_s)}
    return replace(Story(latency=step(1.0, 1.35, at_s), temp_c=WARM, devfreq=devfreq), **fields)


def flutter(time_s: Floats) -> Floats:
    """Return the clock of a memory whose governor follows the load of each tenth of a second."""
    return np.where(np.sin(time_s * 37.0) > 0.2, 2.112, 0.528)


def sawtooth(high: float, low: float, period_s: float) -> ByTime:
    """Return a value that rises for a period, and falls back."""
    return lambda time_s: low + (high - low) * (time_s % period_s) / period_s


TRIPPED = Cycle(6.0, 14.0, 30.0)

CASES: dict[str, Case] = {
    # Budgets and heat that end in the first seconds.
    "PL2 for 2.5 s": Case(falls(2.5), LIMITED),
    "PL2 for 2 s of a minute": Case(falls(2.0, seconds=60.0), LIMITED),
    "PL2 for 2.5 s of a minute": Case(falls(2.5, seconds=60.0), LIMITED),
    "PL2 for 2.5 s of a long run": Case(falls(2.5, seconds=480.0), LIMITED),
    "PL2 for 2.5 s of a short run": Case(falls(2.5, seconds=12.0), LIMITED),
    "PL2 for 8 s": Case(falls(8.0, seconds=60.0), LIMITED),
    "boost of a phone for 3 s": Case(
        falls(3.0, 0.85, temp_c=None, sensors={"android.thermal_status": flat(0.0)}),
        LIMITED,
        expected=replace(SILENT_PHONE, indicators=("android_thermal_status",)),
    ),
    "heat from the third second on": Case(
        falls(3.0, temp_c=step(80.0, 86.0, 2.0)), THERMAL, "while the clock fell"
    ),
    "hot from the start, slower after 2 s": Case(falls(2.0, temp_c=HOT), THERMAL),
    "hidden from the third second on": Case(
        falls(3.0, clock=flat(1.0), temp_c=HOT), HIDDEN, "clock did not fall"
    ),
    "neighbour from the third second on": Case(falls(3.0, clock=flat(1.0)), OTHER),
    "limit of the clock that falls after 2 s, and no clock to read": Case(
        falls(
            2.0,
            clock=None,
            seconds=60.0,
            sensors={"cpufreq.policy0.freq_hz_cap": step(1.8e9, 1.35e9, 2.0)},
        ),
        LIMITED,
    ),
    # How a clock falls.
    "slow creep": Case(
        Story(
            latency=line(1.0, 1.4, 20.0, 240.0),
            clock=line(1.0, 1 / 1.4, 20.0, 240.0),
            temp_c=line(70.0, 90.0, 0.0, 60.0),
        ),
        THERMAL,
    ),
    "step": Case(falls(60.0, temp_c=HEATING), THERMAL),
    "saw-tooth between trip and hysteresis": Case(
        Story(
            latency=TRIPPED.of(1.4),
            clock=TRIPPED.of(1 / 1.4),
            temp_c=sawtooth(86.0, 83.5, 14.0),
            seconds=180.0,
        ),
        THERMAL,
    ),
    "budget that is spent and refilled": Case(
        Story(latency=Cycle(18.0, 28.0).of(1.3), clock=Cycle(18.0, 28.0).of(1 / 1.3), temp_c=WARM),
        LIMITED,
    ),
    "clock that is reported 2 s late": Case(
        falls(60.0, clock=step(1.0, 0.75, 62.0), temp_c=HEATING), THERMAL, "while the clock fell"
    ),
    # The parts of a chip.
    "big cluster, model on it": Case(
        falls(60.0, policy=flat(4.0), temp_c=HEATING), THERMAL, "while the clock fell"
    ),
    "other cluster": Case(
        Story(temp_c=HEATING, sensors={"cpufreq.policy4.freq_hz": step(2.4e9, 1.2e9, 60.0)}), NONE
    ),
    "GPU that runs the model": Case(
        Story(latency=step(1.0, 1.6, 3.0), devfreq={GPU: step(1.0, 0.6, 3.0)}, temp_c=WARM),
        LIMITED,
        expected=GPU_BOARD,
        placement=ON_GPU,
    ),
    "memory controller": Case(
        memory("dmc", 2.112, 0.528, 60.0), MEMORY, "dmc fell from 2.11 GHz to 0.53 GHz"
    ),
    "memory controller from the third second on": Case(memory("dmc", 2.112, 0.528, 3.0), MEMORY),
    "memory controller of a hot board": Case(
        memory("dmc", 2.112, 0.528, 60.0, temp_c=HEATING),
        THERMAL,
        "while the clock of dmc fell from 2.11 GHz to 0.53 GHz",
    ),
    "bus, and a CPU clock that cannot be read": Case(
        memory("soc:bus-wcore", 0.532, 0.088, 60.0, clock=None), MEMORY, "soc:bus-wcore"
    ),
    "memory of the GPU that runs the model": Case(
        replace(
            memory("soc:gpu-mem", 1.6, 0.4, 60.0),
            devfreq={GPU: flat(1.0), "soc:gpu-mem": step(1.6, 0.4, 60.0)},
        ),
        MEMORY,
        "soc:gpu-mem",
        GPU_BOARD,
        ON_GPU,
    ),
    "neighbour, and a memory clock that follows the load": Case(
        Story(latency=step(1.0, 1.35, 60.0), temp_c=WARM, devfreq={"dmc": flutter}), OTHER
    ),
    "video unit that stops beside a neighbour": Case(
        memory("fdc38100.rkvdec", 0.8, 0.2, 60.0), OTHER
    ),
    # The supply.
    "under-voltage alarm": Case(
        falls(60.0, sensors={"hwmon.rpi_volt.0.in0.undervoltage": step(0.0, 1.0, 60.0)}),
        VOLTAGE,
        expected=replace(LINUX, indicators=("undervoltage",)),
    ),
    "under-voltage bits": Case(
        falls(60.0, sensors={"rpi.throttled_bits": step(0.0, float(0x50005), 60.0)}),
        VOLTAGE,
        expected=RASPBERRY_PI,
    ),
    # Slower or faster, and not throttled.
    "fan that starts": Case(
        Story(
            temp_c=line(86.0, 60.0, 40.0, 90.0),
            cooling={"pwm-fan": step(0.0, 3.0, 40.0)},
        ),
        NONE,
    ),
    "governor powersave": Case(Story(clock=flat(0.3), cap=flat(0.3), temp_c=WARM), NONE),
    "neighbours": Case(Story(latency=step(1.0, 1.3, 90.0), temp_c=WARM), OTHER),
    "cold start that warms up": Case(
        Story(latency=step(1.4, 1.0, 3.0), clock=step(0.7, 1.0, 3.0), temp_c=WARM), NONE
    ),
    "pause of a virtual machine": Case(
        Story(latency=step(1.0, 150.0, 100.0, 100.01), temp_c=WARM), NONE
    ),
    "idle states between inferences": Case(
        Story(pause_s=0.04, clock=step(1.0, 0.4, 60.0), temp_c=WARM), NONE
    ),
    "migration to little cores": Case(
        Story(latency=step(1.0, 2.5, 90.0), policy=step(4.0, 0.0, 90.0), temp_c=WARM),
        NONE,
        "on another type of core",
    ),
    # Odd thermometers.
    "thermometer in steps of 1 °C": Case(
        falls(60.0, temp_c=step(70.0, 85.0, 55.0), temp_step_c=1.0), THERMAL
    ),
    "thermometer in steps of 5 °C": Case(
        falls(60.0, temp_c=step(70.0, 85.0, 55.0), temp_step_c=5.0), THERMAL
    ),
    "thermometer in steps of 5 °C, far below the trip": Case(
        falls(60.0, temp_c=line(60.0, 77.0, 0.0, 240.0), temp_step_c=5.0), LIMITED
    ),
    "no thermometer": Case(falls(60.0, temp_c=None), UNNAMED),
    "neither thermometer nor clock": Case(falls(60.0, temp_c=None, clock=None), UNKNOWN),
    "two zones, the other one hot": Case(
        falls(60.0, sensors={"thermal.soc-thermal.1.temp_c": step(60.0, 76.0, 50.0)}),
        THERMAL,
        expected=TWO_ZONES,
    ),
    "throttle counter that grows": Case(
        falls(60.0, temp_c=None, sensors={"x86.cpu0.throttle_count": line(3.0, 90.0, 60.0, 240.0)}),
        THERMAL,
        "grew by",
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_cause_of_each_situation_is_named(name: str) -> None:
    """Otherwise a slow device would be called steady, or a busy one throttled."""
    case = CASES[name]
    for seed in SEEDS:
        run = case.story.run(seed)
        result = find_throttling(
            run.timeline, run.telemetry, case.expected, placement=case.placement
        )
        assert result.verdict == case.verdict, result.reason
        assert case.says in result.reason


def test_there_are_enough_situations() -> None:
    """The page about throttling promises at least 32 situations."""
    assert len(CASES) >= 32
