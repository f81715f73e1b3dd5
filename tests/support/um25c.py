"""A UM24C, UM25C or UM34C that is made up, down to the bytes on its port; faults are asked for."""

from __future__ import annotations

import struct
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from support.pty_device import PortFaults, PtyDevice

NUMBERS = {"UM24C": 0x0963, "UM25C": 0x09C9, "UM34C": 0x0D4C}
SUMMED = [
    *(17, 7, 127, 69, 113, 3, 9, 53, 19, 89, 59, 67, 57, 39, 23, 49),
    *(31, 109, 63, 41, 15, 119, 55, 73, 79, 111, 45, 99, 97, 83, 121, 1),
]
"""Source: https://sigrok.org/wiki/RDTech_UM_series, in the order given there."""

Waveform = Callable[[float], tuple[float, float]]
"""Volt and ampere at a second since it was plugged in."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Faults(PortFaults):
    """What goes wrong; numbers are of questions, counted from 0."""

    is_split: bool = False
    """Each byte is written by itself."""
    mute: tuple[int, ...] = ()
    mute_after: int | None = None
    late: tuple[int, ...] = ()
    """The answer comes only with the next question."""
    cut: tuple[int, ...] = ()
    """A byte in the middle is lost."""
    damaged: tuple[int, ...] = ()
    never_ends: bool = False
    """It is a console, which talks once it was spoken to."""


def record_of(model: str, voltage_v: float, current_a: float) -> bytes:
    """All 130 bytes."""
    is_fine = model == "UM25C"
    volts = round(voltage_v * (1000 if is_fine else 100))
    amperes = round(current_a * (10_000 if is_fine else 1000))
    milliwatts = round(voltage_v * current_a * 1000)
    record = bytearray(130)
    struct.pack_into(">HHHIHH", record, 0, NUMBERS[model], volts, amperes, milliwatts, 25, 77)
    struct.pack_into(">HH", record, 96, 60, 61)
    record[128:] = b"\xff\xf1"
    if model == "UM34C":
        record[129] = 0
        for place in SUMMED:
            record[129] ^= record[place]
    return bytes(record)


@dataclass(slots=True, kw_only=True)
class Um25cEmulator(PtyDevice):
    """One tester on a pseudo-terminal."""

    model: str = "UM25C"
    waveform: Waveform = lambda time_s: (5.0, 0.5)
    faults: Faults = field(default_factory=Faults)
    asked: int = 0
    _since_s: float = field(default_factory=time.monotonic)
    _held_back: bytes = b""

    @property
    def port_faults(self) -> PortFaults:
        """What goes wrong on the way."""
        return self.faults

    def hear(self, data: bytes) -> None:
        """Everything but the question is a command that changes what is shown."""
        for byte in data:
            if byte == 0xF0:
                if not self.asked:
                    self.start()
                self._answer(self.asked)
                self.asked += 1

    def stream(self) -> None:
        """It never speaks by itself, unless that is what is wrong."""
        if self.faults.never_ends:
            self.send(b"login: ")

    def _answer(self, number: int) -> None:
        faults = self.faults
        is_mute = faults.mute_after is not None and number >= faults.mute_after
        if is_mute or faults.never_ends:
            return
        record = record_of(self.model, *self.waveform(time.monotonic() - self._since_s))
        if number in faults.damaged:
            record = record[:-1] + bytes([record[-1] ^ 1])
        if number in faults.cut:
            record = record[:60] + record[61:]
        held_back, self._held_back = self._held_back, b""
        if number in faults.late:
            self._held_back = record
        elif number not in faults.mute:
            stale = faults.stale if not number else b""
            self.send(stale + held_back + record, step=1 if faults.is_split else 130)
