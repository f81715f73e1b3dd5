"""`edgebench campaign`."""

from __future__ import annotations

import argparse
import json
import shlex

from edgebench.host.cli.options import (
    add_cluster_certificates,
    add_json,
    add_store,
    add_trust_model,
    is_quiet,
    new_parser,
)
from edgebench.system.exit_code import ExitCode
from edgebench.system.terminal import echo

TYPE_CHECKING = False  # see edgebench.host
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from edgebench.host.campaign.campaign import Campaign
    from edgebench.host.campaign.cluster.address import ClusterAddress
    from edgebench.host.cli.progress import ProgressWatcher
    from edgebench.host.result.run_set import RunSet

WATCH_S = 1.0
"""Interval at which `watch` reads the campaign's state (two files and an index), seconds."""


def parser() -> argparse.ArgumentParser:
    """Argument parser of `edgebench campaign`."""
    made = new_parser(
        "campaign",
        "Measure a matrix of runs on many devices; an interrupted campaign resumes where it "
        "stopped.",
    )
    actions = made.add_subparsers(dest="action", metavar="ACTION", required=True)
    for name, text in (
        ("plan", "show the planned runs of a campaign file, and their expected duration"),
        ("run", "start a campaign"),
    ):
        action = actions.add_parser(name, help=text)
        action.add_argument(
            "file", metavar="FILE.toml", help="campaign file; see docs/campaigns.md"
        )
        _add_cluster(action)
        if name == "run":
            _add_store_url(action)
            add_trust_model(action.add_argument)
        add_store(action)
        add_json(action)
    for name, text in (
        ("resume", "make the remaining runs of a campaign"),
        ("status", "show a campaign's progress and results"),
        ("watch", "follow a campaign's progress to its end; Ctrl-C does not stop the campaign"),
    ):
        action = actions.add_parser(name, help=text)
        which = "id or name of the campaign (default: last)"
        action.add_argument("campaign", nargs="?", default="last", metavar="CAMPAIGN", help=which)
        if name == "resume":
            _add_cluster(action)
            _add_store_url(action)
            add_trust_model(action.add_argument)
        add_store(action)
        add_json(action)
    return made


def _add_cluster(action: argparse.ArgumentParser) -> None:
    offered = "Dask scheduler that the lab hosts are connected to, such as tcp://server:8786; see "
    action.add_argument("--cluster", metavar="ADDRESS", help=f"{offered}docs/clusters.md")
    add_cluster_certificates(action)


def _add_store_url(action: argparse.ArgumentParser) -> None:
    url = "fsspec URL through which lab hosts transfer finished runs to this host, such as "
    url += "s3://bucket/runs (default: through the scheduler)"
    action.add_argument("--store-url", metavar="URL", help=url)


def _cluster(options: argparse.Namespace) -> ClusterAddress | None:
    """The cluster that the options name; None without --cluster.

    Raises:
        UsageError: the address is malformed, or certificates or a store URL are given without a
            cluster.
    """
    from edgebench.host.campaign.cluster.address import ClusterAddress
    from edgebench.protocol.errors import UsageError

    certificates = (options.tls_ca_file, options.tls_cert, options.tls_key)
    if options.cluster is not None:
        return ClusterAddress(options.cluster, *certificates)
    if any(certificates):
        raise UsageError(
            "--tls-ca-file, --tls-cert and --tls-key need a cluster: --cluster tls://HOST:PORT"
        )
    if getattr(options, "store_url", None) is not None:
        raise UsageError("--store-url needs a cluster: --cluster tcp://HOST:PORT")
    return None


def run(options: argparse.Namespace) -> ExitCode:
    """Run the action."""
    actions = {"plan": _plan, "run": _run, "resume": _run, "status": _status, "watch": _watch}
    return actions[options.action](options)


def _print_new_names(file: str, echo: Callable[[str], None]) -> None:
    """Print which settings of a campaign file were renamed in this version."""
    from pathlib import Path

    from edgebench.host.campaign.spec import renamed_settings

    if renamed := renamed_settings(Path(file)):
        names = ", ".join(f"{old} is now {new}" for old, new in renamed.items())
        echo(f"note: [settings] of {file} uses old names: {names}")


def _plan(options: argparse.Namespace) -> ExitCode:
    from dataclasses import asdict

    from edgebench.host.analysis.median import MIN_RUNS
    from edgebench.host.campaign.estimate import expected_plan_s
    from edgebench.host.cli.progress import ProgressWatcher
    from edgebench.host.lab import Lab
    from edgebench.host.result.units import format_duration
    from edgebench.host.show.campaigns import cells_table
    from edgebench.host.show.tables import console
    from edgebench.protocol.text import printable

    with ProgressWatcher(is_quiet=is_quiet(options)) as watcher:
        plan = Lab(options.store).plan_campaign(options.file, watcher.notify, _cluster(options))
    _print_new_names(options.file, echo)
    lanes_s = expected_plan_s(plan)
    rows, count = [asdict(cell) for cell in plan.cells], len(plan.planned)
    longest_s = max(lanes_s.values())
    if options.json:
        document = {
            "name": plan.name,
            "cells": rows,
            "run_count": count,
            "repeats": plan.spec.repeats,
            "expected_s": longest_s,
            "devices": [{"device": name, "expected_s": at_s} for name, at_s in lanes_s.items()],
        }
        print(json.dumps(document, indent=1))
        return ExitCode.DONE
    console().print(cells_table(rows, plan.spec.repeats))
    devices = f"{len(lanes_s)} device{'s' if len(lanes_s) != 1 else ''}"
    about = format_duration(longest_s)
    print(
        printable(
            f"{plan.name}: {count} runs on {devices}, expected time about {about} if the "
            "models are fast"
        )
    )
    if 1 < plan.spec.repeats < MIN_RUNS:
        echo(
            f"note: {plan.spec.repeats} repeats are too few for a confidence interval over runs, "
            f"so times are marked suspect; to change that, set repeats = {MIN_RUNS} in "
            f"{options.file}"
        )
    file = f"{shlex.quote(options.file)}{_cluster_words(options)}"
    echo(f"next: edgebench campaign run {file}")
    return ExitCode.DONE


def _cluster_words(options: argparse.Namespace) -> str:
    """The cluster options that were given, as text to append to the commands that are printed."""
    names = ("cluster", "store_url", "tls_ca_file", "tls_cert", "tls_key")
    given = {name: getattr(options, name, None) for name in names}
    return "".join(
        f" --{name.replace('_', '-')} {shlex.quote(str(value))}"
        for name, value in given.items()
        if value is not None
    )


def _run(options: argparse.Namespace) -> ExitCode:
    """Start or resume a campaign; print its progress and results."""
    from edgebench.host.bench.cancellation import Interrupted
    from edgebench.host.cli.progress import ProgressWatcher
    from edgebench.host.lab import Lab

    lab, cluster = Lab(options.store), _cluster(options)
    is_interrupted = False
    trusts_models = options.trust_model
    with ProgressWatcher(trusts_models=trusts_models, is_quiet=is_quiet(options)) as watcher:
        if options.action == "resume":
            campaign = lab.campaign(options.campaign)
        else:
            campaign = lab.begin_campaign(options.file, watcher.notify, cluster)
            _print_new_names(options.file, watcher.echo)
        try:
            lab.resume_campaign(
                campaign.plan.id, watcher.notify, cluster=cluster, store_url=options.store_url
            )
        except (Interrupted, KeyboardInterrupt):
            is_interrupted = True
    return _report(options, campaign, watcher, is_interrupted=is_interrupted)


def _status(options: argparse.Namespace) -> ExitCode:
    from edgebench.host.lab import Lab

    _report(options, Lab(options.store).campaign(options.campaign))
    return ExitCode.DONE


def _watch(options: argparse.Namespace) -> ExitCode:
    """Print the state until no process runs the campaign; --json prints a document per change."""
    import time
    from contextlib import suppress
    from dataclasses import asdict

    from rich.live import Live

    from edgebench.host.lab import Lab
    from edgebench.host.show.campaigns import lanes_table
    from edgebench.host.show.tables import console

    campaign = Lab(options.store).campaign(options.campaign)
    with suppress(KeyboardInterrupt):  # another process runs the campaign
        if options.json:
            shown = None
            while True:
                is_running, lanes = campaign.is_running, campaign.lanes()
                if lanes != shown:
                    document = {
                        "campaign": asdict(campaign.summary()),
                        "devices": list(map(asdict, lanes)),
                    }
                    print(json.dumps(document), flush=True)
                    shown = lanes
                if not is_running:
                    return ExitCode.DONE
                time.sleep(WATCH_S)
        with Live(console=console(), auto_refresh=False) as live:
            while True:
                is_running = campaign.is_running
                live.update(lanes_table(campaign.lanes()), refresh=True)
                if not is_running:
                    break
                time.sleep(WATCH_S)
    if not options.json:
        _report(options, campaign)
    return ExitCode.DONE


def _report(
    options: argparse.Namespace,
    campaign: Campaign,
    watcher: ProgressWatcher | None = None,
    *,
    is_interrupted: bool = False,
) -> ExitCode:
    """Print a campaign's progress and results; return the exit code."""
    from edgebench.host.show.campaigns import campaign_document
    from edgebench.host.show.headline import headlines
    from edgebench.host.show.tables import console, print_line
    from edgebench.host.show.verdict import verdict_lines

    def settings(run_set: RunSet) -> str:
        return campaign.settings_of(run_set.first.run_id)

    sets, summary = campaign.sets(), campaign.summary()
    if options.json:
        lanes, rows = campaign.lanes(), campaign.rows()
        document = campaign_document(summary, lanes, rows, sets, campaign.effects())
        document["headlines"] = [headline.document for headline in headlines(sets, settings)]
        print(json.dumps(document, indent=1))
    else:
        _print_tables(campaign, sets)
    if watcher is not None:
        watcher.show_doubts(sets, settings)
        for failure in watcher.failures:
            if failure.model is None:
                echo(f"error: {failure.title}: {failure.error}")
    elif not options.json:
        for line in verdict_lines(sets, settings):
            print_line(console(), line)
    left_count = summary.left_count
    store = f" --store {shlex.quote(str(options.store))}" if options.store else ""
    if is_interrupted:
        echo(f"interrupted: finished runs are kept; {left_count} runs are left")
    if summary.is_running:
        echo(f"next: edgebench campaign watch {campaign.plan.id}{store}")
    elif left_count:
        cluster = _cluster_words(options)
        if not cluster and any(lane.lab for lane in campaign.lanes()):
            cluster = " --cluster ADDRESS"  # `status` has no option with the address
        echo(f"next: edgebench campaign resume {campaign.plan.id}{cluster}{store}")
    elif sets:
        echo(f"next: edgebench report {campaign.plan.id} --open{store}")
    if is_interrupted:
        return ExitCode.INTERRUPTED
    if left_count or summary.failed_count:
        return ExitCode.FAILED
    is_refused = any(run_set.verdict.is_refused for run_set in sets)
    return ExitCode.INVALID if is_refused else ExitCode.DONE


def _print_tables(campaign: Campaign, sets: Sequence[RunSet]) -> None:
    from edgebench.host.analysis.effects import MIN_ROUNDS
    from edgebench.host.result.metrics import METRICS
    from edgebench.host.show.campaigns import effects_table, failure_lines, lanes_table
    from edgebench.host.show.headline import best_of
    from edgebench.host.show.notes import note_lines
    from edgebench.host.show.tables import (
        console,
        mark_lines,
        print_line,
        results_table,
        tails_line,
    )
    from edgebench.protocol.text import printable

    out, summary = console(), campaign.summary()
    if (
        best := best_of(sets, lambda run_set: campaign.settings_of(run_set.first.run_id))
    ) is not None:
        print_line(out, best.line)
    out.print(lanes_table(campaign.lanes()))
    lines: list[str] = []
    if sets:

        def settings(run_set: RunSet) -> str:
            return campaign.settings_of(run_set.first.run_id)

        has_settings = any(map(settings, sets))
        table = results_table(sets, out.width, settings=settings if has_settings else None)
        out.print(table)
        lines += filter(None, [*mark_lines(sets), tails_line(sets, table)])
        lines += note_lines(sets, settings if has_settings else None)
    effects_by_metric = campaign.effects()
    for path, effects in effects_by_metric.items():
        out.print(effects_table(METRICS[path].label, effects, out.width))
    lines += failure_lines(campaign.rows())
    if sets and not summary.left_count and not effects_by_metric and len(campaign.plan.cells) > 1:
        needed = (
            "each effect needs valid or suspect runs of both levels in at least "
            f"{MIN_ROUNDS} repeats"
        )
        lines.append(f"note: effects of factors not computed: {needed}")
    for line in lines:
        print_line(out, line)
    counts = f"{summary.failed_count} failed, {summary.left_count} left"
    measured = f"{summary.measured_count} of {summary.run_count} runs measured, {counts}"
    print(printable(f"campaign {campaign.plan.id}, {campaign.plan.name}: {measured}"))
