"""`edgebench verify`."""

from __future__ import annotations

import argparse
import json
import shlex
import sys
from dataclasses import asdict

from edgebench.host.cli.options import add_json, add_run, add_store, new_parser
from edgebench.protocol.exit_code import ExitCode

TYPE_CHECKING = False
if TYPE_CHECKING:
    from edgebench.host.store.layout import Store


def parser() -> argparse.ArgumentParser:
    """The command's options."""
    about = "Recompute a run, or a meter's recording, from its raw files, and compare."
    made = new_parser("verify", about)
    add_run(made)
    rejudge = "print the run as today's statistics and rules make it; nothing is stored"
    made.add_argument("--rejudge", action="store_true", help=rejudge)
    add_store(made)
    add_json(made)
    return made


def run(options: argparse.Namespace) -> ExitCode:
    """Verify it; exit code 1 when anything differs."""
    from edgebench.host.bench.verify import verify, verify_session
    from edgebench.host.store.layout import Store
    from edgebench.host.store.sessions import find_session
    from edgebench.protocol.errors import UsageError

    store = Store(options.store)
    directory = find_session(store, options.run)
    if options.rejudge:
        if directory is not None:
            raise UsageError(f"a recording has no verdict to judge again: {options.run}")
        return _rejudge(store, store.resolve(options.run), as_json=options.json)
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


def _rejudge(store: Store, run_id: str, *, as_json: bool) -> ExitCode:
    """Print the run as it would be stored today, and what its stored verdict was."""
    from edgebench.host.analysis.run_set import alone
    from edgebench.host.bench.verify import rejudge
    from edgebench.host.result.document import to_document
    from edgebench.host.show.page import run_page
    from edgebench.host.show.tables import console, verdict_lines

    today, stored = rejudge(store, run_id), store.run(run_id)
    if as_json:
        print(json.dumps(to_document(today), indent=1))
        return ExitCode.DONE
    out = console()
    out.print(run_page(today, out.width))
    print(f"stored: {stored.verdict.label}; today: {today.verdict.label}")
    for line in verdict_lines(alone(today)):
        print(line)
    return ExitCode.DONE
