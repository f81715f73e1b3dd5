"""The PPK2 as a meter: identification by its calibration, configuration, start and stop.

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
from edgebench.meters.ppk2.words import HIGHEST_A, RATE_HZ
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
"""Baud rate of the serial port; the unit ignores the baud rate."""
SUPPLY_LIMITS_V = (0.8, 5.0)
"""Limits of the voltage at the output in source mode, and at the input in ampere-meter mode.

Source: Nordic, PPK2 user guide."""
_START, _STOP, _POWER, _MODE, _SUPPLY, _METADATA = 0x06, 0x07, 0x0C, 0x11, 0x0D, 0x19
_AMPERE_METER, _SOURCE = 1, 2
_RESPONSE_S = 2.0
_ATTEMPTS = 2
_END = re.compile(re.escape(END))
_ACCURACY = (0.10, 0.10, 0.10, 0.10, 0.15)
_RESOLUTION_A = (0.2e-6, 0.5e-6, 5e-6, 50e-6, 1e-3)
_TABLE = "Nordic, PPK2 user guide, typical; not guaranteed"
_UNCERTAINTY = (
    *(
        term(Kind.GAIN, ratio, _TABLE, of_range=place, origin=Origin.TYPICAL)
        for place, ratio in enumerate(_ACCURACY)
    ),
    *(
        term(Kind.RESOLUTION, step_a, _TABLE, Unit.AMPERE, of_range=place, origin=Origin.TYPICAL)
        for place, step_a in enumerate(_RESOLUTION_A)
    ),
    term(Kind.VOLTAGE, 0.01, "the supply voltage is not measured"),
    term(Kind.TIMEBASE, 50e-6, "a crystal"),
)
_LIMITS = tuple(
    CurrentLimit(limit_a=limit_a, range=place, reference="approximate range switching point")
    for place, limit_a in enumerate((50e-6, 500e-6, 5e-3, 60e-3, HIGHEST_A))
)
"""Approximate limits of the ranges. The last limit is the highest current that Nordic allows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ppk2Setup:
    """How the device is connected and powered."""

    supply_v: float | None = None
    """Voltage of the output in source mode, or of the device's own supply in ampere-meter mode.
    None keeps the unit's present setting, and is valid in source mode only."""
    is_source: bool = False
    """Whether the unit powers the device; `is_power_on` determines whether sessions switch the
    power."""
    is_power_on: bool = False
    """Whether to switch the device's supply on for the session, and off again afterwards."""


class Ppk2(InstrumentMeter[ByteStream]):
    """A Power Profiler Kit II on a serial port."""

    name = "ppk2"

    def __init__(self, connect: Connect, serial: str = "", setup: Ppk2Setup | None = None) -> None:
        super().__init__(connect)
        self._serial = serial
        self._setup = setup or Ppk2Setup()
        self._is_set_up = False
        self._is_powered = False
        """Whether this session has switched the supply on and has not switched it off again yet."""
        self._reported_mv: int | None = None
        """Voltage that the unit was set to when it was opened; None: not reported."""
        self._before_mv: int | None = None
        """Voltage before this session changed it; None: unchanged, or not reported."""
        does = "gives" if self._setup.is_source else "measures at"
        check_supply(self._setup.supply_v, SUPPLY_LIMITS_V, f"PPK2 {does}")

    def _describe(self, connection: ByteStream) -> Header:
        """Stop a running stream, and read the calibration."""
        metadata = _query(connection)
        self._reported_mv = round(metadata.vdd_mv) if metadata.vdd_mv is not None else None
        supply_v = self._setup.supply_v
        if supply_v is None and self._setup.is_source and metadata.vdd_mv is not None:
            supply_v = metadata.vdd_mv / 1000
        if supply_v is None:
            raise UsageError(
                "PPK2 measures no voltage: add the supply voltage of the device, as in "
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
                with suppress(TargetError):  # the unit is gone or does not respond
                    connection.write(bytes([_STOP]))
                    connection.write(bytes([_POWER, 0]))
            if self._before_mv is not None:
                with suppress(TargetError):
                    connection.write(_supply(self._before_mv))
        finally:
            connection.close()
            self._is_set_up = self._is_powered = False
            self._before_mv = None

    def _start(self, transport: ByteStream) -> None:
        _drain(transport, "the PPK2")
        setup = self._setup
        if not self._is_set_up:  # once: the device may notice a repeated mode command
            transport.write(bytes([_MODE, _SOURCE if setup.is_source else _AMPERE_METER]))
            if setup.is_source and setup.supply_v is not None:
                millivolts = round(setup.supply_v * 1000)
                before_mv, (low_v, high_v) = self._reported_mv, SUPPLY_LIMITS_V
                is_known = before_mv is not None and low_v <= before_mv / 1000 <= high_v
                self._before_mv = before_mv if is_known and before_mv != millivolts else None
                transport.write(_supply(millivolts))
            self._is_set_up = True
        if setup.is_power_on:
            self._is_powered = True
            transport.write(bytes([_POWER, 1]))
        transport.write(bytes([_START]))

    def _stop(self, transport: ByteStream) -> None:
        try:
            transport.write(bytes([_STOP]))
        finally:
            if self._is_powered:  # only if switched on here: otherwise the device keeps its supply
                transport.write(bytes([_POWER, 0]))
                self._is_powered = False
        # The recording is complete: if the unit keeps sending, the next start fails.
        read_rest(transport, _RESPONSE_S)


def make_meter(options: Options) -> Ppk2:
    """Create the meter for options like `/dev/ttyACM0,supply=3.3,source`; the port is optional."""
    setup = Ppk2Setup(
        supply_v=options.number("supply"),
        is_source=options.switch("source"),
        is_power_on=options.switch("power"),
    )
    path = options.finish().address
    return Ppk2(lambda: SerialTransport(path or find_port(*USB_ID), BAUD_RATE), setup=setup)


def _supply(millivolts: int) -> bytes:
    """Command that sets the voltage of the output."""
    return bytes([_SUPPLY]) + millivolts.to_bytes(2, "big")


def _query(transport: ByteStream) -> Metadata:
    """Stop a stream that may still be running, and read the unit's metadata."""
    response = b""
    for _ in range(_ATTEMPTS):
        transport.write(bytes([_STOP]))
        _drain(transport, "no PPK2 found: this port")
        transport.write(bytes([_METADATA]))
        response = read_until(transport, _END, _RESPONSE_S)
        if END in response:
            return parse_metadata(response)
    got = f"{len(response)} bytes in {_RESPONSE_S:g} s, without the end of the metadata"
    raise TargetError(f"no PPK2 found: {got}")


def _drain(transport: ByteStream, who: str) -> None:
    """Discard pending bytes; raise TargetError if the device keeps sending, like a console."""
    after = f"data {_RESPONSE_S:g} s after the stop command"
    run_dry(transport, f"{who} still sends {after}", _RESPONSE_S)
