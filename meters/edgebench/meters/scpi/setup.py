"""Options of SCPI instruments, and the facts of their recordings."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from edgebench.meters.base import MeterInfo
from edgebench.meters.options import MILLIVOLTS_FROM, Options, check_supply
from edgebench.protocol.errors import UsageError

SUPPLY_LIMITS_V = (0.1, MILLIVOLTS_FROM)
"""Voltages of what a multimeter is wired into."""
_FIELDS = {"channel": "channel", "rate": "rate_hz", "range": "range_a", "supply": "supply_v"}
"""Fields of ScpiSetup, by option."""


class AnswerKind(Enum):
    """Form of an instrument's answers; stored with the recording."""

    ELOG = "elog"
    """Blocks of float32, current and voltage in turn."""
    POWER_METER = "power_meter"
    """Voltage, current and power, once for each question."""
    MULTIMETER = "multimeter"
    """A current, once for each question."""
    MULTIMETER_MEMORY = "multimeter_memory"
    """Blocks of text: currents, separated by commas."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScpiSetup:
    """Options of the user."""

    channel: int | None = None
    """Output of a supply, element of a power meter; None: nothing is said, which is the first."""
    rate_hz: float | None = None
    """Values a second; None: as the instrument has it, or as fast as it is sensible."""
    range_a: float | None = None
    """Range of a multimeter; None: it chooses by itself."""
    supply_v: float | None = None
    """Voltage of the device, which a multimeter does not measure."""

    @property
    def place(self) -> int:
        """Output or element that is meant."""
        return self.channel or 1


@dataclass(frozen=True, slots=True, kw_only=True)
class ScpiSettings:
    """Facts of a recording's header."""

    kind: AnswerKind
    supply_v: float | None = None


def parse_setup(options: Options) -> ScpiSetup:
    """Parse the options of a meter's address.

    Raises:
        UsageError: a value is none.
    """
    channel = options.number("channel")
    if channel is not None and channel not in range(1, 5):
        raise UsageError(f"meter scpi: channel must be 1 to 4, got {channel:g}")
    setup = ScpiSetup(
        channel=None if channel is None else int(channel),
        rate_hz=_positive(options, "rate"),
        range_a=_positive(options, "range"),
        supply_v=_positive(options, "supply"),
    )
    check_supply(setup.supply_v, SUPPLY_LIMITS_V, "meter scpi: a device is supplied with")
    return setup


def refuse_others(setup: ScpiSetup, info: MeterInfo, *known: str) -> None:
    """Refuse options that this instrument has no use for.

    Raises:
        UsageError: one was given.
    """
    for option, name in _FIELDS.items():
        if option not in known and getattr(setup, name) is not None:
            raise UsageError(f"{info.model} has no option {option!r}: there are {', '.join(known)}")


def _positive(options: Options, name: str) -> float | None:
    value = options.number(name)
    if value is not None and value <= 0:
        raise UsageError(f"meter scpi: {name} must be above 0, got {value:g}")
    return value
