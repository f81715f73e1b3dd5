"""`edgebench compare`."""

from __future__ import annotations

import argparse

from edgebench.host.cli.failure import print_document
from edgebench.host.cli.options import add_json, add_option, add_store, new_parser
from edgebench.host.options.bench import JUDGEMENT
from edgebench.system.exit_code import ExitCode

TYPE_CHECKING = False  # see edgebench.host
if TYPE_CHECKING:
    from collections.abc import Sequence

    from edgebench.host.analysis.compare.runs import RunComparison
    from edgebench.host.cli.failure import ErrorEntry
    from edgebench.host.result.run import Run
    from edgebench.host.result.run_set import RunSet


def parser() -> argparse.ArgumentParser:
    """Argument parser of `edgebench compare`."""
    about = "Compare stored runs, baseline against candidate; the unit of analysis is the run."
    made = new_parser("compare", about)
    ids = "runs (id, unique part of an id, directory, bundle), sets (id) or tags"
    pairs = "; or, without --against, the id of the pairs that bench --against made"
    made.add_argument("baseline", nargs="+", metavar="BASELINE", help=ids + pairs)
    made.add_argument("--against", nargs="+", default=[], metavar="CANDIDATE", help=ids)
    for option in JUDGEMENT:
        add_option(made.add_argument, option)
    add_store(made)
    add_json(made)
    return made


def run(options: argparse.Namespace) -> ExitCode:
    """Compare; exit code 4 for a regression, 5 when the result is inconclusive."""
    from edgebench.host.analysis.run_set import choose_sets
    from edgebench.host.lab import Lab
    from edgebench.host.store.address import find_each

    lab = Lab(options.store)
    comparisons = lab.compare(
        options.baseline,
        options.against or None,
        metrics=options.metric,
        margin_ratio=options.fail_on,
        allowed=options.allow or (),
    )
    is_doubtful = any(
        comparison.verdicts.suspect_count or comparison.result.needed_count is not None
        for comparison in comparisons
    )
    names = [*options.baseline, *options.against] if is_doubtful and not options.json else []
    sets = choose_sets(address.run() for address in find_each(lab.store, names))
    report(comparisons, sets, is_json=options.json)
    return exit_code(comparisons)


def report(
    comparisons: Sequence[RunComparison],
    sets: Sequence[RunSet],
    *,
    is_json: bool,
    runs: Sequence[Run] | None = None,
    errors: Sequence[ErrorEntry] = (),
) -> None:
    """Print the comparisons; with JSON, also the runs measured for them and the failures.

    Args:
        comparisons: The comparisons.
        sets: The compared sets, whose verdicts are printed. If more runs are needed, the sets also
            determine the printed command that makes more runs. The sets may be omitted if every set
            is valid and has enough runs.
        is_json: Print a JSON document.
        runs: Runs measured for the comparisons; None if only stored runs are compared.
        errors: Errors of the runs that failed.
    """
    from edgebench.host.result.document import to_document
    from edgebench.host.show.comparisons import (
        comparison_lines,
        comparisons_table,
        more_runs_line,
    )
    from edgebench.host.show.tables import console, print_line
    from edgebench.host.show.verdict import verdict_lines
    from edgebench.protocol.plain import to_plain

    if is_json:
        document: dict[str, object] = {"comparisons": to_plain(tuple(comparisons))}
        if runs is not None:
            document["runs"] = [to_document(run) for run in runs]
            document["errors"] = list(errors)
        print_document(document)
        return
    out = console()
    out.print(comparisons_table(comparisons, out.width))
    verdicts = verdict_lines(sets)
    more = more_runs_line(comparisons, sets)
    more_lines = [] if more is None or more in verdicts else [more]
    for line in (*comparison_lines(comparisons), *more_lines, *verdicts):
        print_line(out, line)


def exit_code(comparisons: Sequence[RunComparison]) -> ExitCode:
    """Exit code 4 if any metric is worse, else 5 if any is inconclusive, else 0."""
    from edgebench.host.analysis.compare.comparison import ComparisonOutcome

    outcomes = {comparison.result.outcome for comparison in comparisons}
    if ComparisonOutcome.WORSE in outcomes:
        return ExitCode.REGRESSION
    if ComparisonOutcome.INCONCLUSIVE in outcomes:
        return ExitCode.INCONCLUSIVE
    return ExitCode.DONE
