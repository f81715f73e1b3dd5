"""Emulated boards through a real agent and a real QEMU: measured, compared, and refused."""

from __future__ import annotations

import importlib.util
import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from support.agents import AgentProcess, Host, end_local_agent
from support.tools import need_tool

from edgebench.host.bench.builtin import find_model
from edgebench.host.bench.run import new_run_id
from edgebench.host.client import Client
from edgebench.protocol.errors import LeaseHeld
from edgebench.protocol.messages import RunEnded
from edgebench.protocol.record import Outcome
from edgebench.protocol.spec import Engine, RunSpec

ROOT = Path(__file__).resolve().parents[2]
MODEL = "digits_int8.tflite"
BOARD = "mps2-an386"
PLACE = f"qemu:{BOARD}"


@pytest.fixture
def host(tmp_path: Path) -> Iterator[Host]:
    """A host whose own agent has QEMU."""
    need_tool("qemu-system-arm")
    made = Host(tmp_path / "host")
    yield made
    end_local_agent(made)


def measured(host: Host, store: Path) -> dict[str, Any]:
    """A run of the model on the emulated board."""
    result = host.run("bench", MODEL, "--on", PLACE, "--json", "--store", str(store))
    assert result.returncode == 0, result.stderr
    (run,) = json.loads(result.stdout)["runs"]
    return dict(run)


def slowed(sources: Path, folder: Path, board: str, spins: int) -> None:
    """Firmware whose every inference spins so many times, into a folder."""
    path = ROOT / "devtools/build_firmware.py"
    spec = importlib.util.spec_from_file_location("build_firmware", path)
    assert spec is not None
    assert spec.loader is not None
    building = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = building  # where dataclasses look for their module
    spec.loader.exec_module(building)
    shutil.copytree(ROOT / "firmware_bridge/firmware", sources)
    inference = sources / "device/inference.c"
    call = "\t\tmodel_run(&device.model);\n\t\tuint64_t now"
    text = inference.read_text()
    assert text.count(call) == 1
    spin = f"\t\tfor (volatile uint32_t spin = 0; spin < {spins}; spin++) {{}}\n"
    inference.write_text(text.replace(call, spin + call))
    folder.mkdir()
    command = building.BOARDS[board].command(folder / f"{board}.elf")
    subprocess.run(command, cwd=sources, check=True)


def test_board_is_measured_like_any_device(host: Host, tmp_path: Path) -> None:
    """An emulated board has a latency, another number each time, or a run that does not verify."""
    store = tmp_path / "store"
    first, second = measured(host, store), measured(host, store)
    assert first["verdict"]["state"] == "valid", first["verdict"]
    assert (first["emulated"], first["device"]["arch"]) == (True, "cortex-m4")
    metrics = first["metrics"]
    assert metrics["latency_ns"] is metrics["throughput_per_s"] is None
    count = metrics["instructions_per_inference"]
    assert 1e4 < count < 1e7
    assert second["metrics"]["instructions_per_inference"] == pytest.approx(count, abs=10)
    firmware = first["conditions"]["firmware"]
    assert firmware["emulator"]["machine"] == BOARD
    assert len(firmware["sha256"]) == 64
    ids = [first["run_id"], second["run_id"]]
    console = store / "runs" / ids[0] / "raw/console.log"
    assert "edgebench-mps2-an386" in "".join(
        json.loads(line)["text"] for line in console.read_text().splitlines()
    )
    at = ("--store", str(store))
    assert host.run("verify", ids[0], *at).returncode == 0
    compared = host.run("compare", ids[0], "--against", ids[1], *at)
    assert (compared.returncode, "exact" in compared.stdout + compared.stderr) == (0, True)
    shown = host.run("show", ids[0], *at).stdout
    assert "EMULATED" in shown
    assert f"{count:,.0f}" in shown


@pytest.mark.parametrize("share", [0.02, 0.001])
def test_slower_kernel_is_a_regression_by_one_run_a_side(
    host: Host, tmp_path: Path, share: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A change of a kernel that costs a thousandth of the instructions passes."""
    need_tool("arm-none-eabi-gcc")
    store = tmp_path / "store"
    before = measured(host, store)
    count = before["metrics"]["instructions_per_inference"]
    spins = round(share * count / 6)  # instructions of a turn: a load, an add, a store, a branch …
    slowed(tmp_path / "sources", tmp_path / "elf", BOARD, spins)
    end_local_agent(host)
    monkeypatch.setenv("EDGEBENCH_FIRMWARE", str(tmp_path / "elf"))
    other = Host(tmp_path / "other")  # with an agent of its own, which has this variable
    try:
        after = measured(other, store)
    finally:
        end_local_agent(other)
    assert after["metrics"]["instructions_per_inference"] == pytest.approx(
        count * (1 + share), rel=share / 2
    )
    sides = (before["run_id"], "--against", after["run_id"])
    refused = host.run("compare", *sides, "--store", str(store))
    assert (refused.returncode, "firmware" in refused.stderr) == (2, True)
    worse = host.run("compare", *sides, "--allow", "firmware", "--store", str(store))
    assert worse.returncode == 4, worse.stdout + worse.stderr


def test_board_that_is_none_is_told_with_those_that_are(host: Host) -> None:
    """A typing mistake in the name of a board, or a machine without QEMU, ends in a traceback."""
    wrong = host.run("bench", MODEL, "--on", "qemu:mps2-an38")
    assert wrong.returncode != 0
    assert PLACE in wrong.stderr


def test_board_without_an_emulator_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A user reads that there is no such seat, and not what is missing."""
    monkeypatch.setenv("PATH", str(tmp_path))
    host = Host(tmp_path / "host")
    try:
        refused = host.run("bench", MODEL, "--on", PLACE)
    finally:
        end_local_agent(host)
    assert refused.returncode != 0
    assert "apt install qemu-system-arm" in refused.stderr


def started(client: Client, spec: RunSpec) -> str:
    """A run that is in progress."""
    model = find_model(MODEL)
    client.acquire()
    client.push_model(model.path, model.sha256)
    run_id = new_run_id()
    client.start_run(
        run_id,
        spec,
        sha256=model.sha256,
        model_name=model.name,
        size_bytes=model.size_bytes,
    )
    return run_id


def outcome(client: Client) -> Outcome:
    """How the followed run ends."""
    *_, last = client.follow_run()
    assert isinstance(last, RunEnded)
    return last.outcome


def test_boards_run_side_by_side_but_never_beside_their_machine(tmp_path: Path) -> None:
    """A run of the machine is disturbed by emulators, or two boards wait for each other."""
    need_tool("qemu-system-arm")
    target = RunSpec("firmware", engine=Engine.TARGET)
    here = RunSpec("litert", duration_s=0.2, min_query_count=1, warmup_duration_s=0.0)
    agent, host = AgentProcess(tmp_path / "agent"), Host(tmp_path / "host")
    with ExitStack() as stack:
        agent.start()
        stack.callback(agent.kill)
        host.lab.pair(agent.pairing_string())
        name = host.devices[0].name
        machine, one, other = (
            stack.enter_context(host.lab.connect(place))
            for place in (name, f"{name}/qemu:mps2-an385", f"{name}/qemu:mps3-an547")
        )
        run_id = started(one, target)
        started(other, target)
        with pytest.raises(LeaseHeld, match=rf"{run_id}|qemu:"):
            started(machine, here)
        assert (outcome(one), outcome(other)) == (Outcome.COMPLETED, Outcome.COMPLETED)
        started(machine, here)
        with pytest.raises(LeaseHeld, match="machine"):
            started(one, target)
        assert outcome(machine) is Outcome.COMPLETED
