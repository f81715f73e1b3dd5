"""`edgebench changes`."""

from __future__ import annotations

import argparse
import json

from edgebench.host.cli.history import add_history_filter, add_level_gate
from edgebench.host.cli.options import add_json, add_store, new_parser
from edgebench.host.options.values import moment
from edgebench.system.exit_code import ExitCode
from edgebench.system.terminal import echo

TYPE_CHECKING = False  # see edgebench.host
if TYPE_CHECKING:
    from collections.abc import Sequence

    from edgebench.host.analysis.history.changes import LevelChange
    from edgebench.host.analysis.history.history import History


def parser() -> argparse.ArgumentParser:
    """Argument parser of `edgebench changes`."""
    about = (
        "List the level changes in the stored histories of metrics, the worst first, each with the "
    )
    about += "conditions that changed at the same time."
    made = new_parser("changes", about)
    since = "changes within this period (7d), or since a date (default: 7d)"
    made.add_argument("--since", type=moment, default="7d", metavar="7d", help=since)
    add_history_filter(made.add_argument_group("which histories (default: all)"))
    add_level_gate(made, "a level")
    add_store(made)
    add_json(made)
    return made


def run(options: argparse.Namespace) -> ExitCode:
    """Show the changes; with --fail-on, exit code 4 for a regression, 5 if inconclusive."""
    from edgebench.host.lab import Lab
    from edgebench.host.show.changes import change_document, change_lines, undecided
    from edgebench.host.show.tables import console
    from edgebench.host.store.history import newer_line
    from edgebench.host.store.index import RunFilter, as_created_utc

    lab = Lab(options.store)
    changes, histories = lab.changes(
        options.since,
        model=options.model,
        device=options.device,
        tag=options.tag,
        metric=options.metric,
        margin_ratio=options.fail_on,
    )
    if (newer := newer_line(lab.store, RunFilter(since=options.since))) is not None:
        echo(f"warning: {newer}")
    if options.json:
        document = {
            "since_utc": as_created_utc(options.since),
            "changes": list(map(change_document, changes)),
            "history_count": len(histories),
            "undecided_count": len(undecided(histories)),
        }
        print(json.dumps(document, indent=1))
    else:
        out = console()
        for line in change_lines(changes, histories):
            out.print(line, soft_wrap=not out.is_terminal)
    return ExitCode.DONE if options.fail_on is None else exit_code(changes, histories)


def exit_code(changes: Sequence[LevelChange], histories: Sequence[History]) -> ExitCode:
    """Exit code 4 if any change is a regression, else 5 if anything is inconclusive, else 0."""
    from edgebench.host.analysis.history.history import HistoryOutcome
    from edgebench.host.show.changes import undecided

    outcomes = {change.outcome for change in changes}
    if HistoryOutcome.WORSE in outcomes:
        return ExitCode.REGRESSION
    if HistoryOutcome.INCONCLUSIVE in outcomes or undecided(histories):
        return ExitCode.INCONCLUSIVE
    return ExitCode.DONE
