"""Thermal zones: /sys/class/thermal/thermal_zone*/temp, milli-degrees Celsius.

Source: https://docs.kernel.org/driver-api/thermal/sysfs-api.html
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from edgebench.agent.telemetry.source import KeptFile, NoData

_OFFLINE_C = -200.0
"""Jetson boards report -256 °C for a zone that is switched off."""


class Thermal:
    """All thermal zones, by type and ordinal: the index of a zone changes between boots."""

    name = "thermal"

    def open(self, root: Path, worker_pid: int) -> ThermalReader | NoData:
        """Open each zone that can be read."""
        zones = sorted((root / "sys/class/thermal").glob("thermal_zone*"), key=_index)
        files: dict[str, KeptFile] = {}
        seen: Counter[str] = Counter()
        for zone in zones:
            try:
                kind = (zone / "type").read_text().strip()
                file = KeptFile(zone / "temp")
            except OSError:
                continue
            files[f"thermal.{kind}.{seen[kind]}.temp_c"] = file
            seen[kind] += 1
        return ThermalReader(files) if files else NoData("no thermal zone under /sys/class/thermal")


class ThermalReader:
    """Opened zones."""

    def __init__(self, files: dict[str, KeptFile]) -> None:
        self.sensors = tuple(files)
        self._files = tuple(files.values())

    def read(self) -> Sequence[float]:
        """Degrees Celsius."""
        return [_celsius(file) for file in self._files]


def _celsius(file: KeptFile) -> float:
    try:
        temp_c = int(file.read()) / 1000
    except (OSError, ValueError):  # a sensor that is powered off answers EAGAIN or EINVAL
        return math.nan
    return temp_c if temp_c > _OFFLINE_C else math.nan


def _index(zone: Path) -> int:
    digits = zone.name.removeprefix("thermal_zone")
    return int(digits) if digits.isdigit() else 0
