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
    """Otherwise a run that can never end, or never measure, would be started."""
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
    """Otherwise a bound would be off by one."""
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
    """Otherwise a worker would run without a bound that it is believed to have."""
    with pytest.raises(UsageError):
        Limits(**field)


@pytest.mark.parametrize("preset", sorted(PRESETS))
def test_every_preset_makes_a_specification(preset: str) -> None:
    """Otherwise a preset would name a field that does not exist, or break a rule."""
    spec = from_preset(preset, runtime="onnx")
    assert (spec.preset, spec.runtime, spec.scenario) == (preset, "onnx", Scenario.SINGLE_STREAM)
    assert {name: getattr(spec, name) for name in PRESETS[preset]} == PRESETS[preset]


def test_changed_mlperf_preset_says_so() -> None:
    """Otherwise five seconds would be published as an MLPerf run."""
    assert from_preset("mlperf", runtime="onnx", duration_s=5.0).preset == "mlperf, changed"
    assert from_preset("mlperf", runtime="onnx", duration_s=600.0).preset == "mlperf"
    assert from_preset("mlperf", runtime="onnx", duration_s=None, seed=5).preset == "mlperf"
    offline = from_preset("mlperf", runtime="onnx", scenario="offline", min_query_count=5)
    assert offline.preset == "mlperf, changed"
    assert from_preset("quick", runtime="onnx", duration_s=5.0).preset == "quick"


def test_default_preset_is_the_mobile_benchmark_minimum() -> None:
    """Otherwise the default would measure less than the expected 1024 queries and 60 s."""
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
    """Otherwise a first look at a slow model would take four minutes, or MLPerf's count be cut."""
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
    """Otherwise a command-line value would be lost, or an omitted option override the preset."""
    spec = from_preset("quick", runtime="tflite", duration_s=duration_s, seed=seed)
    assert spec.duration_s == (PRESETS["quick"]["duration_s"] if duration_s is None else duration_s)
    assert spec.seed == (seed or 0)
    assert spec.min_query_count == PRESETS["quick"]["min_query_count"]


def test_unknown_preset_is_named_with_the_ones_there_are() -> None:
    """Otherwise a misspelt preset would measure something else, or fail without help."""
    with pytest.raises(UsageError, match=r"unknown preset 'quik'.*default.*quick"):
        from_preset("quik", runtime="tflite")


def test_presets_are_checked_with_their_overrides() -> None:
    """Otherwise an override that breaks a rule would go through the preset unchecked."""
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
    """Otherwise a run that is labelled mlperf would break MLPerf's rules.

    Source: mlcommons/inference, loadgen/mlperf.conf.
    """
    spec = from_preset("mlperf", runtime="onnx", scenario=Scenario(scenario), **more)
    assert (spec.duration_s, spec.min_query_count) == (600.0, expected)
    assert (spec.samples_per_query, spec.target_percentile) == (8, 0.99)
    assert spec.scenario is Scenario(scenario)
    few = from_preset("mlperf", runtime="onnx", scenario=scenario, min_query_count=7, **more)
    assert few.min_query_count == 7, "what was asked for wins"


def test_choices_may_be_given_by_their_names() -> None:
    """Otherwise a script with scenario="offline" would silently measure a single stream."""
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
    """Otherwise a mistyped scenario would select another scenario."""
    if value is None:
        assert from_preset("quick", runtime="onnx", **{field: None})
        return
    with pytest.raises(UsageError, match=f"unknown {field} .*; available: {there_are}"):
        from_preset("quick", runtime="onnx", **{field: value})


def test_unknown_setting_is_named() -> None:
    """Otherwise a misspelt setting would be ignored."""
    wrong: dict[str, Any] = {"durations": 3}
    with pytest.raises(UsageError, match="'durations'; available: scenario, engine"):
        from_preset("quick", runtime="onnx", **wrong)
