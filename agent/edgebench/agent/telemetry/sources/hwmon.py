"""Hardware monitoring chips: /sys/class/hwmon/hwmon*/, by the name of the chip.

The files contain temperatures in m°C, voltages in mV, currents in mA, and power in µW. A channel
with the label NC is not connected. On a three-channel INA3221, `in7` is the sum of the shunt
voltages, not a rail.

Source: https://docs.kernel.org/hwmon/sysfs-interface.html
"""

from __future__ import annotations

import re
from pathlib import Path

from edgebench.agent.telemetry.source import (
    SLOW_HZ,
    FileSensors,
    Names,
    NoData,
    Parse,
    numbered,
    read_text,
    scaled,
)

_INPUT = re.compile(r"(temp|in|curr|power)(\d+)_input")
_UNITS: dict[str, tuple[str, Parse]] = {
    "temp": ("temp_c", scaled(1e-3)),
    "in": ("volts_v", scaled(1e-3)),
    "curr": ("amps_a", scaled(1e-3)),
    "power": ("watts_w", scaled(1e-6)),
}
_NOT_CONNECTED = "NC"
_SHUNT_SUM = ("ina3221", "in", "7")


class HwmonSource:
    """Temperatures, voltages, currents and powers of every chip, and under-voltage alarms."""

    name = "hwmon"
    rate_hz_max = SLOW_HZ

    def open(self, root: Path, worker_pid: int) -> FileSensors | NoData:
        """Open each channel."""
        sensors, names = FileSensors(), Names()
        for folder in numbered(root / "sys/class/hwmon", "hwmon"):
            chip = read_text(folder / "name")
            if chip:
                _add_chip(sensors, folder, chip, f"hwmon.{names.next(chip)}")
        return sensors.or_no_data("no chip under /sys/class/hwmon", root / "sys/class/hwmon")


def _add_chip(sensors: FileSensors, folder: Path, chip: str, name: str) -> None:
    for path in sorted(folder.glob("*_input")):
        channel = _INPUT.fullmatch(path.name)
        if channel is None or (chip, channel[1], channel[2]) == _SHUNT_SUM:
            continue
        # An INA3221 labels the voltage of a rail; its current has the same number.
        label = read_text(folder / f"{channel[1]}{channel[2]}_label")
        if not label and channel[1] == "curr":
            label = read_text(folder / f"in{channel[2]}_label")
        if label == _NOT_CONNECTED:
            continue
        unit, parse = _UNITS[channel[1]]
        sensors.add(f"{name}.{label or channel[1] + channel[2]}.{unit}", path, parse)
    for path in sorted(folder.glob("in*_lcrit_alarm")):
        sensors.add(f"{name}.{path.name.split('_')[0]}.undervoltage", path, scaled())
    for path in sorted(folder.glob("oc*_event_cnt")):
        sensors.add(f"{name}.{path.name.split('_')[0]}.event_count", path, scaled())
