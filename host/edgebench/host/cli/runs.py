"""`edgebench runs`."""

from __future__ import annotations

import argparse
import json
import shlex
from collections.abc import Sequence
from dataclasses import asdict

from edgebench.host.cli.formats import TEXT_FORMATS, print_runs
from edgebench.host.cli.options import (
    CSV,
    JSON,
    MARKDOWN,
    add_json,
    add_store,
    format_of,
    is_quiet,
    new_parser,
)
from edgebench.host.options.values import moment, whole
from edgebench.protocol.text import printable
from edgebench.system.exit_code import ExitCode
from edgebench.system.terminal import echo, echo_hint

TYPE_CHECKING = False  # see edgebench.host
if TYPE_CHECKING:
    from edgebench.host.show.run_list import RunGroup
    from edgebench.host.store.incomplete import IncompleteRun
    from edgebench.host.store.index import RunFilter, RunSummary
    from edgebench.host.store.layout import Store
    from edgebench.host.store.set_aside import SetAsideRun


def parser() -> argparse.ArgumentParser:
    """Argument parser of `edgebench runs`."""
    made = new_parser(
        "runs",
        "List the stored runs, oldest first. On a terminal, each set has a row; elsewhere, or if "
        "only a single set is listed, each run has a row.",
    )
    remove = "remove the remaining files of runs that were lost because their agent stopped"
    named = "list only these: bundle, tag, set (id) or runs (id, directory) (default: all)"
    made.add_argument("runs", nargs="*", metavar="RUN", help=named)
    made.add_argument("--remove-lost", action="store_true", help=remove)
    add = made.add_argument_group("which runs (default: all)").add_argument
    add("--model", metavar="M", help="model, or a pattern such as 'digits_*'")
    add("--device", metavar="D", help="device, or a pattern")
    add("--tag", metavar="T", help="tag")
    add(
        "--since",
        type=moment,
        metavar="2d",
        help="runs made within this period (2d), or since a date",
    )
    add("--last", type=whole, metavar="N", help="the newest N of the selected runs")
    newest = "the newest N of the selected sets; a run without a set counts as a set"
    add("--limit", type=whole, metavar="N", help=newest)
    add_store(made)
    add_json(made, formats=(JSON, CSV, MARKDOWN))
    return made


def run(options: argparse.Namespace) -> ExitCode:
    """List the runs, or remove the records of lost runs."""
    from edgebench.host.show.run_list import run_groups
    from edgebench.host.store.address import list_named
    from edgebench.host.store.incomplete import incomplete_runs
    from edgebench.host.store.index import list_runs
    from edgebench.host.store.layout import Store
    from edgebench.host.store.set_aside import runs_set_aside
    from edgebench.protocol.errors import NoSuchRun, UsageError

    if options.store is not None and not options.runs and not options.store.is_dir():
        raise NoSuchRun(f"no such directory: {options.store}", is_store_empty=True)
    store = Store(options.store)
    aside: list[SetAsideRun] = []
    if options.remove_lost and options.runs:
        raise UsageError(f"--remove-lost takes no runs, got {options.runs[0]!r}")
    if options.remove_lost:
        return _remove_lost(store, as_json=options.json)
    wanted = _wanted(options)
    if options.runs:
        rows, incomplete = list_named(store, options.runs, wanted), []
    else:
        rows, incomplete = list_runs(store, wanted), incomplete_runs(store)
        aside = runs_set_aside(store)
    groups = run_groups(rows)
    if options.limit is not None:
        groups = groups[-options.limit :]
        kept = {row.run_id for group in groups for row in group.rows}
        rows = [row for row in rows if row.run_id in kept]
    if (form := format_of(options)) in TEXT_FORMATS:
        return _print_runs(options, store, rows, form)
    if options.json:
        document = {
            "runs": [asdict(row) for row in rows],
            "incomplete": [_plain(run) for run in incomplete],
            "set_aside": [_plain_set_aside(run) for run in aside],
        }
        print(json.dumps(document, indent=1))
        return ExitCode.DONE
    if rows:
        _print_table(options, store, rows, groups)
    else:
        where = " ".join(options.runs) or store.place
        print(printable(f"{'no' if wanted is None else 'no such'} runs in {where}"))
        if wanted is not None:
            words = ["edgebench", "runs", *options.runs]
            words += ["--store", str(options.store)] if options.store else []
            echo_hint(f"list all runs: {shlex.join(words)}")
    if wanted is None:
        from edgebench.host.show.incomplete import incomplete_line
        from edgebench.host.store.incomplete import IncompleteState

        for entry in incomplete:
            print(printable(incomplete_line(entry)))
        if lost := [run for run in incomplete if run.state is IncompleteState.LOST]:
            print(
                f"files of lost runs are in {lost[0].directory.parent}; to remove the files: "
                "edgebench runs --remove-lost"
            )
        _print_set_aside(aside)
    return ExitCode.DONE


def _print_table(
    options: argparse.Namespace,
    store: Store,
    rows: Sequence[RunSummary],
    groups: Sequence[RunGroup],
) -> None:
    """Print a table; its rows are groups of runs on a terminal, and single runs otherwise."""
    from datetime import datetime, timezone

    from edgebench.host.show.run_list import (
        group_mark_lines,
        groups_table,
        invalid_lines,
        runs_table,
    )
    from edgebench.host.show.tables import console, mark_lines, print_line

    out = console()
    if out.is_terminal and len(groups) > 1:
        now = datetime.now(timezone.utc)
        out.print(groups_table(groups, _short_names(store, rows), now, out.width))
        marks = group_mark_lines(groups)
    else:
        out.print(runs_table(rows, out.width))
        marks = mark_lines(rows)
    for line in (*marks, *invalid_lines(rows)):
        print_line(out, line)
    is_whole = options.last is None and options.limit is None
    if is_whole and out.is_terminal and len(groups) > out.height and not is_quiet(options):
        given = [word for words in options.given for word in words]
        fewer = shlex.join(["edgebench", "runs", *given, "--limit", "20"])
        echo(f"note: {len(groups)} rows; to list only the newest: {fewer}")


def _short_names(store: Store, rows: Sequence[RunSummary]) -> dict[str, str]:
    """Short names that are unique in the whole store, even if only some runs are listed."""
    from edgebench.host.store.address import short_ids
    from edgebench.host.store.index import list_runs

    # The listed runs may be in a bundle.
    run_by_id = {row.run_id: row for row in (*list_runs(store), *rows)}
    groups = {name for row in run_by_id.values() for name in (row.set_id, row.comparison_id)}
    return short_ids([*run_by_id], sorted(filter(None, groups)))


def _print_runs(
    options: argparse.Namespace, store: Store, rows: Sequence[RunSummary], form: str
) -> ExitCode:
    """Print the runs in the format of -o; warn of runs that cannot be read, and leave them out."""
    from edgebench.host.export.exported import ExportedRun
    from edgebench.host.store.address import Address, find_each
    from edgebench.host.store.index import DAMAGED, NEWER

    unread = [row.run_id for row in rows if row.verdict in (DAMAGED, NEWER)]
    for run_id in unread:
        echo(f"warning: run {run_id} is not readable, and is left out")
    named = find_each(store, options.runs) if options.runs else []
    places = {address.run_id: address for address in named}
    addresses = [
        places.get(row.run_id, Address(store, row.run_id))
        for row in rows
        if row.run_id not in unread
    ]
    print_runs([ExportedRun(address.run(), address.directory) for address in addresses], form)
    return ExitCode.DONE


def _wanted(options: argparse.Namespace) -> RunFilter | None:
    """The filter that the options specify; None if the options select all runs.

    Raises:
        UsageError: --last or --limit is less than 1.
    """
    from edgebench.host.store.index import RunFilter
    from edgebench.protocol.errors import UsageError

    for name in ("last", "limit"):
        count = getattr(options, name)
        if count is not None and count < 1:
            raise UsageError(f"--{name} must be at least 1, got {count}")
    wanted = RunFilter(
        model=options.model,
        device=options.device,
        tag=options.tag,
        since=options.since,
        last=options.last,
    )
    return None if wanted == RunFilter() else wanted


def _print_set_aside(aside: Sequence[SetAsideRun]) -> None:
    from edgebench.host.show.incomplete import set_aside_line

    for run in aside:
        print(printable(set_aside_line(run)))
    if aside:
        print(
            f"runs set aside are in {aside[0].directory.parent}; to remove a run: edgebench rm "
            "RUN; to analyse the "
            "runs again: edgebench collect --set-aside"
        )


def _remove_lost(store: Store, *, as_json: bool) -> ExitCode:
    from edgebench.host.show.incomplete import contents
    from edgebench.host.store.incomplete import remove_lost

    removed = remove_lost(store)
    if as_json:
        print(json.dumps({"removed": [_plain(run) for run in removed]}, indent=1))
        return ExitCode.DONE
    for run in removed:
        print(printable(f"removed: run {run.run_id}: {contents(run)}"))
    if not removed:
        print(f"no lost runs in {store.root}")
    return ExitCode.DONE


def _plain(run: IncompleteRun) -> dict[str, object]:
    expectation = run.expectation
    return {
        "run_id": run.run_id,
        "state": run.state.value,
        "device": expectation.device if expectation else None,
        "model": expectation.model if expectation else None,
        "directory": str(run.directory),
        "recording_s": run.recording_s,
        "files": list(run.files),
    }


def _plain_set_aside(run: SetAsideRun) -> dict[str, object]:
    expectation, fault = run.expectation, run.fault
    return {
        "run_id": run.run_id,
        "device": expectation.device if expectation else None,
        "model": expectation.model if expectation else None,
        "error": fault.error if fault else None,
        "set_aside_utc": fault.set_aside_utc if fault else None,
        "directory": str(run.directory),
        "size_bytes": run.size_bytes,
        "files": list(run.files),
    }
