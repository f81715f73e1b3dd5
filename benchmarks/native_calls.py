"""One inference as a call of a C function, for each runtime whose wheel exports one.

tflite-runtime exports its C++ methods, so the interpreter that Python created is called. LiteRT
hides its interpreter, but `libLiteRt.so` has a C API with a class of its own, the compiled model.
ONNX Runtime's wheel has a second library next to its Python module, `libonnxruntime.so`, with the C
API, so a second session is created. Threads and inputs are those of the other loops.

None of the wheels has the headers; the declarations are from the sources named below.
"""

from __future__ import annotations

import ctypes
import importlib
import math
from collections.abc import Sequence
from ctypes import byref, c_int64, c_size_t, c_uint64, c_void_p
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from edgebench.protocol.runtime import LoadedModel, Tensor

INVOKE = "_ZN6tflite4impl11Interpreter6InvokeEv"
"""`tflite::impl::Interpreter::Invoke()` in the name mangling of the Itanium C++ ABI."""
WORDS = 6
"""Arguments that native_loop.c passes to a function."""


class NotExported(Exception):
    """No C function can be called; the text says why."""


@dataclass(frozen=True, slots=True)
class NativeCall:
    """Function, its arguments, and the objects that must outlive the calls."""

    function: c_void_p
    arguments: Sequence[Any]
    alive: list[Any] = field(default_factory=list)

    def words(self) -> ctypes.Array[Any]:
        """Arguments as machine words, padded with zeros."""
        values = [getattr(word, "value", word) or 0 for word in self.arguments]
        return (ctypes.c_ssize_t * WORDS)(*values)


def nothing(loop: ctypes.CDLL) -> NativeCall:
    """A function that does nothing."""
    return NativeCall(_address(loop, "do_nothing"), [])


def native_call(
    runtime: str, model: LoadedModel, path: str, threads: int, values: Sequence[Tensor]
) -> NativeCall:
    """One inference.

    Raises:
        NotExported: the wheel has no such function, or not for this model.
    """
    if len(model.inputs) != 1 or len(model.outputs) != 1:
        raise NotExported("only models of one input and one output are called")
    makers = {"tflite": _tflite, "litert": _litert, "onnx": _onnx}
    return makers[runtime](model, path, threads, values[0])


def _tflite(model: Any, _path: str, _threads: int, _value: Tensor) -> NativeCall:
    module = importlib.import_module("tflite_runtime._pywrap_tensorflow_interpreter_wrapper")
    library = ctypes.CDLL(str(module.__file__))
    # Inputs and threads are those of the interpreter, which is the driver's own.
    handle = model._interpreter._native_handle()
    return NativeCall(_address(library, INVOKE), [handle], [model])


def _litert(model: LoadedModel, path: str, threads: int, value: Tensor) -> NativeCall:
    """Source: google-ai-edge/LiteRT, litert/c/*.h at 2.3."""
    package = importlib.import_module("ai_edge_litert")
    file = Path(str(package.__file__)).with_name("libLiteRt.so")
    library = _load(file)
    function = _address(library, "LiteRtRunCompiledModel")
    call = _Api(lambda name: getattr(library, f"LiteRt{name}"))
    environment = call.make("CreateEnvironment", 0, None)
    document = call.make("CreateModelFromFile", environment, path.encode())
    compiled = call.make("CreateCompiledModel", environment, document, _options(call, threads))
    signature = call.make("GetModelSignature", document, c_size_t(0))
    buffers = [
        _buffer(call, environment, compiled, signature, end, size)
        for end, size in (("Input", value.nbytes), ("Output", None))
    ]
    address = call.make("LockTensorBuffer", buffers[0], before=[1])  # 1: to write
    ctypes.memmove(address, value.tobytes(), value.nbytes)
    call("UnlockTensorBuffer", buffers[0])
    arrays = [(c_void_p * 1)(buffer.value) for buffer in buffers]
    words = [compiled, 0, 1, ctypes.addressof(arrays[0]), 1, ctypes.addressof(arrays[1])]
    return NativeCall(function, words, [library, arrays, model])


def _options(call: _Api, threads: int) -> c_void_p:
    options = call.make("CreateOptions")
    call("SetOptionsHardwareAccelerators", options, c_uint64(1))  # 1: the CPU
    c = ctypes.CDLL(None)
    c.strdup.restype = c_void_p
    text = c_void_p(c.strdup(f'num_threads = {threads}\nkernel_mode = "xnnpack"\n'.encode()))
    free = ctypes.cast(c.free, c_void_p)
    call("AddOpaqueOptions", options, call.make("CreateOpaqueOptions", b"xnnpack", text, free))
    return options


def _buffer(
    call: _Api,
    environment: c_void_p,
    compiled: c_void_p,
    signature: c_void_p,
    end: str,
    expected_bytes: int | None,
) -> c_void_p:
    first = c_size_t(0)
    tensor = call.make(f"GetSignature{end}TensorByIndex", signature, first)
    # A LiteRtRankedTensorType: element type, rank, sizes, strides; it takes 72 bytes.
    kind = (ctypes.c_int32 * 128)()
    call("GetRankedTensorType", tensor, kind)
    for place in LITERT_SIZES:
        kind[place] = abs(kind[place])  # an unknown size is -1; the interpreter takes 1 for it
    needs = call.make(f"GetCompiledModel{end}BufferRequirements", compiled, first, first)
    buffer = call.make("CreateManagedTensorBufferFromRequirements", environment, kind, needs)
    size = c_size_t()
    call("GetTensorBufferPackedSize", buffer, byref(size))
    if expected_bytes is not None and size.value != expected_bytes:
        raise NotExported(f"LiteRT's input takes {size.value} bytes, not {expected_bytes}")
    return buffer


LITERT_SIZES = range(2, 10)
"""Words of a `LiteRtRankedTensorType` that are sizes; litert_model_types.h, litert_layout.h."""
ONNX_TYPES = {"float32": 1, "uint8": 2, "int8": 3}
"""`ONNXTensorElementDataType`."""
ONNX_FUNCTIONS = {
    "CreateEnv": 3,
    "CreateSession": 7,
    "CreateSessionOptions": 10,
    "SetIntraOpNumThreads": 24,
    "SetInterOpNumThreads": 25,
    "CreateTensorWithDataAsOrtValue": 49,
    "CreateCpuMemoryInfo": 69,
    "RunWithBinding": 133,
    "CreateIoBinding": 134,
    "BindInput": 136,
    "BindOutput": 137,
}
"""Places in `OrtApi`, whose functions keep their places for ever.

Source: microsoft/onnxruntime, include/onnxruntime/core/session/onnxruntime_c_api.h."""
ONNX_API_VERSION = 14


def _onnx(model: LoadedModel, path: str, threads: int, value: Tensor) -> NativeCall:
    folder = Path(str(importlib.import_module("onnxruntime.capi").__file__)).parent
    files = sorted(folder.glob("libonnxruntime.so*"))
    if not files:
        raise NotExported("the wheel has no libonnxruntime.so")
    functions = _onnx_functions(_load(files[0]))
    call = _Api(lambda name: ctypes.CFUNCTYPE(c_void_p)(functions[ONNX_FUNCTIONS[name]]))
    environment = call.make("CreateEnv", 3, b"edgebench")
    options = call.make("CreateSessionOptions")
    call("SetIntraOpNumThreads", options, threads)
    call("SetInterOpNumThreads", options, 1)
    session = call.make("CreateSession", environment, path.encode(), options)
    memory = call.make("CreateCpuMemoryInfo", 0, 0)
    binding = call.make("CreateIoBinding", session)
    alive: list[Any] = [model, functions]
    for name, spec, content in (
        ("BindInput", model.inputs[0], value.tobytes()),
        ("BindOutput", model.outputs[0], None),
    ):
        shape = (c_int64 * len(spec.shape))(*spec.shape)
        size = math.prod(spec.shape) * (4 if spec.dtype == "float32" else 1)
        data = ctypes.create_string_buffer(content or size, size)
        kind = ONNX_TYPES[spec.dtype]
        words = (memory, data, c_size_t(size), shape, c_size_t(len(shape)), kind)
        bound = call.make("CreateTensorWithDataAsOrtValue", *words)
        call(name, binding, spec.name.encode(), bound)
        alive += [shape, data]
    function = c_void_p(functions[ONNX_FUNCTIONS["RunWithBinding"]])
    return NativeCall(function, [session, None, binding], alive)


def _onnx_functions(library: ctypes.CDLL) -> Any:
    try:
        base = library.OrtGetApiBase
    except AttributeError as exc:
        raise NotExported("no OrtGetApiBase in libonnxruntime.so") from exc
    base.restype = ctypes.POINTER(c_void_p)
    get = ctypes.CFUNCTYPE(c_void_p, ctypes.c_uint32)(base()[0])
    return ctypes.cast(get(ONNX_API_VERSION), ctypes.POINTER(c_void_p))


class _Api:
    """Functions that answer 0 or a null pointer when they did what they were asked."""

    def __init__(self, find: Any) -> None:
        self._find = find

    def __call__(self, name: str, *arguments: Any) -> None:
        try:
            function = self._find(name)
        except AttributeError as exc:
            raise NotExported(f"no function {name}") from exc
        if status := function(*arguments):
            raise NotExported(f"{name} answers {status}")

    def make(self, name: str, *arguments: Any, before: Sequence[Any] = ()) -> c_void_p:
        """Call a function that puts a handle where its last argument points."""
        made = c_void_p()
        self(name, *arguments, byref(made), *before)
        return made


def _load(file: Path) -> ctypes.CDLL:
    try:
        return ctypes.CDLL(str(file))
    except OSError as exc:
        raise NotExported(f"{file.name} does not load: {exc}") from exc


def _address(library: ctypes.CDLL, name: str) -> c_void_p:
    try:
        return ctypes.cast(getattr(library, name), c_void_p)
    except AttributeError as exc:
        raise NotExported(f"no symbol {name}") from exc
