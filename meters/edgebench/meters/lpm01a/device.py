"""The PowerShield itself: found, taken over, set, started, stopped, and given back.

    open     stop, if it streams · version, powershield, status · htc, volt get, hrc, if need be
    session  htc · volt · acqmode … acqtime inf · trigsrc sw, in the first one
             pwr on, if asked for · start … stop · pwr off
    close    hrc, if it was taken

What identifies a unit is answered without taking it over, and a session is what sets it: to list
what is connected changes nothing. It calibrates itself after each `volt`, so that is said once.

The static mode is set as it is asked for. What people report of it is one mean for an acquisition
and not a stream; a recording of such a unit says that its samples are lost.
"""

from __future__ import annotations

import re
from contextlib import suppress
from pathlib import Path

from edgebench.meters.base import Header, MeterInfo, Missing
from edgebench.meters.lpm01a.datasheet import capability, uncertainty
from edgebench.meters.lpm01a.dialog import ANSWER_S, Dialog
from edgebench.meters.lpm01a.settings import SUPPLY_LIMITS_V, Settings, Setup, check, parse_setup
from edgebench.meters.options import Options
from edgebench.meters.stream import StreamSession
from edgebench.meters.transport import Connect, SerialTransport, find_port
from edgebench.protocol.codec import to_plain
from edgebench.protocol.errors import EdgebenchError, MeasurementError, TargetError, UsageError

USB_ID = (0x0483, 0x5740)
"""Of every serial port that is made with ST's software, too: what answers is asked who it is."""
BAUD_RATE = 3_686_400
_NUMBER = re.compile(r"(\d+)([+-]\d{1,2})")


class Lpm01a:
    """One unit."""

    name = "lpm01a"

    def __init__(self, connect: Connect, setup: Setup, *, answer_s: float = ANSWER_S) -> None:
        check(setup)
        self._connect = connect
        self._setup = setup
        self._answer_s = answer_s
        self._dialog: Dialog | None = None
        self._header: Header | None = None
        self._is_taken = False
        """Controlled by us, not by its own buttons."""
        self._is_set_up = False
        self._is_powered = False
        """By us, and not switched off yet."""

    def open(self) -> Header | Missing:
        """Ask the unit what it is; what it was left streaming is stopped, or it would not say."""
        try:
            self._dialog = Dialog(self._connect(), self._answer_s)
            self._dialog.rouse("powershield")
            info = _identify(self._dialog)
            supply_v = self._supply_v(self._dialog)
        except EdgebenchError as exc:
            self.close()
            return Missing(str(exc))
        self._header = self._describe(info, supply_v)
        return self._header

    def session(self, path: Path) -> StreamSession:
        """A recording."""
        dialog, header = self._dialog, self._header
        if dialog is None or header is None:
            raise MeasurementError("the LPM01A is not open")
        return StreamSession(
            dialog,
            header,
            path,
            start=lambda: self._start(dialog),
            stop=lambda: self._stop(dialog),
        )

    def close(self) -> None:
        """Give control back, and let go of the port."""
        if self._dialog is None:
            return
        dialog, self._dialog = self._dialog, None
        try:
            with suppress(TargetError):  # it is gone: nothing is left to give back
                if self._is_powered:  # a session could not be ended
                    dialog.write(b"stop\npwr off\n")
                if self._is_taken:
                    dialog.write(b"hrc\n")
        finally:
            dialog.close()
            self._is_taken = self._is_set_up = self._is_powered = False

    def _start(self, dialog: Dialog) -> None:
        if not self._is_set_up:
            self._take(dialog)
            for command in _commands(self._setup):
                dialog.ask(command)
            self._is_set_up = True
        if self._setup.is_power_on:
            self._is_powered = True  # also where only the answer is lost
            dialog.ask("pwr on")
        dialog.ask("start")

    def _stop(self, dialog: Dialog) -> None:
        try:
            dialog.stop()
        finally:
            if self._is_powered:  # by us: a device that had its supply before keeps it
                dialog.ask("pwr off")
                self._is_powered = False

    def _take(self, dialog: Dialog) -> None:
        self._is_taken = True
        dialog.ask("htc")

    def _supply_v(self, dialog: Dialog) -> float:
        """What is going to be set, or what the unit says that is set."""
        if self._setup.supply_v is not None:
            return self._setup.supply_v
        self._take(dialog)
        answer = dialog.ask("volt get")
        dialog.ask("hrc")
        self._is_taken = False
        match = _NUMBER.fullmatch(answer)
        supply_v = float(f"{match[1]}e{match[2]}") if match else 0.0
        low, high = SUPPLY_LIMITS_V
        if not low - 0.1 <= supply_v <= high + 0.1:
            raise UsageError(
                f"LPM01A gives {low} to {high} V and says {answer[:40]!r}: say what it should be, "
                "as in lpm01a:/dev/ttyACM0,supply=3.3"
            )
        return supply_v

    def _describe(self, info: MeterInfo, supply_v: float) -> Header:
        return Header(
            driver=self.name,
            info=info,
            capability=capability(self.name, self._setup, info.serial),
            uncertainty=uncertainty(self._setup, supply_v),
            facts=to_plain(Settings(setup=self._setup, supply_v=supply_v)),
        )


def make_meter(options: Options) -> Lpm01a:
    """From `/dev/ttyACM0,supply=3.3,rate=100k,output=energy`; without a port, the only unit."""
    setup = parse_setup(options)
    path = options.finish().address
    return Lpm01a(lambda: SerialTransport(path or find_port(*USB_ID), BAUD_RATE), setup)


def _identify(dialog: Dialog) -> MeterInfo:
    answers = {command: dialog.ask(command) for command in ("version", "powershield", "status")}
    return MeterInfo(
        vendor="STMicroelectronics",
        model="X-NUCLEO-LPM01A",
        serial=answers["powershield"].rpartition("present")[2].strip(" :"),
        firmware=answers["version"],
        raw_metadata="\n".join(f"{command}: {answer}" for command, answer in answers.items()),
    )


def _commands(setup: Setup) -> list[str]:
    """In an order in which each is possible, whatever the unit was set to before."""
    commands = [
        *([f"volt {round(setup.supply_v * 1000)}m"] if setup.supply_v is not None else []),
        "freq 1k",  # which every output and format can
        f"acqmode {'stat' if setup.is_static else 'dyn'}",
        f"output {'energy' if setup.is_energy else 'current'}",
        f"format {'ascii_dec' if setup.is_ascii else 'bin_hexa'}",
        f"freq {_frequency(setup.rate_hz)}",
        "acqtime inf",
        "trigsrc sw",
        "trigdelay 0",
    ]
    if not (setup.is_energy or setup.is_static):
        commands.append(f"funcmode {'high' if setup.is_high else 'optim'}")
    if setup.events:
        commands.append(f"eventsrc d7 {setup.events.value}")
    return commands


def _frequency(rate_hz: int) -> str:
    return f"{rate_hz // 1000}k" if rate_hz >= 1000 else str(rate_hz)
