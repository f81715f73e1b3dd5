"""CPU frequency that is shown during a run, from sources that the analysis also accepts.

A source that reports only the requested frequency is not accepted: it shows full speed even while
the firmware slows the device down.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from edgebench.agent.telemetry.source import found_sensors

FIRMWARE = "vcgencmd:arm"
FIRMWARE_SENSOR = "rpi.arm_freq_hz"
KEPT_LOOKS = 3
"""Number of rounds for which a reading is shown, because the firmware is read only in every second
round."""
_CYCLES = "time_in_state"
_SUFFIXES = {
    "cpuinfo_avg_freq": ".freq_hz_average",
    _CYCLES: ".cycles",
    "scaling_cur_freq": ".freq_hz",
}


class LiveClock:
    """The highest CPU frequency, from the first of the given sources that the device has."""

    def __init__(self, sensors: Sequence[str], sources: Sequence[str]) -> None:
        readable = ((source, _indices(sensors, source)) for source in sources)
        self._source, self._indices = next(
            (candidate for candidate in readable if candidate[1]), ("", [])
        )
        self._last_cycles: dict[int, float] = {}
        self._last_ns = 0
        self._last_hz: float | None = None
        self._age = 0

    def look(self, time_ns: int, values: Sequence[float]) -> float | None:
        """Highest frequency now, in Hz, from each sensor's latest value; None if there is none."""
        read = {index: values[index] for index in self._indices}
        if self._source == _CYCLES:
            read = self._mean_hz(time_ns, read)
        # A mean of 0 Hz while this code runs means that the counter does not advance.
        now_hz = max((hz for hz in read.values() if hz > 0), default=None)
        self._age = 0 if now_hz is not None else self._age + 1
        if now_hz is not None or self._age >= KEPT_LOOKS:
            self._last_hz = now_hz
        return self._last_hz

    def of(self, values: Sequence[float]) -> float | None:
        """Highest frequency in these values, in Hz; None if the source yields only means."""
        if self._source == _CYCLES:
            return None
        read = (values[index] for index in self._indices)
        return max((hz for hz in read if hz > 0), default=None)

    def _mean_hz(self, time_ns: int, cycles: dict[int, float]) -> dict[int, float]:
        """Maps the index of each sensor to its mean frequency since the previous round, in Hz."""
        passed_s = (time_ns - self._last_ns) / 1e9
        last, self._last_cycles, self._last_ns = self._last_cycles, cycles, time_ns
        return {
            index: (now - last.get(index, math.nan)) / passed_s for index, now in cycles.items()
        }


def _indices(sensors: Sequence[str], source: str) -> list[int]:
    if source == FIRMWARE:
        return [index for index, name in enumerate(sensors) if name == FIRMWARE_SENSOR]
    if source not in _SUFFIXES:
        return []
    return [index for index, _ in found_sensors(sensors, "cpufreq.", _SUFFIXES[source])]
