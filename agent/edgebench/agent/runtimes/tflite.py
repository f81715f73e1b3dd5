"""TensorFlow Lite interpreters: tflite-runtime, and its successor ai-edge-litert.

Both have the same `Interpreter` class, so one driver serves both; what differs is data.
LiteRT's newer `CompiledModel` is not used: it holds Python's global lock for a whole inference.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from edgebench.agent.runtimes.text import one_line
from edgebench.protocol.errors import ModelRefused, RuntimeUnavailable
from edgebench.protocol.record import TensorSpec
from edgebench.protocol.runtime import LoadOptions, Missing, Usable

if TYPE_CHECKING:
    from edgebench.protocol.runtime import Tensor

NO_DELEGATE = "none"
XNNPACK = "xnnpack"
_PRECISIONS = {"int8": "int8", "uint8": "uint8", "int16": "int16", "float16": "fp16"}
_OLD_TFLITE_PYTHON = (3, 12)
"""tflite-runtime has no wheel for this Python and later ones."""


class InterpreterRuntime:
    """A library with a TensorFlow Lite `Interpreter`."""

    formats = ("tflite",)

    def __init__(self, *, name: str, package: str, module: str) -> None:
        self.name = name
        self._package = package
        self._module = module
        self._install = f"pip install 'edgebench[{name}]'"

    def probe(self) -> Usable | Missing:
        """Import the library and see whether its interpreter can be built at all."""
        try:
            found = version(self._package)
            library = importlib.import_module(self._module)
        except (ImportError, PackageNotFoundError):
            return Missing(self._why_absent(), self._install_line())
        except Exception as exc:  # a broken binary may raise anything
            return Missing(f"{self._package} fails to import: {one_line(exc)}", self._install)
        try:
            library.Interpreter(model_content=b"not a model")
        except ValueError:
            return Usable(found, (XNNPACK, NO_DELEGATE))  # the expected refusal: it works
        except Exception:  # seen: SystemError, AttributeError about _ARRAY_API
            return Missing(self._why_broken(found), self._install)
        return Usable(found, (XNNPACK, NO_DELEGATE))

    def import_library(self) -> str:
        """Import the library; its version."""
        try:
            importlib.import_module(self._module)
            return version(self._package)
        except (ImportError, PackageNotFoundError) as exc:
            raise RuntimeUnavailable(self._why_absent()) from exc

    def load(self, path: str, options: LoadOptions) -> InterpreterModel:
        """Build the interpreter and allocate its tensors."""
        library = importlib.import_module(self._module)
        arguments = _delegate_arguments(library, options.delegate, Path(path).parent)
        try:
            interpreter = library.Interpreter(
                model_path=path, num_threads=options.threads, **arguments
            )
            interpreter.allocate_tensors()
            return InterpreterModel(interpreter)
        except (ValueError, RuntimeError, UnicodeDecodeError) as exc:
            # LiteRT raises a RuntimeError without a text when an allocation fails.
            text = one_line(exc) or "the library gave no reason; it may be out of memory"
            raise ModelRefused(f"{self.name} refused the model: {text}") from exc

    def _install_line(self) -> str | None:
        return None if self._is_too_new_python() else self._install

    def _why_absent(self) -> str:
        if self._is_too_new_python():
            python = ".".join(map(str, sys.version_info[:2]))
            return f"{self._package} has no wheel for Python {python}; litert runs the same files"
        return f"{self._package} is not installed"

    def _why_broken(self, found: str) -> str:
        numpy = version("numpy")
        return f"{self._package} {found} needs numpy<2, found {numpy}"

    def _is_too_new_python(self) -> bool:
        return self.name == "tflite" and sys.version_info >= _OLD_TFLITE_PYTHON


class TfliteRuntime(InterpreterRuntime):
    """tflite-runtime, frozen at 2.14."""

    def __init__(self) -> None:
        super().__init__(
            name="tflite", package="tflite-runtime", module="tflite_runtime.interpreter"
        )


class LiteRt(InterpreterRuntime):
    """ai-edge-litert, the library that Google maintains."""

    def __init__(self) -> None:
        super().__init__(
            name="litert", package="ai-edge-litert", module="ai_edge_litert.interpreter"
        )


class InterpreterModel:
    """A model in an interpreter."""

    def __init__(self, interpreter: Any) -> None:
        self._interpreter = interpreter
        self._input_details = interpreter.get_input_details()
        self._output_details = interpreter.get_output_details()
        self.inputs = tuple(_tensor_spec(detail) for detail in self._input_details)
        self.outputs = tuple(_tensor_spec(detail) for detail in self._output_details)
        self.delegates_used = _delegates_used(interpreter)
        self.precision = _precision(self._input_details, interpreter)

    def set_inputs(self, values: Sequence[Tensor]) -> None:
        """Copy the inputs into the interpreter."""
        for detail, value in zip(self._input_details, values, strict=True):
            self._interpreter.set_tensor(detail["index"], value)

    def invoker(self) -> Callable[[], Any]:
        """The native call itself: the wrapper around it costs 120 ns of checks a query."""
        invoke: Callable[[], Any] = self._interpreter._interpreter.Invoke
        return invoke

    def read_outputs(self) -> list[Tensor]:
        """Copies of the outputs."""
        return [self._interpreter.get_tensor(detail["index"]) for detail in self._output_details]

    def close(self) -> None:
        """Drop the interpreter."""
        del self._interpreter


def _delegate_arguments(library: Any, delegate: str | None, models: Path) -> dict[str, Any]:
    if delegate is None or delegate == XNNPACK:
        return {}
    if delegate == NO_DELEGATE:
        kind = library.OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES
        return {"experimental_op_resolver_type": kind}
    if "/" not in delegate:
        raise ModelRefused(
            f"unknown delegate {delegate!r}: {XNNPACK}, {NO_DELEGATE}, or the path of a library"
        )
    if Path(delegate).resolve().is_relative_to(models.resolve()):
        # Else a host could push a library as a "model" and have it run.
        raise ModelRefused(f"a delegate cannot be a file that was sent here: {delegate}")
    try:
        return {"experimental_delegates": [library.load_delegate(delegate)]}
    except (ValueError, OSError) as exc:
        raise ModelRefused(f"delegate not loaded: {one_line(exc)}: {delegate}") from exc


def _delegates_used(interpreter: Any) -> tuple[str, ...]:
    # XNNPACK is dropped without a word where it does not like the CPU: look for its operator.
    names = {str(op.get("op_name", "")) for op in interpreter._get_ops_details()}
    return (XNNPACK,) if "DELEGATE" in names else ()


def _precision(inputs: Sequence[Any], interpreter: Any) -> str | None:
    kinds = {str(detail["dtype"].__name__) for detail in inputs}
    for kind, precision in _PRECISIONS.items():
        if kind in kinds:
            return precision
    if "float32" not in kinds:
        return None
    details = interpreter.get_tensor_details()
    is_weight_int8 = any(
        detail["dtype"].__name__ == "int8" and len(detail["shape"]) > 1 for detail in details
    )
    return "int8-dynamic" if is_weight_int8 else "fp32"


def _tensor_spec(detail: Any) -> TensorSpec:
    shape = tuple(int(size) for size in detail["shape"])
    return TensorSpec(str(detail["name"]), shape, str(detail["dtype"].__name__))
