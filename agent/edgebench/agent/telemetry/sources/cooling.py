"""Cooling devices: /sys/class/thermal/cooling_device*/cur_state, 0 to max_state.

A running fan does not throttle the device. A running idle injector throttles the device, although
no frequency changes.

Source: https://docs.kernel.org/driver-api/thermal/sysfs-api.html
"""

from __future__ import annotations

from pathlib import Path

from edgebench.agent.telemetry.source import (
    FAST_HZ,
    FileSensors,
    Names,
    NoData,
    numbered,
    read_text,
    scaled,
)


class CoolingSource:
    """The state of each cooling device."""

    name = "cooling"
    rate_hz_max = FAST_HZ

    def open(self, root: Path, worker_pid: int) -> FileSensors | NoData:
        """Open each device."""
        sensors, names = FileSensors(), Names()
        for device in numbered(root / "sys/class/thermal", "cooling_device"):
            if kind := read_text(device / "type"):
                name = f"cooling.{names.next(kind)}"
                if sensors.add(f"{name}.state", device / "cur_state", scaled()):
                    sensors.add_constant(f"{name}.state_max", device / "max_state", scaled())
                    sensors.add(f"{name}.transitions", device / "stats/total_trans", scaled())
        return sensors.or_no_data(
            "no cooling device under /sys/class/thermal", root / "sys/class/thermal"
        )
