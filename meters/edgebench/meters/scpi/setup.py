"""What a person asks an SCPI instrument for, and what a recording of one has to say of it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Protocol

from edgebench.meters.base import Header, MeterSession
from edgebench.meters.options import Options
from edgebench.protocol.errors import UsageError


class Kind(Enum):
    """How an instrument's answers are read; stored with the recording."""

    ELOG = "elog"
    """Blocks of float32, current and voltage in turn."""
    POWER_METER = "power_meter"
    """Voltage, current and power, once for each question."""
    MULTIMETER = "multimeter"
    """A current, once for each question."""
    MULTIMETER_MEMORY = "multimeter_memory"
    """Blocks of text: currents, separated by commas."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Setup:
    """What is asked for."""

    channel: int = 1
    """Output of a supply, element of a power meter."""
    rate_hz: float | None = None
    """None: as the instrument has it, or as fast as it is sensible."""
    range_a: float | None = None
    """Of a multimeter; None: it chooses by itself."""
    supply_v: float | None = None
    """Of what a multimeter measures, which has no voltage."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The facts of a recording's header."""

    kind: Kind
    supply_v: float | None = None


class Instrument(Protocol):
    """What a family of instruments does; connected, and known by name."""

    def prepare(self) -> Header:
        """Set it up.

        Raises:
            EdgebenchError: it refuses, or the user has to say something first.
        """
        ...

    def session(self, header: Header, path: Path) -> MeterSession:
        """A recording, as it was prepared."""
        ...


def parse_setup(options: Options) -> Setup:
    """From the options of a meter's address.

    Raises:
        UsageError: a value is none.
    """
    channel = options.number("channel", 1.0)
    setup = Setup(
        channel=int(channel or 0),
        rate_hz=_positive(options, "rate"),
        range_a=_positive(options, "range"),
        supply_v=_positive(options, "supply"),
    )
    if channel != setup.channel or not 1 <= setup.channel <= 4:
        raise UsageError(f"meter scpi: channel must be 1 to 4, got {channel:g}")
    return setup


def _positive(options: Options, name: str) -> float | None:
    value = options.number(name)
    if value is not None and value <= 0:
        raise UsageError(f"meter scpi: {name} must be above 0, got {value:g}")
    return value
