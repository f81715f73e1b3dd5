"""Latency of a run, with percentiles and intervals, outliers, warm-up and MLPerf's estimates."""

from __future__ import annotations

from dataclasses import dataclass, field

from edgebench.host.result.keys import key

PERCENTILES = {"p50": 0.50, "p90": 0.90, "p99": 0.99, "p99_9": 0.999}
"""Maps fields of a latency summary to probabilities."""
Interval = tuple[int, int]
"""Bounds of a 95 % confidence interval, nanoseconds."""


@dataclass(frozen=True, slots=True)
class EffectiveCount:
    """Effective sample size of autocorrelated latencies, for each estimated quantity."""

    mean: int
    p50: int
    p90: int
    p99: int
    p99_9: int | None = None
    """Effective sample size for p99.9; None in runs of schema version 6 and older."""


@dataclass(frozen=True, slots=True)
class LatencySummary:
    """Summary of latencies, nanoseconds."""

    count: int
    min: int
    mean: float
    p50: int | None
    p90: int | None
    p99: int | None
    p99_9: int | None
    max: int
    p50_ci95: Interval | None = None
    p90_ci95: Interval | None = None
    p99_ci95: Interval | None = None
    p99_9_ci95: Interval | None = None
    mean_ci95: tuple[float, float] | None = None
    effective_count: EffectiveCount | None = None
    """Effective sample sizes; None in runs stored before intervals were corrected for
    autocorrelation."""


@dataclass(frozen=True, slots=True)
class EarlyStopping:
    """MLPerf's early-stopping estimates, computed by the method of LoadGen."""

    p90_ns: int | None = None
    p99_ns: int | None = None
    over_latency_count: int | None = None
    """Server scenario: number of queries above the target latency."""
    is_target_met: bool | None = None
    """Server scenario: whether the percentile meets the target with the confidence of LoadGen."""


@dataclass(frozen=True, slots=True)
class Outliers:
    """Number of latencies beyond the fences, and the fences, nanoseconds."""

    count: int
    """Number of all latencies, including outliers."""
    low_mild_count: int
    low_severe_count: int
    high_mild_count: int
    high_severe_count: int
    mild_fences: tuple[float, float]
    severe_fences: tuple[float, float]
    score_max: float | None
    """Largest modified score; None if more than half of the latencies are equal."""
    score_outlier_count: int | None
    """Number of latencies with a modified score above 3.5."""

    @property
    def mild_count(self) -> int:
        """Number of latencies between the inner and the outer fence, on both sides together."""
        return self.low_mild_count + self.high_mild_count

    @property
    def severe_count(self) -> int:
        """Number of latencies beyond the outer fences, on both sides together."""
        return self.low_severe_count + self.high_severe_count


@dataclass(frozen=True, slots=True)
class LatencyLevels:
    """Two levels between which the latency switches; it stays on a level for many invocations."""

    low_ns: float
    high_ns: float
    high_ratio: float
    """Fraction of the invocations on the high level."""
    low_dwell_s: float
    """Mean time that the latency stays on the low level."""
    high_dwell_s: float


@dataclass(frozen=True, slots=True)
class Stability:
    """Variation of the invocation latencies after the warm-up."""

    iqr_ratio: float
    """Interquartile range divided by the median."""
    block_p50_ns: tuple[float, ...]
    """Medians of ten blocks of equal duration; empty if there are too few invocations."""
    block_range_ratio: float | None
    """Range of the block medians divided by the overall median."""
    levels: LatencyLevels | None
    """The two levels; None if the latency does not switch between two levels."""
    drift_ratio: float | None = None
    """Difference between the medians of the last and the first fifth of the invocations, divided by
    the overall median; null with few invocations. The drifts of the runs of a set are combined. A
    drift that all runs share is then found even if it is too small for a single run."""


@dataclass(frozen=True, slots=True)
class WarmupCut:
    """Inferences excluded as warm-up."""

    steady_class: str | None = field(metadata=key("class"))
    """flat, warmup, slowdown, switching or no_steady_state; None if there are too few queries to
    classify."""
    query_count: int
    duration_ns: int
    level_range_ratio: float | None = None
    """Difference between the highest and the lowest level of the latency, divided by the lowest
    level. Null if the run has a steady state without drift or slowdown."""
    p50_change_ratio: float | None = None
    """Relative change of the median latency if the inferences of the detected warm-up are included.
    Null if no warm-up was detected in the timed part."""


@dataclass(frozen=True, slots=True)
class LoadgenResult:
    """Result reported by LoadGen; a field is None if the scenario does not define it."""

    is_valid: bool
    invalid_reason: str | None
    query_count: int | None
    p50_ns: int | None
    p90_ns: int | None
    p99_ns: int | None
    early_stopping_p90_ns: int | None
    early_stopping_p99_ns: int | None
    samples_per_s: float | None
    """Samples per second; only in the offline and server scenarios."""
    error_count: int
