"""An FNIRSI tester that is made up, down to its reports; faults are asked for.

A pseudo-terminal has no reports: what the host writes has the leading 0 of a hidraw device, and is
cut into pieces of 65 bytes.
"""

from __future__ import annotations

import struct
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from crc import Calculator, Configuration

from support.pty_device import PortFaults, PtyDevice

RATE_HZ = 100
_AWAKE_S = 1.0
CALCULATOR = Calculator(Configuration(width=8, polynomial=0x39, init_value=0x42))
"""Somebody else's arithmetic."""

Waveform = Callable[[float], tuple[float, float]]
"""Volt and ampere at a second of the tester's clock."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Faults(PortFaults):
    """What goes wrong."""

    lost_reports: tuple[int, ...] = ()
    """Of those with samples, counted from 0; nothing of them is seen."""
    damaged_reports: tuple[int, ...] = ()
    is_split: bool = False
    """Each byte is written by itself."""
    is_mute: bool = False
    never_ends: bool = False


def sealed(content: bytes) -> bytes:
    """A report with its checksum."""
    report = content.ljust(63, b"\0")
    return report + bytes([CALCULATOR.checksum(report[1:63])])


def report_of(samples: list[tuple[float, float]]) -> bytes:
    """Four samples, volt and ampere of each."""
    return sealed(
        b"\xaa\x04"
        + b"".join(
            struct.pack("<iiHHBh", round(volt * 1e5), round(ampere * 1e5), 600, 610, 1, 253)
            for volt, ampere in samples
        )
    )


@dataclass(slots=True, kw_only=True)
class FnirsiEmulator(PtyDevice):
    """One tester on a pseudo-terminal."""

    waveform: Waveform = lambda time_s: (5.0, 0.5)
    faults: Faults = field(default_factory=Faults)
    commands: list[int] = field(default_factory=list[int])
    _heard: bytes = b""
    _awake_until_s: float = 0.0

    @property
    def port_faults(self) -> PortFaults:
        """What goes wrong on the way."""
        return self.faults

    def hear(self, data: bytes) -> None:
        """Commands with a wrong checksum are not heard."""
        self._heard += data
        while len(self._heard) >= 65:
            report, self._heard = self._heard[1:65], self._heard[65:]
            if report == sealed(report[:63]):
                self.commands.append(report[1])
                self._obey(report[1])

    def stream(self) -> None:
        """Whole reports up to now; a second after the last command it falls silent."""
        if time.monotonic() > self._awake_until_s and not self.faults.never_ends:
            self.is_streaming = False
            return
        due = self.due(RATE_HZ)
        while self.emitted + 4 <= due:
            self._send_report(self.emitted // 4)
            self.emitted += 4

    def _send_report(self, number: int) -> None:
        times = [(4 * number + k) / RATE_HZ for k in range(4)]
        report = report_of([self.waveform(time_s) for time_s in times])
        if number in self.faults.damaged_reports:
            report = report[:20] + bytes([report[20] ^ 0x10]) + report[21:]
        if number not in self.faults.lost_reports:
            self.send(report, step=1 if self.faults.is_split else 64)

    def _obey(self, command: int) -> None:
        if self.faults.is_mute:
            return
        if command == 0x81:
            self.send(self.faults.stale + sealed(b"\xaa\x03FNB58"))
        elif command == 0x82:
            self._awake_until_s = time.monotonic() + _AWAKE_S
            if not self.is_streaming:
                self.send(report_of([(21474.0, -21474.0)] * 4))  # the first is garbage
                self.start()
        elif command == 0x83 and self.is_streaming:
            self._awake_until_s = time.monotonic() + _AWAKE_S
