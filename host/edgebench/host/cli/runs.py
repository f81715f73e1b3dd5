"""`edgebench runs`."""

from __future__ import annotations

import argparse
import json
import shlex
from collections.abc import Sequence
from dataclasses import asdict

from edgebench.host.cli.options import add_json, add_store, new_parser
from edgebench.host.options.values import moment, whole
from edgebench.protocol.text import printable
from edgebench.system.exit_code import ExitCode
from edgebench.system.terminal import echo, echo_hint

TYPE_CHECKING = False  # see edgebench.host
if TYPE_CHECKING:
    from edgebench.host.store.incomplete import IncompleteRun
    from edgebench.host.store.index import RunFilter
    from edgebench.host.store.layout import Store
    from edgebench.host.store.set_aside import SetAsideRun


def parser() -> argparse.ArgumentParser:
    """Argument parser of `edgebench runs`."""
    made = new_parser("runs", "List the stored runs, oldest first.")
    remove = "remove the remaining files of runs that were lost with their agent"
    named = "list only these: a bundle, a tag, a set, or runs by id or directory (default: all)"
    made.add_argument("runs", nargs="*", metavar="RUN", help=named)
    made.add_argument("--remove-lost", action="store_true", help=remove)
    add = made.add_argument_group("which runs (default: all)").add_argument
    add("--model", metavar="M", help="model, or a pattern such as 'digits_*'")
    add("--device", metavar="D", help="device, or a pattern")
    add("--tag", metavar="T", help="tag")
    add("--since", type=moment, metavar="2d", help="the last 2 days, or from a date on")
    add("--last", type=whole, metavar="N", help="the newest N of the selected runs")
    add_store(made)
    add_json(made)
    return made


def run(options: argparse.Namespace) -> ExitCode:
    """List the runs, or remove lost runs."""
    from edgebench.host.show.run_list import invalid_lines, runs_table
    from edgebench.host.show.tables import console, mark_lines, print_line
    from edgebench.host.store.address import list_named
    from edgebench.host.store.incomplete import incomplete_runs
    from edgebench.host.store.index import list_runs
    from edgebench.host.store.layout import Store
    from edgebench.host.store.set_aside import runs_set_aside
    from edgebench.protocol.errors import UsageError

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
    if options.json:
        document = {
            "runs": [asdict(row) for row in rows],
            "incomplete": [_plain(one) for one in incomplete],
            "set_aside": [_plain_set_aside(run) for run in aside],
        }
        print(json.dumps(document, indent=1))
        return ExitCode.DONE
    if rows:
        out = console()
        out.print(runs_table(rows, out.width))
        for line in mark_lines(rows):
            print(line)
        for line in invalid_lines(rows):
            print_line(out, line)
        if options.last is None and out.is_terminal and len(rows) > out.height:
            given = [word for words in options.given for word in words]
            fewer = shlex.join(["edgebench", "runs", *given, "--last", "20"])
            echo(f"note: {len(rows)} runs; to list only the newest: {fewer}")
    else:
        where = " ".join(options.runs) or store.root
        print(printable(f"{'no' if wanted is None else 'no such'} runs in {where}"))
        if wanted is not None:
            words = ["edgebench", "runs", *options.runs]
            words += ["--store", str(options.store)] if options.store else []
            echo_hint(f"list all runs: {shlex.join(words)}")
    if wanted is None:
        from edgebench.host.show.incomplete import incomplete_line
        from edgebench.host.store.incomplete import IncompleteState

        for one in incomplete:
            print(printable(incomplete_line(one)))
        if lost := [one for one in incomplete if one.state is IncompleteState.LOST]:
            print(f"in {lost[0].directory.parent}; to remove: edgebench runs --remove-lost")
        _print_set_aside(aside)
    return ExitCode.DONE


def _wanted(options: argparse.Namespace) -> RunFilter | None:
    """Filter of the options; None if they select all runs.

    Raises:
        UsageError: --last is less than 1.
    """
    from edgebench.host.store.index import RunFilter
    from edgebench.protocol.errors import UsageError

    if options.last is not None and options.last < 1:
        raise UsageError(f"--last must be at least 1, got {options.last}")
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
            f"in {aside[0].directory.parent}; to remove a run: edgebench rm RUN; to analyse the "
            "runs again: edgebench collect --set-aside"
        )


def _remove_lost(store: Store, *, as_json: bool) -> ExitCode:
    from edgebench.host.show.incomplete import contents
    from edgebench.host.store.incomplete import remove_lost

    removed = remove_lost(store)
    if as_json:
        print(json.dumps({"removed": [_plain(one) for one in removed]}, indent=1))
        return ExitCode.DONE
    for one in removed:
        print(printable(f"removed: run {one.run_id}: {contents(one)}"))
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
