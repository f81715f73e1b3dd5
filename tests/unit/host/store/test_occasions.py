"""Earlier sets in a store: what the next one will show, where the index has the metric."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from support.changes import changed
from support.kinds import KINDS, store_of

from edgebench.host.analysis.run_set import find_set
from edgebench.host.result.document import to_document
from edgebench.host.result.facts import Replacement
from edgebench.host.result.run import Run
from edgebench.host.result.run_set import RunSet
from edgebench.host.store.layout import RUN_FILE, Store
from edgebench.host.store.occasions import next_time_of

DAYS = (1, 2, 3, 4)
BY_DAY = {1: 1.00, 2: 1.03, 3: 0.98, 4: 1.01}


def stored(root: Path, days: tuple[int, ...] = DAYS) -> Store:
    """A store with a set a day, whose latencies differ from day to day."""
    store = store_of(root, KINDS[0], days)
    for run_id in store.run_ids():
        run = store.run(run_id)
        assert run.member is not None
        latency = run.metrics.latency_ns
        assert latency is not None
        assert latency.p50 is not None
        day = int(run.member.set_id.removeprefix("set-"))
        made = changed(run, {"metrics.latency_ns.p50": round(latency.p50 * BY_DAY[day])})
        (store.directory(run_id) / RUN_FILE).write_text(json.dumps(to_document(made)))
    return store


def newest(store: Store, set_id: str) -> RunSet:
    """A set of the store."""
    runs = [store.run(run_id) for run_id in store.run_ids()]
    return find_set([run for run in runs if run.set_id == set_id])


def test_sets_of_other_days_are_occasions(tmp_path: Path) -> None:
    """Otherwise the spread of ten minutes would be all that is printed."""
    store = stored(tmp_path)
    found = next_time_of(store, newest(store, "set-4"))
    assert found is not None
    assert (found.occasion_count, found.model_count) == (4, 1)
    assert 0.05 < found.half_width_ratio < 0.15


def test_sets_under_other_conditions_are_not(tmp_path: Path) -> None:
    """Otherwise an upgrade of the runtime would count as scatter."""
    store = stored(tmp_path)
    for run_id in store.run_ids():
        run = store.run(run_id)
        if run.member is not None and run.member.set_id != "set-4":
            made = replace(run, runtime=replace(run.runtime, version="0.0.1"))
            (store.directory(run_id) / RUN_FILE).write_text(json.dumps(to_document(made)))
    found = next_time_of(store, newest(store, "set-4"))
    assert found is not None
    assert (found.occasion_count, found.model_count) == (3, 1), "those of the other version, pooled"


def test_replaced_runs_are_left_out(tmp_path: Path) -> None:
    """Otherwise disturbed runs that were measured again would widen the next time."""
    store = stored(tmp_path)
    before = next_time_of(store, newest(store, "set-4"))
    [*_, run_id] = store.run_ids()
    run = store.run(run_id)
    assert run.member is not None
    latency = run.metrics.latency_ns
    assert latency is not None
    assert latency.p50 is not None
    # The run that is left keeps its place; the disturbed run is twice as slow.
    slow_id = f"{run_id[:-1]}{'0' if run_id[-1] != '0' else '1'}"
    slow = changed(run, {"run_id": slow_id, "metrics.latency_ns.p50": 2 * latency.p50})
    again = changed(run, {"member.replaces": Replacement(slow_id, ("cpu_pressure",))})
    for one in (slow, again):
        put_document(store, one)
    assert next_time_of(store, newest(store, "set-4")) == before


def put_document(store: Store, run: Run) -> None:
    """Write the document of a run."""
    store.directory(run.run_id).mkdir(parents=True, exist_ok=True)
    (store.directory(run.run_id) / RUN_FILE).write_text(json.dumps(to_document(run)))


def test_two_sets_are_too_few(tmp_path: Path) -> None:
    """Otherwise two sets that agree by chance would promise that the third does."""
    store = stored(tmp_path, (1, 2))
    assert next_time_of(store, newest(store, "set-2")) is None


@pytest.mark.parametrize("set_id", ["set-1", "set-4"])
def test_page_of_a_set_names_the_occasions(
    tmp_path: Path, set_id: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Otherwise a person would take ± for what the next command shows."""
    from edgebench.host.cli.main import main

    store = stored(tmp_path)
    assert main(["show", set_id, "--store", str(store.root)]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert "of the next set is within ±" in shown
    assert "by 4 sets of this model" in shown
    assert main(["show", set_id, "--json", "--store", str(store.root)]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["next_time"]["occasion_count"] == 4
    assert document["metrics"]["latency_ns.p50"]["next_run"][0] > 0
