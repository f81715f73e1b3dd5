"""Metadata of a PPK2, a text with the unit's calibration.

The metadata consist of lines of `Key: value`, terminated by `END`. The response may arrive in any
number of reads, and bytes of a stopped stream may come first. A value that the factory did not
measure may be `-nan`. The flag `Calibrated: 0` also appears on calibrated units, so the flag is
stored but not trusted. Of the calibration constants of each range, only R and O have no usable
default.

Source: IRNAS/ppk2-api-python, src/ppk2_api/ppk2_api.py (format, command 0x19, defaults), and the
responses of real units in its issue 49.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

from edgebench.protocol.errors import MeasurementError

RANGES = 5
_DEFAULTS = {"GS": 1.0, "GI": 1.0, "S": 0.0, "I": 0.0, "UG": 1.0}
_NEEDED = ("R", "O")
_LINE = re.compile(rb"^\s*([A-Za-z]+[0-9]?)\s*[:=]\s*(\S+)\s*$")
END = b"\nEND"


@dataclass(frozen=True, slots=True)
class Calibration:
    """Calibration constants, each with a value for each of the five ranges."""

    r: tuple[float, ...]
    """Shunt, ohm."""
    o: tuple[float, ...]
    """Offset, steps of the converter."""
    gs: tuple[float, ...]
    gi: tuple[float, ...]
    s: tuple[float, ...]
    i: tuple[float, ...]
    """Calibration constant I, in amperes."""
    ug: tuple[float, ...]
    """Calibration constant UG, the user gain."""


@dataclass(frozen=True, slots=True)
class Metadata:
    """The parsed response."""

    calibration: Calibration
    vdd_mv: float | None
    hardware: str
    defaulted: tuple[str, ...]
    """Names of constants whose defaults are used, because the unit sent no number for them."""
    text: str


def parse_metadata(response: bytes) -> Metadata:
    """Parse the response, which may start with bytes of a stream.

    Raises:
        MeasurementError: a constant without a default is missing.
    """
    lines = response.rpartition(END)[0 if END in response else 2].split(b"\n")
    matches = (_LINE.match(line) for line in lines)
    values = {m[1].decode("ascii"): m[2].decode("ascii", "replace") for m in matches if m}
    constants: dict[str, tuple[float, ...]] = {}
    absent = []
    for key in (*_NEEDED, *_DEFAULTS):
        names = [f"{key}{r}" for r in range(RANGES)]
        numbers = [_number(values, name) for name in names]
        absent += [name for name, number in zip(names, numbers, strict=True) if number is None]
        default = _DEFAULTS.get(key, math.nan)
        constants[key.lower()] = tuple(default if number is None else number for number in numbers)
    if missing := [name for name in absent if name.startswith(_NEEDED)]:
        raise MeasurementError(f"PPK2 sent no calibration: {', '.join(missing)} missing")
    return Metadata(
        calibration=Calibration(**constants),
        vdd_mv=_number(values, "VDD"),
        hardware=values.get("HW", ""),
        defaulted=tuple(absent),
        text="\n".join(f"{name}: {value}" for name, value in values.items()),
    )


def _number(values: dict[str, str], name: str) -> float | None:
    try:
        value = float(values[name])
    except (KeyError, ValueError):
        return None
    return value if math.isfinite(value) else None
