"""Everything that can die, dies at the worst moment: no completed run is lost, no half one seen."""

from __future__ import annotations

import json
import os
import random
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.agents import AgentProcess, Host, wait_until
from support.disks import fill, read_only, small_disk
from support.tools import need_root, need_tool
from support.watchers import At

from edgebench.host.measure import open_model
from edgebench.host.watcher import Watcher
from edgebench.protocol.errors import LinkLost, NoSpace, TransportError, WorkerDied
from edgebench.protocol.messages import Progress
from edgebench.protocol.record import Phase
from edgebench.protocol.spec import Limits

MODEL = "digits_int8.tflite"
SHORT = ("--quick", "--duration", "0.3s", "--min-queries", "20", "--warmup", "1")
MEASURING_AFTER_S = 1.5
"""Processor time of a worker; a built-in model is loaded and warmed up by then."""
LONG = ("--quick", "--duration", "60s", "--min-queries", "20", "--warmup", "1")


def test_killed_worker_ends_its_run_with_a_reason(agent: AgentProcess, paired: Host) -> None:
    """A crash inside a runtime takes the daemon down, or the host never hears why."""
    command = paired.popen("bench", MODEL, "--on", "board", *LONG)
    wait_until(lambda: _worker_is_measuring(agent), "worker measures")
    os.kill(_worker_pid(agent), signal.SIGKILL)
    _, errors = command.communicate(timeout=30)
    assert command.returncode == 1
    assert "worker was killed by SIGKILL while" in errors
    assert "Traceback" not in errors
    assert paired.run("bench", MODEL, "--on", "board", *SHORT).returncode in (0, 3)
    assert agent.status().spooled_count == 0


def test_run_that_takes_too_long_keeps_what_it_measured(agent: AgentProcess, paired: Host) -> None:
    """A device that throttles to a third of its speed loses a run of an hour."""
    limits = Limits(measure_timeout_s=2.0)
    [run] = paired.lab.bench(MODEL, on=["board"], preset="quick", duration_s=60.0, limits=limits)
    assert run.verdict == "invalid"
    assert run.document["verdict"]["rules"][0]["detail"] == "run interrupted"
    assert run.metrics["latency_ns"]["count"] > 20
    assert agent.status().spooled_count == 0


def test_worker_dies_with_its_agent(agent: AgentProcess, paired: Host) -> None:
    """A model runs on without anybody who limits it."""
    command = paired.popen("bench", MODEL, "--on", "board", *LONG)
    wait_until(lambda: _worker_is_measuring(agent), "worker measures")
    children = _children(agent.pid)
    agent.kill()
    _, errors = command.communicate(timeout=60)
    assert command.returncode == 1
    assert errors.startswith("error: ") or "\nerror: " in errors
    wait_until(lambda: not any(map(_is_alive, children)), "worker and sampler are gone")
    agent.start()
    assert agent.status().spooled_count == 0
    assert list((agent.state / "work").iterdir()) == []
    assert paired.lab.runs().empty


def test_run_of_a_killed_host_is_collected_by_the_next(agent: AgentProcess, paired: Host) -> None:
    """A laptop that dies costs the run that the device finished without it."""
    command = paired.popen(
        "bench", MODEL, "--on", "board", "--quick", "--duration", "5s", "--accuracy", "digits"
    )
    wait_until(lambda: _worker_is_measuring(agent), "worker measures")
    command.kill()
    command.communicate()
    wait_until(lambda: agent.status().spooled_count == 1, "run is spooled")
    result = paired.run("bench", MODEL, "--on", "board", *SHORT)
    assert result.returncode in (0, 3), result.stderr
    assert "had finished while no host was there" in result.stderr
    assert len(paired.lab.runs()) == 2
    assert agent.status().spooled_count == 0
    first = paired.lab.run(min(paired.lab.runs()["run_id"]))
    assert first.metrics["accuracy"]["sample_count"] > 0, "the host knew the labels, and died"
    assert first.document["conditions"]["clock"] is not None
    for run_id in paired.lab.runs()["run_id"]:
        assert paired.run("verify", run_id).returncode == 0


def test_spooled_run_survives_a_killed_agent(agent: AgentProcess, paired: Host) -> None:
    """A power cut on the device costs runs that were complete."""
    command = paired.popen("bench", MODEL, "--on", "board", "--quick", "--duration", "5s")
    wait_until(lambda: _worker_is_measuring(agent), "worker measures")
    command.kill()
    command.communicate()
    wait_until(lambda: agent.status().spooled_count == 1, "run is spooled")
    agent.kill()
    agent.start()
    host_again = Host(paired.folder)
    _repoint(host_again, agent)
    assert host_again.run("bench", MODEL, "--on", "board", *SHORT).returncode in (0, 3)
    assert len(host_again.lab.runs()) == 2


@pytest.mark.parametrize("seed", range(4))
def test_host_killed_at_any_moment_leaves_no_half_run(
    agent: AgentProcess, paired: Host, seed: int
) -> None:
    """A run directory appears before it is whole, or a run is lost between device and store."""
    delay_s = random.Random(seed).uniform(0.2, 4.0)
    command = paired.popen("bench", MODEL, "--on", "board", *SHORT)
    time.sleep(delay_s)  # the moment is the point of the test
    command.kill()
    command.communicate()
    wait_until(lambda: agent.status().running is None, "device is idle")
    spooled = agent.status().spooled_count
    stored = len(paired.lab.store.run_ids())
    assert spooled + stored <= 2
    for run_id in paired.lab.store.run_ids():
        assert paired.run("verify", run_id).returncode == 0
    result = paired.run("bench", MODEL, "--on", "board", *SHORT)
    assert result.returncode in (0, 3), result.stderr
    assert agent.status().spooled_count == 0
    assert len(paired.lab.store.run_ids()) >= stored + 1


def test_ctrl_c_keeps_what_was_measured(agent: AgentProcess, paired: Host) -> None:
    """Ctrl-C throws minutes of measurement away, or leaves the worker running."""
    command = paired.popen("bench", MODEL, "--on", "board", *LONG)
    wait_until(lambda: _worker_is_measuring(agent), "worker measures")
    command.send_signal(signal.SIGINT)
    _, errors = command.communicate(timeout=30)
    assert command.returncode == 130, errors
    assert "interrupted: 1 run kept in" in errors
    run = paired.lab.run()
    assert run.verdict == "invalid"
    assert len(run.queries) > 100
    assert agent.status().running is None
    assert paired.run("verify", run.id).returncode == 0


def test_interrupted_push_resumes_where_it_stopped(
    agent: AgentProcess, paired: Host, tmp_path: Path
) -> None:
    """A large model over a bad link starts from zero each time."""
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
    """A device that vanishes while it is asked shows a traceback."""
    with paired.lab.connect("board") as client:
        agent.kill()
        with pytest.raises(LinkLost, match="connection to board"):
            client.describe()


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
    """The disk of a device is filled by a push that cannot succeed."""
    host.lab.pair(small_agent.pairing_string())
    path = tmp_path / "large.tflite"
    path.write_bytes(bytes(32 * 2**20))
    model = open_model(path)
    with host.lab.connect("board") as client:
        client.acquire()
        with pytest.raises(NoSpace, match=r"model needs \d+ bytes, disk has \d+ bytes free"):
            client.push_model(model.path, model.sha256)
    assert host.run("bench", MODEL, "--on", "board", *SHORT).returncode in (0, 3)


def test_disk_that_fills_up_during_a_push_is_one_clear_error(
    small_agent: AgentProcess, host: Host, tmp_path: Path
) -> None:
    """A full disk crashes the agent, or damages the model without a word."""
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
    """The log of a device is filled with tracebacks of what its owner can see by `df`."""
    need_root()
    need_tool("mount")
    agent = AgentProcess(tmp_path / "agent", options=["--name", "board"])
    agent.folder.mkdir()
    with small_disk(tmp_path / "small", 24 * 2**20) as disk:
        agent.state.symlink_to(disk)  # what it logs is elsewhere
        agent.start()
        host.lab.pair(agent.pairing_string())
        full = At(Phase.MEASURING, lambda: fillers.append(fill(disk)))
        fillers: list[Path] = []
        with pytest.raises(NoSpace, match="run not spooled: No space left on device"):
            host.lab.bench(
                MODEL, on=["board"], preset="quick", duration_s=1.0, is_checked=False, watcher=full
            )
        assert agent.status().running is None
        agent.kill()
    assert "could not be spooled: run not spooled: No space left" in agent.errors()
    assert "Traceback" not in agent.errors()


def test_full_store_leaves_the_run_on_the_device(
    agent: AgentProcess, host: Host, tmp_path: Path
) -> None:
    """A full disk on the host costs the measurement."""
    need_root()
    need_tool("mount")
    host.lab.pair(agent.pairing_string())
    with small_disk(tmp_path / "store", 64 * 2**20) as store:
        command = host.popen(
            *("bench", MODEL, "--on", "board", "--quick", "--duration", "5s"),
            *("--store", str(store)),
        )
        wait_until(lambda: _worker_is_measuring(agent), "worker measures")
        filler = fill(store)
        _, errors = command.communicate(timeout=60)
        assert command.returncode == 1
        assert "error: run not stored: No space left on device" in errors
        assert agent.status().spooled_count == 1
        assert list((store / "runs").iterdir()) == []
        filler.unlink()
        result = host.run("bench", MODEL, "--on", "board", *SHORT, "--store", str(store))
        assert result.returncode in (0, 3), result.stderr
        assert len(list((store / "runs").iterdir())) == 2
    assert agent.status().spooled_count == 0


def test_read_only_store_is_noticed_before_the_measurement(paired: Host, tmp_path: Path) -> None:
    """Ten minutes are measured for a store that cannot keep them."""
    need_root()
    need_tool("mount")
    store = tmp_path / "store"
    store.mkdir()
    assert paired.run("bench", MODEL, *SHORT, "--store", str(store)).returncode in (0, 3)
    with read_only(store):
        result = paired.run("bench", MODEL, "--on", "board", *LONG, "--store", str(store))
        assert result.returncode == 1
        assert "error: store not writable: Read-only file system" in result.stderr
        listed = paired.run("runs", "--json", "--store", str(store))
        assert len(json.loads(listed.stdout)["runs"]) == 1


def test_second_host_is_told_who_measures(
    agent: AgentProcess, paired: Host, tmp_path: Path
) -> None:
    """Two hosts disturb each other's numbers."""
    other = Host(tmp_path / "other")
    other.lab.pair(agent.pairing_string())
    command = paired.popen("bench", MODEL, "--on", "board", *LONG)
    wait_until(lambda: _worker_is_measuring(agent), "worker measures")
    result = other.run("bench", MODEL, "--on", "board", *SHORT)
    assert result.returncode == 1
    assert "error: device is in use by " in result.stderr
    command.send_signal(signal.SIGINT)
    command.communicate(timeout=30)
    assert other.run("bench", MODEL, "--on", "board", *SHORT).returncode in (0, 3)


def test_error_of_the_worker_reaches_python(agent: AgentProcess, paired: Host) -> None:
    """A script cannot tell a crash from a refusal."""
    killed: list[int] = []

    class Killer(Watcher):
        """Kills the worker when it measures."""

        def progress(self, progress: Progress) -> None:
            if progress.phase is Phase.MEASURING:
                wait_until(lambda: _worker_is_measuring(agent), "worker measures")
                killed.append(_worker_pid(agent))
                os.kill(killed[0], signal.SIGKILL)

    with pytest.raises(WorkerDied):
        paired.lab.bench(MODEL, on=["board"], preset="quick", duration_s=60.0, watcher=Killer())


def _repoint(host: Host, agent: AgentProcess) -> None:
    """The agent listens on another port now; mDNS, which would tell, is off in these tests."""
    path = host.folder / "config" / "edgebench" / "host" / "devices.json"
    (device,) = json.loads(path.read_text())
    path.write_text(json.dumps([device | {"port": agent.port}]))


def _children(pid: int) -> list[int]:
    text = Path(f"/proc/{pid}/task/{pid}/children").read_text()
    return [int(word) for word in text.split()]


def _worker_pid(agent: AgentProcess) -> int:
    return next(pid for pid in _children(agent.pid) if "agent.worker.main" in _command(pid))


def _worker_is_measuring(agent: AgentProcess) -> bool:
    """Whether the worker has used more processor time than loading takes."""
    for pid in _children(agent.pid):
        if "agent.worker.main" in _command(pid):
            fields = _read(f"/proc/{pid}/stat").rpartition(")")[2].split()
            used_ticks = int(fields[11]) + int(fields[12]) if fields else 0
            return used_ticks / os.sysconf("SC_CLK_TCK") > MEASURING_AFTER_S
    return False


def _command(pid: int) -> str:
    return _read(f"/proc/{pid}/cmdline")


def _is_alive(pid: int) -> bool:
    return bool(_command(pid))


def _read(path: str) -> str:
    try:
        return Path(path).read_text(errors="replace")
    except OSError:
        return ""
