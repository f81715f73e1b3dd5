"""The pytest plugin: real sessions with real runs of this machine."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from copy import deepcopy
from dataclasses import asdict
from pathlib import Path
from xml.etree import ElementTree

import pytest
from support.commands import Measured
from support.onnx_bytes import addition

from edgebench.host.store.annotations import Annotations
from edgebench.host.store.layout import ANNOTATIONS_FILE, RUN_FILE, Store

pytest_plugins = ["pytester"]

SETTINGS = (
    'runtime="litert", preset="quick", runs=1, duration_s=0.1, min_query_count=50, '
    "warmup_query_count=2, warmup_duration_s=0.05"
)
"""Settings of the shared run, from which the baselines are made."""
MEASURES = f"""
def test_measures(edgebench_bench):
    result = edgebench_bench("digits_int8.tflite", {SETTINGS})
    assert result.metrics["latency_ns.p50"].median > 0
"""
COPIES = 45
"""Runs of a baseline: one run on the other side is enough then, by the exact test."""


@pytest.fixture(scope="module")
def baselines(measured: Measured, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with runs that are twenty times as fast and as slow, by their tags.

    Each tag has sets of nine days, so that the spread between occasions is known.
    """
    store = Store(tmp_path_factory.mktemp("baselines"))
    for day, (tag, factor) in enumerate({"fast": 0.05, "slow": 20.0}.items(), start=1):
        for number in range(COPIES):
            run_id = f"2026010{day}-0000{number:02}-0123abcd"
            folder = add_copy(
                store,
                measured,
                run_id,
                factor * (1 + number % 5 / 1000),
                created_utc=f"2026-02-{1 + number // 5:02}T00:00:{number:02}+00:00",
                model={**measured.document["model"], "sha256": f"the {tag} export"},
                set={"set_id": f"set-{tag}-{number // 5}", "number": number % 5, "count": 5},
            )
            tags = Annotations((tag,))
            (folder / ANNOTATIONS_FILE).write_text(json.dumps(asdict(tags)))
    return store.root


def add_copy(
    store: Store, measured: Measured, run_id: str, factor: float, **changes: object
) -> Path:
    """Store the shared run under another id, with another p50; its folder."""
    document = deepcopy(measured.document) | {"run_id": run_id} | changes
    latency = document["metrics"]["latency_ns"]
    latency["p50"] = round(latency["p50"] * factor)
    folder = store.directory(run_id)
    folder.mkdir(parents=True)
    (folder / RUN_FILE).write_text(json.dumps(document))
    return folder


@pytest.fixture
def project(
    pytester: pytest.Pytester, measured: Measured, monkeypatch: pytest.MonkeyPatch
) -> pytest.Pytester:
    """A project whose sessions use the agent of the shared run."""
    for name, value in measured.host.environment.items():
        monkeypatch.setenv(name, value)
    for name in ("EDGEBENCH_STORE", "PYTEST_ADDOPTS", "PYTEST_XDIST_WORKER"):
        monkeypatch.delenv(name, raising=False)
    return pytester


def test_measurement_is_judged_recorded_and_summed_up(
    project: pytest.Pytester, baselines: Path
) -> None:
    """Otherwise CI would pass a model that returns NaN, or its archive would have no numbers."""
    (project.path / "nan.onnx").write_bytes(addition(float("nan")))
    project.makepyfile(
        MEASURES
        + f"""
def test_invalid(edgebench_bench):
    edgebench_bench("nan.onnx", {SETTINGS.replace('runtime="litert", ', "")})

def test_missing(edgebench_bench):
    edgebench_bench("none.tflite")
"""
    )
    result = project.runpytest_inprocess(
        *("--edgebench-store", str(baselines), "--edgebench-baseline", "slow"),
        *("--edgebench-suspect", "ignore", "--junitxml=junit.xml"),
    )
    result.assert_outcomes(passed=1, failed=2)
    out = result.stdout.str()
    assert "invalid: nan.onnx" in out
    assert "hint: " in out
    [line] = [line for line in out.splitlines() if "::test_measures" in line and "digits" in line]
    assert "better -" in line
    cases = {
        case.get("name"): {one.get("name"): one.get("value") for one in case.iter("property")}
        for case in ElementTree.parse(project.path / "junit.xml").iter("testcase")
    }
    measured = cases["test_measures"]
    [run_id] = str(measured["edgebench.run_ids"]).split()
    stored = Store(baselines).run(run_id)
    assert stored.metrics.latency_ns is not None
    assert float(str(measured["edgebench.value"])) == stored.metrics.latency_ns.p50
    assert measured["edgebench.unit"] == "ns"
    assert measured["edgebench.outcome"] == "better"
    assert cases["test_invalid"]["edgebench.verdict"] == "invalid"
    assert "edgebench.value" not in cases["test_invalid"]
    assert cases["test_missing"] == {}


def test_regression_and_a_baseline_without_the_model_fail(
    project: pytest.Pytester, baselines: Path
) -> None:
    """Otherwise a gate would pass a slower model, or a model that it never compared."""
    project.makepyfile(
        MEASURES
        + f"""
def test_other_model(edgebench_bench):
    edgebench_bench("digits_fp32.tflite", {SETTINGS})
"""
    )
    result = project.runpytest_inprocess(
        *("--edgebench-store", str(baselines), "--edgebench-baseline", "fast"),
        *("--edgebench-fail-on", "3%", "--edgebench-suspect", "ignore"),
    )
    result.assert_outcomes(failed=2)
    result.stdout.fnmatch_lines(
        [
            "*latency_ns.p50: candidate digits_int8.tflite is worse (higher) than*",
            "*no run of digits_fp32*",
        ]
    )


def test_workers_of_xdist_measure_in_turn(project: pytest.Pytester, baselines: Path) -> None:
    """Otherwise two simultaneous runs would disturb each other, or the lease fail the second."""
    two_runs = MEASURES.replace("runs=1, duration_s=0.1", "runs=2, duration_s=0.2")
    project.makepyfile(MEASURES + two_runs.replace("test_measures", "test_measures_too"))
    result = project.runpytest_subprocess("-n", "2", "--edgebench-store", str(baselines))
    result.assert_outcomes(passed=2)
    out = result.stdout.str()
    assert "DoubtfulMeasurement: suspect: digits_int8.tflite" in out, "two runs have no interval"
    assert "::test_measures_too " in out
    assert "measurements on the same device ran one after the other" in out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--edgebench-fail-on", "3%"), "--edgebench-fail-on needs --edgebench-baseline"),
        (("--edgebench-fail-on", "x", "--edgebench-baseline", "t"), "not a percentage"),
        (("--edgebench-pairs",), "--edgebench-pairs needs --edgebench-baseline"),
    ],
)
def test_options_that_make_no_sense_are_refused(
    project: pytest.Pytester, words: tuple[str, ...], message: str
) -> None:
    """Otherwise a gate without a baseline would pass everything."""
    result = project.runpytest_inprocess(*words)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert message in result.stderr.str()


def test_session_that_does_not_measure_imports_nothing(tmp_path: Path) -> None:
    """Otherwise every project with edgebench installed would wait for numpy before its tests."""
    (tmp_path / "test_plain.py").write_text("def test_plain(): pass")
    code = (
        "import sys, pytest\n"
        "assert pytest.main(['-q', '-p', 'no:cacheprovider']) == 0\n"
        "print(sorted(name for name in sys.modules if name.startswith(('edgebench', 'numpy'))))"
    )
    result = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        cwd=tmp_path,
        env={key: value for key, value in os.environ.items() if not key.startswith("PYTEST_")},
    )
    loaded = result.stdout.splitlines()[-1]
    assert "edgebench.host.pytest_plugin.plugin" in loaded
    assert "edgebench.host.lab" not in loaded
    assert "numpy" not in loaded


def test_baseline_that_is_not_there_costs_no_measurement(
    project: pytest.Pytester, baselines: Path
) -> None:
    """Otherwise a wrong tag would be reported only after an hour of measuring."""
    project.makepyfile(MEASURES)
    known = Store(baselines).run_ids()
    result = project.runpytest_inprocess(
        *("--edgebench-store", str(baselines), "--edgebench-baseline", "gone")
    )
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*no run matches 'gone'*", "hint: *"])
    assert Store(baselines).run_ids() == known


def test_last_run_as_a_baseline_is_none_of_the_new_ones(
    project: pytest.Pytester, measured: Measured, tmp_path: Path
) -> None:
    """Otherwise a measurement would be compared with itself and always pass."""
    store = Store(tmp_path / "store")
    add_copy(store, measured, "20260101-000000-0123abcd", factor=20.0)
    project.makepyfile(MEASURES)
    result = project.runpytest_inprocess(
        *("--edgebench-store", str(store.root), "--edgebench-baseline", "last"),
        *("--edgebench-suspect", "ignore", "--junitxml=junit.xml"),
    )
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*too few runs*"])
    assert len(store.run_ids()) == 2
    document = ElementTree.parse(project.path / "junit.xml")
    found = {one.get("name"): str(one.get("value")) for one in document.iter("property")}
    assert found["edgebench.outcome"] == "inconclusive"
    assert float(found["edgebench.ratio"]) < 0.5


def test_baselines_file_is_measured_again_in_pairs(
    project: pytest.Pytester, measured: Measured, tmp_path: Path
) -> None:
    """Otherwise a stored number would decide, twenty times as slow as the machine is now."""
    store = Store(tmp_path / "store")
    add_copy(store, measured, "20260101-000000-0123abcd", factor=20.0)
    project.makepyfile(MEASURES.replace("runs=1", "pairs=2"))
    result = project.runpytest_inprocess(
        *("--edgebench-store", str(store.root), "--edgebench-baseline", "last"),
        *("--edgebench-pairs", "--edgebench-suspect", "ignore", "--junitxml=junit.xml"),
        *("--edgebench-inconclusive", "ignore"),
    )
    result.assert_outcomes(passed=1)
    assert len(store.run_ids()) == 5
    document = ElementTree.parse(project.path / "junit.xml")
    found = {one.get("name"): str(one.get("value")) for one in document.iter("property")}
    assert len(found["edgebench.run_ids"].split()) == 2
    assert found["edgebench.outcome"] == "inconclusive", "two pairs are too few"
    assert 0.2 < float(found["edgebench.ratio"]) < 5


def test_runs_without_a_baseline_of_their_own_are_recorded(
    project: pytest.Pytester, baselines: Path
) -> None:
    """Otherwise the runs for the first baseline would be missing from the job's files."""
    project.makepyfile(MEASURES.replace("digits_int8", "digits_fp32"))
    result = project.runpytest_inprocess(
        *("--edgebench-store", str(baselines), "--edgebench-baseline", "fast"),
        *("--edgebench-suspect", "ignore", "--junitxml=junit.xml"),
    )
    result.assert_outcomes(failed=1)
    document = ElementTree.parse(project.path / "junit.xml")
    found = {one.get("name"): str(one.get("value")) for one in document.iter("property")}
    assert Store(baselines).has(found["edgebench.run_ids"])
    assert "edgebench.outcome" not in found
