"""What the sampler tells while it samples: the hottest zone, the clock, and when to stop."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from contextlib import suppress

from edgebench.agent.telemetry.job import SamplerJob

LIVE_PERIOD_S = 1.0
CONFIRMATIONS = 3
"""Readings in a row above the limit: a sensor may answer nonsense once."""


class Observer:
    """Tells how the device is, and when a run has to end, whether a host is there or not."""

    def __init__(self, sensors: Sequence[str], job: SamplerJob) -> None:
        self._limit_c = math.inf if job.abort_c is None else job.abort_c
        temps = _found(sensors, "thermal.", ".temp_c")
        # A board may have a dummy that always says 100 °C.
        known = [(index, name) for index, name in temps if _zone_type(name) in job.zones]
        self._zones = known or temps
        self._clocks = _found(sensors, "cpufreq.", ".freq_hz")
        self._seen = 0
        self._is_told = False

    def tell(self, time_ns: int, values: Sequence[float]) -> None:
        """Print the highest temperature and frequency; null where nothing tells."""
        live = {
            "time_ns": time_ns,
            "temp_c": _highest(self._zones, values)[0],
            "freq_hz": _highest(self._clocks, values)[0],
        }
        _print({"live": live})

    def look(self, values: Sequence[float]) -> None:
        """Print one line when a zone was too hot for some readings in a row."""
        found_c, name = _highest(self._zones, values)
        hottest_c = -math.inf if found_c is None else found_c
        self._seen = self._seen + 1 if hottest_c >= self._limit_c else 0
        if self._seen >= CONFIRMATIONS and not self._is_told:
            self._is_told = True
            abort = {"zone": _zone_type(name), "temp_c": hottest_c, "limit_c": self._limit_c}
            _print({"abort": abort})


def _zone_type(sensor: str) -> str:
    return sensor.removeprefix("thermal.").removesuffix(".temp_c").rpartition(".")[0]


def _found(sensors: Sequence[str], prefix: str, suffix: str) -> list[tuple[int, str]]:
    return [
        (index, name)
        for index, name in enumerate(sensors)
        if name.startswith(prefix) and name.endswith(suffix)
    ]


def _highest(
    sensors: Sequence[tuple[int, str]], values: Sequence[float]
) -> tuple[float | None, str]:
    return max(
        ((values[index], name) for index, name in sensors if not math.isnan(values[index])),
        default=(None, ""),
    )


def _print(message: dict[str, object]) -> None:
    with suppress(OSError):  # the daemon has gone; its pipe ends the sampling soon
        print(json.dumps(message), flush=True)
