"""Tests the confinement of workers on this machine, in a temporary process without a model."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path

from edgebench.agent.confine.apply import Permissions, confine
from edgebench.agent.confine.landlock import AllowedPaths
from edgebench.protocol.errors import RemoteProtocolError
from edgebench.protocol.plain import to_plain
from edgebench.protocol.record import Confinement
from edgebench.system.python_report import read_report
from edgebench.system.python_start import python_command

TIMEOUT_S = 60.0
"""Longest time for Python to start and confine itself, on a slow board under load."""
_CPU_S = 60.0


def why_files_open(state: Path) -> str | None:
    """Why the code of a model could open files of the agent's user; None if it could not.

    Args:
        state: Directory of the agent, which contains its workers' directories.
    """
    try:
        with tempfile.TemporaryDirectory(dir=state, prefix="probe-") as folder:
            python = python_command("edgebench.agent.confine.probe", Path(folder).absolute())
            files = read_report(python, Confinement, timeout_s=TIMEOUT_S).files
    except (OSError, subprocess.SubprocessError, RemoteProtocolError):
        return "the confinement of files could not be tested"
    return None if files.is_applied else files.detail


def main(folder: str) -> None:
    """Confine this process as a worker with this directory, and print the result."""
    model = Path(folder) / "model"
    model.touch()
    work = Path(folder) / "work"
    work.mkdir()
    allowed = AllowedPaths(readable=(str(model),), writable=(str(work),))
    print(json.dumps(to_plain(confine(Permissions(allowed, _CPU_S)).record)))


if __name__ == "__main__":
    main(sys.argv[1])
