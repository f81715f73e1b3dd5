"""Reasons for a thermal result."""

from __future__ import annotations

from edgebench.host.result.reason import ReasonKind
from edgebench.protocol.percent import format_percent


@ReasonKind
def too_short_for_throttling(*, duration_s: float, needed_s: float) -> str:
    return (
        f"{duration_s:.2f} s is too short to detect throttling; {needed_s:.0f} s after the warm-up "
        "are enough"
    )


@ReasonKind
def no_thermal_signal() -> str:
    return "no temperature, frequency or throttling indicator can be read"


@ReasonKind
def thermal_signals_too_rare() -> str:
    return "the thermal signals of the device were read in less than half of the run"


@ReasonKind
def between_core_types() -> str:
    return "the model moved between types of cores for most of the run"


@ReasonKind
def slower_at_the_end() -> str:
    return "the latency rose only at the very end: measure for longer to find the cause"


@ReasonKind
def hot_and_slower(*, is_repeated: bool, has_clock_fallen: bool | None) -> str:
    clock = ""
    if has_clock_fallen is not None:
        clock = (
            " while the clock fell"
            if has_clock_fallen
            else ", while the reported clock did not fall"
        )
    return f"hot, and {_rose(is_repeated)}{clock}"


@ReasonKind
def hot_with_slower_memory(*, is_repeated: bool, name: str, fast_hz: float, slow_hz: float) -> str:
    return f"hot, and {_rose(is_repeated)} while {_memory_fell(name, fast_hz, slow_hz)}"


@ReasonKind
def memory_clock_fell(*, is_repeated: bool, name: str, fast_hz: float, slow_hz: float) -> str:
    return f"{_rose(is_repeated)} while {_memory_fell(name, fast_hz, slow_hz)}"


def _memory_fell(name: str, fast_hz: float, slow_hz: float) -> str:
    return f"the clock of {name} fell from {fast_hz / 1e9:.2f} GHz to {slow_hz / 1e9:.2f} GHz"


@ReasonKind
def clock_fell(*, is_heat_known: bool) -> str:
    heat = "without heat" if is_heat_known else "and no temperature could be read"
    return f"the clock fell, {heat}"


@ReasonKind
def slower_without_frequency(*, is_repeated: bool) -> str:
    return f"{_rose(is_repeated)}, and no trusted frequency could be read"


@ReasonKind
def slower_without_temperature(*, is_repeated: bool) -> str:
    unread = "neither temperature nor throttling indicator could be read"
    return f"{_rose(is_repeated)}, and {unread}"


@ReasonKind
def slower_without_cause(*, is_repeated: bool) -> str:
    return f"{_rose(is_repeated)} without heat and without a lower clock"


def _rose(is_repeated: bool) -> str:
    return "the latency rose repeatedly" if is_repeated else "the latency rose"


@ReasonKind
def firmware_bits(*, bits: int, cause: str) -> str:
    return f"firmware bits {bits:#x}: {cause}"


@ReasonKind
def throttle_count_grew(*, sensor: str, event_count: int) -> str:
    return f"{sensor} grew by {event_count}"


@ReasonKind
def soctherm_events(*, event: str, event_count: int) -> str:
    return f"{event} counted {event_count} events"


@ReasonKind
def cooling_device_active(*, device: str, state: float, slows_the_model: bool) -> str:
    harmless = "" if slows_the_model else ", which did not slow the model down"
    return f"cooling device {device} was in state {state:g}{harmless}"


@ReasonKind
def android_thermal_status(*, status: int) -> str:
    return f"Android's thermal status was {status}"


@ReasonKind
def undervoltage_alarm(*, sensor: str) -> str:
    return f"{sensor} was raised"


@ReasonKind
def other_causes(*, causes: str) -> str:
    return f"also {causes}"


@ReasonKind
def slightly_slower(*, growth_ratio: float, limit_ratio: float, has_moved: bool) -> str:
    where = " on the same type of core" if has_moved else ""
    growth = format_percent(growth_ratio, 1)
    return f"the latency rose by {growth}{where}, less than {format_percent(limit_ratio)}"


@ReasonKind
def not_slower(*, has_moved: bool) -> str:
    where = " on the same type of core" if has_moved else ""
    return f"the latency did not rise{where}"


@ReasonKind
def thermal_signals_read(*, signals: str) -> str:
    return f"read: {signals}"


@ReasonKind
def on_another_core_type(*, share_ratio: float, latency_ratio: float | None) -> str:
    share = f"{format_percent(share_ratio)} of the run was on another type of core"
    if latency_ratio is None:
        return share
    return f"{share}, where an inference took {latency_ratio:.2g} times as long"
