"""The agent's log, in which repeated warnings are written once, and whose size is bounded.

Tracebacks are written to separate files (`system/unforeseen.py`), except at log level DEBUG.

A warning that is repeated within an hour is counted, not written. The warning is written again,
with its count, when any warning occurs after that hour, and at the end of the process. A full file
is renamed to FILE.1, FILE.1 to FILE.2 and so on, and the oldest file is overwritten. Agents that
share a file do not lose each other's lines. Each line is a single write to the end of the file, and
the file is locked during a rename. If one process has renamed the file and created a new one,
the other processes continue in the new file. The size of the file is also checked regularly,
because libraries may write to the file directly.
"""

from __future__ import annotations

import contextlib
import fcntl
import logging
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from copy import copy
from dataclasses import dataclass
from pathlib import Path

from edgebench.protocol.text import printable
from edgebench.system.unforeseen import named_error

FORMAT = "%(levelname)s %(name)s: %(message)s"
FILE_FORMAT = "%(asctime)s " + FORMAT
MAX_BYTES = 2**20
"""Size above which a file is renamed; about 8,000 lines."""
WATCH_S = 10.0
"""Interval between checks of the size of a file that also receives the output of libraries. A check
is a single fstat(2)."""
GENERATIONS = 3
"""Number of older files that are kept."""
REPEAT_S = 3600.0
"""A warning that is repeated within this time is counted, not written."""
MAX_REMEMBERED = 100
"""Maximum number of different warnings whose repetitions are counted; the oldest is forgotten
first."""


class LogFile:
    """A log file to which several processes may append lines."""

    def __init__(self, path: Path, *, is_output: bool = False) -> None:
        """Open the file.

        Args:
            path: The file.
            is_output: Whether standard output and error of this process, with tracebacks and the
                output of libraries, also go to the file.

        Raises:
            OSError: the file cannot be opened.
        """
        self._path = path
        self._is_output = is_output
        self._lock = threading.Lock()
        self._is_torn = False
        """Whether a full disk has cut the last line."""
        self._is_closed = threading.Event()
        self._descriptor = self._open()
        if is_output:
            threading.Thread(target=self._watch, name="log", daemon=True).start()

    def write(self, line: str) -> None:
        """Append a line; an error, such as a full disk, loses only this line and is not raised."""
        data = (b"\n" if self._is_torn else b"") + line.encode("utf-8", "replace") + b"\n"
        with self._lock, contextlib.suppress(OSError):
            if self._is_closed.is_set():
                return
            if not self._is_current():
                self._reopen()
            self._is_torn = os.write(self._descriptor, data) < len(data)
            self._rotate_if_full()

    def close(self) -> None:
        """Close the file; later lines are lost. Closing it again has no effect."""
        with self._lock:
            if not self._is_closed.is_set():
                self._is_closed.set()
                os.close(self._descriptor)

    def _watch(self) -> None:
        """Limit the size of the file, to which libraries may write directly."""
        while not self._is_closed.wait(WATCH_S):
            with self._lock, contextlib.suppress(OSError):
                if not self._is_closed.is_set():
                    self._rotate_if_full()

    def _rotate_if_full(self) -> None:
        if os.fstat(self._descriptor).st_size > MAX_BYTES:
            self._rotate()

    def _open(self) -> int:
        descriptor = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        if self._is_output:
            sys.stdout.flush()
            os.dup2(descriptor, 1)
            os.dup2(descriptor, 2)
        return descriptor

    def _reopen(self) -> None:
        descriptor = self._open()
        os.close(self._descriptor)
        self._descriptor = descriptor

    def _rotate(self) -> None:
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)  # until it is closed
        except BlockingIOError:
            return  # another process is renaming it
        try:
            if self._is_current():  # otherwise another process was faster
                for number in range(GENERATIONS - 1, 0, -1):
                    with contextlib.suppress(FileNotFoundError):
                        self._numbered(number).replace(self._numbered(number + 1))
                self._path.replace(self._numbered(1))
        finally:
            self._reopen()

    def _numbered(self, number: int) -> Path:
        return self._path.with_name(f"{self._path.name}.{number}")

    def _is_current(self) -> bool:
        try:
            named = self._path.stat()
        except FileNotFoundError:
            return False
        return os.path.samestat(named, os.fstat(self._descriptor))


@dataclass(slots=True)
class _Warning:
    record: logging.LogRecord
    written_s: float
    repeat_count: int = 0


class _OneLineFormatter(logging.Formatter):
    """Formats a record as one line; a traceback is written to a file that the line names."""

    def format(self, record: logging.LogRecord) -> str:
        exc = record.exc_info[1] if record.exc_info else None
        if exc is None or logging.getLogger().isEnabledFor(logging.DEBUG):
            return super().format(record)
        short = copy(record)
        short.msg, short.args = f"{record.getMessage()}: {named_error(exc)}", ()
        short.exc_info, short.exc_text = None, None
        return super().format(short)


class AgentLog(logging.Handler):
    """Writes records as lines, and a repeated warning only once."""

    def __init__(
        self, write: Callable[[str], None], clock: Callable[[], float] = time.monotonic
    ) -> None:
        super().__init__()
        self._write = write
        self._clock = clock
        self._warnings: dict[tuple[str, int, str], _Warning] = {}

    def emit(self, record: logging.LogRecord) -> None:
        """Write a record, or count a repeated warning; an error of the formatting is not raised."""
        try:
            self._emit(record)
        except Exception:  # formatting calls methods of any argument
            self.handleError(record)

    def _emit(self, record: logging.LogRecord) -> None:
        if record.levelno < logging.WARNING:
            self._write(self._line(record))
            return
        now_s = self._clock()
        for line in self._overdue(now_s):
            self._write(line)
        key = (record.name, record.levelno, record.getMessage())
        if key in self._warnings:
            self._warnings[key].repeat_count += 1
            return
        if len(self._warnings) >= MAX_REMEMBERED:
            self._write_count(self._warnings.pop(next(iter(self._warnings))))
        self._write(self._line(record))
        self._warnings[key] = _Warning(record, now_s)

    def close(self) -> None:
        """Write the counts of repeated warnings."""
        for warning in self._warnings.values():
            self._write_count(warning)
        self._warnings.clear()
        super().close()

    def _overdue(self, now_s: float) -> Iterator[str]:
        """Lines with the counts of warnings older than `REPEAT_S`; these warnings are dropped."""
        for key, warning in list(self._warnings.items()):
            if now_s - warning.written_s >= REPEAT_S:
                del self._warnings[key]
                if warning.repeat_count:
                    yield self._count_line(warning)

    def _write_count(self, warning: _Warning) -> None:
        if warning.repeat_count:
            self._write(self._count_line(warning))

    def _count_line(self, warning: _Warning) -> str:
        repeated = copy(warning.record)
        repeated.msg = f"{repeated.getMessage()} … repeated {warning.repeat_count} times"
        repeated.args, repeated.exc_info, repeated.exc_text = (), None, None
        repeated.created = time.time()
        return self._line(repeated)

    def _line(self, record: logging.LogRecord) -> str:
        return printable(self.format(record), keep_lines=True)


def log_to_stderr(level: int) -> None:
    """Log to standard error."""

    def write(line: str) -> None:
        with contextlib.suppress(OSError, ValueError):  # the reader has closed it
            print(line, file=sys.stderr, flush=True)

    handler = AgentLog(write)
    handler.setFormatter(_OneLineFormatter(FORMAT))
    logging.basicConfig(level=level, handlers=[handler])


def log_to_file(path: Path) -> None:
    """Redirect the log and all other output of this process to a file.

    Raises:
        OSError: the file cannot be opened.
    """
    handler = AgentLog(LogFile(path, is_output=True).write)
    handler.setFormatter(_OneLineFormatter(FILE_FORMAT))
    root = logging.getLogger()
    for earlier in list(root.handlers):
        root.removeHandler(earlier)
        earlier.close()
    root.addHandler(handler)
