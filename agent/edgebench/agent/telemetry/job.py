"""What the daemon asks of a sampler, and what the sampler tells meanwhile."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

DEFAULT_RATE_HZ = 10.0
JOB_FILE = "sampler.json"
FACTS_FILE = "sampled.json"
"""What the sampler found and what it cost; goes into the run's record."""
READY = "ready"
"""The sampler's first line: its sources are open, and the worker may begin."""


@dataclass(frozen=True, slots=True)
class SamplerJob:
    """One sampling, in a directory of its own."""

    worker_pid: int
    root: str = "/"
    """Stands for / in tests and simulations."""
    rate_hz: float = DEFAULT_RATE_HZ
    cpus: tuple[int, ...] = ()
    """CPUs to stay on, away from those under test; empty: anywhere."""
    abort_c: float | None = None
    """Temperature of a watched zone at which the run has to end."""
    zones: tuple[str, ...] = ()
    """Types of the zones that matter; empty, or none of them there: see `Observer`."""
    freq_sources: tuple[str, ...] = ("cpuinfo_avg_freq", "time_in_state", "scaling_cur_freq")
    """Sources of the clock that can be believed here, the best first."""


@dataclass(frozen=True, slots=True)
class LiveReading:
    """What a person wants to see while a run goes on; None where nothing tells."""

    time_ns: int
    temp_c: float | None
    freq_hz: float | None


class HeatState(Enum):
    """How the device is, against the temperature at which a run has to end."""

    COOL = "cool"
    HOT = "hot"
    BLIND = "blind"
    """No zone tells a temperature that can be believed."""


@dataclass(frozen=True, slots=True)
class HeatReport:
    """The device's heat has changed; told once for each change, and at the beginning."""

    heat: HeatState
    limit_c: float
    zone: str = ""
    """Type of the hottest zone."""
    temp_c: float | None = None
