"""`edgebench pair`."""

from __future__ import annotations

import argparse

from edgebench.host.cli.options import new_parser
from edgebench.protocol.exit_code import ExitCode
from edgebench.protocol.text import printable


def parser() -> argparse.ArgumentParser:
    """The command's options."""
    made = new_parser("pair", "Pair with the agent that printed STRING (`edgebench-agent pair`).")
    made.add_argument("string", metavar="STRING", help="as in: edgebench://ADDRESS:PORT/PIN/SECRET")
    return made


def run(options: argparse.Namespace) -> ExitCode:
    """Pair with the agent."""
    from edgebench.host.lab import Lab

    device = Lab().pair(options.string)
    name = printable(device.name)
    print(f"paired with {name} ({device.endpoint.address})")
    print(f"next: edgebench bench --quick --on {name}")
    return ExitCode.DONE
