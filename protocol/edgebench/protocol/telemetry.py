"""Facts of the telemetry beside a run; apart from its record, which no sampler needs."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class AbsentSensor:
    """A sensor that is not there, and why."""

    sensor: str
    reason: str


@dataclass(frozen=True, slots=True)
class TelemetryFacts:
    """The sensors sampled beside a run, the absent ones, and the cost of the sampling."""

    sensors: tuple[str, ...] = ()
    """Names with their unit as suffix; `sensor` in the trace is an index into them."""
    constants: dict[str, float] = field(default_factory=dict[str, float])
    """Values that do not change during a run, named like sensors: trip points, highest clocks."""
    absent: tuple[AbsentSensor, ...] = ()
    rate_hz: float = 0.0
    """Rate of the fast sources; slow ones were read less often."""
    reading_count: int = 0
    cpu_s: float = 0.0
    """CPU time of the sampler, and of the commands that it started."""
    wall_s: float = 0.0
