"""Drivers of TensorFlow Lite interpreters: tflite-runtime, and its successor ai-edge-litert.

Both libraries have the same `Interpreter` class, so the drivers share a base class and differ only
in names and in the profiler. LiteRT's newer `CompiledModel` is not used, because it holds Python's
global interpreter lock during a whole inference.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from edgebench.agent.runtimes.absent import why_absent
from edgebench.agent.runtimes.interpreter_graph import Graph
from edgebench.agent.runtimes.interpreter_model import InterpreterModel, Profiler
from edgebench.agent.runtimes.library import has_module, library_facts, library_version
from edgebench.agent.runtimes.litert_profile import ModelTensors, profile_model
from edgebench.agent.runtimes.shapes import Dimension, Shape, open_dimension, resolve_shapes
from edgebench.agent.runtimes.text import library_line
from edgebench.agent.runtimes.trial import is_for_old_numpy, needs_old_numpy
from edgebench.protocol.distributions import install_command
from edgebench.protocol.errors import DelegateRefused, ModelRefused, RuntimeUnavailable
from edgebench.protocol.record import OperatorTime
from edgebench.protocol.runtime import LoadOptions, MissingRuntime, UsableRuntime

NO_DELEGATE = "none"
XNNPACK = "xnnpack"
DELEGATE_NODE = "DELEGATE"
"""Name of the node that runs in place of the nodes taken over by a delegate."""
_OLD_TFLITE_PYTHON = (3, 12)
"""First version of Python for which tflite-runtime has no wheel."""


class InterpreterRuntime:
    """Driver of a library with a TensorFlow Lite `Interpreter`."""

    formats = ("tflite",)
    no_profiler: str | None = "tflite-runtime has no profiler; litert profiles the same files"

    def __init__(self, *, name: str, package: str, module: str) -> None:
        self.name = name
        self._package = package
        self.module = module
        self._install = install_command(name)

    def probe(self) -> UsableRuntime | MissingRuntime:
        """Import the library."""
        try:
            importlib.import_module(self.module)
            facts = library_facts(self.module)
        except (ImportError, OSError) as exc:
            return self._why_absent(exc)
        except Exception as exc:  # a broken binary may raise anything
            return MissingRuntime(f"{self._package} fails to import: {library_line(exc)}")
        delegates = (XNNPACK, NO_DELEGATE)
        return UsableRuntime(facts.version, delegates, facts.distribution, facts.path)

    def import_library(self) -> str:
        """Import the library and return its version."""
        try:
            importlib.import_module(self.module)
            return library_version(self.module)
        except (ImportError, OSError) as exc:
            raise RuntimeUnavailable(self._why_absent(exc).reason) from exc

    def load(self, path: str, options: LoadOptions) -> InterpreterModel:
        """Build the interpreter and allocate its tensors."""
        library = importlib.import_module(self.module)
        arguments = _arguments(library, path, options)
        try:
            interpreter = library.Interpreter(model_path=path, **arguments)
            graph = Graph.of(interpreter, options.signature)
            if options.shapes:
                _resize(interpreter, graph, options.shapes)
            delegated = _take_over(interpreter, graph, options)
            profiler = self.profiler(path, options)
            return InterpreterModel(interpreter, graph, path, delegated, profiler)
        except (ValueError, RuntimeError, UnicodeDecodeError) as exc:
            # LiteRT raises a RuntimeError without a text when an allocation fails.
            text = library_line(exc) or "no reason given; memory may be exhausted"
            raise ModelRefused(f"{self.name} refused the model: {text}") from exc
        except SystemError as exc:
            if not is_for_old_numpy(exc):
                raise
            version = library_version(self.module)
            raise RuntimeUnavailable(needs_old_numpy(f"{self._package} {version}")) from exc

    def profiler(self, path: str, options: LoadOptions) -> Profiler:
        """A function that profiles this model file; by default, it raises `ModelRefused`."""
        del path, options

        def refuse(tensors: ModelTensors, run_count: int) -> tuple[OperatorTime, ...]:
            del tensors, run_count
            raise ModelRefused(self.no_profiler or "no profiler")

        return refuse

    def _why_absent(self, error: ImportError | OSError) -> MissingRuntime:
        is_too_new = sys.version_info >= _OLD_TFLITE_PYTHON
        if self.name == "tflite" and is_too_new and not has_module(self.module):
            python = ".".join(map(str, sys.version_info[:2]))
            reason = f"{self._package} has no wheel for Python {python}"
            return MissingRuntime(f"{reason}; litert runs the same files", None)
        return why_absent(self._package, error, self._install, module=self.module)


class TfliteRuntime(InterpreterRuntime):
    """Driver of tflite-runtime, whose last version is 2.14."""

    def __init__(self) -> None:
        super().__init__(
            name="tflite", package="tflite-runtime", module="tflite_runtime.interpreter"
        )


class LiteRt(InterpreterRuntime):
    """Driver of ai-edge-litert, the library that Google maintains."""

    no_profiler = None

    def __init__(self) -> None:
        super().__init__(
            name="litert", package="ai-edge-litert", module="ai_edge_litert.interpreter"
        )

    def profiler(self, path: str, options: LoadOptions) -> Profiler:
        """A function that profiles this model file with LiteRT, on the requested kernels."""

        def profile(tensors: ModelTensors, run_count: int) -> tuple[OperatorTime, ...]:
            if not options.is_profiled:
                raise ModelRefused("the model was loaded without a profiler")
            return profile_model(
                tensors,
                run_count,
                path=path,
                version=library_version(self.module),
                threads=options.threads,
                kernels=_kernels(options),
                delegate=XNNPACK,
            )

        return profile


def _kernels(options: LoadOptions) -> str:
    """Name of the kernels for LiteRT's profiler."""
    if options.is_reference:
        # The profiler's mode `reference` times the optimised kernels: 5 ms for a model of 46 ms.
        raise ModelRefused("litert does not profile reference kernels")
    if options.delegate in (None, XNNPACK):
        return "xnnpack"
    if options.delegate == NO_DELEGATE:
        return "builtin"
    raise DelegateRefused(
        f"litert profiles with delegate {XNNPACK} or {NO_DELEGATE}, not with {options.delegate}"
    )


def _arguments(library: Any, path: str, options: LoadOptions) -> dict[str, Any]:
    if options.is_reference:
        return {
            "num_threads": 1,
            "experimental_op_resolver_type": library.OpResolverType.BUILTIN_REF,
        }
    given = _delegate_arguments(library, options.delegate, Path(path).parent)
    return {"num_threads": options.threads, **given}


def _delegate_arguments(library: Any, delegate: str | None, models: Path) -> dict[str, Any]:
    if delegate is None or delegate == XNNPACK:
        return {}
    if delegate == NO_DELEGATE:
        kind = library.OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES
        return {"experimental_op_resolver_type": kind}
    if "/" not in delegate:
        raise DelegateRefused(
            f"unknown delegate {delegate!r}; expected {XNNPACK}, {NO_DELEGATE} or a library's path"
        )
    if Path(delegate).resolve().is_relative_to(models.resolve()):
        # Otherwise a host could send a library as a "model" and have it run.
        raise DelegateRefused(
            f"a delegate must be a library of the device, not an uploaded file: {delegate}"
        )
    try:
        return {"experimental_delegates": [library.load_delegate(delegate)]}
    except (ValueError, OSError) as exc:
        raise DelegateRefused(f"delegate not loaded: {library_line(exc)}: {delegate}") from exc


def _resize(interpreter: Any, graph: Graph, wanted: Mapping[str, Shape]) -> None:
    """Set the sizes of open dimensions."""
    details = graph.read_inputs(interpreter)
    declared: dict[str, list[Dimension]] = {
        str(detail["name"]): [
            int(size) if size >= 0 else open_dimension(str(detail["name"]), number)
            for number, size in enumerate(detail["shape_signature"])
        ]
        for detail in details
    }
    shapes = resolve_shapes(declared, wanted)
    for detail in details:
        if any(size < 0 for size in detail["shape_signature"]):
            graph.resize(interpreter, detail["index"], shapes[str(detail["name"])])


def _take_over(interpreter: Any, graph: Graph, options: LoadOptions) -> dict[int, str]:
    """Allocate the tensors; returns the nodes that delegates inserted, with the delegate's name.

    Only nodes of the first graph are listed; for another graph, the result is empty.

    A delegate from a file takes over its part when the interpreter is built. XNNPACK takes over its
    part when the tensors are allocated, and does nothing on a CPU that it does not support. Its
    DELEGATE nodes are therefore read after the allocation.
    """
    is_library = "/" in (options.delegate or "") and not options.is_reference
    first = _delegate_nodes(interpreter, options.delegate or "") if is_library else {}
    graph.allocate(interpreter)
    if not graph.is_first:
        return {}
    return _delegate_nodes(interpreter, XNNPACK) | first


def _delegate_nodes(interpreter: Any, name: str) -> dict[int, str]:
    """Indices of the nodes that replace delegated nodes, each mapped to the delegate's name."""
    native = interpreter._interpreter
    indices = range(native.NumNodes())
    return {index: name for index in indices if native.NodeName(index) == DELEGATE_NODE}
