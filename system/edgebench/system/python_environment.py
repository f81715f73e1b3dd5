"""Python environment of a command: the interpreter, libraries and settings of its measurements.

A local agent still runs for some seconds after the command that started it has ended. A command in
another virtual environment must not use this agent, because the agent has other runtimes and
variables.
"""

from __future__ import annotations

import hashlib
import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass

from edgebench.protocol.distributions import AGENT_DISTRIBUTION
from edgebench.system.installed import installed_version
from edgebench.system.python_start import INTERPRETER, safe_environment
from edgebench.system.variables import measured_variables

_LIBRARY_VARIABLES = (
    *("PYTHONPATH", "PYTHONHOME", "PYTHONUSERBASE", "PYTHONNOUSERSITE"),
    *("LD_LIBRARY_PATH", "LD_PRELOAD"),
)
"""Variables that decide which libraries are loaded."""


@dataclass(frozen=True, slots=True)
class PythonEnvironment:
    """Environment of a Python process."""

    interpreter: str
    """Path of the interpreter, for display."""
    libraries: str
    """Digest of the paths, packages and variables that decide which libraries are loaded."""
    settings: str
    """Digest of the variables that change measurements or name wired meters."""


def this_environment(variables: Mapping[str, str] | None = None) -> PythonEnvironment:
    """Environment of this process, and of every Python that it starts.

    Args:
        variables: Environment variables; None: the variables of this process.
    """
    known = measured_variables(safe_environment(os.environ if variables is None else variables))
    # Not the path of the interpreter: `python` and `python3` of a virtual environment are the same.
    places = (sys.prefix, sys.base_prefix, os.path.realpath(INTERPRETER), sys.version)
    packages = [place for place in sys.path if place.endswith("-packages")]
    libraries = {name: known.pop(name) for name in _LIBRARY_VARIABLES if name in known}
    agent = installed_version(AGENT_DISTRIBUTION) or "unknown"
    return PythonEnvironment(
        interpreter=INTERPRETER,
        libraries=_digest(*places, *packages, agent, *map(str, libraries.items())),
        settings=_digest(*map(str, known.items())),
    )


def _digest(*texts: str) -> str:
    return hashlib.sha256("\0".join(texts).encode("utf-8", "surrogateescape")).hexdigest()[:16]
