"""`edgebench pair`."""

from __future__ import annotations

import argparse
import sys

from edgebench.host.cli.options import new_parser
from edgebench.protocol.text import printable
from edgebench.system.exit_code import ExitCode
from edgebench.system.terminal import echo

TYPE_CHECKING = False  # see edgebench.host
if TYPE_CHECKING:
    from edgebench.host.devices.files import KnownDevice


def parser() -> argparse.ArgumentParser:
    """Argument parser of `edgebench pair`."""
    made = new_parser("pair", "Pair with the agent that printed STRING (`edgebench-agent pair`).")
    made.add_argument("string", metavar="STRING", help="as in: edgebench://ADDRESS:PORT/PIN/SECRET")
    which = made.add_mutually_exclusive_group()
    replaced = "the device is known but was set up again: keep its name, labels and history"
    which.add_argument("--replace", action="store_true", help=replaced)
    added = "the device is new, and looks like a known device only because its SD card is a copy"
    which.add_argument("--add", action="store_true", help=added)
    return made


def run(options: argparse.Namespace) -> ExitCode:
    """Pair with the agent."""
    from edgebench.host.lab import Lab
    from edgebench.protocol.errors import BoardKnown

    def decide(known: KnownDevice, is_certain: bool) -> bool:
        if options.replace or options.add:
            return bool(options.replace)
        what = "is on the board" if is_certain else "has the machine id"
        text = (
            f"agent has a new certificate, but {what} of {known.name!r}, and {known.name!r} "
            "does not respond"
        )
        if not (sys.stdin.isatty() and sys.stderr.isatty()):
            raise BoardKnown(text)
        question = f"{text}. Replace {known.name!r}, keeping name, labels and history? [y/N]"
        echo(question, end=" ")
        if sys.stdin.readline().strip().lower() in ("y", "yes"):
            return True
        echo("note: pairing as a new device")
        return False

    device = Lab().pair(options.string, decide)
    name = printable(device.name)
    print(f"paired with {name} ({device.endpoint.address})")
    print(f"next: edgebench bench --quick --on {name}")
    return ExitCode.DONE
