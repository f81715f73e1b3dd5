"""How the gauge of a battery counts: what its files mean, before anything of them is recorded.

Theory of operation. By the kernel's rules current is in uA and negative while the battery
discharges. Makers differ in both, and a gauge that is believed blindly gives energy of the wrong
sign, or a thousandth of it. So before anything is recorded it is settled, and kept with the
recording, how this battery counts:

    sign   as the user says, or as seen now, while `status` says Discharging
    unit   as the user says; or uA, where as mA it would be more than any battery gives; or mA,
           where as uA it would be less than a device under load takes, and the user says that it
           is under load; else it is refused

A gauge that tells no current, as those of many laptops, may tell power, in uW by the same rules:
as mW it must be more than any battery gives.

Source: https://docs.kernel.org/power/power_supply_class.html; amps#1, perfetto#1441 and
home-assistant/android#2846 (signs and units), #4977 (INT_MIN for no value)
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from edgebench.meters.base import Missing
from edgebench.meters.file_meter import number_of, text_of, why_unreadable
from edgebench.protocol.errors import UsageError

LOAD_MIN_A = 0.010
"""A phone with a busy processor takes more (community-code/amps#1)."""
CURRENT_MAX_A = 20.0
"""More than the battery of a phone or a laptop gives."""
VOLTAGE_LIMITS_V = (2.5, 60.0)
"""From one empty cell to what is still extra-low voltage."""
STATUS, DISCHARGING = "status", "Discharging"
NO_VALUE = -(2**31)
"""What some gauges tell for no value (home-assistant/android#4977)."""
_CURRENT, _POWER, _VOLTAGE = "current_now", "power_now", "voltage_now"
_SIGNS = {"negative": -1, "positive": 1}
_UNITS = {"ua": 1e-6, "ma": 1e-3}
_WATTS = {"uw": 1e-6}


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """What the user knows of a battery."""

    sign: str | None = None
    """Of a current, or of a power, that discharges."""
    unit: str | None = None
    is_loaded: bool = False
    """The processor is busy while the meter is opened."""

    def __post_init__(self) -> None:
        """Refuse words that mean nothing.

        Raises:
            UsageError: it is one.
        """
        if self.sign not in (None, *_SIGNS):
            raise UsageError(f"battery takes sign=negative or sign=positive, not {self.sign!r}")
        if self.unit not in (None, *_UNITS):
            raise UsageError(f"battery takes unit=ua or unit=ma, not {self.unit!r}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Counting:
    """How a battery counts; stored with the recording."""

    sign: int
    """Of a current, or of a power, that discharges."""
    ampere: float | None
    """In one count; None: it tells power."""
    volt: float
    watt: float | None = None
    """In one count, of a gauge that tells power."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settled:
    """A gauge, looked at once."""

    counting: Counting
    files: tuple[str, str, str]
    """Of the current or the power, of the voltage, and of the status."""
    how: str
    """How it is known how it counts, and at what value: another one each time."""


def settle(folder: Path, said: Said) -> Settled | Missing:
    """Look at a battery, and find how it counts."""
    if text_of(folder / STATUS) != DISCHARGING:
        return _not_discharging(folder / STATUS)
    file = _CURRENT if _told(folder / _CURRENT) is not None else _POWER
    told, voltage = _told(folder / file), _told(folder / _VOLTAGE)
    if told is None or voltage is None:
        why = why_unreadable(folder / name for name in (_CURRENT, _POWER, _VOLTAGE))
        return Missing(f"battery tells no current and no power, or no voltage{why}")
    if told == 0:
        quantity = file.removesuffix("_now")
        return Missing(f"battery tells a {quantity} of 0 while it discharges: it does not measure")
    volt = next((v for v in _UNITS.values() if _is_voltage(voltage * v)), None)
    if volt is None:
        return Missing(f"battery's voltage is neither in uV nor in mV: {voltage}")
    unit = _unit(told, said) if file == _CURRENT else _unit_of_power(told, voltage * volt, said)
    if isinstance(unit, Missing):
        return unit
    return _settled(file, told, unit, volt, said)


def _settled(file: str, told: int, unit: str, volt: float, said: Said) -> Settled | Missing:
    sign = 1 if told > 0 else -1
    if said.sign and _SIGNS[said.sign] != sign:
        return Missing(f"battery discharges at {told}, against sign={said.sign}")
    how = f"sign {'said' if said.sign else 'seen'}, unit {unit} {'said' if said.unit else 'seen'}"
    return Settled(
        counting=Counting(sign=sign, ampere=_UNITS.get(unit), volt=volt, watt=_WATTS.get(unit)),
        files=(file, _VOLTAGE, STATUS),
        how=f"{how}, at {told} of {file}",
    )


def _not_discharging(file: Path) -> Missing:
    if why := why_unreadable([file]):
        return Missing(f"battery does not tell whether it discharges{why}")
    told = text_of(file) or "nothing"
    return Missing(f"battery says {told!r}, not Discharging: unplug the charger")


def _told(file: Path) -> int | None:
    value = number_of(file)
    return None if value == NO_VALUE else value


def _unit(current: int, said: Said) -> str | Missing:
    unit = said.unit or unit_of(current, said.is_loaded)
    if unit is None:
        return Missing(
            f"battery's current {current} may be uA or mA: say unit=ua or unit=ma, or put the "
            "device under load and say loaded"
        )
    if (current_a := abs(current) * _UNITS[unit]) > CURRENT_MAX_A:
        return Missing(
            f"battery's current {current} would be {current_a:.0f} A by unit {unit}, and no "
            f"battery of a phone or a laptop gives more than {CURRENT_MAX_A:g} A"
        )
    return unit


def _unit_of_power(power: int, voltage_v: float, said: Said) -> str | Missing:
    """Of what is in uW by the kernel's rules, if its size does not speak against it."""
    if said.unit:
        return Missing(f"battery tells power, in uW, and no current: leave out unit={said.unit}")
    current_a = abs(power) * _WATTS["uw"] / voltage_v
    if not CURRENT_MAX_A / 1000 < current_a <= CURRENT_MAX_A:
        return Missing(
            f"battery's power {power} may be in another unit than uW: as uW it is a current of "
            f"{current_a:.3g} A, which must be between {CURRENT_MAX_A / 1000:g} and "
            f"{CURRENT_MAX_A:g} A; put the device under load"
        )
    return "uw"


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
