"""`edgebench bench`."""

from __future__ import annotations

import argparse
import os
from contextlib import suppress
from pathlib import Path

from edgebench.host.cli.formats import TEXT_FORMATS
from edgebench.host.cli.options import (
    CSV,
    JSON,
    MARKDOWN,
    Add,
    add_json,
    add_option,
    add_store,
    add_trust_model,
    format_of,
    is_quiet,
    new_parser,
)
from edgebench.host.options.bench import BASIC, GENERAL, OPTIONS, RUNTIME, SECTIONS, SETTINGS
from edgebench.system.exit_code import ExitCode
from edgebench.system.terminal import echo, echo_hint

TYPE_CHECKING = False  # see edgebench.host
if TYPE_CHECKING:
    from collections.abc import Sequence

    from edgebench.host.analysis.compare.runs import RunComparison
    from edgebench.host.bench.request import BenchOptions, BenchRequest
    from edgebench.host.cli.progress import ProgressWatcher
    from edgebench.host.export.exported import ExportedRun
    from edgebench.host.export.registry import ExportFormat
    from edgebench.host.lab import Lab
    from edgebench.host.result.run import Run
    from edgebench.host.store.layout import Store


ANNOUNCED_S = 60.0
"""Shortest expected duration of pairs that is stated before their first run."""
EXAMPLES = (
    "edgebench bench model.tflite --quick           a first result",
    "edgebench bench a.onnx b.onnx --on pi5         two models on a device",
    "edgebench bench old.onnx --against new.onnx    test whether new.onnx is slower",
)


def parser() -> argparse.ArgumentParser:
    """Argument parser of `edgebench bench`."""
    made = new_parser("bench", "Measure models; without a model, measure the built-in models.")
    made.epilog = (
        "Without MODEL, a microcontroller that can load models runs the built-in int8 model. Any "
        "other microcontroller runs the model in its firmware, which can also be selected as "
        "MODEL `firmware`."
    )
    made.basic = ("models", "export", "json", "output_format", *BASIC)
    made.examples = EXAMPLES
    made.add_argument("models", nargs="*", metavar="MODEL", help=".tflite or .onnx file")
    for section, options in SECTIONS.items():
        add: Add = made.add_argument_group(section).add_argument if section else made.add_argument
        for option in options:
            add_option(add, option)
        if section == GENERAL:
            export = "also write the runs to this file (no numbers for invalid runs); the suffix "
            export += "selects the format: .csv, .parquet, .pftrace, .xml (JUnit), .md, .prom; "
            add("--export", action="append", default=[], metavar="FILE", help=export + "repeatable")
            add_store(made)
            add_json(made, formats=(JSON, CSV, MARKDOWN))
        elif section == RUNTIME:
            add_trust_model(add)
    return made


def run(options: argparse.Namespace) -> ExitCode:
    """Measure the models, then print the table of results and the next step."""
    from edgebench.host.bench.cancellation import Interrupted
    from edgebench.host.cli.bench_report import conclude, report_interrupted, report_runs
    from edgebench.host.cli.progress import ProgressWatcher
    from edgebench.host.export.registry import format_of_file
    from edgebench.host.lab import Lab
    from edgebench.protocol.errors import EdgebenchError, UsageError
    from edgebench.system.unforeseen import named_error

    exports = [(format_of_file(name), Path(name)) for name in options.export]
    for _, path in exports:
        if not path.parent.is_dir():  # checked before the runs, so that they are not wasted
            raise UsageError(f"no such directory to export to: {path.parent}")
    compared: list[RunComparison] = []
    is_interrupted = False
    lab: Lab | None = None
    request: BenchRequest | None = None
    trusts_models = options.trust_model
    with ProgressWatcher(trusts_models=trusts_models, is_quiet=is_quiet(options)) as watcher:
        try:
            lab = Lab(options.store)
            _take_defaults(options)
            request = _request(options, lab.store)
            _announce_pairs(request, is_quiet=is_quiet(options))
            runs = lab.measure(request, watcher.notify)
            compared = _compared(request, [run.result for run in runs], watcher)
        except (Interrupted, KeyboardInterrupt) as exc:  # the latter between runs
            if not watcher.runs and not isinstance(exc, Interrupted):
                report_runs(options, lab, watcher)
                raise
            is_interrupted = True
            with suppress(EdgebenchError):  # without a whole pair, only the runs are shown
                compared = _compared(request, watcher.runs, watcher)
        except BrokenPipeError:
            raise
        except Exception as exc:
            error = named_error(exc)
            report_runs(options, lab, watcher, ended_by=error)
            _export(options, exports, lab, watcher.runs)
            raise error from exc
    assert lab is not None  # nothing is measured or interrupted before it exists
    if compared:
        code = _report_compared(options, compared, watcher)
    else:
        code = conclude(options, lab, watcher)
    if is_interrupted:
        code = report_interrupted(lab, watcher)
    is_exported = _export(options, exports, lab, watcher.runs)
    return ExitCode.FAILED if code is ExitCode.DONE and not is_exported else code


def _compared(
    request: BenchRequest | None, runs: Sequence[Run], watcher: ProgressWatcher
) -> list[RunComparison]:
    """Comparisons of the runs of a request; empty if the request has no --against.

    Raises:
        UsageError: the runs differ in more than the model.
        MeasurementError: a comparison has no pair of usable runs.
    """
    from edgebench.host.bench.runs import compare_measured
    from edgebench.protocol.errors import UsageError

    # A command that was refused as a whole has no pairs, not pairs that are invalid.
    are_refused = [isinstance(failure.error, UsageError) for failure in watcher.failures]
    is_refused = not runs and bool(are_refused) and all(are_refused)
    if request is None or request.against is None or is_refused:
        return []
    return compare_measured(request.against, runs)


def _report_compared(
    options: argparse.Namespace, compared: Sequence[RunComparison], watcher: ProgressWatcher
) -> ExitCode:
    """Report the comparisons of pairs, and return the same exit code as `edgebench compare`."""
    from edgebench.host.analysis.run_set import find_sets
    from edgebench.host.cli.bench_report import failure_entry, print_next_step, report_missing_pairs
    from edgebench.host.cli.compare import exit_code
    from edgebench.host.cli.compare import report as report_comparison

    errors = [failure_entry(failure, options) for failure in watcher.failures]
    sets = find_sets(watcher.runs)
    report_comparison(compared, sets, is_json=options.json, runs=watcher.runs, errors=errors)
    report_missing_pairs(watcher)
    if not options.json:
        print_next_step(options, sets)
    return exit_code(compared)


def _export(
    options: argparse.Namespace,
    exports: Sequence[tuple[ExportFormat, Path]],
    lab: Lab | None,
    runs: Sequence[Run],
) -> bool:
    """Write the runs to the files of --export; return whether every file was written."""
    from edgebench.host.export.files import export_runs
    from edgebench.host.options.command import CommandLine
    from edgebench.host.show.hints import hint_for
    from edgebench.system.unforeseen import named_error

    if lab is None:
        return True
    is_whole = True
    exported = _exported(options, lab, runs)
    for form, path in exports:
        try:
            export_runs(exported, form, path)
        except Exception as exc:  # the runs are stored, so a failed export costs only its file
            is_whole = False
            given = CommandLine(names={"RUN…": tuple(run.run_id for run in runs)})
            error = named_error(exc)
            echo(f"error: not exported: {error}")
            echo_hint(hint_for(error, given))
        else:
            echo(f"exported: {path}")
    return is_whole


def _exported(options: argparse.Namespace, lab: Lab, runs: Sequence[Run]) -> list[ExportedRun]:
    """Wrap the runs for the exporters, with the options that the comparison used."""
    from edgebench.host.export.exported import ExportedRun, Judgement

    judgement = Judgement(tuple(options.metric or ()), options.fail_on, tuple(options.allow or ()))
    return [ExportedRun(run, lab.store.directory(run.run_id), judgement) for run in runs]


def _announce_pairs(request: BenchRequest, *, is_quiet: bool) -> None:
    """Before the runs: how long pairs take, and whether they are too few to detect a change.

    A single pair is enough for instruction counts. The duration is stated because each run of a
    pair takes the whole duration of a set, also with --quick.
    """
    from edgebench.host.analysis.compare.comparison import Design, needed_run_count
    from edgebench.host.campaign.estimate import expected_run_s
    from edgebench.host.result.units import format_duration

    if request.against is None:
        return
    run_count, spec = 2 * request.against.pair_count, request.spec
    expected_s = run_count * expected_run_s(spec)
    if expected_s >= ANNOUNCED_S and not is_quiet:
        echo(
            f"note: {run_count} runs of {spec.duration_s:g} s take about "
            f"{format_duration(expected_s)} for each runtime and device; --pairs sets their number"
        )
    # Words such as "all" are not yet resolved to runtimes and devices.
    count = max(1, len(request.against.metrics)) * len(request.devices)
    least, pairs = needed_run_count(Design.PAIRED, count), request.against.pair_count
    if pairs < least:
        together = f" in {count} comparisons" if count > 1 else ""
        echo(
            f"warning: --pairs {pairs} is too few to decide about times or energies{together}; "
            f"at least {least} pairs are needed"
        )


def _request(options: argparse.Namespace, store: Store) -> BenchRequest:
    """Build the request from the options.

    Raises:
        UsageError: an option that needs --against is given without it, or --against is given with a
            number of models other than 1.
    """
    from edgebench.host.bench.request import new_request
    from edgebench.host.bench.stored_model import comparison_request
    from edgebench.protocol.errors import UsageError

    if options.against is None:
        for option in OPTIONS:
            if option not in SETTINGS and getattr(options, option.name) is not None:
                raise UsageError(f"{option.flag} needs --against B")
        return new_request(options.models, **_settings(options))
    if (form := format_of(options)) in TEXT_FORMATS:
        raise UsageError(
            f"-o {form} is not available with --against, which prints a comparison: use -o json"
        )
    if len(options.models) != 1:
        raise UsageError(
            f"--against takes a single baseline model, got {len(options.models)}; write: bench A "
            "--against B"
        )
    return comparison_request(
        store,
        options.models[0],
        options.against,
        pairs=options.pairs,
        metrics=options.metric,
        margin_ratio=options.fail_on,
        allowed=options.allow or (),
        **_settings(options),
    )


def _settings(options: argparse.Namespace) -> BenchOptions:
    """Collect the settings that the command line gives.

    Raises:
        UsageError: --quick is given with another preset, or two shapes are given for an input.
    """
    from typing import cast

    from edgebench.protocol.errors import UsageError

    settings: dict[str, object] = {}
    for option in SETTINGS:
        value = getattr(options, option.name)
        if value is None:
            continue
        if option.join is not None:
            value = option.join(value)
        if option.field in settings and settings[option.field] != value:  # only "preset" has two
            raise UsageError(f"--quick and --preset {value} contradict each other")
        settings[option.field] = value
    return cast("BenchOptions", settings)


def _take_defaults(options: argparse.Namespace) -> None:
    """Take missing options from environment variables, and print the options taken.

    Raises:
        UsageError: the value of a variable cannot be parsed.
    """
    from edgebench.protocol.errors import UsageError

    taken: list[str] = []
    for option in SETTINGS:
        text = os.environ.get(option.variable) if option.is_of_machine else None
        if not text or getattr(options, option.name) is not None:
            continue
        try:
            value = option.kind.read(text)
        except argparse.ArgumentTypeError as exc:
            raise UsageError(f"{option.variable}: {exc}") from None
        setattr(options, option.name, value if option.join is None else [value])
        taken.append(option.variable)
    if taken:
        echo(f"from the environment: {', '.join(taken)}")
