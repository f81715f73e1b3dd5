"""Whether the device slowed down, when, and why."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

from edgebench.host.result.latency import LatencySummary


class ThermalState(Enum):
    """What can be said of a run."""

    THROTTLED = "throttled"
    FREQUENCY_LIMITED = "frequency_limited"
    INTERFERENCE = "interference"
    NOT_THROTTLED = "not_throttled"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class ThermalResult:
    """The outcome, with its numbers; None where the run is too short for them."""

    state: ThermalState
    cause: str | None
    """thermal, undervoltage, overcurrent, power_limit, hidden, unknown; None without throttling."""
    is_certain: bool
    """Whether the device itself says so."""
    reason: str
    """One line."""
    start_temp_c: float | None = None
    throttle_temp_c: float | None = None
    """Temperature at which the device throttles; None: unknown."""
    max_temp_c: float | None = None
    onset_s: float | None = None
    """Time from the start of the measurement to the first sign."""
    peak_latency_ns: float | None = None
    """Lower quartile of the baseline's windows; None where that is throttled already."""
    sustained_latency_ns: float | None = None
    """Median of the windows in the last fifth."""
    peak_throughput_per_s: float | None = None
    """Inferences per second in the first 5 s, with what lies between them."""
    sustained_throughput_per_s: float | None = None
    """Inferences per second in the last fifth."""
    retention_ratio: float | None = None
    """Peak latency over sustained latency."""
    throttled_ratio: float | None = None
    """Share of the windows with a sign."""
    throttled_spans_s: tuple[tuple[float, float], ...] = ()
    """Begin and end of each row of windows with a sign, from the start of the measurement."""
    latency_ns_before: LatencySummary | None = None
    """Headline before the onset."""
    latency_ns_after: LatencySummary | None = None
    """Headline after the onset; only the steady part, where it became steady."""
    moved_ratio: float | None = None
    """Share of the windows on another type of core than most, or on two."""
    moved_latency_ratio: float | None = None
    """Latency there over that on the usual type; None where it never stayed for a window."""
    is_baseline_cool: bool | None = None
    """Whether the run began below where the device throttles; None: unknown."""
    baseline_freq_hz: float | None = None
    nominal_freq_hz: float | None = None
    """Frequency that the device should run at; below it from the start is a slow governor, no
    onset."""
    freq_change_ratio: float | None = None
    """Distance of the clock from that of the baseline, which 95 % of the windows keep within."""
    verdict: str = field(init=False)
    """State and cause as one word."""

    def __post_init__(self) -> None:
        verdict = f"{self.state.value}:{self.cause}" if self.cause else self.state.value
        object.__setattr__(self, "verdict", verdict)

    @property
    def is_slowed(self) -> bool:
        """Whether the device itself slowed down."""
        return self.state in (ThermalState.THROTTLED, ThermalState.FREQUENCY_LIMITED)
