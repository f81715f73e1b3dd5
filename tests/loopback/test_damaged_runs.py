"""Runs that cannot be analysed are set aside, and the device can still be measured."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from support.agents import AgentProcess, Host
from support.started import SPEC, start

from edgebench.host.store.layout import RAW_DIRECTORY
from edgebench.protocol.traces import QUERIES_FILE, RECORD_FILE, TELEMETRY_FILE

MODEL = "digits_int8.tflite"
SHORT = (
    *("--quick", "--runs=1", "--duration", "0.3s", "--min-queries", "20"),
    *("--warmup", "1", "--warmup-duration", "0.05s"),
)
DAMAGES: tuple[tuple[str, Any], ...] = (
    ("worker.after.own_cpu_s", 1e308),
    ("worker.after.own_cpu_s", -1.0),
    ("worker.before.monotonic_ns", 2**63),
    ("worker.query_count", 10**9),
    ("worker.memory.peak_rss_bytes", "much"),
    ("telemetry.wall_s", 5e-324),
    ("telemetry", []),
    (QUERIES_FILE, None),
    (QUERIES_FILE, b"\xff" * 8 * 6 * 50),
    (TELEMETRY_FILE, b"\x7f" * 24 * 50),
)
"""Fields of the record with another value, and files that are changed or missing."""


@pytest.fixture(scope="module")
def agent(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AgentProcess]:
    """A device that keeps its runs."""
    process = AgentProcess(tmp_path_factory.mktemp("agent"), options=["--name", "board"]).start()
    yield process
    process.kill()


def damaged(run: Path, spool: Path, number: int) -> str:
    """Copy a run in the spool, under another id and with one damage, and return its id."""
    place, value = DAMAGES[number]
    run_id = f"{run.name.rpartition('-')[0]}-{number:08x}"
    copy = spool / run_id
    shutil.copytree(run, copy)
    record = json.loads((copy / RECORD_FILE).read_bytes()) | {"run_id": run_id}
    if value is None:
        (copy / place).unlink()
    elif isinstance(value, bytes):
        (copy / place).write_bytes(value)
    else:
        *names, last = place.split(".")
        inner = record
        for name in names:
            inner = inner[name]
        inner[last] = value
    (copy / RECORD_FILE).write_text(json.dumps(record))
    return run_id


def test_device_full_of_damaged_runs_is_measured_on(
    agent: AgentProcess, paired: Host, tmp_path: Path
) -> None:
    """Otherwise a single number in a record would lock the owner out of the device for good."""
    with paired.lab.connect("board") as client:
        good = start(client, replace(SPEC, duration_s=0.3))
        list(client.follow_run())
    [run] = agent.state.glob(f"**/spool/{good}")
    shutil.copytree(run, tmp_path / good)
    first = [damaged(tmp_path / good, run.parent, number) for number in range(5)]
    result = paired.run("bench", MODEL, "--on", "board", *SHORT)
    assert result.returncode in (0, 3), result.stderr
    assert agent.status().spooled_count == 0
    warnings = [one for one in result.stderr.splitlines() if "cannot be analysed: " in one]
    assert len(warnings) == len(first)
    assert all("its files are set aside: " in one for one in warnings)

    second = [damaged(tmp_path / good, run.parent, number) for number in range(5, 10)]
    result = paired.run("collect", "--on", "board")
    assert result.returncode == 0, result.stderr
    assert result.stderr.count("cannot be analysed: ") == len(second)
    assert "nothing to store" not in result.stderr
    assert "Warning" not in result.stderr
    assert agent.status().spooled_count == 0

    listed = json.loads(paired.run("runs", "--json").stdout)
    assert [one["run_id"] for one in listed["set_aside"]] == sorted(first + second)
    assert {one["verdict"] for one in listed["runs"]} <= {"valid", "suspect", "invalid"}
    assert len(listed["runs"]) == 2
    assert "own_cpu_s is 1e+308, must be 0 to 1e+12" in listed["set_aside"][0]["error"]
    assert f"{RAW_DIRECTORY}/{RECORD_FILE}" in listed["set_aside"][0]["files"]
