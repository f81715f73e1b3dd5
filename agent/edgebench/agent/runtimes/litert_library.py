"""The C interface of LiteRT's library `libLiteRt.so`, whose profiler has no Python interface.

The C headers are not in the wheel, and a wrong declaration would read invalid memory, so only
tested versions are accepted.

Source: google-ai-edge/LiteRT, litert/c/*.h.
"""

from __future__ import annotations

import ctypes
import importlib
from contextlib import ExitStack
from ctypes import c_int, c_size_t, c_void_p
from pathlib import Path
from typing import Any

from edgebench.agent.runtimes.text import library_line
from edgebench.protocol.errors import ModelRefused

TRIED_VERSIONS = ((2, 1, 6), (2, 3))
"""First and last tested version; every patch release of the last version is accepted."""
_ERRORS = {
    1: "invalid argument",
    2: "out of memory",
    3: "runtime failure",
    5: "unsupported",
    6: "not found",
    501: "invalid flatbuffer",
}
"""`LiteRtStatus`, litert_common.h."""


class Library:
    """C functions of the library; all functions except destructors return a status."""

    def __init__(self, version: str) -> None:
        check_version(version)
        package = importlib.import_module("ai_edge_litert")
        try:
            self._functions = ctypes.CDLL(str(Path(str(package.__file__)).parent / "libLiteRt.so"))
            self._c = ctypes.CDLL(None)
        except OSError as exc:
            raise ModelRefused(f"LiteRT's profiler is missing: {library_line(exc)}") from exc
        self._c.strdup.restype = c_void_p

    def call(self, name: str, *arguments: Any) -> None:
        """Call a function.

        Raises:
            ModelRefused: the function does not exist, or returns an error.
        """
        try:
            function = getattr(self._functions, f"LiteRt{name}")
        except AttributeError as exc:
            raise ModelRefused(f"LiteRT's profiler is missing: no function LiteRt{name}") from exc
        function.restype = c_int
        if status := function(*arguments):
            reason = _ERRORS.get(status, f"error {status}")
            raise ModelRefused(f"no profile: LiteRt{name} fails: {reason}")

    def handle(self, name: str, *arguments: Any) -> c_void_p:
        """Call a function whose last argument receives a handle, and return the handle."""
        handle = c_void_p()
        self.call(name, *arguments, ctypes.byref(handle))
        if not handle:
            raise ModelRefused(f"no profile: LiteRt{name} returned no handle")
        return handle

    def size(self, name: str, *arguments: Any) -> int:
        """Call a function whose last argument receives a size or an index; return the number."""
        size = c_size_t()
        self.call(name, *arguments, ctypes.byref(size))
        return size.value

    def owned(self, life: ExitStack, kind: str, name: str, *arguments: Any) -> c_void_p:
        """Create an object and return its handle; the object is destroyed when `life` ends."""
        handle = self.handle(name, *arguments)
        destroy = getattr(self._functions, f"LiteRtDestroy{kind}")
        destroy.restype = None
        life.callback(destroy, handle)
        return handle

    def add_text(self, options: c_void_p, identifier: bytes, text: bytes) -> None:
        """Attach options as a TOML text, which is copied; the library frees the copy."""
        copy, free = c_void_p(self._c.strdup(text)), ctypes.cast(self._c.free, c_void_p)
        handle = self.handle("CreateOpaqueOptions", identifier, copy, free)
        self.call("AddOpaqueOptions", options, handle)


def check_version(version: str) -> None:
    """Check that a version of ai-edge-litert was tested.

    Raises:
        ModelRefused: this version of ai-edge-litert was not tested.
    """
    first, last = TRIED_VERSIONS
    numbers = tuple(int(part) for part in version.split(".") if part.isdecimal())
    if not first <= numbers or numbers[: len(last)] > last:
        text = f"{'.'.join(map(str, first))} to {'.'.join(map(str, last))}"
        raise ModelRefused(f"LiteRT's profiler is supported in versions {text}, found {version}")
