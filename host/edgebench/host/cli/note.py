"""`edgebench note`."""

from __future__ import annotations

import argparse

from edgebench.host.cli.options import add_json, add_store, new_parser
from edgebench.system.exit_code import ExitCode


def parser() -> argparse.ArgumentParser:
    """Argument parser of `edgebench note`."""
    made = new_parser("note", "Set the note of a stored run; a previous note is replaced.")
    names = "run (id, unique part of an id, last, tag) or set (id)"
    made.add_argument("run", metavar="RUN", help=names)
    made.add_argument("text", metavar="TEXT", help="one line; an empty text removes the note")
    add_store(made)
    add_json(made)
    return made


def run(options: argparse.Namespace) -> ExitCode:
    """Change the note; print the run's tags and note."""
    from dataclasses import replace

    from edgebench.host.cli.annotated import annotate_runs
    from edgebench.host.store.annotations import check_note

    note = check_note(options.text) or None
    return annotate_runs(options, [options.run], lambda found: replace(found, note=note))
