"""Python processes of a fork that are forks as well, and so need no imports of their own.

In a forked program, `subprocess` forks where a command of `python_command` would start another
interpreter: an agent's workers, samplers and probes. The child runs the same launcher with the same
arguments, directory, variables, files and session, and its command line in /proc is that of the
process that it replaces. What it inherits besides is the memory of its parent.
"""

from __future__ import annotations

import atexit
import ctypes
import gc
import logging
import os
import random
import runpy
import signal
import subprocess
import sys
import tempfile
import threading
import traceback
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, NoReturn

from edgebench.system.python_start import INTERPRETER, LAUNCHER
from edgebench.system.variables import listed_variables

CHILDREN = (
    *("edgebench.agent.worker.main", "edgebench.agent.telemetry.sampler"),
    *("edgebench.agent.runtimes.registry", "edgebench.agent.confine.probe"),
)
"""Modules that are run in forks."""
AT_START = ("PYTHON", "LD_", "LC_", "LANG", "OMP_", "OPENBLAS_", "MKL_")
"""Variables that a process reads when it starts or imports: a fork's are those of its parent."""
PADDING = "-" * 4096
"""Argument of a process whose forks set their command line: room for their words."""
_ARGUMENTS = slice(45, 47)
"""Addresses of the begin and end of the command line, among the fields after the name.

Source: proc_pid_stat(5), arg_start and arg_end."""
_KEPT: list[object] = []
"""Objects of the parent, which must not be flushed, closed or freed here."""


def fork_children() -> None:
    """From now on, this process forks instead of starting Python for one of the modules."""
    at_start = _passed_at_start(os.environ)
    execute = vars(subprocess).get("_fork_exec")
    if execute is None:  # Python 3.10, where the children are started
        return

    def fork_or_execute(*arguments: Any) -> int:
        # Positions of the arguments: CPython 3.11 to 3.13, Modules/_posixsubprocess.c, fork_exec.
        words = [os.fsdecode(word) for word in arguments[0]]
        variables = _decoded(arguments[5])
        is_ours = tuple(words[:2]) == (INTERPRETER, LAUNCHER) and words[2] in CHILDREN
        if not (is_ours and _passed_at_start(variables) == at_start and _has_room(words)):
            return int(execute(*arguments))
        if pid := os.fork():
            return pid
        keep, directory, ends = arguments[3], arguments[4], arguments[6:14]
        files = (ends[0], ends[3], ends[5])  # what the child reads and writes
        is_session = bool(arguments[15])
        try:
            _leave_parent(words, variables, directory, is_session=is_session)
            _open_files(files, {*keep} - {ends[7]})  # the last reports errors before exec
            exit_fork(_run(words))
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(1)

    subprocess.__dict__["_fork_exec"] = fork_or_execute


def run_to_exit_code(run: Callable[[], object]) -> int:
    """Run a program; the exit code that Python would have."""
    try:
        code = run()
    except SystemExit as exc:
        code = exc.code
    except BaseException:
        traceback.print_exc()
        return 1
    if isinstance(code, str):
        print(code, file=sys.stderr)
    return code if isinstance(code, int) else int(isinstance(code, str))


def exit_fork(code: int) -> NoReturn:
    """End this process as Python ends, but free nothing of the memory that it shares."""
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def read_at_start(variables: Mapping[str, str]) -> dict[str, str]:
    """Variables that must be equal in a fork and its parent."""
    return {name: value for name, value in variables.items() if name.startswith(AT_START)}


def _passed_at_start(variables: Mapping[str, str]) -> dict[str, str]:
    """Those that are passed on to a process with a model."""
    return read_at_start(listed_variables(variables))


def _command_line(words: Sequence[str]) -> bytes:
    return b"".join(os.fsencode(word) + b"\0" for word in words)


def _place_of_command_line() -> tuple[int, int]:
    """Its address in memory, and its size in bytes."""
    fields = Path("/proc/self/stat").read_text().rpartition(")")[2].split()
    begin, end = map(int, fields[_ARGUMENTS])
    return begin, end - begin


def _has_room(words: Sequence[str]) -> bool:
    """Whether /proc can show this command line for a fork of this process."""
    return len(_command_line(words)) < _place_of_command_line()[1]


def _decoded(variables: Sequence[bytes] | None) -> dict[str, str]:
    if variables is None:
        return dict(os.environ)
    pairs = (os.fsdecode(variable).partition("=") for variable in variables)
    return {name: value for name, _, value in pairs}


def _leave_parent(
    words: Sequence[str], variables: Mapping[str, str], directory: Any, *, is_session: bool
) -> None:
    """Take nothing from the parent that a new process would not have, apart from its imports."""
    gc.freeze()  # an object of the parent that is collected here would close a file of this process
    if is_session:
        os.setsid()
    if directory is not None:
        os.chdir(directory)
    os.environ.clear()
    os.environ.update(variables)
    # numpy is imported for arrays only; at its import, each further thread of OpenBLAS polls for
    # 0.1 s, on a core that another test would use.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    tempfile.tempdir = None
    random.seed()
    signal.set_wakeup_fd(-1)
    for number in signal.valid_signals():
        if callable(signal.getsignal(number)):
            handler = signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL
            signal.signal(number, handler)
    atexit._clear()
    logging.root.handlers.clear()
    logging.root.setLevel(logging.WARNING)
    sys.excepthook, sys.unraisablehook = sys.__excepthook__, sys.__unraisablehook__
    threading.excepthook = threading.__excepthook__
    begin, size_bytes = _place_of_command_line()
    ctypes.memmove(begin, _command_line(words).ljust(size_bytes, b"\0"), size_bytes)


def _open_files(files: Sequence[int], keep: set[int]) -> None:
    for number, file in enumerate(files):
        if file != -1:
            os.dup2(file, number)
    for name in os.listdir("/proc/self/fd"):
        if int(name) > 2 and int(name) not in keep:
            with suppress(OSError):  # the list's own file
                os.close(int(name))
    _KEPT.extend((sys.stdin, sys.stdout, sys.stderr))
    sys.stdin = os.fdopen(0, closefd=False)
    sys.stdout = os.fdopen(1, "w", closefd=False)
    sys.stderr = os.fdopen(2, "w", buffering=1, errors="backslashreplace", closefd=False)


def _run(words: Sequence[str]) -> int:
    """Run the launcher and return the exit code."""
    module = words[2]
    _KEPT.append(sys.modules.pop(module, None))  # it is executed as the main module
    sys.orig_argv, sys.argv = list(words), [*words[1:]]
    sys.path.insert(0, os.path.dirname(LAUNCHER))
    return run_to_exit_code(partial(runpy.run_path, LAUNCHER, run_name="__main__"))
