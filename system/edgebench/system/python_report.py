"""Report of a throw-away Python of ours: the last line that it prints, as JSON.

For what may crash or hang: a runtime's library, a model, a mechanism of the kernel. The caller
words the failure, as each has another subject.
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
    """Run a Python to its end; its report.

    Args:
        python: The command.
        kind: Type of the report.
        timeout_s: Time after which it is killed.
        stderr: Its standard error, as for `subprocess`; None: that of this process.

    Raises:
        OSError: it cannot be started.
        TimeoutExpired: it did not end in time.
        CalledProcessError: it ended with another status than 0, or was killed.
        RemoteProtocolError: its last line is no such report.
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
