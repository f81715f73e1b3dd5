"""`edgebench devices`."""

from __future__ import annotations

import argparse
import json

from edgebench.host.cli.options import add_json, new_parser, seconds
from edgebench.host.cli.watch import add_watch, run_watch
from edgebench.protocol.exit_code import ExitCode


def parser() -> argparse.ArgumentParser:
    """The command's options."""
    made = new_parser("devices", "List this machine, paired devices, and agents on the network.")
    made.add_argument(
        "--timeout",
        type=seconds,
        default=3.0,
        metavar="3s",
        help="longest time to listen (default: 3s)",
    )
    add_watch(made)
    add_json(made)
    return made


def run(options: argparse.Namespace) -> ExitCode:
    """List the devices."""
    if options.watch:
        return run_watch(as_json=options.json)
    from edgebench.host.lab import Lab
    from edgebench.host.show.devices import devices_table
    from edgebench.host.show.tables import console
    from edgebench.protocol.codec import to_plain

    devices = Lab().devices(options.timeout)
    if options.json:
        print(json.dumps({"devices": to_plain(tuple(devices))}, indent=1))
    else:
        console().print(devices_table(devices))
    return ExitCode.DONE
