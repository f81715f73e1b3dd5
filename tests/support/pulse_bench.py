"""A bench with a board in energy mode, its interface board and a meter, on three pseudo-terminals.

The board is our own firmware as a program. Its pin is a file with a line for each pulse, on the
clock of this machine, which the meters' doubles read: they make the edges of it, and the power,
which is higher between the two pulses of a window than beside it. The meters are late by LAG_S, so
that a pulse is known before its sample is due; one that is later still has its edge and its change
of power where the meter then is.
"""

from __future__ import annotations

import math
import os
import subprocess
import time
import tty
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from numpy.typing import NDArray

from edgebench.firmware_bridge.generate import generate, model_id_of
from edgebench.host.result.energy import EnergyResult
from edgebench.meters.ppk2.words import RATE_HZ
from support.agents import AgentProcess, Host
from support.firmware_process import built
from support.lpm01a import Lpm01aEmulator
from support.ppk2 import Ppk2Emulator
from support.pty_device import PortFaults, PtyDevice
from support.reference_kernels import BUILT_IN

Floats = NDArray[np.float64]
ACTIVE_W, IDLE_W = 0.010, 0.001
SUPPLY_V = 3.3
LAG_S = 0.3
LATE_MAX_S = 3e-3
"""Two samples of a PowerShield, one at each end of a window; and the pin's own file is late."""
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


@dataclass(frozen=True)
class PulseBench:
    """A host, and an agent with the board."""

    host: Host
    device: str
    """Name of the board for `--on`."""
    pin: Path
    ppk2: str
    """A PPK2 that the agent serves, as `--meter` takes it."""

    def falls_ns(self) -> list[int]:
        """Pulses of the board so far, clock of this machine."""
        return [int(line) for line in self.pin.read_text().split()]

    def errors_of(self, energy: EnergyResult) -> list[str]:
        """What is wrong with the energy of the last run, beside what was simulated."""
        gross_j, u95_j = energy.gross_j_per_inference, energy.u95_absolute_j
        if gross_j is None or u95_j is None or energy.power_w_mean is None:
            return [f"refused: {energy.refused}"]
        edges_s = np.array(self.falls_ns()[-2 * len(energy.edge_windows) :]).reshape(-1, 2) / 1e9
        truth_s = np.diff(edges_s)[:, 0]
        times_s = np.array([one.duration_s for one in energy.edge_windows])
        counts = np.array([one.inference_count for one in energy.edge_windows])
        truth_j = float(np.sort(ACTIVE_W * truth_s / counts)[(len(counts) - 1) // 2])
        late_s = float(np.abs(times_s - truth_s).max())
        wrong = {
            f"times of windows off by {late_s:.3g} s": late_s > LATE_MAX_S,
            f"power {1e3 * energy.power_w_mean:.4f} mW": abs(energy.power_w_mean / ACTIVE_W - 1)
            > LATE_MAX_S / times_s.min(),
            f"{gross_j:.6g} J ± {u95_j:.2g}, not {truth_j:.6g} J": abs(gross_j - truth_j) > u95_j,
        }
        return [text for text, is_wrong in wrong.items() if is_wrong]

    @contextmanager
    def lpm01a(self) -> Iterator[str]:
        """A PowerShield, as `--meter` takes it."""
        with PulsedLpm01a(pin=PinSignal(self.pin)) as meter:
            yield f"lpm01a:{meter.path},supply={SUPPLY_V},rate=1k,format=ascii,events=fal"


@contextmanager
def pulse_bench(*, is_behind_interface: bool) -> Iterator[PulseBench]:
    """The board in energy mode with the built-in model, behind an interface board or not."""
    binary = built("posix", "gcc")
    with TemporaryDirectory(prefix="edgebench-") as name, ExitStack() as stack:
        folder = Path(name)
        blob, pin, port = folder / "blob", folder / "pin", folder / "tty-board"
        data, model_id = BUILT_IN.read_bytes(), model_id_of(BUILT_IN.stem)
        blob.write_bytes(generate(data, model_id=model_id, input_encoding="int8").data)
        options = ["--energy", "--pin", str(pin), "--model", str(blob), "--link", str(port)]
        command = [str(binary), *options]
        process = stack.enter_context(subprocess.Popen(command, stdout=subprocess.PIPE, text=True))
        stack.callback(process.kill)
        assert process.stdout is not None
        assert process.stdout.readline()
        address = str(port)
        if is_behind_interface:
            address = stack.enter_context(InterfaceBoard(board=port)).path
        ppk2 = stack.enter_context(PulsedPpk2(pin=PinSignal(pin)))
        served = f"ppk2:{ppk2.path},supply={SUPPLY_V}"
        options = ["--board", f"pulsed={address}", "--meter", served]
        agent = AgentProcess(folder / "agent", options=options)
        agent.start()
        stack.callback(agent.kill)
        host = Host(folder / "host")
        host.lab.pair(agent.pairing_string())
        yield PulseBench(host, f"{host.devices[0].name}/pulsed", pin, f"agent:{served}")
