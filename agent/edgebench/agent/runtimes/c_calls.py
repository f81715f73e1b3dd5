"""Runs an inference as a call of a C function, if the runtime's library exports such a function.

tflite-runtime exports its C++ methods. Python creates the interpreter, and a method of this
interpreter is called. LiteRT is not supported, because its library does not export the interpreter.
Its C interface has a different class, which does more work outside the kernels. Newer wheels of
ONNX Runtime contain a second library, `libonnxruntime.so`, next to the Python module. This library
has the C interface and its own kernels, so a second session is created.

The wheels do not contain the headers; the declarations are taken from the sources that are named
next to the constants. Memory is not freed, and a wrong declaration would read invalid memory, so
these calls are for a process that ends soon. The timed loop does not use them, because a call by
ctypes takes as much time as a call by the runtime's Python binding
(docs/decisions/0025-the-binding-is-stated.md).
"""

from __future__ import annotations

import ctypes
import importlib
import math
from collections.abc import Callable, Sequence
from ctypes import byref, c_int64, c_size_t, c_void_p
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from edgebench.protocol.runtime import LoadedModel, Tensor

INVOKE = "_ZN6tflite4impl11Interpreter6InvokeEv"
"""`tflite::impl::Interpreter::Invoke()` in the name mangling of the Itanium C++ ABI."""
_ONNX_ELEMENTS = {"float32": (1, 4), "uint8": (2, 1), "int8": (3, 1)}
"""Maps each element type to its `ONNXTensorElementDataType` and its number of bytes."""
_ONNX_FUNCTIONS = {
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
"""Positions of functions in the structure `OrtApi`, in which existing functions never move.

Source: microsoft/onnxruntime, include/onnxruntime/core/session/onnxruntime_c_api.h."""
_ONNX_API_VERSION = 14
_ONNX_ERRORS_ONLY = 3
"""Log level for errors only. Source: `OrtLoggingLevel` in onnxruntime_c_api.h."""


class NotExported(Exception):
    """No C function can be called; the text is the reason."""


@dataclass(frozen=True, slots=True)
class CCall:
    """C function that runs an inference, and its arguments."""

    function: c_void_p
    arguments: Sequence[Any]
    read_output: Callable[[], bytes]
    """Function that returns the output of the last inference, as bytes."""
    alive: tuple[object, ...] = ()
    """Objects that must exist as long as the function is called."""

    def invoker(self) -> Callable[[], int]:
        """A ctypes call, which releases the GIL as a runtime's binding does, and returns 0."""
        return by_ctypes(self.function, self.arguments)


def by_ctypes(function: c_void_p, arguments: Sequence[Any]) -> Callable[[], int]:
    """A ctypes call of a C function; its arguments are machine words and are converted once."""
    call = ctypes.CFUNCTYPE(ctypes.c_int)(function.value or 0)
    return partial(call, *(c_void_p(getattr(word, "value", word)) for word in arguments))


def nothing(argument_count: int) -> Callable[[], int]:
    """A ctypes call of a nearly empty C function, to measure the time of ctypes itself."""
    return by_ctypes(address_of(ctypes.CDLL(None), "abs"), [0] * argument_count)


def c_call(runtime: str, model: LoadedModel, path: str, threads: int, value: Tensor) -> CCall:
    """The C call that runs an inference on this input.

    Raises:
        NotExported: the library exports no such function, or the model is not supported.
    """
    if runtime not in _MAKERS:
        raise NotExported("the library exports no C function that runs the same kernels")
    if len(model.inputs) != 1 or len(model.outputs) != 1:
        raise NotExported("only models with 1 input and 1 output are supported")
    try:
        return _MAKERS[runtime](model, path, threads, value)
    except (ImportError, AttributeError, KeyError) as exc:
        raise NotExported(f"the library is not supported: {exc}") from exc


class CFunctions:
    """Calls C functions that return 0 or a null pointer on success."""

    def __init__(self, find: Callable[[str], Any]) -> None:
        self._find = find

    def __call__(self, name: str, *arguments: Any) -> None:
        """Call a function.

        Raises:
            NotExported: the function does not exist, or fails.
        """
        try:
            function = self._find(name)
        except AttributeError as exc:
            raise NotExported(f"no function {name}") from exc
        if function(*arguments):
            raise NotExported(f"{name} fails")

    def make(self, name: str, *arguments: Any) -> c_void_p:
        """Call a function that returns a handle through a pointer argument; return the handle."""
        pointer = c_void_p()
        self(name, *arguments, byref(pointer))
        return pointer


def load_library(file: Path) -> ctypes.CDLL:
    """Load a library.

    Raises:
        NotExported: the library does not load.
    """
    try:
        return ctypes.CDLL(str(file))
    except OSError as exc:
        raise NotExported(f"{file.name} does not load: {exc}") from exc


def address_of(library: ctypes.CDLL, name: str) -> c_void_p:
    """Address of an exported function.

    Raises:
        NotExported: the library exports no such function.
    """
    try:
        return ctypes.cast(getattr(library, name), c_void_p)
    except AttributeError as exc:
        raise NotExported(f"no symbol {name}") from exc


def _tflite(model: Any, _path: str, _threads: int, _value: Tensor) -> CCall:
    module = importlib.import_module("tflite_runtime._pywrap_tensorflow_interpreter_wrapper")
    invoke = address_of(load_library(Path(str(module.__file__))), INVOKE)
    # Inputs and threads are those of the driver's interpreter.
    handle = model._interpreter._native_handle()
    return CCall(invoke, [handle], lambda: bytes(model.read_outputs()[0].tobytes()), (model,))


def _onnx(model: LoadedModel, path: str, threads: int, value: Tensor) -> CCall:
    folder = Path(str(importlib.import_module("onnxruntime.capi").__file__)).parent
    files = sorted(folder.glob("libonnxruntime.so*"))
    if not files:
        raise NotExported("the wheel has no libonnxruntime.so")
    base = load_library(files[0]).OrtGetApiBase
    base.restype = ctypes.POINTER(c_void_p)
    return onnx_call(base(), model, path, threads, value)


def onnx_call(base: Any, model: LoadedModel, path: str, threads: int, value: Tensor) -> CCall:
    """Create a separate session with bound input and output, and the call that runs it.

    Args:
        base: Pointer to an `OrtApiBase`, whose first function returns the `OrtApi`.
        model: The model, as the driver has loaded it.
        path: Path of the model file.
        threads: Threads of the session.
        value: Input of the model.
    """
    get_api = ctypes.CFUNCTYPE(c_void_p, ctypes.c_uint32)(base[0])
    functions = ctypes.cast(get_api(_ONNX_API_VERSION), ctypes.POINTER(c_void_p))
    if not functions:
        raise NotExported(f"no C interface of version {_ONNX_API_VERSION}")
    call = CFunctions(lambda name: ctypes.CFUNCTYPE(c_void_p)(functions[_ONNX_FUNCTIONS[name]]))
    environment = call.make("CreateEnv", _ONNX_ERRORS_ONLY, b"edgebench")
    options = call.make("CreateSessionOptions")
    call("SetIntraOpNumThreads", options, threads)
    call("SetInterOpNumThreads", options, 1)
    session = call.make("CreateSession", environment, path.encode(), options)
    memory = call.make("CreateCpuMemoryInfo", 0, 0)
    binding = call.make("CreateIoBinding", session)
    alive: list[object] = [model]
    output: Any = None
    for name, spec, content in (
        ("BindInput", model.inputs[0], value.tobytes()),
        ("BindOutput", model.outputs[0], None),
    ):
        kind, width = _ONNX_ELEMENTS[spec.dtype]
        shape = (c_int64 * len(spec.shape))(*spec.shape)
        size = math.prod(spec.shape) * width
        output = ctypes.create_string_buffer(content or size, size)
        words = (memory, output, c_size_t(size), shape, c_size_t(len(shape)), kind)
        bound = call.make("CreateTensorWithDataAsOrtValue", *words)
        call(name, binding, spec.name.encode(), bound)
        alive += [shape, output]
    function = c_void_p(functions[_ONNX_FUNCTIONS["RunWithBinding"]])
    return CCall(function, [session, None, binding], lambda: bytes(output), tuple(alive))


_MAKERS: dict[str, Callable[[Any, str, int, Any], CCall]] = {"tflite": _tflite, "onnx": _onnx}
