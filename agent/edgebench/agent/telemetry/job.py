"""The job of the sampler process, and the messages that the process sends."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

DEFAULT_RATE_HZ = 10.0
JOB_FILE = "sampler.json"
FACTS_FILE = "sampled.json"
"""File with the sensors that the sampler found, and the sampler's CPU time; the content becomes
part of the run's record."""
WATCHED, UNWATCHED = b"+", b"-"
"""Two messages to a sampler: its device now has watchers; its device no longer has watchers."""
READY = "ready"
"""First line that a sampler prints, when its sources are open and the worker may start."""


@dataclass(frozen=True, slots=True)
class SamplerJob:
    """Parameters of a sampler process, stored as `JOB_FILE` in the run's directory."""

    worker_pid: int
    root: str = "/"
    """Directory that replaces / in tests and simulations."""
    rate_hz: float = DEFAULT_RATE_HZ
    cpus: tuple[int, ...] = ()
    """CPUs on which the sampler may run, without the CPUs under test; empty: any CPU."""
    abort_c: float | None = None
    """Temperature of a zone at which the run must end; None: no limit."""
    zones: tuple[str, ...] = ()
    """Types of the thermal zones that are monitored. If the device has none of these zones, other
    zones are used, as `Observer` describes."""
    freq_sources: tuple[str, ...] = ("cpuinfo_avg_freq", "time_in_state", "scaling_cur_freq")
    """Sources of the CPU frequency that are reliable on this device, the best first."""


@dataclass(frozen=True, slots=True)
class LiveSample:
    """Temperature and CPU frequency at a point in time; each is None if no sensor reports it."""

    time_ns: int
    temp_c: float | None
    freq_hz: float | None


@dataclass(frozen=True, slots=True)
class LiveReading:
    """Temperature and CPU frequency for watchers of a run; each is None if no sensor reports it."""

    time_ns: int
    temp_c: float | None
    freq_hz: float | None
    samples: tuple[LiveSample, ...] = ()
    """Samples since the previous reading; empty if the seat has no watchers."""


class HeatState(Enum):
    """State of the device relative to the temperature at which a run must end."""

    COOL = "cool"
    HOT = "hot"
    BLIND = "blind"
    """No zone reports a credible temperature."""


@dataclass(frozen=True, slots=True)
class HeatReport:
    """The device's heat state, sent at the beginning and after each change."""

    heat: HeatState
    limit_c: float
    zone: str = ""
    """Type of the hottest zone."""
    temp_c: float | None = None
