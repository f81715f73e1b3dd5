"""Battery of a phone or a laptop: its own gauge, under /sys/class/power_supply.

Theory of operation. How the gauge counts is settled before anything is recorded (`gauge.py`), and
kept with the recording. While a charger is connected the current is not what the device takes: such
values are missing.

Source: https://docs.kernel.org/power/power_supply_class.html
"""

from __future__ import annotations

import math
import time
from pathlib import Path

from edgebench.meters.base import Capability, Channel, Flag, Header, MeterInfo, Missing
from edgebench.meters.file_meter import NS_PER_S, FileMeter, text_of, why_unreadable
from edgebench.meters.gauge import DISCHARGING, NO_VALUE, Counting, Said, Settled, settle
from edgebench.meters.options import Options
from edgebench.meters.polled import HOST_CLOCK, Clock, Point, PolledDecoder, Reading, number
from edgebench.meters.uncertainty import Kind, UncertaintyTerm, Unit
from edgebench.protocol.codec import from_plain, to_plain

RATE_HZ = 2.0
"""Perfetto asks four times a second at most; gauges are slower than that."""
UPDATE_MAX_S = 10.0
"""Gauges have something new every 0.1 to 10 s."""
GAIN_RATIO = 0.05
_UNCERTAINTY = (
    UncertaintyTerm(kind=Kind.GAIN, value=GAIN_RATIO, unit=Unit.RATIO, reference="no gauge says"),
    UncertaintyTerm(
        kind=Kind.EDGE,
        value=UPDATE_MAX_S,
        unit=Unit.SECOND,
        is_common=False,
        reference="gauges average, and have something new every 0.1 to 10 s",
    ),
)


class Battery(FileMeter):
    """The battery of this machine."""

    name = "battery"

    def __init__(
        self,
        root: Path = Path("/"),
        supply: str = "",
        said: Said | None = None,
        clock_ns: Clock = time.perf_counter_ns,
    ) -> None:
        super().__init__(root, clock_ns)
        self._supply = supply
        self._said = said or Said()

    def open(self) -> Header | Missing:
        """Find the battery, and settle how it counts."""
        folder = self._choose()
        if isinstance(folder, Missing):
            return folder
        settled = settle(folder, self._said)
        if isinstance(settled, Missing):
            return settled
        try:
            self._keep([folder / file for file in settled.files])
        except OSError as exc:
            return Missing(f"battery is not readable: {exc}")
        self._header = _describe(folder.name, settled)
        return self._header

    def _choose(self) -> Path | Missing:
        base = self._root / "sys/class/power_supply"
        # A mouse has a battery too; its scope is that of a device.
        found = [
            folder
            for folder in sorted(base.glob("*"))
            if text_of(folder / "type") == "Battery" and text_of(folder / "scope") != "Device"
        ]
        names = ", ".join(folder.name for folder in found)
        if self._supply:
            found = [folder for folder in found if folder.name == self._supply]
            if not found:
                return Missing(f"no battery {self._supply!r}: there is {names or 'none'}")
        if not found:
            why = why_unreadable([base, *(folder / "type" for folder in sorted(base.glob("*")))])
            return Missing(f"no battery under /sys/class/power_supply{why}")
        if len(found) > 1:
            return Missing(f"several batteries: {names}: choose, as in battery:{found[0].name}")
        return found[0]


def make_meter(options: Options) -> Battery:
    """From nothing or the supply's name, and what the user knows of it."""
    root, supply = options.where()
    said = Said(
        sign=options.text("sign"), unit=options.text("unit"), is_loaded=options.switch("loaded")
    )
    options.finish()
    return Battery(root, supply, said)


def _describe(supply: str, settled: Settled) -> Header:
    return Header(
        driver=Battery.name,
        info=MeterInfo(vendor="", model="battery gauge", serial=supply, raw_metadata=settled.how),
        capability=Capability(
            driver=Battery.name,
            channels=(Channel(supply, "battery"),),
            rate_hz=RATE_HZ,
            is_averaging=False,
            clock_domain=HOST_CLOCK,
            loss_detection="wallclock",
            min_window_s=10 * UPDATE_MAX_S,
        ),
        uncertainty=_UNCERTAINTY,
        facts=to_plain(settled.counting),
    )


class BatteryDecoder(PolledDecoder):
    """Current, voltage and status to watts that the battery gives."""

    def __init__(self, header: Header) -> None:
        super().__init__(header.capability)
        self._counting = from_plain(header.facts, Counting)
        self._last: tuple[int, int, int] | None = None
        """When the gauge last had something new, and what it was."""

    def points(self, readings: list[Reading]) -> list[Point]:
        """One point in every round."""
        time_ns = readings[0][0]
        told, voltage = number(readings[0][1]), number(readings[1][1])
        is_discharging = (readings[2][1] or b"").strip() == DISCHARGING.encode()
        if told is None or told == NO_VALUE or voltage is None or not is_discharging:
            return [Point(channel=0, time_ns=time_ns, power_w=math.nan, flags=Flag.MISSING)]
        flags = self._flags(time_ns, told, voltage)
        return [self._point(time_ns, told * self._counting.sign, voltage, flags)]

    def _point(self, time_ns: int, told: int, voltage: int, flags: Flag) -> Point:
        counting = self._counting
        voltage_v = voltage * counting.volt
        current_a = math.nan if counting.ampere is None else told * counting.ampere
        power_w = current_a * voltage_v if counting.watt is None else told * counting.watt
        return Point(
            channel=0,
            time_ns=time_ns,
            power_w=power_w,
            flags=flags,
            current_a=current_a,
            voltage_v=voltage_v,
        )

    def _flags(self, time_ns: int, told: int, voltage: int) -> Flag:
        last = self._last
        is_soon = last is not None and time_ns - last[0] < UPDATE_MAX_S * NS_PER_S
        if last is not None and is_soon and last[1:] == (told, voltage):
            return Flag.DUPLICATE
        self._last = time_ns, told, voltage
        return Flag.NONE
