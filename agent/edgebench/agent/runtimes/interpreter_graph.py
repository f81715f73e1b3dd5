"""A graph of a TensorFlow Lite file, which may contain several graphs with signatures.

Theory of operation. A .tflite file has a list of graphs. An interpreter runs the first graph. Each
other graph is the body of a loop or a branch, or has a signature: a name, with names of the inputs
and outputs. The last argument of the native interpreter's calls is the number of a graph. The
default is the first graph:

    Invoke(graph)  SetTensor(tensor, value, graph)  GetTensor(tensor, graph)  AllocateTensors(graph)

The library's `SignatureRunner` makes the same calls. It also looks up names in a dictionary, and
allocates the tensors before every inference. The `SignatureRunner` is not used here, so that a
signature is timed in the same way as a file with a single graph.

The default delegate takes over its part of every graph when the tensors of the first graph are
allocated. If only another graph is allocated, tflite-runtime does not pass that graph to the
delegate: the outputs are bit-identical to the outputs without a delegate. The first graph is
therefore always allocated as well.

Source: tensorflow/lite/python/interpreter.py; interpreter_wrapper.cc in the same directory.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from edgebench.agent.runtimes.shapes import Shape
from edgebench.protocol.errors import SignatureRefused
from edgebench.protocol.spec import MAX_SIGNATURE_CHARS

_FIRST = 0
MAX_SIGNATURES = 64
"""Maximum number of signatures of a file that are listed; language models with adapters have a
dozen."""


@dataclass(frozen=True, slots=True)
class Graph:
    """A graph of a model file."""

    number: int
    signature: str | None
    """Signature by which the graph was selected; None if it is the first graph."""

    @classmethod
    def of(cls, interpreter: Any, signature: str | None) -> Graph:
        """The graph of a signature; the first graph if no signature is given.

        Raises:
            SignatureRefused: the file has no such signature.
        """
        if signature is None:
            return cls(_FIRST, None)
        names = signature_names(interpreter)
        if signature not in names:
            choice = f"it has {', '.join(names)}" if names else "it has no signatures"
            raise SignatureRefused(f"the file has no signature {signature!r}: {choice}")
        return cls(_number_of(interpreter, signature), signature)

    @property
    def is_first(self) -> bool:
        """Whether this is the graph that an interpreter runs by default."""
        return self.number == _FIRST

    @property
    def argument(self) -> tuple[int, ...]:
        """Arguments that select this graph in native calls; empty for the first graph."""
        return () if self.is_first else (self.number,)

    def name(self, interpreter: Any) -> str | None:
        """Signature of this graph; None if it has no signature."""
        if self.signature is not None:
            return self.signature
        names = signature_names(interpreter)
        return next((name for name in names if _number_of(interpreter, name) == self.number), None)

    def graphs_of_others(self, interpreter: Any) -> set[int]:
        """Numbers of the graphs of other signatures."""
        numbers = {_number_of(interpreter, name) for name in signature_names(interpreter)}
        return numbers - {self.number}

    def read_inputs(self, interpreter: Any) -> Sequence[Any]:
        """The library's description of each input."""
        if self.is_first:
            return list(interpreter.get_input_details())
        return list(interpreter.get_signature_runner(self.signature).get_input_details().values())

    def read_outputs(self, interpreter: Any) -> Sequence[Any]:
        """The library's description of each output."""
        if self.is_first:
            return list(interpreter.get_output_details())
        return list(interpreter.get_signature_runner(self.signature).get_output_details().values())

    def resize(self, interpreter: Any, tensor: int, shape: Shape) -> None:
        """Set the shape of an input; only open dimensions may change."""
        if self.is_first:
            interpreter.resize_tensor_input(tensor, shape, strict=True)
            return
        import numpy as np  # only here: its time is part of the runtime's import

        sizes = np.array(shape, np.int32)
        interpreter._interpreter.ResizeInputTensor(tensor, sizes, True, self.number)

    def allocate(self, interpreter: Any) -> None:
        """Allocate the tensors of the first graph, then the tensors of this graph."""
        interpreter.allocate_tensors()
        if not self.is_first:
            interpreter._interpreter.AllocateTensors(self.number)


def signature_names(interpreter: Any) -> tuple[str, ...]:
    """Names of the signatures of a file, in the order in which the file lists them."""
    names = [str(name)[:MAX_SIGNATURE_CHARS] for name in interpreter.get_signature_list()]
    return tuple(names[:MAX_SIGNATURES])


def _number_of(interpreter: Any, signature: str) -> int:
    return int(interpreter._interpreter.GetSubgraphIndexFromSignature(signature))
