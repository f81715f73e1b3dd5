"""Estimates the remaining time of a command from the runs that have ended."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from edgebench.host.bench.events import Place


class DevicePace:
    """Progress and remaining time of the runs on a device, on the host's monotonic clock."""

    def __init__(self) -> None:
        self._place: Place | None = None
        self._begun_s = 0.0
        self._expected_s: float | None = None
        """Expected duration of the run in progress, once its timed loop has begun."""
        self._durations_s: list[float] = []
        """Durations of the runs that have ended."""
        self._is_running = False

    def begin(self, place: Place, now_s: float) -> None:
        """Note the start time of a run."""
        self._place, self._begun_s, self._is_running = place, now_s, True

    def expect(self, duration_s: float, now_s: float) -> None:
        """Set the expected duration of the timed loop, which the run in progress begins now."""
        if self._is_running:
            self._expected_s = now_s - self._begun_s + duration_s

    def end(self, now_s: float) -> None:
        """Record the duration of the run in progress, which has just been stored or has failed."""
        if self._is_running:
            self._is_running = False
            self._durations_s.append(now_s - self._begun_s)

    @property
    def count(self) -> int | None:
        """Number of planned runs; None before the first run begins."""
        return self._place.count if self._place else None

    @property
    def done_count(self) -> int:
        """Number of runs that have ended."""
        return self._place.number - self._is_running if self._place else 0

    @property
    def run_s(self) -> float | None:
        """Expected duration of a run: mean of all runs but the first, which does extra checks."""
        durations_s = self._durations_s[1:] or self._durations_s
        return sum(durations_s) / len(durations_s) if durations_s else self._expected_s

    def left_s(self, now_s: float) -> float | None:
        """Time until the last run ends; None before any duration is known."""
        if self._place is None or (run_s := self.run_s) is None:
            return None
        in_progress_s = max(0.0, run_s - (now_s - self._begun_s)) if self._is_running else 0.0
        return in_progress_s + (self._place.count - self._place.number) * run_s


@dataclass(frozen=True, slots=True)
class OverallPace:
    """Progress of the runs on all devices, with the remaining time."""

    done_count: int
    count: int | None
    """Number of planned runs; None before every device has begun."""
    left_s: float | None
    """Time until the last run ends; None while unknown."""


def overall_pace(paces: Sequence[DevicePace], now_s: float) -> OverallPace:
    """Progress and remaining time of devices that are measured in parallel.

    A device that has not begun is assumed to begin after the devices in progress, and to take as
    long as the slowest of them.
    """
    begun = [pace for pace in paces if pace.count is not None]
    counts = [pace.count or 0 for pace in begun]
    left_s = [pace.left_s(now_s) for pace in begun]
    known_s = [time_s for time_s in left_s if time_s is not None]
    longest_s = max(known_s, default=None) if len(known_s) == len(begun) else None
    if longest_s is not None and len(begun) < len(paces):
        longest_s += max(
            count * (pace.run_s or 0.0) for count, pace in zip(counts, begun, strict=True)
        )
    return OverallPace(
        done_count=sum(pace.done_count for pace in begun),
        count=sum(counts) if len(begun) == len(paces) else None,
        left_s=longest_s,
    )
