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
        found = self._ends()
        if found is None:
            return None
        (first_delay_ns, first_ns), (last_delay_ns, last_ns) = found
        return -1e6 * (last_delay_ns - first_delay_ns) / (last_ns - first_ns)

    def span_s(self) -> float | None:
        """How long the rate was looked at."""
        found = self._ends()
        return None if found is None else (found[1][1] - found[0][1]) / 1e9

    def _ends(self) -> tuple[tuple[float, int], tuple[float, int]] | None:
        """The earliest arrivals of the first and the last tenth; None where that is too short."""
        seconds = [self._seconds[second] for second in sorted(self._seconds)]
        part = max(1, len(seconds) // _PARTS)
        if len(seconds) < 2:
            return None
        first, last = min(seconds[:part]), min(seconds[-part:])
        return (first, last) if last[1] - first[1] >= MIN_SPAN_S * 1e9 else None
