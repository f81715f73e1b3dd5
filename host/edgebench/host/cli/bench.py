"""`edgebench bench`."""

from __future__ import annotations

import argparse
import json
import shlex
import sys
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from edgebench.host.cli.compare import add_judgement
from edgebench.host.cli.options import (
    Add,
    add_json,
    add_store,
    capacity,
    celsius,
    hertz,
    latency,
    new_parser,
    numbers,
    real,
    seconds,
    size_bytes,
    whole,
)

if TYPE_CHECKING:
    from edgebench.host.analysis.compare.runs import Compared
    from edgebench.host.cli.progress import ProgressWatcher
    from edgebench.host.lab import Lab
    from edgebench.protocol.spec import Limits


def parser() -> argparse.ArgumentParser:
    """The command's options."""
    made = new_parser("bench", "Measure models. Without a model, the built-in ones.")
    made.add_argument("models", nargs="*", metavar="MODEL", help=".tflite or .onnx file")
    made.add_argument(
        "--on", action="append", metavar="DEVICE", help="a paired device; may be repeated"
    )
    add_store(made)
    add_json(made)
    _add_runtime(made.add_argument_group("the runtime and its process").add_argument)
    _add_length(made.add_argument_group("how long").add_argument)
    _add_scenario(made.add_argument_group("how queries are issued").add_argument)
    _add_answers(made.add_argument_group("what is looked at beside the time").add_argument)
    _add_energy(made.add_argument_group("energy").add_argument)
    _add_comparison(made.add_argument_group("comparing two models").add_argument)
    return made


def _add_runtime(add: Add) -> None:
    add("--runtime", metavar="R", help="tflite, litert, onnx, or all (default: by the file)")
    add("--threads", type=whole, metavar="N", help="threads of the runtime (default: 1)")
    add("--delegate", metavar="D", help="delegate or execution provider")
    add("--cpus", type=numbers, metavar="2,3", help="bind the model's process to these")
    add("--priority", metavar="P", help="normal (default), or realtime: SCHED_FIFO")
    add("--governor", metavar="G", help="set this CPU governor for the run, and restore it (root)")
    add("--timeout", type=seconds, metavar="60s", help="limit on loading and the first inference")
    add("--memory-limit", type=size_bytes, metavar="2GiB", help="limit on the model's process")


def _add_length(add: Add) -> None:
    add("--duration", type=seconds, metavar="60s", help="measure at least this long")
    sustained = "measure what the device keeps up for so long: start, onset of throttling, end"
    add("--sustained", type=seconds, metavar="20m", help=sustained)
    add("--min-queries", type=whole, metavar="N", help="measure at least this many")
    add("--warmup", type=whole, metavar="N", help="queries before the timed ones")
    add("--quick", action="store_true", help="the same as --preset quick")
    add("--preset", metavar="P", help="default, quick or mlperf")


def _add_scenario(add: Add) -> None:
    names = "single_stream (default), multi_stream, server, offline: MLPerf's"
    add("--scenario", metavar="S", help=names)
    add("--samples-per-query", type=whole, metavar="N", help="multi_stream (default: 8)")
    arrivals = "server: arrivals a second, by a Poisson process"
    add("--qps", type=real, metavar="N", help=arrivals)
    target = "server: its p99 must not exceed this"
    add("--target-latency", type=latency, metavar="50ms", help=target)
    add("--engine", metavar="E", help="native (default), or loadgen: MLPerf's own")
    add("--seed", type=whole, metavar="N", help="seed of the inputs, their order and the arrivals")


def _add_answers(add: Add) -> None:
    dataset = "answer a labelled data set too: a .npz file, or digits"
    add("--accuracy", metavar="DATASET", help=dataset)
    reference = "unquantised model to hold the accuracy against"
    add("--reference", metavar="MODEL", help=reference)
    unchecked = "do not compare the answers with reference kernels"
    add("--no-check", action="store_true", help=unchecked)
    add("--profile", action="store_true", help="time every operator, in a run of its own")
    rate = "looks at the device a second beside the run (default: 10); 0: none, but for the guard"
    rate += " of its highest temperature, where its profile has one"
    cooldown = "wait so long for a cool device (default: as its profile says); 0s: do not wait"
    add(
        "--ambient",
        type=celsius,
        metavar="22",
        help="temperature of the air, °C; kept with the run",
    )
    add("--cooldown", type=seconds, metavar="10m", help=cooldown)
    add("--telemetry-rate", type=hertz, metavar="HZ", help=rate)


def _add_energy(add: Add) -> None:
    meter = "measure energy with it, as in ppk2:/dev/ttyACM0,supply=3.3; edgebench meters shows "
    meter += "which meters there are, edgebench meters --help the options of each; agent:METER for "
    add("--meter", metavar="METER", help=meter + "one that the device's agent serves")
    methods = "lay the meter's clock over the device's by edge, coded_load, probes, arrival or "
    add("--sync", metavar="METHOD", help=methods + "shared_clock only (default: auto, the best)")
    idle = "do nothing for so long before and after (default: as the meter needs it)"
    add("--idle", type=seconds, metavar="2s", help=idle)
    battery = "capacity of a charge, to estimate how long it lasts: 18.5Wh, 5000mAh@3.85V"
    add("--battery", type=capacity, metavar="CAPACITY", help=battery)


def _add_comparison(add: Add) -> None:
    against = "compare the model with B: paired runs in random order"
    add("--against", metavar="B", help=against)
    add("--pairs", type=whole, metavar="N", help="runs of each (default: 10)")
    add_judgement(add)


def run(options: argparse.Namespace) -> int:
    """Measure; print the table, and what to do next."""
    from edgebench.host.bench.run import Interrupted
    from edgebench.host.cli import main as codes
    from edgebench.host.cli.compare import exit_code, report
    from edgebench.host.cli.progress import ProgressWatcher
    from edgebench.host.lab import Lab
    from edgebench.protocol.errors import EdgebenchError

    lab = Lab(options.store)
    compared: list[Compared] = []
    is_interrupted = False
    with ProgressWatcher() as watcher:
        try:
            compared = _measure(options, lab, watcher)
        except Interrupted as exc:
            is_interrupted = True
            if exc.document is not None:
                watcher.documents.append(exc.document)
        except (EdgebenchError, KeyboardInterrupt):
            _report(options, lab, watcher)  # what was measured before is not lost from sight
            raise
    if compared:
        report(compared, is_json=options.json, documents=watcher.documents)
        _report_losses(options, compared, watcher)
        return exit_code(compared)
    _report(options, lab, watcher)
    if is_interrupted:
        _say_what_was_kept(watcher, lab)
        return codes.INTERRUPTED
    if watcher.failures:
        return codes.FAILED
    return codes.INVALID if any(map(_is_refused, watcher.documents)) else codes.DONE


def _is_refused(document: dict[str, Any]) -> bool:
    """Whether a number that was asked for is not there: all of them, or the energy."""
    energy = document["metrics"]["energy"]
    is_energy_refused = energy is not None and energy["refused"] is not None
    return document["verdict"]["state"] == "invalid" or is_energy_refused


def _measure(options: argparse.Namespace, lab: Lab, watcher: ProgressWatcher) -> list[Compared]:
    """Measure the models, or the pairs of a comparison."""
    shared: dict[str, Any] = {
        "on": options.on or ["local"],
        "runtime": options.runtime,
        "preset": _preset(options),
        "limits": _limits(options),
        "meter": options.meter,
        "sync": options.sync,
        "battery_capacity_j": options.battery,
        "idle_duration_s": options.idle,
        "ambient_c": options.ambient,
        "watcher": watcher,
        **_settings(options),
    }
    if options.against is None:
        _refuse_without_against(options)
        lab.bench(*options.models, accuracy=options.accuracy, reference=options.reference, **shared)
        return []
    found, _ = lab.bench_against(
        _only_model(options),
        options.against,
        metrics=options.metric,
        margin_ratio=options.fail_on,
        allowed=options.allow or (),
        **({"pairs": options.pairs} if options.pairs is not None else {}),
        **shared,
    )
    return found


def _report_losses(
    options: argparse.Namespace, compared: list[Compared], watcher: ProgressWatcher
) -> None:
    """Say which pairs are missing, and why."""
    from edgebench.host.lab import DEFAULT_PAIRS

    watcher.show_doubts([d for d in watcher.documents if d["verdict"]["state"] == "invalid"])
    for what, error in watcher.failures:
        print(f"error: {what}: {error}", file=sys.stderr)
    wanted = options.pairs or DEFAULT_PAIRS
    for one in compared:
        lost = wanted - one.result.baseline_count
        if lost > 0:
            print(f"note: {lost} of {wanted} pairs are left out on {one.runtime}", file=sys.stderr)


def _only_model(options: argparse.Namespace) -> str:
    from edgebench.protocol.errors import UsageError

    if len(options.models) != 1:
        raise UsageError(f"--against compares one model with another, got {len(options.models)}")
    if options.accuracy or options.reference or options.profile:
        raise UsageError("--against compares latencies; measure accuracy and profile on their own")
    return str(options.models[0])


def _refuse_without_against(options: argparse.Namespace) -> None:
    from edgebench.protocol.errors import UsageError

    for name in ("pairs", "metric", "fail_on", "allow"):
        if getattr(options, name) is not None:
            raise UsageError(f"--{name.replace('_', '-')} needs --against B")


def _report(options: argparse.Namespace, lab: Lab, watcher: ProgressWatcher) -> None:
    from edgebench.host.show.hints import hint_for
    from edgebench.host.show.page import heat_lines, operators_table
    from edgebench.host.show.tables import console, results_table

    documents = watcher.documents
    if options.json:
        json.dump({"runs": documents}, sys.stdout, indent=1)
        print()
    elif documents:
        out = console()
        out.print(results_table(documents, out.width))
        for document in documents:
            if document["metrics"]["profile"] is not None:
                out.print(operators_table(document))
            if document["spec"]["is_sustained"] and document["verdict"]["state"] != "invalid":
                for line in heat_lines(document["metrics"]["thermal"]):
                    print(f"sustained: {document['model']['name']}: {line}")
    watcher.show_doubts(documents)
    for what, error in watcher.failures:
        print(f"error: {what}: {error}", file=sys.stderr)
    if watcher.failures and (hint := hint_for(watcher.failures[-1][1])):
        print(f"hint: {hint}", file=sys.stderr)
    if documents and not options.json:
        print(f"results: {lab.store.runs}", file=sys.stderr)
        store = f" --store {shlex.quote(str(options.store))}" if options.store else ""
        print(f"next: edgebench show {documents[-1]['run_id']}{store}", file=sys.stderr)


def _say_what_was_kept(watcher: ProgressWatcher, lab: Lab) -> None:
    kept = len(watcher.documents)
    runs = f"{kept} run{'s' if kept != 1 else ''} kept in {lab.store.runs}"
    print(f"interrupted: {runs}" if kept else "interrupted: nothing was kept", file=sys.stderr)


def _preset(options: argparse.Namespace) -> str:
    from edgebench.protocol.errors import UsageError
    from edgebench.protocol.spec import DEFAULT_PRESET

    if options.quick and options.preset not in (None, "quick"):
        raise UsageError(f"--quick and --preset {options.preset} contradict each other")
    return "quick" if options.quick else options.preset or DEFAULT_PRESET


def _limits(options: argparse.Namespace) -> Limits:
    from edgebench.protocol.spec import Limits

    limits = Limits(memory_bytes=options.memory_limit)
    return limits if options.timeout is None else replace(limits, load_timeout_s=options.timeout)


def _sustained(options: argparse.Namespace) -> dict[str, Any]:
    """The settings that --sustained stands for."""
    from edgebench.protocol.errors import UsageError
    from edgebench.protocol.spec import MAX_SUSTAINED_QUERIES

    if options.sustained is None:
        return {}
    if options.duration is not None:
        raise UsageError("--sustained and --duration contradict each other")
    return {
        "duration_s": options.sustained,
        "is_sustained": True,
        "max_query_count": MAX_SUSTAINED_QUERIES,
    }


def _settings(options: argparse.Namespace) -> dict[str, Any]:
    return {
        "scenario": options.scenario,
        "engine": options.engine,
        "priority": options.priority,
        "governor": options.governor,
        "cpus": options.cpus,
        "target_qps": options.qps,
        "target_latency_s": options.target_latency,
        "samples_per_query": options.samples_per_query,
        "is_profiled": options.profile or None,
        "cooldown_timeout_s": options.cooldown,
        "telemetry_rate_hz": options.telemetry_rate,
        "is_checked": False if options.no_check else None,
        "duration_s": options.duration,
        "min_query_count": options.min_queries,
        "warmup_query_count": options.warmup,
        "threads": options.threads,
        "delegate": options.delegate,
        "seed": options.seed,
        **_sustained(options),
    }
