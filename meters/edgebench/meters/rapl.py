"""Intel and AMD processors: the energy counters of the Linux power-capping framework.

Theory of operation. Each zone under /sys/class/powercap has a counter of micro-joules that wraps
at `max_energy_range_uj`, zone by zone, and is updated about once a millisecond. Power is the
difference of two readings over the time between them, so a value is a mean, never an instant.
Only top-level zones are read: `core` and `uncore` are parts of `package`, and adding them up
would count them twice. Since Linux 5.10 the counters are readable by root only (CVE-2020-8694).

Source: https://docs.kernel.org/power/powercap/powercap.html
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from edgebench.meters.base import Capability, Channel, Flag, Missing, Sample
from edgebench.meters.polled import PolledSession

RATE_HZ = 10.0
"""A hundred counter updates for each reading."""
_POWERCAP = "sys/class/powercap"


@dataclass(slots=True)
class _Zone:
    """An opened counter, and its last reading."""

    name: str
    descriptor: int
    range_uj: int
    last_uj: int | None = None
    last_ns: int = 0


class Rapl:
    """All package-level zones of this machine."""

    name = "rapl"

    def __init__(
        self, root: Path = Path("/"), clock_ns: Callable[[], int] = time.perf_counter_ns
    ) -> None:
        self._root = root
        self._clock_ns = clock_ns
        self._zones: list[_Zone] = []

    def open(self) -> Capability | Missing:
        """Open the counters."""
        folders = sorted((self._root / _POWERCAP).glob("*-rapl:?"))
        if not folders:
            return Missing("this kernel shows no RAPL zone under /sys/class/powercap")
        try:
            self._zones = [_open_zone(folder) for folder in folders]
        except PermissionError as exc:
            return Missing(f"RAPL counters are readable by root only: {exc.filename}")
        except (OSError, ValueError) as exc:
            return Missing(f"RAPL counters are not readable: {exc}")
        channels = tuple(Channel(zone.name, _boundary(zone.name)) for zone in self._zones)
        return Capability(self.name, channels, RATE_HZ, True, "host:monotonic")

    def session(self) -> PolledSession:
        """A recording of all zones."""
        return PolledSession(self._read, rate_hz=RATE_HZ, channel_count=len(self._zones))

    def _read(self) -> list[Sample]:
        samples = [self._read_zone(index, zone) for index, zone in enumerate(self._zones)]
        return [sample for sample in samples if sample is not None]

    def _read_zone(self, index: int, zone: _Zone) -> Sample | None:
        now_ns = self._clock_ns()
        try:
            now_uj = int(os.pread(zone.descriptor, 32, 0))
        except (OSError, ValueError):
            return Sample(now_ns, index, math.nan, Flag.MISSING)
        last_uj, last_ns = zone.last_uj, zone.last_ns
        zone.last_uj, zone.last_ns = now_uj, now_ns
        if last_uj is None or now_ns <= last_ns:
            return None
        passed_uj = now_uj - last_uj
        if passed_uj < 0:
            passed_uj += zone.range_uj
        return Sample(now_ns, index, passed_uj * 1e3 / (now_ns - last_ns), Flag.NONE)


def _boundary(zone: str) -> str:
    # psys is the whole platform, with the package inside it: never add the two.
    return "platform" if zone == "psys" else "package"


def _open_zone(folder: Path) -> _Zone:
    # The counter counts from 0 to max_energy_range_uj, both included.
    range_uj = int((folder / "max_energy_range_uj").read_text()) + 1
    descriptor = os.open(folder / "energy_uj", os.O_RDONLY | os.O_CLOEXEC)
    return _Zone((folder / "name").read_text().strip(), descriptor, range_uj)
