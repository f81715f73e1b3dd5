"""What the device itself says about being slowed down, by window, with its cause.

Bits and counters of before the run say nothing: only what is new counts.

    rpi.throttled_bits       now-bits in any window; sticky bits that were not set at the start
    x86 throttle counts      that grow
    cooling devices          in a state above that of the start, but for fans
    soctherm_oc events       that grow: over-current
    under-voltage alarms     that rise

Source: device facts of the profiles; torvalds/linux, drivers/thermal/intel/therm_throt.c.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from edgebench.host.analysis.telemetry import Nanoseconds, Series, Telemetry
from edgebench.protocol.thermal import Expectation

Flags = NDArray[np.bool_]

_RPI = "rpi.throttled_bits"
_FANS = ("fan", "Fan")
"""In the type of a cooling device that slows nothing down."""
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
    has_source: bool


def find_indications(
    telemetry: Telemetry, expected: Expectation, edges_ns: Nanoseconds
) -> Indications:
    """What the device says; the first is the one that explains most."""
    found: list[Indication] = []
    has_source = False
    for source in (_firmware, _counters, _cooling, _alarms):
        is_there, indications = source(telemetry, expected, edges_ns)
        has_source |= is_there
        found += indications
    found.sort(key=lambda one: (-np.count_nonzero(one.windows), _WORST_FIRST.index(one.cause)))
    return Indications(found, has_source)


Answer = tuple[bool, list[Indication]]


def _firmware(telemetry: Telemetry, expected: Expectation, edges_ns: Nanoseconds) -> Answer:
    series = telemetry.series.get(_RPI)
    if series is None:
        return False, []
    inside = _inside(series, edges_ns)
    if not inside.value.size:
        return False, []
    bits = inside.value.astype(np.int64)
    found = []
    masks = (
        ("thermal", expected.thermal_now, expected.thermal_sticky),
        ("undervoltage", expected.power_now, expected.power_sticky),
    )
    for cause, now, sticky in masks:
        flags = _windows_of(inside, (bits & now) != 0, edges_ns)
        fresh = int(bits[-1]) & ~int(bits[0]) & sticky
        if fresh and not flags.any():
            # Too short for the sampling, but the firmware remembers that it was.
            flags = _windows_of(inside, (bits & fresh) != 0, edges_ns)
        if flags.any():
            shown = int(np.bitwise_or.reduce(bits))
            found.append(Indication(cause, f"firmware bits {shown:#x}: {cause}", flags))
    return True, found


def _counters(telemetry: Telemetry, _: Expectation, edges_ns: Nanoseconds) -> Answer:
    found = []
    counts = telemetry.named("x86.", ".throttle_count")
    for name, series in counts.items():
        growth = _growth(series, edges_ns)
        if growth.any():
            total = int(_inside(series, edges_ns).growth())
            found.append(Indication("thermal", f"{name} grew by {total}", growth))
    events = telemetry.named("hwmon.soctherm_oc.", ".event_count")
    for name, series in events.items():
        growth = _growth(series, edges_ns)
        if growth.any():
            event = name.split(".")[-2]
            cause = "undervoltage" if event == _UNDER_VOLTAGE_EVENT else "overcurrent"
            total = int(_inside(series, edges_ns).growth())
            found.append(Indication(cause, f"{event} counted {total} events", growth))
    return bool(counts or events), found


def _cooling(telemetry: Telemetry, _: Expectation, edges_ns: Nanoseconds) -> Answer:
    found, is_there = [], False
    for name, series in telemetry.named("cooling.", ".state").items():
        kind = name.removeprefix("cooling.").removesuffix(".state").rpartition(".")[0]
        if kind.endswith(_FANS):
            continue
        is_there = True
        inside = _inside(series, edges_ns)
        flags = _windows_of(inside, inside.value > inside.value[:1], edges_ns)
        if flags.any():
            text = f"cooling device {kind} was in state {inside.value.max():g}"
            found.append(Indication("thermal", text, flags))
    return is_there, found


def _alarms(telemetry: Telemetry, _: Expectation, edges_ns: Nanoseconds) -> Answer:
    found = []
    alarms = telemetry.named("hwmon.", ".undervoltage")
    for name, series in alarms.items():
        inside = _inside(series, edges_ns)
        flags = _windows_of(inside, inside.value > inside.value[:1], edges_ns)
        if flags.any():
            found.append(Indication("undervoltage", f"{name} was raised", flags))
    # An alarm alone says nothing about heat: it is no source for "not throttled".
    return False, found


def _inside(series: Series, edges_ns: Nanoseconds) -> Series:
    first, last = np.searchsorted(series.time_ns, [edges_ns[0], edges_ns[-1]])
    first = max(0, int(first) - 1)  # the state in which the run began
    return Series(series.time_ns[first:last], series.value[first:last])


def _windows_of(series: Series, is_set: Flags, edges_ns: Nanoseconds) -> Flags:
    """Windows with a reading that is set."""
    flags = np.zeros(len(edges_ns) - 1, np.bool_)
    where = np.searchsorted(edges_ns, series.time_ns[is_set], side="right") - 1
    flags[np.clip(where, 0, len(flags) - 1)] = True
    return flags


def _growth(series: Series, edges_ns: Nanoseconds) -> Flags:
    """Windows in which a counter grew."""
    inside = _inside(series, edges_ns)
    return _windows_of(inside, np.diff(inside.value, prepend=inside.value[:1]) > 0, edges_ns)
