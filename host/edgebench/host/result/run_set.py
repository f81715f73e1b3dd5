"""A set: the runs of one model that one command made, and what the next run is likely to show."""

from __future__ import annotations

from dataclasses import dataclass, field

from edgebench.host.result.keys import key
from edgebench.host.result.marks import Marks, together
from edgebench.host.result.run import Run
from edgebench.host.result.verdict import Verdict


@dataclass(frozen=True, slots=True, kw_only=True)
class SetMetric:
    """One metric over the runs of a set, in its own unit."""

    count: int
    """Runs that have it."""
    median: float
    min: float
    max: float
    ci95: tuple[float, float] | None = None
    """Bounds of the 95 % confidence interval of the median of such runs; of an energy, with the
    error of the meter. None below five runs; the accuracy, which the first run alone
    measures, has its interval within that run."""

    @property
    def half_width_ratio(self) -> float | None:
        """Half the width of the interval, over the median."""
        if self.ci95 is None or self.median == 0:
            return None
        return (self.ci95[1] - self.ci95[0]) / 2 / abs(self.median)


@dataclass(frozen=True, slots=True, kw_only=True)
class VarianceLevels:
    """Where the variation of the headline comes from, and how to spend time on it."""

    between_ratio: float
    """Standard deviation from one launch to the next, over the median."""
    within_ratio: float
    """Standard deviation of one run's value by its own queries, over the median."""
    launch_s: float
    """Time of a run beside its timed loop: cold start, warm-up, what a meter needs, transfers."""
    duration_s: float
    """Timed loop of a run, as it was."""
    best_count: int
    """Number of runs that gives the narrowest interval in the same time."""
    best_duration_s: float
    """Timed loop of each of them."""
    gain_ratio: float
    """Standard error with that split over the present one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSet:
    """Runs of one model, on one device, in one configuration; a run on its own is a set of one."""

    set_id: str | None
    """None for a run on its own."""
    device: str
    model: str
    runtime: str
    planned_count: int
    """Runs that were to be made."""
    run_ids: tuple[str, ...]
    """Runs that count, in the order in which they were made."""
    refused_run_ids: tuple[str, ...]
    """Invalid runs, which do not count."""
    headline: str
    """Metric that the set is about, by its path."""
    metrics: dict[str, SetMetric]
    """By path, as in `metrics` of run.json."""
    variance: VarianceLevels | None
    """None without an interval within each run, or between runs."""
    verdict: Verdict
    runs: tuple[Run, ...] = field(metadata=key(""), repr=False)
    """All of them, refused ones too."""

    @property
    def counted(self) -> tuple[Run, ...]:
        """Runs that count."""
        return tuple(run for run in self.runs if not run.verdict.is_refused)

    @property
    def marks(self) -> Marks:
        """Marks that go with each of its numbers."""
        return together((run.marks for run in self.runs), self.verdict)

    @property
    def first(self) -> Run:
        """Run with what only the first one has: checked outputs, accuracy."""
        return self.runs[0]
