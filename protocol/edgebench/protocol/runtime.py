"""The interface that the driver of every inference runtime implements, on the device.

A driver is a module that implements `Runtime`. A driver imports the inference library inside its
methods, never at module level, so that an agent starts without the library. The life cycle of a
model is `load → set_inputs → invoke… → outputs → close`. The methods `prepare()`, `invoker()` and
`reader()` return callables that copy a sample in, run the model, and copy the outputs out. The
timed loop calls only these callables. Facts about the model (`placement`, `profile`,
`arena_bytes`) are queried outside the timed loop, and never during the load. A fact that the
runtime does not report is an empty tuple or None, never a guess.

`edgebench-agent check-runtime` checks that a driver's methods behave as described here
(docs/add-a-runtime.md).
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
"""Maps the name of each built-in runtime to its package; the extra with the runtime's name installs
the package."""
RUNTIME_MODULES = {
    "tflite": "tflite_runtime",
    "litert": "ai_edge_litert",
    "onnx": "onnxruntime",
}
"""Maps the name of each built-in runtime to its Python module; packages other than those in
`RUNTIME_PACKAGES` may contain the same module."""


@dataclass(frozen=True, slots=True)
class UsableRuntime:
    """A runtime that works on this device."""

    version: str
    delegates: tuple[str, ...] = ()
    distribution: str | None = None
    """Package that contains the runtime's library; None if the library belongs to no package."""
    library: str | None = None
    """Directory of the runtime's library."""


@dataclass(frozen=True, slots=True)
class MissingRuntime:
    """A runtime that does not work on this device, with the reason and an installation command."""

    reason: str
    install: str | None = None


@dataclass(frozen=True, slots=True)
class LoadOptions:
    """Options for loading a model."""

    threads: int
    delegate: str | None = None
    signature: str | None = None
    """Name of the signature whose graph is run; None: the first graph of the file."""
    is_reference: bool = False
    """Whether to load the model as a reference, with plain kernels, a single thread, no delegate
    and no optimisation; `threads` and `delegate` are ignored. The reference is slow; the outputs of
    all other loads are compared with the outputs of the reference."""
    shapes: Mapping[str, tuple[int, ...]] = field(default_factory=dict[str, tuple[int, ...]])
    """Maps the name of each input with open dimensions to its shape."""
    is_profiled: bool = False
    """Whether to prepare for `LoadedModel.profile`; a model loaded in this way runs slower and is
    never timed."""


class LoadedModel(Protocol):
    """A model in memory, ready to run."""

    @property
    def inputs(self) -> tuple[TensorSpec, ...]:
        """The inputs; an open dimension has the requested size, or 1 if no size was requested."""
        ...

    @property
    def outputs(self) -> tuple[TensorSpec, ...]:
        """The outputs; an unknown dimension is -1."""
        ...

    @property
    def delegates_used(self) -> tuple[str, ...]:
        """Delegates or execution providers that run operators, as far as they are reported."""
        ...

    @property
    def precision(self) -> str | None:
        """Precision of the operators that hold most of the weights, as in `ModelFacts`.

        None if the model file does not state the precision. The value may be computed on first
        access.
        """
        ...

    @property
    def quantized(self) -> tuple[QuantizedOperands, ...] | None:
        """Element types that quantised operators multiply; None if the file does not state them."""
        ...

    def set_inputs(self, values: Sequence[Tensor]) -> None:
        """Copy or bind the inputs, in the order of `inputs`."""
        ...

    def prepare(self, samples: Sequence[Sequence[Tensor]]) -> list[Callable[[], Any]]:
        """Create a callable for each sample; it copies the sample into the model's inputs.

        The callables have minimal overhead. They refer to the given samples, which are neither
        copied nor changed; the caller must not change the samples either. The callables are valid
        until `prepare` or `set_inputs` is called with other shapes.

        Args:
            samples: Each sample is a sequence of tensors, with one tensor for each of `inputs`.
        """
        ...

    def invoker(self) -> Callable[[], Any]:
        """Create a callable with minimal overhead that runs an inference without allocations."""
        ...

    def reader(self) -> Callable[[], Any]:
        """Create a callable that copies all outputs of the last inference to numpy.

        The callable has minimal overhead. Call this method after the first inference: before the
        first inference, some runtimes can provide only a slower callable with checks. The return
        value of the callable differs between runtimes; `read_outputs` returns the same arrays as a
        list.
        """
        ...

    def read_outputs(self) -> list[Tensor]:
        """Copies of the outputs of the last inference, in the order of `outputs`.

        Raises:
            TargetError: no inference ran since the inputs were set, and the runtime detects this.
        """
        ...

    def reset(self) -> None:
        """Restore the initial state of a model that keeps a state between inferences."""
        ...

    def placement(self) -> tuple[OperatorPlacement, ...]:
        """Places (such as delegates) where the operators run; empty if they are not reported.

        The operators are those of the model file, or those into which the runtime converted the
        model. The result is sorted by place, then by operator.
        """
        ...

    def profile(self, run_count: int) -> tuple[OperatorTime, ...]:
        """Time per operator over `run_count` runs with the current inputs, in order of execution.

        The method may be called only for a model that was loaded with `is_profiled`, and only once.
        The times include the overhead of the profiler.

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

    A driver supports `LoadOptions.signature` if its models have `signature` and `signatures`.
    """

    @property
    def signature(self) -> str | None:
        """Name of the signature of the graph that runs; None if the graph has no name."""
        ...

    @property
    def signatures(self) -> tuple[str, ...]:
        """All signatures of the file, in the order of the file."""
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
        """Reason why the runtime cannot profile, with an alternative; None if it can profile."""
        ...

    def probe(self) -> UsableRuntime | MissingRuntime:
        """Check whether the library works on this device; never raises.

        The method imports the library, so it must be called in a separate process.
        """
        ...

    def import_library(self) -> str:
        """Import the library and return its version; the import is timed separately from the load.

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
