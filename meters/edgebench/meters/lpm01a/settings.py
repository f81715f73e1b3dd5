"""Settings of a PowerShield, and combinations that it does not support.

Source: ST UM2243, and the help text of the firmware, quoted in mlcommons/tiny, benchmark/runner,
power_manager.py: supply, frequencies, 10 kHz for energy, and the table of acquisition times.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Any

from edgebench.meters.options import Options, check_supply
from edgebench.protocol.errors import UsageError
from edgebench.protocol.plain import to_plain

SUPPLY_LIMITS_V = (1.8, 3.3)
RATES_HZ = (*(m * 10**e for e in range(5) for m in (1, 2, 5)), 100_000)
ENERGY_MAX_HZ = 10_000
ASCII_MAX_HZ = 5_000
"""Highest rate at which the unit sends text without a time limit. At 10 kHz, a recording as text is
limited to a second."""


class EventEdge(Enum):
    """Edge of input D7 to report, in the unit's notation."""

    RISING = "ris"
    FALLING = "fal"


@dataclass(frozen=True, slots=True, kw_only=True)
class Lpm01aSetup:
    """The user's options for a PowerShield."""

    rate_hz: int
    supply_v: float | None = None
    """Voltage to set; None: keep the unit's setting."""
    is_energy: bool = False
    """Whether the unit sends the energy of intervals, instead of the current at instants."""
    is_ascii: bool = False
    is_static: bool = False
    """Whether to use the unit's static mode, for a constant current of up to 200 mA."""
    is_high: bool = False
    """Whether to use the unit's mode for high currents, instead of the mode for best resolution."""
    events: EventEdge | None = None
    is_power_on: bool = False
    """Whether to switch the device's supply on for the session, and off again afterwards."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Lpm01aSettings:
    """Settings that are stored as facts in a recording's header."""

    setup: Lpm01aSetup
    supply_v: float
    """Supply voltage as configured, or else as reported by the unit; the stream contains no
    voltage."""
    deviating_v: float | None = None
    """Voltage that the unit reported, if it differs from `supply_v` by more than `DROP_V`. None if
    there is no such difference, or if the unit reported no voltage."""

    @property
    def facts(self) -> dict[str, Any]:
        """Facts for the recording's header; `deviating_v` is left out if it is None.

        Recordings are comparable only if the digests of their facts are equal. So a recording
        without a deviation has the same facts as a recording made before `deviating_v` was added.
        """
        facts: dict[str, Any] = to_plain(self)
        if self.deviating_v is None:
            del facts["deviating_v"]
        return facts


def parse_setup(options: Options) -> Lpm01aSetup:
    """Parse the options of a meter's address.

    Raises:
        UsageError: a value is invalid, or the unit does not support the combination.
    """
    is_static = options.choice("mode", "dyn", "stat")
    is_high = options.choice("function", "optim", "high")
    is_ascii = options.choice("format", "binary", "ascii")
    is_energy = options.choice("output", "current", "energy")
    if options.text("output") is None and not is_high:
        # Sparse instants may be in step with the device; the energy of intervals is complete.
        is_energy = (
            options.rate("rate", ASCII_MAX_HZ if is_ascii else RATES_HZ[-1]) <= ENERGY_MAX_HZ
        )
    fastest_hz = min(
        ENERGY_MAX_HZ if is_energy else RATES_HZ[-1], ASCII_MAX_HZ if is_ascii else RATES_HZ[-1]
    )
    edge = options.text("events")
    if edge not in (None, "ris", "fal"):
        raise UsageError(f"meter lpm01a: events must be ris or fal, got {edge!r}")
    setup = Lpm01aSetup(
        rate_hz=options.rate("rate", fastest_hz),
        supply_v=options.number("supply"),
        is_energy=is_energy,
        is_ascii=is_ascii,
        is_static=is_static,
        is_high=is_high,
        events=None if edge is None else EventEdge(edge),
        is_power_on=options.switch("power"),
    )
    check(setup)
    return setup


def check(setup: Lpm01aSetup) -> None:
    """Reject settings that the unit does not support.

    Raises:
        UsageError: a value is outside its limits, or the unit does not support the combination.
    """
    check_supply(setup.supply_v, SUPPLY_LIMITS_V, "LPM01A gives")
    rate_hz = setup.rate_hz
    if rate_hz not in RATES_HZ:
        raise UsageError(
            f"LPM01A has no rate of {rate_hz} Hz: use 1, 2 or 5 times a power of ten, up to 100k"
        )
    for is_requested, what, limit_hz in (
        (setup.is_energy, "energy", ENERGY_MAX_HZ),
        (setup.is_ascii, "continuous text", ASCII_MAX_HZ),
    ):
        if is_requested and rate_hz > limit_hz:
            raise UsageError(f"LPM01A sends {what} at {limit_hz} Hz at most, got {rate_hz} Hz")
    if setup.events and not setup.is_ascii:
        raise UsageError("LPM01A reports events only as text: add format=ascii")
    if setup.is_high and (setup.is_energy or setup.is_static):
        raise UsageError("LPM01A supports function=high only with output=current and mode=dyn")
