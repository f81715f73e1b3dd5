"""Sizes for people: few digits, and different sizes never look the same."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgebench.protocol.sizes import format_bytes, format_distinct_sizes


@pytest.mark.parametrize(
    ("size_bytes", "shown"),
    [
        (0, "0 B"),
        (1023, "1023 B"),
        (1024, "1.00 KiB"),
        (2**20 - 1, "1.00 MiB"),
        (99.96 * 2**20, "100 MiB"),
        (2**30 - 1, "1.00 GiB"),
        (2**40, "1.00 TiB"),
        (2**52, "4096 TiB"),
        (2**2000, "1073741824 TiB"),
    ],
)
def test_unit_changes_where_the_number_would_have_four_digits(
    size_bytes: float, shown: str
) -> None:
    """Otherwise a disk would have 1024 MiB free, and a model of 1.00 GiB would not fit."""
    assert format_bytes(size_bytes) == shown


@given(st.integers(1024, 2**49))
def test_size_is_right_to_three_digits(size_bytes: int) -> None:
    """Otherwise a unit would be off by one."""
    number, unit = format_bytes(size_bytes).split()
    power = ("B", "KiB", "MiB", "GiB", "TiB").index(unit)
    assert float(number) * 1024**power == pytest.approx(size_bytes, rel=0.0051)
    assert re.fullmatch(r"\d\.\d\d|\d\d\.\d|\d{3,4}", number)


@given(st.integers(0, 2**45), st.integers(0, 2**45), st.integers(-2000, 2000))
def test_different_sizes_look_different(one: int, other: int, near: int) -> None:
    """Otherwise a model of 4.00 GiB would be refused for a quota of 4.00 GiB."""
    for pair in ((one, other), (one, max(0, one + near))):
        shown = format_distinct_sizes(*pair)
        assert (shown[0] == shown[1]) == (pair[0] == pair[1])
