"""The interface that every inference runtime implements, on the device.

A driver is one file that implements `Runtime`. It imports its library inside its methods, never
at the top, so that an agent starts without it. The life of a model is
`load → set_inputs → invoke… → outputs → close`; the timed loop calls nothing but the callable
that `invoker()` returns.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from edgebench.protocol.record import TensorSpec

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Tensor = NDArray[np.generic]


@dataclass(frozen=True, slots=True)
class Usable:
    """The runtime works here."""

    version: str
    delegates: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Missing:
    """The runtime does not work here: one line why, and the command that would mend it."""

    reason: str
    install: str | None = None


@dataclass(frozen=True, slots=True)
class LoadOptions:
    """How a model is to be loaded."""

    threads: int
    delegate: str | None = None


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

    def set_inputs(self, values: Sequence[Tensor]) -> None:
        """Copy or bind the inputs, in the order of `inputs`."""
        ...

    def invoker(self) -> Callable[[], Any]:
        """The thinnest callable that runs one inference; it must not allocate of its own."""
        ...

    def read_outputs(self) -> list[Tensor]:
        """Copies of the outputs of the last inference, in the order of `outputs`."""
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

    def probe(self) -> Usable | Missing:
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
