"""Instruments that the real sigrok-cli drives over a socket: a multimeter, and a supply.

They are models for `support.scpi.Server`. What they know is what libsigrok 0.5.2 asks its drivers
scpi-dmm and scpi-pps to ask.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass, field

from support.scpi import Server


@dataclass(slots=True)
class SigrokMultimeter:
    """A Keysight 34465A that is set to measure something."""

    configured: str = "CURR +1.000000E+00,+1.000000E-06"
    readings: tuple[float, ...] = (0.1,)
    """What it measures, one after another, again and again."""
    reading_s: float = 0.02
    identity: str = "Keysight Technologies,34465A,MY54500123,A.02.14-02.40-02.14-00.49-02-01"
    errors: list[str] = field(default_factory=list[str])
    values_asked: int = 0

    def obey(self, command: str) -> bytes | None:
        """The few questions of the driver."""
        if command == "CONF?":
            return f'"{self.configured}"'.encode()
        if command == "READ?":
            place, self.values_asked = self.values_asked, self.values_asked + 1
            threading.Event().wait(self.reading_s)
            return f"{self.readings[place % len(self.readings)]:+.8E}".encode()
        return b"1" if command == "*OPC?" else None


@dataclass(slots=True)
class SigrokSupply:
    """A Rigol DP832, whose outputs are asked for voltage, current and power in turn."""

    reading_s: float = 0.005
    identity: str = "RIGOL TECHNOLOGIES,DP832,DP8C1234567890,00.01.14"
    errors: list[str] = field(default_factory=list[str])
    values_asked: int = 0

    def obey(self, command: str) -> bytes | None:
        """Measurements of any output; other questions are answered with 0."""
        if command.startswith(":MEAS:"):
            self.values_asked += 1
            threading.Event().wait(self.reading_s)
            words = {":MEAS:VOLT?": b"5.0010", ":MEAS:CURR?": b"0.1004", ":MEAS:POWE?": b"0.502"}
            return words[command]
        return b"0" if "?" in command else None


def connection_of(server: Server) -> str:
    """As sigrok's drivers take it."""
    return f"conn=tcp-raw/127.0.0.1/{server.port}"
