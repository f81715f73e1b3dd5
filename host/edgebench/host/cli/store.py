"""`edgebench store`."""

from __future__ import annotations

import argparse
import json
import shlex

from edgebench.host.cli.options import add_json, add_store, new_parser
from edgebench.protocol.text import printable
from edgebench.system.exit_code import ExitCode
from edgebench.system.terminal import echo, echo_hint


def parser() -> argparse.ArgumentParser:
    """Argument parser of `edgebench store`."""
    made = new_parser("store", "Combine the results of several hosts.")
    actions = made.add_subparsers(dest="action", metavar="ACTION", required=True)
    action = actions.add_parser(
        "merge", help="copy the runs and campaigns of another store or bundle into this one"
    )
    other = "directory of the other store, or a bundle; it is only read"
    action.add_argument("other", metavar="OTHER", help=other)
    add_store(action)
    add_json(action)
    return made


def run(options: argparse.Namespace) -> ExitCode:
    """Merge; exit code 1 if runs with the same id differ, or the other store has damaged files."""
    from dataclasses import asdict
    from pathlib import Path

    from edgebench.host.store.bundle_file import open_store
    from edgebench.host.store.layout import ANNOTATIONS_FILE, Store
    from edgebench.host.store.merge import merge_store

    store = Store(options.store)
    report = merge_store(store, open_store(Path(options.other)))
    if options.json:
        print(json.dumps(asdict(report), indent=1))
    else:
        counts = f"{_count(len(report.added), 'run')} added"
        if report.campaigns:
            counts += f", {_count(len(report.campaigns), 'campaign')}"
        counts += f", {report.same_count} already here"
        print(printable(f"merged: {counts}: {store.root}"))
    for run_id in report.differing:
        echo(f"error: run {run_id} differs between the stores; the run in this store is kept")
    for run_id in report.unreadable:
        echo(
            f"error: tags and note of run {run_id} are not readable in the other store; "
            "those in this store are kept"
        )
    for run_id, why in report.damaged.items():
        echo(f"error: run {run_id} of the other store was not copied: {why}")
    there = shlex.quote(options.other)
    if report.differing:
        name = shlex.quote(report.differing[0])
        here = f" --store {shlex.quote(str(options.store))}" if options.store else ""
        both = f"edgebench verify {name}{here}, and edgebench verify {name} --store {there}"
        echo_hint(f"see which copy is damaged: {both}")
    elif report.unreadable:
        file = f"{report.unreadable[0]}/{ANNOTATIONS_FILE}"
        echo_hint(
            f"repair or remove {file} in the other store; then run edgebench store merge {there}"
        )
    elif report.damaged:
        name = shlex.quote(next(iter(report.damaged)))
        echo_hint(f"see the damage: edgebench verify {name} --store {there}")
    is_whole = not (report.differing or report.unreadable or report.damaged)
    return ExitCode.DONE if is_whole else ExitCode.FAILED


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"
