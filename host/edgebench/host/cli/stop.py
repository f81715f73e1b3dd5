"""`edgebench stop`."""

from __future__ import annotations

import argparse
import json
import shlex

from edgebench.host.cli.options import add_json, new_parser
from edgebench.protocol.text import printable
from edgebench.system.exit_code import ExitCode


def parser() -> argparse.ArgumentParser:
    """Argument parser of `edgebench stop`."""
    made = new_parser(
        "stop", "Stop your run on a device, even if the command that started it was killed."
    )
    made.add_argument("--on", default="local", metavar="DEVICE", help="device (default: local)")
    add_json(made)
    return made


def run(options: argparse.Namespace) -> ExitCode:
    """Stop the run; exit code 0 even if no run is in progress."""
    from edgebench.host.lab import Lab

    stopped = Lab().stop(options.on)
    device = printable(options.on)
    if options.json:
        print(json.dumps({"device": options.on, "stopped": stopped}, indent=1))
    elif stopped is None:
        print(f"no run of yours is in progress on {device}")
    else:
        # Print what was stopped, and that the command itself continues with its next run.
        run_id = printable(stopped)
        from edgebench.host.show.tables import console, print_line

        out = console()
        for line in (
            f"stopped: run {run_id} on {device}; its measurements are on the device",
            "only this run was stopped. If the command that started the run is still running, "
            "the command collects the run and starts the next; to end the command, press Ctrl-C "
            "in its terminal",
            f"next, if no command collects the run: edgebench collect --on {shlex.quote(device)}",
        ):
            print_line(out, line)
    return ExitCode.DONE
