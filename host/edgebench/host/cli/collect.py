"""`edgebench collect`."""

from __future__ import annotations

import argparse

from edgebench.host.cli.options import add_json, add_store, is_quiet, new_parser
from edgebench.system.exit_code import ExitCode
from edgebench.system.terminal import echo


def parser() -> argparse.ArgumentParser:
    """Argument parser of `edgebench collect`."""
    made = new_parser(
        "collect",
        "Store the runs that earlier commands left on devices, for example because the commands "
        "were killed. A run in progress is followed to its end; Ctrl-C stops it.",
    )
    made.add_argument(
        "--on",
        action="append",
        metavar="DEVICE",
        help="devices, separated by commas; all for every paired device; or conditions, written "
        "as in edgebench bench --on (default: local)",
    )
    leave = "skip devices on which a run is in progress"
    made.add_argument("--no-wait", action="store_true", help=leave)
    again = (
        "analyse again the runs that were set aside because their analysis failed, for example "
        "after an "
    )
    again += "upgrade; contacts no device"
    made.add_argument("--set-aside", action="store_true", help=again)
    add_store(made)
    add_json(made)
    # Options of bench that its report reads.
    made.set_defaults(meter=None, sync=None, metric=None, fail_on=None, allow=None)
    return made


def run(options: argparse.Namespace) -> ExitCode:
    """Collect; print the report of bench."""
    from edgebench.host.bench.cancellation import Interrupted
    from edgebench.host.cli.bench_report import conclude, report_interrupted, report_runs
    from edgebench.host.cli.progress import ProgressWatcher
    from edgebench.host.lab import Lab
    from edgebench.protocol.errors import UsageError
    from edgebench.system.unforeseen import named_error

    if options.set_aside and (options.on or options.no_wait):
        raise UsageError(
            "--set-aside analyses runs on this host, so it excludes --on and --no-wait"
        )
    lab: Lab | None = None
    is_interrupted = False
    with ProgressWatcher(is_quiet=is_quiet(options)) as watcher:
        try:
            lab = Lab(options.store)
            runs = (
                lab.analyse_set_aside(watcher.notify)
                if options.set_aside
                else lab.collect(
                    options.on or ["local"], is_waiting=not options.no_wait, watcher=watcher.notify
                )
            )
            if not (runs or watcher.failures or watcher.rejected_count):
                echo("nothing to store")
        except (Interrupted, KeyboardInterrupt) as exc:  # the latter between runs
            if not watcher.runs and not isinstance(exc, Interrupted):
                report_runs(options, lab, watcher)
                raise
            is_interrupted = True
        except BrokenPipeError:
            raise
        except Exception as exc:
            error = named_error(exc)
            report_runs(options, lab, watcher, ended_by=error)
            raise error from exc
    assert lab is not None
    code = conclude(options, lab, watcher)
    return report_interrupted(lab, watcher) if is_interrupted else code
