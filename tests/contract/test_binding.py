"""The cost of a binding: the same outputs through it and in C, on the real libraries."""

from __future__ import annotations

import numpy as np
import pytest
from support import onnx_bytes, tflite_bytes
from support.digits import ONE_THREAD, PACKAGES, Case, images, imported
from support.tools import need_runtime

from edgebench.agent.runtimes.c_calls import NotExported, c_call
from edgebench.agent.runtimes.trivial_models import TRIVIAL_MODELS
from edgebench.agent.worker.binding import measure_binding
from edgebench.protocol.record import BindingFacts, TensorSpec
from edgebench.protocol.runtime import LoadedModel, LoadOptions, Runtime

NOT_EXPORTED = {"litert"}
"""Runtimes whose libraries hide the functions that their bindings call."""


def test_trivial_models_are_one_addition_each() -> None:
    """Otherwise the packed bytes would be something other than documented."""
    written = {"onnx": onnx_bytes.addition(1.0), "tflite": tflite_bytes.addition(1)}
    assert written == TRIVIAL_MODELS


def test_c_function_gives_the_bits_of_the_binding(case: Case, model: LoadedModel) -> None:
    """Otherwise different kernels, options or inputs would be compared."""
    first, second = images(case.entry)[0][:2]
    if case.runtime in NOT_EXPORTED:
        with pytest.raises(NotExported, match="exports no C function"):
            c_call(case.runtime, model, case.path, 1, first)
        return
    expected = []
    for sample in (first, second):
        model.set_inputs([sample])
        model.invoker()()
        expected.append(model.read_outputs()[0].tobytes())
    assert expected[0] != expected[1]
    other = case.load()
    other.set_inputs([first])
    native = c_call(case.runtime, other, case.path, 1, first)
    assert native.invoker()() == 0
    assert native.read_output() == expected[0]


def test_onnx_options_of_a_run_change_no_bit() -> None:
    """Otherwise cheaper options would change the run, or be created again in each call."""
    need_runtime(PACKAGES["onnx"])
    driver = imported("onnx")
    import onnxruntime

    for case in (Case("onnx", {"file": f"digits_{kind}.onnx"}) for kind in ("fp32", "int8")):
        model = driver.load(case.path, ONE_THREAD)
        plain = onnxruntime.InferenceSession(case.path, providers=["CPUExecutionProvider"])
        sample = [
            (np.arange(np.prod(spec.shape)) % 16).astype(spec.dtype).reshape(spec.shape)
            for spec in model.inputs
        ]
        model.set_inputs(sample)
        model.invoker()()
        named = dict(zip((spec.name for spec in model.inputs), sample, strict=True))
        (expected,) = plain.run(None, named)
        assert model.read_outputs()[0].tobytes() == expected.tobytes()
        invokers = [model.invoker(), model.invoker()]
        options = {getattr(invoke, "args", (None,))[-1] for invoke in invokers}
        assert [type(one) for one in options] == [onnxruntime.RunOptions]


def test_binding_of_each_runtime_is_measured(runtime: Runtime) -> None:
    """Otherwise a run would have no binding cost, or that of another model than the trivial one."""
    facts = measure_binding(runtime, ())
    assert facts.p50_ns is not None
    assert 0 < facts.p50_ns < 1_000_000
    if runtime.name in NOT_EXPORTED:
        assert facts.c_p50_ns is None
        assert facts.reason is not None
        assert "exports no C function" in facts.reason
    elif facts.c_p50_ns is None:  # onnxruntime before about 1.18
        assert facts.reason == "the wheel has no libonnxruntime.so"
    else:
        assert 0 < facts.c_p50_ns < 2 * facts.p50_ns
        assert facts.reason is None


def test_models_with_text_are_left_out(runtime: Runtime) -> None:
    """Otherwise the cost of another path than the model's would be reported."""
    facts = measure_binding(runtime, [TensorSpec("x", (1,), "object")])
    assert facts == BindingFacts(reason="not measured for models with text tensors")


def test_library_without_a_trivial_model_is_told() -> None:
    """Otherwise a third-party driver would end the run."""

    class Other:
        name = "other"
        formats = ("pte",)

    facts = measure_binding(Other(), ())  # type: ignore[arg-type]  # has part of a driver
    assert facts == BindingFacts(reason="no trivial model in the formats of this runtime")


def test_exception_is_told_and_not_raised() -> None:
    """Otherwise a library that refuses the trivial model would fail the run."""

    class Refusing:
        name = "other"
        formats = ("tflite",)

        def load(self, path: str, options: LoadOptions) -> LoadedModel:
            raise RuntimeError("no")

    facts = measure_binding(Refusing(), ())  # type: ignore[arg-type]  # has part of a driver
    assert facts == BindingFacts(reason="the trivial model fails: RuntimeError")
