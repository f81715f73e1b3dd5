"""What follows the timed loop is tried before it: a model is refused, and never lost."""

from __future__ import annotations

import os
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.digits import CASES
from support.tools import need_runtime

from edgebench.agent.worker import main as worker
from edgebench.agent.worker import rehearsal
from edgebench.agent.worker.job import Job
from edgebench.agent.worker.measure import PreparedModel, prepare_model
from edgebench.agent.worker.rehearsal import refuse_full_disk, refuse_outputs
from edgebench.protocol.errors import DatasetRefused, ModelRefused, NoSpace
from edgebench.protocol.record import ModelFacts
from edgebench.protocol.spec import RunSpec


@pytest.fixture(scope="module")
def job() -> Job:
    """A job for a built-in model."""
    need_runtime("ai-edge-litert")
    case = next(case for case in CASES if case.runtime == "litert")
    return Job(
        run_id="run",
        spec=RunSpec("litert"),
        model=ModelFacts("digits.tflite", "a" * 64, "tflite", 1),
        model_path=str(case.path),
        dataset_path=None,
        memory_bytes=2**30,
        daemon_pid=os.getpid(),
    )


@pytest.fixture(scope="module")
def prepared(job: Job) -> PreparedModel:
    """The model, after its first inference."""
    return prepare_model(job)


class _Vague:
    """A model that fails when its operators are requested, as some files make libraries do."""

    def __init__(self, model: Any) -> None:
        self._model = model

    def __getattr__(self, name: str) -> Any:
        return getattr(self._model, name)

    def placement(self) -> Any:
        raise IndexError("no such\n operator")


def test_rehearsal_of_a_good_model_leaves_nothing(
    tmp_path: Path, job: Job, prepared: PreparedModel
) -> None:
    """Otherwise a worker that dies in the warm-up would leave a record of no measurement."""
    worker._try_writing(job, prepared, tmp_path)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("what", ["outputs", "operators"])
def test_what_cannot_be_described_is_refused_before_the_loop(
    tmp_path: Path, job: Job, prepared: PreparedModel, what: str
) -> None:
    """Otherwise a minute would be measured, and lost for the sake of a digest."""
    if what == "outputs":
        outputs: Any = [{"a": 1}]
        bad, said = replace(prepared, first_outputs=outputs), "AttributeError: .*dict"
    else:
        vague: Any = _Vague(prepared.model)
        bad, said = replace(prepared, model=vague), "IndexError: no such operator"
    with pytest.raises(ModelRefused, match=f"^litert does not describe the model .*: {said}"):
        worker._try_writing(job, bad, tmp_path)


def test_outputs_for_a_data_set_have_to_be_numbers_and_fit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Otherwise all samples would be processed after the measurement, without an accuracy."""
    floats = np.zeros((1, 10), np.float32)
    assert refuse_outputs([floats], 5) == 200
    with pytest.raises(DatasetRefused, match="must be numbers, the model has object"):
        refuse_outputs([floats, np.array(["a"], object)], 5)
    with pytest.raises(DatasetRefused, match=r"2000000 samples .* 76.3 MiB, limit 64.0 MiB"):
        refuse_outputs([floats], 2_000_000)


def test_run_that_will_not_fit_on_the_disk_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise the disk would be full after the timed loop, and the measurement be gone."""
    free = 2 * rehearsal.KEEP_FREE_BYTES
    usage = shutil.disk_usage(tmp_path)._replace(free=free)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage)
    refuse_full_disk(tmp_path, free // 2)
    with pytest.raises(NoSpace, match=rf"will write {free + 1:,} B, disk has {free:,} B free: /"):
        refuse_full_disk(tmp_path, free // 2 + 1)
