"""A program on this machine that acts as a board, on a pseudo-terminal."""

from __future__ import annotations

import os
import select
import subprocess
import time
import tty
from collections.abc import Mapping, Sequence
from contextlib import suppress

from edgebench.firmware_bridge.transports.base import READ_BYTES, WRITE_S, ReceivedBytes
from edgebench.firmware_bridge.transports.program import ending_with_parent
from edgebench.protocol.errors import BoardLost, TargetError
from edgebench.protocol.text import one_line

_END_S = 2.0
"""Maximum time in seconds that a program may take to exit; then it is killed."""


class ChildProcess:
    """A child process with a pseudo-terminal as its standard input and output.

    The process is killed when the thread that started it ends.
    """

    baud_rate = None

    def __init__(
        self,
        command: Sequence[str],
        *,
        is_emulated: bool = False,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        """Start the program.

        Args:
            command: Path of the program and its arguments.
            is_emulated: Whether the program's time differs from the time of this machine.
            environment: Environment variables of the program; None for the same variables as this
                process.

        Raises:
            TargetError: the program cannot be started.
        """
        self.name = one_line(" ".join(command))
        self.is_emulated = is_emulated
        self._master, terminal = os.openpty()
        try:
            tty.setraw(terminal)
            self._process = subprocess.Popen(
                list(command),
                stdin=terminal,
                stdout=terminal,
                stderr=subprocess.DEVNULL,
                env=None if environment is None else dict(environment),
                preexec_fn=ending_with_parent(),
            )
        except BaseException as exc:  # after any exception, no terminal may stay open
            os.close(self._master)
            if isinstance(exc, OSError):
                what = one_line(exc.strerror or exc)
                raise TargetError(f"cannot start {self.name}: {what}") from exc
            raise
        finally:
            os.close(terminal)
        os.set_blocking(self._master, False)

    @property
    def process_id(self) -> int:
        """Process id of the program."""
        return self._process.pid

    def set_baud_rate(self, baud_rate: int) -> None:
        """Do nothing, because a pseudo-terminal has no speed."""

    def now_ns(self) -> int:
        """Time by the bridge clock."""
        return time.monotonic_ns()

    def read(self, timeout_s: float) -> ReceivedBytes:
        """Read bytes that have arrived, after a wait of at most `timeout_s` for the first byte."""
        try:
            readable, _, _ = select.select([self._master], [], [], max(0.0, timeout_s))
            data = os.read(self._master, READ_BYTES) if readable else None
        except (OSError, ValueError) as exc:  # EIO: the program closed its end, or ended
            raise self._lost() from exc
        if data == b"":
            raise self._lost()
        return ReceivedBytes(data or b"", time.monotonic_ns())

    def write(self, data: bytes) -> None:
        """Send all bytes."""
        deadline_s = time.monotonic() + WRITE_S
        while data:
            left_s = deadline_s - time.monotonic()
            try:
                _, writable, _ = select.select([], [self._master], [], max(0.0, left_s))
                if not writable:
                    raise BoardLost(f"{self.name} accepts no bytes for {WRITE_S:g} s")
                data = data[os.write(self._master, data) :]
            except (OSError, ValueError) as exc:
                raise self._lost() from exc

    def close(self) -> None:
        """End the program."""
        if self._master < 0:
            return
        os.close(self._master)
        self._master = -1
        self._process.terminate()
        try:
            self._process.wait(_END_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def _lost(self) -> BoardLost:
        with suppress(subprocess.TimeoutExpired):
            status = self._process.wait(_END_S)
            how = f"by signal {-status}" if status < 0 else f"with status {status}"
            return BoardLost(f"{self.name} has ended {how}")
        return BoardLost(f"{self.name} has closed its terminal")
