"""How a PowerShield is asked to measure, and what it can not do.

Source: ST UM2243, and the help text of the firmware, quoted in mlcommons/tiny, benchmark/runner,
power_manager.py: supply, frequencies, 10 kHz of energy, and the table of acquisition times.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from edgebench.meters.options import Options, check_supply
from edgebench.protocol.errors import UsageError

SUPPLY_LIMITS_V = (1.8, 3.3)
RATES_HZ = (*(m * 10**e for e in range(5) for m in (1, 2, 5)), 100_000)
ENERGY_MAX_HZ = 10_000
ASCII_MAX_HZ = 5_000
"""Without an end; 10 kHz of text last a second."""


class EventEdge(Enum):
    """Which edge of input D7 is reported, in the unit's words."""

    RISING = "ris"
    FALLING = "fal"


@dataclass(frozen=True, slots=True, kw_only=True)
class Setup:
    """What is asked for."""

    rate_hz: int
    supply_v: float | None = None
    """None: as the unit has it."""
    is_energy: bool = False
    """Energy of intervals, instead of the current at instants."""
    is_ascii: bool = False
    is_static: bool = False
    """Up to 200 mA, for a current that does not change."""
    is_high: bool = False
    """The unit's mode for high current, instead of its best resolution."""
    events: EventEdge | None = None
    is_power_on: bool = False
    """Switch the device's supply on for the session, and off again after it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The facts of a recording's header."""

    setup: Setup
    supply_v: float
    """Set, or as the unit said: the stream has no voltage."""


def parse_setup(options: Options) -> Setup:
    """From the options of a meter's address.

    Raises:
        UsageError: a value is none, or the unit can not do that.
    """
    is_energy = _choice(options, "output", "current", "energy")
    is_ascii = _choice(options, "format", "binary", "ascii")
    setup = Setup(
        rate_hz=_rate_hz(options.text("rate"), highest_rate_hz(is_energy, is_ascii)),
        supply_v=options.number("supply"),
        is_energy=is_energy,
        is_ascii=is_ascii,
        is_static=_choice(options, "mode", "dyn", "stat"),
        is_high=_choice(options, "function", "optim", "high"),
        events=_events(options.text("events")),
        is_power_on=options.switch("power"),
    )
    check(setup)
    return setup


def highest_rate_hz(is_energy: bool, is_ascii: bool) -> int:
    """That the unit can keep up without an end."""
    return min(ENERGY_MAX_HZ if is_energy else 100_000, ASCII_MAX_HZ if is_ascii else 100_000)


def check(setup: Setup) -> None:
    """Refuse what the unit can not do.

    Raises:
        UsageError: which value is beyond which limit.
    """
    check_supply(setup.supply_v, SUPPLY_LIMITS_V, "LPM01A gives")
    if setup.rate_hz not in RATES_HZ:
        raise UsageError(
            f"LPM01A has no rate of {setup.rate_hz} Hz: 1, 2 or 5 times a power of ten to 100k"
        )
    if setup.is_energy and setup.rate_hz > ENERGY_MAX_HZ:
        raise UsageError(_too_fast("energy", ENERGY_MAX_HZ, setup))
    if setup.is_ascii and setup.rate_hz > ASCII_MAX_HZ:
        raise UsageError(_too_fast("text without an end", ASCII_MAX_HZ, setup))
    if setup.events and not setup.is_ascii:
        raise UsageError("LPM01A reports events as text only: say format=ascii")
    if setup.is_high and (setup.is_energy or setup.is_static):
        raise UsageError("LPM01A has function=high for output=current and mode=dyn only")


def _too_fast(what: str, limit_hz: int, setup: Setup) -> str:
    return f"LPM01A sends {what} at {limit_hz} Hz at most, asked for {setup.rate_hz} Hz"


def _choice(options: Options, name: str, usual: str, other: str) -> bool:
    """Whether it is the other one."""
    text = options.text(name, usual)
    if text not in (usual, other):
        raise UsageError(f"meter lpm01a: {name} must be {usual} or {other}, got {text!r}")
    return text == other


def _events(text: str | None) -> EventEdge | None:
    try:
        return None if text is None else EventEdge(text)
    except ValueError:
        raise UsageError(f"meter lpm01a: events must be ris or fal, got {text!r}") from None


def _rate_hz(text: str | None, default_hz: int) -> int:
    if text is None:
        return default_hz
    number, factor = (text[:-1], 1000) if text.endswith("k") else (text, 1)
    if not (number.isascii() and number.isdigit()):
        raise UsageError(f"meter lpm01a: rate must be like 100k or 500, got {text!r}")
    return int(number) * factor
