"""A device dies, or its disk is full: no completed run is lost, and no partial run is visible."""

from __future__ import annotations

import json
import os
import random
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.agents import AgentProcess, Host, wait_until
from support.commands import IMPATIENT, started
from support.disks import fill, small_disk
from support.tools import need_root, need_tool
from support.watchers import At, children_of, is_alive, wait_until_measuring

from edgebench.host.bench.model import open_model
from edgebench.protocol.errors import LinkLost, NoSpace, TransportError
from edgebench.protocol.record import Phase

MODEL = "digits_int8.tflite"
SHORT = (
    *("--quick", "--runs=1", "--duration", "0.3s", "--min-queries", "20"),
    *("--warmup", "1", "--warmup-duration", "0.05s"),
)
WAITS = ("--scenario", "server", "--qps", "100")
"""A run that waits more than it computes."""
LONG = (
    *("--quick", "--runs=1", "--duration", "60s", "--min-queries", "20"),
    *("--warmup", "1", "--warmup-duration", "0.05s", *WAITS),
)


def test_worker_dies_with_its_agent(agent: AgentProcess, paired: Host) -> None:
    """Otherwise a model would keep running without any limits."""
    command = paired.popen("bench", MODEL, "--on", "board", *LONG)
    wait_until_measuring(agent.state)
    children = children_of(agent.pid)
    agent.kill()
    _, errors = command.communicate(timeout=60)
    assert command.returncode == 1
    assert errors.startswith("error: ") or "\nerror: " in errors
    wait_until(lambda: not any(map(is_alive, children)), "worker and sampler are gone")
    agent.start()
    assert agent.status().spooled_count == 0
    assert list((agent.state / "work").iterdir()) == []
    assert paired.lab.runs().empty


def test_spooled_run_survives_a_killed_agent(agent: AgentProcess, paired: Host) -> None:
    """Otherwise a power cut on the device would cost runs that were complete."""
    command = paired.popen(
        *("bench", MODEL, "--on", "board", "--quick", "--runs=1", "--duration", "5s"),
        *WAITS,
    )
    wait_until(lambda: agent.status().running is not None, "device runs")
    command.kill()
    command.communicate()
    wait_until(lambda: agent.status().spooled_count == 1, "run is spooled")
    agent.kill()
    agent.start()
    host_again = Host(paired.folder)
    _repoint(host_again, agent)
    assert host_again.run("bench", MODEL, "--on", "board", *SHORT).returncode in (0, 3)
    assert len(host_again.lab.runs()) == 2


def test_interrupted_push_resumes_where_it_stopped(
    agent: AgentProcess, paired: Host, tmp_path: Path
) -> None:
    """Otherwise a large model over a bad link would start from zero each time."""
    path = tmp_path / "large.tflite"
    path.write_bytes(random.Random(0).randbytes(48 * 2**20))
    model = open_model(path)

    def vanish(done: int, total: int) -> None:
        if done > total // 2 and agent.process is not None:
            agent.kill()

    with paired.lab.connect("board") as client:
        client.acquire()
        with pytest.raises(TransportError):
            client.push_model(model.path, model.sha256, vanish)
    agent.start()
    _repoint(paired, agent)
    with paired.lab.connect("board") as client:
        client.acquire()
        sent = client.push_model(model.path, model.sha256)
    assert 0 < sent < 0.8 * path.stat().st_size
    assert agent.status().models_count == 1


def test_lost_link_is_one_line(agent: AgentProcess, paired: Host) -> None:
    """Otherwise a device that vanishes during a request would cause a traceback."""
    with paired.lab.connect("board") as client:
        agent.kill()
        with pytest.raises(LinkLost, match="connection to board"):
            client.describe()


def test_device_that_falls_silent_is_one_line(agent: AgentProcess, paired: Host) -> None:
    """Otherwise a link that goes down silently would show the traceback of the library's ping."""
    words = ("bench", MODEL, "--on", "board", *LONG)
    with started([*IMPATIENT, *words], paired) as command:
        wait_until_measuring(agent.state)
        os.kill(agent.pid, signal.SIGSTOP)
        try:
            output, errors = command.communicate(timeout=60)
        finally:
            os.kill(agent.pid, signal.SIGCONT)
    assert (command.returncode, output) == (1, "")
    error, hint = [line for line in errors.splitlines() if not line.startswith("run: ")]
    assert error.startswith("error: connection to board")
    assert hint.startswith("hint: ")


@pytest.fixture
def small_agent(tmp_path: Path) -> Iterator[AgentProcess]:
    """An agent whose disk holds 24 MiB."""
    need_root()
    need_tool("mount")
    with small_disk(tmp_path / "small", 24 * 2**20) as disk:
        process = AgentProcess(disk / "agent", options=["--name", "board"]).start()
        yield process
        process.kill()


def test_model_larger_than_the_disk_is_refused_before_it_is_sent(
    small_agent: AgentProcess, host: Host, tmp_path: Path
) -> None:
    """Otherwise a push that cannot succeed would fill the disk of a device."""
    host.lab.pair(small_agent.pairing_string())
    path = tmp_path / "large.tflite"
    path.write_bytes(bytes(32 * 2**20))
    model = open_model(path)
    with host.lab.connect("board") as client:
        client.acquire()
        with pytest.raises(NoSpace, match=r"needs [\d.]+ [KMG]iB, disk has [\d.]+ [KMG]?i?B"):
            client.push_model(model.path, model.sha256)
    assert host.run("bench", MODEL, "--on", "board", *SHORT).returncode in (0, 3)


def test_disk_that_fills_up_during_a_push_is_one_clear_error(
    small_agent: AgentProcess, host: Host, tmp_path: Path
) -> None:
    """Otherwise a full disk would crash the agent, or silently damage the model."""
    host.lab.pair(small_agent.pairing_string())
    path = tmp_path / "large.tflite"
    path.write_bytes(random.Random(0).randbytes(16 * 2**20))
    model = open_model(path)
    fillers: list[Path] = []

    def fill_up(done: int, total: int) -> None:
        if not fillers:
            fillers.append(fill(small_agent.folder))

    with host.lab.connect("board") as client:
        client.acquire()
        with pytest.raises(NoSpace, match="No space left on device"):
            client.push_model(model.path, model.sha256, fill_up)
        fillers[0].unlink()
        assert client.push_model(model.path, model.sha256) <= path.stat().st_size
    assert small_agent.status().models_count == 1


def test_disk_of_the_device_that_fills_up_during_a_run_is_one_line(
    host: Host, tmp_path: Path
) -> None:
    """Otherwise tracebacks would fill a device's log about what `df` shows."""
    need_root()
    need_tool("mount")
    agent = AgentProcess(tmp_path / "agent", options=["--name", "board"])
    agent.folder.mkdir()
    with small_disk(tmp_path / "small", 24 * 2**20) as disk:
        agent.state.symlink_to(disk)  # its log is elsewhere
        agent.start()
        host.lab.pair(agent.pairing_string())
        full = At(Phase.MEASURING, lambda: fillers.append(fill(disk)))
        fillers: list[Path] = []
        with pytest.raises(NoSpace, match="run not spooled: No space left on device"):
            host.lab.bench(
                MODEL,
                runs=1,
                on=["board"],
                preset="quick",
                # The disk is full before the run ends; most of the run is spent waiting.
                scenario="server",
                target_qps=20.0,
                duration_s=3.0,
                is_checked=False,
                watcher=full,
            )
        assert agent.status().running is None
        agent.kill()
    assert "could not be spooled: run not spooled: No space left" in agent.errors()
    assert "Traceback" not in agent.errors()


def _repoint(host: Host, agent: AgentProcess) -> None:
    """Store the agent's new port at the host; mDNS, which would do it, is off in these tests."""
    path = host.folder / "config" / "edgebench" / "host" / "devices.json"
    (device,) = json.loads(path.read_text())
    path.write_text(json.dumps([device | {"port": agent.port}]))
