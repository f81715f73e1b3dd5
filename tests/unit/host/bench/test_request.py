"""Runs of a request: how many, and how they share what was requested."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.records import DEVICE, ENVIRONMENT

from edgebench.host.analysis.compare.comparison import (
    ComparisonOutcome,
    Design,
    Rules,
    compare_many,
    needed_run_count,
)
from edgebench.host.bench.model import Model
from edgebench.host.bench.request import (
    BenchRequest,
    ComparisonRequest,
    new_request,
)
from edgebench.host.show.hints import hint_for
from edgebench.protocol.device import RuntimeReport, SystemDescription
from edgebench.protocol.errors import RunsTooShort, UsageError

MODEL = "digits_int8.tflite"


def request(**settings: Any) -> BenchRequest:
    """Return a request for a built-in model."""
    return new_request([MODEL], **settings)


def test_runs_share_the_time_and_the_queries() -> None:
    """Otherwise five runs would take five times as long as one did."""
    made = request(preset="quick")
    assert made.run_count == 8
    assert (made.spec.duration_s, made.spec.min_query_count) == (1.25, 16)
    assert made.spec.max_duration_s == 7.5
    assert request().run_count == 5
    assert request(preset="quick", duration_s=0.6).run_count == 6, "none is too short to judge"
    assert request(preset="quick", duration_s=0.5).run_count == 5
    made = request(runs=3, duration_s=60.0, min_query_count=1000)
    assert (made.spec.duration_s, made.spec.min_query_count) == (20.0, 334)
    assert request(runs=1).spec.duration_s == 60.0


@pytest.mark.parametrize(
    "settings",
    [
        {"preset": "mlperf"},
        {"preset": "mlperf", "duration_s": 60.0},
        {"engine": "loadgen"},
        {"is_sustained": True},
        {"is_profiled": True},
        {"scenario": "server", "target_qps": 100.0, "target_latency_s": 0.05},
        {
            "against": ComparisonRequest(
                candidate=Model(Path("b.tflite"), "b.tflite", 5, 0),
            )
        },
    ],
    ids=str,
)
def test_what_is_about_one_run_is_one_run_unless_the_user_says_so(settings: Any) -> None:
    """Otherwise MLPerf's 600 s would be five times 120 s, and a sustained run never get hot."""
    made = request(**settings)
    assert made.run_count == 1
    given = settings.get("duration_s") or (600.0 if settings.get("preset") else 60.0)
    assert made.spec.duration_s == given


def test_each_of_several_runs_under_mlperf_s_preset_has_its_length() -> None:
    """Otherwise a run would be called MLPerf's, and be a fifth of such a run."""
    made = request(preset="mlperf", runs=3)
    assert (made.run_count, made.spec.duration_s, made.spec.preset) == (3, 600.0, "mlperf")


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"runs": 0}, "runs must be 1..1000, got 0"),
        ({"runs": 1001}, "runs must be 1..1000, got 1001"),
        ({"extra_runs": -1}, "extra runs must be 0..1000, got -1"),
        ({"runs": 3, "is_sustained": True}, "--sustained makes a single run, got --runs 3"),
        ({"runs": 3, "is_profiled": True}, "--profile makes a single run, got --runs 3"),
    ],
)
def test_runs_that_contradict_the_request_are_refused(settings: dict[str, Any], said: str) -> None:
    """Otherwise five profiles would be made, of which four are never read."""
    with pytest.raises(UsageError, match=said):
        request(**settings)


def test_runs_that_are_too_short_to_be_judged_are_refused() -> None:
    """Otherwise a thousand loops of 1 ms would be measured, whose disturbance no rule finds."""
    with pytest.raises(
        RunsTooShort,
        match=r"^11 runs share 1 s: each run takes 0.091 s, at least 0.1 s needed$",
    ) as e:
        request(runs=11, duration_s=1.0)
    hint = "edgebench bench MODEL --duration 1.1s; or with fewer runs: --runs 10"
    assert hint in hint_for(e.value)
    assert request(runs=10, duration_s=1.0).spec.duration_s == 0.1
    assert request(runs=3, duration_s=0.3).run_count == 3
    assert request(runs=1, duration_s=0.01).spec.duration_s == 0.01
    assert request(runs=7, duration_s=1.0, preset="mlperf").spec.duration_s == 1.0


@pytest.mark.parametrize(
    ("models", "added"),
    [
        (["digits_int8.tflite"], ["digits_fp32.tflite"]),
        (["digits_int8.tflite", "digits_fp32.tflite"], []),
        (["digits_fp32.tflite"], []),
    ],
)
def test_reference_that_nobody_named_is_known_as_added(models: list[str], added: list[str]) -> None:
    """Otherwise a second model would be measured, for twice the time, without a reason given."""
    request = new_request(models, accuracy="digits")
    assert request.accuracy is not None
    assert [model.name for model in request.accuracy.added] == added


def test_microcontroller_gets_the_built_in_models_that_it_runs() -> None:
    """Otherwise `edgebench bench --on qemu:mps2-an386` would end at a file for ONNX Runtime."""
    report = RuntimeReport("firmware", ("tflite",), "1", is_target=True)
    board = SystemDescription(DEVICE, ENVIRONMENT, (report,))
    assert [model.name for model in new_request([]).on_system(board).models] == [
        "digits_int8.tflite"
    ]
    named = new_request(["digits_fp32.tflite"])
    assert named.on_system(board) is named


@pytest.mark.parametrize("comparison_count", [1, 2, 3, 12])
def test_so_many_pairs_can_decide_and_fewer_cannot(comparison_count: int) -> None:
    """Otherwise the warning and the deciding test would count differently, at a loss of minutes."""
    least = needed_run_count(Design.PAIRED, comparison_count)
    slow, fast = np.linspace(2.0, 2.1, least), np.linspace(1.0, 1.1, least)
    names = [str(number) for number in range(comparison_count)]
    found = compare_many(dict.fromkeys(names, (slow, fast)), Rules(design=Design.PAIRED))
    assert {one.outcome for one in found.values()} == {ComparisonOutcome.BETTER}
    fewer = compare_many(dict.fromkeys(names, (slow[1:], fast[1:])), Rules(design=Design.PAIRED))
    assert {one.outcome for one in fewer.values()} == {ComparisonOutcome.INCONCLUSIVE}
    for one in fewer.values():
        assert ("adjusted for several" in one.reason) == (comparison_count > 1)
        assert one.needed_count == least
