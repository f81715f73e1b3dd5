"""`edgebench show`."""

from __future__ import annotations

import argparse
import json

from edgebench.host.cli.options import add_json, add_store, new_parser


def parser() -> argparse.ArgumentParser:
    """The command's options."""
    made = new_parser("show", "Show one run.")
    made.add_argument("run", metavar="RUN", help="id of a run, a unique part of it, or last")
    add_store(made)
    add_json(made)
    return made


def run(options: argparse.Namespace) -> int:
    """Show it."""
    from edgebench.host.show.page import run_page
    from edgebench.host.show.tables import console
    from edgebench.host.store.layout import Store
    from edgebench.protocol.errors import StoreError

    store = Store(options.store)
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
    return 0
