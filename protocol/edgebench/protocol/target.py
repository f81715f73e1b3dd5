"""The interface of devices that time themselves: what an agent and its worker need of one.

A microcontroller, or whatever else runs inferences without any code of edgebench's beside it, is a
*target*. Its driver is found under the entry-point group below. The life of a model on a target is
`open → set_input → window… → outputs → close`; all of it happens in the worker process, so that a
board that hangs, or an emulator that dies, ends one run and no more.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from edgebench.protocol.errors import EdgebenchError
from edgebench.protocol.record import FirmwareFacts, TargetMemory, TensorSpec, Window

ENTRY_POINT_GROUP = "edgebench.targets"
MEMORY_FILE = "boards.json"
"""File of an agent's state in which its driver remembers the targets that said what they are."""
OnBytes = Callable[[int, int], None]
"""Listener to bytes that are on the target, of so many."""


@dataclass(frozen=True, slots=True)
class TargetDescription:
    """A target that is there, or that can be made when it is wanted."""

    address: str
    """Where the driver finds it: `qemu:mps2-an386`, `/dev/ttyACM0`, `socket://10.0.0.7:5000`."""
    name: str
    """Name of the board."""
    identity: str
    """What stays the same wherever it is plugged in; of an emulated one, its name."""
    arch: str
    soc: str
    profile: str = "generic-mcu"
    """Id of its profile."""
    is_emulated: bool = False
    own_model: str | None = None
    """Name of the model in its firmware, which takes no other; None: it takes models."""
    takes_own_file: bool = False
    """Whether a file of that model is taken, too: it can tell that it is the same."""


@dataclass(frozen=True, slots=True)
class TargetSighting:
    """Port at which there is a target, or should be one."""

    target: TargetDescription
    error: EdgebenchError | None = None
    """Why it cannot be used; None: it can."""


class TargetPorts(Protocol):
    """The ports of a machine, at which targets come and go."""

    def look(self) -> Sequence[TargetSighting]:
        """The targets that are there now; does not wait for one that was not asked before.

        One that is away for a moment, because it restarts, is there all the same. One that has
        changed its address leaves for one look.

        Raises:
            TargetError: the ports cannot be listed.
        """
        ...


@dataclass(frozen=True, slots=True)
class TimedWindow:
    """A window, with the ticks of its single inferences where the firmware times them."""

    window: Window
    inference_ticks: tuple[int, ...] = ()
    is_repeated: bool = False
    """Whether an attempt before it may have run, too: in energy mode, its pulses come before those
    of the window."""


class OpenTarget(Protocol):
    """A target with a model on it."""

    @property
    def firmware(self) -> FirmwareFacts:
        """The program on it."""
        ...

    @property
    def memory(self) -> TargetMemory:
        """What model and firmware take."""
        ...

    @property
    def precision(self) -> str | None:
        """Precision of the operators that hold most of the weights, as in `ModelFacts`."""
        ...

    @property
    def inputs(self) -> tuple[TensorSpec, ...]:
        """Inputs of the model, as the target takes their bytes."""
        ...

    @property
    def outputs(self) -> tuple[TensorSpec, ...]:
        """Outputs of the model."""
        ...

    @property
    def own_model(self) -> str | None:
        """Name of the model that is part of its firmware; None: the model was put onto it."""
        ...

    @property
    def is_read_back(self) -> bool:
        """Whether every input until now was compared with the one that was sent."""
        ...

    @property
    def pace_ns(self) -> int | None:
        """Interval of the inferences of streaming firmware; None: it infers when it is asked.

        The sound says how many inferences a window has, and no warm-up can come before one.
        """
        ...

    @property
    def upload_s(self) -> float | None:
        """Time for which the model was sent; None where it was there."""
        ...

    def set_input(self, data: bytes) -> None:
        """Put the bytes of all inputs into the target, in the order of `inputs`.

        Raises:
            TargetError: they do not arrive.
        """
        ...

    def window(self, count: int, *, warmup_count: int) -> TimedWindow:
        """Run so many inferences in a row, timed by the target.

        Raises:
            TargetError: it did not run them.
        """
        ...

    def output_bytes(self) -> bytes:
        """Outputs of the last inference, in the order of `outputs`.

        Raises:
            TargetError: there are none, or they cannot be read.
        """
        ...

    @property
    def busy_s(self) -> float:
        """How long `close` waits at most for the end of a window that was cut off; 0: no window."""
        ...

    def close(self) -> None:
        """Let go of the target, ready for the next run; an emulated one ends."""
        ...


class TargetDriver(Protocol):
    """Drives targets of one kind."""

    @property
    def runtime(self) -> str:
        """Name of what runs models there, as in `--runtime`."""
        ...

    @property
    def version(self) -> str:
        """Version of that."""
        ...

    @property
    def formats(self) -> tuple[str, ...]:
        """File formats that it loads."""
        ...

    def on_demand(self) -> Sequence[TargetDescription]:
        """Targets that can be made here on request; never raises."""
        ...

    def ports(self, named: Sequence[str], memory: Path, *, asks: bool) -> TargetPorts:
        """The ports of this machine.

        Args:
            named: Addresses at which there is a target, each as ADDRESS or NAME=ADDRESS.
            memory: File in which targets are remembered that said what they are.
            asks: Whether to open ports that may have a target and are not named.

        Raises:
            UsageError: an address is none.
        """
        ...

    def open(
        self,
        address: str,
        model: Path | None,
        directory: Path,
        *,
        model_name: str,
        on_bytes: OnBytes,
    ) -> OpenTarget:
        """Open the target and put the model onto it.

        Args:
            address: Address of the target.
            model: File of the model; whoever wrote it may be hostile. None: the one on it.
            directory: Directory for what is kept with the run.
            model_name: Name that the user's file has; that of `model` may be a hash.
            on_bytes: Is told while a model or an input is sent.

        Raises:
            UsageError: there is no such address.
            ModelRefused: it cannot run this model, or has no room for it.
            TargetError: it does not answer, or the model does not arrive.
        """
        ...
