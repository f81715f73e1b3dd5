"""Preparing a model: the user's own shapes and inputs are taken as they are, or refused."""

from __future__ import annotations

import os
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.tools import need_runtime

from edgebench.agent.worker.job import Job
from edgebench.agent.worker.measure import _expected_scenario_s, prepare_model
from edgebench.protocol.errors import InputsRefused
from edgebench.protocol.record import ModelFacts
from edgebench.protocol.spec import RunSpec, Scenario

NAME = "serving_default_args_0"
"""Input of the built-in model: int8, 1x8x8x1, 0 to 1.0625."""


@pytest.fixture(autouse=True)
def _runtime() -> None:
    need_runtime("ai-edge-litert")


def job(inputs: Path | None = None, shape: tuple[int, ...] | None = None) -> Job:
    """A job for the built-in model."""
    return Job(
        run_id="run",
        spec=RunSpec("litert", input_shapes={NAME: shape} if shape else {}),
        model=ModelFacts("digits_int8.tflite", "a" * 64, "tflite", 1),
        model_path=str(files("edgebench.host") / "builtin_models" / "digits_int8.tflite"),
        dataset_path=None,
        memory_bytes=2**30,
        daemon_pid=os.getpid(),
        inputs_path=str(inputs) if inputs else None,
    )


def inputs_with(folder: Path, value: float, count: int) -> Path:
    """Ten images, with this value in this many of their 640 values."""
    values = np.full((10, 8, 8, 1), 0.5, np.float32)
    values.flat[:count] = value
    np.savez(folder / "x.npz", **dict[str, Any]({NAME: values}))
    return folder / "x.npz"


def test_shape_of_another_rank_is_refused() -> None:
    """Otherwise a shape would be accepted for its 64 values, and an image of 8 by 8 measured."""
    with pytest.raises(InputsRefused, match=r"is \[1, 8, 8, 1\], not \[64\]: rank 4, not 1; its"):
        prepare_model(job(shape=(64,)))
    assert prepare_model(job(shape=(8, 8, 1))).model.inputs[0].shape == (1, 8, 8, 1)


def test_clipped_values_are_counted_and_too_many_are_refused(tmp_path: Path) -> None:
    """Otherwise images other than the given ones would silently be measured."""
    assert prepare_model(job(inputs_with(tmp_path, 2.0, 4))).inputs_clipped_ratio == 4 / 640
    assert prepare_model(job()).inputs_clipped_ratio is None
    said = r"represents 0 to 1\.06\d* and clips 1\.25 % of the given values"
    with pytest.raises(InputsRefused, match=said):
        prepare_model(job(inputs_with(tmp_path, 2.0, 8)))


@pytest.mark.parametrize(
    ("fields", "expected_s"),
    [
        ({}, 50.0),
        ({"max_duration_s": 12.0}, 12.0),
        ({"max_duration_s": 80.0}, 50.0),
        ({"scenario": Scenario.SERVER, "target_qps": 1.0}, 100.0),
        ({"scenario": Scenario.SERVER, "target_qps": 1.0, "max_duration_s": 12.0}, 12.0),
    ],
)
def test_expected_time_knows_the_maximum(fields: dict[str, Any], expected_s: float) -> None:
    """Otherwise an hour's wait would be announced for a run that ends after a minute."""
    spec = RunSpec("litert", duration_s=2.0, min_query_count=100, **fields)
    assert _expected_scenario_s(spec, 500_000_000) == expected_s
