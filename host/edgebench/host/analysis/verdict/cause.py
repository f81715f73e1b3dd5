"""Causes of failed rules.

A rule states a symptom with its number; a cause is what a person can change. Each rule belongs to
one cause, and some rules also fail as effects of other causes. For example, the latencies of a
device that other programs use vary, and the clock of a device with a weak supply falls.
"""

from __future__ import annotations

from enum import Enum


class Cause(Enum):
    """Cause of failed rules, whose value is stored in `causes` of a verdict in JSON.

    A failure that several causes may explain is attributed to the first of them in this order.
    Causes that the device itself reports come before inferred causes.
    """

    STOPPED = "stopped"
    PAUSED = "paused"
    CPU_LIMIT = "cpu_limit"
    POWER_SUPPLY = "power_supply"
    HEAT = "heat"
    OTHER_CORES = "other_cores"
    OTHER_PROGRAMS = "other_programs"
    TOO_MANY_THREADS = "too_many_threads"
    PHONE_STATE = "phone_state"
    MEMORY = "memory"
    CLOCK_FREQUENCY = "clock_frequency"
    HOT_START = "hot_start"
    WARMING_UP = "warming_up"
    UNKNOWN_SLOWDOWN = "unknown_slowdown"
    VARIATION = "variation"
    TOO_SHORT = "too_short"
    TOO_SMALL = "too_small"
    ARRIVALS = "arrivals"
    OUTPUTS = "outputs"
    INPUTS = "inputs"
    NOT_APPLIED = "not_applied"
    NOT_VERIFIED = "not_verified"
    NOT_IDLE = "not_idle"
    METER = "meter"
    TIME = "time"
    SAMPLER = "sampler"
    NOT_REAL = "not_real"

    @property
    def title(self) -> str:
        """The cause in a few words."""
        return _TITLES[self]

    @property
    def section(self) -> str:
        """Heading of the part of docs/suspect.md that describes the cause."""
        return _SECTIONS[self]


_TITLES = {
    Cause.STOPPED: "the measurement did not complete",
    Cause.PAUSED: "the device was paused or asleep",
    Cause.TOO_MANY_THREADS: "the model has more threads than CPUs",
    Cause.CPU_LIMIT: "a limit on CPU time stopped the model",
    Cause.POWER_SUPPLY: "the power supply is too weak",
    Cause.HEAT: "the device was hot",
    Cause.PHONE_STATE: "the state of the phone affects the latency",
    Cause.OTHER_CORES: "the model moved between types of cores",
    Cause.OTHER_PROGRAMS: "other programs used the device",
    Cause.MEMORY: "the device was short of memory",
    Cause.CLOCK_FREQUENCY: "the frequency of the clock changed or was low",
    Cause.HOT_START: "the device had not cooled down",
    Cause.WARMING_UP: "the device was still changing",
    Cause.UNKNOWN_SLOWDOWN: "the device slowed down for an unknown reason",
    Cause.VARIATION: "the latencies varied for an unknown reason",
    Cause.TOO_SHORT: "too little was measured",
    Cause.TOO_SMALL: "the model is too fast for the overhead of the measurement",
    Cause.ARRIVALS: "the device does not keep up with the queries",
    Cause.OUTPUTS: "the outputs are wrong",
    Cause.INPUTS: "the inputs do not test the model",
    Cause.NOT_APPLIED: "a requested setting was not applied",
    Cause.NOT_VERIFIED: "model or inputs are not verified",
    Cause.NOT_IDLE: "the device was not idle before or after the run",
    Cause.METER: "the meter's recording is in doubt",
    Cause.TIME: "the device's time is wrong",
    Cause.SAMPLER: "edgebench's sampler failed or disturbed the run",
    Cause.NOT_REAL: "device, CPU or meter is not real",
}

_BUSY = "The machine was busy"
_HOT = "The device was hot, or its clock changed"
_VARIED = "The latencies varied"
_SHORT = "The run was too short, or was stopped"
_SECTIONS = {
    Cause.STOPPED: _SHORT,
    Cause.PAUSED: _HOT,
    Cause.TOO_MANY_THREADS: _BUSY,
    Cause.CPU_LIMIT: _BUSY,
    Cause.POWER_SUPPLY: _HOT,
    Cause.HEAT: _HOT,
    Cause.PHONE_STATE: "Phones",
    Cause.OTHER_CORES: _BUSY,
    Cause.OTHER_PROGRAMS: _BUSY,
    Cause.MEMORY: "Memory",
    Cause.CLOCK_FREQUENCY: _HOT,
    Cause.HOT_START: _HOT,
    Cause.WARMING_UP: _VARIED,
    Cause.UNKNOWN_SLOWDOWN: _BUSY,
    Cause.VARIATION: _VARIED,
    Cause.TOO_SHORT: _SHORT,
    Cause.TOO_SMALL: "The tool itself",
    Cause.ARRIVALS: "Server runs and LoadGen",
    Cause.OUTPUTS: "The outputs",
    Cause.INPUTS: "The outputs",
    Cause.NOT_APPLIED: "The outputs",
    Cause.NOT_VERIFIED: "Microcontrollers",
    Cause.NOT_IDLE: "Energy",
    Cause.METER: "Energy",
    Cause.TIME: _HOT,
    Cause.SAMPLER: "The tool itself",
    Cause.NOT_REAL: "The tool itself",
}

DISTURBANCES = frozenset(
    {
        Cause.STOPPED,
        Cause.PAUSED,
        Cause.TOO_MANY_THREADS,
        Cause.CPU_LIMIT,
        Cause.POWER_SUPPLY,
        Cause.HEAT,
        Cause.PHONE_STATE,
        Cause.OTHER_CORES,
        Cause.OTHER_PROGRAMS,
        Cause.MEMORY,
        Cause.CLOCK_FREQUENCY,
    }
)
"""Causes that make a device slower for a part of the time, or end a run before its latencies are
steady."""
SLOWDOWNS = DISTURBANCES | {Cause.WARMING_UP, Cause.UNKNOWN_SLOWDOWN}
"""Causes that change the latency during a run."""
UNEXPLAINED = frozenset({Cause.UNKNOWN_SLOWDOWN, Cause.VARIATION})
"""Causes that name an effect without its origin, so no advice is certain to help."""
MENDED_AFTER = {Cause.TOO_MANY_THREADS: Cause.OTHER_PROGRAMS}
"""Maps a cause to the cause that must be removed before it. While other programs use the CPUs, a
model with fewer threads still waits for a CPU."""
