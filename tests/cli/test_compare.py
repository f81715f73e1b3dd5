"""Compare, and bench --against: three results, three exit codes."""

from __future__ import annotations

import json
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
from support.agents import Host
from support.commands import Measured, Run
from support.records import CREATED_UTC, latencies, run_record, traces_of, worker_record

from edgebench.host.analysis.compare.comparison import Design, needed_run_count
from edgebench.host.analysis.run import analyse_run
from edgebench.host.result.document import to_document

Ids = list[str]
MIN_PAIRS = needed_run_count(Design.PAIRED)


def store_side(host: Host, name: str, p50s: list[int], *, day: int = 1, **changes: Any) -> Ids:
    """Store documents of runs with these medians; their ids."""
    record = run_record(worker_record(latencies()))
    made = to_document(
        analyse_run(record, traces_of(latencies()), created_utc=CREATED_UTC, clock=None)
    )
    ids = []
    for number, p50 in enumerate(p50s):
        document = deepcopy(made) | {"run_id": f"2026010{day}-00000{number}-{name}"} | changes
        document["metrics"]["latency_ns"]["p50"] = p50
        document["model"] |= {"name": f"{name}.tflite", "sha256": name}
        folder = host.folder / "data" / "edgebench" / "runs" / document["run_id"]
        folder.mkdir(parents=True)
        (folder / "run.json").write_text(json.dumps(document))
        ids.append(document["run_id"])
    return ids


def level(us: float) -> list[int]:
    """Eight medians around a value, nanoseconds."""
    return [round(1000 * us) + 100 * number for number in range(8)]


EXIT_CODES = {"worse": 4, "equivalent": 0, "better": 0, "inconclusive": 5}


@pytest.mark.parametrize(
    ("value", "outcome"),
    [
        (2000.0, "worse"),
        (1000.0, "equivalent"),
        (500.0, "better"),
        (1009.9, "inconclusive"),
    ],
)
def test_exit_code_is_the_answer(edgebench: Run, host: Host, value: float, outcome: str) -> None:
    """Otherwise a regression would pass the gate of a build, or an equal model would fail."""
    code = EXIT_CODES[outcome]
    before = store_side(host, "before", level(1000.0))
    after = store_side(host, "after", level(value))
    said = edgebench("compare", *before, "--against", *after)
    assert (said.code, said.err) == (code, "")
    assert outcome in said.out
    said = edgebench("compare", *before, "--against", *after, "--json")
    (found,) = json.loads(said.out)["comparisons"]
    assert said.code == code
    assert found["result"]["outcome"] == outcome
    assert found["result"]["ratio"] == pytest.approx(value / 1000, rel=1e-3)
    assert found["baseline_runs"] == before


def test_sides_that_ran_one_after_the_other_are_told(edgebench: Run, host: Host) -> None:
    """Otherwise a device that warmed up overnight would look like a regression of the model."""
    before = store_side(host, "before", level(1000.0))
    after = store_side(host, "after", level(1030.0))
    later = store_side(host, "later", level(1030.0), day=2)
    assert "occasions" not in edgebench("compare", *before, "--against", *after).out
    for sides in ((before, later), (later, before)):
        said = edgebench("compare", *sides[0], "--against", *sides[1])
        assert said.code == 5
        assert "baseline and candidate were measured on different occasions" in said.out
        assert "measure both models in turn: edgebench bench A --against B" in said.out


def test_margin_decides_what_matters(edgebench: Run, host: Host) -> None:
    """Otherwise a change of half a percent would fail a build that allows one percent."""
    before = store_side(host, "before", level(1000.0))
    after = store_side(host, "after", level(1005.0))
    assert edgebench("compare", *before, "--against", *after).code == 0
    assert edgebench("compare", *before, "--against", *after, "--fail-on", "0.2%").code == 4


def test_too_few_runs_are_inconclusive_and_say_so(edgebench: Run, host: Host) -> None:
    """Otherwise three runs against three would decide about a release."""
    before = store_side(host, "before", [1_000_000, 1_001_000, 1_002_000])
    after = store_side(host, "after", [2_000_000, 2_001_000, 2_002_000])
    said = edgebench("compare", *before, "--against", *after)
    assert said.code == 5
    assert "is undecided against" in said.out
    assert "too few runs" in said.out
    assert "to improve: make 6 pairs: edgebench bench before.tflite --on board " in said.out
    assert "--against after.tflite --pairs 6\n" in said.out


def test_one_side_is_told_what_the_other_is_called(edgebench: Run, host: Host) -> None:
    """`compare A B` without the options is refused with the corrected command."""
    before = store_side(host, "before", [1_000_000])
    said = edgebench("compare", *before)
    assert (said.code, said.out) == (2, "")
    assert said.err.startswith("error: a comparison needs a second side: ")
    assert "edgebench compare A --against B" in said.err
    said = edgebench("compare", "pairs-00000000")
    assert (said.code, said.out) == (2, "")
    assert said.err.startswith("error: no comparison 'pairs-00000000' in ")


def test_two_sides_that_were_named_one_behind_the_other_are_put_in_place(
    edgebench: Run, host: Host
) -> None:
    """Otherwise the error would be about a run that was not named, and its hint about A and B."""
    [before], [after] = (store_side(host, name, [1_000_000]) for name in ("before", "after"))
    said = edgebench("compare", before, after)
    assert said.code == 2
    assert f"{before}, {after} has no pairs" in said.err
    assert f"with --against: edgebench compare {before} --against {after}\n" in (said.err)


def test_invalid_runs_have_an_exit_code_of_their_own(edgebench: Run, host: Host) -> None:
    """Otherwise a gate could not distinguish an invalid model from a missing store."""
    [before] = store_side(host, "before", [1_000_000])
    failing = {"state": "invalid", "rules": []}
    [after] = store_side(host, "after", [1_000_000], verdict=failing)
    said = edgebench("compare", before, "--against", after)
    assert said.code == 3
    assert said.err.startswith(f"error: run {after} is invalid ")
    assert f"edgebench show {after}" in said.err


@pytest.mark.parametrize("count", [MIN_PAIRS - 1, MIN_PAIRS])
def test_pairs_that_cannot_decide_are_told_before_they_are_measured(
    edgebench: Run, count: int
) -> None:
    """Otherwise minutes would be measured for a result that is inconclusive by design."""
    models = ("digits_int8.tflite", "--against", "digits_fp32.tflite")
    said = edgebench("bench", *models, "--pairs", str(count), "--on", "nosuch")
    assert said.code == 2
    assert ("is too few to decide about times" in said.err) == (count < MIN_PAIRS)


def test_duration_of_pairs_is_stated_before_they_are_measured(edgebench: Run) -> None:
    """Otherwise `--quick --against` would take four minutes without notice."""
    models = ("digits_int8.tflite", "--against", "digits_fp32.tflite", "--on", "nosuch")
    said = edgebench("bench", *models, "--quick")
    assert "note: 20 runs of 10 s take about 0:04:30 for each runtime and device" in said.err
    assert "note: 20 runs" not in edgebench("bench", *models, "--quick", "-q").err
    short = ("--quick", "--duration", "1s", "--pairs", "6")
    assert "take about" not in edgebench("bench", *models, *short).err


def test_runs_that_differ_are_refused_with_the_key(edgebench: Run, host: Host) -> None:
    """Otherwise runs of two devices would be compared as if they came from the same device."""
    before = store_side(host, "before", level(1000.0))
    after = store_side(host, "after", level(1000.0), kind="profile")
    said = edgebench("compare", *before, "--against", *after)
    assert (said.code, said.out) == (2, "")
    assert "differ in kind (measurement / profile)" in said.err
    said = edgebench("compare", *before, "--against", *after, "--allow", "kind")
    assert said.code == 0
    assert "note: the sides differ in kind" in said.out


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--pairs", "5"), "--pairs needs --against"),
        (("--fail-on", "3%"), "--fail-on needs --against"),
        (("--allow", "kernel"), "--allow needs --against"),
        (("--against", "digits_fp32.tflite", "--pairs", "0"), "pairs must be 1..1000, got 0"),
        (("--against", "nowhere.tflite"), "no such model"),
        (("--against", "digits_fp32.tflite", "--profile"), "separately"),
        (("--against", "digits_fp32.tflite", "--allow", "thread"), "unknown key 'thread'"),
        (("--against", "digits_fp32.tflite", "--reference", "digits_fp32.tflite"), "separately"),
        (("digits_fp32.onnx", "--against", "digits_fp32.tflite"), "a single baseline model, got 2"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_senseless_comparisons_are_refused(
    edgebench: Run, words: tuple[str, ...], said: str
) -> None:
    """Otherwise an option without effect would be accepted."""
    found = edgebench("bench", "digits_int8.tflite", *words)
    assert (found.code, found.out) == (2, "")
    assert said in found.err


def test_paired_campaign_measures_and_decides(measured: Measured, tmp_path: Path) -> None:
    """Otherwise compare would not find measured pairs again, or its exit code would differ.

    Which model is faster, and whether six pairs decide, depends on this machine.
    """
    store = tmp_path / "store"
    result = measured.host.run(
        *("bench", "digits_int8.tflite", "--against", "digits_fp32.tflite", "--json"),
        *("--quick", "--runtime", "litert", "--pairs", "6", "--duration", "0.1s"),
        *("--min-queries", "50", "--warmup", "5", "--warmup-duration", "0.05s"),
        *("--no-check", "--store", str(store)),
    )
    document = json.loads(result.stdout)
    assert len(document["runs"]) == 12
    (found,) = document["comparisons"]
    assert result.returncode == EXIT_CODES[found["result"]["outcome"]], result.stderr
    assert found["result"]["rules"]["design"] == "paired"
    pairs = document["runs"][0]["pair"]["comparison_id"]
    sides = (*found["baseline_runs"], "--against", *found["candidate_runs"])
    for names in (sides, (pairs,)):
        again = measured.host.run("compare", *names, "--store", str(store), "--json")
        assert again.returncode == result.returncode
        [compared] = json.loads(again.stdout)["comparisons"]
        assert compared == found | {"comparison_id": pairs if names == (pairs,) else None}
    shown = measured.host.run("show", pairs, "--store", str(store))
    assert " digits_int8.tflite" in shown.stdout.split("\n", 1)[0]
    assert "(6 and 6 runs, paired)" in shown.stdout.split(" runtime ")[0]
    shown = measured.host.run("show", pairs, "--store", str(store), "--json")
    assert json.loads(shown.stdout)["comparisons"][0]["result"] == found["result"]
    listed = measured.host.run("runs", pairs, "--store", str(store), "--json")
    assert len(json.loads(listed.stdout)["runs"]) == 12
    for run in document["runs"][:2]:
        verified = measured.host.run("verify", run["run_id"], "--store", str(store))
        assert verified.returncode == 0, verified.stdout
