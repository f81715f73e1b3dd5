"""A hostile runtime in a real worker: its attempts are refused and named, the agent survives."""

from __future__ import annotations

import asyncio
import os
import socket
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from support.agents import AgentProcess, Host
from support.confined import denying_environment, need_everything
from support.hostile_runtime import Victim, install
from support.tools import skip_or_fail

from edgebench.agent.confine import Kernel
from edgebench.agent.worker import process
from edgebench.agent.worker.job import Job
from edgebench.agent.worker.process import WorkerProcess
from edgebench.host.show.page import confinement_line
from edgebench.protocol.errors import EdgebenchError, ModelRefused, WorkerDied, WorkerTimeout
from edgebench.protocol.record import ModelFacts
from edgebench.protocol.spec import Limits, RunSpec
from edgebench.system import python_start

QUICK: dict[str, Any] = {
    "duration_s": 0.1,
    "min_query_count": 20,
    "warmup_query_count": 1,
    "warmup_duration_s": 0.0,
}
FILL_BYTES = 2**32
"""Bytes a model tries to write: more than any machine can write before the first check."""


@pytest.fixture
def victim(tmp_path: Path) -> Iterator[Victim]:
    """Keys of the agent and of its user, and a service of this machine."""
    keys = tmp_path / "home" / ".ssh" / "id_ed25519"
    keys.parent.mkdir(parents=True)
    keys.write_text("secret")
    with socket.create_server(("127.0.0.1", 0)) as service:
        port = service.getsockname()[1]
        identity = tmp_path / "agent" / "config" / "identity.pem"
        model = str(tmp_path / "model.tflite")
        yield Victim(str(identity), str(keys), str(tmp_path / "outside"), port, model)


def need_landlock() -> None:
    """Keys are kept by Landlock; test_confine.py has the kernels without it."""
    try:
        Kernel().landlock_abi()
    except OSError as exc:
        skip_or_fail(f"this kernel has no Landlock: {exc}")


@pytest.mark.slow
def test_agent_with_a_hostile_runtime_keeps_its_keys_and_measures_on(
    tmp_path: Path, victim: Victim
) -> None:
    """Otherwise the author of a model would own the device."""
    need_landlock()
    environment = install(tmp_path / "driver") | victim.environment()
    environment["HOME"] = str(tmp_path / "home")
    agent = AgentProcess(tmp_path / "agent", ["--name", "board"], environment=environment).start()
    try:
        host = Host(tmp_path / "host")
        host.lab.pair(agent.pairing_string())
        assert Path(victim.identity).exists(), "the agent keeps its identity elsewhere"
        model = tmp_path / "model.tflite"
        model.write_text("acts")
        with pytest.raises(EdgebenchError) as refused:
            host.lab.bench(model, on="board", runtime="hostile", runs=1, **QUICK)
        assert "tried 38, done: nothing" in str(refused.value)
        assert not Path(victim.outside).exists()
        (stored,) = host.lab.bench("digits_int8.tflite", on="board", runs=1, **QUICK)
        confinement = stored.result.conditions.confinement
        assert confinement is not None
        assert confinement.files.is_applied
        assert confinement.calls.is_applied
        assert "programs and sockets, files" in confinement_line(confinement)
        assert agent.status().running is None
    finally:
        agent.kill()


@pytest.mark.slow
def test_open_files_are_named_before_the_model_is_opened(tmp_path: Path, victim: Victim) -> None:
    """Otherwise the user would learn too late that the system protects nothing from the model."""
    need_everything()
    drivers = install(tmp_path / "driver")
    environment = drivers | victim.environment() | {"HOME": str(tmp_path / "home")}
    denied = denying_environment(tmp_path / "closed", "landlock_create_ruleset", "unshare")
    environment["PYTHONPATH"] = f"{denied['PYTHONPATH']}:{drivers['PYTHONPATH']}"
    agent = AgentProcess(tmp_path / "agent", ["--name", "board"], environment=environment).start()
    try:
        host = Host(tmp_path / "host")
        host.lab.pair(agent.pairing_string())
        model = tmp_path / "model.tflite"
        model.write_text("acts")
        words = ("bench", str(model), "--on", "board", "--runtime", "hostile", "--quick")
        told = host.run(*words)
        lines = told.stderr.splitlines()
        assert lines[0].startswith("warning: board lets models access files: Operation not")
        assert lines[1].startswith("hint: run the agent as a separate user")
        assert "tried 38, done: identity, ssh" in told.stderr
        trusted = host.run(*words, "--trust-model")
        assert "lets models access files" not in trusted.stderr
        listed = host.run("devices", "--timeout", "0s")
        assert "models can access files" in listed.stdout
    finally:
        agent.kill()


async def _follow(worker: WorkerProcess) -> None:
    await worker.start()
    worker.go()
    try:
        await worker.follow(lambda _: None)
    finally:
        await worker.kill()
        await worker._reader.read()


def run_worker(
    tmp_path: Path,
    victim: Victim,
    monkeypatch: pytest.MonkeyPatch,
    order: str,
    load_timeout_s: float = 20.0,
) -> WorkerProcess:
    """Run a worker on a model that gives this command."""
    for name, value in (install(tmp_path / "driver") | victim.environment()).items():
        monkeypatch.setenv(name, value)
    model = tmp_path / "model.tflite"
    model.write_text(order)
    spec = RunSpec(
        "hostile",
        min_query_count=20,
        max_query_count=1000,
        limits=Limits(load_timeout_s=load_timeout_s),
    )
    facts = ModelFacts(model.name, "0" * 64, "tflite", model.stat().st_size)
    directory = tmp_path / "work"
    directory.mkdir()
    worker = WorkerProcess(directory, Job("run", spec, facts, str(model), None, 2**30, os.getpid()))
    asyncio.run(_follow(worker))
    return worker


def test_model_that_fills_the_disk_is_ended(
    tmp_path: Path, victim: Victim, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise a model could fill the disk: the limit on each file does not limit their number."""
    monkeypatch.setattr(process, "DISK_PERIOD_S", 0.02)
    monkeypatch.setattr(process, "DISK_LIMIT_FILES", 1)
    with pytest.raises(ModelRefused, match=r"the model wrote more than 64\.0 MiB or 1000 files"):
        run_worker(tmp_path, victim, monkeypatch, f"fill {FILL_BYTES}")
    written = sum(file.stat().st_size for file in (tmp_path / "work").iterdir())
    assert 2**26 < written < FILL_BYTES


@pytest.mark.parametrize("name", ["lists", "deep", "large"])
def test_hostile_record_is_one_named_error(
    tmp_path: Path, victim: Victim, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """Otherwise the daemon would hold hundreds of megabytes, or end in a traceback."""
    with pytest.raises(WorkerDied, match="worker left "):
        run_worker(tmp_path, victim, monkeypatch, f"record {name}")


def test_model_that_spins_for_ever_is_ended(
    tmp_path: Path, victim: Victim, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise a model that ignores the request to stop, too, would run for ever."""
    with pytest.raises(WorkerTimeout, match="still loading the model after 2 s"):
        run_worker(tmp_path, victim, monkeypatch, "spin", load_timeout_s=2.0)


def test_session_of_a_worker_ends_with_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise processes that a model started could run during the next run."""

    async def run() -> bytes:
        script = (
            "import os, sys, time; child = os.fork(); child and os.write(int(sys.argv[-1]), "
            "b'%d\\n' % child); child or time.sleep(60)"
        )
        monkeypatch.setattr(python_start, "INTERPRETER", str(launcher(tmp_path, script)))
        facts = ModelFacts("model", "0" * 64, "tflite", 1)
        job = Job("run", RunSpec("none"), facts, "model", None, 2**30, os.getpid())
        worker = WorkerProcess(tmp_path, job)
        await worker.start()
        child = int(await worker._read_line())
        await worker._process.wait()
        assert psutil.pid_exists(child)
        await worker.kill()
        # The pipe ends when the last process that could write to it has.
        return await asyncio.wait_for(worker._reader.read(), 10)

    assert asyncio.run(run()) == b""


def launcher(folder: Path, script: str) -> Path:
    """An interpreter that runs this script, whatever module it is started with."""
    path = folder / "python"
    path.write_text(f"#!{sys.executable}\n{script}\n")
    path.chmod(0o755)
    return path
