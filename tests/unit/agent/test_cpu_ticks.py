"""Ticks from /proc/stat, whatever the kernel writes there."""

from __future__ import annotations

import os
from pathlib import Path
from typing import NoReturn

import pytest
from support.trees import make_tree

from edgebench.agent.cpu_ticks import CpuTicks, own_cpus, parse_cpu_ticks, read_cpu_ticks


def test_all_cpus_and_each_one_are_counted() -> None:
    """Otherwise guest time would be counted twice, or time that a hypervisor took not at all."""
    stat = (
        b"cpu  10 1 2 100 20 3 4 5 9 9\ncpu0 1 0 0 1 0 0 0 0 0 0\ncpu12 0 0 0 7 0 0 0 0\nintr 5\n"
    )
    assert parse_cpu_ticks(stat) == {
        "all": CpuTicks(busy=25, total=145),
        "0": CpuTicks(busy=1, total=2),
        "12": CpuTicks(busy=0, total=7),
    }


@pytest.mark.parametrize("content", [b"", b"intr 1\n", b"cpu  1 2\n", b"cpu  a b c d e f g h\n"])
def test_file_that_tells_nothing_has_no_ticks(tmp_path: Path, content: bytes) -> None:
    """Otherwise a kernel that hides its counters would make every run look undisturbed."""
    assert read_cpu_ticks(make_tree(tmp_path, {"proc/stat": content})) == {}


def test_absent_file_has_no_ticks(tmp_path: Path) -> None:
    """Otherwise an agent on Android would not measure at all."""
    assert read_cpu_ticks(tmp_path) == {}


def test_this_machine_counts_up() -> None:
    """Otherwise the real file would differ from the made-up ones."""
    first, second = read_cpu_ticks()["all"], read_cpu_ticks()["all"]
    assert second.total >= first.total >= first.busy > 0


@pytest.mark.parametrize("error", [AttributeError, PermissionError])
def test_cpus_of_a_system_that_does_not_tell_are_all(
    monkeypatch: pytest.MonkeyPatch, error: type[Exception]
) -> None:
    """Otherwise an agent would not start where the call is missing or denied."""

    def refuse(_: int) -> NoReturn:
        raise error

    monkeypatch.setattr(os, "sched_getaffinity", refuse)
    monkeypatch.setattr(os, "cpu_count", lambda: 3)
    assert own_cpus() == (0, 1, 2)
