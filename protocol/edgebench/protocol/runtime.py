"""The interface that every inference runtime implements, on the device.

A driver is one file that implements `Runtime`. It imports its library inside its methods, never
at the top, so that an agent starts without it. The life of a model is
`load → set_inputs → invoke… → outputs → close`; the timed loop calls nothing but the callables
that `prepare()`, `invoker()` and `reader()` return: copy a sample in, run, copy the outputs out.
Facts about the model (`placement`, `profile`, `arena_bytes`) are read outside the timed loop, and
never by a load. "Does not tell" is an empty tuple or None, never a guess.
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
"""Package that each built-in runtime comes in, by its name; an extra of this name installs it."""
RUNTIME_MODULES = {
    "tflite": "tflite_runtime",
    "litert": "ai_edge_litert",
    "onnx": "onnxruntime",
}
"""Module of each built-in runtime, which may come in a package of another name as well."""


@dataclass(frozen=True, slots=True)
class UsableRuntime:
    """A runtime that works here."""

    version: str
    delegates: tuple[str, ...] = ()
    distribution: str | None = None
    """Package that its library comes in; None where it has none."""
    library: str | None = None
    """Directory of its library."""


@dataclass(frozen=True, slots=True)
class MissingRuntime:
    """A runtime that does not work here: the reason, and the command that would install it."""

    reason: str
    install: str | None = None


@dataclass(frozen=True, slots=True)
class LoadOptions:
    """Options of a load."""

    threads: int
    delegate: str | None = None
    signature: str | None = None
    """Signature whose graph is to be run; None: the first graph of the file."""
    is_reference: bool = False
    """Whether to load the reference: plain kernels, one thread, no delegate, nothing optimised. It
    is slow, and the outputs of all other loads are compared with it. `threads` and `delegate` do
    not count."""
    shapes: Mapping[str, tuple[int, ...]] = field(default_factory=dict[str, tuple[int, ...]])
    """Shapes of inputs by name, for those that leave dimensions open."""
    is_profiled: bool = False
    """Whether to prepare for `LoadedModel.profile`; such a load runs slower and is never timed."""


class LoadedModel(Protocol):
    """A model in memory, ready to run."""

    @property
    def inputs(self) -> tuple[TensorSpec, ...]:
        """The inputs as loaded; an open dimension has the size that was asked for, or 1."""
        ...

    @property
    def outputs(self) -> tuple[TensorSpec, ...]:
        """The outputs; an unknown dimension is -1."""
        ...

    @property
    def delegates_used(self) -> tuple[str, ...]:
        """Delegates or execution providers that really took part, as far as reported."""
        ...

    @property
    def precision(self) -> str | None:
        """Precision of the operators that hold most of the weights, as in `ModelFacts`.

        None where the file does not tell. It may be found only when it is asked for.
        """
        ...

    @property
    def quantized(self) -> tuple[QuantizedOperands, ...] | None:
        """What the quantised operators multiply; None where the file does not tell."""
        ...

    def set_inputs(self, values: Sequence[Tensor]) -> None:
        """Copy or bind the inputs, in the order of `inputs`."""
        ...

    def prepare(self, samples: Sequence[Sequence[Tensor]]) -> list[Callable[[], Any]]:
        """The thinnest callables that copy the samples into the model's inputs, one per sample.

        The samples are kept, not copied, and never written to; the caller must not change them.
        The callables are valid until `prepare` or `set_inputs` is called with other shapes.

        Args:
            samples: One tensor per input each, in the order of `inputs`.
        """
        ...

    def invoker(self) -> Callable[[], Any]:
        """The thinnest callable that runs one inference; it must not allocate of its own."""
        ...

    def reader(self) -> Callable[[], Any]:
        """The thinnest callable that copies all outputs of the last inference into numpy arrays.

        Call this after the first inference: before, some runtimes can only give a slower one that
        checks. Its return value differs between runtimes; `read_outputs` gives the same arrays as
        a list.
        """
        ...

    def read_outputs(self) -> list[Tensor]:
        """Copies of the outputs of the last inference, in the order of `outputs`.

        Raises:
            TargetError: there was none since the inputs were set, where that can be told.
        """
        ...

    def reset(self) -> None:
        """Put a model that keeps a state between inferences back into its initial one."""
        ...

    def placement(self) -> tuple[OperatorPlacement, ...]:
        """Places of the operators; empty where the runtime does not tell.

        These are the operators of the file, or those that the runtime made of them before it
        assigned them. Sorted by place, then operator.
        """
        ...

    def profile(self, run_count: int) -> tuple[OperatorTime, ...]:
        """Time per operator over `run_count` runs with the current inputs, in order of execution.

        Only for a model that was loaded with `is_profiled`, and only once; the times include the
        profiler's own cost.

        Raises:
            ModelRefused: the runtime has no profiler, or cannot profile this model.
        """
        ...

    def arena_bytes(self) -> int | None:
        """Memory that the runtime planned for tensors, bytes; None where it does not tell."""
        ...

    def close(self) -> None:
        """Free what the runtime holds."""
        ...


@runtime_checkable
class SignedModel(Protocol):
    """A model of a format whose files may hold several graphs with names.

    A driver whose models have these two properties takes `LoadOptions.signature`.
    """

    @property
    def signature(self) -> str | None:
        """Signature of the graph that runs; None where that has no name."""
        ...

    @property
    def signatures(self) -> tuple[str, ...]:
        """Every signature of the file, in its order."""
        ...


class Runtime(Protocol):
    """A driver for one inference library."""

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
        """Why it cannot profile, and what can; None when it can."""
        ...

    def probe(self) -> UsableRuntime | MissingRuntime:
        """Whether the library can be used here; never raises.

        It imports the library, so call this in a throw-away process.
        """
        ...

    def import_library(self) -> str:
        """Import the library, which is timed apart from the load; its version.

        Raises:
            RuntimeUnavailable: it is absent or broken.
        """
        ...

    def load(self, path: str, options: LoadOptions) -> LoadedModel:
        """Load the model file and allocate its tensors.

        Raises:
            ModelRefused: the library does not accept the file or the options.
            InputsRefused: an input cannot have the shape that was asked for.
        """
        ...
