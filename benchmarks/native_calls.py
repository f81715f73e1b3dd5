"""An inference as a call of a C function, for the C loop of native_loop.c.

The calls are those with which a run measures its binding (agent/runtimes/c_calls.py), plus a call
for LiteRT. LiteRT does not export its interpreter, but `libLiteRt.so` has a C API with another
class, the compiled model. Threads and inputs are the same as in the other loops.

LiteRT's wheel has no headers; `_litert` names the source of the declarations.
"""

from __future__ import annotations

import ctypes
import importlib
from collections.abc import Sequence
from ctypes import byref, c_size_t, c_uint64, c_void_p
from pathlib import Path
from typing import TYPE_CHECKING, Any

from edgebench.agent.runtimes.c_calls import (
    CCall,
    CFunctions,
    NotExported,
    address_of,
    c_call,
    load_library,
)

if TYPE_CHECKING:
    from edgebench.protocol.runtime import LoadedModel, Tensor

WORDS = 6
"""Number of arguments that native_loop.c passes to a function."""
LITERT_SIZES = range(2, 10)
"""Indices of those words of a `LiteRtRankedTensorType` that contain sizes. Source:
litert_model_types.h, litert_layout.h."""


def words_of(call: CCall) -> ctypes.Array[Any]:
    """Arguments as machine words, padded with zeros."""
    values = [getattr(word, "value", word) or 0 for word in call.arguments]
    return (ctypes.c_ssize_t * WORDS)(*values)


def nothing(loop: ctypes.CDLL) -> CCall:
    """The call of a C function that does nothing."""
    return CCall(address_of(loop, "do_nothing"), [], bytes)


def native_call(
    runtime: str, model: LoadedModel, path: str, threads: int, values: Sequence[Tensor]
) -> CCall:
    """The call of a C function that runs an inference of this model.

    Raises:
        NotExported: the wheel exports no such function, or the function does not run this model.
    """
    if runtime != "litert":
        return c_call(runtime, model, path, threads, values[0])
    if len(model.inputs) != 1 or len(model.outputs) != 1:
        raise NotExported("only models of one input and one output are called")
    return _litert(model, path, threads, values[0])


def _litert(model: LoadedModel, path: str, threads: int, value: Tensor) -> CCall:
    """Source: google-ai-edge/LiteRT, litert/c/*.h at 2.3."""
    package = importlib.import_module("ai_edge_litert")
    file = Path(str(package.__file__)).with_name("libLiteRt.so")
    library = load_library(file)
    function = address_of(library, "LiteRtRunCompiledModel")
    call = CFunctions(lambda name: getattr(library, f"LiteRt{name}"))
    environment = call.make("CreateEnvironment", 0, None)
    document = call.make("CreateModelFromFile", environment, path.encode())
    compiled = call.make("CreateCompiledModel", environment, document, _options(call, threads))
    signature = call.make("GetModelSignature", document, c_size_t(0))
    buffers = [
        _buffer(call, environment, compiled, signature, end, size)
        for end, size in (("Input", value.nbytes), ("Output", None))
    ]
    address = c_void_p()
    call("LockTensorBuffer", buffers[0], byref(address), 1)  # 1: to write
    ctypes.memmove(address, value.tobytes(), value.nbytes)
    call("UnlockTensorBuffer", buffers[0])
    arrays = [(c_void_p * 1)(buffer.value) for buffer in buffers]
    words = [compiled, 0, 1, ctypes.addressof(arrays[0]), 1, ctypes.addressof(arrays[1])]
    return CCall(function, words, bytes, (library, arrays, model))


def _options(call: CFunctions, threads: int) -> c_void_p:
    options = call.make("CreateOptions")
    call("SetOptionsHardwareAccelerators", options, c_uint64(1))  # 1: the CPU
    c = ctypes.CDLL(None)
    c.strdup.restype = c_void_p
    text = c_void_p(c.strdup(f'num_threads = {threads}\nkernel_mode = "xnnpack"\n'.encode()))
    free = ctypes.cast(c.free, c_void_p)
    call("AddOpaqueOptions", options, call.make("CreateOpaqueOptions", b"xnnpack", text, free))
    return options


def _buffer(
    call: CFunctions,
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
