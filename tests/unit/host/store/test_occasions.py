"""Earlier sets in a store: what the next one will show, where the index has the metric."""

from __future__ import annotations

import json
import math
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from support.changes import changed
from support.kinds import KINDS, store_of
from support.records import kept_runs

from edgebench.host.analysis.occasions import MIN_OCCASIONS
from edgebench.host.analysis.run_set import find_set
from edgebench.host.result.document import to_document
from edgebench.host.result.facts import Replacement
from edgebench.host.result.metrics import GROSS_ENERGY, METRICS
from edgebench.host.result.run import Run
from edgebench.host.result.run_set import RunSet
from edgebench.host.result.verdict import Finding, RuleOutcome, State, Verdict
from edgebench.host.store.layout import RUN_FILE, Store
from edgebench.host.store.occasions import next_time_of, spread_in

DAYS = (1, 2, 3, 4)
BY_DAY = {1: 1.00, 2: 1.03, 3: 0.98, 4: 1.01, 5: 1.02}


def stored(root: Path, days: tuple[int, ...] = DAYS) -> Store:
    """A store with a set a day, whose latencies differ from day to day; made once, then copied."""
    kept = kept_runs() / f"occasions of {days}"
    if not kept.exists():
        _store(kept, days)
    shutil.copytree(kept, root, dirs_exist_ok=True)
    return Store(root)


def _store(root: Path, days: tuple[int, ...]) -> None:
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
    assert "of the next set: within ±" in shown
    assert "estimated from 4 sets of this model" in shown
    assert main(["show", set_id, "--json", "--store", str(store.root)]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["next_time"]["occasion_count"] == 4
    assert document["metrics"]["latency_ns.p50"]["next_run"][0] > 0


LATENCY = METRICS["latency_ns.p50"]


def rewrite(store: Store, set_id: str, change: Callable[[Run], Run]) -> None:
    """Change the runs of a set."""
    for run_id in store.run_ids():
        run = store.run(run_id)
        if run.set_id == set_id:
            made = to_document(change(run))
            (store.directory(run_id) / RUN_FILE).write_text(json.dumps(made))


def of_model(name: str, ratio: float = 1.0) -> Callable[[Run], Run]:
    """A change to another model whose latency is this ratio of the first one's."""

    def change(run: Run) -> Run:
        latency = run.metrics.latency_ns
        assert latency is not None
        assert latency.p50 is not None
        model = {"model.name": f"{name}.tflite", "model.sha256": name}
        return changed(run, {**model, "metrics.latency_ns.p50": round(latency.p50 * ratio)})

    return change


def sides_of(store: Store, baseline: str, candidate: str) -> tuple[list[Run], list[Run]]:
    """The runs of two sets."""
    return [*newest(store, baseline).runs], [*newest(store, candidate).runs]


def test_spread_of_a_comparison_is_that_of_the_baselines_occasions(tmp_path: Path) -> None:
    """Otherwise the change itself would be part of the spread that it is compared with."""
    store = stored(tmp_path)
    rewrite(store, "set-4", of_model("new", 3.0))
    found = spread_in(store, sides_of(store, "set-3", "set-4"), LATENCY)
    logs = [math.log(BY_DAY[day]) for day in (1, 2, 3)]
    mean = sum(logs) / 3
    assert found.deviation == pytest.approx(
        math.sqrt(sum((log - mean) ** 2 for log in logs) / 2), rel=1e-3
    )
    assert (found.freedom, found.occasion_count, found.is_pooled) == (2, 3, False)


def with_failure(run: Run, rule: str) -> Run:
    """The run with this failed rule alone."""
    finding = Finding(id=rule, outcome=RuleOutcome.FAIL, severity=State.SUSPECT)
    return replace(run, verdict=Verdict(state=State.SUSPECT, rules=(finding,)))


def beside_others(run: Run) -> Run:
    """The run, made beside other programs."""
    return with_failure(run, "cpu_pressure")


def test_disturbed_occasions_count_only_for_disturbed_sides(tmp_path: Path) -> None:
    """Otherwise a neighbour on one day would hide every later change."""
    store = stored(tmp_path, (*DAYS, 5))
    rewrite(store, "set-5", of_model("new"))
    rewrite(store, "set-2", lambda run: with_failure(run, "interference"))
    before = spread_in(store, sides_of(store, "set-4", "set-5"), LATENCY)
    rewrite(store, "set-1", beside_others)
    quiet = spread_in(store, sides_of(store, "set-4", "set-5"), LATENCY)
    assert (before.occasion_count, quiet.occasion_count) == (4, 3)
    busy = spread_in(store, sides_of(store, "set-1", "set-5"), LATENCY)
    assert busy.occasion_count == 4
    rewrite(store, "set-2", beside_others)
    few = spread_in(store, sides_of(store, "set-4", "set-5"), LATENCY)
    assert few.occasion_count == 4, "two occasions without another program are too few"


def test_left_out_sets_are_no_occasions(tmp_path: Path) -> None:
    """Otherwise a change would count as spread if half of the candidate's sets were disturbed."""
    store = stored(tmp_path)
    rewrite(store, "set-3", beside_others)
    sides = sides_of(store, "set-1", "set-4")
    left_out = [run.run_id for run in newest(store, "set-3").runs]
    assert spread_in(store, sides, LATENCY).occasion_count == 3
    found = spread_in(store, sides, LATENCY, left_out=left_out)
    assert (found.deviation, found.occasion_count) == (None, 2)


def test_runs_outside_of_sets_count_as_one_set_of_their_side(tmp_path: Path) -> None:
    """Otherwise a side that the comparison takes as undisturbed would be a disturbed one here."""
    store = stored(tmp_path, (*DAYS, 5))
    rewrite(store, "set-1", beside_others)
    before, after = sides_of(store, "set-4", "set-5")
    assert len(after) > 2
    single = [replace(run, member=None) for run in after]
    single[0] = beside_others(single[0])
    for run in single:
        put_document(store, run)
    assert spread_in(store, (before, single), LATENCY).occasion_count == 3


def test_candidate_of_the_same_model_is_no_occasion(tmp_path: Path) -> None:
    """Otherwise a machine that became slower would hide it by its own slowness."""
    store = stored(tmp_path)
    rewrite(store, "set-4", lambda run: changed(run, {"metrics.latency_ns.p50": 99_000_000}))
    found = spread_in(store, sides_of(store, "set-3", "set-4"), LATENCY)
    assert found.occasion_count == 3
    assert found.deviation is not None
    assert found.deviation < 0.05


def test_occasions_of_other_models_count_if_there_are_too_few(tmp_path: Path) -> None:
    """Otherwise every new model would need days before it could be compared."""
    store = stored(tmp_path)
    for set_id, name in (("set-3", "other"), ("set-4", "new")):
        rewrite(store, set_id, of_model(name, 3.0))
    sides = sides_of(store, "set-3", "set-4")
    few = spread_in(store, sides, LATENCY)
    assert (few.deviation, few.occasion_count) == (None, 2), "set-1 and set-2 differ once"
    rewrite(store, "set-4", of_model("old"))
    store_of(tmp_path, KINDS[0], (5, 6))
    found = spread_in(store, sides_of(store, "set-3", "set-4"), LATENCY)
    assert (found.occasion_count, found.model_count, found.is_pooled) == (4, 1, True)


def test_sets_of_one_occasion_count_once(tmp_path: Path) -> None:
    """Otherwise three sets of a minute would pass for the days between two sides."""
    store = stored(tmp_path)

    def soon(run: Run) -> Run:
        day = int(run.created_utc[8:10])
        return replace(run, created_utc=f"2026-03-01T00:0{day}{run.created_utc[16:]}")

    for day in DAYS:
        rewrite(store, f"set-{day}", soon)
    rewrite(store, "set-4", of_model("new"))
    found = spread_in(store, sides_of(store, "set-3", "set-4"), LATENCY)
    assert (found.deviation, found.occasion_count) == (None, 2)
    assert next_time_of(store, newest(store, "set-1")) is None


def test_sets_of_the_sides_count_wherever_they_are_stored(tmp_path: Path) -> None:
    """Otherwise a bundle with the baseline's days would be inconclusive in a new store."""
    elsewhere, store = stored(tmp_path / "sent"), Store(tmp_path / "here")
    rewrite(elsewhere, "set-4", of_model("new"))
    days = [run for day in (1, 2, 3) for run in newest(elsewhere, f"set-{day}").runs]
    found = spread_in(store, (days, [*newest(elsewhere, "set-4").runs]), LATENCY)
    assert (found.occasion_count, found.freedom) == (3, MIN_OCCASIONS - 1)


def test_metric_that_the_index_lacks_is_read_from_the_runs(tmp_path: Path) -> None:
    """Otherwise cold starts of two days could never be compared."""
    store = stored(tmp_path)
    for path in ("cold_start_ns.load", GROSS_ENERGY):
        found = spread_in(store, sides_of(store, "set-3", "set-4"), METRICS[path])
        assert found.deviation == pytest.approx(0.0, abs=1e-9), "they are equal on all days"
        assert found.occasion_count == 3
    for day in DAYS:
        rewrite(store, f"set-{day}", lambda run: changed(run, {"metrics.cold_start_ns.load": 0}))
    none = spread_in(store, sides_of(store, "set-3", "set-4"), METRICS["cold_start_ns.load"])
    assert (none.deviation, none.occasion_count) == (None, 0), "no ratio of zeros"


@pytest.mark.parametrize(("ratio", "code"), [(1.0, 5), (2.0, 4), (0.5, 0)])
def test_gate_of_stored_sets_uses_the_occasions(
    tmp_path: Path, ratio: float, code: int, capsys: pytest.CaptureFixture[str]
) -> None:
    """Otherwise the exit code would follow the hour of the measurement."""
    from edgebench.host.cli.main import main

    store = stored(tmp_path)
    rewrite(store, "set-4", of_model("new", ratio))
    words = ["compare", "set-3", "--against", "set-4", "--store", str(store.root)]
    assert main(words) == code
    assert "the spread between 3 occasions of these models" in " ".join(
        capsys.readouterr().out.split()
    )
    assert main([*words, "--json"]) == code
    [found] = json.loads(capsys.readouterr().out)["comparisons"]
    assert found["is_in_blocks"]
    assert found["result"]["rules"]["blocks"]["spread"]["occasion_count"] == 3
