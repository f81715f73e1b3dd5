"""The interface that every inference runtime implements, on the device.

A driver is a file that implements `Runtime`. It imports its library inside its methods, never
at the top, so that an agent starts without it. The life cycle of a model is
`load → set_inputs → invoke… → outputs → close`; the timed loop calls nothing but the callables
that `prepare()`, `invoker()` and `reader()` return: copy a sample in, run, copy the outputs out.
Facts about the model (`placement`, `profile`, `arena_bytes`) are read outside the timed loop, and
never during the load. A fact that the runtime does not report is an empty tuple or None, never a
guess.

`edgebench-agent check-runtime` checks what the methods promise (docs/add-a-runtime.md).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from edgebench.protocol.record import OperatorPlacement, OperatorTime, QuantizedOperands, TensorSpec

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Tensor = NDArray[np.generic]


RUNTIME_PACKAGES = {
    "tflite": "tflite-runtime",
    "litert": "ai-edge-litert",
    "onnx": "onnxruntime",
}
"""Package of each built-in runtime, by the runtime's name; an extra of this name installs it."""
RUNTIME_MODULES = {
    "tflite": "tflite_runtime",
    "litert": "ai_edge_litert",
    "onnx": "onnxruntime",
}
"""Module of each built-in runtime; packages with other names may contain the same module."""


@dataclass(frozen=True, slots=True)
class UsableRuntime:
    """A runtime that works here."""

    version: str
    delegates: tuple[str, ...] = ()
    distribution: str | None = None
    """Package that contains its library; None if it has no package."""
    library: str | None = None
    """Directory of its library."""


@dataclass(frozen=True, slots=True)
class MissingRuntime:
    """A runtime that does not work here, with the reason and the command that installs it."""

    reason: str
    install: str | None = None


@dataclass(frozen=True, slots=True)
class LoadOptions:
    """Options of a load."""

    threads: int
    delegate: str | None = None
    signature: str | None = None
    """Signature whose graph is run; None: the first graph of the file."""
    is_reference: bool = False
    """Whether to load the reference: plain kernels, one thread, no delegate, no optimisation. It is
    slow, and the outputs of all other loads are compared with its outputs. `threads` and `delegate`
    are ignored."""
    shapes: Mapping[str, tuple[int, ...]] = field(default_factory=dict[str, tuple[int, ...]])
    """Shapes by name, for inputs with open dimensions."""
    is_profiled: bool = False
    """Whether to prepare for `LoadedModel.profile`; such a load runs slower and is never timed."""


class LoadedModel(Protocol):
    """A model in memory, ready to run."""

    @property
    def inputs(self) -> tuple[TensorSpec, ...]:
        """The inputs as loaded; an open dimension has the requested size, or 1."""
        ...

    @property
    def outputs(self) -> tuple[TensorSpec, ...]:
        """The outputs; an unknown dimension is -1."""
        ...

    @property
    def delegates_used(self) -> tuple[str, ...]:
        """Delegates or execution providers that run operators, as far as the runtime reports."""
        ...

    @property
    def precision(self) -> str | None:
        """Precision of the operators that hold most of the weights, as in `ModelFacts`.

        None if the file does not state it. It may be computed on first access.
        """
        ...

    @property
    def quantized(self) -> tuple[QuantizedOperands, ...] | None:
        """Types that the quantised operators multiply; None if the file does not state them."""
        ...

    def set_inputs(self, values: Sequence[Tensor]) -> None:
        """Copy or bind the inputs, in the order of `inputs`."""
        ...

    def prepare(self, samples: Sequence[Sequence[Tensor]]) -> list[Callable[[], Any]]:
        """Callables with minimal overhead that copy each sample into the model's inputs.

        The samples are kept, not copied, and never written to; the caller must not change them.
        The callables are valid until `prepare` or `set_inputs` is called with other shapes.

        Args:
            samples: For each sample, a tensor per input in the order of `inputs`.
        """
        ...

    def invoker(self) -> Callable[[], Any]:
        """Callable with minimal overhead that runs an inference; it must not allocate memory."""
        ...

    def reader(self) -> Callable[[], Any]:
        """Callable with minimal overhead that copies all outputs of the last inference to numpy.

        Call this after the first inference: before, some runtimes can only provide a slower
        callable with checks. Its return value differs between runtimes; `read_outputs` returns the
        same arrays as a list.
        """
        ...

    def read_outputs(self) -> list[Tensor]:
        """Copies of the outputs of the last inference, in the order of `outputs`.

        Raises:
            TargetError: no inference ran since the inputs were set, if the runtime detects that.
        """
        ...

    def reset(self) -> None:
        """Restore the initial state of a model that keeps a state between inferences."""
        ...

    def placement(self) -> tuple[OperatorPlacement, ...]:
        """Placement of the operators; empty if the runtime does not report it.

        These are the operators of the file, or those into which the runtime converted them before
        it assigned them. Sorted by place, then operator.
        """
        ...

    def profile(self, run_count: int) -> tuple[OperatorTime, ...]:
        """Time per operator over `run_count` runs with the current inputs, in order of execution.

        Only for a model that was loaded with `is_profiled`, and only once; the times include the
        overhead of the profiler.

        Raises:
            ModelRefused: the runtime has no profiler, or cannot profile this model.
        """
        ...

    def arena_bytes(self) -> int | None:
        """Memory that the runtime planned for tensors, bytes; None if it does not report it."""
        ...

    def close(self) -> None:
        """Free the model and its resources in the runtime."""
        ...


@runtime_checkable
class SignedModel(Protocol):
    """A model of a format whose files may contain several named graphs.

    A driver whose models have these two properties supports `LoadOptions.signature`.
    """

    @property
    def signature(self) -> str | None:
        """Signature of the graph that runs; None if it has no name."""
        ...

    @property
    def signatures(self) -> tuple[str, ...]:
        """Every signature of the file, in its order."""
        ...


class Runtime(Protocol):
    """Driver of an inference library."""

    @property
    def name(self) -> str:
        """Stable lower-case name, as in `--runtime`."""
        ...

    @property
    def formats(self) -> tuple[str, ...]:
        """File formats that the runtime loads: tflite, onnx."""
        ...

    @property
    def no_profiler(self) -> str | None:
        """Reason why it cannot profile, with an alternative; None if it can."""
        ...

    def probe(self) -> UsableRuntime | MissingRuntime:
        """Check whether the library works here; never raises.

        This imports the library, so call it in a separate process.
        """
        ...

    def import_library(self) -> str:
        """Import the library, which is timed separately from the load, and return its version.

        Raises:
            RuntimeUnavailable: the library is not installed, or broken.
        """
        ...

    def load(self, path: str, options: LoadOptions) -> LoadedModel:
        """Load the model file and allocate its tensors.

        Raises:
            ModelRefused: the library does not accept the file or the options.
            InputsRefused: an input cannot have the requested shape.
        """
        ...
