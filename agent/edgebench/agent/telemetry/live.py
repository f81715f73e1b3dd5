"""Reports the highest temperature, the CPU frequency, and whether the run must end."""

from __future__ import annotations

import json
import math
from collections import deque
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, replace

from edgebench.agent.telemetry.job import (
    HeatReport,
    HeatState,
    LiveReading,
    LiveSample,
    SamplerJob,
)
from edgebench.agent.telemetry.live_clock import LiveClock
from edgebench.agent.telemetry.source import found_sensors
from edgebench.protocol.live import MAX_SAMPLES, WATCH_HZ

LIVE_PERIOD_S = 1.0
CONFIRMATIONS = 3
"""Number of consecutive readings that must show a state; a single reading may fail or be wrong."""
SANE_C = (-40.0, 125.0)
"""Range of temperatures that are accepted from a zone that the profile does not list."""

SAMPLE_GAP_NS = 0.9e9 / WATCH_HZ
"""Shortest time between two samples for watchers. It is a tenth less than the nominal period,
because the times of the rounds are not exact."""

_Sensors = Sequence[tuple[int, str]]


class Observer:
    """Reports the state of the device and whether a run must end, even if no host is connected.

    The observer monitors the zones that the profile lists. If the device has none of these zones,
    the observer reports the hottest zone within `SANE_C`. The temperature limit then applies only
    to those zones within `SANE_C` that have changed since the sampling began. The reason is that a
    board may have a dummy zone that always reports 100 °C.
    """

    def __init__(self, sensors: Sequence[str], job: SamplerJob) -> None:
        self._limit_c = job.abort_c
        self._zones = found_sensors(sensors, "thermal.", ".temp_c")
        self._known = [zone for zone in self._zones if _zone_type(zone[1]) in job.zones]
        self._clock = LiveClock(sensors, job.freq_sources)
        self._first_c: dict[int, float] = {}
        self._moved: set[int] = set()
        self._hot_count = 0
        self._blind_count = 0
        self._reported: HeatState | None = None
        self.is_watched = False
        """Whether the seat has watchers, to which more than one sample a second is sent."""
        self._samples: deque[LiveSample] = deque(maxlen=MAX_SAMPLES)

    def keep(self, time_ns: int, values: Sequence[float]) -> None:
        """Keep a sample for watchers, unless the previous sample is too recent."""
        if not self._samples or time_ns - self._samples[-1].time_ns >= SAMPLE_GAP_NS:
            sample = LiveSample(time_ns, self._temp_c(values), self._clock.of(values))
            self._samples.append(sample)

    def report(self, time_ns: int, values: Sequence[float]) -> None:
        """Print the highest temperature and CPU frequency, and the samples that were kept."""
        freq_hz = self._clock.look(time_ns, values)
        if self._samples and self._samples[-1].freq_hz is None:  # a mean since the last report
            self._samples.append(replace(self._samples.pop(), freq_hz=freq_hz))
        samples = tuple(self._samples)
        self._samples.clear()
        _print({"live": asdict(LiveReading(time_ns, self._temp_c(values), freq_hz, samples))})

    def _temp_c(self, values: Sequence[float]) -> float | None:
        return _highest(self._known or _sane(self._zones, values), values)[0]

    def look(self, values: Sequence[float]) -> None:
        """Print a line when the device becomes too hot, cools again, or cannot be monitored."""
        if self._limit_c is None:
            return
        found_c, name = _highest(self._known or self._believed(values), values)
        heat = self._heat(found_c, self._limit_c)
        if heat is not None and heat is not self._reported:
            self._reported = heat
            watched = HeatReport(heat, self._limit_c, _zone_type(name), found_c)
            _print({"watched": asdict(watched) | {"heat": heat.value}})

    def _heat(self, found_c: float | None, limit_c: float) -> HeatState | None:
        """Heat state, by the temperature of the hottest zone; None while it is uncertain."""
        if found_c is None:
            self._blind_count += 1
            # A sensor that fails while the device is hot does not show that it has cooled.
            is_blind = self._blind_count >= CONFIRMATIONS and self._reported is not HeatState.HOT
            return HeatState.BLIND if is_blind else None
        self._blind_count = 0
        self._hot_count = self._hot_count + 1 if found_c >= limit_c else 0
        if self._hot_count == 0:
            return HeatState.COOL
        return HeatState.HOT if self._hot_count >= CONFIRMATIONS else None

    def _believed(self, values: Sequence[float]) -> _Sensors:
        """Zones whose temperature is within `SANE_C` and has changed since the sampling began."""
        sane = _sane(self._zones, values)
        for index, _ in sane:
            if values[index] != self._first_c.setdefault(index, values[index]):
                self._moved.add(index)
        return [zone for zone in sane if zone[0] in self._moved]


def _sane(zones: _Sensors, values: Sequence[float]) -> _Sensors:
    return [zone for zone in zones if SANE_C[0] < values[zone[0]] < SANE_C[1]]


def _zone_type(sensor: str) -> str:
    return sensor.removeprefix("thermal.").removesuffix(".temp_c").rpartition(".")[0]


def _highest(sensors: _Sensors, values: Sequence[float]) -> tuple[float | None, str]:
    return max(
        ((values[index], name) for index, name in sensors if not math.isnan(values[index])),
        default=(None, ""),
    )


def _print(message: Mapping[str, object]) -> None:
    with suppress(OSError):  # the daemon has ended; its pipe ends the sampling soon
        print(json.dumps(message), flush=True)
