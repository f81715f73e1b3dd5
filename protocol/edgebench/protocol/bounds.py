"""Limits on the values of numeric fields; the unit in a field's name selects the limits.

Theory of operation. Every number of a record is a field whose name ends in the unit of the number.
The unit determines the valid range, so a single table covers the fields of all record types,
including fields that later versions add. A number outside its range cannot be a measurement, but
results from a broken counter or a forged file. In a computation, such a number would overflow 64
bits or become infinite.

The bounds follow from the representation, for example from the range of a clock, or from the range
in which a double represents whole numbers exactly. The bounds do not show whether a result is
plausible; the rules of the verdict decide this.
"""

from __future__ import annotations

from dataclasses import dataclass

MAX_TIME_NS = 2**62
"""Largest time in nanoseconds (146 years). The difference of two such times fits into 64 bits."""
MAX_DURATION_S = 1e12
"""Largest time in seconds. Even the CPU time of 200 CPUs over 146 years is shorter."""
MAX_COUNT = 2**53
"""Largest count. A double represents every whole number up to this limit exactly. Source: RFC 8259,
section 6, https://www.rfc-editor.org/rfc/rfc8259#section-6."""
MAX_WHOLE = 2**63 - 1
"""Largest magnitude of a whole number without a narrower limit: the maximum of a signed 64-bit
integer."""
MAX_VALUE = 1e18
"""Largest magnitude of a number without a narrower limit. No real value reaches it; for example, a
CPU at 5 GHz has 1.6e17 cycles in a year."""
MAX_SHOWN_BITS = 64
"""Size in bits of the largest whole number that an error text quotes in full."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """Lowest and highest valid value of a number, both inclusive; NaN is always out of bounds."""

    low: float
    high: float

    def check(self, name: str, value: int | float) -> None:
        """Check a number against the bounds.

        Args:
            name: Name of the field; the error text begins with this name.
            value: The number.

        Raises:
            ValueError: the number is beyond the bounds, or NaN.
        """
        if not self.low <= value <= self.high:
            # A whole number may have thousands of digits, too many for an error text.
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
"""Names of the time fields that may be negative, because the zero of their clock, such as a
meter's clock, is arbitrary."""


def bounds_of(name: str, *, is_whole: bool) -> Bounds:
    """Return the bounds of the numbers in a field.

    Args:
        name: Name of the field, which ends in the unit.
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
