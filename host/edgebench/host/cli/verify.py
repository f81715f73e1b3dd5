"""`edgebench verify`."""

from __future__ import annotations

import argparse
import json
import shlex
from dataclasses import asdict

from edgebench.host.cli.options import add_json, add_run, add_store, new_parser
from edgebench.system.exit_code import ExitCode
from edgebench.system.terminal import echo, echo_hint

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from edgebench.host.bench.verify import Difference
    from edgebench.host.result.run_set import RunSet
    from edgebench.host.store.layout import Store

_ALL_FOLLOWS = "every number follows from the raw files"


def parser() -> argparse.ArgumentParser:
    """Argument parser of `edgebench verify`."""
    about = "Recompute a run, a set, a bundle's runs or a meter's recording from the raw files, "
    about += "and compare the results with the stored numbers."
    made = new_parser("verify", about)
    add_run(made)
    rejudge = (
        "print the run or set as computed by this version's statistics and rules; nothing is stored"
    )
    made.add_argument("--rejudge", action="store_true", help=rejudge)
    add_store(made)
    add_json(made)
    return made


def run(options: argparse.Namespace) -> ExitCode:
    """Verify; exit code 1 if any number differs."""
    from edgebench.host.bench.verify import verify, verify_session
    from edgebench.host.store.address import find_run, find_runs, names_set
    from edgebench.host.store.layout import Store
    from edgebench.host.store.sessions import find_session
    from edgebench.protocol.errors import UsageError

    store = Store(options.store)
    directory = find_session(store, options.run)
    if directory is not None:
        if options.rejudge:
            raise UsageError(f"--rejudge takes a run or a set, not a recording: {options.run}")
        named, found = {"directory": str(directory)}, verify_session(directory)
        return _report("recording", named, found, str(directory), as_json=options.json)
    is_set = names_set(store, options.run)
    if is_set and options.rejudge:
        return _rejudge_set(store, options.run, as_json=options.json)
    if is_set or (_may_be_several(options.run) and len(find_runs(store, options.run)) > 1):
        if options.rejudge:
            raise UsageError(f"--rejudge takes a run or a set, not several: {options.run}")
        return _verify_several(store, options.run, is_set=is_set, as_json=options.json)
    run = find_run(store, options.run)
    if options.rejudge:
        # Print the run as this version computes it, then its stored verdict and today's verdict.
        from edgebench.host.analysis.run_set import alone
        from edgebench.host.bench.verify import rejudge
        from edgebench.host.result.document import to_document
        from edgebench.host.show.page import run_page
        from edgebench.host.show.tables import console

        today = rejudge(run.store, run.run_id)
        if options.json:
            print(json.dumps(to_document(today), indent=1))
            return ExitCode.DONE
        out = console()
        out.print(run_page(today, out.width))
        _print_verdicts(alone(today), alone(run.store.run(run.run_id)))
        return ExitCode.DONE
    differences = verify(run.store, run.run_id)
    return _report("run", {"run_id": run.run_id}, differences, run.name, as_json=options.json)


def _may_be_several(name: str) -> bool:
    """Whether a name can refer to several runs: a bundle, the last command, or pairs.

    Tags need no check here: `find_run` rejects them.
    """
    from edgebench.host.result.facts import is_pairs_id
    from edgebench.host.store.address import LAST
    from edgebench.host.store.bundle_file import split_name

    return name == LAST or split_name(name) is not None or is_pairs_id(name)


def _report(
    kind: str,
    named: dict[str, str],
    differences: Sequence[Difference],
    shown_as: str,
    *,
    as_json: bool,
) -> ExitCode:
    """Print the differences of a run or a recording.

    Args:
        kind: `run` or `recording`.
        named: A mapping with a single item: JSON key and name of the run or recording.
        differences: Differences between stored and computed values.
        shown_as: The name as an argument of `edgebench show`.
        as_json: Print a document.
    """
    [name] = named.values()
    if as_json:
        _print_json({**named, "differences": _plain(differences)})
    elif differences:
        _print_differences(f"{kind} {name}", differences)
        _print_hint(shown_as)
    else:
        print(f"verified: {name}: {_ALL_FOLLOWS}")
    return ExitCode.FAILED if differences else ExitCode.DONE


def _verify_several(store: Store, name: str, *, is_set: bool, as_json: bool) -> ExitCode:
    """Verify every run of a set, of the pairs of a comparison, or of a bundle."""
    from edgebench.host.bench.verify import Difference, verify
    from edgebench.host.options.command import CommandLine
    from edgebench.host.result.facts import is_pairs_id
    from edgebench.host.show.hints import hint_for
    from edgebench.host.store.address import find_runs
    from edgebench.host.store.index import DAMAGED, list_runs
    from edgebench.protocol.errors import RunDamaged

    addresses = find_runs(store, name)
    results: dict[str, list[Difference]] = {}
    damaged: dict[str, RunDamaged] = {}
    for address in addresses:
        try:
            results[address.run_id] = verify(address.store, address.run_id)
        except RunDamaged as exc:  # other runs may be intact
            results[address.run_id] = [Difference("files", "as measured", str(exc))]
            damaged[address.run_id] = exc
    planned_count = len(results)
    if is_set and (member := addresses[0].run().member):
        planned_count = member.count
    failed = {run_id: differences for run_id, differences in results.items() if differences}
    is_damaged = any(row.verdict == DAMAGED for row in list_runs(addresses[0].store))
    if is_set and is_damaged and len(results) < planned_count:
        echo("note: a damaged run may belong to the set; to list damaged runs: edgebench runs")
    if as_json:
        runs = [
            {"run_id": run_id, "differences": _plain(differences)}
            for run_id, differences in results.items()
        ]
        is_pairs = is_pairs_id(name)
        kind = "set_id" if is_set else "comparison_id" if is_pairs else "bundle"
        _print_json({kind: name, "planned_count": planned_count, "runs": runs})
    elif failed:
        for run_id, differences in failed.items():
            if run_id in damaged:
                echo(f"error: {damaged[run_id]}")
            else:
                _print_differences(f"run {run_id}", differences)
        if damaged:
            echo_hint(hint_for(next(iter(damaged.values())), CommandLine(command="verify")))
        else:
            _print_hint(next(address.name for address in addresses if address.run_id in failed))
    else:
        count = len(results)
        stored = f"{count} runs" if count >= planned_count else f"{count} of {planned_count} runs"
        print(f"verified: {name}: {stored}, {_ALL_FOLLOWS}")
    return ExitCode.FAILED if failed else ExitCode.DONE


def _plain(differences: Sequence[Difference]) -> list[Mapping[str, object]]:
    return [asdict(difference) for difference in differences]


def _print_json(document: Mapping[str, object]) -> None:
    print(json.dumps(document, indent=1, default=str))


def _print_differences(what: str, differences: Sequence[Difference]) -> None:
    count = len(differences)
    files = f"{count} difference{'s' if count != 1 else ''} from its raw files"
    echo(f"error: {what} does not verify: {files}")
    for difference in differences:
        print(f"{difference.key}: stored {difference.stored!r}, computed {difference.computed!r}")


def _print_hint(name: str) -> None:
    echo_hint(f"see the stored values: edgebench show {shlex.quote(name)}")


def _rejudge_set(store: Store, set_id: str, *, as_json: bool) -> ExitCode:
    """Print the set as this version computes it, then the stored verdict and the new verdict."""
    from edgebench.host.analysis.run_set import find_set
    from edgebench.host.bench.verify import rejudge
    from edgebench.host.show.set_page import set_document, set_page
    from edgebench.host.show.tables import console
    from edgebench.host.store.address import find_runs

    found = find_runs(store, set_id)
    today = find_set([rejudge(address.store, address.run_id) for address in found])
    if as_json:
        print(json.dumps(set_document(today), indent=1))
        return ExitCode.DONE
    out = console()
    out.print(set_page(today, out.width))
    _print_verdicts(today, find_set([address.run() for address in found]))
    return ExitCode.DONE


def _print_verdicts(today: RunSet, stored: RunSet) -> None:
    from edgebench.host.show.verdict import verdict_lines

    print(f"stored: {stored.marks.label}; today: {today.marks.label}")
    for line in verdict_lines([today]):
        print(line)
