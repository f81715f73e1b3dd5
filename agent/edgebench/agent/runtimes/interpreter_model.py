"""A model in a TensorFlow Lite `Interpreter`, a class that tflite-runtime and LiteRT both have."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, TypeAlias

from edgebench.agent.runtimes.interpreter_graph import Graph, signature_names
from edgebench.agent.runtimes.interpreter_placement import place, read_nodes
from edgebench.agent.runtimes.litert_profile import ModelTensors
from edgebench.agent.runtimes.tflite_file import TfliteFacts, inspect_tflite
from edgebench.protocol.errors import ModelRefused
from edgebench.protocol.record import (
    OperatorPlacement,
    OperatorTime,
    QuantizedOperands,
    TensorSpec,
)

if TYPE_CHECKING:
    from edgebench.protocol.runtime import Tensor

Profiler: TypeAlias = Callable[[ModelTensors, int], tuple[OperatorTime, ...]]


class InterpreterModel:
    """A model in an interpreter.

    The timed calls go directly to the native object behind the library's class, because the checks
    of that class take 120 ns per call. With a model of 64 input bytes, `SetTensor` takes 240 ns and
    `GetTensor` 270 ns. Writing through a view of the tensor's memory would take 55 ns. But the
    interpreter moves the memory when a tensor of unknown size grows during an inference, and this
    move invalidates all views.
    """

    def __init__(
        self,
        interpreter: Any,
        graph: Graph,
        path: str,
        delegate_nodes: Mapping[int, str],
        profiler: Profiler,
    ) -> None:
        """Wrap an interpreter with allocated tensors.

        Args:
            interpreter: The library's `Interpreter`.
            graph: The graph of the file that is run.
            path: The model file.
            delegate_nodes: Maps the index of each node that replaces a delegated part of the graph
                to the name of the delegate.
            profiler: Function that times the operators of the model file; its arguments are the
                tensors and the number of runs.
        """
        self._interpreter = interpreter
        self._graph = graph
        self._path = path
        self._profiler = profiler
        self._delegate_nodes = delegate_nodes
        self._input_details = graph.read_inputs(interpreter)
        self._output_details = graph.read_outputs(interpreter)
        self.inputs = tuple(_input_spec(detail) for detail in self._input_details)
        self.outputs = tuple(_tensor_spec(detail) for detail in self._output_details)
        self.delegates_used = tuple(dict.fromkeys(delegate_nodes.values()))

    @property
    def precision(self) -> str | None:
        """Precision, from the file's operators; read at first use, because the load is timed."""
        return self._facts.precision

    @property
    def quantized(self) -> tuple[QuantizedOperands, ...] | None:
        """Types that the file's quantised operators multiply; None if it has no such operators."""
        return self._facts.quantized

    @cached_property
    def _facts(self) -> TfliteFacts:
        others = self._graph.graphs_of_others(self._interpreter)
        return inspect_tflite(self._path, without=others)

    @property
    def signature(self) -> str | None:
        """Signature of the graph that runs."""
        return self._graph.name(self._interpreter)

    @property
    def signatures(self) -> tuple[str, ...]:
        """All signatures of the file."""
        return signature_names(self._interpreter)

    def set_inputs(self, values: Sequence[Tensor]) -> None:
        """Copy the inputs into the interpreter."""
        for detail, value in zip(self._input_details, values, strict=True):
            self._interpreter._interpreter.SetTensor(detail["index"], value, *self._graph.argument)

    def prepare(self, samples: Sequence[Sequence[Tensor]]) -> list[Callable[[], Any]]:
        """For each sample, a native call that sets the input, or a loop over several inputs."""
        return [self._setter(sample) for sample in samples]

    def invoker(self) -> Callable[[], Any]:
        """The native call that runs an inference."""
        invoke: Callable[..., Any] = self._interpreter._interpreter.Invoke
        return partial(invoke, *self._graph.argument) if self._graph.argument else invoke

    def reader(self) -> Callable[[], Any]:
        """The native call that copies the output, or a loop over several outputs."""
        get = self._interpreter._interpreter.GetTensor
        indices = [detail["index"] for detail in self._output_details]
        graph = self._graph.argument
        if len(indices) == 1:
            return partial(get, indices[0], *graph)
        if graph:
            return lambda: [get(index, *graph) for index in indices]
        return lambda: [get(index) for index in indices]

    def read_outputs(self) -> list[Tensor]:
        """Copies of the outputs."""
        return list(self._values(self._output_details).values())

    def reset(self) -> None:
        """Set the variable tensors to zero; random operators keep their state."""
        self._interpreter.reset_all_variables()

    def placement(self) -> tuple[OperatorPlacement, ...]:
        """Counts of operators by the place where they run; empty unless the first graph runs."""
        if not self._graph.is_first:
            return ()
        nodes = read_nodes(self._interpreter._interpreter)
        wanted = [int(detail["index"]) for detail in self._output_details]
        return place(nodes, self._delegate_nodes, wanted)

    def profile(self, run_count: int) -> tuple[OperatorTime, ...]:
        """Times of the operators, from the library's profiler; the interpreter has no profiler."""
        if not self._graph.is_first:
            raise ModelRefused(
                "only the first graph of a file is profiled, but another signature was selected"
            )
        inputs, outputs = self._values(self._input_details), self._values(self._output_details)
        return self._profiler(ModelTensors(inputs, outputs), run_count)

    def arena_bytes(self) -> int | None:
        """Return None, because the interpreter does not report the size of its arena."""
        return None

    def close(self) -> None:
        """Release the interpreter."""
        del self._interpreter

    def _values(self, details: Sequence[Any]) -> dict[int, Tensor]:
        indices = [int(detail["index"]) for detail in details]
        get = self._interpreter.get_tensor
        return {index: get(index, *self._graph.argument) for index in indices}

    def _setter(self, sample: Sequence[Tensor]) -> Callable[[], Any]:
        set_tensor = self._interpreter._interpreter.SetTensor
        indices = [detail["index"] for detail in self._input_details]
        # A tensor that is not contiguous would be gathered again in each timed call.
        values = [value if value.flags.c_contiguous else value.copy() for value in sample]
        pairs = [(*pair, *self._graph.argument) for pair in zip(indices, values, strict=True)]
        if len(pairs) == 1:
            return partial(set_tensor, *pairs[0])

        def set_each() -> None:
            for pair in pairs:
                set_tensor(*pair)

        return set_each


def _input_spec(detail: Any) -> TensorSpec:
    declared = enumerate(detail["shape_signature"])
    return replace(
        _tensor_spec(detail), open_axes=tuple(axis for axis, size in declared if size < 0)
    )


def _tensor_spec(detail: Any) -> TensorSpec:
    shape = tuple(int(size) for size in detail["shape"])
    scale, zero_point = detail["quantization"]
    is_quantized = scale > 0  # the scale of real values is 0
    return TensorSpec(
        name=str(detail["name"]),
        shape=shape,
        dtype=str(detail["dtype"].__name__),
        scale=float(scale) if is_quantized else None,
        zero_point=int(zero_point) if is_quantized else None,
    )
