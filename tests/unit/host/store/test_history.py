"""Histories of a store: grouping of runs, and the documents that are read."""

from __future__ import annotations

import json
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
from support.records import RUN_ID, store_run

from edgebench.host.analysis.history.history import HistoryOutcome
from edgebench.host.result.run import Run
from edgebench.host.store.history import read_histories
from edgebench.host.store.index import RunFilter
from edgebench.host.store.layout import RUN_FILE, Store
from edgebench.protocol.errors import NoSuchRun, UsageError

Change = dict[str, Any]


@pytest.fixture
def store(tmp_path: Path) -> Store:
    """An empty store, and outside of it one document that serves as a template."""
    made = Store(tmp_path / "store")
    store_run(made, RUN_ID)
    (made.directory(RUN_ID) / RUN_FILE).rename(tmp_path / RUN_FILE)
    return made


def add(store: Store, day: int, p50: int, *, number: int = 0, set_id: str | None = None) -> Change:
    """Store a run of a day of March; return its document, to be changed and written again."""
    document: Change = deepcopy(json.loads((store.root.parent / RUN_FILE).read_text()))
    document["run_id"] = f"202603{day:02}-00000{number}-0123abcd"
    document["created_utc"] = f"2026-03-{day:02}T00:00:0{number}+00:00"
    document["metrics"]["latency_ns"]["p50"] = p50
    document["set"] = set_id and {"set_id": set_id, "number": number, "count": 5}
    write(store, document)
    return document


def write(store: Store, document: Change) -> None:
    """Write the document of a run."""
    folder = store.directory(document["run_id"])
    folder.mkdir(parents=True, exist_ok=True)
    (folder / RUN_FILE).write_text(json.dumps(document))


def level(store: Store, first_day: int, p50: int) -> None:
    """Store runs of eight days at about this median."""
    for day in range(first_day, first_day + 8):
        add(store, day, p50 + day % 4)


def test_step_is_found_from_the_index(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise a history of ten thousand runs would read as many documents."""
    level(store, 1, 1000)
    level(store, 9, 1100)
    read_histories(store, RunFilter(), metric="latency_ns.p50")  # Makes the index.
    read: list[str] = []
    load = Store.run

    def noted(self: Store, run_id: str) -> Run:
        read.append(run_id)
        return load(self, run_id)

    monkeypatch.setattr(Store, "run", noted)
    [found] = read_histories(store, RunFilter(), metric="latency_ns.p50", margin_ratio=0.03)
    assert found.outcome is HistoryOutcome.WORSE
    assert found.levels[-1].first == 8
    assert len(read) == 1, "one document for the conditions"


def test_runs_of_a_set_are_one_point(store: Store) -> None:
    """Otherwise five runs of one command would count as five days."""
    for day in (1, 2):
        for number in range(5):
            add(store, day, 1000 + number, number=number, set_id=f"set-{day}")
    [found] = read_histories(store, RunFilter())
    assert [point.set_id for point in found.points] == ["set-1", "set-2"]
    assert found.points[0].ci95 == (1000.0, 1004.0)


def test_replaced_run_is_no_part_of_its_point(store: Store) -> None:
    """Otherwise a disturbed run that was measured again would move the history."""
    for day in (1, 2):
        for number in range(5):
            add(store, day, 1000 + number, number=number, set_id=f"set-{day}")
    document = add(store, 2, 1003, number=5, set_id="set-2")
    replaced = {"run_id": "20260302-000004-0123abcd", "rules": ["cpu_pressure"]}
    document["set"] |= {"number": 4, "replaces": replaced}
    write(store, document)
    [found] = read_histories(store, RunFilter())
    assert [point.ci95 for point in found.points] == [(1000.0, 1004.0), (1000.0, 1003.0)]
    assert found.refused_count == 0, "a replaced run is not invalid"


def test_invalid_set_is_left_out_of_the_history_of_every_metric(store: Store) -> None:
    """Otherwise memory would be shown despite refused latency, or wide memory refuse a good set."""
    for number, p50 in enumerate((1000, 1010, 1020, 1900, 2500)):
        add(store, 1, p50, number=number, set_id="set-wide")
    for number in range(5):
        document = add(store, 2, 1000 + number, number=number, set_id="set-good")
        document["metrics"]["memory_bytes"]["peak_rss"] *= 1 + number
        write(store, document)
    for metric in (None, "memory_bytes.peak_rss"):
        [found] = read_histories(store, RunFilter(), metric=metric)
        assert [point.set_id for point in found.points] == ["set-good"]
        assert found.refused_count == 5


def test_newest_runs_bring_the_rest_of_their_set(store: Store) -> None:
    """Otherwise a set would be cut in the middle, and have another value and another interval."""
    for day in (1, 2):
        for number in range(5):
            add(store, day, 1000 + number, number=number, set_id=f"set-{day}")
    [found] = read_histories(store, RunFilter(last=2))
    assert [(point.set_id, len(point.run_ids)) for point in found.points] == [("set-2", 5)]


def test_histories_of_named_runs(store: Store) -> None:
    """Otherwise a history that differs from others only in its settings could not be chosen."""
    level(store, 1, 1000)
    other = add(store, 20, 1000)
    other["spec"]["threads"] = 2
    write(store, other)
    assert len(read_histories(store, RunFilter())) == 2
    [found] = read_histories(store, RunFilter(), runs=[other["run_id"]])
    assert found.subject.threads == 2
    with pytest.raises(NoSuchRun):
        read_histories(store, RunFilter(), runs=["nothing"])


def test_other_settings_are_another_history_and_other_conditions_are_marked(store: Store) -> None:
    """Otherwise two threads and four would be mixed, or a new governor would end a history."""
    add(store, 1, 1000)
    document = add(store, 2, 1000)
    document["spec"]["threads"] = 2
    write(store, document)
    document = add(store, 3, 1000)
    document["conditions"]["before"]["governors"] = ["powersave"]
    write(store, document)
    one, other = read_histories(store, RunFilter())
    assert [len(found.points) for found in (one, other)] == [2, 1]
    assert one.points[-1].changed == {"governor": ("performance", "powersave")}


def test_simulated_device_is_labelled(store: Store) -> None:
    """Otherwise the numbers of a simulation would look like those of a board."""
    document = add(store, 1, 1000)
    write(store, document | {"simulated": True})
    [found] = read_histories(store, RunFilter())
    assert found.subject.kind == "simulated"


def test_each_side_of_a_comparison_is_a_point_and_judged_as_a_set(store: Store) -> None:
    """Otherwise both sides of a self-comparison would be one point, or an invalid side suspect."""
    for number, (base_ns, new_ns) in enumerate([(1000, 1010), (1001, 3010), (1002, 990)] * 2):
        for side, p50 in (("baseline", base_ns), ("candidate", new_ns)):
            document = add(store, 1, p50, number=2 * number + (side == "candidate"))
            document["pair"] = {"comparison_id": "pairs-1", "number": number, "side": side}
            write(store, document)
    [history] = read_histories(store, RunFilter(), metric="latency_ns.p50")
    [point] = history.points
    assert (point.value, len(point.run_ids)) == (1001, 6)
    assert history.refused_count == 6


def test_invalid_and_failed_runs_are_left_out(store: Store) -> None:
    """Otherwise a refused number would be drawn."""
    add(store, 1, 1000)
    document = add(store, 2, 5000)
    document["verdict"]["state"] = "invalid"
    write(store, document)
    document = add(store, 3, 5000)
    document["failure"] = {"code": "worker_died", "message": "killed", "phase": None}
    write(store, document)
    [found] = read_histories(store, RunFilter())
    assert [point.value for point in found.points] == [1000.0]
    assert found.refused_count == 1


def test_metric_that_is_not_in_the_index_is_read_from_the_documents(store: Store) -> None:
    """Otherwise only metrics of the index would have a history."""
    level(store, 1, 1000)
    [found] = read_histories(store, RunFilter(), metric="cold_start_ns.load")
    assert len(found.points) == 8
    assert {point.value for point in found.points} == {2_000_000.0}
    assert found.outcome is HistoryOutcome.STEADY


def test_selection_without_runs_is_an_error(store: Store) -> None:
    """Otherwise an empty page would look like a history without a change."""
    with pytest.raises(NoSuchRun, match="no matching runs"):
        read_histories(store, RunFilter(model="other"))
    add(store, 1, 1000)
    with pytest.raises(UsageError, match="cannot be compared"):
        read_histories(store, RunFilter(), metric="warmup.query_count")
