"""`edgebench note`."""

from __future__ import annotations

import argparse

from edgebench.host.cli.options import add_json, add_store, new_parser
from edgebench.system.exit_code import ExitCode


def parser() -> argparse.ArgumentParser:
    """The command's options."""
    made = new_parser("note", "Keep a note with a stored run, in place of the one that it has.")
    names = "run by id, unique part of it, last or tag; or set by id"
    made.add_argument("run", metavar="RUN", help=names)
    made.add_argument("text", metavar="TEXT", help="one line; an empty one removes the note")
    add_store(made)
    add_json(made)
    return made


def run(options: argparse.Namespace) -> ExitCode:
    """Change the note; print what the run has now."""
    from dataclasses import replace

    from edgebench.host.cli.annotated import annotate_runs
    from edgebench.host.store.annotations import check_note

    note = check_note(options.text) or None
    return annotate_runs(options, [options.run], lambda found: replace(found, note=note))
