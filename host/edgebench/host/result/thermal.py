"""Whether the device slowed down, when, and why."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

from edgebench.host.result.latency import LatencySummary
from edgebench.host.result.reason import Reason
from edgebench.host.result.reasons.table import text_of

MEMORY_CLOCK = "memory_clock"
"""Cause of a slowdown that heat does not explain: a lower clock of the memory or a bus."""
POWER_LIMIT = "power_limit"
"""Cause of a slowdown that heat does not explain: a lower clock."""
UNKNOWN_CAUSE = "unknown"
"""Cause of a slowdown by a lower clock, if no temperature could be read."""
POWER_SUPPLY = ("undervoltage", "overcurrent")
"""Causes of a slowdown that come from the power supply."""


class ThermalState(Enum):
    """Thermal classification of a run."""

    THROTTLED = "throttled"
    FREQUENCY_LIMITED = "frequency_limited"
    INTERFERENCE = "interference"
    NOT_THROTTLED = "not_throttled"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class ThermalResult:
    """The classification with its numbers; a number is None if the run is too short for it."""

    state: ThermalState
    cause: str | None
    """thermal, undervoltage, overcurrent, power_limit, memory_clock, hidden, unknown; None without
    throttling."""
    is_certain: bool
    """Whether the device itself reported the cause; otherwise the cause is probable."""
    reasons: tuple[Reason, ...] = ()
    """Reasons for the state; empty in runs that were stored with the text only."""
    reason: str = ""
    """Text of the reasons, a single line."""
    start_temp_c: float | None = None
    """First temperature after the warm-up."""
    throttle_temp_c: float | None = None
    """Throttling temperature of the device; None if unknown."""
    max_temp_c: float | None = None
    onset_s: float | None = None
    """Time from the start of the measurement to the first sign of throttling."""
    peak_latency_ns: float | None = None
    """Lower quartile of the latencies of the baseline windows; None if these are already
    throttled."""
    sustained_latency_ns: float | None = None
    """Median of the latencies of the windows in the last fifth of the run."""
    peak_throughput_per_s: float | None = None
    """Inferences per second in the baseline windows, including the time between inferences."""
    sustained_throughput_per_s: float | None = None
    """Inferences per second in the last fifth of the run."""
    retention_ratio: float | None = None
    """Peak latency divided by sustained latency."""
    throttled_ratio: float | None = None
    """Fraction of the windows with a sign of throttling."""
    throttled_spans_s: tuple[tuple[float, float], ...] = ()
    """Start and end of each sequence of throttled windows, from the start of the measurement."""
    latency_ns_before: LatencySummary | None = None
    """Headline latency before the onset."""
    latency_ns_after: LatencySummary | None = None
    """Headline latency after the onset; only the steady part, if it became steady."""
    moved_ratio: float | None = None
    """Fraction of the windows in which the model ran on two core types, or only on an unusual
    one."""
    moved_latency_ratio: float | None = None
    """Latency on an unusual core type divided by latency on the usual type; None if no whole window
    ran on an unusual type."""
    is_baseline_cool: bool | None = None
    """Whether the run began below the throttling temperature; None if unknown."""
    baseline_freq_hz: float | None = None
    nominal_freq_hz: float | None = None
    """Expected frequency of the device; a lower frequency from the start indicates a slow governor,
    not an onset."""
    freq_change_ratio: float | None = None
    """In 95 % of the windows, the clock's relative deviation from its baseline is below this
    value."""
    verdict: str = field(init=False)
    """State and cause, joined by a colon."""

    def __post_init__(self) -> None:
        verdict = f"{self.state.value}:{self.cause}" if self.cause else self.state.value
        object.__setattr__(self, "verdict", verdict)
        object.__setattr__(self, "reason", text_of(self.reasons, self.reason))

    @property
    def is_slowed(self) -> bool:
        """Whether the state is a slowdown of the device: throttled, or with a limited frequency."""
        return self.state in (ThermalState.THROTTLED, ThermalState.FREQUENCY_LIMITED)
