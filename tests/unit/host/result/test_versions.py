"""Stored runs of every version so far are read, shown, compared and verified."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.analysed_once import analysed_once, recomputed_once

from edgebench.host.analysis.compare.runs import compare_groups
from edgebench.host.bench.verify import verify
from edgebench.host.result.document import from_document, to_document
from edgebench.host.result.migrations import promised
from edgebench.host.result.run import SCHEMA_VERSION
from edgebench.host.show.page import run_page
from edgebench.host.show.tables import console
from edgebench.host.store.index import list_runs
from edgebench.host.store.layout import Store
from edgebench.protocol.errors import RunDamaged

FIXTURES = Path(__file__).parents[3] / "fixtures" / "runs"
RUNS = sorted(FIXTURES.glob("v*/*/run.json"))
OLDER = [path for path in RUNS if path.parts[-3] != f"v{SCHEMA_VERSION}"]
NOT_PROMISED = {
    1: "files conditions.background_busy_ratio",
    2: """pair spec.telemetry_rate_hz spec.is_sustained spec.cooldown_timeout_s spec.governor
        spec.meter spec.idle_duration_s spec.load_code_chip_s metrics.latency_ns.mean_ci95
        metrics.latency_ns.effective_count metrics.end_to_end_ns.mean_ci95
        metrics.end_to_end_ns.effective_count metrics.outliers.score_max
        metrics.outliers.score_outlier_count metrics.agreement.relative_rms_best metrics.loadgen
        metrics.thermal conditions.expected conditions.cooldown conditions.telemetry""",
    3: """metrics.energy.sync.asked metrics.energy.sync.reference_ns metrics.energy.sync.offset_ns
        metrics.energy.common_j metrics.energy.net_common_j metrics.energy.supply_v
        metrics.energy.settings_sha256 conditions.clock.residual_ns""",
    4: "conditions.clock.slope_error conditions.clock.span_ns",
}
"""Keys that were added after a version was raised, by that version."""
REDEFINED = {
    1: """conditions.cpu_affinity conditions.involuntary_switch_count metrics.latency_ns.p50_ci95
        metrics.latency_ns.p90_ci95 metrics.latency_ns.p99_ci95 metrics.warmup.class"""
}
"""Keys with a new definition today, by the last version that had the old definition."""
SPANS = (
    "metrics.latency_ns",
    "metrics.end_to_end_ns",
    "metrics.thermal.latency_ns_before",
    "metrics.thermal.latency_ns_after",
)
WIDENED = " ".join(
    f"{span}.{name}"
    for span in SPANS
    for name in ("p50_ci95", "p90_ci95", "p99_ci95", "mean_ci95", "effective_count")
)
"""Keys that were narrower until version 6."""
IN_STEP = """metrics.energy.u95_absolute_j metrics.energy.u95_comparative_j
    metrics.energy.components_j metrics.energy.net_components_j metrics.energy.net_u95_absolute_j
    metrics.energy.net_u95_comparative_j metrics.energy.power_w_mean_u95_absolute
    metrics.energy.power_w_idle_u95_absolute metrics.energy.energy_delay_u95_absolute_js
    metrics.energy.battery.u95_ratio metrics.energy.phases.load.u95_absolute_j
    metrics.energy.phases.warmup.u95_absolute_j metrics.energy.phases.steady.u95_absolute_j"""
"""Keys that underrated loops in step with the samples until version 6."""


@pytest.fixture(scope="module", autouse=True)
def _computed_once() -> Iterator[None]:
    """Compute each run once, as a dozen tests verify it with other documents."""
    with analysed_once(), recomputed_once():
        yield


def named(path: Path) -> str:
    """Version and run id of a path."""
    return "/".join(path.parts[-3:-1])


def stored(path: Path, folder: Path) -> Store:
    """A store with only this run, which may be changed."""
    store = Store(folder)
    store.runs.mkdir(parents=True)
    shutil.copytree(path.parent, store.runs / path.parent.name)
    return store


def lost(before: object, after: object, path: str = "metrics") -> list[str]:
    """Paths whose value differs or is gone; keys that were added later are not included."""
    if before == after:
        return []
    if isinstance(before, dict) and isinstance(after, dict):
        return [
            place
            for key, value in before.items()
            for place in lost(value, after.get(key), f"{path}.{key}")
        ]
    if isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        return [
            place
            for number, pair in enumerate(zip(before, after, strict=True))
            for place in lost(*pair, f"{path}.{number}")
        ]
    return [path]


def keys_of(plain: object, path: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    """Path of every key of a document that is not null; rules do not count as keys."""
    if isinstance(plain, dict):
        for key, value in plain.items():
            if value is not None and path != ("verdict",) and (*path, key) != ("schema_version",):
                yield (*path, key)
                yield from keys_of(value, (*path, key))
    elif isinstance(plain, list):
        for number, value in enumerate(plain):
            yield from keys_of(value, (*path, number))


def is_below(path: tuple[str | int, ...], names: str) -> bool:
    """Whether a key is among these names, or inside of one of them."""
    name = ".".join(step for step in path if isinstance(step, str))
    return any(name == one or name.startswith(f"{one}.") for one in names.split())


def delete(document: Any, path: tuple[str | int, ...]) -> None:
    """Remove a key from a document."""
    for step in path[:-1]:
        document = document[step]
    del document[path[-1]]


def test_there_is_a_run_of_every_version() -> None:
    """Otherwise a version would be forgotten, and its runs could no longer be read."""
    versions = {json.loads(path.read_bytes())["schema_version"] for path in RUNS}
    assert versions == set(range(1, SCHEMA_VERSION + 1))


@pytest.mark.parametrize("path", RUNS, ids=named)
def test_page_of_a_run_has_its_numbers(path: Path) -> None:
    """Otherwise an older run would be shown without its numbers, or not at all."""
    document = json.loads(path.read_bytes())
    out = console()
    with out.capture() as captured:
        out.print(run_page(from_document(document), 160, is_all=True))
    page = captured.get()
    assert document["run_id"] in page
    assert document["model"]["name"] in page
    assert "None" not in page
    for rule in document["verdict"]["rules"]:
        assert rule["id"] in page


@pytest.mark.parametrize("path", RUNS, ids=named)
def test_reading_loses_no_number(path: Path) -> None:
    """Otherwise a number of an older run would vanish when its document is written again."""
    document = json.loads(path.read_bytes())
    written = to_document(from_document(document))
    before, after = document["metrics"], json.loads(json.dumps(written))["metrics"]
    assert lost(before, after) == []


@pytest.mark.parametrize("path", RUNS, ids=named)
def test_run_verifies(path: Path, tmp_path: Path) -> None:
    """Otherwise a newer edgebench would report an unchanged run as wrong."""
    store = stored(path, tmp_path)
    assert verify(store, path.parent.name) == []
    assert [row.run_id for row in list_runs(store)] == [path.parent.name]


@pytest.mark.parametrize("path", OLDER, ids=named)
def test_changed_latency_does_not_verify(path: Path, tmp_path: Path) -> None:
    """Otherwise `verify` would accept any change in a run of an older version."""
    store = stored(path, tmp_path)
    changed = store.runs / path.parent.name / "run.json"
    document = json.loads(changed.read_bytes())
    if document["metrics"]["latency_ns"] is None:
        return  # A profile has operators, and no latency of its own
    keys = ["count", "max", "mean", "min", "p50"]
    for key in keys:
        document["metrics"]["latency_ns"][key] += 1
    changed.write_text(json.dumps(document))
    found = [difference.key for difference in verify(store, path.parent.name)]
    assert found == [f"metrics.latency_ns.{key}" for key in keys]


@pytest.mark.parametrize("path", OLDER, ids=named)
def test_changed_verdict_does_not_verify(path: Path, tmp_path: Path) -> None:
    """Otherwise a failed rule of an older run could be changed to passed by hand."""
    store = stored(path, tmp_path)
    changed = store.runs / path.parent.name / "run.json"
    document = json.loads(changed.read_bytes())
    rule = next(r for r in document["verdict"]["rules"] if r["id"] == "enough_queries")
    rule["outcome"] = "fail" if rule["outcome"] == "pass" else "pass"
    changed.write_text(json.dumps(document))
    assert "verdict.rules.enough_queries" in {one.key for one in verify(store, path.parent.name)}


@pytest.mark.parametrize("version", range(1, SCHEMA_VERSION))
@pytest.mark.parametrize(("held", "today"), [("fail", "pass"), ("pass", "fail")])
def test_verdict_of_a_rule_with_another_limit_stays(version: int, held: str, today: str) -> None:
    """Otherwise unchanged runs would be reported as wrong, because a rule's limit has changed."""

    def document(outcome: str) -> dict[str, Any]:
        rule = {"id": "steady_state", "severity": "suspect", "outcome": outcome}
        state = "suspect" if outcome == "fail" else "valid"
        verdict = {"state": state, "rules": [rule]}
        return {"schema_version": version, "metrics": {"warmup": None}, "verdict": verdict}

    before, after = promised(document(held), document(today), version)
    assert before["verdict"] == after["verdict"]


@pytest.mark.parametrize("path", OLDER, ids=named)
@pytest.mark.parametrize("name", ["warmup", "memory_bytes", "cold_start_ns"])
def test_metric_that_is_gone_is_noticed(path: Path, name: str, tmp_path: Path) -> None:
    """Otherwise the removal of a number that every version has would go unnoticed."""
    store = stored(path, tmp_path)
    changed = store.runs / path.parent.name / "run.json"
    document = json.loads(changed.read_bytes())
    del document["metrics"][name]
    changed.write_text(json.dumps(document))
    with pytest.raises(RunDamaged, match=name):
        verify(store, path.parent.name)


@pytest.mark.parametrize("path", OLDER, ids=named)
def test_every_key_that_a_version_promised_is_missed(path: Path) -> None:
    """Otherwise the removal of a number from an older run would go unnoticed."""
    text = path.read_bytes()
    document = json.loads(text)
    version = document["schema_version"]
    today = json.dumps(to_document(from_document(document)))
    wrong = []
    for key in keys_of(document):
        if key == ("verdict",):
            continue  # Without it there is nothing to compare
        changed = json.loads(text)
        delete(changed, key)
        held, computed = promised(changed, json.loads(today), version)
        free = (NOT_PROMISED.get(version, ""), REDEFINED.get(version, ""), WIDENED, IN_STEP)
        is_free = is_below(key, " ".join(free))
        if bool(lost(computed, held)) == is_free:
            wrong.append(key)
    assert wrong == []


@pytest.mark.parametrize("path", OLDER, ids=named)
def test_every_rule_that_a_version_promised_is_missed(path: Path, tmp_path: Path) -> None:
    """Otherwise the removal of a failed rule would improve the verdict of an older run."""
    store = stored(path, tmp_path)
    changed = store.runs / path.parent.name / "run.json"
    document = json.loads(changed.read_bytes())
    removed = [rule["id"] for rule in document["verdict"]["rules"]]
    if document["schema_version"] == 1:
        removed.remove("background_load")  # defined anew
    elif document["schema_version"] == 2:
        first = json.loads(RUNS[0].read_bytes())["verdict"]["rules"]
        removed = [rule["id"] for rule in first]  # others may have come within version 2
    document["verdict"]["rules"] = []
    changed.write_text(json.dumps(document))
    found = {one.key for one in verify(store, path.parent.name)} - {"verdict.state"}
    assert found == {f"verdict.rules.{name}" for name in removed}


@pytest.mark.parametrize("path", OLDER, ids=named)
def test_optional_metrics_that_are_gone_do_not_verify(path: Path, tmp_path: Path) -> None:
    """Otherwise `verify` would take a removed optional key for a key of a later version."""
    store = stored(path, tmp_path)
    changed = store.runs / path.parent.name / "run.json"
    document = json.loads(changed.read_bytes())
    metrics, late = document["metrics"], NOT_PROMISED.get(document["schema_version"], "")
    required = {"warmup", "memory_bytes", "cold_start_ns", "harness_ns", "throughput_per_s"}
    names = [name for name, value in metrics.items() if value is not None and name not in required]
    for name in names:
        del metrics[name]
    changed.write_text(json.dumps(document))
    found = [one.key for one in verify(store, path.parent.name)]
    expected = [f"metrics.{name}" for name in names if not is_below(("metrics", name), late)]
    assert found == sorted(expected)
    assert expected


@pytest.mark.parametrize("path", OLDER, ids=named)
def test_keys_that_came_within_a_version_are_not_missed(path: Path, tmp_path: Path) -> None:
    """Otherwise a run from before a key was added would be reported as wrong, though unchanged."""
    store = stored(path, tmp_path)
    changed = store.runs / path.parent.name / "run.json"
    document = json.loads(changed.read_bytes())
    for key in reversed(list(keys_of(document))):
        if is_below(key, NOT_PROMISED.get(document["schema_version"], "")):
            delete(document, key)
    changed.write_text(json.dumps(document))
    assert verify(store, path.parent.name) == []


@pytest.mark.parametrize("path", OLDER, ids=named)
def test_changed_raw_file_does_not_verify(path: Path, tmp_path: Path) -> None:
    """Otherwise an exchange of an older run's files would go unnoticed."""
    store = stored(path, tmp_path)
    events = store.runs / path.parent.name / "events.jsonl"
    events.write_text(events.read_text() + "\n")
    assert [one.key for one in verify(store, path.parent.name)] == ["files.events.jsonl"]


@pytest.mark.parametrize("version", range(1, SCHEMA_VERSION + 1))
def test_runs_of_a_version_can_be_compared(version: int) -> None:
    """Otherwise a comparison with an older run would end in a traceback."""
    paths = [path for path in RUNS if path.parts[-3] == f"v{version}"]
    runs = [from_document(json.loads(path.read_bytes())) for path in paths]
    run = next(run for run in runs if run.metrics.latency_ns is not None)
    sides = [run], [from_document(json.loads(json.dumps(to_document(run))) | {"run_id": "other"})]
    [found] = compare_groups([sides], metrics=["latency_ns.p50"])
    assert found.result.ratio == pytest.approx(1.0)
    assert run.metrics.latency_ns is not None
    assert found.result.baseline_median == run.metrics.latency_ns.p50
