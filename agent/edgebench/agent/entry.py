"""Entry point of `edgebench-agent`: Ctrl-C ends it with one line from the first import on."""

from __future__ import annotations

from edgebench.protocol.command_process import exit_when_interrupted


def run() -> int:
    """Run the command line of this process; the exit code."""
    exit_when_interrupted()
    from edgebench.agent.cli import main

    code = main()
    exit_when_interrupted()  # everything is closed again
    return code
