"""Entry point of `edgebench-agent`; Ctrl-C ends it with a one-line message, even during imports."""

from __future__ import annotations

from edgebench.system.command_process import exit_when_interrupted, report_strays


def run() -> int:
    """Run the command line of this process and return the exit code."""
    exit_when_interrupted()
    report_strays()
    from edgebench.agent.cli import main

    code = main()
    exit_when_interrupted()  # all files and sockets are closed by now
    return code


if __name__ == "__main__":
    raise SystemExit(run())
