"""What a cell requests."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from edgebench.host.bench.builtin import find_model
from edgebench.host.campaign.plan import Cell, new_plan
from edgebench.host.campaign.requests import cell_request
from edgebench.host.campaign.spec import Addition, Axes, CampaignSpec, Levels, Settings
from edgebench.host.options.bench import OPTIONS

FP32, INT8 = "digits_fp32.tflite", "digits_int8.tflite"


@pytest.mark.parametrize("model", [FP32, INT8])
def test_cell_asks_for_its_own_model_when_accuracy_is_measured(model: str) -> None:
    """Otherwise each quantised model would be measured as the model it is compared with."""
    cell = Cell(number=0, model=model, device="local", threads=2)
    request = cell_request(Settings(preset="quick", accuracy="digits"), 5, cell)
    assert [one.name for one in request.models] == [model]
    assert request.spec.threads == 2
    assert request.accuracy is not None
    references = {one.name: ref.name for one, ref in request.accuracy.references.items()}
    assert references == ({INT8: FP32} if model == INT8 else {})


LEVELS: dict[str, tuple[Any, Any]] = {
    "runtime": ("litert", "onnx"),
    "threads": (1, 2),
    "delegate": ("none", "xnnpack"),
    "scenario": ("single_stream", "offline"),
    "governor": ("performance", "powersave"),
    "supply_v": (1.8, 3.3),
}
LPM01A = "lpm01a:/dev/ttyACM0"


def test_every_axis_beside_model_and_device_is_an_option_of_bench() -> None:
    """Otherwise its cells would all be measured alike."""
    assert set(LEVELS) == {axis.name for axis in fields(Levels)}
    assert set(LEVELS) == {axis.name for axis in fields(Axes)} - {"model", "device"}
    assert set(LEVELS) <= {option.field for option in OPTIONS}


@pytest.mark.parametrize("axis", LEVELS)
def test_level_of_a_cell_reaches_its_request(axis: str, tmp_path: Path) -> None:
    """Otherwise a campaign would compare a configuration with itself."""
    axes = Axes(model=(INT8,), **{axis: LEVELS[axis]})
    spec = CampaignSpec(
        schema=1, name="x", axes=axes, settings=Settings(preset="quick", meter=LPM01A)
    )
    cells = new_plan(spec, tmp_path / "c.toml", lambda word: [word]).cells
    assert [cell.levels[axis] for cell in cells] == list(LEVELS[axis])
    requests = [cell_request(spec.settings, 1, cell) for cell in cells]
    assert requests[0] != requests[1]


@pytest.mark.parametrize("axis", LEVELS)
def test_setting_holds_for_cells_without_a_level(axis: str) -> None:
    """Otherwise an option that becomes an axis would lose the setting of campaigns that go on."""
    level = LEVELS[axis][1]
    set_for_all = cell_request(
        Settings(preset="quick", meter=LPM01A, **{axis: level}),
        1,
        Cell(number=0, model=INT8, device="local"),
    )
    of_cell = cell_request(
        Settings(preset="quick", meter=LPM01A),
        1,
        Cell(number=0, model=INT8, device="local", **{axis: level}),
    )
    assert set_for_all == of_cell


@pytest.mark.parametrize("axis", LEVELS)
def test_cell_is_labelled_with_the_setting_that_it_is_measured_with(
    axis: str, tmp_path: Path
) -> None:
    """Otherwise a cell would be called the default, and one equal to it be measured twice."""
    other, level = LEVELS[axis]
    include = (
        Addition(model=INT8, **{axis: other}),
        Addition(model=INT8, **{axis: level}),
        Addition(model=FP32),
    )
    settings = Settings(preset="quick", **{axis: level})
    axes = Axes(model=(INT8,))
    spec = CampaignSpec(schema=1, name="x", axes=axes, settings=settings, include=include)
    cells = new_plan(spec, tmp_path / "c.toml", lambda word: [word]).cells
    assert [(cell.model, cell.levels[axis]) for cell in cells] == [
        (INT8, level),
        (INT8, other),
        (FP32, level),
    ]


def test_settings_name_their_files() -> None:
    """Otherwise a lab would not receive the data set, and look for it at the coordinator's path."""
    settings = Settings(accuracy="digits", inputs="x.npz", duration_s=3)
    assert settings.files() == {"accuracy": "digits", "inputs": "x.npz"}
    placed = settings.with_files(lambda name: f"/there/{name}")
    assert placed == Settings(accuracy="/there/digits", inputs="/there/x.npz", duration_s=3)
    assert find_model(FP32).name == FP32
