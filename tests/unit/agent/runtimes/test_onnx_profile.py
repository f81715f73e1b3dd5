"""Reading what ONNX Runtime's profiler writes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from edgebench.agent.runtimes.onnx_profile import (
    BYTES_PER_EVENT,
    MAX_FILE_BYTES,
    affordable_run_count,
    read_profile,
)
from edgebench.protocol.errors import ModelRefused
from edgebench.protocol.record import OperatorTime

RUN_IS_OVER = {"cat": "Session", "name": "model_run", "ts": 0, "dur": 99, "args": {}}
LOADING = {"cat": "Session", "name": "model_loading_uri", "ts": 0, "dur": 9, "args": {}}


def event(operator: str, node: int, start_us: int, duration_us: int) -> dict[str, Any]:
    """An operator, as the profiler writes it."""
    facts = {"op_name": operator, "node_index": str(node), "provider": "CPUExecutionProvider"}
    name = f"{operator.lower()}{node}_kernel_time"
    return {"cat": "Node", "name": name, "ts": start_us, "dur": duration_us, "args": facts}


def written(folder: Path, *entries: dict[str, Any]) -> str:
    """A file of these events."""
    path = folder / "profile.json"
    path.write_text(json.dumps(list(entries)))
    return str(path)


def test_times_of_the_last_runs_are_added_up(tmp_path: Path) -> None:
    """Otherwise the cold first inference would be part of the profile."""
    entries = [LOADING, event("Conv", 7, 0, 900), event("Relu", 3, 950, 100), RUN_IS_OVER]
    entries += [event("Conv", 7, 2000, 10), event("Relu", 3, 2011, 1), RUN_IS_OVER]
    entries += [event("Conv", 7, 3000, 12), event("Relu", 3, 3013, 2), RUN_IS_OVER]
    path = written(tmp_path, *entries)
    assert read_profile(path, 2) == (
        OperatorTime(0, "Conv", "conv7", "cpu", 2, 22_000, 10_000),
        OperatorTime(1, "Relu", "relu3", "cpu", 2, 3_000, 1_000),
    )
    assert not Path(path).exists()


def test_run_that_was_preempted_does_not_change_the_median(tmp_path: Path) -> None:
    """Otherwise an operator of a model of 11 µs would be reported to take a hundred."""
    times_us = [11] * 9 + [10_000]
    runs = [
        (event("Conv", 7, 20_000 * n, time_us), RUN_IS_OVER) for n, time_us in enumerate(times_us)
    ]
    (found,) = read_profile(written(tmp_path, *(entry for run in runs for entry in run)), 10)
    assert (found.p50_ns, found.total_ns, found.count) == (11_000, 10_099_000, 10)


def test_operators_inside_a_loop_count_in_the_loop(tmp_path: Path) -> None:
    """Otherwise the parts would add up to twice the whole."""
    inner = [event("Mul", 1, 11, 4), event("Mul", 1, 16, 4)]
    path = written(tmp_path, *inner, event("Loop", 5, 10, 12), event("Add", 6, 22, 3), RUN_IS_OVER)
    assert [(one.operator, one.total_ns) for one in read_profile(path, 1)] == [
        ("Loop", 12_000),
        ("Add", 3_000),
    ]


def test_too_few_runs_are_refused(tmp_path: Path) -> None:
    """Otherwise a profiler that was full would report the first half of the runs as all."""
    with pytest.raises(ModelRefused, match="1 of 2 runs"):
        read_profile(written(tmp_path, event("Add", 0, 0, 1), RUN_IS_OVER), 2)


@pytest.mark.parametrize("content", ["", "{", "[1]", '[{"cat": "Node", "name": "a_kernel_time"}]'])
def test_what_is_no_profile_is_refused_and_deleted(tmp_path: Path, content: str) -> None:
    """Otherwise a full disk would leave half a file, and the run would end in a traceback."""
    path = tmp_path / "profile.json"
    path.write_text(content)
    with pytest.raises(ModelRefused) as caught:
        read_profile(str(path), 1)
    assert str(caught.value).isprintable()
    assert not path.exists()


def test_name_of_an_operator_is_made_printable(tmp_path: Path) -> None:
    """Otherwise a model file could clear the screen of the person who reads its profile."""
    evil = event("Add", 0, 0, 1) | {"name": "\x1b[2J\n_kernel_time"}
    (one,) = read_profile(written(tmp_path, evil, RUN_IS_OVER), 1)
    assert one.name.isprintable()


@pytest.mark.parametrize(
    ("run_count", "operator_count", "expected"),
    [(50, 10, 50), (10**9, 1, MAX_FILE_BYTES // BYTES_PER_EVENT), (50, 10**6, 1), (5, 0, 5)],
)
def test_large_models_are_run_less_often(
    run_count: int, operator_count: int, expected: int
) -> None:
    """Otherwise a profile would fill the device's disk, or its memory."""
    assert affordable_run_count(run_count, operator_count) == expected
