"""What a PowerShield can do, and how far its values may be from the truth.

Source: ST UM2243, Getting started with the X-NUCLEO-LPM01A, p. 23-24: ranges, accuracy, bandwidth
and the voltage drop. The step of a value is the format's.
"""

from __future__ import annotations

from edgebench.meters.base import Capability, Channel
from edgebench.meters.lpm01a import ascii as text
from edgebench.meters.lpm01a import binary
from edgebench.meters.lpm01a.settings import Setup
from edgebench.meters.uncertainty import CurrentLimit, Kind, Origin, UncertaintyTerm, Unit

DROP_V = 0.06
"""The supply falls by less than this below what is set."""
_ACCURACY = 0.02
_BANDWIDTH_HZ = 100e3
_DYNAMIC_MAX_A, _STATIC_MAX_A = 0.050, 0.200
_TABLE = "ST UM2243, p. 23-24"
_FINEST = {binary.RADIX: 8, text.RADIX: 10}
"""Steps below a nanoampere are below what it resolves."""


def highest_current_a(setup: Setup) -> float:
    """Of the measuring range; above it the accuracy is not given."""
    return _STATIC_MAX_A if setup.is_static else _DYNAMIC_MAX_A


def capability(name: str, setup: Setup, serial: str) -> Capability:
    """Of a unit that is set up like this."""
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


def uncertainty(setup: Setup, supply_v: float) -> tuple[UncertaintyTerm, ...]:
    """Gain, the format's steps by exponent, supply and clock."""
    gain = UncertaintyTerm(
        kind=Kind.GAIN,
        value=_ACCURACY,
        unit=Unit.RATIO,
        origin=Origin.DATASHEET if setup.is_static else Origin.TYPICAL,
        reference=f"{_TABLE}: {'below' if setup.is_static else 'about'} 2 %",
    )
    supply = UncertaintyTerm(
        kind=Kind.VOLTAGE,
        value=DROP_V / supply_v,
        unit=Unit.RATIO,
        origin=Origin.ASSUMED if setup.is_energy else Origin.DATASHEET,
        reference=f"{_TABLE}: drop below 60 mV",
    )
    clock = UncertaintyTerm(kind=Kind.TIMEBASE, value=50e-6, unit=Unit.RATIO, reference="a crystal")
    return (gain, *_steps(setup), supply, clock)


def _steps(setup: Setup) -> list[UncertaintyTerm]:
    radix = text.RADIX if setup.is_ascii else binary.RADIX
    scale = setup.rate_hz if setup.is_energy else 1
    return [
        UncertaintyTerm(
            kind=Kind.RESOLUTION,
            value=scale * float(radix) ** -exponent,
            unit=Unit.WATT if setup.is_energy else Unit.AMPERE,
            range=exponent,
            is_common=False,
            origin=Origin.DATASHEET,
            reference="UM2243: the format of a value",
        )
        for exponent in range(_FINEST[radix] + 1)
    ]
