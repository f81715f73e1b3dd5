"""`edgebench runs`."""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict

from edgebench.host.cli.options import add_json, add_store, new_parser
from edgebench.protocol.exit_code import ExitCode


def parser() -> argparse.ArgumentParser:
    """The command's options."""
    made = new_parser("runs", "List the stored runs, oldest first.")
    add_store(made)
    add_json(made)
    return made


def run(options: argparse.Namespace) -> ExitCode:
    """List them."""
    from edgebench.host.show.tables import UNWATCHED, console, runs_table
    from edgebench.host.store.index import list_runs
    from edgebench.host.store.layout import Store

    store = Store(options.store)
    rows = list_runs(store)
    if options.json:
        print(json.dumps({"runs": [asdict(row) for row in rows]}, indent=1))
    elif rows:
        out = console()
        out.print(runs_table(rows, out.width))
        if any(row.unwatched for row in rows):
            print(f"{UNWATCHED} unwatched: edgebench show RUN tells what could not be read")
    else:
        print(f"no runs in {store.root}")
    return ExitCode.DONE
