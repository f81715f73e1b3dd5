"""The interface to devices that time inferences themselves, for an agent and its worker.

A *target* is a microcontroller, or any other device that runs inferences without an edgebench agent
on it. The driver of a target is found in the entry-point group `ENTRY_POINT_GROUP`. The life cycle
of a model on a target is `open → set_input → window… → outputs → close`. All steps run in the
worker process. So a board that hangs, or an emulator that crashes, ends only the run in progress.
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
"""File in an agent's state directory in which the driver stores the targets that it has
identified."""
OnBytes = Callable[[int, int], None]
"""Callback during an upload; its arguments are the number of bytes that are on the target, and the
total number of bytes."""


@dataclass(frozen=True, slots=True)
class TargetDescription:
    """A connected target, or a target that can be created on demand."""

    address: str
    """Address by which the driver opens the target, such as `qemu:mps2-an386`, `/dev/ttyACM0`, or
    `socket://10.0.0.7:5000`."""
    name: str
    """Name of the board."""
    identity: str
    """Identifier that does not depend on the port; for an emulated target, this is the name."""
    arch: str
    soc: str
    profile: str = "generic-mcu"
    """Id of the device profile."""
    is_emulated: bool = False
    own_model: str | None = None
    """Name of the model in the target's firmware, if the target accepts no other model; None if it
    accepts model files."""
    takes_own_file: bool = False
    """Whether a target with an `own_model` also accepts a file of that model, because it can verify
    the file."""
    reported_name: str | None = None
    """Name that the target reported when it was identified; None if it was not queried, or reports
    no name."""


@dataclass(frozen=True, slots=True)
class TargetSighting:
    """A target that was found, or is expected, at a port."""

    target: TargetDescription
    error: EdgebenchError | None = None
    """Reason why the target cannot be used; None if it can be used."""


class TargetPorts(Protocol):
    """The ports of a machine; targets may be connected to them or disconnected at any time."""

    def look(self) -> Sequence[TargetSighting]:
        """List the targets that are present now, without waiting for the probe of a new port.

        A target that is absent for a moment because it restarts is included. After the address of a
        target has changed, the next list omits the target, so that callers treat it as removed.

        Raises:
            TargetError: the ports cannot be listed.
        """
        ...


@dataclass(frozen=True, slots=True)
class TimedWindow:
    """A window (series of timed inferences), with the ticks of each inference if known."""

    window: Window
    inference_ticks: tuple[int, ...] = ()
    is_repeated: bool = False
    """Whether an earlier attempt at this window may have run on the target, too. In energy mode,
    the pulses of such an attempt precede the pulses of this window."""


@dataclass(frozen=True, slots=True)
class TargetProfile:
    """Times of the operators of a model on a target."""

    operators: tuple[OperatorTime, ...]
    """Times of the operators in order of execution, without the time for reading the counter."""
    reading_ns: float
    """Time for a reading of the counter that times the operators."""


class OpenTarget(Protocol):
    """An open connection to a target that has a model."""

    @property
    def firmware(self) -> FirmwareFacts:
        """The program on the target."""
        ...

    @property
    def memory(self) -> TargetMemory:
        """Memory use of the model and the firmware."""
        ...

    @property
    def no_profiler(self) -> str | None:
        """Reason why the target cannot time operators; None if it can time them."""
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
        """Name of the model in the firmware; None if the model was sent to the target."""
        ...

    @property
    def is_read_back(self) -> bool:
        """Whether every input so far was read back and compared with the sent bytes."""
        ...

    @property
    def pace_ns(self) -> int | None:
        """Interval of the inferences of streaming firmware; None if inferences run on request.

        With streaming firmware, the length of the audio determines the number of inferences in a
        window, and a warm-up is not possible.
        """
        ...

    @property
    def is_stateful(self) -> bool:
        """Whether an inference may depend on earlier inferences since the last `set_input`.

        An inference depends on earlier inferences if the model has variables, or if the firmware
        overwrites the input.
        """
        ...

    @property
    def upload_s(self) -> float | None:
        """Time for sending the model; None if the model was on the target already."""
        ...

    def set_input(self, data: bytes) -> None:
        """Send the bytes of all inputs to the target, in the order of `inputs`.

        Raises:
            TargetError: the bytes do not arrive on the target.
        """
        ...

    def window(self, count: int, *, warmup_count: int) -> TimedWindow:
        """Run `count` consecutive inferences, timed by the target.

        Raises:
            TargetError: the target did not run the inferences.
        """
        ...

    def output_bytes(self) -> bytes:
        """Read the bytes of all outputs of the last inference, in the order of `outputs`.

        Raises:
            TargetError: there are no outputs, or the outputs cannot be read.
        """
        ...

    def profile(self, run_count: int) -> TargetProfile:
        """Run `run_count` inferences on the current input, and time every operator.

        Raises:
            NoBoardProfiler: the target cannot time operators.
            TargetError: the target did not run the inferences.
        """
        ...

    def stack_peak_bytes(self) -> int | None:
        """Largest stack use since the model was loaded; None if the target does not report it.

        Raises:
            TargetError: the target does not respond.
        """
        ...

    @property
    def busy_s(self) -> float:
        """Maximum time that `close` waits for running inferences to end; 0 if none is running."""
        ...

    def close(self) -> None:
        """Release the target for the next run; the emulator of an emulated target is ended."""
        ...


class TargetDriver(Protocol):
    """Driver for a kind of target."""

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
        """Targets that can be created on this machine on request; never raises."""
        ...

    def ports(self, named: Sequence[str], memory: Path, *, is_probing: bool) -> TargetPorts:
        """Create an object that lists the targets at the ports of this machine.

        Args:
            named: Addresses of targets, each as ADDRESS or NAME=ADDRESS.
            memory: File in which identified targets are stored.
            is_probing: Whether to open and probe unnamed ports that may have a target.

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
            model: Model file; the content is not trusted. None: the model in the target's firmware.
            directory: Directory for files that are kept with the run.
            model_name: Name of the model file on the user's machine. The file name of `model` may
                be a hash instead.
            on_bytes: Called while a model or an input is sent.
            reported_name: Name that the target has to report; None: any name.

        Raises:
            UsageError: the address does not exist.
            OtherBoard: the target reports another name.
            ModelRefused: the target cannot run this model, or has no space for it.
            TargetError: the target does not respond, or the model does not arrive.
        """
        ...
