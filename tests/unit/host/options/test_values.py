"""Durations, sizes and other values as users type them."""

from __future__ import annotations

import argparse
import math

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from edgebench.host.options.values import celsius, hertz, numbers, seconds, size_bytes

NUMBERS = st.floats(0, 1e6).map(lambda value: f"{value:.3f}")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("60s", 60.0),
        ("500ms", 0.5),
        ("20m", 1200.0),
        ("1.5h", 5400.0),
        ("3", 3.0),
        (" 2 s ", 2.0),
        ("2min", 120.0),
        ("1m30s", 90.0),
        ("1h 2min", 3720.0),
        ("1s500ms", 1.5),
        ("5sec", 5.0),
    ],
)
def test_durations_are_read_as_people_write_them(text: str, expected: float) -> None:
    """Otherwise twenty minutes would be read as twenty milliseconds."""
    assert seconds(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("100", 100),
        ("2GiB", 2**31),
        ("512M", 2**29),
        ("512MB", 2**29),
        ("1k", 1024),
        ("1.5 KiB", 1536),
        ("1t", 2**40),
        ("7b", 7),
    ],
)
def test_sizes_are_read_as_people_write_them(text: str, expected: int) -> None:
    """Otherwise a limit in gigabytes would be read in bytes."""
    assert size_bytes(text) == expected


@pytest.mark.parametrize(
    "text",
    ["", "s", "-1s", "1d", "1 2s", "1s2", "inf", "nan", "1e3", "1,5s", "30s1m", "1m1m", "1mins"],
)
def test_what_is_no_duration_is_refused_with_examples(text: str) -> None:
    """Otherwise a mistyped duration would become another duration."""
    with pytest.raises(
        argparse.ArgumentTypeError, match=r"not a duration.*write 500ms, 60s or 1m30s"
    ):
        seconds(text)


@pytest.mark.parametrize("text", ["", "M", "-1", "1x", "1MiBB", "1 M B", "0x10", "inf", "1,5G"])
def test_what_is_no_size_is_refused_with_examples(text: str) -> None:
    """Otherwise a mistyped limit would become another limit."""
    with pytest.raises(argparse.ArgumentTypeError, match=r"not a size.*write 512M or 4GiB"):
        size_bytes(text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [("22", 22.0), ("22C", 22.0), ("21.5 °C", 21.5), ("-5c", -5.0), (" 0 ", 0.0)],
)
def test_temperatures_are_read_as_people_write_them(text: str, expected: float) -> None:
    """Otherwise `22C` would be an invalid float value."""
    assert celsius(text) == expected


@pytest.mark.parametrize(("text", "expected"), [("10", 10.0), ("5Hz", 5.0), ("0.5 hz", 0.5)])
def test_rates_are_read_as_people_write_them(text: str, expected: float) -> None:
    """Otherwise `5Hz` would be an invalid float value."""
    assert hertz(text) == expected


@pytest.mark.parametrize("text", ["", "hot", "22F", "nan", "inf", "1e3", "2_2", "٣", "1,5", "--5"])
def test_what_is_no_temperature_or_rate_is_refused_with_an_example(text: str) -> None:
    """Otherwise a mistyped temperature would be another value, or an invalid float value."""
    with pytest.raises(argparse.ArgumentTypeError, match=r"not a temperature in °C.*example: 22"):
        celsius(text)
    with pytest.raises(argparse.ArgumentTypeError, match=r"not a rate in Hz.*example: 10"):
        hertz(text)


@given(text=st.text(max_size=20) | st.from_regex(r"\A\d+(\.\d+)?[a-zA-Z]{0,3}\Z"))
@example("9" * 400)
@example("9" * 400 + "T")
@example("٣s")
def test_any_text_is_a_finite_number_or_a_refusal(text: str) -> None:
    """Otherwise user input could end in a traceback."""
    for read in (seconds, size_bytes, hertz, celsius):
        try:
            value = read(text)
        except argparse.ArgumentTypeError:
            continue
        assert math.isfinite(value)
        assert value >= 0 or read is celsius


@given(number=NUMBERS)
def test_units_are_multiples_of_each_other(number: str) -> None:
    """Otherwise two ways to write the same duration or size would differ."""
    assert seconds(f"{number}m") == pytest.approx(60 * seconds(f"{number}s"))
    assert seconds(f"{number}s") == pytest.approx(1000 * seconds(f"{number}ms"))
    assert size_bytes(f"{number}M") == pytest.approx(1024 * size_bytes(f"{number}k"), abs=1024)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("0", (0,)),
        ("2,3", (2, 3)),
        ("0-3", (0, 1, 2, 3)),
        ("2-2", (2,)),
        (" 1 , 4-5 ", (1, 4, 5)),
        ("3,1,3", (3, 1)),
    ],
)
def test_numbers_are_read_as_people_write_them(text: str, expected: tuple[int, ...]) -> None:
    """Otherwise a range would lose its end, or a number be read twice."""
    assert numbers(text) == expected


@pytest.mark.parametrize("text", ["", ",", "a-b", "1-", "-1", "1.5", "0x3", "1-2-3", "9" * 7])
def test_what_are_no_numbers_is_refused_with_examples(text: str) -> None:
    """Otherwise a mistyped list of CPUs would become another list, or an empty list."""
    with pytest.raises(
        argparse.ArgumentTypeError, match=r"not a list of numbers.*examples: 2,3 or 0-3"
    ):
        numbers(text)


def test_range_that_goes_backwards_is_refused() -> None:
    """Otherwise `--cpus 3-1` would bind to nothing, and the run use all CPUs."""
    with pytest.raises(argparse.ArgumentTypeError, match="not a range: '3-1'; write 0-3"):
        numbers("0,3-1")
