"""Report of a short-lived Python process: the last line that it prints, as JSON.

It is used for code that may crash or hang: a runtime's library, a model, a mechanism of the kernel.
The caller writes the error message, because its subject depends on the caller.
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
        timeout_s: Time after which it is killed.
        stderr: Its standard error, as for `subprocess`; None: that of this process.

    Raises:
        OSError: the process cannot be started.
        TimeoutExpired: the process did not end in time.
        CalledProcessError: its exit status is not 0, or it was killed.
        RemoteProtocolError: its last line is not a report of this type.
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
