"""The record that a worker leaves: a hostile record costs the daemon an error, and no memory."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from support.records import worker_record

from edgebench.agent.worker.record_file import MAX_RECORD_BYTES, read_record, write_record
from edgebench.protocol.errors import WorkerDied
from edgebench.protocol.plain import to_plain
from edgebench.protocol.record import CheckFacts, OperatorTime, ThreadTime, WorkerRecord

MEMORY_BYTES = 5 * 2**20
HOSTILE = {
    "lists": ("[", "[],", 300_000, "[]]"),
    "objects": ("[", "{},", 300_000, "{}]"),
    "large": ("[", "[],", 30_000_000, "[]]"),
    "texts": ("[", '"ab",', 180_000, '"ab"]'),
    "deep": ("", "[", 500_000, ""),
    "not in ASCII": ('"', "a", 1_000_000, '\N{GRINNING FACE}"'),
    "number": ("", "9", 1_000_000, ""),
}
"""Beginning, repeated part, its count, and end: as text, they take 90 MB of each test process."""


def hostile_text(name: str) -> str:
    """A hostile record."""
    begin, part, count, end = HOSTILE[name]
    return begin + part * count + end


def test_record_is_read_as_it_was_written(tmp_path: Path) -> None:
    """Otherwise a measurement would be lost on its way to the daemon."""
    record = worker_record([1000] * 30)
    write_record(tmp_path / "worker.json", record)
    assert read_record(tmp_path / "worker.json", WorkerRecord) == record
    assert os.listdir(tmp_path) == ["worker.json"]


def test_largest_honest_record_is_read(tmp_path: Path) -> None:
    """A profile of a transformer, on a machine with many CPUs, is no attack."""
    record = worker_record([1000] * 30)
    threads = tuple(ThreadTime(number, 1234.567891, 0.123456789) for number in range(256))
    operators = tuple(
        OperatorTime(number, "MatMul", f"/model/layers.{number}/self_attn/MatMul", "cpu", 9, 10**9)
        for number in range(2000)
    )
    record = replace(
        record,
        before=replace(record.before, threads=threads),
        after=replace(record.after, threads=threads),
        check=CheckFacts(operators=operators),
    )
    write_record(tmp_path / "worker.json", record)
    assert read_record(tmp_path / "worker.json", WorkerRecord) == record


def test_profile_that_is_too_large_is_left_out_with_its_reason(tmp_path: Path) -> None:
    """Otherwise the whole measurement would be lost for the sake of its profile."""
    operator = OperatorTime(0, "MatMul", "n" * 200, "cpu", 9, 10**9)
    record = replace(worker_record([1000] * 30), check=CheckFacts(operators=(operator,) * 6000))
    write_record(tmp_path / "worker.json", record)
    found = read_record(tmp_path / "worker.json", WorkerRecord)
    assert found.check.operators == ()
    assert found.check.profile_error is not None
    assert found.check.profile_error.startswith("times of 6000 operators are not kept: more than")
    assert replace(found, check=record.check) == record


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_record_is_one_error(tmp_path: Path, name: str) -> None:
    """Otherwise the daemon would end in a traceback, or be killed for its memory."""
    path = tmp_path / "worker.json"
    path.write_text(hostile_text(name))
    with pytest.raises(WorkerDied, match="worker left "):
        read_record(path, WorkerRecord)


def test_links_and_pipes_are_not_read(tmp_path: Path) -> None:
    """Otherwise a link could lead to a file of the agent, or a pipe would be waited for."""
    (tmp_path / "secret").write_text(json.dumps(to_plain(worker_record([1000] * 30))))
    (tmp_path / "link").symlink_to("secret")
    os.mkfifo(tmp_path / "pipe")
    for name in ("link", "pipe", "missing"):
        with pytest.raises(WorkerDied, match="no readable record"):
            read_record(tmp_path / name, WorkerRecord)


def test_memory_of_the_daemon_stays_bounded(tmp_path: Path) -> None:
    """Otherwise, on a board with 1 GB, the kernel would kill the daemon.

    Twenty hostile records, among them one that is just within the limits and well-formed.
    """
    fat = worker_record([1000] * 30)
    threads = tuple(ThreadTime(number, 0.5, 0.5) for number in range(6500))
    write_record(tmp_path / "fat", replace(fat, after=replace(fat.after, threads=threads)))
    assert (tmp_path / "fat").stat().st_size < MAX_RECORD_BYTES
    for name in HOSTILE:
        (tmp_path / name).write_text(hostile_text(name))
    script = """
import os, sys
from pathlib import Path
from edgebench.agent.worker.record_file import read_record
from edgebench.protocol.errors import WorkerDied
from edgebench.protocol.record import WorkerRecord

def peak():
    lines = Path("/proc/self/status").read_text().splitlines()
    return 1024 * next(int(line.split()[1]) for line in lines if line.startswith("VmHWM"))

folder, accepted = Path(sys.argv[1]), 0
paths = sorted(folder.iterdir())
before = peak()
for number in range(20):
    try:
        read_record(paths[number % len(paths)], WorkerRecord)
        accepted += 1
    except WorkerDied:
        pass
print(peak() - before, accepted)
"""
    done = subprocess.run(
        [sys.executable, "-c", script, str(tmp_path)], capture_output=True, text=True, check=True
    )
    grown, accepted = map(int, done.stdout.split())
    assert accepted in (2, 3)
    assert grown <= MEMORY_BYTES
