r"""Rail monitors in the power chips of a Google Pixel 6 or newer, which only root can read.

Theory of operation. Each of two chips has eight channels, and counts the energy of each channel
since the chip's start. Each chip has a file that lists all counters of the chip. The file also
contains the time at which the driver read the counters, on the phone's boot clock:

    t=176103444
    CH0(T=176103444)[S1M_VDD_MIF], 45602150

Times are in ms, energies in uWs. The driver reads a chip again only some 20 ms after the previous
read. Until then, the content of the file does not change. A channel may be switched to another
rail, and then counts from zero. Power is the difference of two counts divided by the difference of
the times in the file, so a late read of the file causes no error.

Source: kernel/google-modules/power/odpm, odpm.c: energy_value_show, odpm_take_snapshot_locked,
enabled_rails_store
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from edgebench.meters.base import Capability, Channel, Header, MeterInfo
from edgebench.meters.file_meter import (
    FileMeter,
    bases_of,
    folders_of,
    is_there,
    text_of,
    why_unreadable,
)
from edgebench.meters.options import Options
from edgebench.meters.polled import Files, Point, PolledDecoder, Reading
from edgebench.meters.uncertainty import Kind, term
from edgebench.protocol.errors import TargetError

_FOLDERS = "sys/bus/iio/devices/iio:device*"
_COUNTERS = "energy_value"
RATE_HZ = 10.0
CLOCK = "device:boottime"
"""CLOCK_BOOTTIME of the phone, which continues while the phone sleeps."""
UPDATE_S = 0.020
_MIN_WINDOW_S = 100 * UPDATE_S
GAIN_RATIO = 0.125
"""Largest error of the chip's clock that the driver accepts and corrects."""
_CHANNEL_COUNTS = "channel_counts"
_TIME = re.compile(rb"^t=(\d+)$", re.MULTILINE)
_CHANNEL = re.compile(rb"^CH(\d+)\(T=\d+\)\[([^\]\n]+)\], (-?\d+)$", re.MULTILINE)
_NS_PER_MS = 1_000_000
_UNCERTAINTY = (
    term(Kind.GAIN, GAIN_RATIO, "odpm.c, bounds of odpm_estimate_sampling_frequency"),
    term(Kind.EDGE, 1 / RATE_HZ, "interval between the counters' timestamps"),
)


@dataclass(frozen=True, slots=True)
class ChipCounters:
    """Counters of a chip, read at the same time."""

    time_ns: int
    energy_uj: dict[str, int]
    """Maps each rail to its energy since the chip's start."""


def counters_in(content: bytes | None) -> ChipCounters | None:
    r"""Parse the counters in the file of a chip; None if the content is incomplete.

    >>> counters_in(b"t=5\nCH0(T=5)[S1M_VDD_MIF], 12\n")
    ChipCounters(time_ns=5000000, energy_uj={'S1M_VDD_MIF': 12})
    """
    time = _TIME.search(content or b"")
    channels = _CHANNEL.findall(content or b"")
    if time is None or not channels:
        return None
    energy_uj = {rail.decode(errors="replace"): int(uj) for _, rail, uj in channels}
    return ChipCounters(int(time[1]) * _NS_PER_MS, energy_uj)


class OdpmMeter(FileMeter):
    """The rail monitors of this phone."""

    name = "odpm"

    def _find(self) -> list[Path]:
        folders = folders_of(self._root, _FOLDERS)
        self._folders = [folder for folder in folders if is_there(folder / _COUNTERS)]
        if not self._folders:
            files = [folder / _COUNTERS for folder in folders]
            why = why_unreadable([*bases_of(self._root, _FOLDERS), *files])
            raise TargetError(
                f"no rail monitor found: meter odpm requires a Google Pixel 6 or newer{why}"
            )
        return [folder / _COUNTERS for folder in self._folders]

    def _refusal(self, exc: OSError) -> str:
        return f"rail monitors are not readable (needs root): {exc}"

    def _describe(self, connection: Files) -> Header:
        chips = []
        for folder in self._folders:
            counters = counters_in((folder / _COUNTERS).read_bytes())
            if counters is None:
                raise TargetError("rail monitors report no energy")
            chips.append(counters)
        return Header(
            driver=self.name,
            info=MeterInfo(
                vendor="Google",
                model="ODPM",
                serial=", ".join(text_of(folder / "name") for folder in self._folders),
                raw_metadata="\n".join(
                    text_of(folder / "available_rails") for folder in self._folders
                ),
            ),
            capability=Capability(
                driver=self.name,
                channels=tuple(Channel(rail, "rail") for chip in chips for rail in chip.energy_uj),
                rate_hz=RATE_HZ,
                is_averaging=True,
                clock_domain=CLOCK,
                loss_detection="device_timestamps",
                min_window_s=_MIN_WINDOW_S,
            ),
            uncertainty=_UNCERTAINTY,
            facts={_CHANNEL_COUNTS: [len(chip.energy_uj) for chip in chips]},
        )


def make_meter(options: Options) -> OdpmMeter:
    """Create the meter of this phone."""
    root = options.root()
    options.finish()
    return OdpmMeter(root)


class OdpmDecoder(PolledDecoder):
    """Turns counters into mean powers per rail, on the phone's clock."""

    def __init__(self, header: Header) -> None:
        super().__init__(header)
        self._counts: list[int] = header.facts[_CHANNEL_COUNTS]
        self._last: list[tuple[int, ChipCounters] | None] = [None] * len(self._counts)
        """For each chip, the host time and the counters of its last valid reading; None before the
        first valid reading."""
        self._end_ns = [0] * len(self._counts)
        """Time of each chip's last point."""

    def points(self, readings: list[Reading]) -> list[Point]:
        """Return a point per rail, for each chip whose counters are new."""
        points: list[Point] = []
        channel = 0
        for chip, (count, reading) in enumerate(zip(self._counts, readings, strict=True)):
            points += self._of_chip(chip, range(channel, channel + count), reading)
            channel += count
        return points

    def _of_chip(self, chip: int, channels: range, reading: Reading) -> list[Point]:
        (host_ns, content), last = reading, self._last[chip]
        now = counters_in(content)
        if last is None:
            self._last[chip] = None if now is None else (host_ns, now)
            return []
        last_host_ns, before = last
        if now is None:
            # Both clocks advance alike between two readings; the next good reading bridges the gap.
            time_ns = max(before.time_ns + host_ns - last_host_ns, self._end_ns[chip] + 1)
            now = ChipCounters(time_ns, {})
        elif now.time_ns <= max(before.time_ns, self._end_ns[chip]):
            return []
        else:
            self._last[chip] = host_ns, now
        self._end_ns[chip] = now.time_ns
        return [self._point(channel, before, now) for channel in channels]

    def _point(self, channel: int, before: ChipCounters, now: ChipCounters) -> Point:
        rail = self._capability.channels[channel].name
        before_uj, now_uj = before.energy_uj.get(rail), now.energy_uj.get(rail)
        # A lower count: the channel was switched to another rail in between, and restarted.
        if before_uj is None or now_uj is None or now_uj < before_uj:
            return Point.missing(now.time_ns, channel, before.time_ns)
        power_w = (now_uj - before_uj) * 1e3 / (now.time_ns - before.time_ns)
        return Point(now.time_ns, power_w, channel, begin_ns=before.time_ns)
