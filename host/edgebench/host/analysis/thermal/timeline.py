"""Starts and durations of the inferences of a run, and the windows that the run is cut into."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from edgebench.host.analysis.thermal.telemetry import (
    Floats,
    Nanoseconds,
    window_midmeans,
    window_sums,
    window_upper_trimmed_means,
)

WINDOW_S = (1.0, 5.0)
"""Length of the shortest and of the longest window, s, for short inferences."""
WINDOWS = 60
"""Typical number of windows in a run."""
MIN_INFERENCES = 5
"""Minimum mean number of inferences per window, for medians; slow models get longer windows."""
SLICE_S = 0.5
"""Length of a slice, s, which is a third to a half of the shortest relevant cycle of a thermal
governor. Governors poll every 0.1 to 2 s (`polling-delay-passive` of device trees)."""
READINGS_PER_SLICE = 2.5
BASELINE_S = 5.0
BASELINE_SHARE_MAX = 0.25


@dataclass(frozen=True, slots=True)
class Timeline:
    """Start and duration of each inference, on the device's clock."""

    start_ns: Nanoseconds
    """Starts, ascending, shape (n,), n >= 1."""
    invoke_ns: Nanoseconds
    """Durations, shape (n,)."""

    @property
    def end_ns(self) -> int:
        """End of the last inference."""
        return int(self.start_ns[-1] + self.invoke_ns[-1])


@dataclass(frozen=True, slots=True)
class Windows:
    """Equal parts of a run."""

    edges_ns: Nanoseconds
    """Edges, ascending, shape (k + 1,), from the first start to the last end."""

    @property
    def count(self) -> int:
        """Number of windows, k."""
        return len(self.edges_ns) - 1

    @property
    def length_s(self) -> float:
        """Length of each window, in seconds."""
        return float(self.edges_ns[1] - self.edges_ns[0]) / 1e9

    @property
    def duration_s(self) -> float:
        """Length of all windows together, in seconds."""
        return self.length_s * self.count

    @property
    def baseline_count(self) -> int:
        """Number of windows in the first 5 s: at most a quarter of all windows, but at least 2."""
        wanted = math.ceil(BASELINE_S / self.length_s)
        return max(2, min(wanted, int(BASELINE_SHARE_MAX * self.count)))

    def latency_ns(self, timeline: Timeline) -> Floats:
        """Mean of the middle half of each window's durations, shape (k,); NaN if there are none."""
        return window_midmeans(
            timeline.start_ns, timeline.invoke_ns.astype(np.float64), self.edges_ns
        )

    def latency_with_dips_ns(self, timeline: Timeline) -> Floats:
        """Mean of each window without its slowest tenth, shape (k,); NaN without an inference."""
        return window_upper_trimmed_means(
            timeline.start_ns, timeline.invoke_ns.astype(np.float64), self.edges_ns
        )

    def busy_ratio(self, timeline: Timeline) -> Floats:
        """Share of each window that inferences took, shape (k,)."""
        busy_ns = window_sums(
            timeline.start_ns, timeline.invoke_ns.astype(np.float64), self.edges_ns
        )
        ratio: Floats = busy_ns / np.diff(self.edges_ns)
        return ratio

    def throughput_per_s(self, timeline: Timeline, first: int, last: int) -> float:
        """Inferences per second in the windows from `first` up to, but not including, `last`."""
        bounds = np.searchsorted(timeline.start_ns, self.edges_ns[[first, last]])
        return float(bounds[1] - bounds[0]) / (self.length_s * (last - first))


def cut_into_windows(timeline: Timeline) -> Windows:
    """Windows of 1 to 5 s, or longer for slow models."""
    begin, end = int(timeline.start_ns[0]), timeline.end_ns
    wanted_ns = 1e9 * window_length_s(timeline)
    count = max(1, int((end - begin) // wanted_ns))
    return Windows(np.linspace(begin, max(end, begin + 1), count + 1).astype(np.int64))


def cut_into_slices(timeline: Timeline, windows: Windows, reading_s: float) -> Windows | None:
    """Slices of half a second, or longer for slow models or slow sensors.

    None if the slices would be longer than half a window.

    Args:
        timeline: Inferences.
        windows: Windows of the run.
        reading_s: Time between two readings of the fastest sensor, seconds.
    """
    begin, end = int(windows.edges_ns[0]), int(windows.edges_ns[-1])
    duration_s = (end - begin) / 1e9
    fewest_s = MIN_INFERENCES * duration_s / len(timeline.start_ns)
    length_s = max(SLICE_S, fewest_s, READINGS_PER_SLICE * reading_s)
    if length_s > windows.length_s / 2:
        return None
    return Windows(np.linspace(begin, end, int(duration_s / length_s) + 1).astype(np.int64))


def window_length_s(timeline: Timeline) -> float:
    """Target length of the windows of a run, in seconds."""
    duration_s = (timeline.end_ns - int(timeline.start_ns[0])) / 1e9
    shortest, longest = WINDOW_S
    length_s = min(max(duration_s / WINDOWS, shortest), longest)
    return max(length_s, MIN_INFERENCES * duration_s / len(timeline.start_ns))
