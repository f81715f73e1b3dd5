"""Capability and uncertainty of a PowerShield.

Source: ST UM2243, Getting started with the X-NUCLEO-LPM01A, p. 23-24: ranges, accuracy, bandwidth
and the voltage drop. The resolution of a value is the step of its number format.
"""

from __future__ import annotations

from edgebench.meters.base import Capability, Channel
from edgebench.meters.lpm01a import ascii as text
from edgebench.meters.lpm01a import binary
from edgebench.meters.lpm01a.settings import Lpm01aSetup
from edgebench.meters.uncertainty import CurrentLimit, Kind, Origin, UncertaintyTerm, Unit, term

DROP_V = 0.06
"""Largest voltage drop: the supply may be lower than the configured voltage by this much."""
_ACCURACY = 0.02
_BANDWIDTH_HZ = 100e3
_DYNAMIC_MAX_A, _STATIC_MAX_A = 0.050, 0.200
_TABLE = "ST UM2243, p. 23-24"
_FINEST = {binary.RADIX: 8, text.RADIX: 10}
"""Maps the radix of each number format to the highest exponent that gets an uncertainty term.
Higher exponents have steps below a nanoampere, finer than the instrument's resolution."""


def supply_deviation(supply_v: float, reported_v: float | None) -> str | None:
    """Describe a difference of more than `DROP_V` between reported and set voltage, if any."""
    if reported_v is None or abs(reported_v - supply_v) <= DROP_V:
        return None
    limit = f"more than {DROP_V:g} V off"
    return f"LPM01A was set to {supply_v:g} V but reports {reported_v:g} V, {limit}"


def highest_current_a(setup: Lpm01aSetup) -> float:
    """Upper limit of the measuring range; no accuracy is stated above it."""
    return _STATIC_MAX_A if setup.is_static else _DYNAMIC_MAX_A


def capability(name: str, setup: Lpm01aSetup, serial: str) -> Capability:
    """Capability of a unit with this configuration."""
    return Capability(
        driver=name,
        channels=(Channel("supply", "what the meter supplies"),),
        rate_hz=setup.rate_hz,
        is_averaging=setup.is_energy,
        is_uniform=True,
        clock_domain=f"meter:{name}:{serial or 'unknown'}",
        bandwidth_hz=None if setup.is_static else _BANDWIDTH_HZ,
        digital_count=1 if setup.events else 0,
        loss_detection="device_timestamps",
        min_window_s=max(1e-3, 2 / setup.rate_hz),
        current_limits=(
            CurrentLimit(
                limit_a=highest_current_a(setup), origin=Origin.DATASHEET, reference=_TABLE
            ),
        ),
    )


def uncertainty(setup: Lpm01aSetup, supply_v: float) -> tuple[UncertaintyTerm, ...]:
    """Uncertainty terms of gain, supply voltage, clock, and the value step of each exponent."""
    is_static, is_energy = setup.is_static, setup.is_energy
    gain = term(
        Kind.GAIN,
        _ACCURACY,
        f"{_TABLE}: {'below' if is_static else 'about'} 2 %",
        origin=Origin.DATASHEET if is_static else Origin.TYPICAL,
    )
    radix = text.RADIX if setup.is_ascii else binary.RADIX
    steps = [
        term(
            Kind.RESOLUTION,
            (setup.rate_hz if is_energy else 1) * float(radix) ** -exponent,
            "UM2243: resolution of the format of values",
            Unit.WATT if is_energy else Unit.AMPERE,
            of_range=exponent,
            origin=Origin.DATASHEET,
        )
        for exponent in range(_FINEST[radix] + 1)
    ]
    supply = term(
        Kind.VOLTAGE,
        DROP_V / supply_v,
        f"{_TABLE}: drop below 60 mV",
        origin=Origin.ASSUMED if is_energy else Origin.DATASHEET,
    )
    return (gain, *steps, supply, term(Kind.TIMEBASE, 50e-6, "a crystal"))
