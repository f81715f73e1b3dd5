"""`edgebench verify`."""

from __future__ import annotations

import argparse
import json
import shlex
import sys
from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING

from edgebench.host.cli.options import add_json, add_run, add_store, new_parser

if TYPE_CHECKING:
    from edgebench.host.store.verify import Difference


def parser() -> argparse.ArgumentParser:
    """The command's options."""
    about = "Compute a run, or a recording of a meter, again from its raw files and compare."
    made = new_parser("verify", about)
    add_run(made)
    add_store(made)
    add_json(made)
    return made


def run(options: argparse.Namespace) -> int:
    """Verify it; exit code 1 when anything differs."""
    from edgebench.host.power.stored import find_session
    from edgebench.host.store.layout import Store
    from edgebench.host.store.verify import verify, verify_session

    store = Store(options.store)
    directory = find_session(store, options.run)
    if directory is not None:
        differences = verify_session(directory)
        return _tell(options, differences, directory=str(directory))
    run_id = store.resolve(options.run)
    return _tell(options, verify(store, run_id), run_id=run_id)


def _tell(options: argparse.Namespace, differences: Sequence[Difference], **what: str) -> int:
    """The outcome of one run, or of one recording."""
    [(kind, name)] = what.items()
    if options.json:
        plain = [asdict(difference) for difference in differences]
        print(json.dumps({**what, "differences": plain}, indent=1, default=str))
    elif differences:
        count = len(differences)
        files = f"{count} difference{'s' if count != 1 else ''} to its raw files"
        named = f"run {name}" if kind == "run_id" else f"recording {name}"
        print(f"error: {named} does not verify: {files}", file=sys.stderr)
        for found in differences:
            print(f"{found.key}: stored {found.stored!r}, computed {found.computed!r}")
        print(f"hint: see what is stored: edgebench show {shlex.quote(name)}", file=sys.stderr)
    else:
        print(f"verified: {name}: every number follows from the raw files")
    return 1 if differences else 0
