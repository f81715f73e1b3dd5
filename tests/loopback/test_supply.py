"""A campaign over the supply voltage, with an emulated LPM01A: from its file to the table."""

from __future__ import annotations

import json
import math
import time
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
from support.agents import AgentProcess, Host
from support.lpm01a import Lpm01aEmulator
from support.threaded import outrank
from support.undisturbed import undisturbed

from edgebench.host.result.run import Run

pytestmark = pytest.mark.alone  # a meter's bytes that come late are lost, as on a real one

RATE_HZ = 1000
OHM = 100.0
"""The device is a resistor: its power is the square of the voltage, divided by this."""
STAMP_S = 0.006
"""Longer than the interval in which the emulator is called."""
IDLE_RATIO, LOOK_S = 0.5, 0.05
VOLTAGES = (1.8, 2.5, 3.3)
FILE = """\
schema = 1
name = "voltages"
repeats = 1
[axes]
model = ["digits_int8.tflite"]
device = ["board"]
supply_v = [{voltages}]
[settings]
quick = true
duration = "1s"
cooldown = "0s"
no_check = true
meter = "lpm01a:{path},rate=1k,power"
sync = "arrival"
idle = "2s"
"""


def has_worker(folder: Path) -> bool:
    """Whether a process of this agent runs a model."""
    for command in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):  # it has just ended
            words = command.read_bytes()
            if b"edgebench.agent.worker.main" in words and str(folder).encode() in words:
                return True
    return False


class Resistor(Lpm01aEmulator):
    """A unit with the resistor, which sends its stamps when they are due, as a real one."""

    folder: Path
    """Of the agent, whose model switches the resistor on."""
    looked_s = 0.0
    is_on = False

    def _run(self) -> None:
        outrank()
        super()._run()

    def stream(self) -> None:
        """Samples up to now."""
        assert self.started_s is not None
        passed_s = time.monotonic() - self.started_s
        if (stamp_s := math.ceil(passed_s) - passed_s) < STAMP_S:
            time.sleep(stamp_s)
        if time.monotonic() - self.looked_s > LOOK_S:
            self.is_on, self.looked_s = has_worker(self.folder), time.monotonic()
        sample_j = self.voltage_v**2 / OHM / RATE_HZ * (1.0 if self.is_on else IDLE_RATIO)
        self.waveform = lambda time_s: np.full(len(time_s), sample_j)
        super().stream()


def campaign(folder: Path, path: str, voltages: str) -> Path:
    """A campaign file with these voltages."""
    file = folder / "voltages.toml"
    file.write_text(FILE.format(path=path, voltages=voltages))
    return file


def runs_of(host: Host, file: Path) -> list[Run]:
    """The runs of a campaign."""
    result = host.run("campaign", "run", str(file), timeout_s=300)
    assert result.returncode in (0, 3), result.stderr
    document = json.loads(host.run("campaign", "status", "--json").stdout)
    return [host.lab.store.run(row["run_id"]) for row in document["runs"]]


def disturbance(runs: list[Run]) -> str | None:
    """What another process did: the host has read the stamps of a recording milliseconds late."""
    energies = [run.metrics.energy for run in runs if run.metrics.energy]
    late = [of.refused for of in energies if of.refusal and of.refusal[0].subject == "rate"]
    return late[0] if late else None


@pytest.mark.timeout(400)
def test_three_voltages_are_one_table_of_energies(tmp_path: Path) -> None:
    """Otherwise cells would have the energy of another voltage, or no common table."""
    agent = AgentProcess(tmp_path / "agent", options=["--name", "board"]).start()
    try:
        host = Host(tmp_path / "host")
        host.lab.pair(agent.pairing_string())
        emulator = Resistor()
        emulator.folder = tmp_path / "agent"
        with emulator:
            refused = campaign(tmp_path, emulator.path, "1.8, 5.0")
            result = host.run("campaign", "run", str(refused))
            assert result.returncode == 2
            assert "LPM01A gives 1.8 to 3.3 V, got 5 V" in result.stderr
            assert emulator.commands == [], "nothing was begun"
            file = campaign(tmp_path, emulator.path, ", ".join(map(str, VOLTAGES)))
            runs = undisturbed(lambda: runs_of(host, file), disturbance)
            assert emulator.voltage_v == 3.3, "as before"
        energies = [run.metrics.energy for run in runs]
        assert [run.conditions.supply_v for run in runs] == list(VOLTAGES)
        for voltage_v, energy in zip(VOLTAGES, energies, strict=True):
            assert energy is not None
            assert energy.refused is None
            assert energy.supply_v == voltage_v
            power_w, u95_w = energy.power_w_mean, energy.power_w_mean_u95_absolute
            assert power_w is not None
            assert u95_w is not None
            assert abs(power_w - voltage_v**2 / OHM) <= u95_w
        table = host.run("campaign", "status").stdout
        for voltage_v in VOLTAGES:
            rows = [line for line in table.splitlines() if f"supply {voltage_v:g} V" in line]
            assert any("J" in row and "±" in row for row in rows), table
    finally:
        agent.kill()
