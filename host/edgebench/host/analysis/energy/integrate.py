"""Energy from power over time, integrated exactly between the ends of a window.

Theory of operation. Power over time is modelled as a line through nodes. A meter that samples
instants gives one node per sample, and the energy is the sum of trapezoids. A meter that averages
gives two nodes per sample, at the ends of its interval, and the energy is the sum of rectangles. A
window may end anywhere, because the line can be cut anywhere. Missing samples are bridged by the
line, and the missing time is reported.

Source: the glossary, integration of sampling and averaging meters; see also docs/energy.md.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from edgebench.host.analysis.energy.refusal import EnergyRefused
from edgebench.host.result.reasons import energy as reasons

Floats = NDArray[np.float64]
Nanoseconds = NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class PowerLine:
    """Power over time, linear between nodes."""

    time_ns: Nanoseconds
    """Times of the nodes, not descending, shape (n,), n >= 1; two equal times make a step."""
    power_w: Floats
    """Power at the nodes, shape (n,), no NaN."""
    _nodes_j: Floats | None = field(default=None, init=False, repr=False)
    """Energy up to each node, shape (n,); None before its first use."""

    def at(self, time_ns: int) -> float:
        """Power at a time; at a step of the line, the power after the step."""
        after = int(np.searchsorted(self.time_ns, time_ns, side="right"))
        if after == len(self.time_ns):
            return float(self.power_w[-1])
        return self._between(after - 1, after, time_ns) if after else float(self.power_w[0])

    def _between(self, one: int, other: int, time_ns: int) -> float:
        passed = float(time_ns - self.time_ns[one]) / float(self.time_ns[other] - self.time_ns[one])
        return float(self.power_w[one] + passed * (self.power_w[other] - self.power_w[one]))

    def cut(self, begin_ns: int, end_ns: int) -> PowerLine:
        """Part of the line inside a window, with a node at each end of the window.

        Raises:
            MeasurementError: the window is empty, or reaches beyond the line.
        """
        self.check(begin_ns, end_ns)
        first = int(np.searchsorted(self.time_ns, begin_ns, side="right"))
        last = int(np.searchsorted(self.time_ns, end_ns, side="left"))
        # At a step of the power, a window includes the side that lies inside it.
        at_end = (
            float(self.power_w[last])
            if self.time_ns[last] == end_ns
            else self._between(last - 1, last, end_ns)
        )
        return PowerLine(
            np.concatenate([[begin_ns], self.time_ns[first:last], [end_ns]]),
            np.concatenate([[self.at(begin_ns)], self.power_w[first:last], [at_end]]),
        )

    def energy_j(self) -> float:
        """Energy of the whole line."""
        passed_s = np.diff(self.time_ns) / 1e9
        # Not np.dot: its rounding depends on the CPU, and on some CPUs it sums sequentially.
        return float(np.sum(passed_s * (self.power_w[1:] + self.power_w[:-1]) / 2))

    def cumulative_j(self, time_ns: Nanoseconds) -> Floats:
        """Energy from the start of the line to each time, shape (m,); exact between nodes.

        Args:
            time_ns: Within the line, shape (m,), in any order.
        """
        nodes_j = self._nodes_j
        if nodes_j is None:
            passed_s = np.diff(self.time_ns) / 1e9
            steps_j = passed_s * (self.power_w[1:] + self.power_w[:-1]) / 2
            nodes_j = np.concatenate([[0.0], np.cumsum(steps_j)])
            object.__setattr__(self, "_nodes_j", nodes_j)
        node = np.searchsorted(self.time_ns, time_ns, side="right") - 1
        node = np.clip(node, 0, max(0, len(nodes_j) - 2))
        behind_s = (time_ns - self.time_ns[node]) / 1e9
        after = np.minimum(node + 1, len(nodes_j) - 1)
        passed_s = (self.time_ns[after] - self.time_ns[node]) / 1e9
        slope = np.zeros(len(node))
        np.divide(self.power_w[after] - self.power_w[node], passed_s, out=slope, where=passed_s > 0)
        energy_j: Floats = nodes_j[node] + behind_s * (self.power_w[node] + slope * behind_s / 2)
        return energy_j

    def check(self, begin_ns: int, end_ns: int) -> None:
        """Refuse a window that has no energy.

        Raises:
            MeasurementError: the window is empty, or reaches beyond the line.
        """
        if end_ns <= begin_ns:
            raise EnergyRefused(reasons.empty_window(window_s=(end_ns - begin_ns) / 1e9))
        self.check_inside(begin_ns, end_ns)

    def check_inside(self, begin_ns: int, end_ns: int) -> None:
        """Refuse times outside the line.

        Raises:
            MeasurementError: a time is before or after the line.
        """
        early = (self.time_ns[0] - begin_ns) / 1e9
        late = (end_ns - self.time_ns[-1]) / 1e9
        if early > 0:
            raise EnergyRefused(reasons.window_before_recording(reach_s=float(early)))
        if late > 0:
            raise EnergyRefused(reasons.window_beyond_recording(reach_s=float(late)))


def line_of_instants(time_ns: Nanoseconds, power_w: Floats) -> PowerLine:
    """Make the line of a meter that samples instants; NaN samples are left out.

    Args:
        time_ns: Ascending, shape (n,).
        power_w: Shape (n,).
    """
    is_known = ~np.isnan(power_w)
    return PowerLine(time_ns[is_known], power_w[is_known])


def between_j(line: PowerLine) -> float:
    """Standard uncertainty of a line's energy, J, from the unknown power between its instants.

    It is sqrt(sum (dt · dP)² / 2) over the pieces of the line. If the power changes faster than the
    sample rate, successive samples are independent, and half their mean squared difference is the
    variance. If the samples follow the power, the differences are small. A single step inside a
    piece would give dt · dP / sqrt(12), so the estimate is never too small.

    Source: von Neumann et al., The mean square successive difference (1941), for the variance.
    """
    pieces = np.diff(line.time_ns) / 1e9 * np.diff(line.power_w)
    return float(np.sqrt(np.sum(pieces**2) / 2))


def line_of_means(begin_ns: Nanoseconds, end_ns: Nanoseconds, power_w: Floats) -> PowerLine:
    """Line of a meter that averages over intervals.

    Args:
        begin_ns: Shape (n,).
        end_ns: Ascending, shape (n,).
        power_w: Mean over each interval, shape (n,).
    """
    is_known = ~np.isnan(power_w)
    time_ns = np.stack([begin_ns[is_known], end_ns[is_known]], axis=1).reshape(-1)
    return PowerLine(time_ns, np.repeat(power_w[is_known], 2))
