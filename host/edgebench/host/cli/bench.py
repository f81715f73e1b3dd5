"""`edgebench bench`."""

from __future__ import annotations

import argparse
import shlex
from pathlib import Path

from edgebench.host.cli.compare import add_judgement
from edgebench.host.cli.options import (
    Add,
    GivenOnce,
    add_json,
    add_store,
    add_trust_model,
    new_parser,
)
from edgebench.host.options.values import (
    capacity,
    celsius,
    hertz,
    input_shape,
    latency,
    numbers,
    real,
    seconds,
    size_bytes,
    whole,
)
from edgebench.system.exit_code import ExitCode
from edgebench.system.terminal import say, say_hint

TYPE_CHECKING = False  # see edgebench.host
if TYPE_CHECKING:
    from collections.abc import Sequence

    from edgebench.host.analysis.compare.runs import RunComparison
    from edgebench.host.bench.request import BenchRequest
    from edgebench.host.export.registry import ExportFormat
    from edgebench.host.lab import Lab
    from edgebench.host.result.run import Run
    from edgebench.protocol.spec import SpecChanges


def parser() -> argparse.ArgumentParser:
    """The command's options."""
    made = new_parser("bench", "Measure models. Without a model, the built-in ones.")
    made.epilog = (
        "Without a model, a microcontroller that takes models gets the built-in int8 one; another "
        "runs the one in its firmware (also: `firmware`)."
    )
    made.add_argument("models", nargs="*", metavar="MODEL", help=".tflite or .onnx file")
    made.add_argument(
        "--on",
        action="append",
        metavar="DEVICE",
        help="paired device; several with commas or by repeating it; all; or conditions that must "
        "all hold, as label:pi,arch:aarch64 (keys: label, arch, name); several devices are "
        "measured at the same time (default: local)",
    )
    wait = "if another command measures on the device, wait for up to this long (default: 0s)"
    made.add_argument("--wait", type=seconds, default=0.0, metavar="10m", help=wait)
    export = "also write the runs to this file, invalid ones without numbers; the suffix selects "
    export += "the format: .csv, .parquet, .pftrace, .xml (JUnit), .md, .prom; repeatable"
    made.add_argument("--export", action="append", default=[], metavar="FILE", help=export)
    add_store(made)
    add_json(made)
    _add_runtime(made.add_argument_group("runtime and process").add_argument)
    _add_inputs(made.add_argument_group("inputs").add_argument)
    _add_length(made.add_argument_group("length of the run").add_argument)
    _add_scenario(made.add_argument_group("scenario").add_argument)
    _add_checks(made.add_argument_group("outputs, operators and temperature").add_argument)
    _add_energy(made.add_argument_group("energy").add_argument)
    _add_comparison(made.add_argument_group("comparison of two models").add_argument)
    return made


def _add_runtime(add: Add) -> None:
    add(
        "--runtime",
        action=GivenOnce,
        metavar="R",
        help="runtime, as onnx, or all of them (default: by the model)",
    )
    add("--threads", type=whole, metavar="N", help="threads of the runtime (default: 1)")
    add("--delegate", action=GivenOnce, metavar="D", help="delegate or execution provider")
    signature = "signature to measure of a .tflite file that has several (default: its first graph)"
    add("--signature", action=GivenOnce, metavar="NAME", help=signature)
    add("--cpus", type=numbers, metavar="2,3", help="bind the model's process to these CPUs")
    add("--priority", metavar="P", help="normal (default), or realtime: SCHED_FIFO")
    add("--governor", metavar="G", help="CPU governor for the run, restored after it (needs root)")
    airplane = "phones: airplane mode for the run, switched back after it (Android 11 and later)"
    add("--airplane-mode", action="store_true", help=airplane)
    brightness = "phones: brightness of the screen for the run, 0 to 255, set back after it"
    add("--brightness", type=whole, metavar="N", help=brightness)
    add("--timeout", type=seconds, metavar="60s", help="limit on loading and the first inference")
    limit = "limit on the memory of the model's process"
    add("--memory-limit", type=size_bytes, metavar="2GiB", help=limit)
    add_trust_model(add)


def _add_inputs(add: Add) -> None:
    shape = "shape of an input whose model leaves dimensions open (default: 1 each); repeatable"
    add("--shape", type=input_shape, action="append", metavar="NAME=1x128", help=shape)
    inputs = "run on these inputs: a .npz file, arrays by input name, first axis: samples"
    add("--inputs", action=GivenOnce, metavar="FILE", help=inputs)
    add("--seed", type=whole, metavar="N", help="seed of the inputs, their order and the arrivals")


def _add_length(add: Add) -> None:
    length = "measure for at least this long in all; with --against, in each run"
    add("--duration", type=seconds, metavar="60s", help=length)
    longest = (
        "end after this long in all, even with fewer queries than asked for (default: 30m, or "
    )
    longest += "30 times the duration; with --quick 1m, or 6 times; with --preset mlperf no limit)"
    add("--max-duration", type=seconds, metavar="20m", help=longest)
    sustained = "measure sustained performance for this long: start, onset of throttling, end"
    add("--sustained", type=seconds, metavar="20m", help=sustained)
    add("--min-queries", type=whole, metavar="N", help="measure at least this many queries in all")
    add("--warmup", type=whole, metavar="N", help="queries before the timed ones")
    runs = "runs of each model, each a process of its own, which share the duration and the queries"
    add("--runs", type=whole, metavar="N", help=runs + " (default: 5; 1 where one run is judged)")
    add("--quick", action="store_true", help="short for --preset quick")
    add("--preset", metavar="P", help="default, quick or mlperf")


def _add_scenario(add: Add) -> None:
    names = "MLPerf scenario: single_stream (default), multi_stream, server or offline"
    add("--scenario", metavar="S", help=names)
    samples = "multi_stream: samples per query (default: 8)"
    add("--samples-per-query", type=whole, metavar="N", help=samples)
    arrivals = "server: mean arrivals per second of a Poisson process"
    add("--qps", type=real, metavar="N", help=arrivals)
    target = "server: limit on the p99 latency"
    add("--target-latency", type=latency, metavar="50ms", help=target)
    engine = "who issues the queries: native (default), or loadgen, MLPerf's own"
    add("--engine", metavar="E", help=engine)


def _add_checks(add: Add) -> None:
    dataset = "run a labelled data set too: a .npz file, or digits"
    add("--accuracy", metavar="DATASET", help=dataset)
    samples = "run N samples of the data set, drawn at random by the seed (default: all)"
    add("--accuracy-samples", type=whole, metavar="N", help=samples)
    limit = "microcontrollers: refuse a data set that would take longer (default: 1h)"
    add("--accuracy-limit", type=seconds, metavar="1h", help=limit)
    reference = "unquantised model that the accuracy is compared with"
    add("--reference", metavar="MODEL", help=reference)
    unchecked = "do not compare the outputs with reference kernels"
    add("--no-check", action="store_true", help=unchecked)
    add("--profile", action="store_true", help="time every operator, in a run of its own")
    ambient = "temperature of the air, °C; stored with the run"
    add("--ambient", type=celsius, metavar="22", help=ambient)
    cooldown = "longest wait for a cool device (default: from its profile); 0s: do not wait"
    add("--cooldown", type=seconds, metavar="10m", help=cooldown)
    rate = "telemetry samples per second (default: 10); 0: none, except for the temperature guard "
    add("--telemetry-rate", type=hertz, metavar="HZ", help=rate + "that some profiles have")


def _add_energy(add: Add) -> None:
    meter = "energy meter, as in ppk2:/dev/ttyACM0,supply=3.3, or agent:METER for one that the "
    meter += "device's agent serves, or farm for the one in farm.toml; edgebench meters lists the "
    meter += "meters, edgebench meters --help "
    add("--meter", metavar="METER", help=meter + "the options of each")
    methods = (
        "align the meter's clock with the device's by edge, coded_load, loop, probes, arrival "
    )
    methods += "or shared_clock only (default: auto, the best); coded_load without a meter: play "
    methods += "the load code for an instrument that records into a file; then edgebench energy"
    add("--sync", metavar="METHOD", help=methods)
    rate = "samples per second of that instrument (default: 1000); a slow one needs a long code"
    add("--trace-rate", type=hertz, metavar="HZ", help=rate)
    idle = "idle time before and after each run (default: as the meter needs it)"
    add("--idle", type=seconds, metavar="2s", help=idle)
    battery = "capacity of a battery, to estimate its life: 18.5Wh, 5000mAh@3.85V"
    add("--battery", type=capacity, metavar="CAPACITY", help=battery)


def _add_comparison(add: Add) -> None:
    against = "compare B, the candidate, with the model, the baseline: paired runs in random order"
    add("--against", action=GivenOnce, metavar="B", help=against)
    pairs = "pairs of runs (default: 10; times need at least 6, several comparisons more)"
    add("--pairs", type=whole, metavar="N", help=pairs)
    add_judgement(add)


def run(options: argparse.Namespace) -> ExitCode:
    """Measure; print the table and the next step."""
    from edgebench.host.analysis.run_set import find_sets
    from edgebench.host.bench.cancellation import Interrupted
    from edgebench.host.cli.bench_report import (
        conclude,
        failure_entry,
        print_next_step,
        report_missing_pairs,
        report_runs,
    )
    from edgebench.host.cli.compare import exit_code
    from edgebench.host.cli.compare import report as report_comparison
    from edgebench.host.cli.progress import ProgressWatcher
    from edgebench.host.export.registry import format_of_file
    from edgebench.host.lab import Lab, compare_measured
    from edgebench.protocol.errors import UsageError
    from edgebench.system.unforeseen import named_error

    exports = [(format_of_file(name), Path(name)) for name in options.export]
    for _, path in exports:
        if not path.parent.is_dir():  # found out before the runs, not after them
            raise UsageError(f"no such directory to export to: {path.parent}")
    compared: list[RunComparison] = []
    is_interrupted = False
    lab: Lab | None = None
    with ProgressWatcher(trusts_models=options.trust_model) as watcher:
        try:
            lab = Lab(options.store)
            request = _request(options)
            _warn_of_few_pairs(request)
            runs = lab.measure(request, watcher)
            if request.against is not None:
                compared = compare_measured(request.against, runs)
        except Interrupted:
            is_interrupted = True
        except BrokenPipeError:
            raise
        except Exception as exc:
            error = named_error(exc)
            report_runs(options, lab, watcher, ended_by=error)
            _export(options, exports, lab, watcher.runs)
            raise error from exc
        except KeyboardInterrupt:
            report_runs(options, lab, watcher)  # what was measured before is not lost from sight
            _export(options, exports, lab, watcher.runs)
            raise
    assert lab is not None  # without it nothing was measured, or interrupted
    if compared:
        errors = [failure_entry(one, options) for one in watcher.failures]
        report_comparison(compared, is_json=options.json, runs=watcher.runs, errors=errors)
        report_missing_pairs(watcher)
        if not options.json:
            print_next_step(options, find_sets(watcher.runs))
        code = exit_code(compared)
    else:
        code = conclude(options, lab, watcher, is_interrupted=is_interrupted)
    is_exported = _export(options, exports, lab, watcher.runs)
    return ExitCode.FAILED if code is ExitCode.DONE and not is_exported else code


def _export(
    options: argparse.Namespace,
    exports: Sequence[tuple[ExportFormat, Path]],
    lab: Lab | None,
    runs: Sequence[Run],
) -> bool:
    """Write the runs to the files of --export; return whether all of them were written."""
    from edgebench.host.export.exported import ExportedRun, Judgement
    from edgebench.host.export.files import export_runs
    from edgebench.host.show.hints import hint_for
    from edgebench.host.show.placeholders import fill
    from edgebench.system.unforeseen import named_error

    if lab is None:
        return True
    is_whole = True
    judgement = Judgement(tuple(options.metric or ()), options.fail_on, tuple(options.allow or ()))
    exported = [ExportedRun(run, lab.store.directory(run.run_id), judgement) for run in runs]
    for form, path in exports:
        try:
            export_runs(exported, form, path)
        except Exception as exc:  # the runs are stored: a format that fails costs its file only
            is_whole = False
            names = {"RUN…": shlex.join(run.run_id for run in runs)}
            error = named_error(exc)
            say(f"error: not exported: {error}")
            say_hint(fill(hint_for(error), names))
        else:
            say(f"exported: {path}")
    return is_whole


def _warn_of_few_pairs(request: BenchRequest) -> None:
    """Say before the runs that they will not decide; counts of instructions need one pair only."""
    from edgebench.host.bench.request import needed_pair_count

    if request.against is None:
        return
    # Runtimes and devices that a word stands for are not known yet.
    count = max(1, len(request.against.metrics)) * len(request.devices)
    least, pairs = needed_pair_count(count), request.against.pair_count
    if pairs < least:
        together = f" in {count} comparisons" if count > 1 else ""
        say(
            f"warning: --pairs {pairs} decides nothing about times or energies{together}, whatever "
            f"the runs show; --pairs {least} or more can"
        )


def _request(options: argparse.Namespace) -> BenchRequest:
    """The request that the options make."""
    from edgebench.host.bench.builtin import find_model
    from edgebench.host.bench.request import DEFAULT_PAIRS, ComparisonRequest, new_request
    from edgebench.protocol.errors import UsageError

    against = None
    if options.against is None:
        for name in ("pairs", "metric", "fail_on", "allow"):
            if getattr(options, name) is not None:
                raise UsageError(f"--{name.replace('_', '-')} needs --against B")
    else:
        if len(options.models) != 1:
            count = len(options.models)
            raise UsageError(f"--against compares one model with another, got {count}")
        against = ComparisonRequest(
            candidate=find_model(options.against),
            pair_count=DEFAULT_PAIRS if options.pairs is None else options.pairs,
            metrics=tuple(options.metric or ()),
            margin_ratio=options.fail_on,
            allowed=tuple(options.allow or ()),
        )
    return new_request(
        options.models,
        on=options.on or ["local"],
        runtime=options.runtime,
        preset=_preset(options),
        runs=options.runs,
        inputs=options.inputs,
        accuracy=options.accuracy,
        reference=options.reference,
        meter=options.meter,
        sync=options.sync,
        battery_capacity_j=options.battery,
        idle_duration_s=options.idle,
        trace_rate_hz=options.trace_rate,
        ambient_c=options.ambient,
        against=against,
        wait_s=options.wait,
        **_changes(options),
    )


def _preset(options: argparse.Namespace) -> str:
    from edgebench.protocol.errors import UsageError
    from edgebench.protocol.spec import DEFAULT_PRESET

    if options.quick and options.preset not in (None, "quick"):
        raise UsageError(f"--quick and --preset {options.preset} contradict each other")
    return "quick" if options.quick else options.preset or DEFAULT_PRESET


def _changes(options: argparse.Namespace) -> SpecChanges:
    """Changes of the preset; None leaves a field as it is."""
    from dataclasses import replace

    from edgebench.protocol.errors import UsageError
    from edgebench.protocol.spec import MAX_SUSTAINED_QUERIES, Limits, SpecChanges

    shapes = dict(options.shape or ())
    if len(shapes) < len(options.shape or ()):
        twice = [name for name, _ in options.shape]
        name = next(name for name in twice if twice.count(name) > 1)
        raise UsageError(f"--shape gives input {name!r} two shapes")
    limits = Limits(memory_bytes=options.memory_limit)
    if options.timeout is not None:
        limits = replace(limits, load_timeout_s=options.timeout)
    changes = SpecChanges(
        scenario=options.scenario,
        engine=options.engine,
        priority=options.priority,
        governor=options.governor,
        is_airplane_mode=options.airplane_mode or None,
        screen_brightness=options.brightness,
        cpus=options.cpus,
        target_qps=options.qps,
        target_latency_s=options.target_latency,
        samples_per_query=options.samples_per_query,
        is_profiled=options.profile or None,
        cooldown_timeout_s=options.cooldown,
        telemetry_rate_hz=options.telemetry_rate,
        is_checked=False if options.no_check else None,
        dataset_sample_count=options.accuracy_samples,
        dataset_limit_s=options.accuracy_limit,
        duration_s=options.duration,
        min_query_count=options.min_queries,
        max_duration_s=options.max_duration,
        warmup_query_count=options.warmup,
        threads=options.threads,
        delegate=options.delegate,
        signature=options.signature,
        seed=options.seed,
        input_shapes=shapes,
        limits=limits,
    )
    if options.sustained is not None:
        if options.duration is not None:
            raise UsageError("--sustained and --duration contradict each other")
        changes["duration_s"] = options.sustained
        changes["is_sustained"] = True
        changes["max_query_count"] = MAX_SUSTAINED_QUERIES
    return changes
