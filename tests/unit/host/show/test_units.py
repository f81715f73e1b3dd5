"""Numbers for people: the examples in the docstrings, and nothing lost in between."""

from __future__ import annotations

import doctest
from types import ModuleType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgebench.host.cli import options
from edgebench.host.show import units
from edgebench.host.show.units import (
    ABSENT,
    format_bytes,
    format_duration,
    format_half_width,
    format_ns,
)

TIMES = {"s": 1e9, "ms": 1e6, "µs": 1e3, "ns": 1.0}
SIZES = {"GiB": 2.0**30, "MiB": 2.0**20, "KiB": 2.0**10, "B": 1.0}


@pytest.mark.parametrize("module", [units, options], ids=lambda module: module.__name__)
def test_examples_in_the_docstrings_run(module: ModuleType) -> None:
    """The documentation shows what the code does not do."""
    result = doctest.testmod(module)
    assert result.attempted > 0
    assert result.failed == 0


@given(st.floats(1, 1e15))
def test_printed_time_is_the_time(value_ns: float) -> None:
    """A time is printed with a wrong unit or too few digits."""
    number, unit = format_ns(value_ns).split()
    assert float(number) * TIMES[unit] == pytest.approx(value_ns, rel=0.005, abs=0.5)
    assert unit == "s" or float(number) <= 1000


@given(st.floats(1, 1e15))
def test_printed_size_is_the_size(value: float) -> None:
    """A size is printed with a wrong unit or too few digits."""
    number, unit = format_bytes(value).split()
    assert float(number) * SIZES[unit] == pytest.approx(value, rel=0.005, abs=0.5)


def test_absent_is_never_zero() -> None:
    """What was not measured is printed as a number."""
    assert format_ns(None) == format_bytes(None) == ABSENT
    for value, interval in ((None, [1, 2]), (5, None), (0, [0, 0]), (5, "12")):
        assert format_half_width(value, interval) == ABSENT
    assert format_ns(0) == "0 ns"


@pytest.mark.parametrize(
    ("value_s", "expected"), [(0, "0:00:00"), (59.6, "0:01:00"), (86_400, "1 day, 0:00:00")]
)
def test_waiting_time_is_rounded(value_s: float, expected: str) -> None:
    """A minute is shown as 59 seconds for ever."""
    assert format_duration(value_s) == expected
