"""Computes rates and clock offsets from the times at which samples arrive at the host.

Bytes can wait in buffers, but cannot arrive before they are sent. So the samples with the least
delay, relative to the meter's own timeline, show the meter's true rate. The delays also show lost
samples that no counter of the meter shows. Arrival times are plotted over meter times, and a line
just below all points maps meter time to host time. The resulting host times are late by the transit
time of the fastest bytes.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise

MIN_SPAN_S = 2.0
"""Minimum time between the first and the last arrival used for a rate. Over less time, delays of
milliseconds would look like rate errors of a thousand ppm."""
_PARTS = 10
_END_BINS = 3
"""Minimum number of bins at each end of a recording. One bin is not sufficient, because the last
bin may be incomplete and the host may be late for a while. The beginning consists of at most a
third of all bins, so that the two ends of a short recording do not consist of the same bins."""
BIN_S = 0.25
"""Length of a bin in seconds. At each end of a recording, the sample with the least delay may lie
in any bin of that end. In a recording of 3 s, the two samples with the least delay, one at each
end, are at least 1.5 s apart."""


class ArrivalRate:
    """Computes the rate of a uniform stream from the samples that arrived with the least delay."""

    def __init__(self, rate_hz: float, bin_s: float = BIN_S) -> None:
        """Each period of `bin_s` seconds must contain at least one prompt arrival."""
        self._period_ns = 1e9 / rate_hz
        self._bin_ns = round(1e9 * bin_s)
        self._bins: dict[int, tuple[float, int]] = {}
        """Maps the number of each bin to the least delay in it, and to the arrival time with this
        delay. An hour has 14,400 bins."""
        self._first_ns: int | None = None

    def add(self, rx_ns: int, sample_count: int) -> None:
        """Record that `sample_count` samples, including known lost ones, had arrived by `rx_ns`."""
        if self._first_ns is None:
            self._first_ns = rx_ns
        delay_ns = rx_ns - self._first_ns - sample_count * self._period_ns
        number = (rx_ns - self._first_ns) // self._bin_ns
        if number not in self._bins or delay_ns < self._bins[number][0]:
            self._bins[number] = (delay_ns, rx_ns)

    def error_ppm(self) -> float | None:
        """Deviation of the arrival rate from the nominal rate, in ppm; None if `span_s` is None.

        A negative value means that samples are missing, or that the meter's clock is slow.
        """
        ends = self._ends()
        if ends is None:
            return None
        (first_delay_ns, first_ns), (last_delay_ns, last_ns) = ends
        return -1e6 * (last_delay_ns - first_delay_ns) / (last_ns - first_ns)

    def span_s(self) -> float | None:
        """Time over which the rate was measured; None if the recording is too short."""
        ends = self._ends()
        return None if ends is None else (ends[1][1] - ends[0][1]) / 1e9

    def _ends(self) -> tuple[tuple[float, int], tuple[float, int]] | None:
        """Least delay at each end, with its arrival time; None if the recording is too short.

        Each end is a tenth of the recording, but at least `_END_BINS` bins; the beginning of a
        short recording is at most a third of all bins. A single late arrival has no effect, because
        other arrivals at the same end have less delay.
        """
        earliest = [self._bins[number] for number in sorted(self._bins)]
        if len(earliest) < 2:
            return None
        part = len(earliest) // _PARTS
        first_part = max(1, part, min(_END_BINS, len(earliest) // 3))
        first, last = min(earliest[:first_part]), min(earliest[-max(part, _END_BINS) :])
        return (first, last) if last[1] - first[1] >= MIN_SPAN_S * 1e9 else None


@dataclass(frozen=True, slots=True)
class ArrivalLine:
    """A line below all arrivals, with host time = meter time + offset + slope · (meter time)."""

    offset_ns: float
    """Host time minus meter time at the meter's zero; includes the transit of the fastest bytes."""
    slope: float
    """Drift of the host's clock relative to the meter's clock; 0 if the recording is too short."""
    residual_ns: float
    """Median distance from the line to the earliest arrival of each second."""


@dataclass(slots=True)
class ArrivalEnvelope:
    """Earliest arrival of each second, for any kind of meter."""

    _earliest: dict[int, tuple[int, int]] = field(default_factory=dict[int, tuple[int, int]])
    """Maps each second of the meter's clock to (host time minus meter time, meter time) of its
    earliest arrival."""

    def add(self, rx_ns: int, meter_ns: int) -> None:
        """Record that the sample of this meter time had arrived by this host time."""
        point = rx_ns - meter_ns, meter_ns
        second = meter_ns // 1_000_000_000
        self._earliest[second] = min(point, self._earliest.get(second, point))

    def line(self) -> ArrivalLine | None:
        """Compute the line below all arrivals; None if there are no arrivals.

        Of all lines that lie below all delays, the returned line has the least sum of distances to
        the delays. The returned line extends the edge of the lower convex hull at the mean meter
        time.

        Source: Moon, Skelly & Towsley, Estimation and removal of clock skew from network delay
        measurements, INFOCOM 1999
        """
        points = sorted((meter_ns, delay_ns) for delay_ns, meter_ns in self._earliest.values())
        if not points:
            return None
        first_ns, last_ns = points[0][0], points[-1][0]
        if last_ns - first_ns < MIN_SPAN_S * 1e9:
            least = min(delay_ns for _, delay_ns in points)
            return ArrivalLine(float(least), 0.0, 0.0)
        middle_ns = sum(meter_ns for meter_ns, _ in points) / len(points)
        (x0, y0), (x1, y1) = _edge_below(points, middle_ns)
        slope = (y1 - y0) / (x1 - x0)
        offset_ns = y0 - slope * x0
        above = sorted(y - (offset_ns + slope * x) for x, y in points)
        return ArrivalLine(offset_ns, slope, above[len(above) // 2])


def _edge_below(points: list[tuple[int, int]], x: float) -> tuple[tuple[int, int], tuple[int, int]]:
    """Find the edge of the lower convex hull whose ends enclose this x; points are sorted by x."""
    hull: list[tuple[int, int]] = []
    for point in points:
        while len(hull) > 1 and _is_above(hull[-2], hull[-1], point):
            hull.pop()
        hull.append(point)
    for one, other in pairwise(hull):
        if other[0] >= x:
            return one, other
    return hull[-2], hull[-1]


def _is_above(one: tuple[int, int], middle: tuple[int, int], other: tuple[int, int]) -> bool:
    """Whether the middle point is on or above the line through the two others."""
    left = (middle[1] - one[1]) * (other[0] - one[0])
    return left >= (other[1] - one[1]) * (middle[0] - one[0])
