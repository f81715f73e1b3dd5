"""Runs sigrok-cli for queries, and reads its output while an instrument measures.

sigrok-cli is under the GPL, so it always runs in a separate process. A line on its standard input
ends a recording; the exit code is then meaningless (0.7.2 reports an internal error after a
complete recording).

Source: sigrok-cli(1); tested with sigrok-cli 0.7.2 and libsigrok 0.5.2.
"""

from __future__ import annotations

import os
import select
import shutil
import subprocess
import tempfile
import time
from contextlib import suppress
from typing import IO

from edgebench.meters.transport import READ_BYTES
from edgebench.protocol.errors import TargetError
from edgebench.protocol.text import one_line

PROGRAM = "sigrok-cli"
_REQUEST_S = 20.0
"""Time limit of a query. The limit is high, because some drivers search for devices for seconds."""
_END_S = 5.0


class Sigrok:
    """An instrument behind sigrok-cli."""

    def __init__(self, device: str) -> None:
        """Find the program.

        Args:
            device: Driver with its options, in the syntax of sigrok-cli's option -d.

        Raises:
            TargetError: sigrok-cli is not installed.
        """
        program = shutil.which(PROGRAM)
        if program is None:
            raise TargetError(f"{PROGRAM} is not installed: sudo apt install {PROGRAM}")
        self._command = [program, "--driver", device]
        self._process: subprocess.Popen[bytes] | None = None
        self._errors: IO[bytes] | None = None
        """Standard error of the running process: a file, because an unread pipe would fill up."""

    def output_of(self, *options: str) -> str:
        """Run sigrok-cli with these options, and return its output.

        Raises:
            TargetError: the device is not found, or the program does not end in time.
        """
        try:
            process = subprocess.run(
                [*self._command, *options],
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=_REQUEST_S,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired) as exc:
            raise TargetError(f"{PROGRAM} failed: {one_line(exc)}") from exc
        if process.returncode:
            raise TargetError(f"{PROGRAM}: {_last_line(process.stderr) or 'no such device'}")
        return process.stdout.decode(errors="replace")

    def start(self, *options: str) -> None:
        """Start a recording, which continues until `stop`.

        Raises:
            TargetError: the program does not start.
        """
        self.stop()
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115  # closed by stop
        try:
            self._process = subprocess.Popen(
                [*self._command, *options, "--continuous", "--output-format", "analog"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._errors,
                bufsize=0,
                start_new_session=True,  # Ctrl-C must not end it before `stop` does
            )
        except OSError as exc:
            raise TargetError(f"{PROGRAM} does not start: {one_line(exc)}") from exc

    def read(self, timeout_s: float) -> bytes:
        """Return the output since the last read; wait up to the timeout for the first byte.

        Raises:
            TargetError: the program has ended.
        """
        process = self._process
        if process is None or process.stdout is None:
            raise TargetError(f"{PROGRAM} is not running")
        if not select.select([process.stdout], [], [], timeout_s)[0]:
            return b""
        data = os.read(process.stdout.fileno(), READ_BYTES)
        if not data:
            raise TargetError(f"{PROGRAM} has ended: {self._last_error() or 'the device is gone'}")
        return data

    def stop(self) -> None:
        """End the recording, so that the program releases the device."""
        process, self._process = self._process, None
        if process is None:
            return
        with suppress(OSError):  # it may have ended
            if process.stdin is not None:
                process.stdin.write(b"\n")
        deadline_s = time.monotonic() + _END_S
        while process.stdout is not None and (left_s := deadline_s - time.monotonic()) > 0:
            is_there = select.select([process.stdout], [], [], left_s)[0]
            if is_there and not os.read(process.stdout.fileno(), READ_BYTES):
                break
        with suppress(subprocess.TimeoutExpired):
            process.wait(1.0)
        if process.returncode is None:
            process.kill()
            process.wait()
        for pipe in (process.stdin, process.stdout, self._errors):
            if pipe is not None:
                with suppress(OSError):
                    pipe.close()

    def close(self) -> None:
        """Stop the program; may be called twice."""
        self.stop()

    def _last_error(self) -> str:
        if self._errors is None:
            return ""
        self._errors.seek(0)
        return _last_line(self._errors.read())


def _last_line(errors: bytes) -> str:
    lines = errors.decode(errors="replace").strip().splitlines()
    return lines[-1].strip() if lines else ""
