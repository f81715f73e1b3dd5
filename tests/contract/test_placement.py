"""Proof of delegation: `placement` and `delegates_used` report what happened."""

from __future__ import annotations

import importlib
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from support.digits import FOLDER, ONE_THREAD, PACKAGES, Case, a_model_for, imported
from support.tools import need_root, need_runtime, need_shared, need_tool, skip_or_fail

from edgebench.protocol.record import OperatorPlacement
from edgebench.protocol.runtime import LoadedModel, LoadOptions

MASK_CPUS = """
mount -t tmpfs none /sys/devices/system/cpu && mount -t tmpfs none /proc && exec "$@"
"""
"""What a minimal container looks like to a library that counts processors: ARM builds need the
first, x86 builds the second."""
TELL = """
import json, sys
from edgebench.agent.runtimes.registry import find_runtime
from edgebench.protocol.runtime import LoadOptions

driver = find_runtime(sys.argv[1])
driver.import_library()
model = driver.load(sys.argv[2], LoadOptions(threads=1, delegate="xnnpack"))
places = sorted({operator.place for operator in model.placement()})
print(json.dumps([model.delegates_used, places]))
"""


def test_every_operator_of_the_model_is_placed_once(case: Case, model: LoadedModel) -> None:
    """Otherwise an operator would be missing from the proof, or counted in two places."""
    if case.runtime == "onnx":
        need_assignment()
    placement = model.placement()
    assert placement == model.placement() == tuple(sorted(placement, key=by_place))
    assert len({by_place(one) for one in placement}) == len(placement)
    assert {one.place for one in placement} <= {*model.delegates_used, "builtin"}
    layers = {"Conv": 3, "MaxPool": 1, "Gemm": 1}
    if case.runtime != "onnx":
        layers = {"MAX_POOL_2D": 1, "FULLY_CONNECTED": 1}
        assert sum(one.count for one in placement) == 5
    assert {one.operator: one.count for one in placement}.items() >= layers.items()


def by_place(placement: OperatorPlacement) -> tuple[str, str]:
    """The order of a placement."""
    return (placement.place, placement.operator)


@pytest.mark.parametrize("name", ["litert", "tflite"])
def test_without_a_delegate_all_operators_are_built_in(name: str) -> None:
    """Otherwise the baseline of a comparison would be accelerated, too."""
    need_runtime(PACKAGES[name])
    driver = imported(name)
    places: dict[str, set[str]] = {}
    counts: dict[str, int] = {}
    for delegate in ("xnnpack", "none"):
        loaded = driver.load(a_model_for(driver), LoadOptions(threads=1, delegate=delegate))
        places[delegate] = {one.place for one in loaded.placement()}
        counts[delegate] = sum(one.count for one in loaded.placement())
        loaded.close()
    assert places == {"xnnpack": {"xnnpack"}, "none": {"builtin"}}
    assert counts["xnnpack"] == counts["none"]


def test_tflite_runtime_keeps_int8_for_itself() -> None:
    """Otherwise a run with XNNPACK requested would count as one; this version gives it no int8."""
    need_runtime(PACKAGES["tflite"])
    path = str(FOLDER / "digits_int8.tflite")
    loaded = imported("tflite").load(path, LoadOptions(threads=1, delegate="xnnpack"))
    assert loaded.delegates_used == ()
    assert {one.place for one in loaded.placement()} == {"builtin"}
    loaded.close()


DIVIDED: list[tuple[str, str, dict[str, int]]] = [
    ("litert", "mnist_lstm_float.tflite", {"builtin": 1, "xnnpack": 3}),
    ("tflite", "mnist_lstm_float.tflite", {"builtin": 1, "xnnpack": 3}),
    ("tflite", "digits_cnn_dynrange.tflite", {"builtin": 3, "xnnpack": 6}),
    ("tflite", "dtln_1_dynrange.tflite", {"builtin": 16, "xnnpack": 27}),
    ("tflite", "dtln_1_float.tflite", {"builtin": 11, "xnnpack": 32}),
    ("tflite", "mobilenet_v1_0.25_224_float.tflite", {"builtin": 1, "xnnpack": 30}),
]
"""Models that only a part of was delegated. Those of tflite-runtime 2.14 are what it writes into
its own log at the level VERBOSE: «Replacing 27 out of 43 node(s) with delegate»."""


@pytest.mark.parametrize(("name", "file", "expected"), DIVIDED)
def test_divided_model_is_told_as_the_library_itself_logs_it(
    name: str, file: str, expected: dict[str, int]
) -> None:
    """Otherwise a model that runs half on the CPU would count as delegated, without a note."""
    need_runtime(PACKAGES[name])
    (path,) = need_shared("models/suite").rglob(file)
    loaded = imported(name).load(str(path), ONE_THREAD)
    counts: dict[str, int] = {}
    for one in loaded.placement():
        counts[one.place] = counts.get(one.place, 0) + one.count
    loaded.close()
    assert counts == expected


@pytest.mark.parametrize("name", ["litert", "tflite"])
def test_delegate_that_dropped_out_without_a_word_is_not_used(name: str) -> None:
    """Otherwise numbers would be labelled XNNPACK, which a minimal container silently lacks."""
    need_runtime(PACKAGES[name])
    need_root()
    need_tool("unshare", "mount")
    path = str(FOLDER / "digits_fp32.tflite")
    tell = [sys.executable, "-c", TELL, name, path]
    assert told(tell) == [["xnnpack"], ["xnnpack"]]
    assert told(["unshare", "--mount", "sh", "-c", MASK_CPUS, "sh", *tell]) == [[], ["builtin"]]


def told(command: list[str]) -> Any:
    """The JSON that a command prints."""
    result = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    if "unshare" in result.stderr or "mount:" in result.stderr:
        skip_or_fail(f"no mount namespace here: {result.stderr.strip()}")
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout)


def test_onnx_provider_without_an_operator_is_not_used() -> None:
    """Otherwise a registered provider without an operator would count as the one that ran."""
    need_runtime(PACKAGES["onnx"])
    driver = imported("onnx")
    need_assignment()
    if "AzureExecutionProvider" not in available_providers():
        pytest.skip("this onnxruntime has no provider that takes nothing")
    loaded = driver.load(a_model_for(driver), LoadOptions(threads=1, delegate="azure"))
    assert loaded.delegates_used == ("cpu",)
    assert {one.place for one in loaded.placement()} == {"cpu"}
    loaded.close()


def need_assignment() -> None:
    """Releases of onnxruntime before 1.24 do not report which provider got an operator."""
    session = importlib.import_module("onnxruntime").InferenceSession
    if not hasattr(session, "get_provider_graph_assignment_info"):
        pytest.skip("this onnxruntime does not tell where operators are")


def available_providers() -> list[str]:
    """What the library was built with."""
    onnxruntime = importlib.import_module("onnxruntime")
    return list(onnxruntime.get_available_providers())


def test_onnx_library_that_does_not_tell_gives_no_placement(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Otherwise an older onnxruntime would make the worker fail after the measurement."""
    need_runtime(PACKAGES["onnx"])
    session = importlib.import_module("onnxruntime").InferenceSession
    for kind in session.__mro__:
        if "get_provider_graph_assignment_info" in vars(kind):
            monkeypatch.delattr(kind, "get_provider_graph_assignment_info")
    driver = imported("onnx")
    loaded = driver.load(a_model_for(driver), ONE_THREAD)
    assert loaded.placement() == ()
    assert loaded.delegates_used == ("cpu",)
    loaded.close()
