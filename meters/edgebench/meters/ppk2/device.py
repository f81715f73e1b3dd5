"""PPK2: identified by its calibration, set, started and stopped.

Source: commands: IRNAS/ppk2-api-python, src/ppk2_api/ppk2_api.py; NordicSemiconductor/
pc-nrfconnect-ppk, src/constants.ts (opcodes).
"""

from __future__ import annotations

import re
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from edgebench.meters.base import Capability, Channel, Header, MeterInfo
from edgebench.meters.instrument import InstrumentMeter
from edgebench.meters.options import Options, check_supply
from edgebench.meters.ppk2.decoder import Ppk2Settings
from edgebench.meters.ppk2.metadata import END, Metadata, parse_metadata
from edgebench.meters.ppk2.words import RATE_HZ
from edgebench.meters.stream import StreamSession
from edgebench.meters.transport import (
    ByteStream,
    Connect,
    SerialTransport,
    find_port,
    read_rest,
    read_until,
    run_dry,
)
from edgebench.meters.uncertainty import CurrentLimit, Kind, Origin, Unit, term
from edgebench.protocol.errors import TargetError, UsageError
from edgebench.protocol.plain import to_plain

USB_ID = (0x1915, 0xC00A)
BAUD_RATE = 115_200
"""Ignored by the unit."""
SUPPLY_LIMITS_V = (0.8, 5.0)
"""Voltages at its output as a source, and at its input as an ampere meter.

Source: Nordic, PPK2 user guide.
"""
_START, _STOP, _POWER, _MODE, _SUPPLY, _METADATA = 0x06, 0x07, 0x0C, 0x11, 0x0D, 0x19
_AMPERE_METER, _SOURCE = 1, 2
_ANSWER_S = 2.0
_ATTEMPTS = 2
_END = re.compile(re.escape(END))
_ACCURACY = (0.10, 0.10, 0.10, 0.10, 0.15)
_RESOLUTION_A = (0.2e-6, 0.5e-6, 5e-6, 50e-6, 1e-3)
_TABLE = "Nordic, PPK2 user guide, typical; nobody guarantees it"
_UNCERTAINTY = (
    *(
        term(Kind.GAIN, ratio, _TABLE, of_range=place, origin=Origin.TYPICAL)
        for place, ratio in enumerate(_ACCURACY)
    ),
    *(
        term(Kind.RESOLUTION, step_a, _TABLE, Unit.AMPERE, of_range=place, origin=Origin.TYPICAL)
        for place, step_a in enumerate(_RESOLUTION_A)
    ),
    term(Kind.VOLTAGE, 0.01, "the supply is not measured"),
    term(Kind.TIMEBASE, 50e-6, "a crystal"),
)
_LIMITS = tuple(
    CurrentLimit(limit_a=limit_a, range=place, reference="about, where it changes the range")
    for place, limit_a in enumerate((50e-6, 500e-6, 5e-3, 60e-3, 1.0))
)
"""Ends of the ranges, about; of the last one, the highest current that Nordic allows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ppk2Setup:
    """How the device is connected, and who feeds it."""

    supply_v: float | None = None
    """Voltage that a source should give, or that the device has; None: as it is."""
    is_source: bool = False
    """The unit feeds the device; it never switches that on by itself."""
    is_power_on: bool = False
    """Switch the device's supply on for the session, and off again after it."""


class Ppk2(InstrumentMeter[ByteStream]):
    """One unit."""

    name = "ppk2"

    def __init__(self, connect: Connect, serial: str = "", setup: Ppk2Setup | None = None) -> None:
        super().__init__(connect)
        self._serial = serial
        self._setup = setup or Ppk2Setup()
        self._is_set_up = False
        self._is_powered = False
        """Switched on by us, and not off yet."""
        does = "gives" if self._setup.is_source else "measures at"
        check_supply(self._setup.supply_v, SUPPLY_LIMITS_V, f"PPK2 {does}")

    def _describe(self, connection: ByteStream) -> Header:
        """Stop what streams, and read the calibration."""
        metadata = _ask(connection)
        supply_v = self._setup.supply_v
        if supply_v is None and self._setup.is_source and metadata.vdd_mv is not None:
            supply_v = metadata.vdd_mv / 1000
        if supply_v is None:
            raise UsageError(
                "PPK2 measures no voltage: say what the device is supplied with, as in "
                "ppk2:/dev/ttyACM0,supply=3.3"
            )
        settings = Ppk2Settings(
            calibration=metadata.calibration,
            supply_v=supply_v,
            is_source=self._setup.is_source,
            defaulted=metadata.defaulted,
        )
        return Header(
            driver=self.name,
            info=MeterInfo(
                vendor="Nordic Semiconductor",
                model="Power Profiler Kit II",
                serial=self._serial,
                firmware=metadata.hardware,
                raw_metadata=metadata.text,
            ),
            capability=Capability(
                driver=self.name,
                channels=(Channel("current", "supply of the device, as wired"),),
                rate_hz=RATE_HZ,
                is_averaging=False,
                is_uniform=True,
                clock_domain=f"meter:ppk2:{self._serial or 'unknown'}",
                digital_count=8,
                loss_detection="mod64",
                min_window_s=1e-3,
                current_limits=_LIMITS,
            ),
            uncertainty=_UNCERTAINTY,
            facts=to_plain(settings),
        )

    def _record(self, connection: ByteStream, header: Header, path: Path) -> StreamSession:
        start, stop = partial(self._start, connection), partial(self._stop, connection)
        return StreamSession(connection, header, path, start=start, stop=stop)

    def _release(self, connection: ByteStream) -> None:
        try:
            if self._is_powered:  # a session could not be ended
                with suppress(TargetError):  # it is gone, or it does not listen
                    connection.write(bytes([_STOP]))
                    connection.write(bytes([_POWER, 0]))
        finally:
            connection.close()
            self._is_set_up = self._is_powered = False

    def _start(self, transport: ByteStream) -> None:
        _drain(transport, "the PPK2")
        setup = self._setup
        if not self._is_set_up:  # once: another mode, even the same, may be seen by a device
            transport.write(bytes([_MODE, _SOURCE if setup.is_source else _AMPERE_METER]))
            if setup.is_source and setup.supply_v is not None:
                millivolts = round(setup.supply_v * 1000)
                transport.write(bytes([_SUPPLY]) + millivolts.to_bytes(2, "big"))
            self._is_set_up = True
        if setup.is_power_on:
            self._is_powered = True
            transport.write(bytes([_POWER, 1]))
        transport.write(bytes([_START]))

    def _stop(self, transport: ByteStream) -> None:
        try:
            transport.write(bytes([_STOP]))
        finally:
            if self._is_powered:  # by us: a device that had its supply before keeps it
                transport.write(bytes([_POWER, 0]))
                self._is_powered = False
        # All of the recording is there: a unit that goes on sending fails the next one's start.
        read_rest(transport, _ANSWER_S)


def make_meter(options: Options) -> Ppk2:
    """Meter by `/dev/ttyACM0,supply=3.3,source,power`; without a port, the only unit."""
    setup = Ppk2Setup(
        supply_v=options.number("supply"),
        is_source=options.switch("source"),
        is_power_on=options.switch("power"),
    )
    path = options.finish().address
    return Ppk2(lambda: SerialTransport(path or find_port(*USB_ID), BAUD_RATE), setup=setup)


def _ask(transport: ByteStream) -> Metadata:
    """The unit's own words, which a stream that still runs must not reach into."""
    answer = b""
    for _ in range(_ATTEMPTS):
        transport.write(bytes([_STOP]))
        _drain(transport, "no PPK2 answers: this port")
        transport.write(bytes([_METADATA]))
        answer = read_until(transport, _END, _ANSWER_S)
        if END in answer:
            return parse_metadata(answer)
    raise TargetError(f"no PPK2 answers: {len(answer)} bytes in {_ANSWER_S:g} s, without an end")


def _drain(transport: ByteStream, who: str) -> None:
    """Read what is on its way; a console or another instrument never falls silent."""
    after = f"{_ANSWER_S:g} s after it was told to stop"
    run_dry(transport, f"{who} still sends {after}", _ANSWER_S)
