"""`edgebench serve`."""

from __future__ import annotations

import argparse
import json

from edgebench.host.cli.options import add_json, add_store, new_parser
from edgebench.system.exit_code import ExitCode
from edgebench.system.terminal import echo

TYPE_CHECKING = False  # see edgebench.host
if TYPE_CHECKING:
    from edgebench.host.serve.server import PageAddress


def parser() -> argparse.ArgumentParser:
    """Argument parser of `edgebench serve`."""
    made = new_parser(
        "serve",
        "Show devices, campaigns and runs on a live web page until Ctrl-C. The server only reads "
        "files and never contacts a device.",
    )
    where = "address to listen on (default: 127.0.0.1); any address other than loopback needs a "
    where += "token"
    made.add_argument("--host", default="127.0.0.1", metavar="ADDRESS", help=where)
    made.add_argument(
        "--port", type=int, default=7750, help="port; 0 selects a free port (default: 7750)"
    )
    token = "token that every request needs (default: none on loopback, else a new token)"
    made.add_argument("--token", help=token)
    add_store(made)
    add_json(made)
    return made


def run(options: argparse.Namespace) -> ExitCode:
    """Serve the page until Ctrl-C."""
    from edgebench.host.lab import Lab

    def ready(address: PageAddress) -> None:
        if options.json:
            document = {"url": address.url, "port": address.port, "token": address.token}
            print(json.dumps(document), flush=True)
        else:
            print(f"open {address.url}; Ctrl-C ends it", flush=True)
            echo(f"serving the store {lab.store.root} and the devices of this user")

    lab = Lab(options.store)
    lab.serve(ready, host=options.host, port=options.port, token=options.token)
    return ExitCode.DONE
