"""Thermal zones: /sys/class/thermal/thermal_zone*/temp, in m°C.

A zone is named by its type and an ordinal, because its number changes between boots, and two zones
may have the same type. The type of a trip point is ambiguous: a board may bind its `hot` trip point
to a fan. Whether a trip point slows the device down is therefore decided by the types of the
cooling devices that are bound to it.

Source: https://docs.kernel.org/driver-api/thermal/sysfs-api.html
"""

from __future__ import annotations

import math
from pathlib import Path

from edgebench.agent.telemetry.source import (
    FAST_HZ,
    FileSensors,
    Names,
    NoData,
    denial,
    numbered,
    read_text,
    scaled,
)
from edgebench.protocol.thermal import slows_down

_OFFLINE_C = -200.0
"""Temperature above which a reading is accepted; on a Jetson, a zone that is switched off reports
-256 °C."""
_SENSIBLE_TRIP_C = (1.0, 124.0)
"""Range of accepted trip points; values such as 0, -274 and 125 °C mean that no trip point is
set."""


class ThermalSource:
    """All thermal zones, and their trip points."""

    name = "thermal"
    rate_hz_max = FAST_HZ

    def open(self, root: Path, worker_pid: int) -> FileSensors | NoData:
        """Open each zone that can be read."""
        sensors, names = FileSensors(), Names()
        folder = root / "sys/class/thermal"
        for zone in numbered(folder, "thermal_zone"):
            if not (kind := read_text(zone / "type")):
                if (why := denial(zone / "type")) is not None:
                    sensors.absent[f"thermal.{zone.name}"] = why
                continue
            name = f"thermal.{names.next(kind)}"
            if sensors.add(f"{name}.temp_c", zone / "temp", _celsius):
                sensors.constants |= {f"{name}.{trip}": c for trip, c in _trips(zone).items()}
        return sensors.or_no_data("no thermal zone under /sys/class/thermal", folder)


def _celsius(content: bytes) -> float:
    temp_c = int(content) / 1000
    return temp_c if temp_c > _OFFLINE_C else math.nan


def _trips(zone: Path) -> dict[str, float]:
    """Maps names to trip points, in °C; `throttle_c` is the lowest trip point that throttles."""
    trips: dict[str, float] = {}
    bound = _bound_trips(zone)
    for path in sorted(zone.glob("trip_point_*_temp")):
        number = path.name.split("_")[2]
        kind = read_text(zone / f"trip_point_{number}_type")
        try:
            temp_c = scaled(1e-3)(path.read_bytes())
        except (OSError, ValueError):
            continue
        if not kind or not _SENSIBLE_TRIP_C[0] <= temp_c <= _SENSIBLE_TRIP_C[1]:
            continue
        is_slowing = any(map(slows_down, bound.get(number, ())))
        name = "throttle_c" if is_slowing else f"trip_{kind}_c"
        trips[name] = min(temp_c, trips.get(name, math.inf))
    return trips


def _bound_trips(zone: Path) -> dict[str, set[str]]:
    """Maps the number of each trip point to the types of the cooling devices bound to it."""
    bound: dict[str, set[str]] = {}
    for link in zone.glob("cdev*_trip_point"):
        device = zone / link.name.removesuffix("_trip_point")
        bound.setdefault(read_text(link), set()).add(read_text(device / "type"))
    return bound
