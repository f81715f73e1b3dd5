"""Workers and hosts die at the worst moment, one agent outlives them all, and no run is lost."""

from __future__ import annotations

import json
import os
import random
import re
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.agents import AgentProcess, Host, wait_until
from support.disks import fill, read_only, small_disk
from support.tools import need_root, need_tool
from support.watchers import At, OnceMeasured, wait_until_measuring, worker_pid

from edgebench.host.bench.cancellation import Cancellation, Interrupted
from edgebench.host.bench.follow import follow
from edgebench.host.bench.run import OpenDevice
from edgebench.host.bench.verify import verify
from edgebench.host.store.files import read_clock
from edgebench.protocol.errors import WorkerDied
from edgebench.protocol.record import Phase
from edgebench.protocol.spec import Limits

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


@pytest.fixture(scope="module")
def agent(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AgentProcess]:
    """One agent for all tests: none of them may leave anything behind on it."""
    process = AgentProcess(tmp_path_factory.mktemp("agent"), options=["--name", "board"]).start()
    yield process
    process.kill()


def test_killed_worker_ends_its_run_with_a_reason(agent: AgentProcess, paired: Host) -> None:
    """Otherwise a crash in a runtime would end the daemon, or the host would not get the reason."""
    command = paired.popen("bench", MODEL, "--on", "board", *LONG)
    wait_until_measuring(agent.state)
    os.kill(worker_pid(agent), signal.SIGKILL)
    _, errors = command.communicate(timeout=30)
    assert command.returncode == 1
    assert "worker was killed by SIGKILL while" in errors
    assert "Traceback" not in errors
    assert paired.run("bench", MODEL, "--on", "board", *SHORT).returncode in (0, 3)
    assert agent.status().spooled_count == 0


def test_run_that_takes_too_long_keeps_what_it_measured(agent: AgentProcess, paired: Host) -> None:
    """Otherwise a device that throttles to a third of its speed would lose a run of an hour."""
    limits = Limits(measure_timeout_s=2.0)
    [run] = paired.lab.bench(
        MODEL,
        runs=1,
        on=["board"],
        preset="quick",
        scenario="server",
        target_qps=100.0,
        duration_s=60.0,
        limits=limits,
    )
    assert run.verdict == "invalid"
    assert run.document["verdict"]["rules"][0]["detail"] == "run interrupted"
    assert run.document["metrics"]["latency_ns"]["count"] > 20
    assert agent.status().spooled_count == 0


def test_run_of_a_killed_host_is_collected_by_the_next(agent: AgentProcess, paired: Host) -> None:
    """Otherwise a laptop that dies would cost the run that the device finished without it."""
    command = paired.popen(
        *("bench", MODEL, "--on", "board", "--quick", "--runs=1"),
        *("--duration", "5s", "--accuracy", "digits", *WAITS),
    )
    wait_until(lambda: agent.status().running is not None, "device runs")
    command.kill()
    command.communicate()
    wait_until(lambda: agent.status().spooled_count == 1, "run is spooled")
    result = paired.run("bench", MODEL, "--on", "board", *SHORT)
    assert result.returncode in (0, 3), result.stderr
    assert "had finished and was still on the device; it is now stored" in result.stderr
    assert len(paired.lab.runs()) == 2
    assert agent.status().spooled_count == 0
    first = paired.lab.run(min(paired.lab.runs()["run_id"]))
    assert first.document["metrics"]["accuracy"]["sample_count"] > 0, (
        "the host knew the labels, and died"
    )
    assert first.document["conditions"]["clock"] is not None
    for run_id in paired.lab.runs()["run_id"]:
        assert verify(paired.lab.store, run_id) == []


def test_run_of_a_killed_host_is_followed_by_the_next(agent: AgentProcess, paired: Host) -> None:
    """Otherwise a resumed campaign would start its run again, or store it twice, or half of it."""
    command = paired.popen("bench", MODEL, "--on", "board", *LONG)
    wait_until(lambda: agent.status().running is not None, "device runs")
    command.kill()
    command.communicate()
    [run_id] = filter(None, [agent.status().running])
    cancellation = Cancellation()
    watcher = OnceMeasured(cancellation.request)
    with paired.lab.connect("board") as client:
        device = OpenDevice(
            name="board",
            client=client,
            store=paired.lab.store,
            notify=watcher,
            cancellation=cancellation,
        )
        with pytest.raises(Interrupted) as ended:
            follow(device, run_id)
        client.release()
    assert ended.value.run is not None
    assert ended.value.run.run_id == run_id
    assert paired.lab.store.run_ids() == [run_id]
    assert verify(paired.lab.store, run_id) == []
    assert list(paired.lab.store.unfinished.iterdir()) == []
    assert agent.status().spooled_count == 0
    # The run's own host probed the clock before the start, the follower at the end and after it.
    assert len(read_clock(paired.lab.store.directory(run_id))) >= 3


@pytest.mark.parametrize("seed", range(4))
def test_host_killed_at_any_moment_leaves_no_half_run(
    agent: AgentProcess, paired: Host, seed: int
) -> None:
    """Otherwise a run directory would appear before it is whole, or a run be lost in transfer."""
    delay_s = random.Random(seed).uniform(0.2, 2.5)  # as long as it takes on an idle machine
    command = paired.popen("bench", MODEL, "--on", "board", *SHORT)
    time.sleep(delay_s)  # the moment is the point of the test
    command.kill()
    command.communicate()
    wait_until(lambda: agent.status().running is None, "device is idle")
    spooled = agent.status().spooled_count
    stored = len(paired.lab.store.run_ids())
    assert spooled + stored <= 2
    for run_id in paired.lab.store.run_ids():
        assert verify(paired.lab.store, run_id) == []
    result = paired.run("bench", MODEL, "--on", "board", *SHORT)
    assert result.returncode in (0, 3), result.stderr
    assert agent.status().spooled_count == 0
    assert len(paired.lab.store.run_ids()) >= stored + 1


def test_ctrl_c_keeps_what_was_measured(agent: AgentProcess, paired: Host) -> None:
    """Otherwise Ctrl-C would discard minutes of measurement, or leave the worker running."""
    command = paired.popen("bench", MODEL, "--on", "board", *LONG)
    wait_until_measuring(agent.state)
    time.sleep(1.5)  # 150 queries on average, at random times
    command.send_signal(signal.SIGINT)
    _, errors = command.communicate(timeout=30)
    assert command.returncode == 130, errors
    assert "interrupted: 1 run kept in" in errors
    run = paired.lab.run()
    assert run.verdict == "invalid"
    assert len(run.queries) > 100
    assert agent.status().running is None
    assert verify(paired.lab.store, run.id) == []


def test_full_store_leaves_the_run_on_the_device(
    agent: AgentProcess, host: Host, tmp_path: Path
) -> None:
    """Otherwise a full disk on the host would cost the measurement."""
    need_root()
    need_tool("mount")
    host.lab.pair(agent.pairing_string())
    with small_disk(tmp_path / "store", 64 * 2**20) as store:
        command = host.popen(
            *("bench", MODEL, "--on", "board", "--quick", "--runs=1", "--duration", "5s"),
            *("--store", str(store), *WAITS),
        )
        wait_until(lambda: agent.status().running is not None, "device runs")
        filler = fill(store)
        _, errors = command.communicate(timeout=60)
        assert command.returncode == 1
        error, hint = errors.splitlines()[-2:]
        stays = r"error: run \S+ stays on the device: run not stored: needs [\d.]+ [KM]iB, "
        assert re.match(stays + r"disk has [\d.,]+ (Ki)?B free: ", error), errors
        assert "then store the run: edgebench collect --on board" in hint
        assert agent.status().spooled_count == 1
        assert list((store / "runs").iterdir()) == []
        filler.unlink()
        result = host.run("bench", MODEL, "--on", "board", *SHORT, "--store", str(store))
        assert result.returncode in (0, 3), result.stderr
        assert len(list((store / "runs").iterdir())) == 2
    assert agent.status().spooled_count == 0


def test_read_only_store_is_noticed_before_the_measurement(paired: Host, tmp_path: Path) -> None:
    """Otherwise ten minutes would be measured for a store that cannot keep them."""
    need_root()
    need_tool("mount")
    store = tmp_path / "store"
    store.mkdir()
    words = ("bench", MODEL, "--on", "board", *SHORT, "--store", str(store))
    assert paired.run(*words).returncode in (0, 3)
    with read_only(store):
        result = paired.run("bench", MODEL, "--on", "board", *LONG, "--store", str(store))
        assert result.returncode == 1
        assert "error: store not writable: Read-only file system" in result.stderr
        listed = paired.run("runs", "--json", "--store", str(store))
        assert len(json.loads(listed.stdout)["runs"]) == 1


def test_second_host_is_told_who_measures(
    agent: AgentProcess, paired: Host, tmp_path: Path
) -> None:
    """Otherwise two hosts would disturb each other's numbers."""
    other = Host(tmp_path / "other")
    other.lab.pair(agent.pairing_string())
    command = paired.popen("bench", MODEL, "--on", "board", *LONG)
    wait_until_measuring(agent.state)
    result = other.run("bench", MODEL, "--on", "board", *SHORT)
    assert result.returncode == 1
    assert "error: device is in use by " in result.stderr
    command.send_signal(signal.SIGINT)
    command.communicate(timeout=30)
    assert other.run("bench", MODEL, "--on", "board", *SHORT).returncode in (0, 3)


def test_error_of_the_worker_reaches_python(agent: AgentProcess, paired: Host) -> None:
    """Otherwise a script could not distinguish a crash from a refusal."""
    killed: list[int] = []

    def kill() -> None:
        killed.append(worker_pid(agent))
        os.kill(killed[0], signal.SIGKILL)

    with pytest.raises(WorkerDied):
        paired.lab.bench(
            MODEL,
            runs=1,
            on=["board"],
            preset="quick",
            scenario="server",
            target_qps=100.0,
            duration_s=60.0,
            warmup_duration_s=0.05,
            watcher=At(Phase.MEASURING, kill),
        )
