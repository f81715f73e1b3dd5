"""Determines the sign and unit of a battery gauge's current before recording starts.

Theory of operation. By the kernel's rules, current is in uA, and negative while the battery
discharges. Vendors deviate from both rules, so an unchecked gauge can yield energy of the wrong
sign, or a thousandth of the true energy. So sign and unit are determined before recording starts,
and are stored with the recording.

The sign is the sign of the value while `status` is Discharging. A sign that the user states must be
the same. The unit follows from the first rule that applies:

1. the unit that the user states
2. uA, if the value in mA would be more than any battery supplies
3. mA, if the user states that the device is under load, and the value in uA would be less than a
   device under load draws

If no rule applies, the gauge is rejected.

Many laptops have a gauge that reports power instead of current. By the kernel's rules, the unit of
power is uW. This unit is accepted only if the value in mW would be more than any battery supplies.

Source: https://docs.kernel.org/power/power_supply_class.html; amps#1, perfetto#1441 and
home-assistant/android#2846 (signs and units), #4977 (INT_MIN for no value)
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from edgebench.meters.file_meter import number_of, text_of, why_unreadable
from edgebench.protocol.errors import TargetError, UsageError

LOAD_MIN_A = 0.010
"""A phone with a busy processor draws more current than this (community-code/amps#1)."""
CURRENT_MAX_A = 20.0
"""Upper limit of the current that the battery of a phone or a laptop supplies."""
VOLTAGE_LIMITS_V = (2.5, 60.0)
"""Plausible battery voltages, from an empty single cell to the upper limit of extra-low voltage."""
STATUS, DISCHARGING = "status", "Discharging"
NO_VALUE = -(2**31)
"""Number that some gauges report if they have no value (home-assistant/android#4977)."""
_CURRENT, _POWER, _VOLTAGE = "current_now", "power_now", "voltage_now"
_SIGNS = {"negative": -1, "positive": 1}
_UNITS = {"ua": 1e-6, "ma": 1e-3}
_WATTS = {"uw": 1e-6}


@dataclass(frozen=True, slots=True, kw_only=True)
class GaugeHints:
    """Properties of a battery, as stated by the user."""

    sign: str | None = None
    """Sign of the current or power while discharging."""
    unit: str | None = None
    is_loaded: bool = False
    """Whether the user states that the processor is busy while the meter is being opened."""

    def __post_init__(self) -> None:
        """Reject unknown words.

        Raises:
            UsageError: sign or unit is not a valid word.
        """
        if self.sign not in (None, *_SIGNS):
            raise UsageError(f"battery takes sign=negative or sign=positive, got {self.sign!r}")
        if self.unit not in (None, *_UNITS):
            raise UsageError(f"battery takes unit=ua or unit=ma, got {self.unit!r}")


@dataclass(frozen=True, slots=True, kw_only=True)
class GaugeScale:
    """Sign and units of a gauge's counts; stored with the recording."""

    sign: int
    """Sign of the current or power while discharging."""
    ampere: float | None
    """Amperes per count; None: the gauge reports power."""
    volt: float
    """Volts per count."""
    watt: float | None = None
    """Watts per count; None: the gauge reports current."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Gauge:
    """State of a gauge when the meter was opened."""

    folder: Path
    scale: GaugeScale
    files: tuple[str, str, str]
    """Names of the files with current or power, with voltage, and with status."""
    how: str
    """Text that states how sign and unit were determined, and the value when the meter was
    opened."""


def read_gauge(folder: Path, hints: GaugeHints) -> Gauge:
    """Determine the sign and unit of a battery's gauge.

    Raises:
        TargetError: the battery does not discharge, or its values are missing or ambiguous.
    """
    status = folder / STATUS
    if text_of(status) != DISCHARGING:
        if why := why_unreadable([status]):
            raise TargetError(f"battery status cannot be read{why}")
        text = text_of(status) or "nothing"
        raise TargetError(f"battery status is {text!r}, not Discharging: unplug the charger")
    file, *_ = files_of(folder)
    count, voltage = _count_of(folder / file), _count_of(folder / _VOLTAGE)
    if count is None or voltage is None:
        why = why_unreadable(folder / name for name in (_CURRENT, _POWER, _VOLTAGE))
        raise TargetError(f"battery reports neither current nor power, or no voltage{why}")
    if count == 0:
        quantity = file.removesuffix("_now")
        raise TargetError(
            f"battery reports a {quantity} of 0 while discharging: the gauge does not measure"
        )
    low_v, high_v = VOLTAGE_LIMITS_V
    volt = next((volt for volt in _UNITS.values() if low_v <= voltage * volt <= high_v), None)
    if volt is None:
        raise TargetError(f"battery voltage {voltage} is plausible neither in uV nor in mV")
    if file == _CURRENT:
        unit = _unit_of_current(count, hints)
    else:
        unit = _unit_of_power(count, voltage * volt, hints)
    sign = 1 if count > 0 else -1
    if hints.sign and _SIGNS[hints.sign] != sign:
        raise TargetError(f"battery discharges at {count}, which contradicts sign={hints.sign}")
    sign_from, unit_from = ("given" if hint else "seen" for hint in (hints.sign, hints.unit))
    return Gauge(
        folder=folder,
        scale=GaugeScale(sign=sign, ampere=_UNITS.get(unit), volt=volt, watt=_WATTS.get(unit)),
        files=(file, _VOLTAGE, STATUS),
        how=f"sign {sign_from}, unit {unit} {unit_from}, at {count} of {file}",
    )


def files_of(folder: Path) -> tuple[str, str, str]:
    """Names of the files with current or power, with voltage, and with status."""
    file = _CURRENT if _count_of(folder / _CURRENT) is not None else _POWER
    return file, _VOLTAGE, STATUS


def sign_now(folder: Path) -> int:
    """Sign of the current or power that the gauge shows now; 0 if it shows no value."""
    count = _count_of(folder / files_of(folder)[0]) or 0
    return (count > 0) - (count < 0)


def _count_of(file: Path) -> int | None:
    value = number_of(file)
    return None if value == NO_VALUE else value


def _unit_of_current(count: int, hints: GaugeHints) -> str:
    unit = hints.unit or unit_of(count, hints.is_loaded)
    if unit is None:
        raise TargetError(
            f"battery current {count} may be in uA or mA: add unit=ua or unit=ma, or put the "
            "device under load and add `loaded`"
        )
    if (current_a := abs(count) * _UNITS[unit]) > CURRENT_MAX_A:
        raise TargetError(
            f"battery current {count} would be {current_a:.0f} A in unit {unit}; a phone or laptop "
            f"battery gives at most {CURRENT_MAX_A:g} A"
        )
    return unit


def _unit_of_power(count: int, voltage_v: float, hints: GaugeHints) -> str:
    """Return uW, the unit by the kernel's rules; raise TargetError if the value is implausible."""
    if hints.unit:
        raise TargetError(
            f"battery reports power in uW and no current: leave out unit={hints.unit}"
        )
    current_a = abs(count) * _WATTS["uw"] / voltage_v
    if not CURRENT_MAX_A / 1000 < current_a <= CURRENT_MAX_A:
        raise TargetError(
            f"battery power {count} is probably not in uW, because the current would then be "
            f"{current_a:.3g} A; expected {CURRENT_MAX_A / 1000:g} to {CURRENT_MAX_A:g} A; put the "
            "device under load"
        )
    return "uw"


def unit_of(current: int, is_loaded: bool) -> str | None:
    """Unit of a discharging current, inferred from its size; None: ambiguous.

    >>> unit_of(-423125, False), unit_of(-423, True), unit_of(-423, False)
    ('ua', 'ma', None)
    """
    if abs(current) * _UNITS["ma"] > CURRENT_MAX_A:
        return "ua"
    if is_loaded and abs(current) * _UNITS["ua"] < LOAD_MIN_A:
        return "ma"
    return None
