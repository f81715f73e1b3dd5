"""A run finished in another process."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from support.agents import wait_until
from support.metered import BEGIN_NS, COUNT, END_NS, QUERIES_NS, probe
from support.records import latencies, run_record, spool_files, worker_record

from edgebench.host.bench.finish import TRIES, FinishingProcess, finish
from edgebench.host.store.files import write_clock
from edgebench.host.store.layout import RAW_DIRECTORY
from edgebench.protocol.errors import MeasurementError, RunDamaged
from edgebench.protocol.record import RunRecord
from edgebench.protocol.traces import QUERIES_FILE, RECORD_FILE

LATENCY_NS = latencies(COUNT)


@pytest.fixture(scope="module")
def other() -> Iterator[FinishingProcess]:
    """Yield the other process."""
    with FinishingProcess() as process:
        yield process


def fetched(directory: Path, record: RunRecord | None = None) -> Path:
    """Return a run as it is fetched, with the clock probes of its host."""
    (directory / RAW_DIRECTORY).mkdir(parents=True)
    record = record or run_record(worker_record(LATENCY_NS))
    spool_files(directory / RAW_DIRECTORY, record, LATENCY_NS, begin_ns=QUERIES_NS)
    write_clock(directory, [[probe(BEGIN_NS)], [probe(END_NS)]])
    return directory


def test_other_process_computes_the_same(tmp_path: Path, other: FinishingProcess) -> None:
    """Otherwise a run would be judged differently while a second device is measured."""
    assert other.finish(fetched(tmp_path / "a")) == finish(fetched(tmp_path / "b"))


def test_damage_is_told_as_in_this_process(tmp_path: Path, other: FinishingProcess) -> None:
    """Otherwise a damaged trace would end the whole farm's command, or be stored as a result."""
    directory = fetched(tmp_path / "a")
    (directory / RAW_DIRECTORY / QUERIES_FILE).write_bytes(b"no columns")
    for finish_it in (other.finish, finish):
        with pytest.raises(RunDamaged, match="trace is damaged"):
            finish_it(directory)
    assert other.finish(fetched(tmp_path / "b")) is not None  # it goes on


def test_disk_that_fails_is_an_error_of_the_system(tmp_path: Path, other: FinishingProcess) -> None:
    """Otherwise a full disk in the other process would look like a bug of ours."""
    directory = fetched(tmp_path / "a")
    (directory / "events.jsonl").mkdir()
    with pytest.raises(IsADirectoryError):
        other.finish(directory)


def test_process_that_is_killed_once_costs_nothing(tmp_path: Path) -> None:
    """Otherwise a measured run would count as failed because the process was killed."""
    directory = fetched(tmp_path / "a")
    with FinishingProcess() as process:
        os.kill(process._process.pid, signal.SIGKILL)
        assert process.finish(directory) is not None


def endless(directory: Path) -> Path:
    """Return a run whose record never ends."""
    (directory / RAW_DIRECTORY).mkdir(parents=True)
    os.mkfifo(directory / RAW_DIRECTORY / RECORD_FILE)
    return directory


def test_run_that_ends_two_processes_costs_no_other_run(tmp_path: Path) -> None:
    """Otherwise the command would wait for ever, or lose all later runs.

    The kernel ends the process for its memory.
    """
    with FinishingProcess() as process, ThreadPoolExecutor() as pool:
        tried = pool.submit(process.finish, endless(tmp_path / "a"))
        for _ in range(TRIES):
            pid = process._process.pid
            os.kill(pid, signal.SIGKILL)
            wait_until(lambda known=pid: process._process.pid != known, "there is another one")
        with pytest.raises(MeasurementError, match="analysis of run a ended with status -9"):
            tried.result()
        assert process.finish(fetched(tmp_path / "b")) is not None


_HOST = """
import sys
from pathlib import Path
from edgebench.host.bench.finish import FinishingProcess
process = FinishingProcess()
print(process._process.pid, flush=True)
process.finish(Path(sys.argv[1]))
"""


def test_process_ends_with_its_host_whatever_it_is_busy_with(tmp_path: Path) -> None:
    """Otherwise a killed host would leave a process that writes into the next host's run."""
    words = [sys.executable, "-c", _HOST, str(endless(tmp_path / "a"))]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as host:
        assert host.stdout is not None
        pid = int(host.stdout.readline())
        record = tmp_path / "a" / RAW_DIRECTORY / RECORD_FILE
        with record.open("wb"):  # it reads now
            host.kill()
            wait_until(lambda: not Path(f"/proc/{pid}/cmdline").exists(), "it has ended")
