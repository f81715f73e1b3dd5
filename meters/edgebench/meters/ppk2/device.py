"""The PPK2 itself: found, asked for its calibration, set, started and stopped.

Source: commands: IRNAS/ppk2-api-python, src/ppk2_api/ppk2_api.py; NordicSemiconductor/
pc-nrfconnect-ppk, src/constants.ts (opcodes).
"""

from __future__ import annotations

import time
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from edgebench.meters.base import Capability, Channel, Header, MeterInfo, Missing
from edgebench.meters.options import Options, check_supply
from edgebench.meters.ppk2.decoder import Settings
from edgebench.meters.ppk2.metadata import END, Metadata, parse_metadata
from edgebench.meters.ppk2.words import RATE_HZ
from edgebench.meters.stream import StreamSession
from edgebench.meters.transport import Connect, SerialTransport, Transport, find_port
from edgebench.meters.uncertainty import CurrentLimit, Kind, Origin, UncertaintyTerm, Unit
from edgebench.protocol.codec import to_plain
from edgebench.protocol.errors import EdgebenchError, MeasurementError, TargetError, UsageError

USB_ID = (0x1915, 0xC00A)
BAUD_RATE = 115_200
"""Ignored by the unit."""
SUPPLY_LIMITS_V = (0.8, 5.0)
"""At its output as a source, and at its input as an ampere meter.

Source: Nordic, PPK2 user guide.
"""
_START, _STOP, _POWER, _MODE, _SUPPLY, _METADATA = 0x06, 0x07, 0x0C, 0x11, 0x0D, 0x19
_AMPERE_METER, _SOURCE = 1, 2
_QUIET_S = 0.1
_ANSWER_S = 2.0
_ATTEMPTS = 2
_ACCURACY = (0.10, 0.10, 0.10, 0.10, 0.15)
_RESOLUTION_A = (0.2e-6, 0.5e-6, 5e-6, 50e-6, 1e-3)
_LIMITS_A = (50e-6, 500e-6, 5e-3, 60e-3, 1.0)
"""Where it changes to the next range, about; the highest that Nordic allows, of the last."""
_TABLE = "Nordic, PPK2 user guide, typical; nobody guarantees it"


@dataclass(frozen=True, slots=True, kw_only=True)
class Wiring:
    """How the device is connected, and who feeds it."""

    supply_v: float | None = None
    """Source mode: what the unit should give; ampere mode: what the device has. None: as it is."""
    is_source: bool = False
    """The unit feeds the device; it never switches that on by itself."""
    is_power_on: bool = False
    """Switch the device's supply on for the session, and off again after it."""


class Ppk2:
    """One unit."""

    name = "ppk2"

    def __init__(self, connect: Connect, serial: str = "", wiring: Wiring | None = None) -> None:
        self._connect = connect
        self._serial = serial
        self._wiring = wiring or Wiring()
        self._transport: Transport | None = None
        self._header: Header | None = None
        self._is_set_up = False
        self._is_powered = False
        """By us, and not switched off yet."""
        _check(self._wiring)

    def open(self) -> Header | Missing:
        """Stop what streams, read the calibration; a session is what sets mode and supply."""
        try:
            self._transport = self._connect()
            metadata = self._ask(self._transport)
            self._header = self._describe(metadata)
        except EdgebenchError as exc:
            self.close()
            return Missing(str(exc))
        return self._header

    def session(self, path: Path) -> StreamSession:
        """A recording."""
        transport, header = self._transport, self._header
        if transport is None or header is None:
            raise MeasurementError("the PPK2 is not open")
        return StreamSession(
            transport,
            header,
            path,
            start=lambda: self._start(transport),
            stop=lambda: self._stop(transport),
        )

    def close(self) -> None:
        """Let go of the port."""
        if self._transport is None:
            return
        transport, self._transport = self._transport, None
        try:
            if self._is_powered:  # a session could not be ended
                with suppress(TargetError):  # it is gone, or it does not listen
                    transport.write(bytes([_STOP]))
                    transport.write(bytes([_POWER, 0]))
        finally:
            transport.close()
            self._is_set_up = self._is_powered = False

    def _ask(self, transport: Transport) -> Metadata:
        """The unit's own words, which a stream that still runs must not reach into."""
        answer = b""
        for _ in range(_ATTEMPTS):
            transport.write(bytes([_STOP]))
            _drain(transport, "no PPK2 answers: this port")
            transport.write(bytes([_METADATA]))
            answer = _until_end(transport)
            if END in answer:
                return parse_metadata(answer)
        raise TargetError(
            f"no PPK2 answers: {len(answer)} bytes in {_ANSWER_S:g} s, without an end"
        )

    def _set_up(self, transport: Transport) -> None:
        """Once: another mode, even the same, may be seen by a device that is on."""
        if self._is_set_up:
            return
        transport.write(bytes([_MODE, _SOURCE if self._wiring.is_source else _AMPERE_METER]))
        if self._wiring.is_source and self._wiring.supply_v is not None:
            millivolts = round(self._wiring.supply_v * 1000)
            transport.write(bytes([_SUPPLY]) + millivolts.to_bytes(2, "big"))
        self._is_set_up = True

    def _start(self, transport: Transport) -> None:
        _drain(transport, "the PPK2")
        self._set_up(transport)
        if self._wiring.is_power_on:
            self._is_powered = True
            transport.write(bytes([_POWER, 1]))
        transport.write(bytes([_START]))

    def _stop(self, transport: Transport) -> None:
        try:
            transport.write(bytes([_STOP]))
        finally:
            if self._is_powered:  # by us: a device that had its supply before keeps it
                transport.write(bytes([_POWER, 0]))
                self._is_powered = False
        _drain(transport, "the PPK2")

    def _describe(self, metadata: Metadata) -> Header:
        supply_v = self._wiring.supply_v
        if supply_v is None and self._wiring.is_source and metadata.vdd_mv is not None:
            supply_v = metadata.vdd_mv / 1000
        if supply_v is None:
            raise UsageError(
                "PPK2 measures no voltage: say what the device is supplied with, as in "
                "ppk2:/dev/ttyACM0,supply=3.3"
            )
        settings = Settings(
            calibration=metadata.calibration,
            supply_v=supply_v,
            is_source=self._wiring.is_source,
            defaulted=metadata.defaulted,
        )
        info = MeterInfo(
            vendor="Nordic Semiconductor",
            model="Power Profiler Kit II",
            serial=self._serial,
            firmware=metadata.hardware,
            raw_metadata=metadata.text,
        )
        return Header(
            driver=self.name,
            info=info,
            capability=_capability(self._serial),
            uncertainty=_uncertainty(),
            facts=to_plain(settings),
        )


def make_meter(options: Options) -> Ppk2:
    """From `/dev/ttyACM0,supply=3.3,source,power`; without a port, the only unit there is."""
    wiring = Wiring(
        supply_v=options.number("supply"),
        is_source=options.switch("source"),
        is_power_on=options.switch("power"),
    )
    path = options.finish().address
    return Ppk2(lambda: SerialTransport(path or find_port(*USB_ID), BAUD_RATE), wiring=wiring)


def _check(wiring: Wiring) -> None:
    does = "gives" if wiring.is_source else "measures at"
    check_supply(wiring.supply_v, SUPPLY_LIMITS_V, f"PPK2 {does}")


def _capability(serial: str) -> Capability:
    return Capability(
        driver=Ppk2.name,
        channels=(Channel("current", "supply of the device, as wired"),),
        rate_hz=RATE_HZ,
        is_averaging=False,
        is_uniform=True,
        clock_domain=f"meter:ppk2:{serial or 'unknown'}",
        digital_count=8,
        loss_detection="mod64",
        min_window_s=1e-3,
        current_limits=tuple(
            CurrentLimit(limit_a=limit_a, range=r, reference="about, where it changes the range")
            for r, limit_a in enumerate(_LIMITS_A)
        ),
    )


def _uncertainty() -> tuple[UncertaintyTerm, ...]:
    gains = [_typical(Kind.GAIN, value, Unit.RATIO, r) for r, value in enumerate(_ACCURACY)]
    steps = [
        replace(_typical(Kind.RESOLUTION, value, Unit.AMPERE, r), is_common=False)
        for r, value in enumerate(_RESOLUTION_A)
    ]
    supply = UncertaintyTerm(
        kind=Kind.VOLTAGE, value=0.01, unit=Unit.RATIO, reference="the supply is not measured"
    )
    clock = UncertaintyTerm(kind=Kind.TIMEBASE, value=50e-6, unit=Unit.RATIO, reference="a crystal")
    return (*gains, *steps, supply, clock)


def _typical(kind: Kind, value: float, unit: Unit, r: int) -> UncertaintyTerm:
    return UncertaintyTerm(
        kind=kind, value=value, unit=unit, range=r, origin=Origin.TYPICAL, reference=_TABLE
    )


def _drain(transport: Transport, who: str) -> None:
    """Read what is on its way; a console or another instrument never falls silent.

    Raises:
        TargetError: it goes on.
    """
    deadline_s = time.monotonic() + _ANSWER_S
    while transport.read(_QUIET_S):
        if time.monotonic() > deadline_s:
            raise TargetError(f"{who} still sends {_ANSWER_S:g} s after it was told to stop")


def _until_end(transport: Transport) -> bytes:
    answer, deadline_s = b"", time.monotonic() + _ANSWER_S
    while END not in answer and (left_s := deadline_s - time.monotonic()) > 0:
        answer += transport.read(left_s)
    return answer
