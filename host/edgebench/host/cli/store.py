"""`edgebench store`."""

from __future__ import annotations

import argparse
import json
import shlex

from edgebench.host.cli.options import add_json, add_store, new_parser
from edgebench.protocol.text import printable
from edgebench.system.exit_code import ExitCode
from edgebench.system.terminal import say, say_hint


def parser() -> argparse.ArgumentParser:
    """The command's options."""
    made = new_parser("store", "Bring the results of several hosts together.")
    actions = made.add_subparsers(dest="action", metavar="ACTION", required=True)
    action = actions.add_parser(
        "merge", help="copy the runs and campaigns of another store or bundle into this one"
    )
    other = "directory of the other store, or a bundle, which is read-only"
    action.add_argument("other", metavar="OTHER", help=other)
    add_store(action)
    add_json(action)
    return made


def run(options: argparse.Namespace) -> ExitCode:
    """Merge; exit code 1 if runs with one id differ."""
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
        counts += f", {report.same_count} here already"
        print(printable(f"merged: {counts}: {store.root}"))
    for run_id in report.differing:
        say(f"error: run {run_id} is in both stores and differs; this store's stays")
    for run_id in report.unreadable:
        say(f"error: tags and note of run {run_id} there are not readable; this store's stay")
    for run_id, why in report.damaged.items():
        say(f"error: run {run_id} there is left out: {why}")
    there = shlex.quote(options.other)
    if report.differing:
        name = shlex.quote(report.differing[0])
        here = f" --store {shlex.quote(str(options.store))}" if options.store else ""
        both = f"edgebench verify {name}{here}, and edgebench verify {name} --store {there}"
        say_hint(f"see whose is damaged: {both}")
    elif report.unreadable:
        file = f"{report.unreadable[0]}/{ANNOTATIONS_FILE}"
        say_hint(f"mend or remove {file} there; then edgebench store merge {there}")
    elif report.damaged:
        name = shlex.quote(next(iter(report.damaged)))
        say_hint(f"see what is wrong with it: edgebench verify {name} --store {there}")
    is_whole = not (report.differing or report.unreadable or report.damaged)
    return ExitCode.DONE if is_whole else ExitCode.FAILED


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"
