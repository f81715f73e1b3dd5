"""Runs the checks of `conformance` in a process that is confined like a worker.

The process runs this module with the arguments NAME MODEL DIRECTORY, and `open` if it must not be
confined. The last line of its output is the report.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from edgebench.agent.confine import AllowedPaths, Permissions, confine
from edgebench.agent.confine.paths import ACCELERATOR_DEVICES, READABLE_VARIABLE
from edgebench.agent.runtimes.registry import find_runtime
from edgebench.protocol.errors import RemoteProtocolError
from edgebench.protocol.plain import to_plain
from edgebench.system.python_report import read_report
from edgebench.system.python_start import python_command
from edgebench.system.variables import worker_environment

if TYPE_CHECKING:
    from edgebench.agent.conformance import ConformanceCheck, ConformanceReport

TIMEOUT_S = 300.0
"""Maximum time for all checks of a model."""
_OPEN = "open"


def check_runtime(name: str, model: Path) -> list[ConformanceCheck]:
    """Check the driver of this name with a model, in a process that is confined like a worker.

    Raises:
        RuntimeUnavailable: no driver has this name.
    """
    # Imported here: in the process, numpy starts threads, and only one thread can be confined.
    from edgebench.agent.conformance import ConformanceCheck, ConformanceOutcome

    def confinement(outcome: ConformanceOutcome, seen: str) -> ConformanceCheck:
        return ConformanceCheck("confinement", outcome, seen)

    find_runtime(name)
    confined = _run_apart(name, model)
    applied = confined.confinement
    if confined.has_loaded and applied is not None and applied.files.is_applied:
        text = f"the model loads and runs with restricted access to files: {applied.files.detail}"
        return [*confined.checks, confinement(ConformanceOutcome.PASS, text)]
    if confined.has_loaded:
        text = "access to files cannot be confined on this machine"
        return [*confined.checks, confinement(ConformanceOutcome.UNKNOWN, text)]
    unconfined = _run_apart(name, model, _OPEN)
    if not unconfined.has_loaded:
        text = "the model does not load without confinement either"
        return [*confined.checks, confinement(ConformanceOutcome.UNKNOWN, text)]
    text = (
        f"{confined.checks[0].seen}; without confinement, the runtime works; list the directories "
        f"of its libraries in {READABLE_VARIABLE}"
    )
    return [*unconfined.checks, confinement(ConformanceOutcome.FAIL, text)]


def _run_apart(name: str, model: Path, *options: str) -> ConformanceReport:
    """Run the checks in a process; if it fails, the report states that the model did not load."""
    from edgebench.agent.conformance import ConformanceCheck, ConformanceOutcome, ConformanceReport

    try:
        with TemporaryDirectory(prefix="edgebench-check-") as directory:
            python = python_command(
                *(
                    "edgebench.agent.conformance_process",
                    name,
                    str(model.absolute()),
                    directory,
                    *options,
                ),
                directory=directory,
                environment=worker_environment(os.environ, Path(directory)),
            )
            return read_report(python, ConformanceReport, timeout_s=TIMEOUT_S)
    except subprocess.TimeoutExpired:
        reason = f"the checks exceeded {TIMEOUT_S:.0f} s"
    except subprocess.CalledProcessError as exc:
        reason = f"the process that runs the checks crashed with status {exc.returncode}"
    except RemoteProtocolError as exc:
        reason = f"the process that runs the checks returned malformed output: {exc}"
    except OSError as exc:
        reason = f"the process that runs the checks did not start: {exc.strerror or exc}"
    return ConformanceReport((ConformanceCheck("load", ConformanceOutcome.FAIL, reason),))


def main(name: str, model: str, directory: str, *options: str) -> None:
    """Check a driver in this process, confined unless `options` has `open`; print the report."""
    applied = None
    if _OPEN not in options:
        paths = AllowedPaths(readable=(model,), writable=(directory,), devices=ACCELERATOR_DEVICES)
        confined = confine(Permissions(paths, cpu_s=TIMEOUT_S * (os.cpu_count() or 1)))
        applied, model = confined.record, confined.path(model)
        os.environ["TMPDIR"] = confined.path(directory)
    from edgebench.agent.conformance import ConformanceReport, check_driver

    checks = check_driver(find_runtime(name), model)
    print(json.dumps(to_plain(ConformanceReport(tuple(checks), applied))))
    sys.stdout.flush()
    os._exit(0)  # libraries crash during exit


if __name__ == "__main__":
    main(*sys.argv[1:])
