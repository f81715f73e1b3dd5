"""Battery of a phone or a laptop: its own gauge, under /sys/class/power_supply.

Theory of operation. By the kernel's rules current is in uA and negative while the battery
discharges. Makers differ in both, and a gauge that is believed blindly gives energy of the wrong
sign, or a thousandth of it. So before anything is recorded it is settled, and kept with the
recording, how this battery counts:

    sign   as the user says, or as seen now, while `status` says Discharging
    unit   as the user says; or uA, where as mA it would be more than any battery gives; or mA,
           where as uA it would be less than a device under load takes, and the user says that it
           is under load; else it is refused

While a charger is connected the current is not what the device takes: such values are missing.

Source: https://docs.kernel.org/power/power_supply_class.html; amps#1, perfetto#1441 and
home-assistant/android#2846 (signs and units), #4977 (INT_MIN for no value)
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from pathlib import Path

from edgebench.meters.base import Capability, Channel, Flag, Header, MeterInfo, Missing
from edgebench.meters.file_meter import NS_PER_S, FileMeter, number_of, text_of
from edgebench.meters.options import Options
from edgebench.meters.polled import HOST_CLOCK, Clock, Point, PolledDecoder, Reading, number
from edgebench.meters.uncertainty import Kind, UncertaintyTerm, Unit
from edgebench.protocol.codec import from_plain, to_plain
from edgebench.protocol.errors import UsageError

RATE_HZ = 2.0
"""Perfetto asks four times a second at most; gauges are slower than that."""
UPDATE_MAX_S = 10.0
"""Gauges have something new every 0.1 to 10 s."""
LOAD_MIN_A = 0.010
"""A phone with a busy processor takes more (community-code/amps#1)."""
CURRENT_MAX_A = 20.0
"""More than the battery of a phone or a laptop gives."""
VOLTAGE_LIMITS_V = (2.5, 60.0)
"""From one empty cell to what is still extra-low voltage."""
GAIN_RATIO = 0.05
_DISCHARGING = "Discharging"
_NO_VALUE = -(2**31)
_SIGNS = {"negative": -1, "positive": 1}
_UNITS = {"ua": 1e-6, "ma": 1e-3}
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """What the user knows of a battery."""

    sign: str | None = None
    """Of a current that discharges."""
    unit: str | None = None
    is_loaded: bool = False
    """The processor is busy while the meter is opened."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Counting:
    """How a battery counts; stored with the recording."""

    sign: int
    """Of a current that discharges."""
    ampere: float
    """In one count."""
    volt: float
    how: str
    """How it is known."""


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
        if self._said.sign not in (None, *_SIGNS):
            raise UsageError(f"battery takes sign=negative or sign=positive, not {said}")
        if self._said.unit not in (None, *_UNITS):
            raise UsageError(f"battery takes unit=ua or unit=ma, not {said}")

    def open(self) -> Header | Missing:
        """Find the battery, and settle how it counts."""
        folder = self._choose()
        if isinstance(folder, Missing):
            return folder
        counting = _settle(folder, self._said)
        if isinstance(counting, Missing):
            return counting
        try:
            self._keep([folder / file for file in ("current_now", "voltage_now", "status")])
        except OSError as exc:
            return Missing(f"battery is not readable: {exc}")
        self._header = _describe(folder.name, counting)
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
            return Missing("no battery under /sys/class/power_supply")
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


def _settle(folder: Path, said: Said) -> Counting | Missing:
    status = text_of(folder / "status")
    current, voltage = number_of(folder / "current_now"), number_of(folder / "voltage_now")
    if status != _DISCHARGING:
        return Missing(f"battery says {status or 'nothing'!r}, not Discharging: unplug the charger")
    if current is None or current == _NO_VALUE or voltage is None:
        return Missing("battery tells no current, or no voltage")
    if current == 0:
        return Missing("battery tells a current of 0 while it discharges: it does not measure")
    volt = next((v for v in _UNITS.values() if _is_voltage(voltage * v)), None)
    if volt is None:
        return Missing(f"battery's voltage is neither in uV nor in mV: {voltage}")
    unit = said.unit or unit_of(current, said.is_loaded)
    if unit is None:
        return Missing(
            f"battery's current {current} may be uA or mA: say unit=ua or unit=ma, or put the "
            "device under load and say loaded"
        )
    seen = 1 if current > 0 else -1
    sign = _SIGNS[said.sign] if said.sign else seen
    if sign != seen:
        return Missing(f"battery discharges at {current}, against sign={said.sign}")
    how = f"sign {'said' if said.sign else 'seen'}, unit {unit} {'said' if said.unit else 'seen'}"
    return Counting(sign=sign, ampere=_UNITS[unit], volt=volt, how=f"{how}, at {current}")


def unit_of(current: int, is_loaded: bool) -> str | None:
    """What a current while discharging is counted in; None: it cannot be known.

    >>> unit_of(-423125, False), unit_of(-423, True), unit_of(-423, False)
    ('ua', 'ma', None)
    """
    if abs(current) * _UNITS["ma"] > CURRENT_MAX_A:
        return "ua"
    if is_loaded and abs(current) * _UNITS["ua"] < LOAD_MIN_A:
        return "ma"
    return None


def _is_voltage(voltage_v: float) -> bool:
    return VOLTAGE_LIMITS_V[0] <= voltage_v <= VOLTAGE_LIMITS_V[1]


def _describe(supply: str, counting: Counting) -> Header:
    return Header(
        driver=Battery.name,
        info=MeterInfo(vendor="", model="battery gauge", serial=supply, raw_metadata=counting.how),
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
        facts=to_plain(counting),
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
        current, voltage = number(readings[0][1]), number(readings[1][1])
        is_discharging = (readings[2][1] or b"").strip() == _DISCHARGING.encode()
        if current is None or current == _NO_VALUE or voltage is None or not is_discharging:
            return [Point(channel=0, time_ns=time_ns, power_w=math.nan, flags=Flag.MISSING)]
        current_a = current * self._counting.sign * self._counting.ampere
        voltage_v = voltage * self._counting.volt
        return [
            Point(
                channel=0,
                time_ns=time_ns,
                power_w=current_a * voltage_v,
                flags=self._flags(time_ns, current, voltage),
                current_a=current_a,
                voltage_v=voltage_v,
            )
        ]

    def _flags(self, time_ns: int, current: int, voltage: int) -> Flag:
        last = self._last
        is_soon = last is not None and time_ns - last[0] < UPDATE_MAX_S * NS_PER_S
        if last is not None and is_soon and last[1:] == (current, voltage):
            return Flag.DUPLICATE
        self._last = time_ns, current, voltage
        return Flag.NONE
