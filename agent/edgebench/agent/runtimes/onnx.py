"""onnxruntime."""

from __future__ import annotations

import importlib
import os
from collections import Counter
from collections.abc import Callable, Sequence
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any

from edgebench.agent.runtimes.onnx_calls import BoundCall, FedCall
from edgebench.agent.runtimes.onnx_file import inspect_onnx
from edgebench.agent.runtimes.text import one_line
from edgebench.protocol.errors import ModelRefused, RuntimeUnavailable
from edgebench.protocol.record import TensorSpec
from edgebench.protocol.runtime import LoadOptions, Missing, OperatorPlacement, OperatorTime, Usable

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

_RECORD_ASSIGNMENT = "session.record_ep_graph_assignment_info"
"""Keep which provider got which operator; costs no time that could be measured (20000 operators:
390 ms with and without). Versions that do not know an entry ignore it.
Source: onnxruntime_session_options_config_keys.h."""

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
        settings = _settings(library, options)
        providers = _providers(library, None if options.is_reference else options.delegate)
        try:
            session = library.InferenceSession(path, settings, providers=providers)
        except Exception as exc:  # onnxruntime's exceptions share no base class
            raise ModelRefused(f"onnx refused the model: {one_line(exc)}") from exc
        return OnnxModel(library, session, facts.precision)


class OnnxModel:
    """A model in a session."""

    def __init__(self, library: Any, session: Any, precision: str | None) -> None:
        self._session = session
        self.inputs = tuple(_tensor_spec(arg, unknown=1) for arg in session.get_inputs())
        self.outputs = tuple(_tensor_spec(arg, unknown=-1) for arg in session.get_outputs())
        self.precision = precision
        self._call = self._make_call(library)

    @property
    def delegates_used(self) -> tuple[str, ...]:
        """The providers that have an operator; all that are there where the library is too old."""
        present = map(_short, self._session.get_providers())
        busy = {place for place, _ in _assigned(self._session)}
        return tuple(name for name in present if name in busy or not busy)

    def set_inputs(self, values: Sequence[Tensor]) -> None:
        """Copy the inputs."""
        self._call.set_inputs(values)

    def prepare(self, samples: Sequence[Sequence[Tensor]]) -> list[Callable[[], Any]]:
        """Callables that copy a sample into the bound tensors."""
        return self._call.prepare(samples)

    def invoker(self) -> Callable[[], Any]:
        """The native call on bound values."""
        return self._call.invoker()

    def reader(self) -> Callable[[], Any]:
        """The native call that copies the outputs."""
        return self._call.reader()

    def read_outputs(self) -> list[Tensor]:
        """Copies of the outputs."""
        return list(self._call.reader()())

    def reset(self) -> None:
        """A session keeps no state between two runs."""

    def placement(self) -> tuple[OperatorPlacement, ...]:
        """As the session assigned them, before it fused kernels; graphs inside of others too."""
        return tuple(
            OperatorPlacement(*kind, count)
            for kind, count in sorted(Counter(_assigned(self._session)).items())
        )

    def profile(self, run_count: int) -> tuple[OperatorTime, ...]:
        """Not profiled yet."""
        raise ModelRefused(f"this runtime has no profiler for {run_count} runs")

    def arena_bytes(self) -> int | None:
        """The session does not tell."""
        return None

    def close(self) -> None:
        """Drop the session."""
        del self._call, self._session

    def _make_call(self, library: Any) -> BoundCall | FedCall:
        inputs = [spec.name for spec in self.inputs]
        if any(spec.dtype == "object" for spec in (*self.inputs, *self.outputs)):
            return FedCall(self._session, inputs=inputs)
        return BoundCall(library, self._session, inputs=inputs, outputs=self.outputs)


def _settings(library: Any, options: LoadOptions) -> Any:
    settings = library.SessionOptions()
    settings.inter_op_num_threads = 1
    settings.log_severity_level = _LOG_ERRORS_ONLY
    settings.intra_op_num_threads = 1 if options.is_reference else options.threads
    settings.add_session_config_entry(_RECORD_ASSIGNMENT, "1")
    if options.is_reference:
        settings.graph_optimization_level = library.GraphOptimizationLevel.ORT_DISABLE_ALL
    return settings


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


def _assigned(session: Any) -> list[tuple[str, str]]:
    """Place and kind of each operator; empty where the library does not tell."""
    try:
        parts = session.get_provider_graph_assignment_info()
    except Exception:  # too old to have it, or an error of a kind of its own
        return []
    return [
        (_short(part.ep_name), str(node.op_type)) for part in parts for node in part.get_nodes()
    ]


def _short(provider: str) -> str:
    return provider.removesuffix(_SUFFIX).lower()


def _tensor_spec(arg: Any, *, unknown: int) -> TensorSpec:
    shape = tuple(size if isinstance(size, int) else unknown for size in arg.shape)
    kind = str(arg.type)
    dtype = _DTYPES.get(kind, kind.removeprefix("tensor(").removesuffix(")"))
    return TensorSpec(str(arg.name), shape, dtype)
