"""Intel and AMD processors: the energy counters of the Linux power-capping framework.

Theory of operation. Each zone under /sys/class/powercap has a counter of micro-joules that wraps
at `max_energy_range_uj`, zone by zone, and is updated about once a millisecond. Power is the
difference of two readings over the time between them, so a value is a mean, never an instant.
Only top-level zones are read: `core` and `uncore` are parts of `package`, and adding them up
would count them twice. Since Linux 5.10 the counters are readable by root only, because fine
readings tell what other processes compute (CVE-2020-8694). perf shows the same counters, and is
closed to users by the same reasoning (perf_event_paranoid), so it is no way around.

Source: https://docs.kernel.org/power/powercap/powercap.html
"""

from __future__ import annotations

import math
import time
from pathlib import Path

from edgebench.meters.base import Capability, Channel, Flag, Header, MeterInfo, Missing
from edgebench.meters.polled import (
    HOST_CLOCK,
    Clock,
    Files,
    Point,
    PolledDecoder,
    PolledSession,
    Reading,
    number,
)
from edgebench.meters.uncertainty import Kind, UncertaintyTerm, Unit
from edgebench.protocol.errors import MeasurementError

RATE_HZ = 10.0
"""A hundred counter updates for each reading."""
UPDATE_S = 1e-3
"""The counter is this old at most."""
MODEL_RATIO = 0.05
"""Assumed: the makers say nothing. On some processors the counter is a model of the work."""
MIN_WINDOW_S = 100 * UPDATE_S
OPEN_THEM = (
    "to let everybody here read them: sudo chmod a+r /sys/class/powercap/*-rapl:*/energy_uj "
    "(until the next start; docs/meters.md has a rule for udev)"
)
_POWERCAP = "sys/class/powercap"
_RANGES = "ranges_uj"
_UNCERTAINTY = (
    UncertaintyTerm(
        kind=Kind.MODEL,
        value=MODEL_RATIO,
        unit=Unit.RATIO,
        reference="no maker says how good its counters are",
    ),
    UncertaintyTerm(
        kind=Kind.EDGE,
        value=UPDATE_S / 2,
        unit=Unit.SECOND,
        is_common=False,
        reference="updated once a millisecond, at no known time",
    ),
)


class Rapl:
    """All package-level zones of this machine."""

    name = "rapl"

    def __init__(self, root: Path = Path("/"), clock_ns: Clock = time.perf_counter_ns) -> None:
        self._root = root
        self._clock_ns = clock_ns
        self._files: Files | None = None
        self._header: Header | None = None

    def open(self) -> Header | Missing:
        """Open the counters."""
        self.close()
        # A second colon is that of a part of a zone: its energy is in the zone's.
        zones = (self._root / _POWERCAP).glob("*-rapl:*")
        folders = sorted(
            (folder for folder in zones if folder.name.count(":") == 1),
            key=lambda folder: (len(folder.name), folder.name),
        )
        if not folders:
            return Missing("this kernel shows no RAPL zone under /sys/class/powercap")
        try:
            self._files = Files([folder / "energy_uj" for folder in folders], self._clock_ns)
            self._header = _describe(folders)
        except PermissionError as exc:
            self.close()
            return Missing(f"RAPL counters are readable by root only: {exc.filename}; {OPEN_THEM}")
        except (OSError, ValueError) as exc:
            self.close()
            return Missing(f"RAPL counters are not readable: {exc}")
        return self._header

    def session(self, path: Path) -> PolledSession:
        """A recording of all zones."""
        if self._files is None or self._header is None:
            raise MeasurementError("the RAPL counters are not open")
        return PolledSession(self._files.read, self._header, path)

    def close(self) -> None:
        """Let go of the counters."""
        if self._files is not None:
            self._files.close()
            self._files = None


def _describe(folders: list[Path]) -> Header:
    names = [(folder / "name").read_text().strip() for folder in folders]
    # The counter counts from 0 to max_energy_range_uj, both included.
    ranges = [int((folder / "max_energy_range_uj").read_text()) + 1 for folder in folders]
    return Header(
        driver=Rapl.name,
        info=MeterInfo(vendor="processor", model="RAPL"),
        capability=Capability(
            driver=Rapl.name,
            channels=tuple(Channel(name, _boundary(name)) for name in names),
            rate_hz=RATE_HZ,
            is_averaging=True,
            clock_domain=HOST_CLOCK,
            loss_detection="wallclock",
            min_window_s=MIN_WINDOW_S,
        ),
        uncertainty=_UNCERTAINTY,
        facts={_RANGES: ranges},
    )


def _boundary(zone: str) -> str:
    # psys is the whole platform, with the package inside it: never add the two.
    return "platform" if zone == "psys" else "package"


class RaplDecoder(PolledDecoder):
    """Counters to mean powers, zone by zone."""

    def __init__(self, header: Header) -> None:
        super().__init__(header.capability)
        self._ranges: list[int] = header.facts[_RANGES]
        self._last: list[tuple[int, int] | None] = [None] * len(self._ranges)

    def points(self, readings: list[Reading]) -> list[Point]:
        """A point for each zone that was read before."""
        found = (self._point(channel, *reading) for channel, reading in enumerate(readings))
        return [point for point in found if point is not None]

    def _point(self, channel: int, time_ns: int, content: bytes | None) -> Point | None:
        now_uj, last = number(content), self._last[channel]
        if now_uj is not None:
            self._last[channel] = time_ns, now_uj
        if last is None or time_ns <= last[0]:
            return None
        if now_uj is None:
            # Nothing is lost by that: the next reading is the mean since the last good one.
            return Point(
                channel=channel,
                time_ns=time_ns,
                begin_ns=last[0],
                power_w=math.nan,
                flags=Flag.MISSING,
            )
        passed_uj = now_uj - last[1]
        if passed_uj < 0:
            passed_uj += self._ranges[channel]
        power_w = passed_uj * 1e3 / (time_ns - last[0])
        return Point(channel=channel, time_ns=time_ns, begin_ns=last[0], power_w=power_w)
