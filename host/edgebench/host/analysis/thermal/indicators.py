"""Slowdowns that the device itself reports, by window, with their causes.

Only changes during the run count; bits and counters from before the run are ignored.

    vcgencmd               now-bits in any window; a sticky bit in the window where it is first read
    x86_throttle_count     counts that grow
    soctherm_oc            events that grow: over-current, or the supply
    android_thermal_status moderate or worse, from each such reading to the next
    cooling_device         above state 0, if it cools by slowing down the model's own part
    under-voltage alarms   that rise

The firmware of a Raspberry Pi sets "throttled" (bit 2) both for heat and for a weak supply. If the
supply bits are set in the same window or a neighbour, and the temperature is not near the limit,
the supply was the cause.

Source: device facts of the profiles; torvalds/linux, drivers/thermal/intel/therm_throt.c.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from edgebench.host.analysis.thermal.delegation import Delegation
from edgebench.host.analysis.thermal.frequency import cpu_mask
from edgebench.host.analysis.thermal.telemetry import (
    Floats,
    Nanoseconds,
    Series,
    TelemetryTrace,
    WindowMask,
)
from edgebench.host.result.reason import Reason
from edgebench.host.result.reasons import thermal
from edgebench.protocol.thermal import Expectation, slows_down

_RPI = "rpi.throttled_bits"
_ANDROID = "android.thermal_status"
_MODERATE = 2
"""Lowest thermal status at which Android slows a device down. Source: `android.os.PowerManager`,
THERMAL_STATUS_MODERATE."""
_BITS_MAX = 2.0**32
_WORST_FIRST = ("undervoltage", "thermal", "overcurrent")
_OF_CPU = re.compile(r"(?:cpufreq|cpuidle|idle)-cpu([0-9]{1,4})")
"""Type of a cooling device. Since Linux 5.12 the type contains the number of the first CPU of the
policy that is slowed down. On older kernels, it contains only a number in the order of
registration, as in `thermal-cpufreq-1`."""
_OF_DEVFREQ = re.compile(r"(?:thermal-)?(?:devfreq|gpufreq)-(.+)")
_CAP_LOWERED_RATIO = 0.999
"""A cap counts as lowered if its ratio to the undisturbed cap is below this ratio. A cap is lowered
in steps of a frequency table, which are far larger."""
_UNDER_VOLTAGE_EVENT = "oc1"
"""Name of the event by which a Jetson's soctherm reports a weak supply."""


@dataclass(frozen=True, slots=True)
class ModelPlace:
    """Part of the chip that the model ran on; cooling devices of other parts do not slow it."""

    policy: Floats
    """Frequency policy that the model ran on in each window, shape (k,); NaN where unknown."""
    is_one_thread: bool
    """Whether the model has a single thread, so that no other thread runs on another policy."""
    is_affected: WindowMask
    """Windows with a higher latency or a lower clock, shape (k,)."""
    delegation: Delegation | None = None
    """Accelerator that ran most of the model; None for the CPU."""


@dataclass(frozen=True, slots=True)
class Indication:
    """A slowdown that the device reports."""

    cause: str
    """Cause of the slowdown: `thermal`, `undervoltage` or `overcurrent`."""
    reason: Reason
    windows: WindowMask
    """Windows in which the slowdown was reported, shape (k,)."""


@dataclass(frozen=True, slots=True)
class Indications:
    """All reports of the device, and the windows in which its indicators were read."""

    indications: list[Indication]
    """Indications in the profile's order of indicators; of one indicator, by number of windows."""
    known: WindowMask
    """Windows in which an indicator was read, shape (k,)."""
    elsewhere: tuple[Reason, ...] = ()
    """Reports about parts that the model did not run on."""


@dataclass(frozen=True, slots=True)
class _Readings:
    """Readings of a run, with its windows and the part of the chip that ran the model."""

    telemetry: TelemetryTrace
    expected: Expectation
    edges_ns: Nanoseconds
    is_hot: WindowMask
    """Windows near the throttle temperature; all False if no temperature is known."""
    place: ModelPlace | None
    """Part of the chip that ran the model; None if every cooling device may slow the model down."""

    def inside(self, series: Series) -> Series:
        """Readings of the run, with the last reading before it and the first after it."""
        first, last = np.searchsorted(series.time_ns, [self.edges_ns[0], self.edges_ns[-1]])
        kept = slice(max(0, int(first) - 1), int(last) + 1)
        return Series(series.time_ns[kept], series.value[kept])

    def windows_of(self, series: Series, is_set: NDArray[np.bool_]) -> WindowMask:
        """Windows with a reading for which `is_set` is true."""
        windows = np.zeros(len(self.edges_ns) - 1, np.bool_)
        where = np.searchsorted(self.edges_ns, series.time_ns[is_set], side="right") - 1
        windows[np.clip(where, 0, len(windows) - 1)] = True
        return windows

    def growth(self, series: Series) -> WindowMask:
        """Windows in which a counter grew."""
        inside = self.inside(series)
        return self.windows_of(inside, np.diff(inside.value, prepend=inside.value[:1]) > 0)

    def known(self, series: Iterable[Series]) -> WindowMask:
        """Windows between the first and the last reading of one of these sensors."""
        windows = np.zeros(len(self.edges_ns) - 1, np.bool_)
        for readings in series:
            inside = self.inside(readings)
            if inside.time_ns.size:
                ends = np.searchsorted(self.edges_ns, inside.time_ns[[0, -1]], side="right") - 1
                windows[max(0, int(ends[0])) : int(ends[1]) + 1] = True
        return windows


def find_indications(
    telemetry: TelemetryTrace,
    expected: Expectation,
    edges_ns: Nanoseconds,
    is_hot: WindowMask | None,
    place: ModelPlace | None = None,
) -> Indications:
    """Reports of the device; the first indication is the best explanation.

    Args:
        telemetry: Trace of the run.
        expected: Profile of the device.
        edges_ns: Edges of the windows, shape (k + 1,).
        is_hot: Windows near the throttle temperature, shape (k,); None if unknown.
        place: Part of the chip that ran the model; None if every cooling device may slow the model.
    """
    nowhere = np.zeros(len(edges_ns) - 1, np.bool_)
    is_hot = nowhere if is_hot is None else is_hot
    readings = _Readings(telemetry, expected, edges_ns, is_hot, place)
    order = expected.indicators
    indications: list[Indication] = []
    known = nowhere.copy()
    elsewhere: list[Reason] = []
    for kind in sorted(_SOURCES, key=lambda k: order.index(k) if k in order else len(order)):
        source = _SOURCES[kind](readings)
        known |= source.known
        elsewhere += source.elsewhere
        indications += sorted(
            source.indications,
            key=lambda indication: (
                -np.count_nonzero(indication.windows),
                _WORST_FIRST.index(indication.cause),
            ),
        )
    return Indications(indications, known, tuple(elsewhere))


def widened(windows: WindowMask) -> WindowMask:
    """The given windows, and the windows right before and after them."""
    wide = windows.copy()
    wide[1:] |= windows[:-1]
    wide[:-1] |= windows[1:]
    return wide


def _firmware(readings: _Readings) -> Indications:
    series = readings.telemetry.series.get(_RPI)
    if series is None or not (inside := readings.inside(series)).value.size:
        return Indications([], readings.known([]))
    bits = np.clip(inside.value, 0, _BITS_MAX).astype(np.int64)

    def windows_with(now: int, sticky: int) -> WindowMask:
        """Windows with a set bit for the current state, or a sticky bit set for the first time."""
        is_set = (bits & now) != 0
        fresh = int(bits[-1]) & ~int(bits[0]) & sticky
        while fresh:
            bit = fresh & -fresh
            # The event was too short for the sampling, but the sticky bit records it.
            is_set[np.argmax((bits & bit) != 0)] = True
            fresh ^= bit
        return readings.windows_of(inside, is_set)

    expected = readings.expected
    power = windows_with(expected.power_now, expected.power_sticky)
    heat = windows_with(expected.thermal_now, expected.thermal_sticky)
    heat &= ~widened(power) | readings.is_hot
    shown = int(np.bitwise_or.reduce(bits))
    indications = [
        Indication(cause, thermal.firmware_bits(bits=shown, cause=cause), windows)
        for cause, windows in (("thermal", heat), ("undervoltage", power))
        if windows.any()
    ]
    return Indications(indications, readings.known([series]))


def _counters(readings: _Readings) -> Indications:
    counts = readings.telemetry.named("x86.", ".throttle_count")
    indications = [
        Indication(
            "thermal",
            thermal.throttle_count_grew(
                sensor=name, event_count=round(readings.inside(series).growth())
            ),
            growth,
        )
        for name, series in counts.items()
        if (growth := readings.growth(series)).any()
    ]
    return Indications(indications, readings.known(counts.values()))


def _soctherm(readings: _Readings) -> Indications:
    events = readings.telemetry.named("hwmon.soctherm_oc.", ".event_count")
    indications = []
    for name, series in events.items():
        growth = readings.growth(series)
        if growth.any():
            event = name.split(".")[-2]
            cause = "undervoltage" if event == _UNDER_VOLTAGE_EVENT else "overcurrent"
            count = round(readings.inside(series).growth())
            reason = thermal.soctherm_events(event=event, event_count=count)
            indications.append(Indication(cause, reason, growth))
    return Indications(indications, readings.known(events.values()))


def _cooling(readings: _Readings) -> Indications:
    indications, devices, elsewhere = [], [], []
    for name, series in readings.telemetry.named("cooling.", ".state").items():
        kind = name.removeprefix("cooling.").removesuffix(".state").rpartition(".")[0]
        if not slows_down(kind) or kind in readings.expected.cooling_exclude:
            continue
        inside = readings.inside(series)
        windows = readings.windows_of(inside, inside.value > 0)
        slows_the_model = _slows_the_model(readings, kind, windows)
        if slows_the_model:
            devices.append(series)
        if not windows.any():
            continue
        reason = thermal.cooling_device_active(
            device=kind, state=float(inside.value.max(initial=0)), slows_the_model=slows_the_model
        )
        if slows_the_model:
            indications.append(Indication("thermal", reason, windows))
        else:
            elsewhere.append(reason)
    return Indications(indications, readings.known(devices), tuple(elsewhere))


def _slows_the_model(readings: _Readings, kind: str, windows: WindowMask) -> bool:
    """Whether a cooling device that was active in these windows can have slowed the model down.

    If the name of the cooling device identifies a part of the chip, the name decides. A cooling
    device with only a number belongs to the model's own policy if it lowers the cap of that policy.
    Otherwise the effect decides: the speed of the model while the cooling device was active is
    compared with the speed at other times of the run. If the model was not slower, the cooling
    device slows down a part that the model did not use. A cooling device that was always active is
    assumed to slow the model, because there is no other time to compare with.
    """
    place = readings.place
    if place is None:
        return True
    named, device = _OF_CPU.fullmatch(kind), _OF_DEVFREQ.fullmatch(kind)
    own_device = place.delegation.devfreq if place.delegation else None
    policies = {int(policy) for policy in np.unique(place.policy[~np.isnan(place.policy)])}
    is_known = bool(policies) and place.is_one_thread
    if named and is_known:
        cpu = int(named[1])
        masks = (cpu_mask(readings.telemetry, policy) for policy in policies)
        return cpu in policies or any(mask >> cpu & 1 for mask in masks)
    if device and own_device and not device[1].isdecimal():
        return device[1] == own_device
    lowered: list[bool | None] = [None]
    if device and own_device:
        lowered = [_is_cap_lowered(readings, f"devfreq.{own_device}", windows)]
    elif "cpufreq" in kind and not named and is_known:
        lowered = [
            _is_cap_lowered(readings, f"cpufreq.policy{policy}", windows) for policy in policies
        ]
    if None not in lowered:
        return any(lowered)
    is_of_cpu = device is None
    if is_of_cpu and not named and "cpufreq" not in kind and place.delegation is None:
        return True  # The whole processor: ACPI's throttling, and injected idle time.
    working_count = int(np.count_nonzero(windows))
    affected_count = int(np.count_nonzero(place.is_affected & windows))
    is_always = (len(windows) - working_count) * 10 < len(windows)
    is_likely = is_of_cpu == (place.delegation is None)
    return affected_count * 2 > working_count or (is_always and is_likely)


def _is_cap_lowered(readings: _Readings, name: str, windows: WindowMask) -> bool | None:
    """Whether the cap of a policy or device was lower in these windows than in the other windows.

    The result is None if the cap was not read.
    """
    cap = readings.telemetry.series.get(f"{name}.freq_hz_cap")
    if cap is None:
        return None
    edges_ns = readings.edges_ns
    at = np.searchsorted(edges_ns, cap.time_ns, side="right") - 1
    is_inside = (at >= 0) & (at < len(windows))
    is_working = np.zeros_like(is_inside)
    is_working[is_inside] = windows[at[is_inside]]
    working_hz, resting_hz = cap.value[is_working], cap.value[is_inside & ~is_working]
    # For a device that is always active, the only reference is the hardware's limit.
    top_hz = readings.telemetry.constants.get(f"{name}.freq_hz_max")
    if resting_hz.size:
        top_hz = float(np.median(resting_hz))
    if not working_hz.size or top_hz is None:
        return None
    return float(working_hz.min()) < _CAP_LOWERED_RATIO * top_hz


def _android(readings: _Readings) -> Indications:
    series = readings.telemetry.series.get(_ANDROID)
    if series is None:
        return Indications([], readings.known([]))
    inside = readings.inside(series)
    is_set = inside.value >= _MODERATE
    windows = readings.windows_of(inside, is_set)
    edges_ns = readings.edges_ns
    for first in np.flatnonzero(is_set[:-1] & is_set[1:]):
        begin, end = inside.time_ns[first], inside.time_ns[first + 1]
        windows |= (edges_ns[:-1] < end) & (edges_ns[1:] > begin)
    reason = thermal.android_thermal_status(status=round(inside.value.max(initial=0)))
    indications = [Indication("thermal", reason, windows)] if windows.any() else []
    return Indications(indications, readings.known([series]))


def _alarms(readings: _Readings) -> Indications:
    indications = []
    for name, series in readings.telemetry.named("hwmon.", ".undervoltage").items():
        inside = readings.inside(series)
        windows = readings.windows_of(inside, inside.value > inside.value[:1])
        if windows.any():
            indications.append(
                Indication("undervoltage", thermal.undervoltage_alarm(sensor=name), windows)
            )
    # An alarm of the supply does not depend on heat, so it cannot support "not throttled".
    return Indications(indications, readings.known([]))


_SOURCES: dict[str, Callable[[_Readings], Indications]] = {
    "vcgencmd": _firmware,
    "x86_throttle_count": _counters,
    "soctherm_oc": _soctherm,
    "android_thermal_status": _android,
    "cooling_device": _cooling,
    "undervoltage": _alarms,
}
"""Maps the name of each indicator in profiles to the function that reads it."""
