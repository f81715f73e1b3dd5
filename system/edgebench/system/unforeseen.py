"""Unforeseen exceptions: a single line for users, and a file with the traceback for developers.

Only the newest files are kept, and the size of each file is bounded. With EDGEBENCH_DEBUG set, the
traceback is printed on stderr as well. If the file cannot be written, for example on a full disk,
the line states the reason.

The arguments of the command are not written to the file, because they may contain a pairing string,
which is a secret.
"""

from __future__ import annotations

import errno
import os
import sys

from edgebench.protocol.distributions import AGENT_DISTRIBUTION
from edgebench.protocol.errors import (
    EdgebenchError,
    MeasurementError,
    OutOfMemory,
    SystemFailure,
    Unforeseen,
    UsageError,
)
from edgebench.protocol.text import one_line, printable
from edgebench.system.exit_code import ExitCode
from edgebench.system.installed import installed_version
from edgebench.system.paths import traceback_directory

TYPE_CHECKING = False  # see edgebench.system.command_process
if TYPE_CHECKING:
    from pathlib import Path

DEBUG_VARIABLE = "EDGEBENCH_DEBUG"
KEPT_FILES = 20
"""Maximum number of files per program; the oldest files are removed."""
_DENIED = {errno.EACCES, errno.EPERM, errno.EROFS}
"""Error numbers of the system for a file that the user may not open, create or change."""
MAX_FILE_BYTES = 2**18
"""Limit on the size of a file; the middle of a longer traceback, such as after an endless
recursion, is left out."""


def named_error(exc: BaseException, where: str = "") -> EdgebenchError:
    """Convert an exception to an error of edgebench; an `EdgebenchError` is returned unchanged.

    The function is called wherever an exception ends a command, process or thread of edgebench. If
    the exception is neither an error of edgebench nor an error of the operating system, its
    traceback is written to a file.

    Args:
        exc: The exception, with its traceback.
        where: Thread or task that the exception ended, such as `thread progress`; empty: the
            command.
    """
    if isinstance(exc, EdgebenchError):
        return exc
    if isinstance(exc, MemoryError):
        detail = _text_of(exc)
        place = f" for the {where}" if where else ""
        return OutOfMemory(f"not enough memory{place}" + (f": {detail}" if detail else ""))
    if isinstance(exc, OSError) and exc.errno is not None:
        place = printable(exc.filename or "standard output")
        text = f"cannot read or write {place}: {one_line(exc.strerror or exc)}"
        return SystemFailure(text, exc.errno)
    detail = _text_of(exc)
    text = f"unforeseen {type(exc).__name__}" + (f" in {where}" if where else "")
    text += f": {detail}" if detail else ""
    try:
        path = write_traceback(exc)
    except Exception as failure:  # the line is printed after any failure
        directory = traceback_directory(os.environ)
        reason = one_line(getattr(failure, "strerror", None) or failure)
        return Unforeseen(f"{text}; traceback not written to {directory}: {reason}", None)
    return Unforeseen(f"{text}; traceback: {path}", str(path))


def hint_for(error: EdgebenchError, program: str = "edgebench") -> str:
    """Advice for the user after an error that `named_error` returned."""
    if isinstance(error, SystemFailure) and error.number == errno.ENAMETOOLONG:
        return f"choose a shorter path: {program} --help"
    if isinstance(error, SystemFailure) and error.number in _DENIED:
        return "check its permissions: ls -ld"
    if isinstance(error, SystemFailure):
        return "check whether the disk is full: df -h"
    if isinstance(error, Unforeseen) and error.path is None:
        return f"repeat the command to see its traceback on stderr: {DEBUG_VARIABLE}=1 {program} …"
    if isinstance(error, Unforeseen):
        return f"report this error, with the traceback file and the output of: {program} --version"
    return f"list the commands and options: {program} --help"


def exit_code_for(error: EdgebenchError) -> ExitCode:
    """Exit code of a command that ended in an error."""
    if isinstance(error, SystemFailure) and error.number == errno.ENAMETOOLONG:
        return ExitCode.USAGE
    if isinstance(error, MeasurementError) and error.invalid is not None:
        return ExitCode.INVALID
    return ExitCode.USAGE if isinstance(error, UsageError) else ExitCode.FAILED


def write_traceback(exc: BaseException) -> Path:
    """Write the traceback of an exception to a new file, and return its path.

    Raises:
        OSError: the file cannot be written.
    """
    # Imported here: a command that succeeds does not need them.
    import platform
    import time
    from pathlib import Path

    program, version = _program(), installed_version(AGENT_DISTRIBUTION) or "not installed"
    lines = [
        f"{program}, {AGENT_DISTRIBUTION} {version}, Python {platform.python_version()}, "
        f"{platform.platform()}",
        time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "",
        traceback_of(exc),
    ]
    if os.environ.get(DEBUG_VARIABLE) and sys.stderr is not None:  # pyright: ignore[reportUnnecessaryComparison] `2>&-` closes it
        print(lines[-1], file=sys.stderr, flush=True)
    directory = Path(traceback_directory(os.environ))
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    content = _shortened("\n".join(lines).encode("utf-8", "replace"))
    stem = f"{program}-{time.strftime('%Y%m%dT%H%M%S', time.gmtime())}-{os.getpid()}"
    number = 0
    while (path := directory / f"{stem}-{number}.txt").exists():
        number += 1
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)
    _remove_oldest(directory, program)
    return path


def traceback_of(exc: BaseException) -> str:
    """Traceback of an exception and its causes, as Python prints it, in printable lines."""
    import traceback

    try:
        text = "".join(traceback.format_exception(type(exc), exc, exc.__traceback__))
    except Exception:  # the exception cannot be printed, or there is no memory left
        text = f"{type(exc).__name__}, which cannot be printed"
    return printable(text, keep_lines=True)


def _text_of(exc: BaseException) -> str:
    """Text of an exception in one line; empty if it has none."""
    try:
        return one_line(exc) if str(exc).strip() else ""
    except Exception:  # its `__str__` fails
        return ""


def _program() -> str:
    """Name of this process's program: `edgebench` if modules of the host are loaded."""
    return "edgebench" if "edgebench.host" in sys.modules else "edgebench-agent"


def _shortened(content: bytes) -> bytes:
    if len(content) <= MAX_FILE_BYTES:
        return content
    half = MAX_FILE_BYTES // 2
    return content[:half] + b"\n[...]\n" + content[-half:]


def _remove_oldest(directory: Path, program: str) -> None:
    """Remove the oldest files of a program; another process may remove them at the same time."""
    from contextlib import suppress

    kept: list[tuple[int, Path]] = []
    for path in directory.glob(f"{program}-[0-9]*.txt"):
        with suppress(FileNotFoundError):
            kept.append((path.stat().st_mtime_ns, path))
    for _, path in sorted(kept)[:-KEPT_FILES]:
        path.unlink(missing_ok=True)
