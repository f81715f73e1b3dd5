"""`edgebench verify`."""

from __future__ import annotations

import argparse
import json
import shlex
import sys
from dataclasses import asdict

from edgebench.host.cli.options import add_json, add_run, add_store, new_parser
from edgebench.protocol.exit_code import ExitCode


def parser() -> argparse.ArgumentParser:
    """The command's options."""
    about = "Recompute a run, or a meter's recording, from its raw files, and compare."
    made = new_parser("verify", about)
    add_run(made)
    add_store(made)
    add_json(made)
    return made


def run(options: argparse.Namespace) -> ExitCode:
    """Verify it; exit code 1 when anything differs."""
    from edgebench.host.bench.verify import verify, verify_session
    from edgebench.host.store.layout import Store
    from edgebench.host.store.sessions import find_session

    store = Store(options.store)
    directory = find_session(store, options.run)
    if directory is None:
        key, name = "run_id", store.resolve(options.run)
        what, differences = f"run {name}", verify(store, name)
    else:
        key, name = "directory", str(directory)
        what, differences = f"recording {name}", verify_session(directory)
    if options.json:
        plain = [asdict(difference) for difference in differences]
        print(json.dumps({key: name, "differences": plain}, indent=1, default=str))
    elif differences:
        count = len(differences)
        files = f"{count} difference{'s' if count != 1 else ''} to its raw files"
        print(f"error: {what} does not verify: {files}", file=sys.stderr)
        for difference in differences:
            print(
                f"{difference.key}: stored {difference.stored!r}, computed {difference.computed!r}"
            )
        print(f"hint: see what is stored: edgebench show {shlex.quote(name)}", file=sys.stderr)
    else:
        print(f"verified: {name}: every number follows from the raw files")
    return ExitCode.FAILED if differences else ExitCode.DONE
