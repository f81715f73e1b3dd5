r"""Google Pixel 6 and newer: the rail monitors in its power chips, readable by root.

Theory of operation. Each of two chips has eight channels, and counts the energy of each since it
began. A file tells all of them with the time that they were read at, on the phone's boot clock:

    t=176103444
    CH0(T=176103444)[S1M_VDD_MIF], 45602150

in ms and uWs. The chip is read anew only some 20 ms after the last time, else the same is told
again. A channel may be given another rail, and counts from zero then. Power is the difference of
two readings over their own times: that the file was read late does not matter.

Source: kernel/google-modules/power/odpm, odpm.c: energy_value_show, odpm_take_snapshot_locked,
enabled_rails_store
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from pathlib import Path

from edgebench.meters.base import Capability, Channel, Flag, Header, MeterInfo, Missing
from edgebench.meters.file_meter import (
    FileMeter,
    bases_of,
    folders_of,
    is_there,
    text_of,
    why_unreadable,
)
from edgebench.meters.options import Options
from edgebench.meters.polled import Point, PolledDecoder, Reading
from edgebench.meters.uncertainty import Kind, UncertaintyTerm, Unit

_FOLDERS = "sys/bus/iio/devices/iio:device*"
RATE_HZ = 10.0
CLOCK = "device:boottime"
"""CLOCK_BOOTTIME of the phone: it goes on while the phone sleeps."""
UPDATE_S = 0.020
_MIN_WINDOW_S = 100 * UPDATE_S
GAIN_RATIO = 0.125
"""The driver accepts that much of an error of the chip's clock, and corrects less."""
_CHANNEL_COUNTS = "channel_counts"
_TIME = re.compile(rb"^t=(\d+)$", re.MULTILINE)
_CHANNEL = re.compile(rb"^CH(\d+)\(T=\d+\)\[([^\]\n]+)\], (-?\d+)$", re.MULTILINE)
_NS_PER_MS = 1_000_000
_UNCERTAINTY = (
    UncertaintyTerm(
        kind=Kind.GAIN,
        value=GAIN_RATIO,
        unit=Unit.RATIO,
        reference="odpm.c, bounds of odpm_estimate_sampling_frequency",
    ),
    UncertaintyTerm(
        kind=Kind.EDGE,
        value=1 / RATE_HZ,
        unit=Unit.SECOND,
        is_common=False,
        reference="times are those of the counters, that far apart",
    ),
)


@dataclass(frozen=True, slots=True)
class Told:
    """One chip's counters."""

    time_ns: int
    energy_uj: dict[str, int]
    """By rail."""


def told_by(content: bytes | None) -> Told | None:
    r"""What the file of a chip says; None where it is not whole.

    >>> told_by(b"t=5\nCH0(T=5)[S1M_VDD_MIF], 12\n")
    Told(time_ns=5000000, energy_uj={'S1M_VDD_MIF': 12})
    """
    time = _TIME.search(content or b"")
    found = {
        rail.decode(errors="replace"): int(uj) for _, rail, uj in _CHANNEL.findall(content or b"")
    }
    if time is None or not found:
        return None
    return Told(int(time[1]) * _NS_PER_MS, found)


class Odpm(FileMeter):
    """The rail monitors of this phone."""

    name = "odpm"

    def open(self) -> Header | Missing:
        """Open the file of each chip."""
        there = folders_of(self._root, _FOLDERS)
        folders = [folder for folder in there if is_there(folder / "energy_value")]
        if not folders:
            files = [folder / "energy_value" for folder in there]
            why = why_unreadable([*bases_of(self._root, _FOLDERS), *files])
            return Missing(f"no rail monitor: only a Google Pixel 6 or newer has them{why}")
        try:
            self._keep([folder / "energy_value" for folder in folders])
            told = [told_by((folder / "energy_value").read_bytes()) for folder in folders]
        except OSError as exc:
            self.close()
            return Missing(f"rail monitors are not readable, which needs root: {exc}")
        whole = [one for one in told if one is not None]
        if len(whole) < len(folders):
            self.close()
            return Missing("rail monitors tell no energy")
        self._header = _describe(folders, whole)
        return self._header


def make_meter(options: Options) -> Odpm:
    """From nothing."""
    root = options.root()
    options.finish()
    return Odpm(root)


def _describe(folders: list[Path], told: list[Told]) -> Header:
    return Header(
        driver=Odpm.name,
        info=MeterInfo(
            vendor="Google",
            model="ODPM",
            serial=", ".join(text_of(folder / "name") for folder in folders),
            raw_metadata="\n".join(text_of(folder / "available_rails") for folder in folders),
        ),
        capability=Capability(
            driver=Odpm.name,
            channels=tuple(Channel(rail, "rail") for one in told for rail in one.energy_uj),
            rate_hz=RATE_HZ,
            is_averaging=True,
            clock_domain=CLOCK,
            loss_detection="device_timestamps",
            min_window_s=_MIN_WINDOW_S,
        ),
        uncertainty=_UNCERTAINTY,
        facts={_CHANNEL_COUNTS: [len(one.energy_uj) for one in told]},
    )


class OdpmDecoder(PolledDecoder):
    """Counters to mean powers, rail by rail, on the phone's clock."""

    def __init__(self, header: Header) -> None:
        super().__init__(header.capability)
        self._counts: list[int] = header.facts[_CHANNEL_COUNTS]
        self._last: list[tuple[int, Told] | None] = [None] * len(self._counts)
        """Host's time of each chip's last good reading, and the reading."""
        self._end_ns = [0] * len(self._counts)
        """Time of the last point."""

    def points(self, readings: list[Reading]) -> list[Point]:
        """A point for each rail of each chip that has something new."""
        found: list[Point] = []
        channel = 0
        for chip, (count, reading) in enumerate(zip(self._counts, readings, strict=True)):
            found += self._of_chip(chip, range(channel, channel + count), reading)
            channel += count
        return found

    def _of_chip(self, chip: int, channels: range, reading: Reading) -> list[Point]:
        (host_ns, content), last = reading, self._last[chip]
        told = told_by(content)
        if last is None:
            self._last[chip] = None if told is None else (host_ns, told)
            return []
        if told is None:
            # Both clocks go on alike between two readings; the next good one bridges the gap.
            time_ns = max(last[1].time_ns + host_ns - last[0], self._end_ns[chip] + 1)
            told = Told(time_ns, {})
        elif told.time_ns <= max(last[1].time_ns, self._end_ns[chip]):
            return []
        else:
            self._last[chip] = host_ns, told
        self._end_ns[chip] = told.time_ns
        return [self._point(channel, last[1], told) for channel in channels]

    def _point(self, channel: int, last: Told, told: Told) -> Point:
        rail = self._capability.channels[channel].name
        before_uj, now_uj = last.energy_uj.get(rail), told.energy_uj.get(rail)
        # Less than before: the channel was given another rail in between, and counted anew.
        is_whole = before_uj is not None and now_uj is not None and now_uj >= before_uj
        power_w = math.nan
        if before_uj is not None and now_uj is not None and is_whole:
            power_w = (now_uj - before_uj) * 1e3 / (told.time_ns - last.time_ns)
        return Point(
            channel=channel,
            time_ns=told.time_ns,
            begin_ns=last.time_ns,
            power_w=power_w,
            flags=Flag.NONE if is_whole else Flag.MISSING,
        )
