"""`edgebench compare`."""

from __future__ import annotations

import argparse
import json
from typing import TYPE_CHECKING, Any

from edgebench.host.cli.options import Add, add_json, add_store, new_parser, percent

if TYPE_CHECKING:
    from collections.abc import Sequence

    from edgebench.host.analysis.compare.runs import Compared


def parser() -> argparse.ArgumentParser:
    """The command's options."""
    made = new_parser("compare", "Compare stored runs, side against side; the unit is the run.")
    made.add_argument(
        "baseline", nargs="+", metavar="BASELINE", help="ids of runs, or parts of them"
    )
    made.add_argument(
        "--against", nargs="+", required=True, metavar="CANDIDATE", help="ids of runs"
    )
    add_judgement(made.add_argument)
    add_store(made)
    add_json(made)
    return made


def add_judgement(add: Add) -> None:
    """--metric, --fail-on and --allow."""
    metric = "number in run.json, under metrics, or energy_j (default: what the scenario is about)"
    add("--metric", action="append", metavar="M", help=metric + "; may be repeated")
    add("--fail-on", type=percent, metavar="3%", help="changes smaller than this do not matter")
    add(
        "--allow",
        action="append",
        metavar="KEY",
        help="compare although the sides differ in this, as runtime_version; may be repeated",
    )


def run(options: argparse.Namespace) -> int:
    """Compare; exit code 4 for a regression, 5 when nothing can be said."""
    from edgebench.host.lab import Lab

    lab = Lab(options.store)
    found = lab.compare(
        options.baseline,
        options.against,
        metrics=options.metric,
        margin_ratio=options.fail_on,
        allowed=options.allow or (),
    )
    report(found, is_json=options.json)
    return exit_code(found)


def report(
    found: Sequence[Compared],
    *,
    is_json: bool,
    documents: Sequence[dict[str, Any]] | None = None,
) -> None:
    """Print what was found; with the documents of runs that were made for it."""
    from edgebench.host.show.comparisons import comparison_lines, comparisons_table
    from edgebench.host.show.tables import console
    from edgebench.protocol.codec import to_plain

    if is_json:
        runs = {} if documents is None else {"runs": list(documents)}
        print(json.dumps(runs | {"comparisons": to_plain(tuple(found))}, indent=1))
        return
    out = console()
    out.print(comparisons_table(found, out.width))
    for line in comparison_lines(found):
        print(line)


def exit_code(found: Sequence[Compared]) -> int:
    """4 when anything is worse, else 5 when anything is undecided, else 0."""
    from edgebench.host.analysis.compare.comparison import ComparisonOutcome
    from edgebench.host.cli import main as codes

    outcomes = {compared.result.outcome for compared in found}
    if ComparisonOutcome.WORSE in outcomes:
        return codes.REGRESSION
    if ComparisonOutcome.INCONCLUSIVE in outcomes:
        return codes.INCONCLUSIVE
    return codes.DONE
