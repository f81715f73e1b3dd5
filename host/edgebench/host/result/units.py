"""Formatting of numbers with units.

An uncertainty has two significant digits. The value that it belongs to is rounded to the same
decimal place. A
number shown without its uncertainty has three significant digits, or fewer if the uncertainty is
wide. A number has at most six digits, because no instrument resolves more, and a relative
uncertainty below 0.01 % is shown as `<0.01 %`.

Source: JCGM 100:2008 (GUM), 7.2.6
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import timedelta

from edgebench.host.result.metrics import Metric, Quantity
from edgebench.host.result.numbers import Number
from edgebench.protocol.percent import format_percent
from edgebench.protocol.sizes import format_bytes

ABSENT = "—"
_TIME_UNITS = ((9, "s"), (6, "ms"), (3, "µs"), (0, "ns"))
"""Exponents of ten with their units of time; 10 to the exponent is the unit in nanoseconds."""
_PREFIXES = ((9, "G"), (6, "M"), (3, "k"), (0, ""), (-3, "m"), (-6, "µ"), (-9, "n"), (-12, "p"))
_LEAST_RATIO = 1e-4
"""Smallest relative uncertainty that is shown as a number; digits below it are meaningless."""
_LEAST = 1e-13
"""Smallest value or uncertainty that is shown as a number, joules or watts; anything smaller is a
rounding error."""
_CLOCK_ENDS_H = 48
"""Longest time, in hours, that is shown as hours, minutes and seconds."""
_UNKNOWN = "(uncertainty unknown)"
_ANY_PLACE = 99
"""Decimal place so far right that nothing is rounded, for a value without an uncertainty."""


def format_metric(metric: Metric, value: float | None, half_width: float = 0.0) -> str:
    """A number in the unit of its metric.

    >>> from edgebench.host.result.metrics import METRICS
    >>> format_metric(METRICS["latency_ns.p50"], 1_234_567)
    '1.23 ms'
    >>> format_metric(METRICS["throughput_per_s"], 18_437.9)
    '18,438/s'
    """
    if value is None:
        return ABSENT
    if metric.quantity is Quantity.DURATION_NS:
        return format_ns(value, half_width)
    if metric.quantity is Quantity.DURATION_S:
        return format_duration(value)
    if metric.quantity is Quantity.SIZE_BYTES:
        return format_bytes(value)
    if metric.quantity is Quantity.ENERGY_J:
        return format_joules(value, half_width)
    if metric.quantity is Quantity.POWER_W:
        return format_watts(value)
    if metric.quantity is Quantity.INSTRUCTIONS:
        return format_instructions(value)
    if metric.quantity is Quantity.RATE:
        return f"{format_rate(value, half_width)}/s"
    return f"{value:.5g}"


def format_number(number: Number) -> str:
    """A number with its uncertainty: absolute for an energy, relative for other metrics."""
    metric, value, interval = number.metric, number.value, number.interval
    half_width = half_width_of(interval, value)
    if metric.quantity is Quantity.ENERGY_J:
        return format_joules_within(value, half_width if interval else None)
    shown = format_metric(metric, value, half_width)
    if metric.is_exact:
        return shown
    return f"{shown} {format_half_width(value, interval) if interval else '(no interval)'}"


def format_ns(value_ns: float | None, half_width_ns: float = 0.0) -> str:
    """A duration with three significant digits, or fewer digits if the half-width is wide.

    >>> format_ns(1_234_567), format_ns(87), format_ns(None), format_ns(1_234_567, 540_000)
    ('1.23 ms', '87 ns', '—', '1.23 ms')
    >>> format_ns(1_234_567, 2_000_000), format_ns(987, 345)
    ('1.2 ms', '990 ns')
    """
    if value_ns is None:
        return ABSENT
    most = min(0, _three(value_ns))
    return _shown(value_ns, _place_of(value_ns, half_width_ns, most), _TIME_UNITS)


def format_instructions(count: float | None) -> str:
    """A count of instructions with all digits, because it is exact.

    >>> format_instructions(12_700_431.4), format_instructions(None)
    ('12,700,431', '—')
    """
    return ABSENT if count is None else f"{count:,.0f}"


def format_size(size_bytes: float | None) -> str:
    """A size, three significant digits.

    >>> format_size(5 * 2**20), format_size(None)
    ('5.00 MiB', '—')
    """
    return ABSENT if size_bytes is None else format_bytes(size_bytes)


def format_watts(value_w: float | None) -> str:
    """A power, three significant digits.

    >>> format_watts(0.0284), format_watts(12.3456), format_watts(-1e-12)
    ('28.4 mW', '12.3 W', '-1.00 pW')
    """
    return ABSENT if value_w is None else _prefixed(value_w, "W")


def format_amperes(value_a: float) -> str:
    """A current, three significant digits.

    >>> format_amperes(50e-6), format_amperes(1.0)
    ('50.0 µA', '1.00 A')
    """
    return _prefixed(value_a, "A")


def format_joules(value_j: float | None, half_width_j: float = 0.0) -> str:
    """An energy with three significant digits, or fewer digits if the half-width is wide.

    >>> format_joules(0.00132), format_joules(0.0), format_joules(15000.0)
    ('1.32 mJ', '0 J', '15.0 kJ')
    >>> format_joules(0.00987, 0.0012)
    '9.9 mJ'
    """
    return ABSENT if value_j is None else _prefixed(value_j, "J", half_width_j)


def format_uncertainty_joules(half_width_j: float) -> str:
    """An uncertainty on its own, two significant digits.

    >>> format_uncertainty_joules(6.27e-8), format_uncertainty_joules(1e-20)
    ('±63 nJ', '±<0.1 pJ')
    """
    if 0 < half_width_j < _LEAST:
        return "±<0.1 pJ"
    return f"±{format_joules(half_width_j, half_width_j)}"


def format_joules_within(value_j: float, half_width_j: float | None) -> str:
    """An energy with its expanded uncertainty, in percent up to 100 %, above that in joules.

    >>> format_joules_within(0.00132, 0.00015), format_joules_within(2.0, 0.002)
    ('1.32 mJ ±11 %', '2.0000 J ±0.10 %')
    >>> format_joules_within(-2e-9, 5e-8), format_joules_within(-1e-20, 5e-8)
    ('-2 ±50 nJ', '0 ±50 nJ')
    >>> format_joules_within(1.23456789012, 1e-10), format_joules_within(1.23456, None)
    ('1.23457 J ±<0.01 %', '1.23 J (uncertainty unknown)')
    """
    return _within(value_j, half_width_j, "J")


def format_watts_within(value_w: float, half_width_w: float | None) -> str:
    """A power with its expanded uncertainty.

    >>> format_watts_within(2.0, 0.05)
    '2.000 W ±2.5 %'
    """
    return _within(value_w, half_width_w, "W")


def _within(value: float, half_width: float | None, unit: str) -> str:
    if not half_width or not math.isfinite(half_width):
        return f"{_prefixed(value, unit)} {_UNKNOWN}"
    if abs(value) < max(half_width, _LEAST):
        place = _place(max(half_width, _LEAST))
        uncertain = round(max(half_width, _LEAST), place)
        power, name = _unit_of(uncertain, _units(unit))
        shown = [_rounded(number / 10.0**power, place + power) for number in (value, uncertain)]
        return f"{shown[0]} {'±<' if half_width < _LEAST else '±'}{shown[1]} {name}"
    place = _place(max(half_width, _LEAST_RATIO * abs(value)))
    return f"{_shown(value, place, _units(unit))} {format_ratio(half_width / abs(value))}"


def format_ratio(half_width_ratio: float) -> str:
    """An uncertainty as a ratio, in percent with two significant digits.

    >>> format_ratio(0.1234), format_ratio(0.00031), format_ratio(1e-12), format_ratio(1.5)
    ('±12 %', '±0.031 %', '±<0.01 %', '±150 %')
    """
    return f"±{format_share(half_width_ratio)}"


def format_share(ratio: float) -> str:
    """A positive ratio in percent, with two significant digits.

    >>> format_share(0.1234), format_share(1e-12)
    ('12 %', '<0.01 %')
    """
    if ratio < _LEAST_RATIO * (1 - 1e-9):
        return "<0.01 %"
    percent = 100 * ratio
    return f"{_rounded(percent, _place(percent))} %"


_SHARES_OF_SAMPLES = {"top1"}
"""Metrics of data sets that are fractions of the samples; they are shown in percent."""


def format_plain(value: float, half_width: float = 0.0) -> str:
    """A number without a unit, with at most four decimals. A wide half-width reduces the decimals.

    >>> format_plain(0.975), format_plain(0.97222, 0.018), format_plain(1e-17, 0.1)
    ('0.975', '0.972', '0.00')
    >>> format_plain(1.0728836e-06), format_plain(0.0)
    ('1.1e-06', '0')
    """
    if not half_width and 0 < abs(value) < 5e-5:
        return f"{value:.2g}"
    place = min(4, _place(half_width))
    return f"{round(value, place) + 0.0:g}" if not half_width else _rounded(value, place)


def format_accuracy(metric: str, value: float, half_width: float = 0.0) -> str:
    """An accuracy; a share of the samples is shown in percent, with at least one decimal.

    Args:
        metric: Metric of the data set, such as `top1`.
        value: The accuracy.
        half_width: Half-width of its interval, which determines the number of decimals.

    >>> format_accuracy("top1", 0.99333, 0.0053), format_accuracy("auc", 0.97222, 0.018)
    ('99.3 %', '0.972')
    """
    if metric not in _SHARES_OF_SAMPLES:
        return format_plain(value, half_width)
    places = min(4, max(1, _place(100 * half_width) - 1)) if half_width else 1
    return format_percent(value, places)


def format_change(ratio: float, half_width_ratio: float = 0.0) -> str:
    """A change in percent with two decimals, or fewer decimals if the half-width is wide.

    >>> format_change(0.01234), format_change(-0.1234, 0.34), format_change(-1e-9)
    ('+1.23 %', '-12 %', '+0.00 %')
    >>> format_change(0.002, 0.2)
    '+0.2 %'
    """
    place = _place_of(100 * ratio, 100 * half_width_ratio, 2)
    return f"{round(100 * ratio, place) + 0.0:+.{max(0, place)}f} %"


def format_times(ratio: float, half_width: float = 0.0) -> str:
    """A factor with three significant digits, or fewer digits if the half-width is wide.

    >>> format_times(1.8, 0.02), format_times(12.345), format_times(123.4, 400.0)
    ('1.80×', '12.3×', '120×')
    """
    place = _place_of(ratio, half_width, max(0, _three(ratio)))
    return f"{_rounded(ratio, place)}×"


def _place(half_width: float) -> int:
    """Decimal place of the second significant digit of a half-width; 99 without a half-width.

    A place before the point is negative.

    >>> _place(0.0123), _place(0.0996), _place(4200.0)
    (3, 2, -2)
    """
    if not half_width or not math.isfinite(half_width):
        return _ANY_PLACE
    exponent = int(f"{abs(half_width):.1e}".partition("e")[2])
    return 1 - exponent


def _place_of(value: float, half_width: float, most: int) -> int:
    """Decimal place to which a value with this half-width is rounded, at most `most`.

    A wide half-width does not remove the first digit of the value.

    >>> _place_of(1234.0, 56.0, 2), _place_of(1234.0, 56000.0, 2), _place_of(1.234, 0.0, 2)
    (0, -3, 2)
    """
    return min(most, max(_place(half_width), _place(value) - 1 if value else -_ANY_PLACE))


def _rounded(value: float, place: int) -> str:
    """A value rounded to a decimal place; a negative place is before the point.

    Digits before the point that are rounded away become zeros. Zero has no sign.

    >>> _rounded(1234.5, -2), _rounded(-0.001, 1)
    ('1200', '0.0')
    """
    return f"{round(value, place) + 0.0:.{max(0, place)}f}"


def _prefixed(value: float, unit: str, half_width: float = 0.0) -> str:
    if abs(value) < _LEAST:
        return f"0 {unit}"
    return _shown(value, min(_three(value), _place(half_width)), _units(unit))


def _units(unit: str) -> tuple[tuple[int, str], ...]:
    return tuple((power, f"{prefix}{unit}") for power, prefix in _PREFIXES)


def _three(value: float) -> int:
    """Decimal place of the third significant digit.

    >>> _three(12.34), _three(0.9996), _three(0.0)
    (1, 2, 0)
    """
    return _place(value) + 1 if value else 0


def _shown(value: float, place: int, units: tuple[tuple[int, str], ...]) -> str:
    """A value rounded to a decimal place of the base unit, in the unit that fits the result.

    >>> _shown(0.9996, 3, _units("W")), _shown(0.9996, 4, _units("W"))
    ('1.000 W', '999.6 mW')
    """
    rounded = round(value, place)
    power, name = _unit_of(rounded, units)
    return f"{_rounded(rounded / 10.0**power, place + power)} {name}"


def _unit_of(rounded: float, units: tuple[tuple[int, str], ...]) -> tuple[int, str]:
    return next((unit for unit in units if abs(rounded) >= 10.0 ** unit[0]), units[-1])


def format_duration(value_s: float) -> str:
    """Duration in hours, minutes and seconds; in words if it is unknown or over 10 years.

    >>> format_duration(75), format_duration(1e300), format_duration(float("nan"))
    ('0:01:15', 'over 10 years', 'unknown')
    """
    if math.isnan(value_s):
        return "unknown"
    if abs(value_s) > _LONGEST_S:
        return "over 10 years"
    return str(timedelta(seconds=round(value_s)))


def format_step(value_s: float) -> str:
    """A step of a clock with its sign, three significant digits.

    >>> format_step(-0.25), format_step(1.0), format_step(10_800), format_step(1.767e9)
    ('-250 ms', '+1.00 s', '+3 h', '+56 years')
    """
    sign, size_s = "-" if value_s < 0 else "+", abs(value_s)
    for unit, unit_s in _LONG_UNITS.items():
        if size_s >= unit_s:
            return f"{sign}{size_s / unit_s:.3g} {unit}"
    return f"{sign}{format_ns(size_s * 1e9)}"


_LONG_UNITS = {"years": 365.25 * 86400, "days": 86400, "h": 3600, "min": 60}
_LONGEST_S = 10 * 365 * 86400.0
"""Longest duration shown in digits, seconds. An expected time may come from an untrusted device,
which could send any number."""


def format_lasting(value_s: float, half_width_s: float) -> str:
    """An estimated time to the second, or in hours if its half-width is above a minute.

    >>> format_lasting(33303, 10), format_lasting(33303, 4000), format_lasting(360_000, 100)
    ('9:15:03', '9.3 h', '100 h')
    """
    hours = value_s / 3600
    if hours > _CLOCK_ENDS_H:
        return f"{_rounded(hours, min(0, _place(half_width_s / 3600)))} h"
    if half_width_s > 60:
        return f"{_rounded(hours, min(2, _place(half_width_s / 3600)))} h"
    return format_duration(value_s)


_LOPSIDED = 1.5
"""If one bound of an interval is more than this many times as far from the value as the other
bound, both distances are shown."""


def format_half_width(value_ns: float | None, interval: Sequence[float] | None) -> str:
    """Half-width of an interval in percent of the value, or both sides if they differ much.

    >>> format_half_width(100, [98, 103]), format_half_width(100, [99.97, 100.03])
    ('±2.5 %', '±<0.1 %')
    >>> format_half_width(31.3, [24.0, 31.7]), format_half_width(1, [0.9, 20])
    ('-23/+1 %', '-10/+1900 %')
    """
    if value_ns is None or interval is None or value_ns <= 0:
        return ABSENT
    low, high = interval
    return format_sides(low / value_ns, high / value_ns)


def format_sides(low: float, high: float) -> str:
    """An interval around 1, in percent.

    >>> format_sides(0.98, 1.03), format_sides(0.85, 1.33), format_sides(0.993, 1.013)
    ('±2.5 %', '-15/+33 %', '±1.0 %')
    """
    below, above = 100 * (1 - low), 100 * (high - 1)
    percent = (above + below) / 2
    sides = f"{max(below, 0):.0f}", f"{max(above, 0):.0f}"
    if is_lopsided(1.0, (low, high)) and sides[0] != sides[1]:
        return f"-{sides[0]}/+{sides[1]} %"
    return f"±{_rounded(percent, min(1, _place(percent)))} %" if percent >= 0.05 else "±<0.1 %"


def is_lopsided(value: float, interval: Sequence[float]) -> bool:
    """Whether an interval around a positive value is much wider on one side, and is not tiny.

    >>> is_lopsided(100, [98, 103]), is_lopsided(31.3, [24.0, 31.7])
    (False, True)
    """
    if value <= 0:
        return False
    wider, narrower = sorted((1 - interval[0] / value, interval[1] / value - 1), reverse=True)
    return wider >= 0.01 and wider > _LOPSIDED * narrower


def half_width_of(interval: Sequence[float] | None, value: float | None = None) -> float:
    """Half-width of an interval, or the distance from the value to the nearer bound.

    The result is 0 without an interval. It sets the number of digits that are shown. The interval
    of a tail percentile is wider on one side, so the distance to the nearer bound is used: then the
    rounded value stays within the interval.

    >>> half_width_of([8.0, 12.0]), half_width_of([43.5, 10000.0], 43.9)
    (2.0, 0.3999999999999986)
    """
    if interval is None:
        return 0.0
    low, high = interval
    sides = [] if value is None else [side for side in (value - low, high - value) if side > 0]
    return float(min([abs(high - low) / 2, *sides]))


def format_interval_ns(value_ns: float | None, interval: Sequence[float] | None) -> str:
    """A duration with its interval; a dash without an interval.

    >>> format_interval_ns(1000, [990, 1020]), format_interval_ns(1000, None)
    ('1.000 µs (0.990 µs..1.020 µs)', '—')
    >>> format_interval_ns(7_123_456, [7_000_000, 7_500_000])
    '7.12 ms (7.00 ms..7.50 ms)'
    """
    if value_ns is None or interval is None:
        return ABSENT
    half_width_ns = max(half_width_of(interval, value_ns), _LEAST_RATIO * abs(value_ns))
    place = _place_of(value_ns, half_width_ns, 0)
    power, name = _unit_of(round(value_ns, place), _TIME_UNITS)
    value, low, high = (
        f"{_rounded(bound / 10.0**power, place + power)} {name}" for bound in (value_ns, *interval)
    )
    return f"{value} ({low}..{high})"


def format_rate(per_s: float, half_width_per_s: float = 0.0) -> str:
    """A rate with three or more significant digits, or fewer digits if the half-width is wide.

    >>> format_rate(37591.2), format_rate(12.345), format_rate(37591.2, 4200)
    ('37,591', '12.3', '37,600')
    """
    place = _place_of(per_s, half_width_per_s, max(0, _three(per_s)))
    return f"{round(per_s, place) + 0.0:,.{max(0, place)}f}"
