"""A model in an ONNX Runtime session."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from edgebench.agent.runtimes.onnx_calls import BoundCall, FedCall
from edgebench.agent.runtimes.onnx_file import OnnxFacts
from edgebench.agent.runtimes.onnx_profile import affordable_run_count, read_profile
from edgebench.agent.runtimes.onnx_values import TENSOR, as_tensor
from edgebench.agent.runtimes.shapes import Dimension, Shape, open_dimension, resolve_shapes
from edgebench.protocol.errors import ModelRefused
from edgebench.protocol.record import OperatorPlacement, OperatorTime, TensorSpec
from edgebench.protocol.runtime import LoadOptions

if TYPE_CHECKING:
    from edgebench.protocol.runtime import Tensor

PROVIDER_SUFFIX = "ExecutionProvider"
_DTYPES = {
    "tensor(float)": "float32",
    "tensor(double)": "float64",
    "tensor(float16)": "float16",
    "tensor(bool)": "bool",
    "tensor(string)": "object",
}


class OnnxModel:
    """A model in a session."""

    def __init__(self, library: Any, session: Any, facts: OnnxFacts, options: LoadOptions) -> None:
        self._session = session
        self._is_profiled = options.is_profiled
        self.inputs = _input_specs(session.get_inputs(), options.shapes)
        self.outputs = tuple(_output_spec(arg) for arg in session.get_outputs())
        self.precision = facts.precision
        self.quantized = facts.quantized
        self._call = self._make_call(library)

    @property
    def delegates_used(self) -> tuple[str, ...]:
        """Execution providers that run an operator, or all providers if this is not reported."""
        present = map(short_provider, self._session.get_providers())
        busy = {place for place, _ in _assigned(self._session)}
        return tuple(name for name in present if name in busy or not busy)

    def set_inputs(self, values: Sequence[Tensor]) -> None:
        """Copy the inputs."""
        self._call.set_inputs(values)

    def prepare(self, samples: Sequence[Sequence[Tensor]]) -> list[Callable[[], Any]]:
        """For each sample, a function that copies the sample into the bound tensors."""
        return self._call.prepare(samples)

    def invoker(self) -> Callable[[], Any]:
        """The call that runs an inference, as `BoundCall` or `FedCall` returns it."""
        return self._call.invoker()

    def reader(self) -> Callable[[], Any]:
        """The call that copies the outputs, as `BoundCall` or `FedCall` returns it."""
        return self._call.reader()

    def read_outputs(self) -> list[Tensor]:
        """Copies of the outputs; lists and dictionaries are flattened to a single dimension."""
        return [as_tensor(value) for value in self._call.reader()()]

    def reset(self) -> None:
        """Do nothing, because a session keeps no state between two runs."""

    def placement(self) -> tuple[OperatorPlacement, ...]:
        """Counts of operators by provider, before operators are fused; includes inner graphs."""
        return tuple(
            OperatorPlacement(*kind, count)
            for kind, count in sorted(Counter(_assigned(self._session)).items())
        )

    def profile(self, run_count: int) -> tuple[OperatorTime, ...]:
        """Operator times from the session's profiler.

        Fewer than `run_count` runs are profiled if the profiler's file would otherwise be too
        large.
        """
        if not self._is_profiled:
            raise ModelRefused("the session was created without profiling")
        self._is_profiled = False
        operator_count = sum(placed.count for placed in self.placement())
        count = affordable_run_count(run_count, operator_count)
        invoke = self._call.invoker()
        for _ in range(count):
            invoke()
        return read_profile(self._session.end_profiling(), count)

    def arena_bytes(self) -> int | None:
        """Return None: the arena's size is known only in events of the session's profiler."""
        return None

    def close(self) -> None:
        """Release the session, and delete the file of a profile that was not read."""
        if self._is_profiled:
            Path(self._session.end_profiling()).unlink(missing_ok=True)
        del self._call, self._session

    def _make_call(self, library: Any) -> BoundCall | FedCall:
        inputs = [spec.name for spec in self.inputs]
        if any(spec.dtype == "object" for spec in (*self.inputs, *self.outputs)):
            return FedCall(self._session, inputs=inputs)
        return BoundCall(library, self._session, inputs=inputs, outputs=self.outputs)


def short_provider(provider: str) -> str:
    """Name of an execution provider in the form for `--delegate`, such as cpu or cuda."""
    return provider.removesuffix(PROVIDER_SUFFIX).lower()


def _assigned(session: Any) -> list[tuple[str, str]]:
    """Provider and type of each operator; empty if the library does not report them."""
    try:
        parts = session.get_provider_graph_assignment_info()
    except Exception:  # too old to have it, or an error of its own type
        return []
    nodes = [(part, node) for part in parts for node in part.get_nodes()]
    return [(short_provider(part.ep_name), str(node.op_type)) for part, node in nodes]


def _input_specs(args: Sequence[Any], wanted: Mapping[str, Shape]) -> tuple[TensorSpec, ...]:
    declared: dict[str, list[Dimension]] = {
        str(arg.name): [
            size if isinstance(size, int) else size or open_dimension(str(arg.name), number)
            for number, size in enumerate(arg.shape)
        ]
        for arg in args
    }
    shapes = resolve_shapes(declared, wanted)
    return tuple(
        replace(
            _tensor_spec(arg, shapes[str(arg.name)]),
            open_axes=tuple(
                axis for axis, size in enumerate(arg.shape) if not isinstance(size, int)
            ),
        )
        for arg in args
    )


def _output_spec(arg: Any) -> TensorSpec:
    if not str(arg.type).startswith(TENSOR):
        return _tensor_spec(arg, (-1,))
    return _tensor_spec(arg, tuple(size if isinstance(size, int) else -1 for size in arg.shape))


def _tensor_spec(arg: Any, shape: Shape) -> TensorSpec:
    kind = str(arg.type)
    dtype = _DTYPES.get(kind, kind.removeprefix("tensor(").removesuffix(")"))
    return TensorSpec(str(arg.name), shape, dtype)
