"""`edgebench rm`, and how it and `edgebench prune` remove runs."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence

from edgebench.host.cli.options import add_json, add_store, new_parser
from edgebench.protocol.exit_code import ExitCode

TYPE_CHECKING = False  # see edgebench.host
if TYPE_CHECKING:
    from edgebench.host.store.layout import Store


def parser() -> argparse.ArgumentParser:
    """The command's options."""
    made = new_parser("rm", "Remove stored runs for ever.")
    runs = "runs by id, unique part of it, last or tag; or sets by id"
    made.add_argument("runs", nargs="+", metavar="RUN", help=runs)
    add_yes(made)
    add_store(made)
    add_json(made)
    return made


def add_yes(parser: argparse.ArgumentParser) -> None:
    """--yes."""
    dry = "remove them; without it, they are only listed, with the space that they take"
    parser.add_argument("--yes", action="store_true", help=dry)


def run(options: argparse.Namespace) -> ExitCode:
    """Remove them, or say what would be removed."""
    from edgebench.host.store.address import find_in_store
    from edgebench.host.store.layout import Store

    store = Store(options.store)
    return remove(store, find_in_store(store, options.runs), options)


def remove(store: Store, run_ids: Sequence[str], options: argparse.Namespace) -> ExitCode:
    """Remove runs if the user said yes; print which they are and their size."""
    from edgebench.host.store.removal import remove_runs, size_bytes
    from edgebench.protocol.sizes import format_bytes

    total = size_bytes(store, run_ids)
    if options.yes:
        remove_runs(store, run_ids)
    if options.json:
        document = {"runs": list(run_ids), "size_bytes": total, "is_removed": options.yes}
        print(json.dumps(document, indent=1))
        return ExitCode.DONE
    verb = "removed" if options.yes else "would be removed"
    for run_id in run_ids:
        print(f"{verb}: {run_id}")
    runs = f"{len(run_ids)} run{'' if len(run_ids) == 1 else 's'}"
    print(f"{runs}, {format_bytes(total)}" + ("" if options.yes else "; to remove: --yes"))
    return ExitCode.DONE
