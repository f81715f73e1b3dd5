"""Plain values become dataclasses: numbers are checked against the bounds of their unit."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import pytest

from edgebench.protocol.errors import RemoteProtocolError
from edgebench.protocol.plain import from_outside, from_plain, to_plain


@dataclass(frozen=True, slots=True)
class Inner:
    """Numbers in a record inside another record."""

    wait_s: float


@dataclass(frozen=True, slots=True)
class Reading:
    """A field of every kind that has bounds."""

    own_cpu_s: float = 0.0
    time_ns: int = 0
    load_ns: int = 0
    offset_ns: float = 0.0
    query_count: int = 0
    size_bytes: int | None = None
    temp_c: float = 0.0
    throughput_per_s: float = 0.0
    code: int = 0
    edges_ns: tuple[int, ...] = ()
    spans_s: tuple[tuple[float, float], ...] = ()
    constants: dict[str, float] = field(default_factory=dict[str, float])
    threads: tuple[Inner, ...] = ()


HONEST = Reading(
    own_cpu_s=12.5,
    time_ns=-(2**62),
    load_ns=2**62,
    offset_ns=-1.5e18,
    query_count=2**53,
    size_bytes=0,
    temp_c=-40.5,
    throughput_per_s=0.0,
    code=-(2**63) + 1,
    edges_ns=(0, 1),
    spans_s=((0.0, 1.0),),
    constants={"cpu.freq_hz": 2.4e9, "trip.temp_c": -274.0},
    threads=(Inner(0.0),),
)


def test_numbers_within_the_bounds_are_taken() -> None:
    """Otherwise an honest record of a cold board, or of a clock that is ahead, would be refused."""
    assert from_plain(to_plain(HONEST), Reading) == HONEST
    assert from_outside(to_plain(HONEST), Reading) == HONEST


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("own_cpu_s", 1e308),
        ("own_cpu_s", -0.001),
        ("own_cpu_s", math.nan),
        ("own_cpu_s", math.inf),
        ("own_cpu_s", 10**400),
        ("own_cpu_s", True),
        ("time_ns", 2**62 + 1),
        ("load_ns", -1),
        ("load_ns", False),
        ("offset_ns", -1e19),
        ("query_count", 2**53 + 1),
        ("query_count", -1),
        ("size_bytes", 10**400),
        ("temp_c", 1e19),
        ("throughput_per_s", math.inf),
        ("code", 2**63),
        ("edges_ns", [0, -1]),
        ("spans_s", [[0.0, math.nan]]),
        ("constants", {"cpu.freq_hz": -1.0}),
        ("constants", {"trip.temp_c": 1e300}),
        ("threads", [{"wait_s": 1e308}]),
    ],
)
def test_number_that_no_instrument_shows_is_refused(name: str, value: object) -> None:
    """Otherwise a sum would overflow later, in a place that has no name for it."""
    with pytest.raises(RemoteProtocolError, match=r"^not a valid Reading: "):
        from_plain(to_plain(HONEST) | {name: value}, Reading)
    with pytest.raises(RemoteProtocolError, match=r"^not a valid Reading: "):
        from_outside(to_plain(HONEST) | {name: value}, Reading)


def test_refusal_names_the_field_the_value_and_the_limits() -> None:
    """The owner of a broken counter gets this line."""
    with pytest.raises(RemoteProtocolError, match=r"wait_s is 1e\+308, must be 0 to 1e\+12$"):
        from_plain({"threads": [{"wait_s": 1e308}]}, Reading)
    with pytest.raises(RemoteProtocolError, match=r"code is a number of 3322 bits, must be"):
        from_plain({"code": 10**1000}, Reading)
