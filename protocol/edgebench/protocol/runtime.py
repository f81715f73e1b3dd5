"""The interface that every inference runtime implements, on the device.

A driver is one file that implements `Runtime`. It imports its library inside its methods, never
at the top, so that an agent starts without it. The life of a model is
`load → set_inputs → invoke… → outputs → close`; the timed loop calls nothing but the callables
that `prepare()`, `invoker()` and `reader()` return: copy a sample in, run, copy the answer out.
What a model tells beside its answers (`placement`, `profile`, `arena_bytes`) is asked outside the
timed loop, and never by a load. "Does not tell" is an empty tuple or None, never a guess.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from edgebench.protocol.record import OperatorPlacement, OperatorTime, QuantizedOperands, TensorSpec

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Tensor = NDArray[np.generic]


@dataclass(frozen=True, slots=True)
class UsableRuntime:
    """The runtime works here."""

    version: str
    delegates: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class MissingRuntime:
    """The runtime does not work here: one line why, and the command that would mend it."""

    reason: str
    install: str | None = None


@dataclass(frozen=True, slots=True)
class LoadOptions:
    """How a model is to be loaded."""

    threads: int
    delegate: str | None = None
    is_reference: bool = False
    """Plain kernels, one thread, no delegate, nothing optimised: slow, and what the answers of
    every other way to load the model are held against. `threads` and `delegate` do not count."""
    is_profiled: bool = False
    """Prepare for `LoadedModel.profile`; such a load is never timed, it runs slower."""


class LoadedModel(Protocol):
    """A model in memory, ready to run."""

    @property
    def inputs(self) -> tuple[TensorSpec, ...]:
        """The inputs as loaded; an unknown dimension is 1."""
        ...

    @property
    def outputs(self) -> tuple[TensorSpec, ...]:
        """The outputs; an unknown dimension is -1."""
        ...

    @property
    def delegates_used(self) -> tuple[str, ...]:
        """Delegates or execution providers that really took part, as far as the runtime tells."""
        ...

    @property
    def precision(self) -> str | None:
        """Element type of the arithmetic: int8, uint8, fp32, …; None where it does not tell."""
        ...

    @property
    def quantized(self) -> tuple[QuantizedOperands, ...] | None:
        """What the quantised operators multiply; None where the file does not tell."""
        ...

    def set_inputs(self, values: Sequence[Tensor]) -> None:
        """Copy or bind the inputs, in the order of `inputs`."""
        ...

    def prepare(self, samples: Sequence[Sequence[Tensor]]) -> list[Callable[[], Any]]:
        """For each sample, the thinnest callable that copies it into the model's inputs.

        The samples are kept, not copied, and never written to; the caller must not change them.
        The callables are valid until `prepare` or `set_inputs` is called with other shapes.

        Args:
            samples: Each has one tensor for each input, in the order of `inputs`.
        """
        ...

    def invoker(self) -> Callable[[], Any]:
        """The thinnest callable that runs one inference; it must not allocate of its own."""
        ...

    def reader(self) -> Callable[[], Any]:
        """The thinnest callable that copies all outputs of the last inference into numpy arrays.

        Ask for it after the first inference: before, some runtimes can only give a slower one
        that checks. What it returns differs between runtimes; `read_outputs` gives the same
        arrays as a list.
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
        """Which operators run where; empty where the runtime does not tell.

        These are the operators of the file, or what the runtime made of them before it divided
        them up. Sorted by place, then operator.
        """
        ...

    def profile(self, run_count: int) -> tuple[OperatorTime, ...]:
        """Run `run_count` times with the inputs that are set; the time of each operator.

        Only for a model that was loaded with `is_profiled`, and only once; the times include the
        profiler's own cost. In order of execution.

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


class Runtime(Protocol):
    """A driver for one inference library."""

    @property
    def name(self) -> str:
        """Stable lower-case name, as in `--runtime`."""
        ...

    @property
    def formats(self) -> tuple[str, ...]:
        """File formats that it loads: tflite, onnx."""
        ...

    @property
    def no_profiler(self) -> str | None:
        """Why it cannot profile, and what can; None when it can."""
        ...

    def probe(self) -> UsableRuntime | MissingRuntime:
        """Whether the library can be used here; imports it, so call this in a throw-away process.

        Reports, never raises.
        """
        ...

    def import_library(self) -> str:
        """Import the library, so that the time of that is not part of the load; its version.

        Raises:
            RuntimeUnavailable: it is absent or broken.
        """
        ...

    def load(self, path: str, options: LoadOptions) -> LoadedModel:
        """Load the model file and allocate its tensors.

        Raises:
            ModelRefused: the library does not accept the file or the options.
        """
        ...
