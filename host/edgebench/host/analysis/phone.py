"""State of a phone during a run, computed from its telemetry by a pure function."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from edgebench.host.analysis.thermal.telemetry import Floats, Series, TelemetryTrace

UNKNOWN, CHARGING = 1, 2
"""Values of a battery's status. Source: `android.os.BatteryManager`, BATTERY_STATUS_UNKNOWN and
BATTERY_STATUS_CHARGING; the sampler uses the same numbers for files of the kernel."""


@dataclass(frozen=True, slots=True)
class PhoneConditions:
    """State of a phone, from the readings in the timed loop and one reading before and after it.

    A field is None if the phone has no readings of it.
    """

    charging_ratio: float | None = None
    """Share of the readings in which a battery charged."""
    is_battery_faked: bool = False
    """Whether the battery's service reported values set by `dumpsys battery` at any time."""
    screen_off_ratio: float | None = None
    """Share of the readings in which the screen was off."""
    power_saver_ratio: float | None = None
    """Share of the readings in which the power saver was on."""
    airplane_mode_ratio: float | None = None
    """Share of the readings in which airplane mode was on."""
    screen_brightness: tuple[int, int] | None = None
    """Lowest and highest brightness setting, 0 to 255."""
    thermal_status_max: int | None = None
    """Highest status of the thermal service, 0 to 6."""
    is_thermal_overridden: bool = False
    """Whether the status of the thermal service was overridden at any time."""


def phone_conditions(telemetry: TelemetryTrace, begin_ns: int, end_ns: int) -> PhoneConditions:
    """The state around a timed loop.

    Args:
        telemetry: Trace of the run.
        begin_ns: Begin of the timed loop, device clock.
        end_ns: End of the timed loop.
    """

    def read(name: str) -> Floats:
        series = telemetry.series.get(name)
        return _NO if series is None else _around(series, begin_ns, end_ns)

    is_faked = bool((read("android.battery_faked") > 0).any())
    # Files of the kernel cannot be faked; the service's status counts only without such files.
    kernel = [read(name) for name in telemetry.named("power_supply.", ".status")]
    ratios = list(map(_charging_ratio, kernel))
    if not any(ratio is not None for ratio in ratios):
        ratios = [_charging_ratio(read("android.battery_status"))]
    overridden = read("android.thermal_overridden") > 0
    status = read("android.thermal_status")
    brightness = read("android.screen_brightness")
    return PhoneConditions(
        charging_ratio=max((ratio for ratio in ratios if ratio is not None), default=None),
        is_battery_faked=is_faked,
        screen_off_ratio=_mean(read("android.screen_on") == 0),
        power_saver_ratio=_mean(read("android.power_saver") > 0),
        airplane_mode_ratio=_mean(read("android.airplane_mode") > 0),
        screen_brightness=(
            (int(brightness.min()), int(brightness.max())) if brightness.size else None
        ),
        thermal_status_max=int(status.max()) if status.size else None,
        is_thermal_overridden=bool(overridden.any()),
    )


_NO: Floats = np.empty(0)


def _around(series: Series, begin_ns: int, end_ns: int) -> Floats:
    """Readings of the loop, with the last reading before it and the first after it."""
    first, last = np.searchsorted(series.time_ns, [begin_ns, end_ns])
    return series.value[max(0, int(first) - 1) : int(last) + 1]


def _charging_ratio(statuses: Floats) -> float | None:
    return _mean(statuses[statuses > UNKNOWN] == CHARGING)


def _mean(values: np.ndarray[tuple[int, ...], np.dtype[np.bool_]]) -> float | None:
    return float(values.mean()) if values.size else None
