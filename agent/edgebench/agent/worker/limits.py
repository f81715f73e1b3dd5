"""Limits of a worker: it must not take all memory, fill the disk, or outlive the daemon."""

from __future__ import annotations

import ctypes
import os
import re
import resource
import shutil
import signal
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from edgebench.agent.telemetry.source import read_text
from edgebench.protocol.spec import Engine, RunSpec
from edgebench.protocol.traces import COLUMN_BYTES, QUERY_COLUMNS

BASE_MEMORY_BYTES = 2**30
"""Memory for a runtime with its libraries, which take 0.1 GiB, and for a small model's arena."""
MEMORY_PER_MODEL_BYTE = 8
"""Allowed memory per byte of the model file. The weights may be in memory three times (as read,
unpacked and repacked), and models with larger weights have larger activations."""
LOADGEN_BYTES_PER_QUERY = 400
"""Memory that LoadGen takes per query; it generates all queries before it starts. Measured: 317
bytes, and 397 bytes in the offline scenario."""
TRACE_BYTES_PER_QUERY = 100
"""Memory for the times of a query: 24 bytes in a block of the timed loop, plus 48 bytes in the
columns of the trace."""
LOG_BYTES = 64 * 2**20
DISK_LIMIT_FILES = 8
"""Limit on all bytes that a worker writes, as a multiple of its largest allowed file. A worker
writes a log, times, outputs and LoadGen's log, some of them twice."""
MAX_FILES = 1000
"""Maximum number of files in a worker's directory; a run writes about ten."""
_PR_SET_PDEATHSIG = 1
"""prctl(2): the kernel kills this process when its parent dies."""


def default_memory_bytes(model_size_bytes: int, spec: RunSpec) -> int:
    """Private memory that a model of this size may take, bytes.

    A file of 180 bytes can request 4 TB, so the limit follows from the size of the file, which a
    model cannot forge.
    """
    is_loadgen = spec.engine is Engine.LOADGEN
    query_bytes = LOADGEN_BYTES_PER_QUERY * spec.max_query_count if is_loadgen else 0
    row_bytes = TRACE_BYTES_PER_QUERY * spec.max_query_count
    return BASE_MEMORY_BYTES + MEMORY_PER_MODEL_BYTE * model_size_bytes + query_bytes + row_bytes


def apply_limits(*, memory_bytes: int, max_query_count: int, daemon_pid: int) -> None:
    """Limit this process for the rest of its life.

    RLIMIT_DATA counts private writable memory only. RLIMIT_AS would also count address space that
    libraries reserve without using it.
    """
    _limit(resource.RLIMIT_DATA, memory_bytes)
    _limit(resource.RLIMIT_FSIZE, largest_file_bytes(max_query_count))
    _limit(resource.RLIMIT_CORE, 0)
    die_with(daemon_pid)
    _prefer_as_victim()


def free_bytes(directory: Path) -> int:
    """Free space on the file system of a directory, bytes."""
    return shutil.disk_usage(directory).free


def largest_file_bytes(max_query_count: int) -> int:
    """Maximum size of a file that a worker may write, bytes."""
    return LOG_BYTES + max_query_count * COLUMN_BYTES * len(QUERY_COLUMNS)


class DiskUse:
    """Measures the disk space that a worker uses."""

    def __init__(self, directory: Path, free_bytes: Callable[[Path], int] = free_bytes) -> None:
        """Record the free space, before the worker writes anything.

        Args:
            directory: The worker's directory.
            free_bytes: Free space on the file system of a directory, bytes.
        """
        self._directory = directory
        self._free_bytes = free_bytes
        self._free_before = free_bytes(directory)

    def taken_bytes(self, pid: int, *, is_counted: bool) -> int:
        """Disk space that the worker has used so far, bytes: the larger of several counts.

        The first count is the size of the files present, the second is the kernel's count of
        written bytes, which includes deleted files. Some kernels have no such count, and no kernel
        counts writes to a file system in memory. The third count is the decrease of the disk's free
        space, which a worker cannot hide. It is used if the kernel's count is missing, or if the
        worker can allocate space without writing. If there are more than `MAX_FILES` files, the
        result is `sys.maxsize`, which exceeds any limit.

        Args:
            pid: The worker's process.
            is_counted: Whether the kernel's count is complete, because the system-call filter stops
                the worker from allocating disk space without writing.
        """
        io = read_text(Path(f"/proc/{pid}/io"))
        counted = re.search(r"^write_bytes: (\d+)$", io, re.MULTILINE)
        present_bytes = 0
        with suppress(FileNotFoundError), os.scandir(self._directory) as files:
            for number, file in enumerate(files):
                if number == MAX_FILES:
                    return sys.maxsize
                with suppress(FileNotFoundError):  # it was removed just now
                    present_bytes += file.stat(follow_symlinks=False).st_size
        if counted and is_counted:
            return max(present_bytes, int(counted[1]))
        lost_bytes = self._free_before - self._free_bytes(self._directory)
        return max(present_bytes, int(counted[1]) if counted else 0, lost_bytes)


def die_with(parent_pid: int) -> None:
    """Have the kernel kill this process when its parent dies."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent_pid:  # the parent died before the line above took effect
        os.kill(os.getpid(), signal.SIGKILL)


def _limit(kind: int, value: int) -> None:
    hard = resource.getrlimit(kind)[1]
    value = min(value, sys.maxsize)  # a count from the wire may be larger than the kernel's type
    value = value if hard == resource.RLIM_INFINITY else min(value, hard)
    resource.setrlimit(kind, (value, value))


def _prefer_as_victim() -> None:
    # When the device runs out of memory, the kernel must choose the worker, not the agent.
    try:
        with open("/proc/self/oom_score_adj", "w", encoding="ascii") as file:
            file.write("1000")
    except OSError:
        return
