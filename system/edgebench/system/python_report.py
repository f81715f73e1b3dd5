"""Report of a short-lived Python process, which prints it as JSON in its last line.

Code that may crash or hang runs in such a process: a runtime's library, a model, a mechanism of the
kernel. The caller writes the error message, because only the caller can name the failed operation.
"""

from __future__ import annotations

import json
import subprocess
from typing import TypeVar

from edgebench.protocol.errors import RemoteProtocolError
from edgebench.protocol.plain import from_plain
from edgebench.protocol.text import one_line
from edgebench.system.python_start import PythonCommand

_T = TypeVar("_T")


def read_report(
    python: PythonCommand,
    kind: type[_T],
    *,
    timeout_s: float,
    stderr: int | None = subprocess.DEVNULL,
) -> _T:
    """Run a Python process to its end, and return its report.

    Args:
        python: The command.
        kind: Type of the report.
        timeout_s: Time after which the process is killed.
        stderr: Standard error of the process, as for `subprocess`; None: the standard error of the
            calling process.

    Raises:
        OSError: the process cannot be started.
        TimeoutExpired: the process did not end in time.
        CalledProcessError: the exit status is not 0, or the process was killed.
        RemoteProtocolError: the last line is not a report of this type.
    """
    ended = subprocess.run(
        python.words,
        cwd=python.directory,
        env=python.environment,
        stdout=subprocess.PIPE,
        stderr=stderr,
        timeout=timeout_s,
        check=True,
    )
    lines = ended.stdout.splitlines()
    if not lines:
        raise RemoteProtocolError(f"not a {kind.__name__}: no output")
    try:
        plain = json.loads(lines[-1])
    except (ValueError, RecursionError) as exc:
        raise RemoteProtocolError(f"not a {kind.__name__}: {one_line(exc)}") from exc
    return from_plain(plain, kind)
