"""Run specifications: what makes no sense cannot be built."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgebench.protocol.errors import UsageError
from edgebench.protocol.spec import (
    DEFAULT_PRESET,
    MAX_ARRIVALS,
    MAX_CPUS,
    MAX_LENGTH_S,
    MAX_QPS,
    MAX_SAMPLES,
    MAX_THREADS,
    MIN_QPS,
    PRESETS,
    Engine,
    Limits,
    Priority,
    RunSpec,
    Scenario,
    from_preset,
)

SERVER: dict[str, Any] = {
    "scenario": Scenario.SERVER,
    "target_qps": 10.0,
    "duration_s": 1.0,
    "min_query_count": 10,
}


@pytest.mark.parametrize(
    "field",
    [
        {"duration_s": 0.0},
        {"duration_s": -1.0},
        {"duration_s": math.inf},
        {"duration_s": math.nan},
        {"duration_s": MAX_LENGTH_S + 1},
        {"min_query_count": 0},
        {"min_query_count": 10, "max_query_count": 9},
        {"warmup_query_count": -1},
        {"warmup_duration_s": -0.1},
        {"warmup_duration_s": math.nan},
        {"warmup_duration_s": math.inf},
        {"threads": 0},
        {"threads": MAX_THREADS + 1},
        {"seed": -1},
        {"seed": 2**63},
        {"samples_per_query": 0},
        {"samples_per_query": MAX_SAMPLES + 1},
        {"sample_count": 0},
        {"sample_count": MAX_SAMPLES + 1},
        {"cpus": (-1,)},
        {"cpus": (0, MAX_CPUS)},
        {"duration_s": 5.0, "max_duration_s": 4.9},
        {"max_duration_s": math.inf},
        {"max_duration_s": MAX_LENGTH_S + 1},
        {"cooldown_timeout_s": MAX_LENGTH_S + 1},
        {"max_duration_s": math.nan},
        {"target_percentile": 0.0},
        {"target_percentile": 1.0},
        {"target_percentile": math.nan},
        {"scenario": Scenario.SERVER},
        {"target_qps": 100.0},
        {"target_latency_s": 0.1},
        {"scenario": Scenario.OFFLINE, "target_qps": 100.0},
        {"scenario": Scenario.MULTI_STREAM, "target_latency_s": 0.1},
        {"scenario": Scenario.OFFLINE, "is_profiled": True},
        {**SERVER, "is_profiled": True},
        {**SERVER, "engine": Engine.LOADGEN},
        {**SERVER, "target_qps": 0.0},
        {**SERVER, "target_qps": -1.0},
        {**SERVER, "target_qps": math.nan},
        {**SERVER, "target_qps": math.inf},
        {**SERVER, "target_qps": MIN_QPS / 1.01},
        {**SERVER, "target_qps": MAX_QPS * 1.01, "duration_s": 1e-3},
        {**SERVER, "target_latency_s": 0.0},
        {**SERVER, "target_latency_s": math.nan},
        {**SERVER, "target_qps": 1e5, "duration_s": 41.0},
        {**SERVER, "min_query_count": MAX_ARRIVALS + 1, "max_query_count": 2**40},
        {**SERVER, "target_qps": 11.0, "duration_s": 10.0, "max_query_count": 109},
    ],
    ids=str,
)
def test_run_specification_refuses_nonsense(field: dict[str, Any]) -> None:
    """A run that can never end, or never measure, is started."""
    with pytest.raises(UsageError):
        RunSpec(runtime="tflite", **field)


@pytest.mark.parametrize(
    "field",
    [
        {"duration_s": 1e-9},
        {"duration_s": 5.0, "max_duration_s": 5.0},
        {"duration_s": MAX_LENGTH_S, "max_duration_s": MAX_LENGTH_S},
        {"min_query_count": 1, "max_query_count": 1},
        {"warmup_query_count": 2**40},
        {"warmup_query_count": 0, "warmup_duration_s": 0.0},
        {"threads": MAX_THREADS},
        {"seed": 2**63 - 1},
        {"samples_per_query": 1},
        {"samples_per_query": MAX_SAMPLES},
        {"sample_count": 1},
        {"sample_count": MAX_SAMPLES},
        {"cpus": (0, MAX_CPUS - 1)},
        {"target_percentile": 1e-12},
        {"target_percentile": 1 - 1e-12},
        {"is_profiled": True},
        {**SERVER, "target_qps": MIN_QPS},
        {**SERVER, "target_qps": MAX_QPS, "duration_s": 1.0},
        {**SERVER, "target_latency_s": 1e-9},
        {**SERVER, "min_query_count": MAX_ARRIVALS},
        {**SERVER, "target_qps": 11.0, "duration_s": 10.0, "max_query_count": 110},
    ],
    ids=str,
)
def test_run_specification_takes_the_bounds_themselves(field: dict[str, Any]) -> None:
    """A bound is off by one."""
    spec = RunSpec(runtime="tflite", **field)
    assert {name: getattr(spec, name) for name in field} == field


@pytest.mark.parametrize(
    "field",
    [
        {"memory_bytes": 0},
        {"memory_bytes": -1},
        {"load_timeout_s": 0.0},
        {"load_timeout_s": math.nan},
        {"load_timeout_s": math.inf},
        {"load_timeout_s": MAX_LENGTH_S + 1},
        {"measure_timeout_s": 0.0},
        {"measure_timeout_s": -1.0},
    ],
    ids=str,
)
def test_limits_refuse_nonsense(field: dict[str, Any]) -> None:
    """A worker runs without the bound that somebody believes it has."""
    with pytest.raises(UsageError):
        Limits(**field)


@pytest.mark.parametrize("preset", sorted(PRESETS))
def test_every_preset_makes_a_specification(preset: str) -> None:
    """A preset names a field that does not exist, or breaks a rule."""
    spec = from_preset(preset, runtime="onnx")
    assert (spec.preset, spec.runtime, spec.scenario) == (preset, "onnx", Scenario.SINGLE_STREAM)
    assert {name: getattr(spec, name) for name in PRESETS[preset]} == PRESETS[preset]


def test_changed_mlperf_preset_says_so() -> None:
    """Five seconds are published as an MLPerf run."""
    assert from_preset("mlperf", runtime="onnx", duration_s=5.0).preset == "mlperf, changed"
    assert from_preset("mlperf", runtime="onnx", duration_s=600.0).preset == "mlperf"
    assert from_preset("mlperf", runtime="onnx", duration_s=None, seed=5).preset == "mlperf"
    offline = from_preset("mlperf", runtime="onnx", scenario="offline", min_query_count=5)
    assert offline.preset == "mlperf, changed"
    assert from_preset("quick", runtime="onnx", duration_s=5.0).preset == "quick"


def test_default_preset_is_the_mobile_benchmark_minimum() -> None:
    """The default measures too little: 1024 queries and 60 s are the rule that users expect."""
    spec = from_preset(DEFAULT_PRESET, runtime="onnx")
    assert (spec.min_query_count, spec.duration_s) == (1024, 60.0)


@pytest.mark.parametrize(
    ("preset", "changes", "longest_s"),
    [
        ("default", {}, 1800.0),
        ("default", {"duration_s": 120.0}, 3600.0),
        ("quick", {}, 60.0),
        ("quick", {"duration_s": 1.0}, 60.0),
        ("quick", {"duration_s": 20.0}, 120.0),
        ("quick", {"max_duration_s": 30.0}, 30.0),
        ("default", {"duration_s": 86400.0}, MAX_LENGTH_S),
        ("mlperf", {}, None),
        ("mlperf", {"max_duration_s": 700.0}, 700.0),
    ],
)
def test_maximum_duration_follows_from_preset_and_duration(
    preset: str, changes: Any, longest_s: float | None
) -> None:
    """A first look at a slow model takes four minutes, or MLPerf's count is cut short."""
    found = from_preset(preset, **changes)
    assert found.max_duration_s == longest_s
    assert found.preset == ("mlperf, changed" if preset == "mlperf" and changes else preset)


@given(
    duration_s=st.none() | st.floats(0.001, MAX_LENGTH_S),
    seed=st.none() | st.integers(0, 2**63 - 1),
)
def test_overrides_win_over_the_preset_and_none_does_not(
    duration_s: float | None, seed: int | None
) -> None:
    """A value from the command line is lost, or an option left out overwrites the preset."""
    spec = from_preset("quick", runtime="tflite", duration_s=duration_s, seed=seed)
    assert spec.duration_s == (PRESETS["quick"]["duration_s"] if duration_s is None else duration_s)
    assert spec.seed == (seed or 0)
    assert spec.min_query_count == PRESETS["quick"]["min_query_count"]


def test_unknown_preset_is_named_with_the_ones_there_are() -> None:
    """A misspelt preset measures something else, or fails without help."""
    with pytest.raises(UsageError, match=r"unknown preset 'quik'.*default.*quick"):
        from_preset("quik", runtime="tflite")


def test_presets_are_checked_with_their_overrides() -> None:
    """An override that breaks a rule of the specification goes through the preset unchecked."""
    with pytest.raises(UsageError, match="threads"):
        from_preset("quick", runtime="tflite", threads=0)


@pytest.mark.parametrize(
    ("scenario", "more", "expected"),
    [
        ("single_stream", {}, 100),
        ("multi_stream", {}, 662),
        ("offline", {}, 24576),
        ("server", {"target_qps": 100.0}, 100),
    ],
)
def test_mlperf_preset_has_the_numbers_of_each_scenario(
    scenario: str, more: dict[str, Any], expected: int
) -> None:
    """A run that says mlperf breaks MLPerf's rules.

    Source: mlcommons/inference, loadgen/mlperf.conf.
    """
    spec = from_preset("mlperf", runtime="onnx", scenario=Scenario(scenario), **more)
    assert (spec.duration_s, spec.min_query_count) == (600.0, expected)
    assert (spec.samples_per_query, spec.target_percentile) == (8, 0.99)
    assert spec.scenario is Scenario(scenario)
    few = from_preset("mlperf", runtime="onnx", scenario=scenario, min_query_count=7, **more)
    assert few.min_query_count == 7, "what was asked for wins"


def test_choices_may_be_given_by_their_names() -> None:
    """A script that says scenario="offline" measures a single stream, and is told nothing."""
    spec = from_preset(
        "quick", runtime="onnx", scenario="offline", engine="loadgen", priority="realtime"
    )
    assert spec.scenario is Scenario.OFFLINE
    assert spec.engine is Engine.LOADGEN
    assert spec.priority is Priority.REALTIME


@pytest.mark.parametrize(
    ("field", "there_are"),
    [
        ("scenario", "single_stream, multi_stream, server, offline"),
        ("engine", "native, loadgen"),
        ("priority", "normal, realtime"),
    ],
)
@pytest.mark.parametrize("value", ["x", "", 3, ["offline"], None])
def test_unknown_choice_is_named_with_the_ones_there_are(
    field: str, there_are: str, value: Any
) -> None:
    """A mistyped scenario is another one."""
    if value is None:
        assert from_preset("quick", runtime="onnx", **{field: None})
        return
    with pytest.raises(UsageError, match=f"unknown {field} .*: there are {there_are}"):
        from_preset("quick", runtime="onnx", **{field: value})


def test_unknown_setting_is_named() -> None:
    """A misspelt setting is ignored."""
    wrong: dict[str, Any] = {"durations": 3}
    with pytest.raises(UsageError, match="unknown setting 'durations': there are scenario, engine"):
        from_preset("quick", runtime="onnx", **wrong)
