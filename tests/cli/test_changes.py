"""`edgebench changes`: levels that moved, the worst first, and the exit codes of a gate."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from datetime import datetime, timezone
from typing import Any

import pytest
from support.agents import Host
from support.commands import Run
from support.records import store_run

from edgebench.host.store.layout import RUN_FILE, Store

FIRST = "20260301-000000-0123abcd"
SINCE = "2026-03-06"
"""Before the change of `MOVED`, and after the first points."""


def level(us: float) -> list[float]:
    """Ten medians around a value, nanoseconds."""
    return [1000 * us + 500 * (number * 7 % 10) for number in range(10)]


MOVED = [*level(1000), *level(1100)]


@pytest.fixture
def fill(host: Host) -> Any:
    """Stores a run of a model on each day of March, with these medians, version and temperature."""
    store = Store(host.folder / "data" / "edgebench")
    store_run(store, FIRST)
    template = json.loads((store.directory(FIRST) / RUN_FILE).read_text())
    shutil.rmtree(store.directory(FIRST))
    count = 0

    def make(
        model: str, medians: Sequence[float], *, new_from: int = 99, state: str = "valid"
    ) -> None:
        nonlocal count
        count += 1
        for day, p50 in enumerate(medians, start=1):
            document = json.loads(json.dumps(template))
            is_new = day > new_from
            document["run_id"] = f"202603{day:02}-00000{count}-0123abcd"
            document["created_utc"] = f"2026-03-{day:02}T00:00:00+00:00"
            document["model"] |= {"name": model, "sha256": str(count) * 64}
            document["metrics"]["latency_ns"]["p50"] = p50
            document["runtime"]["version"] = "2.1" if is_new else "2.0"
            document["metrics"]["thermal"] = (document["metrics"]["thermal"] or {}) | {
                "state": "not_throttled",
                "cause": None,
                "is_certain": False,
                "reasons": [],
                "start_temp_c": 61.0 if is_new else 45.0,
            }
            document["verdict"]["state"] = state
            folder = store.directory(document["run_id"])
            folder.mkdir(exist_ok=True)
            (folder / RUN_FILE).write_text(json.dumps(document))

    return make


def test_worst_comes_first_with_what_changed(edgebench: Run, fill: Any) -> None:
    """Otherwise a person would have to read each history to find what became slower."""
    fill("better.tflite", [*level(1000), *level(800)])
    fill("slightly.tflite", [*level(1000), *level(1020)], new_from=10)
    fill("steady.tflite", level(1000))
    fill("worse.tflite", MOVED, new_from=10)
    lines = edgebench("changes", "--since", SINCE).out.splitlines()
    first, beside, second, _, third, without, last = lines
    assert first.startswith("worse: worse.tflite on board, tflite, single_stream: latency_ns.p50 ")
    assert "1.00 ms → 1.10 ms, +9.98 % (+9.82 % .. +10.14 %), since 2026-03-11 00:00 UTC" in first
    assert "runtime_version 2.0 → 2.1" in beside
    assert "temperature after the warm-up 45 → 61 °C" in beside
    assert second.startswith("worse: slightly.tflite")
    assert third.startswith("better: better.tflite")
    assert without.strip() == "with it: no condition that was recorded"
    assert last == "3 of 4 histories moved, 2 for the worse"


def test_document_has_the_same_changes(edgebench: Run, fill: Any) -> None:
    """Otherwise a script would have to parse sentences."""
    fill("worse.tflite", MOVED, new_from=10, state="suspect")
    fill("short.tflite", level(1000)[:4])
    document = json.loads(edgebench("changes", "--since", "2026-03-02", "--json").out)
    [change] = document["changes"]
    assert (document["history_count"], document["undecided_count"]) == (2, 1)
    assert change["subject"]["model"] == "worse.tflite"
    assert change["outcome"] == "worse"
    assert change["since_utc"] == "2026-03-11T00:00:00+00:00"
    assert change["ratio_interval"][0] < change["ratio"] < change["ratio_interval"][1]
    assert change["changed"]["runtime_version"] == ["2.0", "2.1"]
    assert change["start_temp_c"] == [45.0, 61.0]
    assert (change["point_count"], change["suspect_count"]) == (20, 20)
    [line, _, _] = edgebench("changes", "--since", "2026-03-02").out.splitlines()
    assert line.endswith("20 of 20 points are suspect")


def test_earlier_changes_are_not_listed(edgebench: Run, fill: Any) -> None:
    """Otherwise last year's regression would be the first line each week."""
    fill("worse.tflite", MOVED)
    assert edgebench("changes", "--since", "2026-03-12").out == "0 of 1 histories moved\n"
    assert edgebench("changes", "--since", "2026-04-01").out == "no runs since then\n"


@pytest.mark.parametrize(
    ("medians", "code"),
    [
        (MOVED, 4),
        ([*level(1000), *level(1030)], 5),
        ([*level(1000), *level(1010)], 0),
        (level(1000), 0),
        (level(1000)[:4], 5),
    ],
)
def test_exit_code_is_that_of_a_history(
    edgebench: Run, fill: Any, medians: Sequence[float], code: int
) -> None:
    """Otherwise the two gates would disagree."""
    fill("m.tflite", medians)
    assert edgebench("changes", "--since", "2026-03-02", "--fail-on", "3%").code == code
    assert edgebench("history", "--fail-on", "3%").code == code
    assert edgebench("changes", "--since", "2026-03-02").code == 0


def test_python_gives_the_same(host: Host, fill: Any) -> None:
    """Otherwise a notebook would have to run the command."""
    fill("worse.tflite", MOVED)
    since = datetime(2026, 3, 6, tzinfo=timezone.utc)
    [change], [history] = host.lab.changes(since, model="worse*")
    assert change.history is history
    assert change.worsening == pytest.approx(1.1, rel=0.01)
