"""What the daemon asks of a sampler."""

from __future__ import annotations

from dataclasses import dataclass

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
    """Types of the zones that matter; empty, or none of them there: all."""
