"""Instruments that are made up, down to the bytes on their socket; faults are asked for.

What they say is checked with pyvisa as anybody uses it.
"""

from __future__ import annotations

import math
import socket
import struct
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from support.threaded import TcpServer

Floats = NDArray[np.float64]
Waveform = Callable[[Floats], Floats]
"""Ampere at these seconds of the instrument's clock."""
OVERLOAD = 9.9e37
NO_VALUE = 9.91e37


@dataclass(frozen=True, slots=True, kw_only=True)
class Faults:
    """What goes wrong; commands are named by how they begin."""

    pieces: int = 1
    """Each answer is sent in so many, the first one byte long."""
    refused: tuple[str, ...] = ()
    mute: tuple[str, ...] = ()
    """Questions that are not answered."""
    late: tuple[tuple[str, float], ...] = ()
    """Questions that are answered after so many seconds; once each."""
    gone_after: int | None = None
    """The connection is cut when so many questions for values were answered."""
    does_reset: bool = False
    """Whether the cut is a reset, as of a restarted instrument; else the connection is closed, and
    pyvisa-py polls without a pause until the time limit of the response."""
    overload_at: tuple[int, ...] = ()
    """Index of values that are beyond the range."""
    no_value_at: tuple[int, ...] = ()
    lost_at: tuple[tuple[int, int], ...] = ()
    """Index of the first value that the instrument overwrote, and how many."""
    wrong: tuple[tuple[str, bytes], ...] = ()
    """Questions that get this for an answer."""
    rate_error_ppm: float = 0.0


def block(content: bytes) -> bytes:
    """A definite length block."""
    length = str(len(content))
    return f"#{len(length)}{length}".encode() + content


def spoilt(values: Floats, first: int, faults: Faults) -> Floats:
    """Values with these places beyond the range, or not there."""
    values = values.copy()
    for places, special in ((faults.overload_at, OVERLOAD), (faults.no_value_at, NO_VALUE)):
        for place in places:
            if first <= place < first + len(values):
                values[place - first] = special
    return values


def is_kept(first: int, count: int, faults: Faults) -> NDArray[np.bool_]:
    """Which of the values were not overwritten."""
    index = np.arange(first, first + count)
    kept = np.ones(count, np.bool_)
    for begin, lost in faults.lost_at:
        kept &= (index < begin) | (index >= begin + lost)
    return kept


def elog_block(current_a: Floats, voltage_v: Floats, first: int, faults: Faults) -> bytes:
    """Records of the external data log, the first of which has this index."""
    kept = is_kept(first, len(current_a), faults)
    records = np.stack([spoilt(current_a, first, faults), voltage_v], axis=1)[kept]
    return block(records.astype(">f4").tobytes())


class Model(Protocol):
    """What is behind the socket."""

    identity: str
    errors: list[str]
    values_asked: int
    """Answered questions for values."""

    def obey(self, command: str) -> bytes | None:
        """The answer, if it is a question; LookupError: no such command."""
        ...


@dataclass(slots=True)
class Timer:
    """How many samples there are by now."""

    rate_hz: float = 1000.0
    faults: Faults = field(default_factory=Faults)
    limit: int | None = None
    began_s: float | None = None
    taken: int = 0

    def start(self) -> None:
        """From now on."""
        self.began_s, self.taken = time.monotonic(), 0

    def take(self, most: int) -> tuple[int, int]:
        """First and count of the next samples."""
        if self.began_s is None:
            return self.taken, 0
        passed_s = time.monotonic() - self.began_s
        due = int(passed_s * self.rate_hz * (1 + self.faults.rate_error_ppm * 1e-6))
        due = due if self.limit is None else min(due, self.limit)
        first, count = self.taken, min(most, due - self.taken)
        self.taken += count
        return first, count


@dataclass(slots=True)
class DataLogger:
    """A Keysight N6705C with one output."""

    waveform: Waveform = field(default_factory=lambda: lambda time_s: np.full(len(time_s), 0.1))
    faults: Faults = field(default_factory=Faults)
    voltage_v: float = 3.3
    limit: int | None = None
    identity: str = "Keysight Technologies,N6705C,MY56000123,E.02.08.3189"
    errors: list[str] = field(default_factory=list[str])
    values_asked: int = 0
    timer: Timer = field(init=False)
    is_ready: bool = False
    is_binary: bool = False

    def __post_init__(self) -> None:
        self.timer = Timer(faults=self.faults, limit=self.limit)

    def obey(self, command: str) -> bytes | None:
        """Commands as in Keysight's guide, of channel 1."""
        name, _, rest = command.partition(" ")
        arguments = rest.replace(" ", "").split(",")
        if name.startswith("FORM"):
            self.is_binary |= rest == "REAL"
        elif arguments[-1] != "(@1)":
            raise ValueError('-222,"Data out of range; channel list"')
        elif name == "SENS:ELOG:PER":
            steps = max(10, round(float(arguments[0]) / 20.48e-6))
            self.timer.rate_hz = 1 / (steps * 20.48e-6)
        elif name == "SENS:ELOG:PER?":
            return f"{1 / self.timer.rate_hz:.8E}".encode()
        elif name == "INIT:ELOG":
            self.is_ready = True
        elif name == "TRIG:ELOG" and self.is_ready:
            self.timer.start()
        elif name == "ABOR:ELOG":
            self.is_ready, self.timer.began_s = False, None
        elif name == "FETC:ELOG?":
            return self._records(int(arguments[0]))
        elif not name.startswith(("SENS:ELOG:FUNC:", "TRIG:ELOG:SOUR")):
            raise LookupError(command)
        return None

    def _records(self, most: int) -> bytes:
        if not self.is_binary:
            raise ValueError('-200,"Execution error; this one gives binary only"')
        self.values_asked += 1
        first, count = self.timer.take(most)
        current_a = self.waveform(np.arange(first, first + count) / self.timer.rate_hz)
        return elog_block(current_a, np.full(count, self.voltage_v), first, self.faults)


@dataclass(slots=True)
class WattMeter:
    """A Yokogawa WT310E, or a larger one by its identity."""

    power_w: Callable[[int], float] = lambda place: 50.0
    faults: Faults = field(default_factory=Faults)
    update: str = "100.0E-03"
    identity: str = "YOKOGAWA,WT310E,C3UB12345E,F1.03"
    errors: list[str] = field(default_factory=list[str])
    values_asked: int = 0
    has_headers: bool = False
    """Answers begin with what was asked, as a person may have set it."""
    current_range: str = "1.000E+00"
    items: dict[str, str] = field(default_factory=dict[str, str])

    def obey(self, command: str) -> bytes | None:
        """Commands as in Yokogawa's guide."""
        name, _, rest = command.partition(" ")
        if name.startswith(":NUMERIC:NORMAL:ITEM"):
            self.items[name.removeprefix(":NUMERIC:NORMAL:ITEM")] = rest
        elif name == ":NUMERIC:NORMAL:VALUE?":
            return self._values()
        elif name == ":RATE":
            self.update = f"{float(rest):.4E}"
        elif name == ":RATE?":
            return self._headed(name, self.update)
        elif name in self._ranges():
            return self._headed(name, "300.0E+00" if "VOLTAGE" in name else self.current_range)
        elif name == ":COMMUNICATE:HEADER":
            self.has_headers = rest != "OFF"
        elif name not in (":NUMERIC:FORMAT", ":NUMERIC:NORMAL:NUMBER"):
            raise LookupError(command)
        return None

    def _ranges(self) -> list[str]:
        """Questions for the ranges: larger models have them by element."""
        end = "" if ",WT3" in self.identity and "WT30" not in self.identity else ":ELEMENT1"
        return [f":INPUT:{one}:RANGE{end}?" for one in ("VOLTAGE", "CURRENT")]

    def _headed(self, question: str, answer: str) -> bytes:
        return (f"{question[:-1]} {answer}" if self.has_headers else answer).encode()

    def _values(self) -> bytes:
        place, self.values_asked = self.values_asked, self.values_asked + 1
        power_w = self.power_w(place)
        known = {"U,1": 230.0, "I,1": power_w / 230.0, "P,1": power_w}
        words = [f"{known[self.items[number]]:.4E}" for number in sorted(self.items)]
        if place in self.faults.overload_at:
            words[1:] = ["INF", "INF"]
        if place in self.faults.no_value_at:
            words = ["NAN"] * len(words)
        return ",".join(words).encode()


@dataclass(slots=True)
class Multimeter:
    """A Keysight 34465A, or one that has no memory."""

    waveform: Waveform = field(default_factory=lambda: lambda time_s: np.full(len(time_s), 0.1))
    faults: Faults = field(default_factory=Faults)
    identity: str = "Keysight Technologies,34465A,MY54500123,A.02.14-02.40-02.14-00.49-02-01"
    reading_s: float = 0.0
    limit: int | None = None
    errors: list[str] = field(default_factory=list[str])
    values_asked: int = 0
    timer: Timer = field(init=False)
    is_configured: bool = False
    is_real: bool = False
    """Values are float64, as a program before us has asked for."""

    def __post_init__(self) -> None:
        self.timer = Timer(faults=self.faults, limit=self.limit)

    def obey(self, command: str) -> bytes | None:
        """Commands as in Keysight's guide."""
        name, _, rest = command.partition(" ")
        if name == "FORM:DATA" and "Keysight" in self.identity:
            self.is_real = rest == "REAL"
        elif name == "CONF:CURR:DC":
            self.is_configured = True
        elif name == "READ?":
            return self._reading()
        elif name == "R?":
            return self._memory(int(rest))
        elif name == "SAMP:TIM":
            self.timer.rate_hz = 1 / float(rest)
        elif name == "SAMP:TIM?":
            return f"{1 / self.timer.rate_hz:+.8E}".encode()
        elif name == "INIT":
            self.timer.start()
        elif name == "ABOR":
            self.timer.began_s = None
        elif name not in (
            "CURR:DC:NPLC",
            "CURR:DC:ZERO:AUTO",
            "TRIG:SOUR",
            "SAMP:SOUR",
            "SAMP:COUN",
        ):
            raise LookupError(command)
        return None

    def _reading(self) -> bytes:
        place, self.values_asked = self.values_asked, self.values_asked + 1
        self.timer.began_s = self.timer.began_s or time.monotonic()
        threading.Event().wait(self.reading_s)
        value = self.waveform(np.array([time.monotonic() - self.timer.began_s]))
        return self._shown(spoilt(value, place, self.faults))

    def _memory(self, most: int) -> bytes:
        self.values_asked += 1
        first, count = self.timer.take(most)
        values = self.waveform(np.arange(first, first + count) / self.timer.rate_hz)
        kept = spoilt(values, first, self.faults)[is_kept(first, count, self.faults)]
        shown = self._shown(kept)
        return shown if self.is_real else block(shown)

    def _shown(self, values: Floats) -> bytes:
        return block(values.astype(">f8").tobytes()) if self.is_real else _texts(values)


@dataclass(slots=True)
class Supply:
    """A bench supply that nobody has a driver for."""

    answers: dict[str, Callable[[int], bytes]]
    """Answer to each question, by how many were asked before."""
    identity: str = "MAYNUO,M8811,0,V2.4"
    errors: list[str] = field(default_factory=list[str])
    values_asked: int = 0

    def obey(self, command: str) -> bytes | None:
        """Questions alone: nothing sets it up."""
        place, self.values_asked = self.values_asked, self.values_asked + 1
        return self.answers[command](place)


def steady_supply(answer: bytes) -> Supply:
    """A supply that says the same whenever it is asked for its power."""
    return Supply({"MEAS:POW?": lambda place: answer})


def _texts(values: Floats) -> bytes:
    return b",".join(b"%+.8E" % value for value in values.tolist())


@dataclass(slots=True)
class Server(TcpServer):
    """A model on a socket of this machine; one connection at a time."""

    model: Model
    faults: Faults = field(default_factory=Faults)
    commands: list[str] = field(default_factory=list[str])
    address: str = ""
    """As VISA writes it."""
    _late: dict[str, float] = field(default_factory=dict[str, float])

    def _open(self) -> None:
        self._late = dict(self.faults.late)
        self._listen(0)
        self.address = f"TCPIP::127.0.0.1::{self.port}::SOCKET"

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
                answer = self._answer(command)
                if self._is_gone():
                    if self.faults.does_reset:  # closed with unsent data, in 0 s
                        linger = struct.pack("ii", 1, 0)
                        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
                    return
                if answer is not None:
                    self._send(connection, answer + b"\n")

    def _is_gone(self) -> bool:
        return self.model.values_asked > (self.faults.gone_after or math.inf)

    def _answer(self, command: str) -> bytes | None:
        wrong = next((said for name, said in self.faults.wrong if command.startswith(name)), None)
        if wrong is not None:
            return wrong
        for name in [name for name in self._late if command.startswith(name)]:
            self._over.wait(self._late.pop(name))
        answer = self._obey(command)
        return None if command.startswith(self.faults.mute or "\0") else answer

    def _obey(self, command: str) -> bytes | None:
        """What every instrument knows, and what this one does."""
        if command == "*IDN?":
            return self.model.identity.encode()
        if command == "*CLS":
            self.model.errors.clear()
            return None
        if command in ("SYST:ERR?", ":STATUS:ERROR?"):
            oldest = self.model.errors.pop(0) if self.model.errors else '+0,"No error"'
            return oldest.encode()
        if command.startswith(self.faults.refused or "\0"):
            self.model.errors.append('-221,"Settings conflict"')
            return None
        try:
            return self.model.obey(command)
        except LookupError:
            self.model.errors.append('-113,"Undefined header"')
        except ValueError as exc:
            self.model.errors.append(str(exc))
        return None

    def _send(self, connection: socket.socket, data: bytes) -> None:
        pieces = [data]
        if self.faults.pieces > 1:
            rest = np.array_split(np.frombuffer(data[1:], np.uint8), self.faults.pieces - 1)
            pieces = [data[:1], *(piece.tobytes() for piece in rest)]
        for piece in pieces:
            connection.sendall(piece)
            if len(pieces) > 1:
                self._over.wait(0.002)  # so that they are apart on the way, too
