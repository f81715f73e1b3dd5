"""Lines that sigrok-cli prints for analog channels, one per reading: `P1: 101.000 mA DC`.

The driver of the instrument determines the number of digits of a value; a unit may have a prefix.

Source: libsigrok 0.5.2, output format `analog`, as printed by sigrok-cli 0.7.2.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from typing import NamedTuple

_LINE = re.compile(rb"([^\n]+?): *([^ \n]+) ?([^ \n]*)([^\n]*)\n")
_PREFIXES = {"": 1.0, "p": 1e-12, "n": 1e-9, "u": 1e-6, "µ": 1e-6, "m": 1e-3, "k": 1e3, "M": 1e6}
_UNITS = {
    (prefix + unit).encode(): (unit, factor)
    for unit in ("V", "A", "W")
    for prefix, factor in _PREFIXES.items()
}


class Reading(NamedTuple):
    """A value of a channel. Readings are tuples for speed, as there may be 100,000 per second."""

    channel: str
    value: float
    """Value in the unit without a prefix; infinite beyond the range, NaN if there is no value."""
    unit: str
    """V, A, W, or another unit."""
    step: float
    """Value of one unit in the last printed digit."""
    remarks: str
    """DC, AC, AUTO and similar."""


def readings_of(text: bytes) -> Iterator[Reading]:
    r"""Parse the readings in complete lines.

    >>> [(r.channel, r.value, r.unit, r.step) for r in readings_of(b"P1: 1.50 mA DC\n")]
    [('P1', 0.0015, 'A', 1e-05)]
    """
    for name, number, unit, remarks in _LINE.findall(text):
        try:
            value = float(number)
        except ValueError:
            value = math.nan
        known, factor = _UNITS.get(unit, (unit.decode(errors="replace"), 1.0))
        digits = len(number.partition(b".")[2])
        step = factor / 10**digits
        words = remarks.decode(errors="replace").strip()
        yield Reading(name.decode(errors="replace"), value * factor, known, step, words)


def values_of(text: bytes, channel: str, unit: str) -> list[float]:
    """Values of a channel in complete lines; NaN for values with another unit."""
    name = channel.encode()
    values: list[float] = []
    for channel_name, number, unit_name, _ in _LINE.findall(text):
        if channel_name == name:
            known, factor = _UNITS.get(unit_name, ("", math.nan))
            try:
                values.append(float(number) * (factor if known == unit else math.nan))
            except ValueError:
                values.append(math.nan)
    return values
