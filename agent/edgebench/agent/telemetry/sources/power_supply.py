"""Batteries and mains adapters: /sys/class/power_supply/*, in µA, µV, µW and tenths of 1 °C.

The sign of a battery's current differs by vendor and is kept unchanged. The status of a battery is
a word, which is stored as Android's number for this status: 1 unknown, 2 charging, 3 discharging, 4
not charging, 5 full.

Source: https://docs.kernel.org/power/power_supply_class.html; `android.os.BatteryManager`
"""

from __future__ import annotations

import math
from pathlib import Path

from edgebench.agent.telemetry.source import SLOW_HZ, FileSensors, NoData, scaled

_FILES = (
    ("online", "online", 1.0),
    ("capacity", "capacity_ratio", 1e-2),
    ("temp", "temp_c", 1e-1),
    ("current_now", "amps_a", 1e-6),
    ("voltage_now", "volts_v", 1e-6),
    ("power_now", "watts_w", 1e-6),
)
_STATUS = {
    b"unknown": 1.0,
    b"charging": 2.0,
    b"discharging": 3.0,
    b"not charging": 4.0,
    b"full": 5.0,
}


class PowerSupplySource:
    """Charge, temperature, current and voltage."""

    name = "power_supply"
    rate_hz_max = SLOW_HZ

    def open(self, root: Path, worker_pid: int) -> FileSensors | NoData:
        """Open the files of each supply."""
        sensors = FileSensors()
        folder = root / "sys/class/power_supply"
        for supply in sorted(folder.glob("*")):
            for file, sensor, factor in _FILES:
                sensors.add(f"power_supply.{supply.name}.{sensor}", supply / file, scaled(factor))
            sensors.add(f"power_supply.{supply.name}.status", supply / "status", _status)
        return sensors.or_no_data("no supply under /sys/class/power_supply", folder)


def _status(content: bytes) -> float:
    return _STATUS.get(content.strip().lower(), math.nan)
