"""`edgebench show`."""

from __future__ import annotations

import argparse
import json
from typing import TYPE_CHECKING

from edgebench.host.cli.options import add_json, add_run, add_store, new_parser

if TYPE_CHECKING:
    from pathlib import Path

    from edgebench.host.store.layout import Store

DONE, INVALID = 0, 3


def parser() -> argparse.ArgumentParser:
    """The command's options."""
    made = new_parser("show", "Show one run, or one recording of a meter.")
    add_run(made)
    add_store(made)
    add_json(made)
    return made


def run(options: argparse.Namespace) -> int:
    """Show it; exit code 3 for a recording that cannot be trusted, as when it was made."""
    from edgebench.host.power.stored import find_session
    from edgebench.host.store.layout import Store

    store = Store(options.store)
    directory = find_session(store, options.run)
    return _run(options, store) if directory is None else _session(options, directory)


def _session(options: argparse.Namespace, directory: Path) -> int:
    from edgebench.host.power.stored import stored_session
    from edgebench.host.show.meters import print_session

    with stored_session(directory) as session:
        print_session(session, as_json=options.json)
        return INVALID if session.is_trusted is False else DONE


def _run(options: argparse.Namespace, store: Store) -> int:
    from edgebench.host.show.page import run_page
    from edgebench.host.show.tables import console
    from edgebench.protocol.errors import StoreError

    run_id = store.resolve(options.run)
    document = store.document(run_id)
    if options.json:
        print(json.dumps(document, indent=1))
    else:
        out = console()
        try:
            page = run_page(document, out.width)
        except (KeyError, TypeError, ValueError, AttributeError) as exc:
            raise StoreError(f"run {run_id} is damaged: {type(exc).__name__} {exc}") from exc
        out.print(page)
        out.print(str(store.directory(run_id)), soft_wrap=True)
    return DONE
