"""Metadata of a PPK2: its calibration, as text.

Lines of `Key: value`, ended by `END`. The answer may come in any number of reads, after bytes of a
stream that was stopped; a value may be `-nan` where the factory measured none. The flag
`Calibrated: 0` stands on units that are calibrated, so it is kept and not believed. Of the slopes
and offsets of each of the five ranges only R and O have no value that would do instead.

Source: format and command 0x19: IRNAS/ppk2-api-python, src/ppk2_api/ppk2_api.py, and what real
units answered in its issue 49; defaults as there.
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
    """Constants of each range, five of each."""

    r: tuple[float, ...]
    """Shunt, ohm."""
    o: tuple[float, ...]
    """Offset, steps of the converter."""
    gs: tuple[float, ...]
    gi: tuple[float, ...]
    s: tuple[float, ...]
    i: tuple[float, ...]
    """Ampere."""
    ug: tuple[float, ...]
    """The user's own gain."""


@dataclass(frozen=True, slots=True)
class Metadata:
    """The whole answer."""

    calibration: Calibration
    vdd_mv: float | None
    hardware: str
    defaulted: tuple[str, ...]
    """Constants that the unit did not give, or gave as no number."""
    text: str


def parse_metadata(answer: bytes) -> Metadata:
    """Read the answer, which may begin with bytes of a stream.

    Raises:
        MeasurementError: a constant is missing without which every value would be wrong.
    """
    values = _values(answer)
    missing = [
        f"{key}{r}"
        for key in _NEEDED
        for r in range(RANGES)
        if _number(values, f"{key}{r}") is None
    ]
    if missing:
        raise MeasurementError(f"PPK2 gave no calibration: {', '.join(missing)} missing")
    found, defaulted = {}, []
    for key in (*_NEEDED, *_DEFAULTS):
        numbers = []
        for name in (f"{key}{r}" for r in range(RANGES)):
            value = _number(values, name)
            if value is None:
                defaulted.append(name)
            numbers.append(_DEFAULTS.get(key, 0.0) if value is None else value)
        found[key.lower()] = tuple(numbers)
    return Metadata(
        calibration=Calibration(**found),
        vdd_mv=_number(values, "VDD"),
        hardware=values.get("HW", ""),
        defaulted=tuple(defaulted),
        text="\n".join(f"{name}: {value}" for name, value in values.items()),
    )


def _values(answer: bytes) -> dict[str, str]:
    end = answer.rfind(END)
    lines = answer[: end if end >= 0 else len(answer)].split(b"\n")
    found = (_LINE.match(line) for line in lines)
    return {m[1].decode("ascii"): m[2].decode("ascii", "replace") for m in found if m}


def _number(values: dict[str, str], name: str) -> float | None:
    try:
        value = float(values[name])
    except (KeyError, ValueError):
        return None
    return value if math.isfinite(value) else None
