"""Boards that QEMU emulates, in a process with a serial line and a control socket.

    edgebench ── socket pair ── UART0          output of the board, from its first byte on
              ── socket pair ── QMP            cont, system_reset, quit

Theory of operation. QEMU is started halted (`-S`) and continued by QMP, so no output of the board's
start is lost. With `-icount shift=N,sleep=off` an instruction takes 2^N ns of virtual time, and the
same image on the same input takes the same time in every process. Such a time is a count of
instructions without wait states and caches, not the latency of a real board. Without a fixed
`shift`, the board's timer follows the clock of the machine that runs QEMU, and is meaningless.

Inherited sockets have no name, so two runs cannot collide on a port or a path.

Source: QEMU 7.2, docs/interop/qmp-spec.txt, docs/devel/tcg-icount.rst; a test of both settings
showed that sleep=off is deterministic, and sleep=on is not.
"""

from __future__ import annotations

import json
import re
import select
import shutil
import socket
import subprocess
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from edgebench.firmware_bridge.transports.base import READ_BYTES, WRITE_S, ReceivedBytes
from edgebench.firmware_bridge.transports.program import ending_with_parent
from edgebench.protocol.errors import BoardLost, TargetError, UsageError
from edgebench.protocol.text import one_line

PROGRAM = "qemu-system-arm"
RISCV_PROGRAM = "qemu-system-riscv32"
PACKAGES = {PROGRAM: "qemu-system-arm", RISCV_PROGRAM: "qemu-system-misc"}
"""Debian packages of the programs."""
DEFAULT_SHIFT = 3
"""Default shift; an instruction takes 2^3 = 8 ns, as at 125 MHz with one instruction per cycle."""
MAX_SHIFT = 10
"""Maximum shift that QEMU accepts."""
_CONTROL_S = 10.0
_END_S = 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class QemuMachine:
    """Board that QEMU emulates and edgebench's firmware supports."""

    name: str
    """Name of the board in edgebench's firmware."""
    cpu: str
    tick_rate_hz: int
    """Rate of the counter that the firmware reads, in virtual time at `DEFAULT_SHIFT`."""
    machine: str | None = None
    """Name of QEMU's machine; None if it equals the name of the board."""
    program: str = PROGRAM
    options: tuple[str, ...] = ()
    """Further options of QEMU for the machine."""

    @property
    def arguments(self) -> tuple[str, ...]:
        """Options of QEMU that select the machine."""
        return "-M", self.machine or self.name, *self.options


QEMU_MACHINES: dict[str, QemuMachine] = {
    machine.name: machine
    for machine in (
        QemuMachine(name="mps2-an385", cpu="Cortex-M3", tick_rate_hz=25_000_000),
        QemuMachine(name="mps2-an386", cpu="Cortex-M4", tick_rate_hz=25_000_000),
        QemuMachine(name="mps2-an500", cpu="Cortex-M7", tick_rate_hz=25_000_000),
        QemuMachine(name="mps3-an547", cpu="Cortex-M55", tick_rate_hz=32_000_000),
        QemuMachine(
            name="riscv32-virt",
            cpu="rv32imac",
            tick_rate_hz=125_000_000,  # instructions
            machine="virt",
            program=RISCV_PROGRAM,
            options=("-bios", "none"),
        ),
    )
}


@dataclass(frozen=True, slots=True, kw_only=True)
class QemuSetup:
    """The board to emulate, with its firmware and model."""

    machine: QemuMachine
    firmware: Path
    """ELF of the firmware."""
    blob: Path | None = None
    """Model to load into memory before the start; None if it is sent over the line, or not used."""
    blob_address: int | None = None
    shift: int = DEFAULT_SHIFT
    """Determines the virtual time of an instruction, which is 2^shift ns."""

    def __post_init__(self) -> None:
        if not 0 <= self.shift <= MAX_SHIFT:
            raise UsageError(f"shift of virtual time must be 0 to {MAX_SHIFT}, got {self.shift}")
        if (self.blob is None) != (self.blob_address is None):
            raise UsageError("a model in memory needs an address, and an address needs a model")


def qemu_command(program: str, setup: QemuSetup, *, line: int, control: int) -> list[str]:
    """Command line of QEMU.

    Args:
        program: Path of QEMU.
        setup: Board and files.
        line: File descriptor of the serial line.
        control: File descriptor of the control socket.
    """
    command = [
        *(program, *setup.machine.arguments, "-kernel", str(setup.firmware)),
        *("-nodefaults", "-display", "none", "-S"),
        *("-icount", f"shift={setup.shift},sleep=off"),
        *("-chardev", f"socket,id=line,fd={line}", "-serial", "chardev:line"),
        *("-chardev", f"socket,id=control,fd={control}", "-mon", "chardev=control,mode=control"),
    ]
    if setup.blob is not None and setup.blob_address is not None:
        # A comma ends a value of QEMU's options, unless it is doubled.
        path = str(setup.blob).replace(",", ",,")
        device = f"loader,file={path},addr={setup.blob_address:#x},force-raw=on"
        command += ["-device", device]
    return command


def qemu_version(program: str = PROGRAM) -> str | None:
    """Version of the installed QEMU; None if this program is not installed."""
    path = shutil.which(program)
    if path is None:
        return None
    with suppress(OSError, subprocess.SubprocessError):
        run = subprocess.run(
            [path, "--version"], capture_output=True, text=True, timeout=_CONTROL_S, check=True
        )
        match = re.search(r"version (\d[\w.+-]*)", run.stdout)
        return match[1] if match else None
    return None


class QemuBoard:
    """A board that QEMU emulates, from the board's reset on.

    QEMU is killed when the thread that started it ends.
    """

    baud_rate = None
    is_emulated = True

    def __init__(self, setup: QemuSetup, *, program: str | None = None) -> None:
        """Start QEMU, and let the board run.

        Args:
            setup: Board and files.
            program: Path of QEMU; None to find QEMU on PATH.

        Raises:
            TargetError: QEMU is not installed, or does not start this board.
        """
        wanted = setup.machine.program
        path = program or shutil.which(wanted)
        if path is None:
            raise TargetError(f"{wanted} is not installed: apt install {PACKAGES[wanted]}")
        self.name = f"qemu:{setup.machine.name}"
        self._line, line = socket.socketpair()
        self._control, control = socket.socketpair()
        self._process: subprocess.Popen[bytes] | None = None
        self._control.settimeout(_CONTROL_S)
        self._rest, self._said = b"", ""
        descriptors = line.fileno(), control.fileno()
        try:
            with line, control:
                self._process = subprocess.Popen(
                    qemu_command(path, setup, line=descriptors[0], control=descriptors[1]),
                    pass_fds=descriptors,
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.PIPE,
                    preexec_fn=ending_with_parent(),
                )
            self._read_control("QMP")  # its greeting
            self.control("qmp_capabilities")
            self.control("cont")
        except BaseException as exc:  # an interrupt must not leave QEMU running either
            self.close()
            if isinstance(exc, OSError):
                raise TargetError(f"cannot start {path}: {one_line(exc.strerror or exc)}") from exc
            if isinstance(exc, BoardLost):
                raise TargetError(f"{self.name} does not start: {self._complaint()}") from None
            raise

    @property
    def process_id(self) -> int:
        """Process id of QEMU."""
        assert self._process is not None
        return self._process.pid

    def set_baud_rate(self, baud_rate: int) -> None:
        """Do nothing, because the emulated line has no speed."""

    def now_ns(self) -> int:
        """Time by the bridge clock."""
        return time.monotonic_ns()

    def read(self, timeout_s: float) -> ReceivedBytes:
        """Read bytes that have arrived, after a wait of at most `timeout_s` for the first byte."""
        try:
            readable, _, _ = select.select([self._line], [], [], max(0.0, timeout_s))
            data = self._line.recv(READ_BYTES) if readable else None
        except (OSError, ValueError) as exc:  # ValueError: closed by another thread
            raise self._lost() from exc
        if data == b"":
            raise self._lost()
        return ReceivedBytes(data or b"", time.monotonic_ns())

    def write(self, data: bytes) -> None:
        """Send all bytes."""
        try:
            self._line.settimeout(WRITE_S)
            self._line.sendall(data)
        except OSError as exc:
            raise self._lost() from exc

    def reset(self) -> None:
        """Reset the board.

        Raises:
            BoardLost: QEMU has ended.
        """
        self.control("system_reset")

    def control(self, command: str) -> Any:
        """Send a command of QEMU's control protocol and return the result.

        Raises:
            BoardLost: QEMU has ended, or does not reply.
            TargetError: QEMU reports an error.
        """
        try:
            self._control.sendall(json.dumps({"execute": command}).encode() + b"\n")
        except OSError as exc:
            raise self._lost() from exc
        answer = self._read_control("return", "error")
        if "error" in answer:
            raise TargetError(f"{self.name} rejects {command}: {answer['error'].get('desc')}")
        return answer["return"]

    def close(self) -> None:
        """End QEMU, and with it the board."""
        self._line.close()
        self._control.close()
        if self._process is None:
            return
        if self._process.poll() is None:
            self._process.terminate()
            try:
                self._process.wait(_END_S)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
        if self._process.stderr is not None and not self._process.stderr.closed:
            self._said = self._process.stderr.read().decode("utf-8", "replace")
            self._process.stderr.close()

    def _read_control(self, *keys: str) -> dict[str, Any]:
        """Receive the next message that has any of the given keys; skip QEMU's events."""
        while True:
            while b"\n" not in self._rest:
                try:
                    data = self._control.recv(READ_BYTES)
                except OSError as exc:
                    raise self._lost() from exc
                if not data:
                    raise self._lost()
                self._rest += data
            text, _, self._rest = self._rest.partition(b"\n")
            message: dict[str, Any] = json.loads(text)
            if any(key in message for key in keys):
                return message

    def _complaint(self) -> str:
        """Output of QEMU before it ended, on a single line."""
        return one_line(self._said) or "QEMU has ended without a message"

    def _lost(self) -> BoardLost:
        return BoardLost(f"the board at {self.name} was lost: QEMU has ended")
