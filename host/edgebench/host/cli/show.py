"""`edgebench show`."""

from __future__ import annotations

import argparse
import json

from edgebench.host.cli.options import add_json, add_run, add_store, new_parser
from edgebench.protocol.exit_code import ExitCode

TYPE_CHECKING = False  # see edgebench.host
if TYPE_CHECKING:
    from pathlib import Path

    from edgebench.host.store.layout import Store


def parser() -> argparse.ArgumentParser:
    """The command's options."""
    made = new_parser("show", "Show one run, one set of runs, or one recording of an energy meter.")
    add_run(made)
    add_store(made)
    add_json(made)
    return made


def run(options: argparse.Namespace) -> ExitCode:
    """Show it; exit code 3 for a recording that cannot be trusted, as when it was made."""
    from edgebench.host.store.layout import Store
    from edgebench.host.store.sessions import find_session

    store = Store(options.store)
    directory = find_session(store, options.run)
    return _run(options, store) if directory is None else _session(options, directory)


def _session(options: argparse.Namespace, directory: Path) -> ExitCode:
    from edgebench.host.power.stored import stored_session
    from edgebench.host.show.meters import print_session

    with stored_session(directory) as session:
        print_session(session, as_json=options.json)
        return ExitCode.INVALID if session.is_trusted is False else ExitCode.DONE


def _set(options: argparse.Namespace, store: Store) -> ExitCode:
    from edgebench.host.analysis.run_set import find_set
    from edgebench.host.show.set_page import set_document, set_page
    from edgebench.host.show.tables import console
    from edgebench.host.store.address import find_runs

    one = find_set([found.run() for found in find_runs(store, options.run)])
    if options.json:
        print(json.dumps(set_document(one), indent=1))
    else:
        out = console()
        out.print(set_page(one, out.width))
    return ExitCode.DONE


def _run(options: argparse.Namespace, store: Store) -> ExitCode:
    from edgebench.host.result.facts import SET_PREFIX
    from edgebench.host.show.page import run_page
    from edgebench.host.show.tables import console
    from edgebench.host.store.address import find_run
    from edgebench.host.store.annotations import read_annotations

    if options.run.startswith(SET_PREFIX):
        return _set(options, store)
    found = find_run(store, options.run)
    if options.json:
        print(json.dumps(found.document(), indent=1))
        return ExitCode.DONE
    out = console()
    out.print(run_page(found.run(), out.width, read_annotations(found.directory)))
    out.print(str(found.directory), soft_wrap=True)
    return ExitCode.DONE
