"""Time per operator on LiteRT, through the C interface of its shared library.

Theory of operation. LiteRT's Python package has no profiler, but its library `libLiteRt.so` has a
profiler. In this library, a `CompiledModel` is created with the option `enable_profiling`, and with
the same kernels and threads as the interpreter. The model is thus loaded a second time, and the
times differ from the times in the timed loop. Times are rounded down to whole microseconds, so
shorter operators count as zero.

    environment ─▶ model ─┐
    options (two texts) ──┴▶ compiled model ─▶ profiler ─▶ events of one run ─▶ …
                             input and output buffers ─▶ run

A run has an event for each operator that the interpreter ran, and an event for each kernel inside a
delegate. The library's own events are omitted.

In LiteRT 2.3, buffers that are smaller than the model's outputs crash the process. This was
observed with a detector whose file gives no shapes for its outputs. The sizes of all buffers are
therefore compared with the interpreter's tensors before the model runs.

Source: google-ai-edge/LiteRT, litert/c/*.h.
"""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from contextlib import ExitStack
from ctypes import c_int, c_size_t, c_uint64, c_void_p
from dataclasses import dataclass
from statistics import median_low
from typing import TYPE_CHECKING, Any

from edgebench.agent.runtimes.interpreter_placement import BUILTIN
from edgebench.agent.runtimes.litert_events import ProfilerEvent, make_room, operators, read_events
from edgebench.agent.runtimes.litert_library import Library
from edgebench.agent.runtimes.text import library_line
from edgebench.protocol.errors import ModelRefused
from edgebench.protocol.record import OperatorTime

if TYPE_CHECKING:
    from edgebench.protocol.runtime import Tensor

NS_PER_US = 1000
_CPU = 1
"""`kLiteRtHwAcceleratorCpu`."""
_WRITE = 1
"""`kLiteRtTensorBufferLockModeWrite`."""
_TYPE_BYTES = 512
"""Space for a `LiteRtRankedTensorType`, which takes 72 bytes and is passed on without being
read."""


@dataclass(frozen=True, slots=True)
class ModelTensors:
    """Inputs and outputs of the main graph; each maps the index of a tensor to its value."""

    inputs: Mapping[int, Tensor]
    outputs: Mapping[int, Tensor]


def profile_model(
    tensors: ModelTensors,
    run_count: int,
    *,
    path: str,
    version: str,
    threads: int,
    kernels: str,
    delegate: str,
) -> tuple[OperatorTime, ...]:
    """Run a model file under the profiler.

    Args:
        tensors: Inputs for the runs, and outputs of the interpreter. The sizes of these tensors are
            compared with the sizes of the buffers.
        run_count: Number of profiled runs, without the first run, which is not profiled.
        path: The model file.
        version: Version of ai-edge-litert.
        threads: Threads of the kernels.
        kernels: `xnnpack` or `builtin`. The library also accepts `reference`, but does not run
            reference kernels for this value.
        delegate: Name of the delegate; it is recorded as the place of the delegate's kernels.

    Raises:
        ModelRefused: this version is not supported, or the profiler rejects this model.
    """
    with ExitStack() as life:
        model = _ProfiledModel(Library(version), life, path, threads, kernels)
        model.fill(tensors)
        model.run()
        runs = [operators(model.profiled_run()) for _ in range(run_count)]
    shapes = {tuple((event.tag, event.is_delegated) for event in run) for run in runs}
    if len(shapes) > 1:
        raise ModelRefused("no profile: two profiled runs executed different operators")
    return tuple(
        OperatorTime(
            index=index,
            operator=library_line(events[0].tag),
            name="",
            place=delegate if events[0].is_delegated else BUILTIN,
            count=len(events),
            total_ns=sum(event.elapsed_us for event in events) * NS_PER_US,
            p50_ns=median_low(event.elapsed_us for event in events) * NS_PER_US,
        )
        for index, events in enumerate(zip(*runs, strict=True))
    )


class _ProfiledModel:
    """A compiled model with its buffers and its profiler."""

    def __init__(
        self, library: Library, life: ExitStack, path: str, threads: int, kernels: str
    ) -> None:
        self._library = library
        environment = library.owned(life, "Environment", "CreateEnvironment", 0, None)
        file = path.encode()
        model = library.owned(life, "Model", "CreateModelFromFile", environment, file)
        options = library.owned(life, "Options", "CreateOptions")
        library.call("SetOptionsHardwareAccelerators", options, c_uint64(_CPU))
        library.add_text(options, b"runtime_options_string", b"enable_profiling = true\n")
        text = f'num_threads = {threads}\nkernel_mode = "{kernels}"\n'
        library.add_text(options, b"xnnpack", text.encode())
        arguments = (environment, model, options)
        self._model = library.owned(life, "CompiledModel", "CreateCompiledModel", *arguments)
        self._signature = library.handle("GetModelSignature", model, c_size_t(0))
        self._inputs = self._make_buffers(life, environment, "Input")
        self._outputs = self._make_buffers(life, environment, "Output")
        self._profiler = library.handle("CompiledModelGetProfiler", self._model)

    def fill(self, tensors: ModelTensors) -> None:
        """Copy the inputs to the buffers, if all buffers are as large as the tensors."""
        self._compare(self._inputs, tensors.inputs)
        self._compare(self._outputs, tensors.outputs)
        for index, buffer in self._inputs.items():
            value, address = tensors.inputs[index], c_void_p()
            self._library.call("LockTensorBuffer", buffer, ctypes.byref(address), _WRITE)
            ctypes.memmove(address, value.tobytes(), value.nbytes)
            self._library.call("UnlockTensorBuffer", buffer)

    def _compare(self, buffers: Mapping[int, c_void_p], values: Mapping[int, Tensor]) -> None:
        sizes = {
            index: self._library.size("GetTensorBufferPackedSize", buffer)
            for index, buffer in buffers.items()
        }
        if sizes != {index: value.nbytes for index, value in values.items()}:
            raise ModelRefused("no profile: LiteRT's buffers differ from the interpreter's tensors")

    def run(self) -> None:
        inputs, outputs = _array(self._inputs.values()), _array(self._outputs.values())
        ends = (c_size_t(len(inputs)), inputs, c_size_t(len(outputs)), outputs)
        self._library.call("RunCompiledModel", self._model, c_size_t(0), *ends)

    def profiled_run(self) -> list[ProfilerEvent]:
        """Run once under the profiler; returns the events of this run."""
        self._library.call("ResetProfiler", self._profiler)
        self._library.call("StartProfiler", self._profiler)
        self.run()
        self._library.call("StopProfiler", self._profiler)
        count = c_int()
        self._library.call("GetNumProfilerEvents", self._profiler, ctypes.byref(count))
        if count.value <= 0:
            raise ModelRefused("no profile: LiteRT recorded no event")
        room = make_room(count.value)
        self._library.call("GetProfilerEvents", self._profiler, count, room)
        return read_events(room, count.value)

    def _make_buffers(
        self, life: ExitStack, environment: c_void_p, end: str
    ) -> dict[int, c_void_p]:
        library, buffers = self._library, dict[int, c_void_p]()
        for position in range(library.size(f"GetNumSignature{end}s", self._signature)):
            place = c_size_t(position)
            tensor = library.handle(f"GetSignature{end}TensorByIndex", self._signature, place)
            kind = (ctypes.c_uint8 * _TYPE_BYTES)()
            library.call("GetRankedTensorType", tensor, kind)
            request = (f"GetCompiledModel{end}BufferRequirements", self._model, c_size_t(0), place)
            needs = library.handle(*request)
            make = ("CreateManagedTensorBufferFromRequirements", environment, kind, needs)
            buffers[library.size("GetTensorIndex", tensor)] = library.owned(
                life, "TensorBuffer", *make
            )
        return buffers


def _array(handles: Any) -> ctypes.Array[c_void_p]:
    values = [handle.value for handle in handles]
    return (c_void_p * len(values))(*values)
