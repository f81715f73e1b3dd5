"""onnxruntime."""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable, Sequence
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any

from edgebench.agent.runtimes.onnx_file import inspect_onnx
from edgebench.agent.runtimes.text import one_line
from edgebench.protocol.errors import ModelRefused, RuntimeUnavailable
from edgebench.protocol.record import TensorSpec
from edgebench.protocol.runtime import LoadOptions, Missing, Usable

if TYPE_CHECKING:
    from edgebench.protocol.runtime import Tensor

INSTALL = "pip install 'edgebench[onnx]'"
_SUFFIX = "ExecutionProvider"
_DTYPES = {
    "tensor(float)": "float32",
    "tensor(double)": "float64",
    "tensor(float16)": "float16",
    "tensor(bool)": "bool",
    "tensor(string)": "object",
}
_LOG_ERRORS_ONLY = 3
"""Old files print hundreds of warning lines. Source: onnxruntime, `OrtLoggingLevel`."""

# From 1.29 on, the library uploads which models it runs and keeps an id of the device, unless it
# is told not to before its import. Source: microsoft/onnxruntime#27379.
os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")


class OnnxRuntime:
    """ONNX Runtime, one session a model."""

    name = "onnx"
    formats = ("onnx",)

    def probe(self) -> Usable | Missing:
        """Import the library."""
        try:
            found = version("onnxruntime")
            library = importlib.import_module("onnxruntime")
            return Usable(found, tuple(map(_short, library.get_available_providers())))
        except (ImportError, PackageNotFoundError):
            return Missing("onnxruntime is not installed", INSTALL)
        except Exception as exc:  # a broken binary may raise anything
            return Missing(f"onnxruntime fails to import: {one_line(exc)}", INSTALL)

    def import_library(self) -> str:
        """Import the library; its version."""
        try:
            importlib.import_module("onnxruntime")
            return version("onnxruntime")
        except (ImportError, PackageNotFoundError) as exc:
            raise RuntimeUnavailable("onnxruntime is not installed") from exc

    def load(self, path: str, options: LoadOptions) -> OnnxModel:
        """Build a session."""
        facts = inspect_onnx(path)
        library = importlib.import_module("onnxruntime")
        settings = library.SessionOptions()
        settings.intra_op_num_threads = options.threads
        settings.inter_op_num_threads = 1
        settings.log_severity_level = _LOG_ERRORS_ONLY
        providers = _providers(library, options.delegate)
        try:
            session = library.InferenceSession(path, settings, providers=providers)
        except Exception as exc:  # onnxruntime's exceptions share no base class
            raise ModelRefused(f"onnx refused the model: {one_line(exc)}") from exc
        return OnnxModel(library, session, facts.precision)


class OnnxModel:
    """A model in a session."""

    def __init__(self, library: Any, session: Any, precision: str | None) -> None:
        self._library = library
        self._session = session
        self._binding = session.io_binding()
        self._values: list[Any] = []
        self._feed: dict[str, Any] | None = None
        self.inputs = tuple(_tensor_spec(arg, unknown=1) for arg in session.get_inputs())
        self.outputs = tuple(_tensor_spec(arg, unknown=-1) for arg in session.get_outputs())
        self.delegates_used = tuple(map(_short, session.get_providers()))
        self.precision = precision

    def set_inputs(self, values: Sequence[Tensor]) -> None:
        """Bind the inputs; they are read in place by every inference."""
        names = [spec.name for spec in self.inputs]
        if any(spec.dtype == "object" for spec in (*self.inputs, *self.outputs)):
            self._feed = dict(zip(names, values, strict=True))  # strings cannot be bound
            return
        make = self._library.OrtValue.ortvalue_from_numpy
        self._values = [make(value) for value in values]
        for name, value in zip(names, self._values, strict=True):
            self._binding.bind_ortvalue_input(name, value)
        for spec in self.outputs:
            self._binding.bind_output(spec.name)

    def invoker(self) -> Callable[[], Any]:
        """The native call on bound values: `session.run` costs 3 to 7 µs more a query."""
        if self._feed is not None:
            feed, session = self._feed, self._session
            return lambda: session.run(None, feed)
        native, binding = self._session._sess, self._binding._iobinding
        return lambda: native.run_with_iobinding(binding, None)

    def read_outputs(self) -> list[Tensor]:
        """Copies of the outputs."""
        if self._feed is not None:
            outputs: list[Tensor] = self._session.run(None, self._feed)
            return outputs
        return list(self._binding.copy_outputs_to_cpu())

    def close(self) -> None:
        """Drop the session."""
        del self._binding, self._session


def _providers(library: Any, delegate: str | None) -> list[str]:
    available = {_short(name): name for name in library.get_available_providers()}
    if delegate is None:
        return [available["cpu"]]
    if delegate.lower().removesuffix(_SUFFIX.lower()) not in available:
        raise ModelRefused(
            f"execution provider {delegate!r} is not in this onnxruntime: "
            f"there are {', '.join(available)}"
        )
    wanted = available[delegate.lower().removesuffix(_SUFFIX.lower())]
    return list(dict.fromkeys([wanted, available["cpu"]]))


def _short(provider: str) -> str:
    return provider.removesuffix(_SUFFIX).lower()


def _tensor_spec(arg: Any, *, unknown: int) -> TensorSpec:
    shape = tuple(size if isinstance(size, int) else unknown for size in arg.shape)
    kind = str(arg.type)
    dtype = _DTYPES.get(kind, kind.removeprefix("tensor(").removesuffix(")"))
    return TensorSpec(str(arg.name), shape, dtype)
