"""A PowerShield that is made up, down to the bytes on its port; faults are asked for."""

from __future__ import annotations

import array
import fcntl
import termios
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from support.pty_device import PortFaults, PtyDevice

Floats = NDArray[np.float64]
BOARD_ID = "0A1B2C3D-4E5F6071-82930415"
OVERCURRENT = b"\xf0\xf5\xff\xff"
END = b"\xf0\xf4\xff\xff"
_COMMON = ("help", "echo", "powershield", "version", "range", "status", "htc", "hrc")
"""Answered by a unit that its own buttons control, too. Source: the help text of the firmware."""

Waveform = Callable[[Floats], Floats]
"""Ampere, or joule in the interval before, at these seconds of the meter's clock."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Faults(PortFaults):
    """What goes wrong."""

    lost_samples: tuple[tuple[int, int], ...] = ()
    """Index of the first, and how many."""
    lost_bytes: tuple[int, ...] = ()
    """Index of samples that lose a byte."""
    lost_stamps: tuple[int, ...] = ()
    """Seconds whose stamp does not come."""
    records: tuple[tuple[int, bytes], ...] = ()
    """Bytes put in before the sample with this index."""
    is_split: bool = False
    """Each byte is written by itself."""
    refused: tuple[tuple[str, str], ...] = ()
    """Commands that are refused, and why."""
    mute: tuple[str, ...] = ()
    """Commands that are not answered."""
    is_short: bool = False
    """`err`, as in the manual, and no reason."""


def encode_binary(value: float) -> bytes:
    """The word nearest to a value, with as many digits as it has."""
    exponent = 0
    while exponent < 14 and round(value * 16.0 ** (exponent + 1)) <= 0xFFF:
        exponent += 1
    return (exponent << 12 | round(value * 16.0**exponent)).to_bytes(2, "big")


def encode_ascii(value: float) -> bytes:
    """The line nearest to a value, with as many digits as it has."""
    exponent = 0
    while exponent < 12 and round(value * 10.0 ** (exponent + 1)) <= 9999:
        exponent += 1
    return b"%04d-%02d\r\n" % (round(value * 10.0**exponent), exponent)


def encode_stamp(time_ms: int, percent: int, is_ascii: bool, is_overflow: bool = False) -> bytes:
    """What is sent once a second; as text with the oddities that real units have."""
    if is_ascii:
        separator = b" <>"[time_ms // 1000 % 3 :][:1]
        seconds, milliseconds = divmod(time_ms, 1000)
        return b"TimeStamp: %03ds%s%03dms, buff %02d%%\r\n\0" % (
            *(seconds, separator),
            *(milliseconds, percent),
        )
    return (
        b"\xf0\xf3" + (time_ms | is_overflow << 31).to_bytes(4, "big") + bytes([percent, 255, 255])
    )


def stream_bytes(
    values: Floats, *, rate_hz: int, is_ascii: bool, first: int = 0, faults: Faults | None = None
) -> bytes:
    """What a unit sends of these samples, the first of which has this index."""
    return b"".join(_pieces(values, rate_hz, is_ascii, first, faults or Faults()))


def _pieces(
    values: Floats, rate_hz: int, is_ascii: bool, first: int, faults: Faults
) -> list[bytes]:
    encode = encode_ascii if is_ascii else encode_binary
    cache: dict[float, bytes] = {}
    put_in = dict(faults.records)
    lost = {index for start, count in faults.lost_samples for index in range(start, start + count)}
    pieces = []
    for index, value in enumerate(values.tolist(), first):
        if index % rate_hz == 0 and index // rate_hz not in faults.lost_stamps:
            pieces.append(encode_stamp(index // rate_hz * 1000, 7, is_ascii))
        if index in put_in:
            pieces.append(put_in[index])
        if index in lost:
            continue
        encoded = cache.get(value) or cache.setdefault(value, encode(value))
        pieces.append(encoded[:-1] if index in faults.lost_bytes else encoded)
    return pieces


@dataclass(slots=True)
class Lpm01aEmulator(PtyDevice):
    """One unit on a pseudo-terminal."""

    waveform: Waveform = field(default_factory=lambda: lambda time_s: np.full(len(time_s), 1e-3))
    faults: Faults = field(default_factory=Faults)
    limit: int | None = None
    """No more samples than this in a recording."""
    commands: list[str] = field(default_factory=list[str])
    rate_hz: int = 100
    is_ascii: bool = True
    is_energy: bool = False
    voltage_v: float = 3.292
    is_voltage_fixed: bool = False
    """It acknowledges a voltage, and keeps the one that it has."""
    is_hosted: bool = False
    """Controlled by the host."""
    _heard: bytes = b""

    def wait_until_read(self) -> None:
        """Until all samples were sent and the host took them, or the cable is out."""
        quiet_count = 0
        while quiet_count < 5 and self._slave_fd >= 0:
            time.sleep(0.01)
            is_sent = self.limit is not None and self.emitted >= self.limit
            quiet_count = quiet_count + 1 if is_sent and not self._waiting_bytes() else 0

    def _waiting_bytes(self) -> int:
        count = array.array("i", [0])
        with suppress(OSError):  # pulled out just now
            fcntl.ioctl(self._slave_fd, termios.FIONREAD, count)
        return count[0]

    @property
    def port_faults(self) -> PortFaults:
        """What goes wrong on the way."""
        return self.faults

    def hear(self, data: bytes) -> None:
        """Commands are lines."""
        *lines, self._heard = (self._heard + data).split(b"\n")
        for line in lines:
            command = line.decode().strip()
            self.commands.append(command)
            self._answer(command)

    def _answer(self, command: str) -> None:
        name, _, argument = command.partition(" ")
        if len(self.commands) == 1 and self.faults.stale:
            self._send(self.faults.stale)
        refused = dict(self.faults.refused)
        if name in self.faults.mute or name == "stop":
            if name == "stop" and self.is_streaming:
                self.is_streaming = False
                self._send(b"" if self.is_ascii else END)
                self._send(b"\r\nsummary beg\r\nsummary end\r\nend\r\n")
                self._send(b"\r\nPowerShield > Acquisition completed\r\n")
        elif self.is_streaming:
            self._send(self._refusal(command, "Acquisition on-going"))
        elif not (self.is_hosted or name in _COMMON):
            self._send(self._refusal(command, "Command not allowed in standalone mode"))
        elif name in refused:
            self._send(self._refusal(command, refused[name]))
        else:
            self._obey(name, argument)
            value = {
                "version": " 1.0.1",
                "powershield": f" PowerShield present: {BOARD_ID}",
                "status": " ok",
            }.get(name, "")
            value = f" {round(self.voltage_v * 1000)}-03" if command == "volt get" else value
            self._send(f"\r\nPowerShield > ack {command}{value}\r\n\r\n".encode())
            if name == "start":
                self.start()

    def _refusal(self, command: str, reason: str) -> bytes:
        if self.faults.is_short:
            return f"\r\nPowerShield > err {command}\r\n".encode()
        return f"\r\nPowerShield > error {command}\r\nError detail: {reason}\r\n".encode()

    def _obey(self, name: str, argument: str) -> None:
        if name in ("htc", "hrc"):
            self.is_hosted = name == "htc"
        elif name == "freq":
            number, factor = (argument[:-1], 1000) if argument.endswith("k") else (argument, 1)
            self.rate_hz = int(number) * factor
        elif name == "format":
            self.is_ascii = argument == "ascii_dec"
        elif name == "output":
            self.is_energy = argument == "energy"
        elif name == "volt" and argument != "get" and not self.is_voltage_fixed:
            self.voltage_v = int(argument.removesuffix("m")) / 1000

    def stream(self) -> None:
        """Samples up to now, the first one at once."""
        due = 1 + self.due(self.rate_hz)
        due = due if self.limit is None else min(due, self.limit)
        if due <= self.emitted:
            return
        values = self.waveform(np.arange(self.emitted, due) / self.rate_hz)
        data = stream_bytes(
            values,
            rate_hz=self.rate_hz,
            is_ascii=self.is_ascii,
            first=self.emitted,
            faults=self.faults,
        )
        self.emitted = due
        self._send(data)

    def _send(self, data: bytes) -> None:
        self.send(data, step=1 if self.faults.is_split else 65536)
