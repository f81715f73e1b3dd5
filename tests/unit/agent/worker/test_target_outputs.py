"""Outputs of a target next to those of reference kernels, whose process runs a hostile model."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest
from support.digits import FOLDER
from support.tools import need_runtime

from edgebench.agent.worker import target_outputs
from edgebench.agent.worker.job import Job
from edgebench.agent.worker.reference import OUTPUTS_FILE, SAMPLES_FILE
from edgebench.agent.worker.target_outputs import compare_with_reference
from edgebench.protocol.errors import MeasurementError
from edgebench.protocol.plain import to_plain
from edgebench.protocol.record import CheckFacts, ModelFacts, RuntimeFacts
from edgebench.protocol.spec import RunSpec

if TYPE_CHECKING:
    from edgebench.protocol.runtime import Tensor

MODEL = FOLDER / "digits_int8.tflite"
JOB = Job(
    "run",
    RunSpec("firmware"),
    ModelFacts(MODEL.name, "0" * 64, "tflite", 1),
    str(MODEL),
    None,
    2**30,
    os.getpid(),
)
DAMAGED = b"PK\x03\x04 and no directory"


@pytest.mark.parametrize(
    ("content", "said"), [(DAMAGED, "BadZipFile: "), (b"", "EOFError: "), (None, "FileNotFound")]
)
def test_file_of_a_hostile_process_costs_only_the_comparison(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: bytes | None, said: str
) -> None:
    """Otherwise the worker would end with a traceback, and take the reason with it."""

    def write(directory: Path) -> RuntimeFacts:
        if content is not None:
            (directory / OUTPUTS_FILE).write_bytes(content)
        return RuntimeFacts("litert", "2.0.0")

    monkeypatch.setattr(target_outputs, "_run_reference", write)
    sample: list[Tensor] = [np.zeros(4, np.int8)]
    before = CheckFacts(dataset_sample_count=3, dataset_wanted_count=3)
    check = compare_with_reference(JOB, [sample], [sample], before, tmp_path)
    assert check.reference is None
    assert (check.reference_error or "").startswith(said)
    assert check.dataset_sample_count == 3
    assert list(tmp_path.iterdir()) == []


def test_reference_kernels_tell_whatever_ends_them(tmp_path: Path) -> None:
    """Otherwise an error of the interpreter would be reported as status 1."""
    need_runtime("ai-edge-litert")
    (tmp_path / "job.json").write_text(json.dumps(to_plain(JOB)))
    (tmp_path / SAMPLES_FILE).write_bytes(DAMAGED)
    with pytest.raises(MeasurementError, match="reference kernels did not run: BadZipFile: "):
        target_outputs._run_reference(tmp_path)
