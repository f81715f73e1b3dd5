"""How the process of a command ends: by an exception, or by Ctrl-C while it loads.

An exception that Ctrl-C raises during an import may appear as a message of the imported library, or
be suppressed there (`Exception ignored in …`). While a command loads, it has no open resources, so
Ctrl-C then ends the process at once, without an exception.

An unforeseen exception ends a command with a single line on stderr, like any other error, and its
traceback is written to a file (`unforeseen.py`). For an exception that ends a thread or finaliser,
a warning is printed.

Entry points import this module first, because Ctrl-C during an earlier import is not handled in
this way.
"""

from __future__ import annotations

import itertools
import os
import signal
import sys
from contextlib import suppress

from edgebench.system.exit_code import ExitCode

TYPE_CHECKING = False  # type checkers know this name; to import it from typing takes 2 ms
if TYPE_CHECKING:
    from collections.abc import Callable
    from threading import ExceptHookArgs
    from types import FrameType, TracebackType

INTERRUPTED = b"interrupted\n"
MAX_STRAY_LINES = 5
"""Maximum number of warnings about threads and finalisers in a process."""


def exit_when_interrupted() -> None:
    """Exit at once on Ctrl-C, with a single line; no effect in a process that ignores Ctrl-C."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _exit)


def raise_when_interrupted() -> None:
    """Raise KeyboardInterrupt on Ctrl-C from now on, because there are resources to close."""
    if signal.getsignal(signal.SIGINT) is _exit:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def exit_code_of(run: Callable[[], int], program: str = "edgebench") -> int:
    """Run a command; returns its exit code, or the code for an interrupt or an exception.

    Args:
        run: The command, which prints expected errors itself.
        program: Name of the program, for hints.
    """
    try:
        code = run()
        flush_output()
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return ExitCode.INTERRUPTED
    except BrokenPipeError:
        discard_output()
        return ExitCode.NOT_READ
    except Exception as exc:
        if isinstance(exc, OSError) and exc.filename is None:
            discard_output()
        # Imported here: modules that load before Ctrl-C is handled are not protected.
        from edgebench.system.terminal import echo, echo_hint
        from edgebench.system.unforeseen import exit_code_for, hint_for, named_error

        error = named_error(exc)
        echo(f"error: {error}")
        echo_hint(hint_for(error, program))
        return exit_code_for(error)
    return code


def report_strays() -> None:
    """Make Python report an exception outside of `exit_code_of` in a single line on stderr.

    Such an exception ends a thread, is ignored in a finaliser, or is not caught.
    """
    import threading

    counts = itertools.count(1)

    def warn(exc: BaseException, where: str) -> None:
        if next(counts) <= MAX_STRAY_LINES:
            _print_stray("warning", exc, where)

    def on_thread(args: ExceptHookArgs) -> None:
        if args.exc_value is not None and not isinstance(args.exc_value, SystemExit):
            warn(
                args.exc_value, "a thread" if args.thread is None else f"thread {args.thread.name}"
            )

    def on_finaliser(args: sys.UnraisableHookArgs) -> None:
        if args.exc_value is not None:
            warn(args.exc_value, "a finaliser")

    def on_process(
        kind: type[BaseException], exc: BaseException, trace: TracebackType | None
    ) -> None:
        del kind, trace
        _print_stray("interrupted" if isinstance(exc, KeyboardInterrupt) else "error", exc, "")

    threading.excepthook = on_thread
    sys.unraisablehook = on_finaliser
    sys.excepthook = on_process


def _print_stray(word: str, exc: BaseException, where: str) -> None:
    line = word
    if word != "interrupted":
        try:
            from edgebench.system.unforeseen import named_error

            line = f"{word}: {named_error(exc, where)}"
        except ImportError:  # imports fail while the interpreter exits
            line = f"{word}: unforeseen {type(exc).__name__}"
    with suppress(OSError, ValueError, AttributeError):  # stderr is closed, or None
        print(line, file=sys.stderr, flush=True)


def flush_output() -> None:
    """Write the buffer of stdout, while an error can still be reported.

    Raises:
        BrokenPipeError: the reader of stdout has closed it.
        OSError: stdout cannot be written.
    """
    if sys.stdout is not None:  # pyright: ignore[reportUnnecessaryComparison] `>&-` closes it
        sys.stdout.flush()


def discard_output() -> None:
    """Redirect stdout to /dev/null, because Python's attempt to write it at exit would fail."""
    with suppress(OSError):  # it may be closed, or have no file descriptor
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _exit(number: int, frame: FrameType | None) -> None:
    del number, frame
    try:
        os.write(2, INTERRUPTED)
    finally:
        os._exit(ExitCode.INTERRUPTED)
