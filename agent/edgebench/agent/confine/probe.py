"""Confinement of workers on this machine, tried in a throw-away process before there is a model."""

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
"""Longest time for a Python that starts and confines itself, on a slow board under load."""
_CPU_S = 60.0


def why_files_open(state: Path) -> str | None:
    """Why the code of a model could open the files of this agent's user; None: it could not.

    Args:
        state: Directory of the agent, in which its workers have theirs.
    """
    try:
        with tempfile.TemporaryDirectory(dir=state, prefix="probe-") as folder:
            python = python_command("edgebench.agent.confine.probe", Path(folder).absolute())
            files = read_report(python, Confinement, timeout_s=TIMEOUT_S).files
    except (OSError, subprocess.SubprocessError, RemoteProtocolError):
        return "whether a model is kept from files could not be tried"
    return None if files.is_applied else files.detail


def main(folder: str) -> None:
    """Confine this process as a worker with this directory, and print what was applied."""
    model = Path(folder) / "model"
    model.touch()
    work = Path(folder) / "work"
    work.mkdir()
    allowed = AllowedPaths(readable=(str(model),), writable=(str(work),))
    print(json.dumps(to_plain(confine(Permissions(allowed, _CPU_S)).record)))


if __name__ == "__main__":
    main(sys.argv[1])
