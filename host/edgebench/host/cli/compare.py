"""`edgebench compare`."""

from __future__ import annotations

import argparse
import shlex

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


def parser() -> argparse.ArgumentParser:
    """Argument parser of `edgebench compare`."""
    about = "Compare stored runs, baseline against candidate; the unit of analysis is the run."
    made = new_parser("compare", about)
    ids = "runs (id, unique part of an id, directory, bundle), sets (id) or tags"
    pairs = "; or the pairs of edgebench bench --against, by id and without a candidate"
    made.add_argument("baseline", nargs="+", metavar="BASELINE", help=ids + pairs)
    made.add_argument("--against", nargs="+", default=[], metavar="CANDIDATE", help=ids)
    for option in JUDGEMENT:
        add_option(made.add_argument, option)
    add_store(made)
    add_json(made)
    return made


def run(options: argparse.Namespace) -> ExitCode:
    """Compare; exit code 4 for a regression, 5 when the result is inconclusive."""
    from edgebench.host.lab import Lab

    comparisons = Lab(options.store).compare(
        options.baseline,
        options.against or None,
        metrics=options.metric,
        margin_ratio=options.fail_on,
        allowed=options.allow or (),
    )
    names = [*options.baseline, *options.against]
    names += ["--store", str(options.store)] if options.store else []
    report(comparisons, is_json=options.json, run_names=shlex.join(names))
    return exit_code(comparisons)


def report(
    comparisons: Sequence[RunComparison],
    *,
    is_json: bool,
    run_names: str = "",
    runs: Sequence[Run] | None = None,
    errors: Sequence[ErrorEntry] = (),
) -> None:
    """Print the comparisons; with JSON, also the runs measured for them and the failures.

    Args:
        comparisons: The comparisons.
        is_json: Print a JSON document.
        run_names: Arguments of `edgebench show` for their runs; empty: the id of the pairs.
        runs: Runs measured for the comparisons; None if the runs were stored before.
        errors: Failures of other runs.
    """
    from edgebench.host.result.document import to_document
    from edgebench.host.show.comparisons import comparison_lines, comparisons_table
    from edgebench.host.show.tables import console, print_line
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
    for line in comparison_lines(comparisons, run_names):
        print_line(out, line)


def exit_code(comparisons: Sequence[RunComparison]) -> ExitCode:
    """4 when any metric is worse, else 5 when any is inconclusive, else 0."""
    from edgebench.host.analysis.compare.comparison import ComparisonOutcome

    outcomes = {comparison.result.outcome for comparison in comparisons}
    if ComparisonOutcome.WORSE in outcomes:
        return ExitCode.REGRESSION
    if ComparisonOutcome.INCONCLUSIVE in outcomes:
        return ExitCode.INCONCLUSIVE
    return ExitCode.DONE
