"""Entry point of `edgebench`: Ctrl-C ends it with one line from the first import on."""

from __future__ import annotations

import sys

try:
    from edgebench.system.command_process import exit_when_interrupted, report_strays
except ModuleNotFoundError:  # pip uninstalls it without a word about who needs it
    sys.exit(
        "error: the package edgebench-agent is not installed\n"
        "hint: install what is missing: pip install edgebench"
    )


def run() -> int:
    """Run the command line of this process; the exit code."""
    exit_when_interrupted()
    report_strays()
    from edgebench.host.cli.main import main

    code = main()
    exit_when_interrupted()  # everything is closed again
    return code
