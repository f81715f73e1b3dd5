"""What a worker may take; the limits themselves are tested on real models elsewhere."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgebench.agent.worker import limits
from edgebench.agent.worker.limits import (
    BASE_MEMORY_BYTES,
    MEMORY_PER_MODEL_BYTE,
    default_memory_bytes,
)
from edgebench.protocol.spec import Engine, RunSpec

SPEC = RunSpec("tflite")


@given(size_bytes=st.integers(0, 2**40), more=st.integers(1, 2**30))
def test_memory_grows_with_the_file_and_never_below_the_base(size_bytes: int, more: int) -> None:
    """Otherwise a small file could take the whole device, or a large model could not run."""
    here = default_memory_bytes(size_bytes, SPEC)
    assert here >= BASE_MEMORY_BYTES
    assert default_memory_bytes(size_bytes + more, SPEC) - here == MEMORY_PER_MODEL_BYTE * more


def test_small_file_gets_little_more_than_the_base() -> None:
    """Otherwise a file of 180 bytes that requests 40 GB would get them."""
    assert default_memory_bytes(180, SPEC) < 1.1 * 2**30


def test_loadgen_gets_memory_for_the_queries_that_it_makes() -> None:
    """Otherwise a minute of LoadGen would end with "out of memory", and the model be blamed."""
    few, many = (
        RunSpec("tflite", engine=Engine.LOADGEN, max_query_count=count) for count in (2000, 4000)
    )
    more = default_memory_bytes(0, many) - default_memory_bytes(0, few)
    assert more >= 2000 * 317, "as measured"
    native = RunSpec("tflite", max_query_count=2000)
    assert default_memory_bytes(0, few) > default_memory_bytes(0, native)


def test_limits_bind_the_process_that_applies_them() -> None:
    """Otherwise a limit would be computed, but never reach the kernel."""
    code = (
        "import os, resource\n"
        "from edgebench.agent.worker.limits import apply_limits\n"
        "apply_limits(memory_bytes=2**28, max_query_count=1000, daemon_pid=os.getppid())\n"
        "print(resource.getrlimit(resource.RLIMIT_DATA)[0] == 2**28)\n"
        "print(resource.getrlimit(resource.RLIMIT_CORE)[1] == 0)\n"
        "print(resource.getrlimit(resource.RLIMIT_FSIZE)[0] < 2**30)\n"
        "print(open('/proc/self/oom_score_adj').read().strip())\n"
        "try:\n"
        "    bytearray(2**29)\n"
        "except MemoryError:\n"
        "    print('MemoryError')\n"
    )
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert result.stdout.split() == ["True", "True", "True", "1000", "MemoryError"]


def test_worker_of_a_dead_daemon_ends_at_once() -> None:
    """Otherwise a worker would outlive the agent that started it."""
    code = (
        "from edgebench.agent.worker.limits import apply_limits\n"
        "apply_limits(memory_bytes=2**28, max_query_count=1000, daemon_pid=1)\n"
        "print('still here')\n"
    )
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False
    )
    assert (result.returncode, result.stdout) == (-9, "")


def test_most_queries_that_a_specification_allows_are_a_limit_too() -> None:
    """Otherwise a count from the wire would exceed the kernel's limit, and the worker would die."""
    code = (
        "import os, resource\n"
        "from edgebench.agent.worker.limits import apply_limits\n"
        "apply_limits(memory_bytes=2**63 - 1, max_query_count=2**62, daemon_pid=os.getppid())\n"
        "print('bound')\n"
    )
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False
    )
    assert result.stdout == "bound\n", result.stderr


def test_files_that_come_and_go_do_not_hide_what_was_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise the disk could be filled once a file vanishes while it is looked at."""
    (tmp_path / "kept").write_bytes(bytes(5000))
    (tmp_path / "gone").touch()
    monkeypatch.setattr(limits, "read_text", lambda _: "")
    real = os.scandir

    @contextmanager
    def scan(path: Path) -> Iterator[Iterator[os.DirEntry[str]]]:
        with real(path) as entries:
            found = sorted(entries, key=lambda entry: entry.name)
            (tmp_path / "gone").unlink()
            yield iter(found)

    monkeypatch.setattr(os, "scandir", scan)
    disk = limits.DiskUse(tmp_path, lambda _: 10_000)
    assert disk.taken_bytes(os.getpid(), is_counted=True) == 5000


@pytest.mark.parametrize(
    ("io", "is_counted", "expected"),
    [
        ("write_bytes: 700\n", True, 700),
        ("write_bytes: 700\n", False, 3000),
        ("", True, 3000),
        ("write_bytes: 9000\n", False, 9000),
    ],
)
def test_space_that_no_counter_shows_is_seen_on_the_disk(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    io: str,
    is_counted: bool,
    expected: int,
) -> None:
    """Otherwise a nameless file that is reserved and not written would fill the disk in a moment.

    Where the kernel counts and the filter keeps the worker to what is counted, others may fill the
    disk meanwhile: that is not the worker's.
    """
    monkeypatch.setattr(limits, "read_text", lambda _: io)
    free = [10_000]
    disk = limits.DiskUse(tmp_path, lambda _: free[0])
    free[0] -= 3000
    assert disk.taken_bytes(os.getpid(), is_counted=is_counted) == expected


def test_files_without_end_are_more_than_any_limit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise empty files could take all inodes, and each look at them take longer."""
    monkeypatch.setattr(limits, "MAX_FILES", 3)
    for number in range(4):
        (tmp_path / str(number)).touch()
    disk = limits.DiskUse(tmp_path)
    assert disk.taken_bytes(os.getpid(), is_counted=True) == sys.maxsize
