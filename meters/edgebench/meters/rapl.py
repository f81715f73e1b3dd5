"""Energy counters of Intel and AMD processors, from the Linux power-capping framework.

Theory of operation. Each zone under /sys/class/powercap has a counter of microjoules that wraps at
the zone's `max_energy_range_uj` and is updated about once per millisecond. Power is the difference
of two readings divided by the time between them, so a value is a mean, never an instant. Only
top-level zones are read: `core` and `uncore` are parts of `package`, and adding them would count
their energy twice.

Since Linux 5.10, only root can read the counters, because fine readings reveal what other processes
compute (CVE-2020-8694). perf exposes the same counters. For the same reason, only root can read the
counters through perf (perf_event_paranoid).

Source: https://docs.kernel.org/power/powercap/powercap.html
"""

from __future__ import annotations

from pathlib import Path

from edgebench.meters.base import Capability, Channel, Header, MeterInfo
from edgebench.meters.file_meter import FileMeter
from edgebench.meters.options import Options
from edgebench.meters.polled import HOST_CLOCK, Files, Point, PolledDecoder, Reading, number
from edgebench.meters.uncertainty import Kind, term
from edgebench.protocol.errors import TargetError

RATE_HZ = 10.0
"""Polling rate at which every hundredth update of the counter is read."""
UPDATE_S = 1e-3
"""Interval between two updates of the counter, which is also the maximum age of its value."""
MODEL_RATIO = 0.05
"""Assumed error, because vendors state no error. On some processors, the counter does not measure
energy, but estimates it by a model of the work."""
MIN_WINDOW_S = 100 * UPDATE_S
OPEN_THEM = (
    "to let all users read the counters: sudo chmod a+r /sys/class/powercap/*-rapl:*/energy_uj "
    "(until the next boot; docs/meters.md has a rule for udev)"
)
_POWERCAP = "sys/class/powercap"
_RANGES = "ranges_uj"
_UNCERTAINTY = (
    term(Kind.MODEL, MODEL_RATIO, "assumed: vendors state no accuracy of the counters"),
    term(Kind.EDGE, UPDATE_S / 2, "updated once per millisecond, at unknown times"),
)


class RaplMeter(FileMeter):
    """All package-level zones of this machine."""

    name = "rapl"

    def _find(self) -> list[Path]:
        # A second colon marks a subzone: its energy is part of the zone's.
        zones = (self._root / _POWERCAP).glob("*-rapl:*")
        self._folders = sorted(
            (folder for folder in zones if folder.name.count(":") == 1),
            key=lambda folder: (len(folder.name), folder.name),
        )
        if not self._folders:
            raise TargetError("no RAPL zone under /sys/class/powercap: this kernel exposes none")
        return [folder / "energy_uj" for folder in self._folders]

    def _refusal(self, exc: OSError) -> str:
        if isinstance(exc, PermissionError):
            return f"RAPL counters are readable by root only: {exc.filename}; {OPEN_THEM}"
        return f"RAPL counters are not readable: {exc}"

    def _describe(self, connection: Files) -> Header:
        names = [(folder / "name").read_text().strip() for folder in self._folders]
        ranges_uj = []
        for folder in self._folders:
            highest_uj = number((folder / "max_energy_range_uj").read_bytes())
            if highest_uj is None:
                raise TargetError(f"RAPL counters are not readable: no range in {folder}")
            ranges_uj.append(highest_uj + 1)  # counts from 0 to highest_uj inclusive
        return Header(
            driver=self.name,
            info=MeterInfo(vendor="processor", model="RAPL"),
            capability=Capability(
                driver=self.name,
                # psys is the whole platform and contains the package: never add the two.
                channels=tuple(
                    Channel(name, "platform" if name == "psys" else "package") for name in names
                ),
                rate_hz=RATE_HZ,
                is_averaging=True,
                is_counter=True,
                clock_domain=HOST_CLOCK,
                loss_detection="wallclock",
                min_window_s=MIN_WINDOW_S,
            ),
            uncertainty=_UNCERTAINTY,
            facts={_RANGES: ranges_uj},
        )


def make_meter(options: Options) -> RaplMeter:
    """Create the meter; the address is the root of the file system, / unless a test sets it."""
    return RaplMeter(Path(options.finish().address or "/"))


class RaplDecoder(PolledDecoder):
    """Turns counters into mean power per zone."""

    def __init__(self, header: Header) -> None:
        super().__init__(header)
        self._ranges: list[int] = header.facts[_RANGES]
        self._last: list[tuple[int, int] | None] = [None] * len(self._ranges)

    def points(self, readings: list[Reading]) -> list[Point]:
        """Return a point for each zone of which a previous reading exists."""
        points = (self._point(channel, *reading) for channel, reading in enumerate(readings))
        return [point for point in points if point is not None]

    def _point(self, channel: int, time_ns: int, content: bytes | None) -> Point | None:
        now_uj, last = number(content), self._last[channel]
        if now_uj is not None:
            self._last[channel] = time_ns, now_uj
        if last is None or time_ns <= last[0]:
            return None
        if now_uj is None:
            # No energy is lost: the next reading is the mean since the last good reading.
            return Point.missing(time_ns, channel, last[0])
        passed_uj = now_uj - last[1]
        if passed_uj < 0:
            passed_uj += self._ranges[channel]
        power_w = passed_uj * 1e3 / (time_ns - last[0])
        return Point(channel=channel, time_ns=time_ns, begin_ns=last[0], power_w=power_w)
