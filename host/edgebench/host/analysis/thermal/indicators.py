"""What the device itself says about being slowed down, by window, with its cause.

Bits and counters of before the run say nothing: only what is new counts.

    vcgencmd               now-bits in any window; sticky bits where they appear first
    x86_throttle_count     counts that grow
    soctherm_oc            events that grow: over-current, or the supply
    cooling_device         above state 0, where it cools by slowing down
    under-voltage alarms   that rise

The firmware of a Raspberry Pi says "throttled" (bit 2) both of heat and of a weak supply. Where
the supply bits are set in the same window or beside it, and the temperature does not speak for
heat, it was the supply.

Source: device facts of the profiles; torvalds/linux, drivers/thermal/intel/therm_throt.c.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from edgebench.host.analysis.thermal.telemetry import Nanoseconds, Series, Telemetry
from edgebench.protocol.thermal import Expectation, slows_down

Flags = NDArray[np.bool_]

_RPI = "rpi.throttled_bits"
_BITS_MAX = 2.0**32
_WORST_FIRST = ("undervoltage", "thermal", "overcurrent")
_UNDER_VOLTAGE_EVENT = "oc1"
"""Of the soctherm events of a Jetson, the one that means the supply."""


@dataclass(frozen=True, slots=True)
class Indication:
    """One thing that the device says."""

    cause: str
    """thermal, undervoltage or overcurrent."""
    detail: str
    windows: Flags
    """Where it was seen, shape (k,)."""


@dataclass(frozen=True, slots=True)
class Indications:
    """All of them, and whether anything could have said so."""

    indications: list[Indication]
    """By the profile's order of indicators, then the one that was there longest."""
    known: Flags
    """Windows in which something could have said so, shape (k,)."""


@dataclass(frozen=True, slots=True)
class _Look:
    """Where to look, and for what."""

    telemetry: Telemetry
    expected: Expectation
    edges_ns: Nanoseconds
    is_hot: Flags
    """Windows near where the device throttles; none where no temperature is known."""

    def inside(self, series: Series) -> Series:
        """The readings of the run, with the state it began in and the one it ended in."""
        first, last = np.searchsorted(series.time_ns, [self.edges_ns[0], self.edges_ns[-1]])
        kept = slice(max(0, int(first) - 1), int(last) + 1)
        return Series(series.time_ns[kept], series.value[kept])

    def windows_of(self, series: Series, is_set: Flags) -> Flags:
        """Windows with a reading that is set."""
        flags = np.zeros(len(self.edges_ns) - 1, np.bool_)
        where = np.searchsorted(self.edges_ns, series.time_ns[is_set], side="right") - 1
        flags[np.clip(where, 0, len(flags) - 1)] = True
        return flags

    def growth(self, series: Series) -> Flags:
        """Windows in which a counter grew."""
        inside = self.inside(series)
        return self.windows_of(inside, np.diff(inside.value, prepend=inside.value[:1]) > 0)

    def known(self, series: Iterable[Series]) -> Flags:
        """Windows between the first and the last reading of one of them."""
        flags = np.zeros(len(self.edges_ns) - 1, np.bool_)
        for one in series:
            inside = self.inside(one)
            if inside.time_ns.size:
                ends = np.searchsorted(self.edges_ns, inside.time_ns[[0, -1]], side="right") - 1
                flags[max(0, int(ends[0])) : int(ends[1]) + 1] = True
        return flags


Answer = tuple[Flags, list[Indication]]
"""Windows in which there is such a source, and what it says."""


def find_indications(
    telemetry: Telemetry, expected: Expectation, edges_ns: Nanoseconds, is_hot: Flags | None
) -> Indications:
    """What the device says; the first is the one that explains most."""
    nowhere = np.zeros(len(edges_ns) - 1, np.bool_)
    look = _Look(telemetry, expected, edges_ns, nowhere if is_hot is None else is_hot)
    indications: list[Indication] = []
    known = nowhere.copy()
    for kind in sorted(_SOURCES, key=lambda kind: _rank(kind, expected.indicators)):
        there, found = _SOURCES[kind](look)
        known |= there
        indications += sorted(
            found, key=lambda one: (-np.count_nonzero(one.windows), _WORST_FIRST.index(one.cause))
        )
    return Indications(indications, known)


def widened(flags: Flags) -> Flags:
    """The windows and their neighbours."""
    wide = flags.copy()
    wide[1:] |= flags[:-1]
    wide[:-1] |= flags[1:]
    return wide


def _rank(kind: str, order: tuple[str, ...]) -> int:
    return order.index(kind) if kind in order else len(order)


def _firmware(look: _Look) -> Answer:
    series = look.telemetry.series.get(_RPI)
    inside = look.inside(series) if series else None
    if series is None or inside is None or not inside.value.size:
        return look.known([]), []
    bits = np.clip(inside.value, 0, _BITS_MAX).astype(np.int64)
    expected = look.expected
    power = _bit_windows(look, inside, bits, expected.power_now, expected.power_sticky)
    heat = _bit_windows(look, inside, bits, expected.thermal_now, expected.thermal_sticky)
    heat &= ~widened(power) | look.is_hot
    shown = int(np.bitwise_or.reduce(bits))
    return look.known([series]), [
        Indication(cause, f"firmware bits {shown:#x}: {cause}", windows)
        for cause, windows in (("thermal", heat), ("undervoltage", power))
        if windows.any()
    ]


def _bit_windows(
    look: _Look, inside: Series, bits: NDArray[np.int64], now: int, sticky: int
) -> Flags:
    """Windows with a now-bit, and those in which a sticky bit was seen first."""
    is_set = (bits & now) != 0
    fresh = int(bits[-1]) & ~int(bits[0]) & sticky
    while fresh:
        bit = fresh & -fresh
        # Too short for the sampling, but the firmware remembers that it was.
        is_set[np.argmax((bits & bit) != 0)] = True
        fresh ^= bit
    return look.windows_of(inside, is_set)


def _counters(look: _Look) -> Answer:
    counts = look.telemetry.named("x86.", ".throttle_count")
    found = [
        Indication("thermal", f"{name} grew by {look.inside(series).growth():.0f}", growth)
        for name, series in counts.items()
        if (growth := look.growth(series)).any()
    ]
    return look.known(counts.values()), found


def _soctherm(look: _Look) -> Answer:
    events = look.telemetry.named("hwmon.soctherm_oc.", ".event_count")
    found = []
    for name, series in events.items():
        growth = look.growth(series)
        if growth.any():
            event = name.split(".")[-2]
            cause = "undervoltage" if event == _UNDER_VOLTAGE_EVENT else "overcurrent"
            text = f"{event} counted {look.inside(series).growth():.0f} events"
            found.append(Indication(cause, text, growth))
    return look.known(events.values()), found


def _cooling(look: _Look) -> Answer:
    found, there = [], []
    for name, series in look.telemetry.named("cooling.", ".state").items():
        kind = name.removeprefix("cooling.").removesuffix(".state").rpartition(".")[0]
        if not slows_down(kind) or kind in look.expected.cooling_exclude:
            continue
        there.append(series)
        inside = look.inside(series)
        windows = look.windows_of(inside, inside.value > 0)
        if windows.any():
            text = f"cooling device {kind} was in state {inside.value.max():g}"
            found.append(Indication("thermal", text, windows))
    return look.known(there), found


def _alarms(look: _Look) -> Answer:
    found = []
    for name, series in look.telemetry.named("hwmon.", ".undervoltage").items():
        inside = look.inside(series)
        windows = look.windows_of(inside, inside.value > inside.value[:1])
        if windows.any():
            found.append(Indication("undervoltage", f"{name} was raised", windows))
    # An alarm alone says nothing about heat: it is no source for "not throttled".
    return look.known([]), found


_SOURCES: dict[str, Callable[[_Look], Answer]] = {
    "vcgencmd": _firmware,
    "x86_throttle_count": _counters,
    "soctherm_oc": _soctherm,
    "cooling_device": _cooling,
    "undervoltage": _alarms,
}
"""By the kind that a profile names."""
