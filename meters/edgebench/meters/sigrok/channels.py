"""Which channel of a device is what: as the user says, or by the units of its readings.

A power is enough; a current needs a voltage, of another channel or stated. An oscilloscope measures
a current as the voltage of a resistor.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from edgebench.meters.sigrok.decoder import SigrokSettings
from edgebench.meters.sigrok.readings import Reading
from edgebench.protocol.errors import UsageError


@dataclass(frozen=True, slots=True, kw_only=True)
class SigrokSetup:
    """Options of the user."""

    driver: str
    """Driver of sigrok's, with its own options."""
    rate_hz: int | None = None
    """Samples a second; None: as the device has it."""
    power: str | None = None
    current: str | None = None
    voltage: str | None = None
    """Channels; None: found by their units."""
    supply_v: float | None = None
    shunt_ohm: float | None = None
    mean_s: float | None = None
    """Time that each reading is the mean of; None: an instant, for all that is known."""
    gain_ratio: float | None = None
    offset: float | None = None

    @property
    def named(self) -> list[str]:
        """Channels that the user names."""
        return [name for name in (self.power, self.voltage, self.current) if name is not None]


@dataclass(frozen=True, slots=True)
class FirstReadings:
    """First readings of each channel, and how many rounds of them come a second."""

    by_channel: dict[str, Reading]
    rounds_per_s: float


def settings_of(setup: SigrokSetup, first: FirstReadings, *, is_paced: bool) -> SigrokSettings:
    """Channels of power, or of current and voltage.

    Raises:
        UsageError: the units do not tell, or what was named is none.
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
            "say which channel is what, as in current=NAME,voltage=NAME or power=NAME; available: "
            f"{shown}"
        )
    for name, unit in wanted.channels.items():
        if units.get(name) != unit:
            hint = "; say the resistor that it measures at, as in shunt=0.1" if unit == "A" else ""
            raise UsageError(f"channel {name} should measure {unit}; available: {shown}{hint}")
        if re.search(r"\bAC\b", first.by_channel[name].remarks):
            raise UsageError(f"channel {name} measures AC, of which no power can be made: set DC")
    _check_quantities(wanted)
    return wanted


def _check_quantities(settings: SigrokSettings) -> None:
    """Refuse what is no power, and what would not be used.

    Raises:
        UsageError: a voltage is missing, or there are two.
    """
    voltages = [settings.voltage, settings.supply_v]
    if settings.power is not None:
        if settings.current is not None or settings.shunt_ohm or any(voltages):
            raise UsageError("power= is enough: leave current, voltage, supply and shunt out")
    elif voltages.count(None) != 1:
        raise UsageError(
            "a current needs one voltage: say voltage=NAME, or that of the device, as in supply=3.3"
        )
