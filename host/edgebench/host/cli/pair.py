"""`edgebench pair`."""

from __future__ import annotations

import argparse

from edgebench.host.cli.options import new_parser


def parser() -> argparse.ArgumentParser:
    """The command's options."""
    made = new_parser("pair", "Pair with the agent that printed STRING (`edgebench-agent pair`).")
    made.add_argument("string", metavar="STRING", help="edgebench://ADDRESS:PORT/PIN/SECRET")
    return made


def run(options: argparse.Namespace) -> int:
    """Pair."""
    from edgebench.host.lab import Lab

    device = Lab().pair(options.string)
    print(f"paired with {device.name} ({device.addresses[0]}:{device.port})")
    print(f"next: edgebench bench --quick --on {device.name}")
    return 0
