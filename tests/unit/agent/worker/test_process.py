"""The daemon's side of a real worker: what it measured outlives whatever the checks do to it."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from dataclasses import replace
from pathlib import Path
from typing import cast

import numpy as np
import pytest
from support.digits import FOLDER
from support.hostile_runtime import TRIVIAL_VARIABLE, install
from support.tools import need_runtime

from edgebench.agent.worker import timeouts
from edgebench.agent.worker.job import WORKER_RECORD_FILE, Job
from edgebench.agent.worker.process import WorkerProcess
from edgebench.agent.worker.reports import PhaseStart
from edgebench.protocol.errors import ModelRefused, WorkerDied
from edgebench.protocol.plain import to_plain
from edgebench.protocol.record import (
    BindingFacts,
    CheckFacts,
    FirmwareFacts,
    ModelFacts,
    OutputFacts,
    Phase,
    RuntimeFacts,
    TargetMemory,
    TargetRecord,
    Window,
    WorkerRecord,
)
from edgebench.protocol.spec import RunSpec
from edgebench.protocol.traces import (
    ANSWERS_FILE,
    QUERIES_FILE,
    QUERY_COLUMNS,
    WORKER_LOG_FILE,
    row_count,
)

SPEC = RunSpec(
    "litert",
    duration_s=0.05,
    min_query_count=20,
    warmup_query_count=1,
    warmup_duration_s=0.0,
    dataset_sha256="0" * 64,
)


@pytest.fixture
def job(tmp_path: Path) -> Job:
    """A built-in model and a data set that takes tens of seconds to process."""
    need_runtime("ai-edge-litert")
    dataset = tmp_path / "set.npz"
    np.savez(dataset, x=np.zeros((400_000, 8, 8, 1), bool), y=np.zeros(400_000, np.uint8))
    path = FOLDER / "digits_fp32.tflite"
    model = ModelFacts(path.name, "0" * 64, "tflite", path.stat().st_size)
    return Job("run", SPEC, model, str(path), str(dataset), 2**30, os.getpid())


async def follow(directory: Path, job: Job, at: Phase, what: signal.Signals) -> WorkerRecord:
    """Run the job, and send the worker a signal when it enters a phase."""
    directory.mkdir()
    worker = WorkerProcess(directory, job)
    await worker.start()

    def on_phase(began: PhaseStart) -> None:
        if began.phase is at:
            os.kill(worker.pid, what)

    worker.go()
    try:
        record = await worker.follow(on_phase)
        assert isinstance(record, WorkerRecord)
        return record
    finally:
        await worker.kill()


@pytest.mark.parametrize(
    ("what", "said"),
    [
        (signal.SIGSTOP, "it was still checking the outputs after 1 s"),
        (signal.SIGKILL, "worker was killed by SIGKILL while checking the outputs"),
        (signal.SIGSEGV, "worker was killed by SIGSEGV while checking the outputs"),
    ],
)
def test_worker_that_hangs_or_dies_in_the_checks_keeps_its_measurement(
    tmp_path: Path, job: Job, monkeypatch: pytest.MonkeyPatch, what: signal.Signals, said: str
) -> None:
    """Otherwise reference kernels that hang would cost the measurement that was complete."""
    monkeypatch.setattr(timeouts, "CHECK_TIMEOUT_S", 1.0)
    directory = tmp_path / "run"
    found = asyncio.run(follow(directory, job, Phase.CHECKING, what))
    assert found.query_count >= 21
    assert not found.is_interrupted
    size_bytes = (directory / QUERIES_FILE).stat().st_size
    assert row_count(size_bytes, QUERY_COLUMNS) == found.query_count
    for error in (found.check.reference_error, found.check.dataset_error):
        assert error is not None
        assert error.startswith(said)
    assert found.check.reference is None
    assert not (directory / ANSWERS_FILE).exists()


def test_stop_in_the_checks_is_no_error(tmp_path: Path, job: Job) -> None:
    """Otherwise a stop during the checks would be reported as a crash of the reference."""
    found = asyncio.run(follow(tmp_path / "run", job, Phase.CHECKING, signal.SIGTERM))
    assert not found.is_interrupted
    assert found.check.reference is None
    assert found.check.reference_error == "stopped before it was done"
    assert found.query_count >= 21
    # The trivial model has a loop of its own, which a stop that is remembered would end.
    assert found.harness.binding is not None
    assert found.harness.binding.p50_ns is not None


@pytest.mark.parametrize("end", ["die", "hang"])
def test_worker_that_dies_by_the_trivial_model_keeps_everything_else(
    tmp_path: Path, job: Job, monkeypatch: pytest.MonkeyPatch, end: str
) -> None:
    """Otherwise a wrong declaration of a C function would cost the run, or its checks."""
    monkeypatch.setattr(timeouts, "COMPLETE_TIMEOUT_S", 0.3)
    for name, value in (install(tmp_path / "driver") | {TRIVIAL_VARIABLE: end}).items():
        monkeypatch.setenv(name, value)
    (tmp_path / "run").mkdir()
    job = replace(
        job, spec=replace(SPEC, runtime="fragile", dataset_sha256=None), dataset_path=None
    )
    record = asyncio.run(settled(tmp_path / "run", job))
    assert record.query_count >= 21
    assert record.check.reference is not None
    assert record.check.reference_error is None
    assert record.harness.binding == BindingFacts(
        reason="the worker ended before the measurement of the binding"
    )


async def settled(directory: Path, job: Job) -> WorkerRecord:
    """Let a worker go after it has settled."""
    worker = WorkerProcess(directory, job)
    await worker.start()
    await worker.settle()
    worker.go()
    try:
        record = await worker.follow(lambda _: None)
        assert isinstance(record, WorkerRecord)
        return record
    finally:
        await worker.kill()


def test_worker_that_has_settled_measures_as_ever(tmp_path: Path, job: Job) -> None:
    """Otherwise the wait for the start of an interpreter would never end, or lose a phase."""
    record = asyncio.run(settled(tmp_path, replace(job, dataset_path=None)))
    assert record.query_count >= 21


def test_worker_that_dies_while_it_starts_ends_the_wait(tmp_path: Path, job: Job) -> None:
    """Otherwise a run would wait for half a minute for a dead worker, without a reason."""
    orphan = replace(job, daemon_pid=1)  # ends itself: its daemon is another process
    with pytest.raises(WorkerDied, match="killed by SIGKILL while starting"):
        asyncio.run(settled(tmp_path, orphan))


def test_first_line_of_a_worker_that_fails_is_kept(tmp_path: Path, job: Job) -> None:
    """Otherwise the reason would be read too early, and lost."""
    worker = WorkerProcess(tmp_path, job)
    said = [b'{"failed": "no memory", "code": 4}\n', b""]

    class Reader:
        async def readline(self) -> bytes:
            return said.pop(0)

    async def follow_it() -> None:
        await worker.start()
        worker._reader = cast(asyncio.StreamReader, Reader())
        await worker.settle()
        await worker.kill()
        await worker.follow(lambda _: None)

    with pytest.raises(ModelRefused, match="no memory"):
        asyncio.run(follow_it())


@pytest.mark.parametrize(
    ("count", "wanted", "is_stopping", "expected"),
    [
        (12, 12, True, (None, False)),
        (0, 0, True, (None, False)),
        (3, 12, False, ("it is gone", False)),
        (3, 12, True, ("it is gone", True)),
    ],
)
def test_whole_data_set_has_no_error_of_what_came_after(
    tmp_path: Path,
    job: Job,
    count: int,
    wanted: int,
    is_stopping: bool,
    expected: tuple[str | None, bool],
) -> None:
    """Otherwise a crash of reference kernels would count as the end of a complete data set."""
    record = TargetRecord(
        model=job.model,
        runtime=RuntimeFacts("firmware", "1.0"),
        inputs=(),
        outputs=(),
        firmware=FirmwareFacts("nucleo", "1.0"),
        memory=TargetMemory(None, None, None),
        output=OutputFacts("c" * 64, is_finite=True, sample_count=5),
        warmup_count=0,
        windows=(Window(0, 1_000_000_000, 100, 1_000_000, 1e6),),
        is_interrupted=False,
        check=CheckFacts(dataset_sample_count=count, dataset_wanted_count=wanted),
    )
    (tmp_path / WORKER_RECORD_FILE).write_text(json.dumps(to_plain(record)))
    worker = WorkerProcess(tmp_path, replace(job, target="/dev/ttyACM0"))
    worker.is_stopping = is_stopping
    found = worker._unchecked("it is gone")
    assert isinstance(found, TargetRecord)
    assert (found.check.dataset_error, found.is_dataset_stopped) == expected
    assert found.check.reference_error == "it is gone"


def test_worker_that_dies_before_it_wrote_has_no_record(tmp_path: Path, job: Job) -> None:
    """Otherwise a worker that was killed while it measured would leave half a record."""
    job = replace(job, spec=replace(SPEC, duration_s=60.0))
    with pytest.raises(WorkerDied, match="killed by SIGKILL while measuring"):
        asyncio.run(follow(tmp_path / "run", job, Phase.MEASURING, signal.SIGKILL))


@pytest.mark.parametrize(
    ("log", "said"),
    [
        ("", " (out of memory?)"),
        ("INFO: Created TensorFlow Lite XNNPACK delegate for CPU.\n", " (out of memory?)"),
        ("I0000 00:00:1 cpu.cc:9] AVX2\n", " (out of memory?)"),
        ("2026-11-21 19:00:00.1 [I:onnxruntime:, a.cc:1 F] x\n", " (out of memory?)"),
        ("bad: 7\nINFO: more\n", " (out of memory?): bad: 7"),
    ],
)
def test_killed_worker_may_have_run_out_of_memory(tmp_path: Path, log: str, said: str) -> None:
    """Otherwise a runtime's greeting would pass for the reason of a kill by the kernel."""
    (tmp_path / WORKER_LOG_FILE).write_text(log)
    facts = ModelFacts("model", "0" * 64, "tflite", 1)
    worker = WorkerProcess(tmp_path, Job("run", SPEC, facts, "model", None, 2**30, os.getpid()))
    assert worker._obituary(-signal.SIGKILL) == f"worker was killed by SIGKILL while starting{said}"
