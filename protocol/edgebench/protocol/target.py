"""The interface of devices that time themselves, for an agent and its worker.

A *target* is a microcontroller, or any other device that runs inferences without an edgebench agent
on it. Its driver is found under the entry-point group below. The life cycle of a model on a target
is `open → set_input → window… → outputs → close`; all of it happens in the worker process, so that
a board that hangs, or an emulator that dies, ends only the run in progress.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from edgebench.protocol.errors import EdgebenchError
from edgebench.protocol.record import (
    FirmwareFacts,
    OperatorTime,
    TargetMemory,
    TensorSpec,
    Window,
)

ENTRY_POINT_GROUP = "edgebench.targets"
MEMORY_FILE = "boards.json"
"""File of an agent's state in which its driver stores the targets that it has identified."""
OnBytes = Callable[[int, int], None]
"""Callback for an upload: number of bytes on the target, and total number of bytes."""


@dataclass(frozen=True, slots=True)
class TargetDescription:
    """A connected target, or a target that can be created on demand."""

    address: str
    """Address for the driver: `qemu:mps2-an386`, `/dev/ttyACM0`, `socket://10.0.0.7:5000`."""
    name: str
    """Name of the board."""
    identity: str
    """Id that does not depend on the port; the name, for an emulated target."""
    arch: str
    soc: str
    profile: str = "generic-mcu"
    """Id of its profile."""
    is_emulated: bool = False
    own_model: str | None = None
    """Name of the model in its firmware, if it accepts no other model; None: it accepts models."""
    takes_own_file: bool = False
    """Whether it also accepts a file of that model, because it can verify the file."""
    reported_name: str | None = None
    """Name that it reported when it was identified; None: it was not queried, or reports none.
    """


@dataclass(frozen=True, slots=True)
class TargetSighting:
    """Port at which a target was found, or is expected."""

    target: TargetDescription
    error: EdgebenchError | None = None
    """Reason why it cannot be used; None: it can."""


class TargetPorts(Protocol):
    """The ports of a machine, at which targets are connected and disconnected."""

    def look(self) -> Sequence[TargetSighting]:
        """The targets that are present now, without waiting for the probe of a new port.

        A target that is absent for a moment, because it restarts, is included. A target whose
        address has changed is left out once, so that it counts as removed.

        Raises:
            TargetError: the ports cannot be listed.
        """
        ...


@dataclass(frozen=True, slots=True)
class TimedWindow:
    """A window, with the ticks of its single inferences if the firmware times them."""

    window: Window
    inference_ticks: tuple[int, ...] = ()
    is_repeated: bool = False
    """Whether an earlier attempt may have run as well: in energy mode, its pulses precede those of
    the window."""


@dataclass(frozen=True, slots=True)
class TargetProfile:
    """Times of the operators of a model on a target."""

    operators: tuple[OperatorTime, ...]
    """In order of execution, without the time of the readings of the counter."""
    reading_ns: float
    """Time of a reading of the counter."""


class OpenTarget(Protocol):
    """A target with a model on it."""

    @property
    def firmware(self) -> FirmwareFacts:
        """The program on the target."""
        ...

    @property
    def memory(self) -> TargetMemory:
        """Memory use of model and firmware."""
        ...

    @property
    def no_profiler(self) -> str | None:
        """Reason why the target cannot time operators; None: it can."""
        ...

    @property
    def precision(self) -> str | None:
        """Precision of the operators that hold most of the weights, as in `ModelFacts`."""
        ...

    @property
    def inputs(self) -> tuple[TensorSpec, ...]:
        """Inputs of the model, in the encoding that `set_input` expects."""
        ...

    @property
    def outputs(self) -> tuple[TensorSpec, ...]:
        """Outputs of the model."""
        ...

    @property
    def own_model(self) -> str | None:
        """Name of the model that is part of its firmware; None: the model was sent to it."""
        ...

    @property
    def is_read_back(self) -> bool:
        """Whether every input so far was read back and compared with the sent bytes."""
        ...

    @property
    def pace_ns(self) -> int | None:
        """Interval of the inferences of streaming firmware; None: it infers on request.

        The length of the sound determines the number of inferences of a window, and a warm-up is
        not possible.
        """
        ...

    @property
    def is_stateful(self) -> bool:
        """Whether an inference may depend on those before it, since the last `set_input`.

        Either the model has variables, or the firmware may overwrite its input.
        """
        ...

    @property
    def upload_s(self) -> float | None:
        """Time to send the model; None if it was on the target already."""
        ...

    def set_input(self, data: bytes) -> None:
        """Send the bytes of all inputs to the target, in the order of `inputs`.

        Raises:
            TargetError: the bytes do not arrive.
        """
        ...

    def window(self, count: int, *, warmup_count: int) -> TimedWindow:
        """Run `count` consecutive inferences, timed by the target.

        Raises:
            TargetError: the target did not run them.
        """
        ...

    def output_bytes(self) -> bytes:
        """Outputs of the last inference, in the order of `outputs`.

        Raises:
            TargetError: there are no outputs, or they cannot be read.
        """
        ...

    def profile(self, run_count: int) -> TargetProfile:
        """Run inferences on the input, and time every operator of them.

        Raises:
            NoBoardProfiler: the target cannot time operators.
            TargetError: the target did not run them.
        """
        ...

    def stack_peak_bytes(self) -> int | None:
        """Largest stack since the model was loaded; None: the target does not report it.

        Raises:
            TargetError: the target does not respond.
        """
        ...

    @property
    def busy_s(self) -> float:
        """Maximum time that `close` waits for the end of an interrupted window; 0: no window."""
        ...

    def close(self) -> None:
        """Release the target for the next run; an emulated target ends."""
        ...


class TargetDriver(Protocol):
    """Drives a kind of targets."""

    @property
    def runtime(self) -> str:
        """Name of the runtime on the target, as in `--runtime`."""
        ...

    @property
    def version(self) -> str:
        """Version of the runtime."""
        ...

    @property
    def formats(self) -> tuple[str, ...]:
        """File formats that the runtime loads."""
        ...

    def on_demand(self) -> Sequence[TargetDescription]:
        """Targets that can be created here on request; never raises."""
        ...

    def ports(self, named: Sequence[str], memory: Path, *, is_probing: bool) -> TargetPorts:
        """The ports of this machine.

        Args:
            named: Addresses of targets, each as ADDRESS or NAME=ADDRESS.
            memory: File in which identified targets are stored.
            is_probing: Whether to open and probe ports that may have a target and are not named.

        Raises:
            UsageError: an address is invalid.
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
        reported_name: str | None = None,
    ) -> OpenTarget:
        """Open the target and send the model to it.

        Args:
            address: Address of the target.
            model: File of the model, which is not trusted. None: the model on the target.
            directory: Directory for files that are kept with the run.
            model_name: Name of the user's file; the name of `model` may be a hash.
            on_bytes: Called while a model or an input is sent.
            reported_name: Name that the target has to report; None: any.

        Raises:
            UsageError: the address does not exist.
            OtherBoard: the target reports another name.
            ModelRefused: the target cannot run this model, or has no space for it.
            TargetError: the target does not respond, or the model does not arrive.
        """
        ...
