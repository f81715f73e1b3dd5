"""The Monsoon HVPM as a meter: identification by its registers, configuration, start and stop.

    open     stop · model, serial number, versions, scales, offsets, main voltage
    session  select voltages of main and USB · set voltage and power, if requested · START, with a
             calibration every 1.25 s · packets · STOP · restore the previous settings

Source: msoon/PyMonsoon 0.1.88, Monsoon/pmapi.py, HVPM.py (limits of the DAC's calibration, beyond
which the output voltage of a unit may be wrong), sampleEngine.py (1250 ms). Android,
acts/controllers/monsoon_lib/api/hvpm/monsoon.py (0.8 to 13.5 V; a register returns its set value).
"""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from edgebench.meters.base import Capability, Channel, Header, MeterInfo
from edgebench.meters.bulk import BulkTransport, find_device
from edgebench.meters.instrument import InstrumentMeter
from edgebench.meters.monsoon.decoder import COARSE, FINE, MonsoonSettings
from edgebench.meters.monsoon.link import MonsoonLink
from edgebench.meters.monsoon.packets import PACKET_BYTES, VOLTS, Register
from edgebench.meters.options import Options, check_supply
from edgebench.meters.stream import StreamSession
from edgebench.meters.uncertainty import Kind, Unit, term
from edgebench.protocol.errors import TargetError, UsageError
from edgebench.protocol.plain import to_plain

USB_ID = (0x2AB9, 0x0001)
WHAT = "Monsoon"
RATE_HZ = 5000.0
SUPPLY_LIMITS_V = (0.8, 13.5)
_INTERFACE, _OUT, _IN = 0, 0x01, 0x81
_HVPM = 2
_MODELS = {1: "LVPM", _HVPM: "HVPM"}
_DAC_LIMITS = {Register.DAC_LOW: (0xD000, 0xF000), Register.DAC_HIGH: (0xC000, 0xD000)}
_WINDOW_SAMPLES = 20
"""Number of samples in the shortest window whose energy is meaningful. The number is an assumption:
it is large enough that the first and the last sample are a small part of the window."""
_SAME_V = 1e-3
"""A requested voltage is not set if it differs from the present voltage by less than this."""
_ASSUMED = "assumed: no Monsoon data sheet was available"
"""If a unit is less accurate than assumed, the stated uncertainty is too small."""
_UNCERTAINTY = (
    *(term(Kind.GAIN, 0.01, _ASSUMED, of_range=place) for place in (FINE, COARSE)),
    term(Kind.OFFSET, 50e-6, _ASSUMED, Unit.AMPERE, of_range=FINE),
    term(Kind.OFFSET, 1e-3, _ASSUMED, Unit.AMPERE, of_range=COARSE),
    term(Kind.VOLTAGE, 0.01, _ASSUMED),
    term(Kind.TIMEBASE, 50e-6, "assumed: a crystal"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class MonsoonSetup:
    """The user's options for a Monsoon HVPM."""

    supply_v: float | None = None
    """Voltage of the main output during the recording; None: keep the present setting."""
    is_power_on: bool = False
    """Whether a recording switches on an output that is off, and switches it off at the end."""
    is_averaging: bool = False
    """Whether the user states that samples are means of their interval."""


class Monsoon(InstrumentMeter[MonsoonLink]):
    """A Monsoon HVPM on USB."""

    name = "monsoon"

    def __init__(
        self, connect: Callable[[], BulkTransport], setup: MonsoonSetup | None = None
    ) -> None:
        super().__init__(lambda: MonsoonLink(connect()))
        self._setup = setup or MonsoonSetup()
        self._before: dict[Register, int] = {}
        """Previous values of the registers that a session has changed and not restored yet."""
        check_supply(self._setup.supply_v, SUPPLY_LIMITS_V, "a Monsoon HVPM gives")

    def _describe(self, connection: MonsoonLink) -> Header:
        connection.stop()  # a unit left sampling does not respond to queries
        model = connection.register(Register.MODEL)
        if model != _HVPM:
            known = _MODELS.get(model, f"model {model}")
            raise TargetError(f"this {WHAT} is not an HVPM but {known}, which is not supported")
        settings = _settings_of(connection)
        self._refuse_output(connection)
        serial = str(connection.register(Register.SERIAL))
        facts = {
            "firmware": connection.register(Register.FIRMWARE),
            "protocol": connection.register(Register.PROTOCOL, 1),
            "usb_serial": connection.texts()[1],
        }
        return Header(
            driver=self.name,
            info=MeterInfo(
                vendor="Monsoon Solutions",
                model="HVPM",
                serial=serial,
                firmware=str(facts["firmware"]),
                raw_metadata=json.dumps(facts),
            ),
            capability=Capability(
                driver=self.name,
                channels=(Channel("main", "supply of the device, as wired"),),
                rate_hz=RATE_HZ,
                is_averaging=self._setup.is_averaging,
                is_uniform=True,
                clock_domain=f"meter:monsoon:{serial}",
                loss_detection="counter",
                min_window_s=_WINDOW_SAMPLES / RATE_HZ,
            ),
            uncertainty=_UNCERTAINTY,
            facts=to_plain(settings),
        )

    def _record(self, connection: MonsoonLink, header: Header, path: Path) -> StreamSession:
        start, stop = partial(self._start, connection), partial(self._stop, connection)
        return StreamSession(connection, header, path, start=start, stop=stop)

    def _release(self, connection: MonsoonLink) -> None:
        try:
            if self._before:  # a session could not be ended
                with suppress(TargetError):  # the unit is gone or does not respond
                    self._stop(connection)
        finally:
            connection.close()
            self._before.clear()

    def _refuse_output(self, link: MonsoonLink) -> None:
        """Reject an output that is off, or a requested voltage that cannot be set reliably.

        Raises:
            UsageError: `power` is given without a voltage.
            TargetError: the output is off, or the output voltage may be wrong.
        """
        setup = self._setup
        if setup.is_power_on and setup.supply_v is None:
            raise UsageError("power requires a supply voltage, as in monsoon:,supply=3.7,power")
        if not link.register(Register.MAIN_VOLTAGE, 4) and not setup.is_power_on:
            raise TargetError(
                "the main output of this HVPM is off: switch it on, or add `supply=V,power` to "
                "switch it on during the recording"
            )
        if setup.supply_v is None:
            return
        for register, (low, high) in _DAC_LIMITS.items():
            if not low < (value := link.register(register)) < high:
                raise TargetError(
                    f"the output voltage of this HVPM may be wrong ({register.name} is "
                    f"{value:#x}): update its firmware to 32, and calibrate its voltage"
                )

    def _start(self, link: MonsoonLink) -> None:
        self._set(link, Register.VOLTAGE_CHANNEL, 0, 1)
        supply_v = self._setup.supply_v
        if supply_v is not None:
            now_v = link.register(Register.MAIN_VOLTAGE, 4) / VOLTS
            if abs(now_v - supply_v) > _SAME_V:
                self._set(link, Register.MAIN_VOLTAGE, round(supply_v * VOLTS), 4)
        link.start()

    def _set(self, link: MonsoonLink, register: Register, value: int, size: int) -> None:
        """Set a register if its value differs, and store the previous value."""
        before = link.register(register, size)
        if before != value:
            self._before[register] = before
            link.set(register, value)

    def _stop(self, link: MonsoonLink) -> None:
        try:
            link.stop()
        finally:
            for register, value in reversed(tuple(self._before.items())):
                link.set(register, value)
                del self._before[register]  # only now: a failed write is retried


def make_meter(options: Options) -> Monsoon:
    """Create the meter of the unit with this serial number, or of the only unit."""
    setup = MonsoonSetup(
        supply_v=options.number("supply"),
        is_power_on=options.switch("power"),
        is_averaging=options.switch("means"),
    )
    serial = options.finish().address
    return Monsoon(lambda: connect(serial), setup)


def connect(serial: str = "", backend: object = None) -> BulkTransport:
    """Open the only unit, or the unit with this serial number."""
    return BulkTransport(
        find_device([USB_ID], serial, backend, what=WHAT),
        interface=_INTERFACE,
        out_endpoint=_OUT,
        in_endpoint=_IN,
        what=WHAT,
        message_max_bytes=PACKET_BYTES,
    )


def _settings_of(link: MonsoonLink) -> MonsoonSettings:
    """Read the calibration stored in the unit.

    Raises:
        TargetError: a scale is zero.
    """
    fine, coarse = (
        link.register(register)
        for register in (Register.MAIN_FINE_SCALE, Register.MAIN_COARSE_SCALE)
    )
    if not fine or not coarse:
        raise TargetError(
            f"the calibration of this HVPM is invalid: scales of {fine} and {coarse}; check "
            "whether Monsoon's own program measures with this HVPM"
        )
    return MonsoonSettings(
        fine_scale_a=fine * 1e-6,
        coarse_scale_a=coarse * 1e-3,
        fine_offset=link.signed(Register.MAIN_FINE_OFFSET),
        coarse_offset=link.signed(Register.MAIN_COARSE_OFFSET),
    )
