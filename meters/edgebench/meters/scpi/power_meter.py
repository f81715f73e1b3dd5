"""Yokogawa power meters: voltage, current and power of an element, as displayed.

    WT310 … WT333E                            ranges of all elements at once: :INPUT:VOLTAGE:RANGE?
    WT500, WT1801 … WT1806E, WT3000, WT5000   ranges by element: :INPUT:VOLTAGE:RANGE:ELEMENT1?

The instrument computes new values at its update rate; each value is the mean over the time since
the last update. The instrument is polled once per update, so the time of a value is known to within
one update.

    open     :RATE? · :INPUT:…:RANGE?, as configured by a person; responses may start with a header
    session  header off · :NUMERIC:… · :RATE, if requested · both queries again · VALUE? repeatedly

Source: Yokogawa IM WT310-17EN, Communication Interface: `:NUMERIC:NORMAL`, `:RATE`, `:INPUT`;
NAN if there is no data, INF beyond the range. IM WT1801-17EN and IM WT5000-17EN: the same commands
except for the ranges; `*IDN?` returns the model with its options, as in WT1806E-5A3-50A3.
"""

from __future__ import annotations

import math

import numpy as np

from edgebench.meters.base import Capability, Channel, Flag, Header
from edgebench.meters.polled import HOST_CLOCK, Point, PolledDecoder, Reading
from edgebench.meters.scpi.instrument import PolledInstrument
from edgebench.meters.scpi.responses import SPECIAL, flags_of, numbers_of
from edgebench.meters.scpi.setup import ResponseKind, ScpiSettings, refuse_others
from edgebench.meters.uncertainty import Kind, UncertaintyTerm, Unit, term
from edgebench.protocol.errors import UsageError
from edgebench.protocol.plain import to_plain

_ITEMS = ("U", "I", "P")
_ERROR = ":STATUS:ERROR?"
_ASSUMED = "assumed, as for a WT310E at direct current: see your meter's data sheet"
_OF_READING, _OF_RANGE = 1e-3, 2e-3
_MIN_WINDOW_UPDATES = 20


class Wt300(PolledInstrument):
    """An element of a power meter."""

    poll_command = ":NUMERIC:NORMAL:VALUE?"

    def describe(self) -> Header:
        """Header with the present ranges, and the present or requested update rate."""
        refuse_others(self._setup, self._info, "channel", "rate")
        rate_hz = self._setup.rate_hz
        return self._header_of(self._update_s() if rate_hz is None else 1 / rate_hz)

    def _set_up(self) -> Header:
        """Configure the responses; ranges stay as configured by a person."""
        link = self._link
        link.forget_errors()
        for command in (
            ":COMMUNICATE:HEADER OFF",
            ":NUMERIC:FORMAT ASCII",
            f":NUMERIC:NORMAL:NUMBER {len(_ITEMS)}",
            *(
                f":NUMERIC:NORMAL:ITEM{place} {item},{self._setup.place}"
                for place, item in enumerate(_ITEMS, 1)
            ),
        ):
            link.write(command)
        if self._setup.rate_hz is not None:
            link.write(f":RATE {1 / self._setup.rate_hz:g}")
        link.refuse_errors(_ERROR)
        return self._header_of(self._update_s())

    def _range_query(self, quantity: str) -> str:
        return f":INPUT:{quantity}:RANGE?"

    def _update_s(self) -> float:
        response = without_header(self._link.query_text(":RATE?"))
        if response.upper().startswith("AUT"):
            raise UsageError(
                f"{self._info.model} has the update rate {response[:20]!r}: set a rate, as in "
                "rate=4"
            )
        return self._link.period_of(response, ":RATE?")

    def _header_of(self, update_s: float) -> Header:
        ranges = [
            without_header(self._link.query_text(self._range_query(quantity)))
            for quantity in ("VOLTAGE", "CURRENT")
        ]
        return Header(
            driver="scpi",
            info=self._info,
            capability=Capability(
                driver="scpi",
                channels=(
                    Channel(f"element {self._setup.place}", "what the power meter feeds, as wired"),
                ),
                rate_hz=1 / update_s,
                is_averaging=True,
                smoothing_s=update_s,
                clock_domain=HOST_CLOCK,
                loss_detection="wallclock",
                min_window_s=_MIN_WINDOW_UPDATES * update_s,
            ),
            uncertainty=_uncertainty(update_s, ranges),
            facts=to_plain(ScpiSettings(kind=ResponseKind.POWER_METER)) | {"ranges": ranges},
        )


class ElementWt(Wt300):
    """An element of an analyser whose elements have separate ranges."""

    def _range_query(self, quantity: str) -> str:
        return f":INPUT:{quantity}:RANGE:ELEMENT{self._setup.place}?"


def without_header(response: str) -> str:
    """Remove the header that a response has unless `:COMMUNICATE:HEADER OFF` is set.

    >>> without_header(":INPUT:VOLTAGE:RANGE 300.0E+00"), without_header("300.0E+00")
    ('300.0E+00', '300.0E+00')
    """
    return response.rpartition(" ")[2] if response.startswith(":") else response


def _uncertainty(update_s: float, ranges: list[str]) -> tuple[UncertaintyTerm, ...]:
    gain = term(Kind.GAIN, _OF_READING, f"{_ASSUMED}: of the reading")
    edge = term(Kind.EDGE, update_s, "a value may be one update old")
    try:
        range_w = math.prod(float(text) for text in ranges)
    except ValueError:
        return (gain, edge)  # an external shunt: the range is not in amperes
    if not abs(range_w) <= SPECIAL:  # the instrument reports no range
        return (gain, edge)
    where = f"{_ASSUMED}: initial range, {' V, '.join(ranges)} A"
    return (gain, term(Kind.OFFSET, _OF_RANGE * range_w, where, Unit.WATT), edge)


class Wt300Decoder(PolledDecoder):
    """Makes a point with voltage, current and power from each response."""

    def __init__(self, header: Header) -> None:
        super().__init__(header)
        self._update_ns = round(1e9 / header.capability.rate_hz)
        self._last_ns: int | None = None

    def points(self, readings: list[Reading]) -> list[Point]:
        """Return the mean since the last reading; after missed rounds, the mean over one update."""
        [(time_ns, response)] = readings
        begin_ns = max(time_ns - self._update_ns, self._last_ns or 0)
        # A slightly late reading covers the whole time since the last reading.
        if self._last_ns is not None and time_ns - self._last_ns < 1.5 * self._update_ns:
            begin_ns = self._last_ns
        self._last_ns = time_ns
        values = numbers_of(response or b"")
        if len(values) != len(_ITEMS):
            values = numbers_of(b"NAN,NAN,NAN")
        flags = flags_of(values)
        beyond = Flag(int(np.bitwise_or.reduce(flags))) & (Flag.SATURATED | Flag.CLIPPED)
        voltage_v, current_a, power_w = (
            math.nan if flag else float(value) for value, flag in zip(values, flags, strict=True)
        )
        return [
            Point(
                time_ns=time_ns,
                begin_ns=begin_ns,
                power_w=power_w,
                current_a=current_a,
                voltage_v=voltage_v,
                flags=Flag(int(flags[2])) | beyond,  # power is as reliable as current and voltage
            )
        ]
