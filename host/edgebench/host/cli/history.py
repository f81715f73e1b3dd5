"""`edgebench history`."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from edgebench.host.cli.options import add_json, add_store, new_parser
from edgebench.host.options.values import moment, percent, whole
from edgebench.system.exit_code import ExitCode
from edgebench.system.terminal import echo

TYPE_CHECKING = False  # see edgebench.host
if TYPE_CHECKING:
    from collections.abc import Sequence

    from edgebench.host.analysis.history.history import History

MAX_DECIDING = 3
"""Maximum number of histories that the message about the exit code names."""


def parser() -> argparse.ArgumentParser:
    """Argument parser of `edgebench history`."""
    about = (
        "Show a metric over time, and where it changed; each point is a set of runs or a "
        "single run."
    )
    made = new_parser("history", about)
    names = "only histories that contain these runs: ids, sets, tags (default: all)"
    made.add_argument("runs", nargs="*", metavar="RUN", help=names)
    filters = made.add_argument_group("which runs (default: all)")
    add_history_filter(filters)
    since = "runs made within this period (30d), or since a date"
    filters.add_argument("--since", type=moment, metavar="30d", help=since)
    filters.add_argument("--last", type=whole, metavar="N", help="the newest N runs")
    add_level_gate(made, "the newest level")
    output = "also write these histories as an HTML file, like edgebench report"
    made.add_argument("-o", "--output", type=Path, metavar="FILE", help=output)
    add_store(made)
    add_json(made)
    return made


def add_history_filter(group: argparse._ArgumentGroup) -> None:
    """Add the options that choose histories by model, device and tag."""
    group.add_argument("--model", metavar="M", help="model, or a pattern such as 'digits_*'")
    group.add_argument("--device", metavar="D", help="device, or a pattern")
    group.add_argument("--tag", metavar="T", help="tag")


def add_level_gate(made: argparse.ArgumentParser, level: str) -> None:
    """Add the options for the metric, and for the regression that makes the command fail."""
    metric = "metric, such as latency_ns.p50 or energy_j (default: the main metric of the scenario)"
    made.add_argument("--metric", metavar="M", help=metric)
    fails = (
        f"exit with 4 if {level} is worse than the level before it by more than this at both "
        "ends of "
    )
    fails += "the confidence interval; exit with 5 if inconclusive"
    made.add_argument("--fail-on", type=percent, metavar="3%", help=fails)


def run(options: argparse.Namespace) -> ExitCode:
    """Show the histories; with --fail-on, exit code 4 for a regression, 5 if inconclusive."""
    from edgebench.host.lab import Lab
    from edgebench.host.show.history import histories_page, history_document
    from edgebench.host.show.tables import console
    from edgebench.host.store.history import newer_line
    from edgebench.host.store.index import RunFilter

    lab = Lab(options.store)
    histories = lab.history(
        runs=options.runs,
        model=options.model,
        device=options.device,
        tag=options.tag,
        since=options.since,
        last=options.last,
        metric=options.metric,
        margin_ratio=options.fail_on,
    )
    if (newer := newer_line(lab.store, RunFilter(since=options.since))) is not None:
        echo(f"warning: {newer}")
    if options.output is not None:
        from edgebench.host.report.page import history_report, write_report

        write_report(options.output, history_report(histories))
    if options.json:
        print(json.dumps({"histories": list(map(history_document, histories))}, indent=1))
    else:
        out = console()
        is_ascii = out.options.ascii_only
        out.print(histories_page(histories, out.width, is_ascii=is_ascii))
    if options.fail_on is None:
        return ExitCode.DONE
    code = exit_code(histories)
    if code is not ExitCode.DONE:
        _print_deciding_changes(code, histories)
    return code


def _print_deciding_changes(code: ExitCode, histories: Sequence[History]) -> None:
    """Print the histories that decided the exit code, with the reason for each."""
    from edgebench.host.analysis.history.history import HistoryOutcome
    from edgebench.host.show.history import outcome_sentence, subject_lines

    is_worse = code is ExitCode.REGRESSION
    outcome = HistoryOutcome.WORSE if is_worse else HistoryOutcome.INCONCLUSIVE
    reasons = [
        f"{title}: {outcome_sentence(history)}"
        for title, history in zip(subject_lines(histories), histories, strict=True)
        if history.outcome is outcome
    ]
    echo(
        f"note: exit code {code}: {len(reasons)} of {len(histories)} histories "
        f"{'is' if len(reasons) == 1 else 'are'} {outcome.value}:"
    )
    for reason in reasons[:MAX_DECIDING]:
        echo(f"  {reason}")
    if (left := len(reasons) - MAX_DECIDING) > 0:
        echo(f"  and {left} more")


def exit_code(histories: Sequence[History]) -> ExitCode:
    """Exit code 4 if any history became worse, else 5 if any is inconclusive, else 0."""
    from edgebench.host.analysis.history.history import HistoryOutcome

    outcomes = {history.outcome for history in histories}
    if HistoryOutcome.WORSE in outcomes:
        return ExitCode.REGRESSION
    if HistoryOutcome.INCONCLUSIVE in outcomes:
        return ExitCode.INCONCLUSIVE
    return ExitCode.DONE
