"""Numbers with units that a person reads at a glance."""

from __future__ import annotations

from datetime import timedelta

ABSENT = "—"
_TIME_UNITS = ((1e9, "s"), (1e6, "ms"), (1e3, "µs"))
_PREFIXES = ((1e3, "k"), (1.0, ""), (1e-3, "m"), (1e-6, "µ"), (1e-9, "n"))
_ROUNDING = 5e-4
"""Of a value that is shown with three digits."""
_SIZE_UNITS = ((2**30, "GiB"), (2**20, "MiB"), (2**10, "KiB"))


def format_ns(value_ns: float | None) -> str:
    """A duration, three significant digits.

    >>> format_ns(1_234_567), format_ns(87), format_ns(None)
    ('1.23 ms', '87 ns', '—')
    """
    if value_ns is None:
        return ABSENT
    for size, unit in _TIME_UNITS:
        if value_ns >= size:
            return f"{_three_digits(value_ns / size)} {unit}"
    return f"{value_ns:.0f} ns"


def format_bytes(value: float | None) -> str:
    """A size, three significant digits.

    >>> format_bytes(5 * 2**20), format_bytes(100)
    ('5.00 MiB', '100 B')
    """
    if value is None:
        return ABSENT
    for size, unit in _SIZE_UNITS:
        if value >= size:
            return f"{_three_digits(value / size)} {unit}"
    return f"{value:.0f} B"


def format_watts(value_w: float | None) -> str:
    """A power, three significant digits.

    >>> format_watts(0.0284), format_watts(12.3456), format_watts(-1e-12)
    ('28.4 mW', '12.3 W', '-0.001 nW')
    """
    return ABSENT if value_w is None else _prefixed(value_w, "W")


def format_amperes(value_a: float) -> str:
    """A current, three significant digits.

    >>> format_amperes(50e-6), format_amperes(1.0)
    ('50.0 µA', '1.00 A')
    """
    return _prefixed(value_a, "A")


def format_joules(value_j: float | None) -> str:
    """An energy, three significant digits.

    >>> format_joules(0.00132), format_joules(0.0), format_joules(15000.0)
    ('1.32 mJ', '0 J', '15.0 kJ')
    """
    return ABSENT if value_j is None else _prefixed(value_j, "J")


def format_joules_within(value_j: float, half_width_j: float) -> str:
    """An energy with its expanded uncertainty in percent, or in joules where that is more than it.

    >>> format_joules_within(0.00132, 0.00015), format_joules_within(2.0, 0.0002)
    ('1.32 mJ ±11 %', '2.00 J ±0.010 %')
    >>> format_joules_within(-2e-9, 5e-8), format_joules_within(-1e-20, 5e-8)
    ('-2.00 ±50.0 nJ', '0.00 ±50.0 nJ')
    """
    return _within(value_j, half_width_j, "J")


def format_watts_within(value_w: float, half_width_w: float) -> str:
    """A power with its expanded uncertainty.

    >>> format_watts_within(2.0, 0.05)
    '2.00 W ±2.5 %'
    """
    return _within(value_w, half_width_w, "W")


def _within(value: float, half_width: float, unit: str) -> str:
    if abs(value) < half_width:
        size, prefix = _prefix_of(half_width)
        scaled = round(value / size, 2) + 0.0  # no -0.00
        return f"{scaled:.2f} ±{_three_digits(half_width / size)} {prefix}{unit}"
    ratio = abs(half_width / value) if value else 0.0
    digits = 0 if ratio >= 0.1 else 1 if ratio >= 0.01 else 2 if ratio >= 0.001 else 3
    return f"{_prefixed(value, unit)} ±{100 * ratio:.{digits}f} %"


def _prefixed(value: float, unit: str) -> str:
    if value == 0:
        return f"0 {unit}"
    size, prefix = _prefix_of(abs(value))
    if abs(value) < size:
        return f"{value / size:.3g} {prefix}{unit}"
    return f"{_three_digits(value / size)} {prefix}{unit}"


def _prefix_of(value: float) -> tuple[float, str]:
    """The prefix under which three digits of a value are shown; 999.6 mW are 1.00 W."""
    return next((one for one in _PREFIXES if value >= one[0] * (1 - _ROUNDING)), _PREFIXES[-1])


def format_duration(value_s: float) -> str:
    """A waiting time.

    >>> format_duration(75)
    '0:01:15'
    """
    return str(timedelta(seconds=round(value_s)))


def format_half_width(value_ns: float | None, interval: object) -> str:
    """Half the width of an interval in percent of the value.

    >>> format_half_width(100, [98, 104])
    '±3.0 %'
    """
    if value_ns is None or not isinstance(interval, (list, tuple)) or value_ns <= 0:
        return ABSENT
    low, high = interval
    percent = 50 * (high - low) / value_ns
    return f"±{percent:.1f} %" if percent >= 0.05 else "±<0.1 %"


def format_interval_ns(value_ns: float | None, interval: object) -> str:
    """A duration with its interval; none without one.

    >>> format_interval_ns(1000, [990, 1020]), format_interval_ns(1000, None)
    ('1.00 µs (990 ns..1.02 µs)', '—')
    """
    if value_ns is None or not isinstance(interval, (list, tuple)):
        return ABSENT
    low, high = interval
    return f"{format_ns(value_ns)} ({format_ns(low)}..{format_ns(high)})"


def format_rate(per_s: float) -> str:
    """A rate, three significant digits or all before the point.

    >>> format_rate(37591.2), format_rate(12.345)
    ('37,591', '12.3')
    """
    return f"{per_s:,.0f}" if per_s >= 100 else _three_digits(per_s)


def _three_digits(value: float) -> str:
    size = abs(value)
    decimals = 2 if size < 9.995 else 1 if size < 99.95 else 0
    return f"{value:.{decimals}f}"
