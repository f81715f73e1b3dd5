"""Power rails of an INA3221 on older Jetson systems: iio devices with `rail_name_N`, in mV, mA, mW.

Source: NVIDIA's kernel 4.9 for JetPack 4, drivers/staging/iio/meter/ina3221.c
"""

from __future__ import annotations

from pathlib import Path

from edgebench.agent.telemetry.source import (
    SLOW_HZ,
    FileSensors,
    NoData,
    numbered,
    read_text,
    scaled,
)

_NOT_CONNECTED = "NC"


class IioRailsSource:
    """Voltage, current and power of each named rail."""

    name = "iio_rails"
    rate_hz_max = SLOW_HZ

    def open(self, root: Path, worker_pid: int) -> FileSensors | NoData:
        """Open each rail."""
        sensors = FileSensors()
        folders = (root / "sys/bus/i2c/devices").glob("*/iio:device*")
        for folder in sorted(folders):
            for named in numbered(folder, "rail_name_"):
                number, rail = named.name.removeprefix("rail_name_"), read_text(named)
                if rail == _NOT_CONNECTED:
                    continue
                name = f"iio.{rail}"
                sensors.add(f"{name}.volts_v", folder / f"in_voltage{number}_input", scaled(1e-3))
                sensors.add(f"{name}.amps_a", folder / f"in_current{number}_input", scaled(1e-3))
                sensors.add(f"{name}.watts_w", folder / f"in_power{number}_input", scaled(1e-3))
        return sensors.or_no_data("no rail under /sys/bus/i2c/devices/*/iio:device*")
