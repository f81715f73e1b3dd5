"""`edgebench rm`, and the code that removes runs, which `edgebench prune` also uses."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence

from edgebench.host.cli.options import add_json, add_store, new_parser
from edgebench.system.exit_code import ExitCode

TYPE_CHECKING = False  # see edgebench.host
if TYPE_CHECKING:
    from edgebench.host.store.layout import Store
    from edgebench.host.store.set_aside import SetAsideRun


def parser() -> argparse.ArgumentParser:
    """Argument parser of `edgebench rm`."""
    made = new_parser("rm", "Permanently remove stored runs.")
    runs = "runs (id, unique part of an id, last, tag), sets (id) or runs that were set aside (id)"
    made.add_argument("runs", nargs="+", metavar="RUN", help=runs)
    add_yes(made)
    add_store(made)
    add_json(made)
    return made


def add_yes(parser: argparse.ArgumentParser) -> None:
    """Add --yes."""
    dry = "remove the runs; without this option, they are only listed, with their size"
    parser.add_argument("--yes", action="store_true", help=dry)


def run(options: argparse.Namespace) -> ExitCode:
    """Remove the runs with --yes; without --yes, only list the runs."""
    from edgebench.host.store.address import find_in_store
    from edgebench.host.store.layout import Store
    from edgebench.host.store.set_aside import runs_set_aside

    store = Store(options.store)
    aside = [run for run in runs_set_aside(store) if run.run_id in options.runs]
    aside_ids = {run.run_id for run in aside}
    stored = [name for name in options.runs if name not in aside_ids or store.has(name)]
    return remove(store, find_in_store(store, stored), aside, options)


def remove(
    store: Store, stored: Sequence[str], aside: Sequence[SetAsideRun], options: argparse.Namespace
) -> ExitCode:
    """Remove the runs if --yes is given; print the ids and the total size of the runs."""
    from edgebench.host.store.removal import remove_runs, size_bytes
    from edgebench.host.store.set_aside import remove_set_aside
    from edgebench.protocol.sizes import format_bytes

    total = size_bytes(store, stored) + sum(run.size_bytes for run in aside)
    aside_ids = [run.run_id for run in aside]
    run_ids = [*stored, *aside_ids]
    if options.yes:
        remove_runs(store, stored)
        remove_set_aside(store, aside_ids)
    if options.json:
        document = {"runs": run_ids, "size_bytes": total, "is_removed": options.yes}
        print(json.dumps(document, indent=1))
        return ExitCode.DONE
    verb = "removed" if options.yes else "would be removed"
    for run_id in run_ids:
        print(f"{verb}: {run_id}")
    runs = f"{len(run_ids)} run{'' if len(run_ids) == 1 else 's'}"
    print(f"{runs}, {format_bytes(total)}" + ("" if options.yes else "; to remove: --yes"))
    return ExitCode.DONE
