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
    MAX_THREADS,
    PRESETS,
    Limits,
    RunSpec,
    Scenario,
    from_preset,
)


@pytest.mark.parametrize(
    "field",
    [
        {"duration_s": 0.0},
        {"duration_s": -1.0},
        {"duration_s": math.inf},
        {"duration_s": math.nan},
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
        {"min_query_count": 1, "max_query_count": 1},
        {"warmup_query_count": 2**40},
        {"warmup_query_count": 0, "warmup_duration_s": 0.0},
        {"threads": MAX_THREADS},
        {"seed": 2**63 - 1},
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


def test_default_preset_is_the_mobile_benchmark_minimum() -> None:
    """The default measures too little: 1024 queries and 60 s are the rule that users expect."""
    spec = from_preset(DEFAULT_PRESET, runtime="onnx")
    assert (spec.min_query_count, spec.duration_s) == (1024, 60.0)


@given(duration_s=st.none() | st.floats(0.001, 1e6), seed=st.none() | st.integers(0, 2**63 - 1))
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
