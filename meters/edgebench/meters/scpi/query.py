"""Any SCPI instrument, by a query that the user provides: `query=MEAS:POW?`.

    open     *IDN? · the query, once: its response must match the option `answer`
    session  the query for each value; nothing is configured, so the instrument measures as a person
             has configured it

    answer   power             W
             current           A, at the voltage that the user states
             voltage+current   V and A, or in reverse order; a query may request both, such as
                               MEAS:VOLT?;:MEAS:CURR?, with the response "5.01;0.123"

By default, a value counts as an instant, and values are queried at random times. If the user states
the averaging time, a value is queried once per averaging time. Whether these queries are in step
with the instrument's own updates is unknown, so a value may stem from the previous update.

Source: IEEE 488.2-1992, 8.4.1 and 8.5.2: responses to several queries are separated by semicolons,
values of a response by commas.
"""

from __future__ import annotations

import math

from edgebench.meters.base import Capability, Channel, Flag, Floats, Header, MeterInfo
from edgebench.meters.polled import HOST_CLOCK, Point, PolledDecoder, Reading
from edgebench.meters.scpi.instrument import PolledInstrument
from edgebench.meters.scpi.link import ScpiLink
from edgebench.meters.scpi.responses import flags_of, numbers_of
from edgebench.meters.scpi.setup import (
    RESPONSE_QUANTITIES,
    ResponseKind,
    ScpiSettings,
    ScpiSetup,
    refuse_others,
)
from edgebench.meters.uncertainty import Kind, Origin, UncertaintyTerm, Unit, term
from edgebench.protocol.errors import TargetError, UsageError
from edgebench.protocol.plain import from_plain, to_plain

_RATE_HZ = 10.0
_MIN_WINDOW_VALUES = 20
_GAIN_RATIO, _OFFSET_A, _OFFSET_W = 5e-3, 5e-3, 25e-3
"""Assumed errors. Makers of bench supplies state readback errors of 0.2 % and some mA in a range of
3 A, and two to three times as much is assumed. The offset of power is the offset of current times 5
V."""
_ASSUMED = "assumed for any instrument: add the value of your data sheet, as in"
_STATED = "as stated by the user"


class QueryInstrument(PolledInstrument):
    """An instrument of an unknown family, with the user's query."""

    def __init__(self, link: ScpiLink, setup: ScpiSetup, info: MeterInfo) -> None:
        super().__init__(link, setup, info)
        self.poll_command = setup.query or ""

    def describe(self) -> Header:
        """Send the query once; return the header if the response matches the option `answer`."""
        refuse_others(
            *(self._setup, self._info),
            *("query", "answer", "rate", "mean", "supply", "gain", "offset"),
        )
        self._refuse_response(self._link.query_text(self.poll_command))
        return self._header_of(self._wanted_hz)

    def _set_up(self) -> Header:
        """Measure the response time; nothing is configured."""
        return self._header_of(self._possible_hz(self._wanted_hz))

    @property
    def _wanted_hz(self) -> float:
        return self._setup.rate_hz or (1 / self._setup.mean_s if self._setup.mean_s else _RATE_HZ)

    @property
    def _quantities(self) -> tuple[str, ...]:
        usual = "current" if self._setup.supply_v is not None else "power"
        return RESPONSE_QUANTITIES[self._setup.quantities or usual]

    def _refuse_response(self, response: str) -> None:
        """Reject contradictory options, and a response without the expected numbers.

        Raises:
            UsageError: the options do not fit together.
            TargetError: the response does not have the expected numbers.
        """
        is_current = self._quantities == ("current",)
        if is_current and self._setup.supply_v is None:
            raise UsageError(
                "a current requires the supply voltage of the device, as in supply=3.3"
            )
        if not is_current and self._setup.supply_v is not None:
            raise UsageError(f"supply requires answer=current, got answer={self._setup.quantities}")
        values = values_of(response.encode())
        words = response.strip()[:40]
        if len(values) != len(self._quantities):
            raise TargetError(
                f"the reply of {self._link.name} to `{self.poll_command}` is not "
                f"{' and '.join(self._quantities)}: {words!r}; add what the reply is, as in "
                "answer=voltage+current"
            )
        if any(math.isnan(value) for value in values) and "NAN" not in response.upper():
            raise TargetError(
                f"the reply of {self._link.name} to `{self.poll_command}` is not a number: "
                f"{words!r}"
            )

    def _header_of(self, rate_hz: float) -> Header:
        mean_s = self._setup.mean_s
        # Only contiguous means without overlap add up to the energy.
        is_averaging = mean_s is not None and math.isclose(mean_s * rate_hz, 1.0, rel_tol=0.01)
        return Header(
            driver="scpi",
            info=self._info,
            capability=Capability(
                driver="scpi",
                channels=(Channel("query", "supply of the device, as wired"),),
                rate_hz=rate_hz,
                is_averaging=is_averaging,
                smoothing_s=mean_s,
                clock_domain=HOST_CLOCK,
                loss_detection="wallclock",
                min_window_s=_MIN_WINDOW_VALUES * max(1 / rate_hz, mean_s or 0.0),
            ),
            uncertainty=self._uncertainty(rate_hz),
            facts=to_plain(
                ScpiSettings(
                    kind=ResponseKind.QUERY,
                    supply_v=self._setup.supply_v,
                    quantities=self._quantities,
                )
            )
            | {"query": self.poll_command},
        )

    def _uncertainty(self, rate_hz: float) -> tuple[UncertaintyTerm, ...]:
        setup = self._setup
        is_power = self._quantities == ("power",)
        unit = Unit.WATT if is_power else Unit.AMPERE
        offset = _OFFSET_W if is_power else _OFFSET_A
        delay_s = max(1 / rate_hz, setup.mean_s or 0.0)
        terms = [
            term(Kind.GAIN, setup.gain_ratio, _STATED, origin=Origin.DATASHEET)
            if setup.gain_ratio is not None
            else term(Kind.GAIN, _GAIN_RATIO, f"{_ASSUMED} gain=0.1%"),
            term(Kind.OFFSET, setup.offset, _STATED, unit, origin=Origin.DATASHEET)
            if setup.offset is not None
            else term(Kind.OFFSET, offset, f"{_ASSUMED} offset=0.001", unit),
            term(Kind.EDGE, delay_s, "assumed: the age of the values is unspecified"),
        ]
        if setup.supply_v is not None:
            stated = "assumed: the supply voltage is stated, not measured"
            terms.append(term(Kind.VOLTAGE, 0.01, stated))
        return tuple(terms)


class QueryDecoder(PolledDecoder):
    """Makes a point from each response; the point is missing if a value is unusable."""

    def __init__(self, header: Header) -> None:
        super().__init__(header)
        settings = from_plain(header.facts, ScpiSettings)
        self._supply_v = settings.supply_v
        self._quantities = settings.quantities
        if not self._quantities:
            raise ValueError("a query without a quantity")
        self._interval_ns = round(1e9 / header.capability.rate_hz)
        self._last_ns: int | None = None

    def points(self, readings: list[Reading]) -> list[Point]:
        """Return the point of a polling round, which has a single response."""
        [(time_ns, response)] = readings
        begin_ns = self._begin_ns(time_ns) if self._capability.is_averaging else None
        values = values_of(response or b"")
        if len(values) != len(self._quantities):
            return [Point.missing(time_ns, begin_ns=begin_ns)]
        flags = Flag.NONE
        for flag in flags_of(values):
            flags |= Flag(int(flag))
        if flags:
            return [Point(time_ns, math.nan, flags=flags | Flag.MISSING, begin_ns=begin_ns)]
        by_quantity = dict(zip(self._quantities, map(float, values), strict=True))
        voltage_v = by_quantity.get("voltage", self._supply_v or math.nan)
        current_a = by_quantity.get("current", math.nan)
        return [
            Point(
                time_ns,
                by_quantity.get("power", voltage_v * current_a),
                begin_ns=begin_ns,
                current_a=current_a,
                voltage_v=by_quantity.get("voltage", math.nan),
            )
        ]

    def _begin_ns(self, time_ns: int) -> int:
        """Start of a mean. A mean starts at the previous response, unless rounds were missed."""
        begin_ns = max(time_ns - self._interval_ns, self._last_ns or 0)
        # A slightly late reading covers the whole time since the last reading.
        if self._last_ns is not None and time_ns - self._last_ns < 1.5 * self._interval_ns:
            begin_ns = self._last_ns
        self._last_ns = time_ns
        return begin_ns


def values_of(response: bytes) -> Floats:
    """Values of a response, from a single or several queries. Shape (n,).

    >>> values_of(b"5.01;0.123").tolist(), values_of(b"5.01, 0.123").tolist()
    ([5.01, 0.123], [5.01, 0.123])
    """
    return numbers_of(response.replace(b";", b","))
