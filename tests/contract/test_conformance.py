"""Conformance checks pass for every good driver, and the check of each planted fault fails."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support import int8_models
from support.digits import FOLDER, PACKAGES, Case, imported
from support.faulty_drivers import (
    FAULTS,
    LIBRARY_VARIABLE,
    UNTIMED_FAULTS,
    FaultyRuntime,
    RestoringRuntime,
    WithState,
    install,
)
from support.tools import need_runtime, skip_or_fail

from edgebench.agent.confine import Kernel
from edgebench.agent.conformance import (
    ConformanceCheck,
    ConformanceOutcome,
    check_driver,
    failed_checks,
)
from edgebench.agent.conformance_process import check_runtime

PASS, UNKNOWN = ConformanceOutcome.PASS, ConformanceOutcome.UNKNOWN
TIMED = {
    "zeros": "order",
    "previous": "timed path",
    "skipped": "order",
    "all-skipped": "order",
    "stale": "timed path",
    "shape": "shapes",
}
"""The first check that finds each fault of the timed calls."""
MODEL = FOLDER / "digits_fp32.onnx"


def test_good_driver_passes_every_check(case: Case) -> None:
    """Otherwise the author of a good driver would look for a fault that it does not have."""
    checks = check_driver(imported(case.runtime), case.path)
    assert [check for check in checks if check.outcome is not PASS] == []
    assert len(checks) == 9


@pytest.mark.parametrize("base", ["onnx", "tflite"])
@pytest.mark.parametrize(
    ("fault", "name"), [*TIMED.items(), *((key, row[1]) for key, row in UNTIMED_FAULTS.items())]
)
def test_check_of_a_planted_fault_fails(base: str, fault: str, name: str) -> None:
    """Otherwise a driver with this fault would be published as checked."""
    need_runtime(PACKAGES[base])
    assert set(TIMED) == set(FAULTS)
    driver = FaultyRuntime(base, fault)
    failed = failed_checks(check_driver(driver, FOLDER / f"digits_fp32.{driver.formats[0]}"))
    assert failed[0].name == name, failed


def test_state_that_reset_does_not_restore_is_unknown() -> None:
    """Otherwise a model that draws random numbers would be called a fault of its driver."""
    need_runtime("onnxruntime")
    driver: Any = FaultyRuntime("onnx", "stale")
    driver._fault = WithState
    checks = {check.name: check for check in check_driver(driver, MODEL)}
    assert checks["state"].outcome is UNKNOWN


def test_driver_that_restores_variables_has_the_outputs_of_the_reference(tmp_path: Path) -> None:
    """Otherwise it would be compared with reference kernels that still had the last sample's."""
    need_runtime(PACKAGES["tflite"])
    path = tmp_path / "stream.tflite"
    path.write_bytes(int8_models.stream(np.random.default_rng(0)))
    driver: Any = RestoringRuntime()
    checks = {check.name: check for check in check_driver(driver, path)}
    assert checks["reference"].outcome is PASS, checks


def test_model_that_is_refused_fails_the_load(tmp_path: Path) -> None:
    """Otherwise an error of the library would end the command with a traceback."""
    need_runtime("onnxruntime")
    broken = tmp_path / "broken.onnx"
    broken.write_bytes(b"no model")
    (check,) = check_driver(imported("onnx"), broken)
    assert check.name == "load"
    assert check.seen.startswith("ModelRefused: onnx refused the model")


def need_confined_files() -> None:
    """Skip where the kernel has no Landlock; test_confine.py has those kernels."""
    try:
        Kernel().landlock_abi()
    except OSError as exc:
        skip_or_fail(f"this kernel has no Landlock: {exc}")


def confinement(checks: list[ConformanceCheck]) -> ConformanceCheck:
    """The last check."""
    assert checks[-1].name == "confinement"
    return checks[-1]


def test_driver_that_a_worker_could_not_load_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise its author would find the sandbox only when the first run fails."""
    need_runtime("onnxruntime")
    need_confined_files()
    variables = install(tmp_path / "packages")
    for folder in variables["PYTHONPATH"].split(":"):
        monkeypatch.syspath_prepend(folder)
    before = [os.environ["PYTHONPATH"]] if "PYTHONPATH" in os.environ else []
    monkeypatch.setenv("PYTHONPATH", ":".join([variables["PYTHONPATH"], *before]))
    library = tmp_path / "library"
    library.touch()
    monkeypatch.setenv(LIBRARY_VARIABLE, str(library))
    checks = check_runtime("unconfinable", MODEL)
    found = confinement(checks)
    assert found.outcome is ConformanceOutcome.FAIL, checks
    assert "without confinement, the runtime works; list the directories" in found.seen
    assert failed_checks(checks) == [found]


def test_built_in_driver_passes_in_its_confined_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise the command would show a fault of every driver, such as the threads of numpy."""
    need_runtime(PACKAGES["litert"])
    need_confined_files()
    monkeypatch.setenv("OPENBLAS_NUM_THREADS", "4")  # which spin for 80 ms after the import
    checks = check_runtime("litert", FOLDER / "digits_int8.tflite")
    assert [check for check in checks if check.outcome is not PASS] == []
    assert "Landlock" in confinement(checks).seen
