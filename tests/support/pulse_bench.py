"""A bench with a board in energy mode, its interface board and a meter, on three pseudo-terminals.

The board is our own firmware as a program. Its pin is a file with a line for each pulse, on the
clock of this machine, which the meters' doubles read (`pulse_instruments.py`).
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from edgebench.firmware_bridge.generate import generate, model_id_of
from edgebench.host.result.energy import EnergyResult
from support import pulse_instruments
from support.agents import AgentProcess, Host
from support.firmware_process import built
from support.pulse_instruments import ACTIVE_W, SUPPLY_V
from support.reference_kernels import BUILT_IN
from support.threaded import outrank

INFERENCE_US = 2000
"""Least time of an inference on the emulated board; computing takes a tenth of it."""
POWER_STEP_W = 5e-6
"""Tolerance of the mean power: 0.05 % of 10 mW, as a PPK2 counts in steps of 46 µA."""
LATE_MAX_S = 3e-3
"""Two samples of a PowerShield, one at each end of a window; and the pin's own file is late."""


@dataclass(frozen=True, slots=True)
class Instruments:
    """The process with the doubles, each at a port of its own."""

    process: subprocess.Popen[str]

    def ask(self, command: str) -> str:
        """What it answers: the path of a port."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(command + "\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline().strip()
        assert answer, "the instruments have ended"
        return answer


@dataclass(frozen=True)
class PulseBench:
    """A host, and an agent with the board."""

    host: Host
    device: str
    """Name of the board for `--on`."""
    pin: Path
    instruments: Instruments
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
            f"power {1e3 * energy.power_w_mean:.4f} mW": abs(energy.power_w_mean - ACTIVE_W)
            > POWER_STEP_W + ACTIVE_W * LATE_MAX_S / times_s.min(),
            f"{gross_j:.6g} J ± {u95_j:.2g}, not {truth_j:.6g} J": abs(gross_j - truth_j) > u95_j,
        }
        return [text for text, is_wrong in wrong.items() if is_wrong]

    def new_lpm01a(self) -> str:
        """A PowerShield that was plugged in now, as `--meter` takes it; the last one is gone."""
        path = self.instruments.ask("lpm01a")
        return f"lpm01a:{path},supply={SUPPLY_V},rate=1k,format=ascii,events=fal"


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
        command = [str(binary), *options, "--inference-us", str(INFERENCE_US)]
        process = stack.enter_context(subprocess.Popen(command, stdout=subprocess.PIPE, text=True))
        stack.callback(process.kill)
        outrank(process.pid)
        assert process.stdout is not None
        assert process.stdout.readline()
        command = [sys.executable, pulse_instruments.__file__, str(pin), str(port)]
        talk = subprocess.PIPE
        instruments = Instruments(
            stack.enter_context(subprocess.Popen(command, stdin=talk, stdout=talk, text=True))
        )
        stack.callback(instruments.process.kill)
        outrank(instruments.process.pid)
        address = instruments.ask("interface board") if is_behind_interface else str(port)
        served = f"ppk2:{instruments.ask('ppk2')},supply={SUPPLY_V}"
        options = ["--board", f"pulsed={address}", "--meter", served]
        agent = AgentProcess(folder / "agent", options=options)
        agent.start()
        stack.callback(agent.kill)
        host = Host(folder / "host")
        host.lab.pair(agent.pairing_string())
        yield PulseBench(
            host, f"{host.devices[0].name}/pulsed", pin, instruments, f"agent:{served}"
        )
