"""A SPEC PTDaemon that is made up, down to the bytes on its socket; faults are asked for.

    python -m support.ptdaemon PORT

serves until it is ended, as a client that starts its daemon itself wants it. Its answers are those
in the logs of mlcommons/power-dev, and those that the clients of MLPerf Power and of SPEC CPU 2017
parse.
"""

from __future__ import annotations

import socket
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from support.threaded import TcpServer

VERSION = "version=1.11.1-a2d19f26-20240910"


@dataclass(frozen=True, slots=True, kw_only=True)
class PtdFaults:
    """What goes wrong."""

    hello: str = "Hello, PTDaemon here!"
    mode: str = "power"
    busy: bool = False
    """Somebody else measures."""
    gone_after: int | None = None
    """The connection is cut behind so many samples."""
    lost: range = range(0)
    """Samples that the daemon never had."""
    not_given: tuple[int, ...] = ()
    """Samples that the analyser did not give."""
    set_back_at: int | None = None
    """The machine's clock is an hour earlier from this sample on."""
    silent_after: int | None = None
    is_direct: bool = False
    """A daemon of a direct current analyser, which does not know RL."""
    repeats: bool = False
    """RL gives the samples that were read as well."""
    pieces: bool = False
    """An answer comes in pieces of a few bytes."""


@dataclass(slots=True, kw_only=True)
class PtdEmulator(TcpServer):
    """One daemon with one analyser."""

    power_w: Callable[[float], float] = lambda time_s: 22.95
    """Mean power of the sample that ends so many seconds after the start."""
    interval_s: float = 0.1
    ranges: str = "Ranges,0,0.5,0,300.0"
    faults: PtdFaults = field(default_factory=PtdFaults)
    commands: list[str] = field(default_factory=list[str])
    port: int = 0
    mark: str = "notset"
    read_count: int = 0
    """Samples that were read since the start."""
    _began_s: float | None = None
    _began: datetime = datetime(2020, 12, 28, 15, 21, 14)

    @property
    def is_measuring(self) -> bool:
        """Whether nobody has stopped it."""
        return self._began_s is not None

    def _open(self) -> None:
        self._listen(self.port)
        self.port = self._listener.getsockname()[1]

    def _serve(self, connection: socket.socket) -> None:
        heard = b""
        while not self._over.is_set():
            try:
                data = connection.recv(4096)
            except TimeoutError:
                continue
            if not data:
                return
            *lines, heard = (heard + data).split(b"\n")
            for line in lines:
                command = line.decode().strip()
                self.commands.append(command)
                answer = "".join(f"{one}\r\n" for one in self.answer(command)).encode()
                step = 7 if self.faults.pieces else len(answer)
                for at in range(0, len(answer), step):
                    connection.sendall(answer[at : at + step])
            if self.faults.gone_after is not None and self.read_count >= self.faults.gone_after:
                return

    def answer(self, command: str) -> list[str]:
        """Lines that this command gets."""
        name, *rest = command.split(",")
        if name == "Hello":
            return [self.faults.hello]
        if name == "Identify":
            return [self._identity()]
        if name == "RR":
            return [self.ranges]
        if name == "SR" and len(rest) >= 2:
            return [f"Range {rest[0]} changed"]
        if name == "Go":
            return [self._go(rest)]
        if name == "Stop":
            was_measuring, self._began_s = self.is_measuring, None
            return [
                "Stopping untimed measurement" if was_measuring else "Error: no measurement to stop"
            ]
        if name in ("RL", "DC-RL"):
            if (name == "RL") == self.faults.is_direct:
                return [f"Unknown command: {name}"]
            return self._unread() if len(rest) < 2 else ["Invalid number of parameters"]
        if name == "Watts":
            return [f"Watts,{self.power_w(0):f},0,0,{self.read_count},0,{self.read_count}"]
        if name == "Uncertainty":
            return [f"Uncertainty,0.004,0.004,0.004,{self.read_count},0,{self.read_count},0"]
        return [f"Unknown command: {name}"]

    def _identity(self) -> str:
        can = "1,1,1,1,0,0,1" if self.faults.mode == "power" else "0,0,0,0,0,0,1"
        return (
            f"YokogawaWT310E-C3UB12345E,{round(self.interval_s * 1000)},{can},{VERSION},"
            f"OS=Windows 10,mode={self.faults.mode},1,1,1,0,0,no_cal_date,na"
        )

    def _go(self, rest: list[str]) -> str:
        if self.faults.busy:
            return "Error: measurement already in progress"
        if len(rest) < 2:
            return "Invalid number of parameters"
        interval_ms = int(rest[0]) or round(self.interval_s * 1000)
        self.mark = rest[2] if len(rest) > 2 else "notset"
        self._began_s, self.read_count = time.monotonic(), 0
        return (
            f"Starting untimed measurement, maximum 500000 samples at {interval_ms}ms with 0 "
            "rampup samples"
        )

    def _unread(self) -> list[str]:
        if self._began_s is None:
            return ["No unread samples"]
        due = int((time.monotonic() - self._began_s) / self.interval_s)
        if self.faults.silent_after is not None:
            due = min(due, self.faults.silent_after)
        first = 0 if self.faults.repeats else self.read_count
        self.read_count = max(due, self.read_count)
        lines = [self.line(at) for at in range(first, due) if at not in self.faults.lost]
        return [f"Last {len(lines)} samples", *lines] if lines else ["No unread samples"]

    def line(self, index: int) -> str:
        """Sample with this number."""
        taken = self._began + timedelta(seconds=(index + 1) * self.interval_s)
        if self.faults.set_back_at is not None and index >= self.faults.set_back_at:
            taken -= timedelta(hours=1)
        stamp = f"{taken:%d-%m-%Y %H:%M:%S}.{taken.microsecond // 1000:03}"
        power_w = self.power_w((index + 1) * self.interval_s)
        if index in self.faults.not_given:
            power_w = -1.0
        return (
            f"Time,{stamp},Watts,{power_w:f},Volts,228.570000,Amps,0.206430,PF,0.486400,"
            f"Mark,{self.mark}"
        )


def main(port: int) -> None:
    """Serve until somebody ends the process."""
    with PtdEmulator(port=port, interval_s=1.0):
        while True:
            time.sleep(1)


if __name__ == "__main__":
    main(int(sys.argv[1]))
