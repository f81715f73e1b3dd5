"""Reasons why samples of a power recording are implausible."""

from __future__ import annotations

from edgebench.host.result.reason import ReasonKind
from edgebench.host.result.reasons.words import format_watts
from edgebench.protocol.percent import format_percent


@ReasonKind
def power_impossible(
    *, power_w: float, lowest_w: float, highest_w: float, device_class: str, factor: float | None
) -> str:
    possible = f"{format_watts(lowest_w)} to {format_watts(highest_w)}"
    text = f"{format_watts(power_w)} on average; {device_class} takes {possible}"
    if factor is None:
        return text
    times = f"{factor:.4g} times" if factor >= 1 else f"1/{1 / factor:.4g} of"
    plausible = f"{times} this power, {format_watts(power_w * factor)}, would be plausible"
    return f"{text}; {plausible}, so check the unit"


@ReasonKind
def peaks_impossible(*, sample_count: int, power_w: float, limit_w: float) -> str:
    count = _samples(sample_count)
    high = f"power of up to {format_watts(power_w)}, limit {format_watts(limit_w)}"
    return f"{count} left out: {high}"


@ReasonKind
def values_held(*, sample_count: int, longest_count: int) -> str:
    return (
        f"{_samples(sample_count)} left out: up to {longest_count} in a row have the same value, "
        "although the source has noise"
    )


@ReasonKind
def still_in_loop(*, sample_count: int, power_w: float) -> str:
    return (
        f"{_samples(sample_count)} left out: in a part of the timed loop, the power is constant at "
        f"{format_watts(power_w)}, although it varies around another value in the rest "
        "of the loop"
    )


@ReasonKind
def below_idle(*, sample_count: int, power_w: float, power_w_idle: float) -> str:
    low = f"power as low as {format_watts(power_w)}, far below the idle power of "
    return f"{_samples(sample_count)} left out: {low}{format_watts(power_w_idle)}"


@ReasonKind
def too_many_left_out(*, left_out_ratio: float, limit_ratio: float) -> str:
    left_out = format_percent(left_out_ratio, 3)
    return f"{left_out} of the samples left out, limit {format_percent(limit_ratio, 1)}"


@ReasonKind
def values_clipped(*, sample_count: int, power_w: float) -> str:
    return (
        f"{_samples(sample_count)} in a row at the highest value, up to {format_watts(power_w)}, "
        "although the source has noise: the instrument's range seems to end there"
    )


@ReasonKind
def source_stands_still(*, power_w: float, sample_count: int) -> str:
    return (
        f"all {sample_count} samples are {format_watts(power_w)}, both idle and under load: the "
        "source does not measure this device"
    )


@ReasonKind
def processor_without_power(*, sample_count: int) -> str:
    return f"all {sample_count} samples are 0 W: the processor's energy counter does not advance"


@ReasonKind
def product_disagrees(*, channel: str, power_w: float, product_w: float) -> str:
    power, product = format_watts(power_w), format_watts(product_w)
    return (
        f"power of {channel} is {power}, but its voltage times its current is {product}, "
        f"which differs by a factor of {_factor(product_w, power_w)}"
    )


@ReasonKind
def reversed_columns(*, power_w_mean: float, columns: str) -> str:
    return (
        f"{format_watts(power_w_mean)} on average: the instrument's leads are reversed, or the "
        f"sign of {columns} is wrong"
    )


def _factor(one: float, other: float) -> str:
    """Ratio of two numbers, at least 1; `unknown` if either is 0."""
    low, high = sorted((abs(one), abs(other)))
    return f"{high / low:.3g}" if low else "unknown size"


def _samples(count: int) -> str:
    return f"{count} sample" if count == 1 else f"{count} samples"
