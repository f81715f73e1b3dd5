"""Batteries and mains: /sys/class/power_supply/*, µA, µV, tenths of a degree.

The sign of a battery's current differs by vendor: it is kept as it is.

Source: https://docs.kernel.org/power/power_supply_class.html
"""

from __future__ import annotations

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


class PowerSupplySource:
    """Charge, temperature, current and voltage."""

    name = "power_supply"
    rate_hz_max = SLOW_HZ

    def open(self, root: Path, worker_pid: int) -> FileSensors | NoData:
        """Open each supply."""
        sensors = FileSensors()
        for supply in sorted((root / "sys/class/power_supply").glob("*")):
            for file, sensor, factor in _FILES:
                sensors.add(f"power_supply.{supply.name}.{sensor}", supply / file, scaled(factor))
        return sensors.or_no_data("no supply under /sys/class/power_supply")
