"""The process of a command: how Ctrl-C ends it while it loads, and a reader that is gone.

An exception in the middle of an import ends in the words of the library that was being loaded, or
is swallowed there (`Exception ignored in …`). While a command loads, nothing is open that would
have to be closed. So until then, Ctrl-C ends the process without an exception.

Entry points import this module, and nothing else before it: what loads earlier is not protected.
"""

from __future__ import annotations

import errno
import os
import signal
import sys
from contextlib import suppress

from edgebench.protocol.exit_code import ExitCode

TYPE_CHECKING = False  # type checkers know this name; to import it from typing takes 2 ms
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType

INTERRUPTED = b"interrupted\n"


def exit_when_interrupted() -> None:
    """End with one line at Ctrl-C, at once; a process that ignores Ctrl-C goes on ignoring it."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _exit)


def raise_when_interrupted() -> None:
    """Raise KeyboardInterrupt at Ctrl-C from now on: there is something to close."""
    if signal.getsignal(signal.SIGINT) is _exit:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def exit_code_of(run: Callable[[], int]) -> int:
    """Run a command; its exit code, or that of an end which any command may have."""
    try:
        code = run()
        flush_output()
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return ExitCode.INTERRUPTED
    except BrokenPipeError:
        discard_output()  # the reader of our output is gone: nothing is left to say
        return ExitCode.NOT_READ
    except OSError as exc:
        discard_output()
        from edgebench.protocol.terminal import say  # nothing loads before Ctrl-C is guarded

        where = exc.filename or "standard output"
        say(f"error: not written or read: {exc.strerror or exc}: {where}")
        if exc.errno == errno.ENAMETOOLONG:
            say("hint: choose a shorter path: edgebench --help")
            return ExitCode.USAGE
        say("hint: see whether the disk is full: df -h")
        return ExitCode.FAILED
    return code


def flush_output() -> None:
    """Write what stdout still holds, while an error can still be told.

    Raises:
        OSError: it cannot be written; BrokenPipeError: nobody reads it.
    """
    if sys.stdout is not None:  # pyright: ignore[reportUnnecessaryComparison] `>&-` closes it
        sys.stdout.flush()


def discard_output() -> None:
    """Drop what stdout still holds: Python would complain at its end that nobody reads it."""
    with suppress(OSError):  # it may be closed, or no file
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _exit(number: int, frame: FrameType | None) -> None:
    del number, frame
    try:
        os.write(2, INTERRUPTED)
    finally:
        os._exit(ExitCode.INTERRUPTED)
