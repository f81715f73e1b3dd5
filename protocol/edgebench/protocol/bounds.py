"""Bounds of numbers by the unit in a field's name.

Theory of operation. Every number of a record is a field whose name ends in its unit. The unit
determines the range of the number, so a single table bounds the fields of all types, including
those of later versions. A number beyond its bounds was not measured: a counter is broken, or the
file was forged. In a computation it would overflow 64 bits, or become infinite.

The bounds are those of the instrument, not of a plausible result: the range of a clock, the whole
numbers of a double. The rules of the verdict decide whether a number is plausible.
"""

from __future__ import annotations

from dataclasses import dataclass

MAX_TIME_NS = 2**62
"""Limit on a time, 146 years: the difference of two times fits into 64 bits."""
MAX_DURATION_S = 1e12
"""Limit on a time in seconds; the CPU time of 200 CPUs over those 146 years is less."""
MAX_COUNT = 2**53
"""Limit on a count: the whole numbers that a double represents exactly. Source: RFC 8259,
section 6, https://www.rfc-editor.org/rfc/rfc8259#section-6."""
MAX_WHOLE = 2**63 - 1
"""Limit on any other whole number: 64 bits with a sign."""
MAX_VALUE = 1e18
"""Limit on any other number; no sensor reaches it: a year at 5 GHz has 1.6e17 cycles."""
MAX_SHOWN_BITS = 64
"""Longest whole number that an error quotes."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """Lowest and highest value of a number; NaN is outside of all bounds."""

    low: float
    high: float

    def check(self, name: str, value: int | float) -> None:
        """Check a number against the bounds.

        Args:
            name: Field of the number, with which the error begins.
            value: The number.

        Raises:
            ValueError: the number is beyond the bounds, or NaN.
        """
        if not self.low <= value <= self.high:
            # A whole number may have thousands of digits.
            if not isinstance(value, int):
                shown = f"{value:.17g}"
            elif value.bit_length() > MAX_SHOWN_BITS:
                shown = f"a number of {value.bit_length()} bits"
            else:
                shown = str(value)
            raise ValueError(f"{name} is {shown}, must be {self.low:g} to {self.high:g}")


_WHOLE = Bounds(-MAX_WHOLE, MAX_WHOLE)
_VALUE = Bounds(-MAX_VALUE, MAX_VALUE)
_SIGNED_NS = Bounds(-MAX_TIME_NS, MAX_TIME_NS)
_COUNT = Bounds(0, MAX_COUNT)
_BY_SUFFIX = (
    ("_count", _COUNT),
    ("_bytes", _COUNT),
    ("_ns", Bounds(0, MAX_TIME_NS)),
    ("_s", Bounds(0, MAX_DURATION_S)),
    ("_hz", Bounds(0, MAX_VALUE)),
    ("resolution_ratio", Bounds(0, MAX_VALUE)),
)
_SIGNED_TIMES = frozenset(
    (
        *("begin_ns", "end_ns", "first_ns", "last_ns", "time_ns", "rows_ns", "reference_ns"),
        *("first_rx_ns", "last_rx_ns", "came_ns"),
    )
)
"""Times of clocks that may begin anywhere, such as those of meters."""


def bounds_of(name: str, *, is_whole: bool) -> Bounds:
    """Bounds of a field's numbers.

    Args:
        name: Name of the field, with its unit.
        is_whole: Whether the field holds whole numbers.

    >>> bounds_of("own_cpu_s", is_whole=False)
    Bounds(low=0, high=1000000000000.0)
    """
    if name in _SIGNED_TIMES or name.endswith("offset_ns"):
        return _SIGNED_NS
    # A rate per second is not a time: `throughput_per_s`.
    if not name.endswith("_per_s"):
        for suffix, bounds in _BY_SUFFIX:
            if name.endswith(suffix) or name == suffix[1:]:
                return bounds
    return _WHOLE if is_whole else _VALUE
