"""What a cell asks for."""

from __future__ import annotations

import pytest

from edgebench.host.bench.builtin import find_model
from edgebench.host.campaign.plan import Cell
from edgebench.host.campaign.requests import cell_request
from edgebench.host.campaign.spec import Settings

FP32, INT8 = "digits_fp32.tflite", "digits_int8.tflite"


@pytest.mark.parametrize("model", [FP32, INT8])
def test_cell_asks_for_its_own_model_when_accuracy_is_measured(model: str) -> None:
    """Each quantised model of the campaign is measured as the one that it is held against."""
    cell = Cell(number=0, model=model, device="local", threads=2)
    request = cell_request(Settings(preset="quick", accuracy="digits"), 5, cell)
    assert [one.name for one in request.models] == [model]
    assert request.spec.threads == 2
    assert request.accuracy is not None
    references = {one.name: ref.name for one, ref in request.accuracy.references.items()}
    assert references == ({INT8: FP32} if model == INT8 else {})


def test_settings_name_their_files() -> None:
    """A lab is not sent the data set, and looks for it where the coordinator has it."""
    settings = Settings(accuracy="digits", inputs="x.npz", duration_s=3)
    assert settings.files() == {"accuracy": "digits", "inputs": "x.npz"}
    placed = settings.with_files(lambda name: f"/there/{name}")
    assert placed == Settings(accuracy="/there/digits", inputs="/there/x.npz", duration_s=3)
    assert find_model(FP32).name == FP32
