"""Meters that see the pulses of a board, and its interface board, in a process of their own.

    python pulse_instruments.py PIN BOARD     # then lines: lpm01a, ppk2, interface board

A real instrument shares no interpreter with the host.

The pin is a file with a line for each pulse, on the clock of this machine. The meters make their
edges of it, and the power, which is higher between the two pulses of a window than beside it. They
are late by LAG_S, so that a pulse is known before its sample is due; one that is later still has
its edge and its change of power where the meter then is.
"""

from __future__ import annotations

import math
import os
import sys
import time
import tty
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from edgebench.meters.ppk2.words import RATE_HZ
from support.lpm01a import Lpm01aEmulator
from support.ppk2 import Ppk2Emulator
from support.pty_device import PortFaults, PtyDevice

Floats = NDArray[np.float64]
ACTIVE_W, IDLE_W = 0.010, 0.001
SUPPLY_V = 3.3
LAG_S = 0.3
TICK_S = 0.006
"""Interval in which the doubles are called."""
LOW_S = 1e-3
"""How long the pin is low. Source: the reference counts 100 000 instructions that do nothing."""
PIN_INPUT, HUM_INPUT = 3, 0
"""Inputs of the PPK2: with the pin, and open beside the mains."""
HUM_HZ = 50


@dataclass(slots=True)
class PinSignal:
    """Pulses of a board, and the power that goes with them, on a meter's clock."""

    path: Path
    falls_s: list[float] = field(default_factory=list[float])
    """On the clock of this machine, and then that of the meter."""
    _read_bytes: int = 0
    _count: int = 0

    def read(self, began_s: float, known_until_s: float) -> None:
        """Take new pulses; what the meter has sent up to a time of its own is as it was."""
        with self.path.open("rb") as file:
            file.seek(self._read_bytes)
            *lines, _ = file.read().split(b"\n")
        self._read_bytes += sum(len(line) + 1 for line in lines)
        for line in lines:
            self._count += 1
            fall_s = int(line) / 1e9 - began_s
            if self._count > 1:  # the first is the board's start
                self.falls_s.append(max(fall_s, known_until_s))

    def energy_j(self, time_s: Floats) -> Floats:
        """Energy from the meter's begin to these times."""
        bounds_s = np.array([0.0, *self.falls_s, max(time_s[-1], 0.0) + 1e6])
        powers_w = np.resize([IDLE_W, ACTIVE_W], len(bounds_s) - 1)
        passed_j = np.concatenate([[0.0], np.cumsum(np.diff(bounds_s) * powers_w)])
        energies_j: Floats = np.interp(time_s, bounds_s, passed_j)
        return energies_j


@dataclass(slots=True, kw_only=True)
class PulsedLpm01a(Lpm01aEmulator):
    """A PowerShield whose input D7 has the pin."""

    pin: PinSignal
    now_s: float = 0.0

    def due(self, rate_hz: float) -> int:
        """How many samples there are at the moment up to which the pin is known."""
        return _due(self, rate_hz)

    def stream(self) -> None:
        """Samples and edges up to now; the first sample is as late as the others."""
        assert self.started_s is not None
        passed_s = time.monotonic() - self.started_s - LAG_S
        if passed_s < 0:
            return
        if (stamp_s := math.ceil(passed_s) - passed_s) < TICK_S:
            time.sleep(stamp_s)  # a unit sends its stamp when it is due
        self.now_s = time.monotonic()
        self.pin.read(self.started_s, (self.emitted + 0.5) / self.rate_hz)
        records: dict[int, bytes] = {}
        for number, fall_s in enumerate(self.pin.falls_s):
            index = int(fall_s * self.rate_hz)
            records[index] = records.get(index, b"") + b"event %02d fal\r\n" % number
        self.faults = replace(self.faults, records=tuple(records.items()))
        self.waveform = self._energies_j
        super(PulsedLpm01a, self).stream()

    def _energies_j(self, time_s: Floats) -> Floats:
        ends_s = np.append(time_s, time_s[-1] + 1 / self.rate_hz)
        energies_j: Floats = np.diff(self.pin.energy_j(ends_s))
        return energies_j


@dataclass(slots=True, kw_only=True)
class PulsedPpk2(Ppk2Emulator):
    """A PPK2 with the pin at one of its logic inputs."""

    pin: PinSignal
    now_s: float = 0.0

    def due(self, rate_hz: float) -> int:
        """As above."""
        return _due(self, rate_hz)

    def start(self) -> None:
        """Stream from now on, with pulses of this session only."""
        self.pin = PinSignal(self.pin.path)
        super(PulsedPpk2, self).start()

    def stream(self) -> None:
        """Words up to now."""
        assert self.started_s is not None
        self.now_s = time.monotonic()
        self.pin.read(self.started_s, (self.emitted + 0.5) / RATE_HZ)
        self.waveform = self._sampled
        super(PulsedPpk2, self).stream()

    def _sampled(self, time_s: Floats) -> tuple[Floats, NDArray[np.uint8]]:
        falls_s = np.array([-1.0, *self.pin.falls_s])
        last = np.searchsorted(falls_s, time_s, side="right") - 1
        power_w = np.where(last % 2 == 1, ACTIVE_W, IDLE_W)
        is_low = time_s - falls_s[last] < LOW_S
        is_humming = (time_s * 2 * HUM_HZ).astype(np.int64) % 2
        digital = np.where(is_low, 0, 1 << PIN_INPUT) | is_humming << HUM_INPUT
        return power_w / SUPPLY_V, digital.astype(np.uint8)


def _due(meter: PulsedLpm01a | PulsedPpk2, rate_hz: float) -> int:
    assert meter.started_s is not None
    return int(max(0.0, meter.now_s - meter.started_s - LAG_S) * rate_hz)


@dataclass(slots=True, kw_only=True)
class InterfaceBoard(PtyDevice):
    """MLPerf Tiny's interface board between the host and the port of a board."""

    board: Path
    _board_fd: int = -1
    _command: bytes = b""
    _line: bytes = b""

    @property
    def port_faults(self) -> PortFaults:
        """Nothing goes wrong."""
        return PortFaults()

    def _open(self) -> None:
        super(InterfaceBoard, self)._open()
        self._board_fd = os.open(self.board, os.O_RDWR | os.O_NOCTTY | os.O_NONBLOCK)
        tty.setraw(self._board_fd)
        self.is_streaming = True
        os.close(self._slave_fd)  # a port that somebody has open is asked nothing
        self._slave_fd = -1

    def _close(self) -> None:
        super(InterfaceBoard, self)._close()
        os.close(self._board_fd)

    def _listen(self) -> None:
        try:
            super(InterfaceBoard, self)._listen()
        except OSError:  # nobody has it open
            if self._over.is_set():
                raise

    def hear(self, data: bytes) -> None:
        """Commands end in a percent sign; those with a prefix are the board's."""
        *commands, self._command = (self._command + data).split(b"%")
        for command in commands:
            passed = command.removeprefix(b"dut ")
            if passed == command:
                self.send(b"tinyML Enhanced Interface Board\r\nm-ready\r\n")
                continue
            self.send(b"m-dut-passthrough(%s)\r\nm-ready\r\n" % passed)
            os.write(self._board_fd, passed + b"%")

    def stream(self) -> None:
        """Pass on what the board says, each line with a mark."""
        with suppress(BlockingIOError):
            while data := os.read(self._board_fd, 4096):
                *lines, self._line = (self._line + data).split(b"\n")
                self.send(b"".join(b"[dut]: %s\n" % line for line in lines))


def main() -> None:
    pin, board = map(Path, sys.argv[1:])
    with ExitStack() as plugged:
        shield = plugged.enter_context(ExitStack())
        for line in sys.stdin:
            name = line.strip()
            instrument: PtyDevice
            if name == "lpm01a":
                shield.close()  # the one before is unplugged
                instrument = shield.enter_context(PulsedLpm01a(pin=PinSignal(pin)))
            elif name == "ppk2":
                instrument = plugged.enter_context(PulsedPpk2(pin=PinSignal(pin)))
            else:
                instrument = plugged.enter_context(InterfaceBoard(board=board))
            print(instrument.path, flush=True)


if __name__ == "__main__":
    main()
