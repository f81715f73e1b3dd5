"""RuiDeng UM24C, UM25C and UM34C: USB testers, over a Bluetooth serial port.

    F0  →  130 bytes, big-endian: model u16 @0, voltage u16 @2, current u16 @4, temperature u16 @10,
           D+ u16 @96 / 100, D- u16 @98 / 100, end @128

    model   0963 UM24C, 09C9 UM25C, 0D4C UM34C
    steps   10 mV and 1 mA; for a UM25C 1 mV and 0.1 mA
    end     FFF1; for a UM34C any byte, then the exclusive or of 32 bytes of the record

A response takes a tenth of a second, and the age of its values is unspecified. Responses are not
numbered, so bytes that are pending before a request are discarded, and so are bytes in front of a
response.

Source: sigrokproject/libsigrok, src/hardware/rdtech-um/protocol.c, and
https://sigrok.org/wiki/RDTech_UM_series (layout, end, the sum of a UM34C).
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from functools import reduce
from operator import xor
from pathlib import Path

from edgebench.meters.base import Capability, Channel, Flag, Header, MeterInfo
from edgebench.meters.instrument import InstrumentMeter
from edgebench.meters.options import Options
from edgebench.meters.polled import HOST_CLOCK, Point, PolledDecoder, PolledSession, Reading, timed
from edgebench.meters.transport import ByteStream, Connect, SerialTransport
from edgebench.meters.uncertainty import CurrentLimit, Kind, UncertaintyTerm, Unit, term
from edgebench.protocol.errors import TargetError, UsageError

BAUD_RATE = 9600
"""Speed of the line between the tester and its own Bluetooth chip; the host's port ignores it."""
RECORD_BYTES = 130
RATE_HZ = 2.0
"""Default polling rate, sufficient for the update rate of the tester."""
RATE_MAX_HZ = 10.0
_QUERY = b"\xf0"
_END = b"\xff\xf1"
_SUMMED = (
    *(1, 3, 7, 9, 15, 17, 19, 23, 31, 39, 41, 45, 49, 53, 55, 57),
    *(59, 63, 67, 69, 73, 79, 83, 89, 97, 99, 109, 111, 113, 119, 121, 127),
)
_RESPONSE_S = 1.0
_QUIET_S = 0.05
"""Once enough bytes for a record have arrived, a silence of this length ends the response."""
_UNANSWERED_MAX = 5
"""Number of consecutive requests without a response after which the tester is considered
disconnected."""
_UPDATE_S = 0.5
_LOWEST_V = 5.0
"""Lowest voltage of USB; at this voltage, an error that is stated in digits is largest relative to
the value."""
_ASSUMED = "assumed: no RuiDeng data sheet was available"
"""Source of range limits, gains and digits. If a tester is less accurate than assumed, the stated
uncertainty is too small. If a tester's range is smaller than assumed, clipped values are not
flagged."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Um25cModel:
    """Properties in which the three models differ."""

    name: str
    volt: float
    """Volts per step."""
    ampere: float
    """Amperes per step."""
    limit_v: float
    limit_a: float
    gains: tuple[float, float]
    """Gain errors of voltage and of current, as ratios."""
    is_summed: bool = False
    """Whether the last byte is a checksum; otherwise the last two bytes are an end mark."""


MODELS = {
    0x0963: Um25cModel(
        name="UM24C", volt=1e-2, ampere=1e-3, limit_v=24.0, limit_a=3.0, gains=(5e-3, 8e-3)
    ),
    0x09C9: Um25cModel(
        name="UM25C", volt=1e-3, ampere=1e-4, limit_v=24.0, limit_a=5.0, gains=(5e-4, 1e-3)
    ),
    0x0D4C: Um25cModel(
        name="UM34C",
        volt=1e-2,
        ampere=1e-3,
        limit_v=24.0,
        limit_a=4.0,
        gains=(5e-3, 8e-3),
        is_summed=True,
    ),
}


def model_of(record: bytes) -> Um25cModel:
    """Model that sent a complete record.

    Raises:
        TargetError: the record is too short, damaged, or from another instrument.
    """
    if len(record) != RECORD_BYTES:
        raise TargetError(f"{len(record)} bytes, but a record has {RECORD_BYTES}")
    number = _word(record, 0)
    if number not in MODELS:
        raise TargetError(f"model {number:04x} is not UM24C, UM25C or UM34C")
    model = MODELS[number]
    if model.is_summed:
        is_whole = record[-1] == reduce(xor, (record[place] for place in _SUMMED))
    else:
        is_whole = record.endswith(_END)
    if not is_whole:
        raise TargetError(f"damaged record of a {model.name}")
    return model


def values_of(record: bytes, model: Um25cModel) -> tuple[float, float]:
    """Voltage in V and current in A."""
    return _word(record, 2) * model.volt, _word(record, 4) * model.ampere


class Um25c(InstrumentMeter[ByteStream]):
    """A tester on a Bluetooth serial port."""

    name = "um25c"

    def __init__(
        self, connect: Connect, *, rate_hz: float = RATE_HZ, response_s: float = _RESPONSE_S
    ) -> None:
        super().__init__(connect)
        self._rate_hz = rate_hz
        self._response_s = response_s
        self._unanswered_count = 0

    def _describe(self, connection: ByteStream) -> Header:
        """Request a record, twice if needed: the Bluetooth chip may send its own text first."""
        try:
            try:
                model = model_of(self._query(connection))
            except TargetError:
                model = model_of(self._query(connection))
        except TargetError as exc:
            raise TargetError(f"no UM24C, UM25C or UM34C found: {exc}") from exc
        return Header(
            driver=self.name,
            info=MeterInfo(vendor="RuiDeng", model=model.name),
            capability=Capability(
                driver=self.name,
                channels=(Channel("input", "USB cable to the device"),),
                rate_hz=self._rate_hz,
                is_averaging=False,
                clock_domain=HOST_CLOCK,
                loss_detection="wallclock",
                min_window_s=max(10 / self._rate_hz, 10 * _UPDATE_S),
                current_limits=(CurrentLimit(limit_a=model.limit_a, reference=_ASSUMED),),
            ),
            uncertainty=_uncertainty(model, self._rate_hz),
        )

    def _record(self, connection: ByteStream, header: Header, path: Path) -> PolledSession:
        self._unanswered_count = 0
        return PolledSession(lambda: [timed(lambda: self._response(connection))], header, path)

    def _response(self, transport: ByteStream) -> bytes | None:
        record = self._query(transport)
        self._unanswered_count = 0 if record else self._unanswered_count + 1
        if self._unanswered_count >= _UNANSWERED_MAX:
            raise TargetError(f"the tester did not respond {_UNANSWERED_MAX} times in a row")
        return record or None

    def _query(self, transport: ByteStream) -> bytes:
        """Request a record; return a complete record, or the bytes that arrived instead."""
        deadline_s = time.monotonic() + self._response_s
        while transport.read(0.0):  # a late response
            if time.monotonic() > deadline_s:
                raise TargetError("the instrument sends data without a request")
        transport.write(_QUERY)
        received, deadline_s = b"", time.monotonic() + self._response_s
        while not _is_record(received[-RECORD_BYTES:]):
            is_long = len(received) >= RECORD_BYTES  # and damaged, or preceded by something else
            left_s = deadline_s - time.monotonic()
            more = (
                transport.read(min(left_s, _QUIET_S) if is_long else left_s) if left_s > 0 else b""
            )
            if not more:
                return received
            received += more
        return received[-RECORD_BYTES:]


class Um25cDecoder(PolledDecoder):
    """Makes a point from each record; a damaged record becomes a missing value."""

    def points(self, readings: list[Reading]) -> list[Point]:
        """Return the point of a polling round; each round has a single record."""
        [(time_ns, content)] = readings
        record = content or b""
        try:
            model = model_of(record)
        except TargetError:
            return [Point.missing(time_ns)]
        voltage_v, current_a = values_of(record, model)
        is_beyond = voltage_v >= model.limit_v or current_a >= model.limit_a
        return [
            Point(
                time_ns=time_ns,
                power_w=voltage_v * current_a,
                flags=Flag.SATURATED if is_beyond else Flag.NONE,
                current_a=current_a,
                voltage_v=voltage_v,
            )
        ]


def make_meter(options: Options) -> Um25c:
    """Create the meter for the tester at this serial port."""
    rate_hz = options.number("rate", RATE_HZ) or 0.0
    if not 0.1 <= rate_hz <= RATE_MAX_HZ:
        raise UsageError(f"UM25C rate must be 0.1 to {RATE_MAX_HZ:g} Hz, got {rate_hz:g}")
    path = options.finish().address

    def connect() -> ByteStream:
        if not path:  # Bluetooth ports are indistinguishable: the user must choose
            raise UsageError(
                "serial port missing: add it, as in um25c:/dev/rfcomm0; docs/instruments.md "
                "explains how to bind it"
            )
        return SerialTransport(path, BAUD_RATE)

    return Um25c(connect, rate_hz=rate_hz)


def _is_record(record: bytes) -> bool:
    try:
        model_of(record)
    except TargetError:
        return False
    return True


def _word(record: bytes, place: int) -> int:
    return int.from_bytes(record[place : place + 2], "big")


def _uncertainty(model: Um25cModel, rate_hz: float) -> tuple[UncertaintyTerm, ...]:
    voltage, current = model.gains
    digits_ratio = 2 * model.volt / _LOWEST_V
    edge_s = max(_UPDATE_S, 1 / rate_hz)
    return (
        term(
            Kind.VOLTAGE,
            voltage + digits_ratio,
            f"{_ASSUMED}: including two digits at {_LOWEST_V:g} V",
        ),
        term(Kind.GAIN, current, _ASSUMED),
        term(Kind.OFFSET, 4 * model.ampere, f"{_ASSUMED}: four digits", Unit.AMPERE),
        term(Kind.RESOLUTION, model.ampere / 2, "half a step of the current", Unit.AMPERE),
        term(Kind.EDGE, edge_s, "assumed: the age of the tester's values is unspecified"),
    )
