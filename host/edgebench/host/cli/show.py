"""`edgebench show`."""

from __future__ import annotations

import argparse
import json
import shlex

from edgebench.host.cli.formats import TEXT_FORMATS, print_runs
from edgebench.host.cli.options import (
    CSV,
    JSON,
    MARKDOWN,
    add_json,
    add_runs,
    add_store,
    format_of,
    new_parser,
)
from edgebench.system.exit_code import ExitCode

TYPE_CHECKING = False  # see edgebench.host
if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path
    from typing import Any

    from rich.console import Console, RenderableType

    from edgebench.host.analysis.compare.runs import RunComparison
    from edgebench.host.analysis.yardstick import UsualSpeed
    from edgebench.host.result.run import Run
    from edgebench.host.result.run_set import RunSet
    from edgebench.host.store.address import Address
    from edgebench.protocol.errors import StoreError


def parser() -> argparse.ArgumentParser:
    """Argument parser of `edgebench show`."""
    made = new_parser(
        "show",
        "Show a run, a set of runs, or a recording of an energy meter. For a tag, or for several "
        "runs or sets, show a table.",
    )
    add_runs(made)
    made.add_argument("--all", action="store_true", help="list all rules, including passed rules")
    add_store(made)
    add_json(made, formats=(JSON, CSV, MARKDOWN))
    return made


def run(options: argparse.Namespace) -> ExitCode:
    """Show the runs or the recording; exit code 3 if the recording cannot be trusted."""
    from edgebench.host.store.address import find_each, names_set
    from edgebench.host.store.layout import Store
    from edgebench.host.store.sessions import find_session

    store = Store(options.store)
    names: list[str] = options.run
    if len(names) == 1 and (directory := find_session(store, names[0])) is not None:
        from edgebench.host.power.stored import stored_session
        from edgebench.host.show.meters import print_session
        from edgebench.protocol.errors import UsageError

        if format_of(options) in TEXT_FORMATS:
            raise UsageError(
                f"-o {format_of(options)} is only for runs, but {names[0]} is a "
                "recording of a meter"
            )
        with stored_session(directory) as session:
            print_session(session, as_json=options.json)
            return ExitCode.INVALID if session.is_trusted is False else ExitCode.DONE
    if (form := format_of(options)) in TEXT_FORMATS:
        from edgebench.host.export.exported import find_exported

        print_runs(find_exported(store, names), form)
        return ExitCode.DONE
    addresses = find_each(store, names)
    if len(names) == 1 and names_set(store, names[0]):
        return _set(options, addresses)
    return _run(options, addresses[0]) if len(addresses) == 1 else _table(options, addresses)


def _run(options: argparse.Namespace, address: Address) -> ExitCode:
    from edgebench.host.show.page import run_details, run_results
    from edgebench.host.show.tables import console

    if options.json:
        print(json.dumps(address.document(), indent=1))
        return ExitCode.DONE
    out, run = console(), address.run()
    # Printed before the traces are read, which takes a moment.
    _print(out, run_results(run, out.width, address.prefix))
    damage: StoreError | None = None
    if run.failure is None:
        picture, damage = _picture(out, [(address, run)], None)
        _print(out, picture)
    usual = _usual_speed(address, [run])
    _print(out, run_details(run, address.annotations(), is_all=options.all, usual=usual))
    out.print(address.place, soft_wrap=True)
    return _report_damage(damage)


def _set(options: argparse.Namespace, addresses: Sequence[Address]) -> ExitCode:
    from edgebench.host.analysis.run_set import find_set
    from edgebench.host.show.set_page import set_details, set_document, set_results
    from edgebench.host.show.tables import console
    from edgebench.host.store.occasions import next_time_of

    runs = [address.run() for address in addresses]
    run_set = find_set(runs)
    # The store of a bundle has no earlier sets.
    next_time = None if addresses[0].prefix else next_time_of(addresses[0].store, run_set)
    if options.json:
        print(json.dumps(set_document(run_set, next_time), indent=1))
        return ExitCode.DONE
    out = console()
    counted = [
        (address, run)
        for address, run in zip(addresses, runs, strict=True)
        if not run.verdict.is_refused
    ]
    _print(out, set_results(run_set, out.width))
    damage: StoreError | None = None
    if counted and not run_set.verdict.is_refused:
        picture, damage = _picture(out, counted, run_set)
        _print(out, picture)
    usual = _usual_speed(addresses[0], runs)
    _print(out, set_details(run_set, is_all=options.all, next_time=next_time, usual=usual))
    return _report_damage(damage)


def _usual_speed(address: Address, runs: Sequence[Run]) -> UsualSpeed | None:
    """Speed of the device compared with earlier runs; None for a bundle, which lacks such runs."""
    from edgebench.host.analysis.yardstick import usual_speed
    from edgebench.host.store.earlier_runs import earlier_valid_runs

    if address.prefix:
        return None
    return usual_speed(runs, earlier_valid_runs(address.store, runs))


def _report_damage(damage: StoreError | None) -> ExitCode:
    """Report damaged traces at the end, because the printed numbers cannot be checked."""
    from edgebench.host.options.command import CommandLine
    from edgebench.host.show.hints import hint_for
    from edgebench.system.terminal import echo, echo_hint

    if damage is None:
        return ExitCode.DONE
    echo(f"error: the numbers above cannot be checked: {damage}")
    echo_hint(hint_for(damage, CommandLine(command="show")))
    return ExitCode.FAILED


def _print(out: Console, parts: Sequence[RenderableType]) -> None:
    """Print the parts of a page, each followed by an empty line."""
    for part in parts:
        out.print(part, crop=False)  # commands longer than a line are not cut
    if parts:
        out.print()
        out.file.flush()


def _picture(
    out: Console, runs: Sequence[tuple[Address, Run]], run_set: RunSet | None
) -> tuple[list[RenderableType], StoreError | None]:
    """Picture of a run or a set; if it cannot be drawn, a line with the reason.

    Returns:
        The lines to print, and the error if the traces are damaged, else None.
    """
    from edgebench.host.series.run_series import read_series
    from edgebench.host.show.pictures import run_picture, set_picture
    from edgebench.host.show.tables import text
    from edgebench.protocol.errors import RunDamaged, StoreError

    has_unicode = not out.options.ascii_only
    try:
        series = [read_series(address.directory, run) for address, run in runs]
    except StoreError as exc:
        return [text(f"no picture: {exc}")], exc if isinstance(exc, RunDamaged) else None
    if run_set is not None:
        return [*set_picture(run_set, series, out.width, has_unicode=has_unicode)], None
    return [*run_picture(series[0], runs[0][1], out.width, has_unicode=has_unicode)], None


def _overlaid(
    out: Console, addresses: Sequence[Address], sets: Sequence[RunSet]
) -> list[RenderableType]:
    """Distributions of a few sets on a common axis; empty if a trace cannot be read."""
    from edgebench.host.series.run_series import read_series
    from edgebench.host.show.pictures import MOST_OVERLAID, overlaid_picture
    from edgebench.protocol.errors import StoreError

    shown = [run_set for run_set in sets if not run_set.verdict.is_refused]
    if not 2 <= len(shown) <= MOST_OVERLAID:
        return []
    by_id = {address.run_id: address for address in addresses}
    try:
        series = [
            [read_series(by_id[run.run_id].directory, run) for run in run_set.counted]
            for run_set in shown
        ]
    except StoreError:  # the page of each set states the damage
        return []
    named = list(zip(shown, series, strict=True))
    return [*overlaid_picture(named, out.width, has_unicode=not out.options.ascii_only)]


def _table(options: argparse.Namespace, addresses: Sequence[Address]) -> ExitCode:
    """Print a table of several runs and sets."""
    from edgebench.host.analysis.run_set import choose_sets
    from edgebench.host.result.document import to_document
    from edgebench.host.show.comparisons import comparison_lines, more_runs_line
    from edgebench.host.show.headline import headlines
    from edgebench.host.show.notes import note_lines
    from edgebench.host.show.ratios import ratio_lines
    from edgebench.host.show.set_page import set_document
    from edgebench.host.show.tables import (
        console,
        mark_lines,
        print_line,
        results_table,
        tails_line,
    )
    from edgebench.host.show.verdict import verdict_lines
    from edgebench.protocol.plain import to_plain

    runs = [address.run() for address in addresses]
    sets = choose_sets(runs)
    compared, doubt = _compared_pairs(runs)
    if options.json:
        document: dict[str, object] = {
            "runs": list(map(to_document, runs)),
            "sets": [set_document(run_set) for run_set in sets if run_set.set_id],
            "headlines": [headline.document for headline in headlines(sets)],
        }
        if compared:
            document["comparisons"] = to_plain(tuple(compared))
        if doubt is not None:
            document["not_compared"] = doubt
        print(json.dumps(document, indent=1))
        return ExitCode.DONE
    out = console()
    begin = [headline.line for headline in headlines(sets)]
    if compared:  # its lines have the ratio, too
        begin = comparison_lines(compared)
        begin += filter(None, [more_runs_line(compared, sets)])
    if doubt is not None:
        begin.append(f"not compared: {doubt}")
    for line in filter(None, begin):
        print_line(out, line)
    table = results_table(sets, out.width)
    out.print(table)
    for picture in _overlaid(out, addresses, sets):
        out.print(picture)
    marks = (*mark_lines(sets), tails_line(sets, table))
    notes = filter(None, (*marks, *note_lines(sets)))
    lines = [*notes, *ratio_lines(sets), *verdict_lines(sets)]
    if compared:
        lines += _pair_lines(runs, addresses[0].prefix, options.store)
    for line in lines:
        print_line(out, line)
    return ExitCode.DONE


def _pair_lines(runs: Sequence[Run], prefix: str, store: Path | None) -> list[str]:
    """Commands that compare the pairs of each comparison, as lines; empty if a side is missing."""
    from edgebench.host.result.facts import BASELINE, CANDIDATE

    pairs = [run.pair for run in runs if run.pair is not None]
    if {pair.side for pair in pairs} != {BASELINE, CANDIDATE}:
        return []
    where = ["--store", str(store)] if store else []
    return [
        f"to compare the pairs: {shlex.join(['edgebench', 'compare', prefix + name, *where])}"
        for name in dict.fromkeys(pair.comparison_id for pair in pairs)
    ]


def _compared_pairs(runs: Sequence[Run]) -> tuple[list[RunComparison], str | None]:
    """Compare runs that were made as pairs, with the options of the command that made the runs.

    Returns:
        The comparisons, and the reason why pairs cannot be compared (None if they can). If the runs
        are not pairs, there are no comparisons, and the reason is None.
    """
    from edgebench.host.analysis.compare.runs import compare_pairs
    from edgebench.host.options.bench import JUDGEMENT
    from edgebench.host.result.facts import BASELINE, CANDIDATE
    from edgebench.protocol.errors import EdgebenchError

    pairs = [run for run in runs if run.pair is not None]
    if {run.pair.side for run in pairs if run.pair} != {BASELINE, CANDIDATE}:
        return [], None
    commands = {run.command for run in pairs}
    origin = commands.pop() if len(commands) == 1 else None
    arguments = () if origin is None else origin.arguments
    judged: dict[str, Any] = {}
    for option in JUDGEMENT:
        given = [" ".join(words[1:]) for words in arguments if words[:1] == (option.flag,)]
        try:
            values = [option.kind.read(text) for text in given]
        except argparse.ArgumentTypeError as exc:  # the file was changed
            return [], f"the stored command of the pairs has a wrong option: {option.flag}: {exc}"
        if values:
            judged[option.field] = values[-1] if option.join is None else option.join(values)
    try:
        return compare_pairs(pairs, **judged), None
    except EdgebenchError as exc:
        return [], str(exc)
