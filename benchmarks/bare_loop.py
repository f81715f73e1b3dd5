"""The other side of harness.py: a model in a plain loop between two clock reads.

    python benchmarks/bare_loop.py RUNTIME MODEL THREADS WARMUP_S DURATION_S

prints the median latency in nanoseconds. The model is called by the library's public interface,
as somebody would who measures by hand: `Interpreter.invoke`, `InferenceSession.run_with_iobinding`
for RUNTIME onnx, and `InferenceSession.run` for RUNTIME onnx-run.
"""

from __future__ import annotations

import statistics
import sys
from collections.abc import Callable
from functools import partial
from importlib import import_module
from time import perf_counter_ns
from typing import Any

from edgebench.agent.worker.inputs import make_inputs
from edgebench.protocol.record import TensorSpec

INTERPRETERS = {"tflite": "tflite_runtime.interpreter", "litert": "ai_edge_litert.interpreter"}
ONNX_DTYPES = {"float": "float32", "double": "float64"}


def main(runtime: str, model: str, threads: int, warmup_s: float, duration_s: float) -> None:
    """Warm up, measure, print."""
    if runtime in INTERPRETERS:
        invoke = interpreter_call(INTERPRETERS[runtime], model, threads)
    else:
        invoke = session_call(model, threads, is_bound=runtime == "onnx")
    run(invoke, warmup_s)
    print(statistics.median_low(run(invoke, duration_s)))


def run(invoke: Callable[[], Any], duration_s: float) -> list[int]:
    """Latencies of queries, one right after another, for so long."""
    latencies = []
    deadline = perf_counter_ns() + int(duration_s * 1e9)
    while True:
        begin = perf_counter_ns()
        invoke()
        end = perf_counter_ns()
        latencies.append(end - begin)
        if end >= deadline:
            return latencies


def interpreter_call(module: str, model: str, threads: int) -> Callable[[], Any]:
    """One inference by a TensorFlow Lite interpreter."""
    interpreter = import_module(module).Interpreter(model_path=model, num_threads=threads)
    interpreter.allocate_tensors()
    details = interpreter.get_input_details()
    specs = [
        TensorSpec(detail["name"], tuple(map(int, detail["shape"])), detail["dtype"].__name__)
        for detail in details
    ]
    for detail, value in zip(details, inputs(specs), strict=True):
        interpreter.set_tensor(detail["index"], value)
    invoke: Callable[[], Any] = interpreter.invoke
    return invoke


def session_call(model: str, threads: int, *, is_bound: bool) -> Callable[[], Any]:
    """One inference by an ONNX Runtime session."""
    library = import_module("onnxruntime")
    settings = library.SessionOptions()
    settings.intra_op_num_threads = threads
    settings.inter_op_num_threads = 1
    settings.log_severity_level = 3
    session = library.InferenceSession(model, settings, providers=["CPUExecutionProvider"])
    specs = [
        TensorSpec(arg.name, sizes(arg.shape), dtype(arg.type)) for arg in session.get_inputs()
    ]
    feed = {spec.name: value for spec, value in zip(specs, inputs(specs), strict=True)}
    if not is_bound:
        return partial(session.run, None, feed)
    binding = session.io_binding()
    for name, value in feed.items():
        binding.bind_cpu_input(name, value)
    for output in session.get_outputs():
        binding.bind_output(output.name)
    return partial(session.run_with_iobinding, binding)


def inputs(specs: list[TensorSpec]) -> list[Any]:
    """The bytes that the agent's worker would use for these inputs."""
    return make_inputs(specs, seed=0, memory_bytes=2**30)


def sizes(shape: list[Any]) -> tuple[int, ...]:
    """A shape in which an unknown dimension is 1."""
    return tuple(size if isinstance(size, int) else 1 for size in shape)


def dtype(onnx_type: str) -> str:
    """`tensor(float)` is float32."""
    name = onnx_type.removeprefix("tensor(").removesuffix(")")
    return ONNX_DTYPES.get(name, name)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), float(sys.argv[4]), float(sys.argv[5]))
