"""The PowerShield as a meter: identification, configuration, start, stop and release.

    open     stop, if it streams · version, powershield, status · htc, volt get, hrc, if needed
    session  htc · volt get, volt, volt get, if a voltage is requested · acqmode … acqtime inf ·
             trigsrc sw, in the first session
             pwr on, if requested · start … stop · pwr off
    close    the former volt, if another was set · hrc, if it was taken over

Only a session configures the unit, so listing the connected meters changes no setting. The queries
that identify a unit work without taking control from its buttons (`htc`). If no voltage is
requested, `open` takes control to read the voltage, and then returns control (`hrc`). The unit
calibrates itself after each `volt`, so a session sends this command only once.

The static mode is configured if the user requests it. Users report that a unit in static mode sends
a single mean per acquisition instead of a stream. A recording of such a mean reports lost samples.
"""

from __future__ import annotations

import math
import re
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path

from edgebench.meters.base import Header, MeterInfo
from edgebench.meters.instrument import InstrumentMeter
from edgebench.meters.lpm01a.datasheet import capability, supply_deviation, uncertainty
from edgebench.meters.lpm01a.dialog import RESPONSE_S, Lpm01aDialog, Lpm01aRefusal
from edgebench.meters.lpm01a.settings import (
    SUPPLY_LIMITS_V,
    Lpm01aSettings,
    Lpm01aSetup,
    check,
    parse_setup,
)
from edgebench.meters.options import Options
from edgebench.meters.stream import StreamSession
from edgebench.meters.transport import Connect, SerialTransport, find_port
from edgebench.protocol.errors import TargetError, UsageError
from edgebench.protocol.plain import from_plain

USB_ID = (0x0483, 0x5740)
"""USB id that all serial ports with ST's software share, so a query identifies the instrument."""
BAUD_RATE = 3_686_400
_SET_STEP_V = 0.05
"""Step of supply voltages. Users are assumed to set multiples of this voltage."""
_NUMBER = re.compile(r"(\d+)([+-]\d{1,2})")


class Lpm01a(InstrumentMeter[Lpm01aDialog]):
    """A PowerShield on a serial port."""

    name = "lpm01a"

    def __init__(
        self, connect: Connect, setup: Lpm01aSetup, *, response_s: float = RESPONSE_S
    ) -> None:
        super().__init__(lambda: Lpm01aDialog(connect(), response_s))
        check(setup)
        self._setup = setup
        self._is_taken = False
        """Whether the unit is controlled by the host instead of by its own buttons."""
        self._is_set_up = False
        self._is_powered = False
        """Whether this session has switched the supply on and has not switched it off again yet."""
        self._before_v: float | None = None
        """Voltage before this session changed it; None: unchanged, or not reported."""
        self._deviating_v: float | None = None
        """Voltage that the unit reports instead of the requested voltage; None: no deviation."""

    def _describe(self, connection: Lpm01aDialog) -> Header:
        """Identify the unit; a running stream is stopped, because it blocks all queries."""
        connection.rouse("powershield")
        responses = {
            command: connection.query(command) for command in ("version", "powershield", "status")
        }
        serial = responses["powershield"].rpartition("present")[2].strip(" :")
        supply_v = self._supply_v(connection)
        return Header(
            driver=self.name,
            info=MeterInfo(
                vendor="STMicroelectronics",
                model="X-NUCLEO-LPM01A",
                serial=serial,
                firmware=responses["version"],
                raw_metadata="\n".join(
                    f"{name}: {response}" for name, response in responses.items()
                ),
            ),
            capability=capability(self.name, self._setup, serial),
            uncertainty=uncertainty(self._setup, supply_v),
            facts=Lpm01aSettings(setup=self._setup, supply_v=supply_v).facts,
        )

    def _record(self, connection: Lpm01aDialog, header: Header, path: Path) -> StreamSession:
        start, stop = partial(self._start, connection), partial(self._stop, connection)
        set_up = partial(self._set_up, connection, header)
        return StreamSession(connection, header, path, start=start, stop=stop, set_up=set_up)

    def _release(self, connection: Lpm01aDialog) -> None:
        try:
            if self._is_powered:  # a session could not be ended
                with suppress(TargetError):
                    connection.stop()
            commands = {
                "pwr off": self._is_powered,
                _volt(self._before_v or 0.0): self._before_v is not None,
                "hrc": self._is_taken,
            }
            for command in (command for command, is_due in commands.items() if is_due):
                with suppress(TargetError):  # the other commands are sent even if this one fails
                    connection.query(command)
        finally:
            connection.close()
            self._is_taken = self._is_set_up = self._is_powered = False
            self._before_v = self._deviating_v = None

    def _set_up(self, dialog: Lpm01aDialog, header: Header) -> Header:
        """Configure the unit in the first session; return the header with the reported voltage.

        Raises:
            TargetError: the unit rejects a command, does not respond, or reports a voltage at which
                the device must not be switched on.
        """
        if not self._is_set_up:
            self._take(dialog)
            self._set_supply(dialog)
            for command in _commands(self._setup):
                dialog.query(command)
            self._is_set_up = True
        settings = from_plain(header.facts, Lpm01aSettings)
        return replace(header, facts=replace(settings, deviating_v=self._deviating_v).facts)

    def _start(self, dialog: Lpm01aDialog) -> None:
        if self._setup.is_power_on:
            self._is_powered = True  # set first: the command may take effect without a reply
            dialog.query("pwr on")
        dialog.query("start")

    def _stop(self, dialog: Lpm01aDialog) -> None:
        try:
            dialog.stop()
        finally:
            if self._is_powered:  # only if switched on here: otherwise the device keeps its supply
                dialog.query("pwr off")
                self._is_powered = False

    def _take(self, dialog: Lpm01aDialog) -> None:
        self._is_taken = True
        dialog.query("htc")

    def _set_supply(self, dialog: Lpm01aDialog) -> None:
        """Set the requested voltage, before the supply is switched on.

        Raises:
            TargetError: the supply is to be switched on, but the unit reports a higher voltage than
                requested, which the device may not tolerate.
        """
        supply_v = self._setup.supply_v
        if supply_v is None:
            return
        before_v = _reported_v(dialog)
        # Noted before the command: its acknowledgement may be lost.
        set_v = None if before_v is None else _as_set(before_v)
        if set_v is not None and not math.isclose(set_v, supply_v):
            self._before_v = set_v
        dialog.query(_volt(supply_v))
        now_v = _reported_v(dialog)
        deviation = supply_deviation(supply_v, now_v)
        if now_v is None or deviation is None:
            return
        if now_v > supply_v and self._setup.is_power_on:
            raise TargetError(deviation)
        self._deviating_v = now_v

    def _supply_v(self, dialog: Lpm01aDialog) -> float:
        """Requested voltage, or the voltage that the unit reports if no voltage is requested."""
        if self._setup.supply_v is not None:
            return self._setup.supply_v
        self._take(dialog)
        response = dialog.query("volt get")
        dialog.query("hrc")
        self._is_taken = False
        supply_v = _volts_of(response) or 0.0
        low, high = SUPPLY_LIMITS_V
        if not low - 0.1 <= supply_v <= high + 0.1:
            raise UsageError(
                f"an LPM01A supplies {low} to {high} V, but this unit reports {response[:40]!r}: "
                "add the voltage, as in lpm01a:/dev/ttyACM0,supply=3.3"
            )
        return supply_v


def make_meter(options: Options) -> Lpm01a:
    """Create the meter for options like `/dev/ttyACM0,supply=3.3,rate=100k,output=energy`."""
    setup = parse_setup(options)
    path = options.finish().address
    return Lpm01a(lambda: SerialTransport(path or find_port(*USB_ID), BAUD_RATE), setup)


def _volt(supply_v: float) -> str:
    return f"volt {round(supply_v * 1000)}m"


def _as_set(reported_v: float) -> float:
    """Infer the voltage that was set from the reported voltage, by rounding.

    The reported voltage may be some millivolts off. Without rounding, such errors would add up from
    run to run when the reported voltage is set again.
    """
    low_v, high_v = SUPPLY_LIMITS_V
    return min(high_v, max(low_v, round(reported_v / _SET_STEP_V) * _SET_STEP_V))


def _reported_v(dialog: Lpm01aDialog) -> float | None:
    """Voltage that the unit reports; None if its firmware reports no number."""
    try:
        return _volts_of(dialog.query("volt get"))
    except Lpm01aRefusal:
        return None


def _volts_of(response: str) -> float | None:
    match = _NUMBER.fullmatch(response)
    return float(f"{match[1]}e{match[2]}") if match else None


def _commands(setup: Lpm01aSetup) -> list[str]:
    """Commands for this setup, in an order that is valid for any previous settings of the unit."""
    rate_hz = setup.rate_hz
    commands = [
        "freq 1k",  # supported by every output and format
        f"acqmode {'stat' if setup.is_static else 'dyn'}",
        f"output {'energy' if setup.is_energy else 'current'}",
        f"format {'ascii_dec' if setup.is_ascii else 'bin_hexa'}",
        f"freq {rate_hz // 1000}k" if rate_hz >= 1000 else f"freq {rate_hz}",
        "acqtime inf",
        "trigsrc sw",
        "trigdelay 0",
    ]
    if not (setup.is_energy or setup.is_static):
        commands.append(f"funcmode {'high' if setup.is_high else 'optim'}")
    if setup.events:
        commands.append(f"eventsrc d7 {setup.events.value}")
    return commands
