"""The job of a sampler, and the messages that it sends meanwhile."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

DEFAULT_RATE_HZ = 10.0
JOB_FILE = "sampler.json"
FACTS_FILE = "sampled.json"
"""The sensors that the sampler found and what it cost; goes into the run's record."""
WATCHED, UNWATCHED = b"+", b"-"
"""Words to a sampler: from now on somebody watches, or nobody does."""
READY = "ready"
"""First line of a sampler: its sources are open, and the worker may begin."""


@dataclass(frozen=True, slots=True)
class SamplerJob:
    """One sampling, in a directory of its own."""

    worker_pid: int
    root: str = "/"
    """Directory that stands for / in tests and simulations."""
    rate_hz: float = DEFAULT_RATE_HZ
    cpus: tuple[int, ...] = ()
    """CPUs to stay on, away from those under test; empty: anywhere."""
    abort_c: float | None = None
    """Temperature of a watched zone at which the run has to end."""
    zones: tuple[str, ...] = ()
    """Types of the zones that matter; see `Observer` for a device that has none of them."""
    freq_sources: tuple[str, ...] = ("cpuinfo_avg_freq", "time_in_state", "scaling_cur_freq")
    """Sources of the clock that can be believed here, the best first."""


@dataclass(frozen=True, slots=True)
class LiveSample:
    """Temperature and clock at one time; None where no sensor reports it."""

    time_ns: int
    temp_c: float | None
    freq_hz: float | None


@dataclass(frozen=True, slots=True)
class LiveReading:
    """Temperature and clock for a person who watches a run; None where no sensor reports it."""

    time_ns: int
    temp_c: float | None
    freq_hz: float | None
    samples: tuple[LiveSample, ...] = ()
    """Samples since the last reading, while somebody watches the seat."""


class HeatState(Enum):
    """The device against the temperature at which a run has to end."""

    COOL = "cool"
    HOT = "hot"
    BLIND = "blind"
    """No zone has a temperature that can be believed."""


@dataclass(frozen=True, slots=True)
class HeatReport:
    """A change of the device's heat; sent once for each, and at the beginning."""

    heat: HeatState
    limit_c: float
    zone: str = ""
    """Type of the hottest zone."""
    temp_c: float | None = None
