"""Report of `edgebench bench` and `edgebench collect`, with runs, failures and the next step."""

from __future__ import annotations

import argparse
import shlex
from dataclasses import replace
from pathlib import Path

from edgebench.host.cli.failure import print_document
from edgebench.host.cli.formats import TEXT_FORMATS, print_runs
from edgebench.host.cli.options import format_of, is_quiet
from edgebench.system.exit_code import ExitCode
from edgebench.system.terminal import echo, echo_hint

TYPE_CHECKING = False  # see edgebench.host
if TYPE_CHECKING:
    from collections.abc import Sequence

    from edgebench.host.analysis.occasions import NextTime
    from edgebench.host.cli.failure import ErrorEntry
    from edgebench.host.cli.progress import ProgressWatcher, RunFailure
    from edgebench.host.lab import Lab
    from edgebench.host.result.run_set import RunSet
    from edgebench.protocol.errors import EdgebenchError

MAX_NAMED = 6
"""Maximum number of sets named in the next step, to keep its line short."""


def report_runs(
    options: argparse.Namespace,
    lab: Lab | None,
    watcher: ProgressWatcher,
    *,
    ended_by: EdgebenchError | None = None,
) -> None:
    """Print the runs and the failures.

    Args:
        options: Options of the command.
        lab: The lab; None if it could not be opened.
        watcher: Watcher of the measurement.
        ended_by: Error that ended the command. With `--json`, the error is part of the document;
            without `--json`, the caller prints the error.
    """
    from edgebench.host.analysis.run_set import find_sets
    from edgebench.host.export.exported import ExportedRun
    from edgebench.host.result.document import to_document
    from edgebench.host.show.headline import headlines
    from edgebench.host.show.ratios import ratio_lines
    from edgebench.host.show.set_page import set_document
    from edgebench.host.store.occasions import next_time_of

    runs = watcher.runs
    sets = find_sets(runs)

    def expected(run_set: RunSet) -> NextTime | None:
        return None if lab is None else next_time_of(lab.store, run_set)

    failures = [*watcher.failures, *([watcher.failure(ended_by)] if ended_by else [])]
    if options.json:
        document = {
            "runs": [to_document(run) for run in runs],
            "sets": [
                set_document(run_set, expected(run_set)) for run_set in sets if run_set.set_id
            ],
            "headlines": [headline.document for headline in headlines(sets)],
            "errors": [failure_entry(failure, options) for failure in failures],
        }
        print_document(document)
    elif runs and (form := format_of(options)) in TEXT_FORMATS and lab is not None:
        print_runs([ExportedRun(run, lab.store.directory(run.run_id)) for run in runs], form)
    elif runs:
        next_times = [expected(run_set) for run_set in sets]
        _print_tables(watcher, sets, next_times, is_quiet=is_quiet(options))
    for line in ratio_lines(sets):
        watcher.echo(line)
    watcher.show_doubts(sets)
    for headline in headlines(sets):
        watcher.echo(headline.line)
    _print_failures(watcher)
    if watcher.failures:
        echo_hint(_hint(watcher.failures[-1], options))
    if lab is not None and runs and not options.json:
        if not is_quiet(options):
            echo(f"results: {lab.store.runs}")
        print_next_step(options, sets)


def _print_tables(
    watcher: ProgressWatcher,
    sets: Sequence[RunSet],
    next_times: Sequence[NextTime | None],
    *,
    is_quiet: bool,
) -> None:
    """Print the table of the sets with its marks and notes, then operators and heat of each run."""
    from edgebench.host.show.notes import note_lines
    from edgebench.host.show.page import heat_lines, operators_table
    from edgebench.host.show.set_page import next_time_line
    from edgebench.host.show.tables import (
        console,
        length_line,
        mark_lines,
        print_line,
        results_table,
        tails_line,
    )

    out = console()
    table = results_table(sets, out.width, watcher.unmeasured)
    out.print(table)
    marks = (*mark_lines(sets), tails_line(sets, table), length_line(sets))
    notes = (*note_lines(sets), next_time_line(sets, next_times))
    for line in filter(None, marks if is_quiet else (*marks, *notes)):
        print_line(out, line)
    for run in watcher.runs:
        if run.metrics.profile is not None and not run.verdict.is_refused:
            out.print(operators_table(run.metrics.profile))
        if run.spec.is_sustained and not run.verdict.is_refused:
            for line in heat_lines(run.metrics.thermal):
                print_line(out, f"sustained: {run.model.name}: {line}")


def conclude(options: argparse.Namespace, lab: Lab, watcher: ProgressWatcher) -> ExitCode:
    """Print the runs and the failures; return the exit code."""
    from edgebench.host.analysis.run_set import find_sets
    from edgebench.protocol.errors import UsageError

    report_runs(options, lab, watcher)
    if watcher.failures:
        is_usage = all(isinstance(failure.error, UsageError) for failure in watcher.failures)
        return ExitCode.USAGE if is_usage else ExitCode.FAILED
    is_refused = any(map(_is_refused, find_sets(watcher.runs)))
    return ExitCode.INVALID if is_refused else ExitCode.DONE


def report_interrupted(lab: Lab, watcher: ProgressWatcher) -> ExitCode:
    """Print that the command was interrupted, and where its runs are."""
    kept = len(watcher.runs)
    runs = f"{kept} run{'s' if kept != 1 else ''} kept in {lab.store.runs}"
    echo(f"interrupted: {runs if kept else 'nothing was measured'}")
    return ExitCode.INTERRUPTED


def _is_refused(run_set: RunSet) -> bool:
    """Whether a set has no numbers, or lacks an energy although a meter was used."""
    from edgebench.host.result.metrics import GROSS_ENERGY

    is_metered = any(run.metrics.energy is not None for run in run_set.runs)
    return run_set.verdict.is_refused or (is_metered and GROSS_ENERGY not in run_set.metrics)


def report_missing_pairs(watcher: ProgressWatcher) -> None:
    """Print why runs failed or are invalid.

    A pair with such a run is not compared. Interrupted runs are left out, because the verdicts of
    their sets list them.
    """
    from edgebench.host.analysis.run_set import alone
    from edgebench.host.analysis.verdict.table import was_stopped

    refused = [run for run in watcher.runs if run.verdict.is_refused and not was_stopped(run)]
    watcher.show_doubts([alone(run) for run in refused])
    _print_failures(watcher)


def print_next_step(options: argparse.Namespace, sets: Sequence[RunSet]) -> None:
    """Print the command that shows the runs, unless -q was given."""
    if is_quiet(options):
        return
    sides = [run_set.first.pair.comparison_id for run_set in sets if run_set.first.pair]
    pairs = [name for name in dict.fromkeys(sides) if sides.count(name) > 1]
    names = [run_set.set_id or run_set.first.run_id for run_set in sets]
    if pairs:  # the pairs that were just compared
        words = ["show", *pairs[-MAX_NAMED:]]
    elif options.meter is None and options.sync is not None:
        words = ["energy", names[-1], "--trace", "FILE"]
    else:
        words = ["show", *names[-MAX_NAMED:]]
    if options.store:
        words += ["--store", str(options.store)]
    echo(f"next: edgebench {shlex.join(words)}")


def _hint(failure: RunFailure, options: argparse.Namespace) -> str:
    """The next step after a failure, based on the user's command line."""
    from edgebench.host.cli.options import given_command
    from edgebench.host.show.hints import hint_for

    given = given_command("bench", options)
    if not hasattr(options, "models"):  # `collect`: its arguments are not those of `bench`
        given = replace(given, arguments=())
    else:
        named = [*options.models, *filter(None, [options.against])]
        models = [name for name in named if Path(name).name == failure.model]
        if len(models) == 1:
            given = replace(given, names={**given.names, "MODEL": (models[0],)})
    return hint_for(failure.error, given)


def failure_entry(failure: RunFailure, options: argparse.Namespace) -> ErrorEntry:
    """A failure in the format of `bench --json`."""
    from edgebench.host.cli.failure import error_entry

    error = failure.error
    return error_entry(
        error.kind,
        str(error),
        _hint(failure, options),
        model=failure.model,
        runtime=failure.runtime,
        device=failure.device,
        run_id=error.run_id,
    )


def _print_failures(watcher: ProgressWatcher) -> None:
    for failure in watcher.failures:
        echo(f"error: {failure.title}: {failure.error}")
