"""Multimeters as ammeters: Keysight and Agilent 344xx, HP 34401A, Siglent SDM.

    open               only *IDN?: the requested settings are assumed to be possible
    all models         FORM:DATA ASC · CONF:CURR:DC · CURR:DC:NPLC · READ? for each value
    34465A, 34470A     their own timer fills the memory · R? reads it block by block

A multimeter measures either current or voltage, so the user must state the supply voltage of the
device. The drop at the meter's shunt reduces the actual voltage.

Source: Keysight Truevolt Series, Operating and Service Guide: READ?, R?, SAMP:SOUR TIM, NPLC;
Siglent SDM Series, Programming Guide: the commands of the 34401A.
"""

from __future__ import annotations

import math
import re
import time

from edgebench.meters.base import Capability, Channel, Flag, Header, MeterInfo
from edgebench.meters.polled import HOST_CLOCK, Point, PolledDecoder, Reading
from edgebench.meters.scpi.instrument import (
    BUSY_RATIO,
    FETCH_COUNT,
    FETCH_S,
    DataLogger,
    PolledInstrument,
)
from edgebench.meters.scpi.link import ScpiLink
from edgebench.meters.scpi.responses import content_of, flags_of, numbers_of
from edgebench.meters.scpi.setup import ResponseKind, ScpiSettings, ScpiSetup, refuse_others
from edgebench.meters.uncertainty import Kind, Unit, term
from edgebench.protocol.errors import UsageError
from edgebench.protocol.plain import from_plain, to_plain

MEMORY_MODELS = re.compile(r"344(65|70)A")
RATE_MAX_HZ = 2000.0
"""Rate at the shortest aperture available without an option, 0.02 power line cycles."""
_MEMORY_RATE_HZ = 1000.0
_POLLED_RATE_HZ = 10.0
_RANGE_A = 3.0
"""Default range of models with memory; a change of an automatic range would interrupt the timer."""
_LINE_CYCLE_S = 0.02
"""Duration of a power line cycle at 50 Hz. At 60 Hz, cycles are shorter, and so are apertures."""
_APERTURES = (100.0, 10.0, 1.0, 0.2, 0.06, 0.02)
"""Selectable apertures in power line cycles."""
_ERROR = "SYST:ERR?"
_MARGIN = 1.25
"""Ratio of the time for a reading to the sum of its apertures. The rest of the time is for the
overhead of the instrument and of the connection."""
_CHANNELS = (Channel("current", "supply of the device, as wired"),)
_ASSUMED = "assumed for any multimeter: see your multimeter's data sheet"


class Multimeter(PolledInstrument):
    """An ammeter that is queried for each value."""

    poll_command = "READ?"

    def describe(self) -> Header:
        """Return the header with the requested rate; the session checks if the rate is possible."""
        refuse_others(self._setup, self._info, "supply", "rate", "range")
        return self._header_of(self._setup.rate_hz or _POLLED_RATE_HZ)

    def _set_up(self) -> Header:
        """Configure direct current; return the header with the rate that readings allow.

        Raises:
            UsageError: the requested rate is too high.
        """
        wanted_hz = self._setup.rate_hz or _POLLED_RATE_HZ
        configure(self._link, self._setup.range_a)
        self._link.write(f"CURR:DC:NPLC {polled_cycles(wanted_hz)}")
        self._link.query(_ERROR)  # instruments without this aperture keep their own
        return self._header_of(self._possible_hz(wanted_hz))

    def _header_of(self, rate_hz: float) -> Header:
        capability = Capability(
            driver="scpi",
            channels=_CHANNELS,
            rate_hz=rate_hz,
            is_averaging=False,
            clock_domain=HOST_CLOCK,
            loss_detection="wallclock",
            min_window_s=20 / rate_hz,
        )
        return header_of(self._info, capability, self._setup, ResponseKind.MULTIMETER)


class MemoryMultimeter(DataLogger):
    """An ammeter that measures at intervals of its own timer, into its memory."""

    def describe(self) -> Header:
        """Return the header with the requested period; the session may change the period."""
        refuse_others(self._setup, self._info, "supply", "rate", "range")
        if self._wanted_hz > RATE_MAX_HZ:
            raise UsageError(
                f"{self._info.model} measures {RATE_MAX_HZ:g} times per second at most, "
                f"got {self._wanted_hz:g}"
            )
        return self._header_of(1 / self._wanted_hz)

    @property
    def _wanted_hz(self) -> float:
        return self._setup.rate_hz or _MEMORY_RATE_HZ

    def _set_up(self) -> Header:
        """Set range, aperture and timer; return the header with the period that is reported."""
        configure(self._link, self._setup.range_a or _RANGE_A)
        self._send(
            f"CURR:DC:NPLC {aperture_cycles(self._wanted_hz):g}",
            "CURR:DC:ZERO:AUTO OFF",
            "TRIG:SOUR IMM",
            "SAMP:SOUR TIM",
            f"SAMP:TIM {1 / self._wanted_hz:.9f}",
            "SAMP:COUN MAX",
        )
        return self._header_of(self._link.query_period("SAMP:TIM?"))

    def _header_of(self, period_s: float) -> Header:
        capability = Capability(
            driver="scpi",
            channels=_CHANNELS,
            rate_hz=1 / period_s,
            is_averaging=False,
            is_uniform=True,
            smoothing_s=aperture_cycles(self._wanted_hz) * _LINE_CYCLE_S,
            clock_domain=self._clock_domain,
            loss_detection="wallclock",
            min_window_s=20 * period_s,
            arrival_error_s=FETCH_S,
        )
        return header_of(self._info, capability, self._setup, ResponseKind.MULTIMETER_MEMORY)

    def read(self, timeout_s: float) -> bytes:
        """Wait up to 0.1 s, then fetch new values as an undecoded block; b"" if there are none."""
        time.sleep(min(timeout_s, FETCH_S))
        response = self._link.query_block(f"R? {FETCH_COUNT}")
        return response if content_of(response) else b""

    def _start(self) -> None:
        self._send("INIT")

    def _stop(self) -> None:
        self._send("ABOR")


def configure(link: ScpiLink, range_a: float | None) -> None:
    """Select direct current, responses as text, and the given range or an automatic range.

    Raises:
        TargetError: the instrument rejects the configuration.
    """
    link.write("FORM:DATA ASC")  # an earlier client may have left REAL
    link.forget_errors()  # including the error of instruments without this command
    link.write("CONF:CURR:DC" + (f" {range_a:g}" if range_a else ""))
    link.refuse_errors(_ERROR)


def aperture_cycles(rate_hz: float) -> float:
    """Longest aperture that leaves time between two readings, in power line cycles."""
    free_s = BUSY_RATIO / rate_hz
    fitting = (aperture for aperture in _APERTURES if aperture * _LINE_CYCLE_S <= free_s)
    return next(fitting, _APERTURES[-1])


def polled_cycles(rate_hz: float) -> int:
    """Aperture of polled readings, in power line cycles. A reading also measures the zero once.

    With the default aperture of ten cycles, a reading takes 0.4 s. All these instruments support 1,
    10 and 100 cycles. With 100 cycles, a reading takes 4 s, more than the time limit of a response.
    """
    free_s = BUSY_RATIO / rate_hz
    return 10 if free_s >= _MARGIN * 2 * 10 * _LINE_CYCLE_S else 1


def header_of(
    info: MeterInfo, capability: Capability, setup: ScpiSetup, kind: ResponseKind
) -> Header:
    """Header of a recording, for either kind of multimeter.

    Raises:
        UsageError: the supply voltage of the device is missing.
    """
    if setup.supply_v is None:
        raise UsageError(
            f"{info.model} measures no voltage: add the supply voltage of the device, as in "
            "scpi:TCPIP::192.168.1.5::5025::SOCKET,supply=3.3"
        )
    offset_a = 5e-4 * (setup.range_a or _RANGE_A)
    shunt = "assumed: the supply voltage is not measured, and is reduced by the meter's shunt"
    return Header(
        driver="scpi",
        info=info,
        capability=capability,
        uncertainty=(
            term(Kind.GAIN, 2e-3, _ASSUMED),
            term(Kind.OFFSET, offset_a, f"{_ASSUMED}: of the range", Unit.AMPERE),
            term(Kind.VOLTAGE, 0.01, shunt),
        ),
        facts=to_plain(ScpiSettings(kind=kind, supply_v=setup.supply_v)),
    )


class MultimeterDecoder(PolledDecoder):
    """Makes a point from each current; power is the current times the supply voltage."""

    def __init__(self, header: Header) -> None:
        super().__init__(header)
        settings = from_plain(header.facts, ScpiSettings)
        if settings.supply_v is None:
            raise ValueError("a multimeter without a supply voltage")
        self._supply_v = settings.supply_v

    def points(self, readings: list[Reading]) -> list[Point]:
        """Return the point of a polling round, which has a single value."""
        [(time_ns, response)] = readings
        values = numbers_of(response or b"")
        flags = Flag(int(flags_of(values)[0])) if len(values) == 1 else Flag.MISSING
        current_a = math.nan if flags else float(values[0])
        return [Point(time_ns, current_a * self._supply_v, flags=flags, current_a=current_a)]
