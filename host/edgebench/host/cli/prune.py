"""`edgebench prune`."""

from __future__ import annotations

import argparse

from edgebench.host.cli.options import add_json, add_store, new_parser
from edgebench.host.cli.rm import add_yes
from edgebench.host.options.values import moment, whole
from edgebench.system.exit_code import ExitCode


def parser() -> argparse.ArgumentParser:
    """Argument parser of `edgebench prune`."""
    made = new_parser("prune", "Permanently remove old stored runs.")
    age = (
        "remove runs that are older than this (90d), or were made before a date; includes runs "
        "set aside"
    )
    made.add_argument("--older-than", type=moment, metavar="90d", help=age)
    kept = "remove all runs except the newest N"
    made.add_argument("--keep-last", type=whole, metavar="N", help=kept)
    add_yes(made)
    add_store(made)
    add_json(made)
    return made


def run(options: argparse.Namespace) -> ExitCode:
    """Remove the runs with --yes; without --yes, only list the runs."""
    from edgebench.host.cli.rm import remove
    from edgebench.host.store.index import as_created_utc, list_runs
    from edgebench.host.store.layout import Store
    from edgebench.host.store.removal import outdated
    from edgebench.host.store.set_aside import runs_set_aside
    from edgebench.protocol.errors import UsageError

    if (options.older_than is None) == (options.keep_last is None):
        raise UsageError("expected either --older-than 90d or --keep-last N")
    if options.keep_last is not None and options.keep_last < 0:
        raise UsageError(f"--keep-last must be at least 0, got {options.keep_last}")
    before_utc = None if options.older_than is None else as_created_utc(options.older_than)
    store = Store(options.store)
    run_ids = outdated(list_runs(store), before_utc=before_utc, keep_last=options.keep_last)
    aside = [
        run for run in runs_set_aside(store) if before_utc and (run.made_utc or "~") < before_utc
    ]
    return remove(store, run_ids, aside, options)
