"""The job of a sampler, and the messages that it sends."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

DEFAULT_RATE_HZ = 10.0
JOB_FILE = "sampler.json"
FACTS_FILE = "sampled.json"
"""The sensors that the sampler found, and its cost; part of the run's record."""
WATCHED, UNWATCHED = b"+", b"-"
"""Messages to a sampler: the seat is watched from now on, or no longer."""
READY = "ready"
"""First line of a sampler: its sources are open, and the worker may start."""


@dataclass(frozen=True, slots=True)
class SamplerJob:
    """A sampling, in its own directory."""

    worker_pid: int
    root: str = "/"
    """Directory that stands for / in tests and simulations."""
    rate_hz: float = DEFAULT_RATE_HZ
    cpus: tuple[int, ...] = ()
    """CPUs to stay on, away from those under test; empty: any."""
    abort_c: float | None = None
    """Temperature of a watched zone at which the run must end."""
    zones: tuple[str, ...] = ()
    """Types of the zones that matter; see `Observer` for a device without any of them."""
    freq_sources: tuple[str, ...] = ("cpuinfo_avg_freq", "time_in_state", "scaling_cur_freq")
    """Sources of the clock that can be trusted here, the best first."""


@dataclass(frozen=True, slots=True)
class LiveSample:
    """Temperature and clock at a point in time; None if no sensor reports it."""

    time_ns: int
    temp_c: float | None
    freq_hz: float | None


@dataclass(frozen=True, slots=True)
class LiveReading:
    """Temperature and clock for watchers of a run; None if no sensor reports it."""

    time_ns: int
    temp_c: float | None
    freq_hz: float | None
    samples: tuple[LiveSample, ...] = ()
    """Samples since the last reading, while the seat is watched."""


class HeatState(Enum):
    """State of the device relative to the temperature at which a run must end."""

    COOL = "cool"
    HOT = "hot"
    BLIND = "blind"
    """No zone has a temperature that can be trusted."""


@dataclass(frozen=True, slots=True)
class HeatReport:
    """A change of the device's heat; sent at each change, and at the beginning."""

    heat: HeatState
    limit_c: float
    zone: str = ""
    """Type of the hottest zone."""
    temp_c: float | None = None
