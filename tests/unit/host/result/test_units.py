"""Numbers for people: nothing is lost between the value and the text."""

from __future__ import annotations

import re
from collections.abc import Callable
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgebench.host.result.units import (
    ABSENT,
    format_change,
    format_duration,
    format_half_width,
    format_interval_ns,
    format_joules,
    format_joules_within,
    format_ns,
    format_plain,
    format_rate,
    format_ratio,
    format_size,
    format_uncertainty_joules,
    format_watts_within,
    half_width_of,
)

TIMES = {"s": 1e9, "ms": 1e6, "µs": 1e3, "ns": 1.0}
PREFIXES = {"G": 9, "M": 6, "k": 3, "": 0, "m": -3, "µ": -6, "n": -9, "p": -12}
MOST_DIGITS = 6
ratios = st.floats(1e-12, 0.99)
SIZES = {"TiB": 2.0**40, "GiB": 2.0**30, "MiB": 2.0**20, "KiB": 2.0**10, "B": 1.0}


@given(st.floats(1, 1e15))
def test_printed_time_is_the_time(value_ns: float) -> None:
    """Otherwise a time would be printed with a wrong unit or too few digits."""
    number, unit = format_ns(value_ns).split()
    assert float(number) * TIMES[unit] == pytest.approx(value_ns, rel=0.005, abs=0.5)
    assert unit == "s" or float(number) <= 1000


@given(st.floats(1, 1e15))
def test_printed_size_is_the_size(value: float) -> None:
    """Otherwise a size would be printed with a wrong unit or too few digits."""
    number, unit = format_size(value).split()
    assert float(number) * SIZES[unit] == pytest.approx(value, rel=0.005, abs=0.5)


def test_absent_is_never_zero() -> None:
    """Otherwise a value that was not measured would be printed as a number."""
    assert format_ns(None) == format_size(None) == ABSENT
    for value, interval in ((None, [1, 2]), (5, None), (0, [0, 0])):
        assert format_half_width(value, interval) == ABSENT
    assert format_ns(0) == "0 ns"


@pytest.mark.parametrize(
    ("value_s", "expected"), [(0, "0:00:00"), (59.6, "0:01:00"), (86_400, "1 day, 0:00:00")]
)
def test_waiting_time_is_rounded(value_s: float, expected: str) -> None:
    """Otherwise a minute would be shown as 59 seconds for ever."""
    assert format_duration(value_s) == expected


def digits_of(number: str) -> int:
    """Number of significant digits of a printed number; zeros before the point may be padding."""
    return len(re.sub(r"\D", "", number).lstrip("0")) or 1


def split(text: str) -> tuple[Decimal, Decimal, Decimal, str]:
    """The printed value, the step of its last digit, the size of its unit, and its uncertainty."""
    found = re.fullmatch(r"(-?[\d.]+) ([GMkmµnp]?)[JW] (±.*)", text)
    assert found, text
    unit = Decimal(10) ** PREFIXES[found[2]]
    value = Decimal(found[1])
    return value * unit, unit.scaleb(int(value.as_tuple().exponent)), unit, found[3]


@pytest.mark.parametrize("form", [format_joules_within, format_watts_within])
@given(value=st.floats(1e-8, 1e6), ratio=ratios, sign=st.sampled_from([1, -1]))
def test_value_ends_where_its_uncertainty_does(
    form: Callable[[float, float], str], value: float, ratio: float, sign: int
) -> None:
    """Otherwise 1.23456789012 ±0.0000000001 would be printed, or 210 ±0.063 for 209.932."""
    half_width = value * ratio
    text = form(sign * value, half_width)
    printed, step, unit, within = split(text)
    uncertain = Decimal(f"{max(half_width, 1e-4 * value):.1e}")
    last = Decimal(10) ** (uncertain.adjusted() - 1)
    assert step == min(last, unit), text
    assert printed % last == 0, text
    assert abs(printed - sign * Decimal(value)) <= last / 2 * Decimal("1.000001"), text
    assert digits_of(text.split()[0]) <= MOST_DIGITS
    # Not of `ratio`: 37.5 % of a value may be slightly less than that, and is rounded down.
    assert within == format_ratio(half_width / value)


@given(st.floats(1e-12, 100))
def test_uncertainty_has_two_digits(ratio: float) -> None:
    """Otherwise a known uncertainty would be printed as ±0.000 %, or as ±12.34 %."""
    text = format_ratio(ratio)
    number = text.removeprefix("±").removeprefix("<").removesuffix(" %")
    assert float(number) > 0
    assert len(number.strip("0.").replace(".", "")) <= 2
    if "<" in text:
        assert 100 * ratio < float(number)
    else:
        assert float(number) == pytest.approx(100 * ratio, rel=0.051)


@given(st.floats(-1, 1), st.floats(1e-30, 1))
def test_value_below_its_uncertainty_ends_where_that_does(share: float, half_width: float) -> None:
    """Otherwise noise around zero would be printed with all digits of a float."""
    text = format_joules_within(share * half_width * 0.999, half_width)
    found = re.fullmatch(r"(-?[\d.]+) ±<?([\d.]+) [mµnp]?J", text)
    assert found, text
    value, uncertain = map(Decimal, found.groups())
    assert value.as_tuple().exponent == uncertain.as_tuple().exponent
    assert digits_of(found[2]) <= 3, "of 100 the last is no digit"
    assert not text.startswith("-0 ")


@given(st.floats(1, 1e12), ratios)
def test_time_ends_where_its_interval_does(value_ns: float, ratio: float) -> None:
    """Otherwise an interval would be 7.17 µs (7.17 µs..7.17 µs), or 987 ns hide a width of 345."""
    half_width = value_ns * ratio
    text = format_interval_ns(value_ns, [value_ns - half_width, value_ns + half_width])
    found = re.fullmatch(r"([\d.]+) (\w+) \((-?[\d.]+) \2\.\.([\d.]+) \2\)", text)
    assert found, text
    value, low, high = (Decimal(found[place]) for place in (1, 3, 4))
    assert value.as_tuple().exponent == low.as_tuple().exponent == high.as_tuple().exponent
    assert digits_of(found[1]) <= MOST_DIGITS
    unit_ns = TIMES[found[2]]
    rounding_ns = max(half_width / 20, value_ns * 1e-4 / 20, 0.5) * 1.001
    assert float(value) * unit_ns == pytest.approx(value_ns, abs=rounding_ns)
    headline, unit = format_ns(value_ns, half_width).split()
    off_ns = max(half_width / 20, value_ns * 0.005, 0.5) * 1.001
    assert float(headline) * TIMES[unit] == pytest.approx(value_ns, abs=off_ns)


@given(st.floats(10, 1e9), st.floats(1e-4, 0.9), st.floats(0.01, 1e4))
def test_tail_whose_interval_is_wide_on_one_side_is_a_number(
    value_ns: float, below: float, above: float
) -> None:
    """Otherwise a p99 of 44 µs, which may be 10 ms, would be printed as 0 ns."""
    interval = [value_ns * (1 - below), value_ns * (1 + above)]
    text = format_interval_ns(value_ns, interval)
    headline, unit = format_ns(value_ns, half_width_of(interval, value_ns)).split()
    for shown, unit_ns in ((text.split()[0], TIMES[text.split()[1]]), (headline, TIMES[unit])):
        assert float(shown) * unit_ns == pytest.approx(value_ns, rel=0.06, abs=0.5)


def test_interval_of_a_tail_holds_it() -> None:
    """Otherwise 0 ns (0 ns..10000000 ns) would be printed."""
    interval = [43_498.0, 10_000_000.0]
    assert format_interval_ns(43_881, interval) == "43.88 µs (43.50 µs..10000.00 µs)"
    assert format_ns(43_881, half_width_of(interval, 43_881)) == "43.9 µs"
    assert format_rate(0.04, 1.0) == "0.04"


@given(st.floats(1e-3, 1e6), st.floats(1e-4, 0.99))
def test_number_beside_an_uncertainty_has_no_more_digits(value: float, ratio: float) -> None:
    """Otherwise a rate would be 37,591 with ±4,200, or a difference to a reference 1.11e-16."""
    half_width = value * ratio
    for shown in (format_rate(value, half_width), format_plain(value, half_width)):
        number = Decimal(shown.replace(",", ""))
        assert abs(number - Decimal(value)) <= Decimal(max(half_width / 20, 0.5))
        last = Decimal(10) ** (Decimal(f"{half_width:.1e}").adjusted() - 1)
        assert number % min(last, Decimal(1)) == 0
        assert last <= 1 or number % last == 0
    change = Decimal(format_change(value / 100, half_width / 100).removesuffix(" %"))
    assert -int(change.as_tuple().exponent) <= 2


def test_uncertainty_that_is_not_known_is_called_that() -> None:
    """Otherwise a file of unknown errors would look exact, or have ±nan %."""
    for half_width in (None, 0.0, float("nan"), float("inf")):
        assert format_joules_within(1.23456, half_width) == "1.23 J (uncertainty unknown)"
    assert format_uncertainty_joules(1e-20) == "±<0.1 pJ"
    assert format_joules(1e-20) == "0 J"
