"""Start of another Python interpreter without code from the user's directory.

A model is often measured in its download directory, and the other files there are as untrusted as
the model. `python -m` looks for modules in the working directory first, so a file `json.py` there
would run with the rights of the user. All code builds the command of an interpreter with
`python_command`; a test of the source tree rejects other ways.

    safe path   by `launcher/run_module.py`, because Python 3.10 has no `-P`
    directory   /, or a directory of edgebench, which contains no modules. A long-lived process
                then does not prevent the user's directory from being unmounted.
    variables   Empty entries of PYTHONPATH and of the loader's paths are removed. An empty entry
                means the working directory, and is usually a mistake (`$PYTHONPATH:/opt/lib` while
                PYTHONPATH is unset). Relative entries are made absolute. They refer to the user's
                directory, but the new process has another working directory. Variables that make
                an interpreter read commands are removed (PYTHONINSPECT, PYTHONSTARTUP).
"""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from dataclasses import dataclass
from pathlib import PurePath

TYPE_CHECKING = False  # to import it from typing takes 2 ms
if TYPE_CHECKING:
    from collections.abc import Mapping

INTERPRETER = sys.executable
"""Path of the interpreter of this process, and of all interpreters that it starts."""
LAUNCHER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "launcher", "run_module.py")
"""Script that starts the module in the new interpreter."""
PATH_VARIABLES = (
    *("PYTHONPATH", "PYTHONHOME", "PYTHONUSERBASE", "PYTHONPYCACHEPREFIX"),
    *("LD_LIBRARY_PATH", "LD_PRELOAD", "EDGEBENCH_READABLE", "EDGEBENCH_FIRMWARE"),
)
"""Variables with paths from which code is loaded.

An empty entry of PYTHONPATH or LD_LIBRARY_PATH means the working directory. Sources: Python,
"Command line and environment"; ld.so(8).
"""
INTERACTIVE_VARIABLES = ("PYTHONINSPECT", "PYTHONSTARTUP")
"""Variables that make an interpreter read commands from its standard input, or from a file."""


@dataclass(frozen=True, slots=True)
class PythonCommand:
    """Command of an interpreter; the caller has to pass all three fields to `subprocess`."""

    words: tuple[str, ...]
    """Path of the interpreter and its arguments."""
    directory: str | None
    """Working directory; None: the working directory of the process that starts the command."""
    environment: dict[str, str]
    """All environment variables of the interpreter."""


def python_command(
    module: str,
    *arguments: str | PurePath,
    directory: str | PurePath | None = "/",
    environment: Mapping[str, str] | None = None,
) -> PythonCommand:
    """The command that runs a module with the interpreter of this process.

    Args:
        module: Module to run, as for `python -m`.
        arguments: Arguments of the module. Unless `directory` is None, paths must be absolute,
            because the new process has another working directory.
        directory: Working directory; None: the present directory, for a short-lived module that
            takes relative paths from its user.
        environment: Environment variables; None: the variables of this process. In both cases,
            `safe_environment` is applied to them.
    """
    variables = os.environ if environment is None else environment
    return PythonCommand(
        words=(INTERPRETER, LAUNCHER, module, *(os.fspath(argument) for argument in arguments)),
        directory=None if directory is None else os.fspath(directory),
        environment=safe_environment(variables),
    )


def safe_environment(variables: Mapping[str, str]) -> dict[str, str]:
    """Environment variables, changed so that Python loads no code from the working directory.

    >>> safe_environment({"PYTHONPATH": ":/opt/lib:", "PYTHONINSPECT": "1", "HOME": "/home/ada"})
    {'PYTHONPATH': '/opt/lib', 'HOME': '/home/ada'}
    """
    safe = {name: variables[name] for name in variables if name not in INTERACTIVE_VARIABLES}
    for name in PATH_VARIABLES:
        if name in safe:
            safe[name] = _absolute_entries(name, safe[name])
            if not safe[name]:
                del safe[name]
    return safe


def _absolute_entries(name: str, value: str) -> str:
    """Make the entries of a search path absolute, so that it is valid in every directory."""
    separators = {"LD_LIBRARY_PATH": ":;", "LD_PRELOAD": ": "}.get(name, ":")
    absolute: list[str] = []
    for entry in filter(None, value.translate(dict.fromkeys(map(ord, separators), ":")).split(":")):
        is_name = name == "LD_PRELOAD" and "/" not in entry  # the loader searches for it
        if is_name or entry.startswith(("/", "$")):  # the loader expands $ORIGIN and $LIB
            absolute.append(entry)
            continue
        with suppress(OSError):  # the working directory was removed: the entry is meaningless
            absolute.append(os.path.abspath(entry))
    return ":".join(absolute)
