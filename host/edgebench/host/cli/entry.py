"""Entry point of `edgebench`; even during the imports, Ctrl-C ends the command with one line."""

from __future__ import annotations

import sys

try:
    from edgebench.system.command_process import exit_when_interrupted, report_strays
except ModuleNotFoundError:  # pip uninstalls it without a warning, though edgebench needs it
    sys.exit(
        "error: the package edgebench-agent is not installed\n"
        "hint: install the missing package: pip install edgebench"
    )


def run() -> int:
    """Run the command line of this process and return its exit code."""
    exit_when_interrupted()
    report_strays()
    from edgebench.host.cli.main import main

    code = main()
    exit_when_interrupted()  # nothing is open any more
    return code
