"""`edgebench verify`."""

from __future__ import annotations

import argparse
import json
import shlex
import sys
from dataclasses import asdict

from edgebench.host.cli.options import add_json, add_run, add_store, new_parser
from edgebench.protocol.exit_code import ExitCode

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from edgebench.host.bench.verify import Difference
    from edgebench.host.result.run_set import RunSet
    from edgebench.host.store.layout import Store

_ALL_FOLLOWS = "every number follows from the raw files"


def parser() -> argparse.ArgumentParser:
    """The command's options."""
    about = "Recompute a run, a set or a meter's recording from the raw files, and compare."
    made = new_parser("verify", about)
    add_run(made)
    rejudge = "print the run or the set as today's statistics and rules make it; nothing is stored"
    made.add_argument("--rejudge", action="store_true", help=rejudge)
    add_store(made)
    add_json(made)
    return made


def run(options: argparse.Namespace) -> ExitCode:
    """Verify it; exit code 1 when anything differs."""
    from edgebench.host.bench.verify import verify, verify_session
    from edgebench.host.result.facts import SET_PREFIX
    from edgebench.host.store.address import find_run
    from edgebench.host.store.layout import Store
    from edgebench.host.store.sessions import find_session
    from edgebench.protocol.errors import UsageError

    store = Store(options.store)
    directory = find_session(store, options.run)
    if directory is not None:
        if options.rejudge:
            raise UsageError(f"a recording has no verdict to judge again: {options.run}")
        named = {"directory": str(directory)}
        return _report("recording", named, verify_session(directory), as_json=options.json)
    if options.run.startswith(SET_PREFIX):
        if options.rejudge:
            return _rejudge_set(store, options.run, as_json=options.json)
        return _verify_set(store, options.run, as_json=options.json)
    found = find_run(store, options.run)
    if options.rejudge:
        return _rejudge_run(found.store, found.run_id, as_json=options.json)
    differences = verify(found.store, found.run_id)
    return _report("run", {"run_id": found.run_id}, differences, as_json=options.json)


def _report(
    kind: str, named: dict[str, str], differences: Sequence[Difference], *, as_json: bool
) -> ExitCode:
    """Print what is different in a run or a recording, which goes by the only name given."""
    [name] = named.values()
    if as_json:
        _print_json({**named, "differences": _plain(differences)})
    elif differences:
        _print_differences(f"{kind} {name}", differences)
        _print_hint(name)
    else:
        print(f"verified: {name}: {_ALL_FOLLOWS}")
    return ExitCode.FAILED if differences else ExitCode.DONE


def _verify_set(store: Store, set_id: str, *, as_json: bool) -> ExitCode:
    """Verify every run of a set, whose own numbers are computed from them and never stored."""
    from edgebench.host.bench.verify import Difference, verify
    from edgebench.host.store.address import find_runs
    from edgebench.host.store.index import DAMAGED, list_runs
    from edgebench.protocol.errors import RunDamaged

    results: dict[str, list[Difference]] = {}
    for run_id in (one.run_id for one in find_runs(store, set_id)):
        try:
            results[run_id] = verify(store, run_id)
        except RunDamaged as exc:  # the others may be whole
            results[run_id] = [Difference("files", "as measured", str(exc))]
    member = store.run(next(iter(results))).member
    planned_count = member.count if member else len(results)
    failed = {run_id: differences for run_id, differences in results.items() if differences}
    is_damaged = any(row.verdict == DAMAGED for row in list_runs(store))
    if is_damaged and len(results) < planned_count:
        print("note: a damaged run may be one of the set: edgebench runs", file=sys.stderr)
    if as_json:
        runs = [
            {"run_id": run_id, "differences": _plain(differences)}
            for run_id, differences in results.items()
        ]
        _print_json({"set_id": set_id, "planned_count": planned_count, "runs": runs})
    elif failed:
        for run_id, differences in failed.items():
            _print_differences(f"run {run_id}", differences)
        _print_hint(next(iter(failed)))
    else:
        count = len(results)
        stored = f"{count} runs" if count == planned_count else f"{count} of {planned_count} runs"
        print(f"verified: {set_id}: {stored}, {_ALL_FOLLOWS}")
    return ExitCode.FAILED if failed else ExitCode.DONE


def _plain(differences: Sequence[Difference]) -> list[Mapping[str, object]]:
    return [asdict(difference) for difference in differences]


def _print_json(document: Mapping[str, object]) -> None:
    print(json.dumps(document, indent=1, default=str))


def _print_differences(what: str, differences: Sequence[Difference]) -> None:
    count = len(differences)
    files = f"{count} difference{'s' if count != 1 else ''} to its raw files"
    print(f"error: {what} does not verify: {files}", file=sys.stderr)
    for difference in differences:
        print(f"{difference.key}: stored {difference.stored!r}, computed {difference.computed!r}")


def _print_hint(name: str) -> None:
    print(f"hint: see what is stored: edgebench show {shlex.quote(name)}", file=sys.stderr)


def _rejudge_run(store: Store, run_id: str, *, as_json: bool) -> ExitCode:
    """Print the run as it would be stored today, and what its stored verdict was."""
    from edgebench.host.analysis.run_set import alone
    from edgebench.host.bench.verify import rejudge
    from edgebench.host.result.document import to_document
    from edgebench.host.show.page import run_page
    from edgebench.host.show.tables import console

    today = rejudge(store, run_id)
    if as_json:
        print(json.dumps(to_document(today), indent=1))
        return ExitCode.DONE
    out = console()
    out.print(run_page(today, out.width))
    _print_verdicts(alone(today), alone(store.run(run_id)))
    return ExitCode.DONE


def _rejudge_set(store: Store, set_id: str, *, as_json: bool) -> ExitCode:
    """Print the set that its runs make as they would be stored today."""
    from edgebench.host.analysis.run_set import find_set
    from edgebench.host.bench.verify import rejudge
    from edgebench.host.show.set_page import set_document, set_page
    from edgebench.host.show.tables import console
    from edgebench.host.store.address import find_runs

    run_ids = [one.run_id for one in find_runs(store, set_id)]
    today = find_set([rejudge(store, run_id) for run_id in run_ids])
    if as_json:
        print(json.dumps(set_document(today), indent=1))
        return ExitCode.DONE
    out = console()
    out.print(set_page(today, out.width))
    _print_verdicts(today, find_set([store.run(run_id) for run_id in run_ids]))
    return ExitCode.DONE


def _print_verdicts(today: RunSet, stored: RunSet) -> None:
    from edgebench.host.show.tables import verdict_lines

    print(f"stored: {stored.verdict.label}; today: {today.verdict.label}")
    for line in verdict_lines([today]):
        print(line)
