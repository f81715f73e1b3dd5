"""Terms of the uncertainty of a meter's values.

A term states the size of a kind of error, such as a gain error, as a half-width or as a standard
deviation. The code that computes energy determines how terms combine over a window, and which terms
cancel between two runs.

Source: JCGM 100:2008 (GUM), 4.3.7: a rectangular half-width a has u = a / sqrt(3).
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Kind(Enum):
    """Kind of error."""

    GAIN = "gain"
    """Error as a ratio of the reading."""
    OFFSET = "offset"
    """Error in A, V or W that is independent of the signal."""
    RESOLUTION = "resolution"
    """Step of the values that the meter can distinguish."""
    NOISE = "noise"
    """Random error of each sample."""
    TIMEBASE = "timebase"
    """Relative error of the rate of the meter's clock."""
    VOLTAGE = "voltage"
    """Error as a ratio of the voltage, if the voltage is set, stated, or measured separately."""
    EDGE = "edge"
    """Error, in seconds, of the time at which a window begins or ends."""
    MODEL = "model"
    """Error as a ratio of the value, if the value is an estimate and not a measurement."""


class Distribution(Enum):
    """Probability distribution of a term."""

    RECTANGULAR = "rectangular"
    """The value of the term is the half-width."""
    NORMAL = "normal"
    """The value of the term is `coverage` standard deviations."""


class Origin(Enum):
    """Origin of a term's value."""

    DATASHEET = "datasheet"
    TYPICAL = "typical"
    """Typical value stated by the maker, not guaranteed."""
    ASSUMED = "assumed"


class Unit(Enum):
    """Unit of a term's value."""

    RATIO = "ratio"
    AMPERE = "A"
    VOLT = "V"
    WATT = "W"
    JOULE = "J"
    SECOND = "s"


@dataclass(frozen=True, slots=True, kw_only=True)
class UncertaintyTerm:
    """A term of the uncertainty."""

    kind: Kind
    value: float
    unit: Unit
    distribution: Distribution = Distribution.RECTANGULAR
    coverage: float = 1.0
    """Number of standard deviations in the value of a normal distribution."""
    range: int | None = None
    """Range to which the term applies; None: all ranges."""
    is_common: bool = True
    """Whether the error is equal in all runs with this meter, and so cancels in comparisons."""
    origin: Origin = Origin.ASSUMED
    reference: str = ""
    """Source of the value."""

    @property
    def standard(self) -> float:
        """Standard uncertainty, in the term's unit."""
        if self.distribution is Distribution.RECTANGULAR:
            return self.value / 3**0.5
        return self.value / self.coverage


_UNITS = {
    Kind.GAIN: Unit.RATIO,
    Kind.TIMEBASE: Unit.RATIO,
    Kind.VOLTAGE: Unit.RATIO,
    Kind.EDGE: Unit.SECOND,
    Kind.MODEL: Unit.RATIO,
}
_NEW_EACH_TIME = (Kind.RESOLUTION, Kind.NOISE, Kind.EDGE)
"""Kinds of error that differ in each sample or window, and so do not cancel between runs."""


def term(
    kind: Kind,
    value: float,
    reference: str,
    unit: Unit | None = None,
    *,
    of_range: int | None = None,
    origin: Origin = Origin.ASSUMED,
) -> UncertaintyTerm:
    """Make a term with a rectangular distribution.

    The error is common to all runs, except for the kinds resolution, noise and edge.

    Args:
        kind: Kind of error.
        value: Half-width, in the term's unit.
        reference: Source of the value.
        unit: Unit, for kinds without a fixed unit: offset, resolution, noise.
        of_range: Range to which the term applies; None: all ranges.
        origin: Origin of the term's value.
    """
    return UncertaintyTerm(
        kind=kind,
        value=value,
        unit=unit or _UNITS[kind],
        range=of_range,
        is_common=kind not in _NEW_EACH_TIME,
        origin=origin,
        reference=reference,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class CurrentLimit:
    """Upper limit of a range; values beyond the highest limit are not reliable."""

    limit_a: float
    range: int | None = None
    """Number of the range, as in terms and samples; None: the limit applies to all values."""
    channel: str | None = None
    """Channel to which the limit applies; None: all channels."""
    origin: Origin = Origin.ASSUMED
    reference: str = ""
    """Source of the value."""
