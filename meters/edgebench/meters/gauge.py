"""Sign and unit of a battery's gauge, determined before anything is recorded.

Theory of operation. By the kernel's rules current is in uA and negative while the battery
discharges. Makers differ in both, and a gauge that is believed blindly gives energy of the wrong
sign, or a thousandth of it. So before anything is recorded it is settled how this battery counts,
and kept with the recording:

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

from edgebench.meters.file_meter import number_of, text_of, why_unreadable
from edgebench.protocol.errors import TargetError, UsageError

LOAD_MIN_A = 0.010
"""A phone with a busy processor takes more (community-code/amps#1)."""
CURRENT_MAX_A = 20.0
"""More than the battery of a phone or a laptop gives."""
VOLTAGE_LIMITS_V = (2.5, 60.0)
"""Lowest is one empty cell, highest is what is still extra-low voltage."""
STATUS, DISCHARGING = "status", "Discharging"
NO_VALUE = -(2**31)
"""Number that some gauges give for no value (home-assistant/android#4977)."""
_CURRENT, _POWER, _VOLTAGE = "current_now", "power_now", "voltage_now"
_SIGNS = {"negative": -1, "positive": 1}
_UNITS = {"ua": 1e-6, "ma": 1e-3}
_WATTS = {"uw": 1e-6}


@dataclass(frozen=True, slots=True, kw_only=True)
class GaugeHints:
    """User's knowledge of a battery."""

    sign: str | None = None
    """Sign of a current, or of a power, that discharges."""
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
class GaugeScale:
    """Sign and units of a gauge's counts; stored with the recording."""

    sign: int
    """Sign of a current, or of a power, that discharges."""
    ampere: float | None
    """Amperes in one count; None: it reports power."""
    volt: float
    """Volts in one count."""
    watt: float | None = None
    """Watts in one count, of a gauge that reports power."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Gauge:
    """A gauge as it was when the meter was opened."""

    folder: Path
    scale: GaugeScale
    files: tuple[str, str, str]
    """Names of the files of current or power, of voltage, and of status."""
    how: str
    """Origin of sign and unit, and the value they were seen at: another one each time."""


def read_gauge(folder: Path, hints: GaugeHints) -> Gauge:
    """Determine how a battery's gauge counts.

    Raises:
        TargetError: it does not discharge, does not measure, or cannot be understood.
    """
    status = folder / STATUS
    if text_of(status) != DISCHARGING:
        if why := why_unreadable([status]):
            raise TargetError(f"battery does not tell whether it discharges{why}")
        text = text_of(status) or "nothing"
        raise TargetError(f"battery says {text!r}, not Discharging: unplug the charger")
    file, *_ = files_of(folder)
    count, voltage = _count_of(folder / file), _count_of(folder / _VOLTAGE)
    if count is None or voltage is None:
        why = why_unreadable(folder / name for name in (_CURRENT, _POWER, _VOLTAGE))
        raise TargetError(f"battery tells no current and no power, or no voltage{why}")
    if count == 0:
        quantity = file.removesuffix("_now")
        raise TargetError(
            f"battery tells a {quantity} of 0 while it discharges: it does not measure"
        )
    low_v, high_v = VOLTAGE_LIMITS_V
    volt = next((volt for volt in _UNITS.values() if low_v <= voltage * volt <= high_v), None)
    if volt is None:
        raise TargetError(f"battery's voltage is neither in uV nor in mV: {voltage}")
    if file == _CURRENT:
        unit = _unit_of_current(count, hints)
    else:
        unit = _unit_of_power(count, voltage * volt, hints)
    sign = 1 if count > 0 else -1
    if hints.sign and _SIGNS[hints.sign] != sign:
        raise TargetError(f"battery discharges at {count}, against sign={hints.sign}")
    sign_from, unit_from = ("said" if hint else "seen" for hint in (hints.sign, hints.unit))
    return Gauge(
        folder=folder,
        scale=GaugeScale(sign=sign, ampere=_UNITS.get(unit), volt=volt, watt=_WATTS.get(unit)),
        files=(file, _VOLTAGE, STATUS),
        how=f"sign {sign_from}, unit {unit} {unit_from}, at {count} of {file}",
    )


def files_of(folder: Path) -> tuple[str, str, str]:
    """Names of the files of current or power, of voltage, and of status."""
    file = _CURRENT if _count_of(folder / _CURRENT) is not None else _POWER
    return file, _VOLTAGE, STATUS


def sign_now(folder: Path) -> int:
    """Sign of the current or power that the gauge shows now; 0: none."""
    count = _count_of(folder / files_of(folder)[0]) or 0
    return (count > 0) - (count < 0)


def _count_of(file: Path) -> int | None:
    value = number_of(file)
    return None if value == NO_VALUE else value


def _unit_of_current(count: int, hints: GaugeHints) -> str:
    unit = hints.unit or unit_of(count, hints.is_loaded)
    if unit is None:
        raise TargetError(
            f"battery's current {count} may be uA or mA: say unit=ua or unit=ma, or put the "
            "device under load and say loaded"
        )
    if (current_a := abs(count) * _UNITS[unit]) > CURRENT_MAX_A:
        raise TargetError(
            f"battery's current {count} would be {current_a:.0f} A by unit {unit}, and no "
            f"battery of a phone or a laptop gives more than {CURRENT_MAX_A:g} A"
        )
    return unit


def _unit_of_power(count: int, voltage_v: float, hints: GaugeHints) -> str:
    """uW, as the kernel's rules say, if its size does not speak against it."""
    if hints.unit:
        raise TargetError(
            f"battery tells power, in uW, and no current: leave out unit={hints.unit}"
        )
    current_a = abs(count) * _WATTS["uw"] / voltage_v
    if not CURRENT_MAX_A / 1000 < current_a <= CURRENT_MAX_A:
        raise TargetError(
            f"battery's power {count} may be in another unit than uW: as uW it is a current of "
            f"{current_a:.3g} A, which must be between {CURRENT_MAX_A / 1000:g} and "
            f"{CURRENT_MAX_A:g} A; put the device under load"
        )
    return "uw"


def unit_of(current: int, is_loaded: bool) -> str | None:
    """Unit of a discharging current, by its size; None: ambiguous.

    >>> unit_of(-423125, False), unit_of(-423, True), unit_of(-423, False)
    ('ua', 'ma', None)
    """
    if abs(current) * _UNITS["ma"] > CURRENT_MAX_A:
        return "ua"
    if is_loaded and abs(current) * _UNITS["ua"] < LOAD_MIN_A:
        return "ma"
    return None
