"""A control group of our own with a quota of CPU time, where this machine lets us make one."""

from __future__ import annotations

import secrets
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

PERIOD_US = 100_000
_EMPTY_S = 10.0
"""Longest wait for the processes in a group to be gone."""


@contextmanager
def quota_group(cpu_count: float) -> Iterator[Path | None]:
    """A new group with this quota, which is removed at the end; None where none can be made.

    Processes get into it by `enter`; those that are still there at the end move to its parent. It
    has the largest weight, so that it reaches its quota on a busy machine, too.
    """
    quota = f"{round(cpu_count * PERIOD_US)}"
    folder = Path("/sys/fs/cgroup")
    v1 = folder / "cpu"
    parent = v1 if (v1 / "cpu.stat").exists() else folder
    group = parent / f"edgebench-test-{secrets.token_hex(4)}"
    try:
        group.mkdir()
        if parent == v1:
            (group / "cpu.cfs_period_us").write_text(f"{PERIOD_US}")
            (group / "cpu.cfs_quota_us").write_text(quota)
            (group / "cpu.shares").write_text("262144")
        else:
            with suppress(OSError):
                (parent / "cgroup.subtree_control").write_text("+cpu")
            (group / "cpu.max").write_text(f"{quota} {PERIOD_US}")
            (group / "cpu.weight").write_text("10000")
    except OSError:
        with suppress(OSError):
            group.rmdir()
        yield None
        return
    try:
        yield group
    finally:
        _remove(group, parent)


def enter(group: Path, pid: int) -> None:
    """Put a process into a group; those that it starts are in it, too."""
    (group / "cgroup.procs").write_text(f"{pid}")


def _remove(group: Path, parent: Path) -> None:
    deadline_s = time.monotonic() + _EMPTY_S
    while True:
        for pid in (group / "cgroup.procs").read_text().split():
            with suppress(OSError):
                (parent / "cgroup.procs").write_text(pid)
        try:
            group.rmdir()
        except OSError:
            if time.monotonic() > deadline_s:
                raise
            time.sleep(0.05)
        else:
            return
