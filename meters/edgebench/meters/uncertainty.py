"""Uncertainty of a meter's values, term by term.

A term is a half-width or a standard uncertainty of one kind of error. How terms combine over a
window, and which of them cancel between two runs, is computed where energy is.

Source: JCGM 100:2008 (GUM), 4.3.7: a rectangular half-width a has u = a / sqrt(3).
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Kind(Enum):
    """Kind of error."""

    GAIN = "gain"
    """Ratio of the reading."""
    OFFSET = "offset"
    """Amperes, volts or watts, whatever the signal."""
    RESOLUTION = "resolution"
    """Step of the converter."""
    NOISE = "noise"
    """Standard deviation of a sample."""
    TIMEBASE = "timebase"
    """Ratio of the meter's clock."""
    VOLTAGE = "voltage"
    """Ratio of the voltage, where that is set, given, or measured apart from the current."""
    EDGE = "edge"
    """Seconds, at each end of a window."""
    MODEL = "model"
    """Ratio, where the value is an estimate and not a measurement."""


class Distribution(Enum):
    """Distribution of a term."""

    RECTANGULAR = "rectangular"
    """Value is the half-width."""
    NORMAL = "normal"
    """Value is `coverage` standard deviations."""


class Origin(Enum):
    """Origin of a term's value."""

    DATASHEET = "datasheet"
    TYPICAL = "typical"
    """Typical value by the maker, not guaranteed."""
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
    """Term of the uncertainty."""

    kind: Kind
    value: float
    unit: Unit
    distribution: Distribution = Distribution.RECTANGULAR
    coverage: float = 1.0
    """Standard deviations in the value, of a normal one."""
    range: int | None = None
    """The range it applies to; None: all."""
    is_common: bool = True
    """Error is equal in every run with this meter, and cancels where two runs are compared."""
    origin: Origin = Origin.ASSUMED
    reference: str = ""
    """Place where the value stands."""

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
"""Kinds whose error is another one in each sample or window: they do not cancel between runs."""


def term(
    kind: Kind,
    value: float,
    reference: str,
    unit: Unit | None = None,
    *,
    of_range: int | None = None,
    origin: Origin = Origin.ASSUMED,
) -> UncertaintyTerm:
    """Rectangular term with the unit of its kind; common to all runs unless it is new each time.

    Args:
        kind: Kind of error.
        value: Half-width, in the term's unit.
        reference: Where the value stands.
        unit: Unit of a kind that has none of its own: offset, resolution, noise.
        of_range: The range it applies to; None: all.
        origin: Origin of a term's value.
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
    """Upper end of a range; beyond that of the highest, values are not to be believed."""

    limit_a: float
    range: int | None = None
    """The range it ends, by the number that terms and samples have; None: all that is measured."""
    channel: str | None = None
    """The channel it holds for; None: all."""
    origin: Origin = Origin.ASSUMED
    reference: str = ""
    """Place where the value stands."""
