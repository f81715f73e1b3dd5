"""`edgebench verify`."""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import asdict

from edgebench.host.cli.options import add_json, add_store, new_parser


def parser() -> argparse.ArgumentParser:
    """The command's options."""
    made = new_parser("verify", "Compute a run again from its raw files and compare.")
    made.add_argument("run", metavar="RUN", help="id of a run, a unique part of it, or last")
    add_store(made)
    add_json(made)
    return made


def run(options: argparse.Namespace) -> int:
    """Verify it; exit code 1 when anything differs."""
    from edgebench.host.store.layout import Store
    from edgebench.host.store.verify import verify

    store = Store(options.store)
    run_id = store.resolve(options.run)
    differences = verify(store, run_id)
    if options.json:
        plain = [asdict(difference) for difference in differences]
        print(json.dumps({"run_id": run_id, "differences": plain}, indent=1, default=str))
    elif differences:
        files = f"{len(differences)} differences to its raw files"
        print(f"error: run {run_id} does not verify: {files}", file=sys.stderr)
        for found in differences:
            print(f"{found.key}: stored {found.stored!r}, computed {found.computed!r}")
    else:
        print(f"verified: {run_id}: every number follows from the raw files")
    return 1 if differences else 0
