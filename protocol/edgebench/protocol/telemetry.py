"""Facts of a run's telemetry, in a separate module so that the sampler need not import `record`."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class AbsentSensor:
    """A missing sensor, with the reason."""

    sensor: str
    reason: str


@dataclass(frozen=True, slots=True)
class TelemetryFacts:
    """Sensors sampled during a run, missing sensors, and the cost of the sampling."""

    sensors: tuple[str, ...] = ()
    """Names of the sampled sensors, each with the unit as suffix; `sensor` in the trace is an index
    into this tuple."""
    constants: dict[str, float] = field(default_factory=dict[str, float])
    """Maps names to values that are constant during a run, such as trip points and maximum clocks.
    The names have the same form as names of sensors."""
    absent: tuple[AbsentSensor, ...] = ()
    rate_hz: float = 0.0
    """Sampling rate of the fast sources; slow sources were read less often."""
    reading_count: int = 0
    cpu_s: float = 0.0
    """CPU time of the sampler, and of the commands that it started."""
    wall_s: float = 0.0
