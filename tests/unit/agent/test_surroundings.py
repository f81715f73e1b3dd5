"""A seat shows its own system, never the machine that happens to run the agent."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from support.boards import BOARDS, make_board

from edgebench.agent.coolest import COOLEST_FILE
from edgebench.agent.governor import KEPT_FILE
from edgebench.agent.simulated import find_simulator
from edgebench.agent.surroundings import GUARD_HZ, LinuxSurroundings, SimulatedSurroundings
from edgebench.agent.system import device_identity, load_1m
from edgebench.device_profiles.match import match_profile
from edgebench.protocol.spec import RunSpec

BOARD = "raspberry-pi-5-bare"
FREE_MEMORY = "MemTotal:  1000 kB\nMemAvailable:  400 kB\n"


@pytest.fixture
def simulated(tmp_path: Path) -> SimulatedSurroundings:
    """The surroundings of a simulated board."""
    simulation = find_simulator().simulate(BOARD, tmp_path / "simulated")
    profile = match_profile(device_identity(simulation.root))
    return SimulatedSurroundings(profile, "board", simulation)


def show(root: Path, name: str, text: str) -> None:
    """Let the system report something other than this machine does."""
    (root / name).unlink()
    (root / name).write_text(text)


def test_environment_of_a_simulated_board_comes_from_its_root(
    simulated: SimulatedSurroundings,
) -> None:
    """Otherwise load, memory and governor would be those of the machine that runs the agent."""
    show(simulated.root, "proc/loadavg", "7.25 3.00 1.00 1/200 4711\n")
    show(simulated.root, "proc/meminfo", FREE_MEMORY)
    environment = simulated.environment()
    assert (environment.load_1m, simulated.load_1m()) == (7.25, 7.25)
    assert environment.memory_available_bytes == 400 * 1024
    assert environment.cpu.governor == "performance"
    assert environment.cpu.freq_hz_max == 2_400_000_000
    simulated.change_settings(RunSpec("onnx", governor="powersave"))
    assert simulated.environment().cpu.governor == "powersave"
    simulated.restore_settings()
    assert simulated.environment().cpu.governor == "performance"


def test_load_that_makes_no_sense_is_none(simulated: SimulatedSurroundings) -> None:
    """Otherwise a damaged file would end a run."""
    for text in ("", "1.0", "a b c"):
        show(simulated.root, "proc/loadavg", text)
        assert simulated.load_1m() is None, text
    (simulated.root / "proc/loadavg").unlink()
    assert simulated.load_1m() is None


def test_simulated_board_computes_with_the_load_of_this_machine(
    simulated: SimulatedSurroundings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise a simulated run that was disturbed would look quiet."""
    assert simulated.load_1m() is not None
    assert (simulated.root / "proc/loadavg").readlink() == Path("/proc/loadavg")
    monkeypatch.setattr("os.getloadavg", lambda: (0.5, 0.0, 0.0))
    assert load_1m() == 0.5


def test_sampler_watches_the_root_of_the_seat(simulated: SimulatedSurroundings) -> None:
    """Otherwise a seat's sampler would read the heat of another seat, or the guard would sleep."""
    job = simulated.sampler_job(RunSpec("onnx", telemetry_rate_hz=0.0), 4321)
    assert (job.root, job.worker_pid) == (str(simulated.root), 4321)
    assert (job.rate_hz, job.abort_c) == (GUARD_HZ, simulated.expected.abort_c)
    assert simulated.has_thermometer
    assert simulated.temp_c() is not None


def test_two_boards_keep_their_governors_and_temperatures_apart(tmp_path: Path) -> None:
    """Otherwise an agent of two boards would restore the governor of one on the other."""
    made: list[LinuxSurroundings] = []
    for name in ("a", "b"):
        root = make_board(tmp_path / name / "root", BOARDS["rock_5b"])
        profile = match_profile(device_identity(root))
        state = tmp_path / name
        made.append(LinuxSurroundings(profile, f"id-{name}", state=state, root=root))
    first, second = made
    first.change_settings(RunSpec("onnx", governor="powersave"))
    assert first.environment().cpu.governor == "powersave"
    assert second.environment().cpu.governor != "powersave"
    assert (tmp_path / "a" / KEPT_FILE).exists()
    assert not (tmp_path / "b" / KEPT_FILE).exists()
    second.restore_settings()
    assert first.environment().cpu.governor == "powersave"
    for name in ("a", "b"):
        kept = tmp_path / name / COOLEST_FILE
        assert not kept.exists() or list(json.loads(kept.read_text())) == [f"id-{name}"]
