"""How fast samples arrive by the host's clock: a loss that no counter shows is seen here.

Bytes wait in buffers and never come early, so of all arrivals the earliest ones, relative to the
meter's own timeline, tell its rate. The line under the earliest of the first and of the last tenth
is the rate; what lies between them does not matter.
"""

from __future__ import annotations

MIN_SPAN_S = 2.0
"""Below this, delays of milliseconds would look like errors of a thousand ppm."""
_PARTS = 10


class ArrivalRate:
    """Collects arrivals of a uniform stream."""

    def __init__(self, rate_hz: float) -> None:
        self._period_ns = 1e9 / rate_hz
        self._seconds: dict[int, tuple[float, int]] = {}
        """Least delay, and its arrival, by second: an hour is 3600 pairs."""
        self._first_ns: int | None = None

    def add(self, rx_ns: int, sample_count: int) -> None:
        """So many samples, with the lost ones that are known of, had come by this host time."""
        if self._first_ns is None:
            self._first_ns = rx_ns
        delay_ns = rx_ns - self._first_ns - sample_count * self._period_ns
        second = (rx_ns - self._first_ns) // 1_000_000_000
        if second not in self._seconds or delay_ns < self._seconds[second][0]:
            self._seconds[second] = (delay_ns, rx_ns)

    def error_ppm(self) -> float | None:
        """Meter's rate over the host's, minus one, millionths; negative: samples are missing."""
        seconds = [self._seconds[second] for second in sorted(self._seconds)]
        if not seconds or seconds[-1][1] - seconds[0][1] < MIN_SPAN_S * 1e9:
            return None
        part = max(1, len(seconds) // _PARTS)
        first, last = min(seconds[:part]), min(seconds[-part:])
        return -1e6 * (last[0] - first[0]) / (last[1] - first[1])
