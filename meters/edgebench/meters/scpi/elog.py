"""Keysight N6700 and N6705 with their modules: external data log of current and voltage.

    open     nothing: the period that the instrument will use can be computed
    session  FORM REAL · SENS:ELOG:FUNC:… · SENS:ELOG:PER · SENS:ELOG:PER? · TRIG:ELOG:SOUR BUS
             INIT:ELOG · TRIG:ELOG · FETC:ELOG? repeatedly · ABOR:ELOG

A record is the mean current and the mean voltage of a period. The instrument buffers records for 20
s, and overwrites records that were not fetched in this time. Records are not numbered, so such a
loss shows only in the rate.

Source: Keysight N6705C, Operating and Service Guide, External Data Logging: commands, order of a
record, 102.4 µs for each quantity, periods in steps of 20.48 µs, 20 s of buffer.
"""

from __future__ import annotations

import time

from edgebench.meters.base import Capability, Channel, Header, MeterInfo
from edgebench.meters.scpi.instrument import FETCH_COUNT, FETCH_S, DataLogger
from edgebench.meters.scpi.link import ScpiLink
from edgebench.meters.scpi.responses import content_of
from edgebench.meters.scpi.setup import ResponseKind, ScpiSettings, ScpiSetup, refuse_others
from edgebench.meters.uncertainty import Kind, Unit, term
from edgebench.protocol.errors import UsageError
from edgebench.protocol.plain import to_plain

_STEP_NS = 20_480
_PERIOD_MIN_STEPS = 10
"""Shortest period for two quantities, in steps of 20.48 µs."""
RATE_MAX_HZ = 1e9 / (_PERIOD_MIN_STEPS * _STEP_NS)
RATE_HZ = 1000.0
RECORD_BYTES = 8
"""Size of a record: current and voltage, each float32."""
_MODULE = "assumed for any module: see your module's data sheet"


class Elog(DataLogger):
    """An output of a modular supply."""

    def __init__(self, link: ScpiLink, setup: ScpiSetup, info: MeterInfo) -> None:
        super().__init__(link, setup, info)
        self._is_behind = False
        """Whether the previous response was full, so that the instrument holds more records."""

    def describe(self) -> Header:
        """Return the header, with the supported period that fits the requested rate best."""
        refuse_others(self._setup, self._info, "channel", "rate")
        rate_hz = self._setup.rate_hz or RATE_HZ
        if rate_hz > RATE_MAX_HZ:
            raise UsageError(
                f"{self._info.model} logs {RATE_MAX_HZ:.0f} records/s of current and voltage at "
                f"most, got {rate_hz:g}"
            )
        return self._header_of(period_s(rate_hz))

    def _set_up(self) -> Header:
        """Configure the log; return the header with the period that the instrument reports."""
        place = self._place
        self._link.forget_errors()
        self._send(
            f"ABOR:ELOG {place}",
            "FORM REAL",
            "FORM:BORD NORM",
            f"SENS:ELOG:FUNC:CURR ON,{place}",
            f"SENS:ELOG:FUNC:VOLT ON,{place}",
            f"SENS:ELOG:FUNC:CURR:MINM OFF,{place}",
            f"SENS:ELOG:FUNC:VOLT:MINM OFF,{place}",
            f"SENS:ELOG:PER {period_s(self._setup.rate_hz or RATE_HZ):.9f},{place}",
            f"TRIG:ELOG:SOUR BUS,{place}",
        )
        return self._header_of(self._link.query_period(f"SENS:ELOG:PER? {place}"))

    def read(self, timeout_s: float) -> bytes:
        """Wait up to 0.1 s, then fetch new records as an undecoded block; b"" if there are none."""
        if not self._is_behind:
            time.sleep(min(timeout_s, FETCH_S))
        response = self._link.query_block(f"FETC:ELOG? {FETCH_COUNT},{self._place}")
        length = len(content_of(response))
        self._is_behind = length >= FETCH_COUNT * RECORD_BYTES
        return response if length else b""

    @property
    def _place(self) -> str:
        return f"(@{self._setup.place})"

    def _start(self) -> None:
        self._send(f"INIT:ELOG {self._place}", f"TRIG:ELOG {self._place}")

    def _stop(self) -> None:
        self._send(f"ABOR:ELOG {self._place}")

    def _header_of(self, period_s: float) -> Header:
        rate_hz = 1 / period_s
        return Header(
            driver="scpi",
            info=self._info,
            capability=Capability(
                driver="scpi",
                channels=(Channel(f"output {self._setup.place}", "what the meter supplies"),),
                rate_hz=rate_hz,
                is_averaging=True,
                is_uniform=True,
                clock_domain=self._clock_domain,
                loss_detection="wallclock",
                min_window_s=10 / rate_hz,
                arrival_error_s=FETCH_S,
            ),
            uncertainty=UNCERTAINTY,
            facts=to_plain(ScpiSettings(kind=ResponseKind.ELOG)),
        )


def period_s(rate_hz: float) -> float:
    """Supported period in seconds that is nearest to the period of this rate."""
    steps = max(_PERIOD_MIN_STEPS, round(1e9 / rate_hz / _STEP_NS))
    return steps * _STEP_NS / 1e9


_PRODUCT = "assumed: error of multiplying the mean current by the mean voltage"
UNCERTAINTY = (
    term(Kind.GAIN, 1e-3, _MODULE),
    term(Kind.OFFSET, 2e-3, _MODULE, Unit.AMPERE),
    term(Kind.VOLTAGE, 1e-3, _MODULE),
    term(Kind.MODEL, 1e-3, _PRODUCT),
    term(Kind.TIMEBASE, 50e-6, "a crystal"),
)
