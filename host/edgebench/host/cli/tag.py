"""`edgebench tag`."""

from __future__ import annotations

import argparse

from edgebench.host.cli.options import add_json, add_store, new_parser
from edgebench.host.options.values import names
from edgebench.system.exit_code import ExitCode

TYPE_CHECKING = False  # see edgebench.host
if TYPE_CHECKING:
    from edgebench.host.store.annotations import Annotations


def parser() -> argparse.ArgumentParser:
    """Argument parser of `edgebench tag`."""
    made = new_parser("tag", "Tag stored runs. Runs can be listed and selected by tag.")
    runs = "runs (id, unique part of an id, last, tag) or sets (id)"
    made.add_argument("runs", nargs="+", metavar="RUN", help=runs)
    made.add_argument(
        "tag", type=names, metavar="TAG", help="a word, or several separated by commas"
    )
    made.add_argument("--remove", action="store_true", help="remove the tag from the runs")
    add_store(made)
    add_json(made)
    return made


def run(options: argparse.Namespace) -> ExitCode:
    """Change the tags; print each run's tags and note."""
    from dataclasses import replace

    from edgebench.host.cli.annotated import annotate_runs
    from edgebench.host.store.annotations import check_tag

    tags = set(map(check_tag, options.tag))

    def change(found: Annotations) -> Annotations:
        kept = set(found.tags) - tags if options.remove else set(found.tags) | tags
        return replace(found, tags=tuple(sorted(kept)))

    return annotate_runs(options, options.runs, change)
