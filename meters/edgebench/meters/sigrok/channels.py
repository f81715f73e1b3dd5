"""Assigns power, current and voltage to a device's channels, by the user's names or by units.

A channel of power is sufficient. A channel of current requires also a voltage, which another
channel measures or the user states. An oscilloscope measures a current as the voltage across a
resistor.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from edgebench.meters.sigrok.decoder import SigrokSettings
from edgebench.meters.sigrok.readings import Reading
from edgebench.protocol.errors import UsageError


@dataclass(frozen=True, slots=True, kw_only=True)
class SigrokSetup:
    """The user's options for a sigrok device."""

    driver: str
    """Driver of sigrok with its own options."""
    rate_hz: int | None = None
    """Samples per second; None: the device's setting."""
    power: str | None = None
    current: str | None = None
    voltage: str | None = None
    """Names of the channels of power, current and voltage; None: selected by unit."""
    supply_v: float | None = None
    shunt_ohm: float | None = None
    mean_s: float | None = None
    """Averaging time of the readings; None: readings are assumed to be instants."""
    gain_ratio: float | None = None
    offset: float | None = None

    @property
    def named(self) -> list[str]:
        """Channels that the user has named."""
        return [name for name in (self.power, self.voltage, self.current) if name is not None]


@dataclass(frozen=True, slots=True)
class FirstReadings:
    """First reading of each channel, and the number of rounds per second."""

    by_channel: dict[str, Reading]
    rounds_per_s: float


def settings_of(setup: SigrokSetup, first: FirstReadings, *, is_paced: bool) -> SigrokSettings:
    """Select the channels of power, or of current and voltage.

    Raises:
        UsageError: the units are ambiguous, or a named channel has the wrong unit or measures AC.
    """
    units = {name: reading.unit for name, reading in first.by_channel.items()}
    wanted = SigrokSettings(
        is_paced=is_paced,
        power=setup.power,
        current=setup.current,
        voltage=setup.voltage,
        supply_v=setup.supply_v,
        shunt_ohm=setup.shunt_ohm,
    )
    if setup.power is None and setup.current is None:
        powers, currents, voltages = (
            [name for name, unit in units.items() if unit == wished] for wished in "WAV"
        )
        if len(powers) == 1 and setup.supply_v is None:
            wanted = replace(wanted, power=powers[0], voltage=None)
        elif len(currents) == 1:
            only = voltages[0] if len(voltages) == 1 and setup.supply_v is None else None
            wanted = replace(wanted, current=currents[0], voltage=setup.voltage or only)
    shown = ", ".join(f"{name} ({unit or 'no unit'})" for name, unit in sorted(units.items()))
    if not (wanted.power or wanted.current):
        raise UsageError(
            "assign the channels, as in current=NAME,voltage=NAME or power=NAME; available: "
            f"{shown}"
        )
    for name, unit in wanted.channels.items():
        if units.get(name) != unit:
            resistor = "; add the resistor across the input of this channel, as in shunt=0.1"
            hint = resistor if unit == "A" else ""
            raise UsageError(f"channel {name} should measure {unit}; available: {shown}{hint}")
        if re.search(r"\bAC\b", first.by_channel[name].remarks):
            raise UsageError(f"channel {name} measures AC, which gives no power: set it to DC")
    _check_quantities(wanted)
    return wanted


def _check_quantities(settings: SigrokSettings) -> None:
    """Reject incomplete and superfluous quantities.

    Raises:
        UsageError: current is given without a voltage or with two voltages, or power is given
            together with other quantities.
    """
    voltages = [settings.voltage, settings.supply_v]
    if settings.power is not None:
        if settings.current is not None or settings.shunt_ohm or any(voltages):
            raise UsageError("power= is sufficient: leave out current, voltage, supply and shunt")
    elif voltages.count(None) != 1:
        raise UsageError(
            "current= requires a voltage: add voltage=NAME, or the supply voltage, as in supply=3.3"
        )
