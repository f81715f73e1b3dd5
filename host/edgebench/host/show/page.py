"""One run on one page, for the terminal."""

from __future__ import annotations

from typing import Any

from rich.console import Group
from rich.table import Table
from rich.text import Text

from edgebench.host.show.energy import energy_lines
from edgebench.host.show.tables import PIPE_WIDTH, plain_table, results_table, text
from edgebench.host.show.units import (
    format_bytes,
    format_interval_ns,
    format_ns,
    format_plain,
    format_rate,
    half_width_of,
)
from edgebench.host.store.index import INVALID

_PERCENTILES = ("p50", "p90", "p99", "p99_9")


def run_page(document: dict[str, Any], width: int = PIPE_WIDTH) -> Group:
    """Everything about one run that a person wants to see first."""
    facts = Table.grid(padding=(0, 2))
    for name, value in _facts(document):
        facts.add_row(Text(name, style="bold"), text(value))
    rules = plain_table("rule", "outcome", "detail")
    for rule in document["verdict"]["rules"]:
        style = {"pass": "green", "fail": "red"}.get(rule["outcome"], "yellow")
        rules.add_row(rule["id"], Text(rule["outcome"], style=style), text(rule["detail"]))
    parts: list[Any] = [facts, "", results_table([document], width), ""]
    if document["metrics"]["profile"] is not None:
        parts += [operators_table(document), ""]
    elif document["verdict"]["state"] != INVALID:
        parts += [_percentiles_table(document["metrics"]), ""]
    return Group(*parts, rules, "")


def operators_table(document: dict[str, Any]) -> Table:
    """The operators of a profile in the order of execution, with their share of the time."""
    profile = document["metrics"]["profile"]
    total_ns = sum(operator["total_ns"] for operator in profile["operators"]) or 1
    table = plain_table("#", "operator", "place", "mean time", "share", "name")
    for operator in profile["operators"]:
        table.add_row(
            str(operator["index"]),
            text(operator["operator"]),
            text(operator["place"]),
            format_ns(operator["total_ns"] / max(1, operator["count"])),
            f"{operator['total_ns'] / total_ns:.1%}",
            text(operator["name"]),
        )
    return table


def _percentiles_table(metrics: dict[str, Any]) -> Table:
    """Both spans with every percentile and its interval; without an interval, no number."""
    table = plain_table("latency", *(name.replace("_", ".") for name in _PERCENTILES))
    for label, key in (("invocation", "latency_ns"), ("query", "end_to_end_ns")):
        latency = metrics[key]
        if latency is not None:
            table.add_row(label, *(_percentile(latency, name) for name in _PERCENTILES))
    return table


def _percentile(latency: dict[str, Any], name: str) -> str:
    """A tail without an interval is no number; the headline is the one of the table above."""
    value_ns, interval = latency.get(name), latency.get(f"{name}_ci95")
    if name == "p50" and value_ns is not None and interval is None:
        return f"{format_ns(value_ns)} (no interval)"
    return format_interval_ns(value_ns, interval)


def _facts(document: dict[str, Any]) -> list[tuple[str, str]]:
    model, device, runtime = document["model"], document["device"], document["runtime"]
    environment, metrics = document["environment"], document["metrics"]
    delegates = ", ".join(runtime["delegates_used"]) or "none"
    facts = [
        ("run", f"{document['run_id']}, {document['created_utc']}"),
        ("model", f"{model['name']}, {format_bytes(model['size_bytes'])}, {model['sha256'][:12]}"),
        ("runtime", f"{runtime['name']} {runtime['version']}, delegates used: {delegates}"),
        ("kind", _kind(document)),
        ("scenario", _scenario(document["spec"])),
        ("process", _process(document)),
    ]
    if document["verdict"]["state"] != INVALID:
        facts += _numbers(metrics)
    return [
        *facts,
        ("device", f"{device['name']}, {device['soc']}, {device['os']}"),
        ("virtual", environment["virtualization"] or "no sign of it"),
        ("governor", environment["cpu"]["governor"] or "not told by the kernel"),
        ("load average", f"{environment['load_1m']:.2f} before the run"),
        *_ambient(document["conditions"]["ambient_c"]),
    ]


def _ambient(temp_c: float | None) -> list[tuple[str, str]]:
    return [] if temp_c is None else [("ambient", f"{temp_c:g} °C, as the operator says")]


def _kind(document: dict[str, Any]) -> str:
    profile = document["metrics"]["profile"]
    if document["simulated"]:
        return "SIMULATED device: its times are made up"
    if profile is None:
        return "measurement"
    p50 = format_ns(profile["unprofiled_p50_ns"])
    return f"profile over {profile['run_count']} inferences; without the profiler p50 is {p50}"


def _scenario(spec: dict[str, Any]) -> str:
    """What was asked for."""
    parts = [
        spec["scenario"],
        f"preset {spec['preset']}",
        f"at least {spec['duration_s']:g} s and {spec['min_query_count']} queries",
    ]
    if spec["scenario"] == "multi_stream":
        parts.append(f"{spec['samples_per_query']} samples a query")
    if spec["target_qps"] is not None:
        parts.append(f"{spec['target_qps']:g} arrivals a second")
    if spec["target_latency_s"] is not None:
        parts.append(f"target latency {format_ns(spec['target_latency_s'] * 1e9)}")
    return ", ".join([*parts, f"engine {spec['engine']}", f"seed {spec['seed']}"])


def _process(document: dict[str, Any]) -> str:
    spec, scheduling = document["spec"], document["conditions"]["scheduling"]
    cpus = ",".join(map(str, scheduling["cpus"]))
    return f"{spec['threads']} thread(s), CPU {cpus}, policy {scheduling['policy']}"


def _numbers(metrics: dict[str, Any]) -> list[tuple[str, str]]:
    """What was measured beside the latency."""
    warmup, cold, memory = metrics["warmup"], metrics["cold_start_ns"], metrics["memory_bytes"]
    facts = [
        ("warm-up", f"{warmup['class'] or 'unknown'}, {warmup['query_count']} inferences cut"),
        (
            "cold start",
            f"import {format_ns(cold['import'])}, load {format_ns(cold['load'])}, first inference "
            f"{format_ns(cold['first_inference'])}; seen once",
        ),
        (
            "memory",
            f"peak {format_bytes(memory['peak_rss'])}, then {format_bytes(memory['steady_rss'])} "
            f"resident; {format_bytes(memory['model'])} of it came with the model",
        ),
    ]
    if metrics["throughput_per_s"] is not None:
        facts.append(("throughput", f"{format_rate(metrics['throughput_per_s'])} inferences/s"))
    return [
        *facts,
        *_loadgen(metrics["loadgen"]),
        *_accuracy(metrics["accuracy"]),
        *[("heat", line) for line in heat_lines(metrics["thermal"])],
        *energy_lines(metrics.get("energy")),
    ]


def heat_lines(thermal: dict[str, Any] | None) -> list[str]:
    """What the device kept up, and what it did not; or why nobody can tell."""
    if thermal is None:
        return []
    if thermal["sustained_latency_ns"] is None:
        return [f"{thermal['verdict']}: {thermal['reason']}"]
    return [
        "; ".join([thermal["verdict"], *_heat_facts(thermal)]),
        *_speeds(thermal),
        *_around_onset(thermal),
    ]


def _heat_facts(thermal: dict[str, Any]) -> list[str]:
    facts = []
    if thermal["onset_s"] is not None:
        share = f"for {thermal['throttled_ratio']:.0%} of the run"
        facts.append(f"from {thermal['onset_s']:.0f} s on, {share}")
    if thermal["max_temp_c"] is not None:
        facts.append(f"{thermal['start_temp_c']:.1f} °C at first, {thermal['max_temp_c']:.1f} most")
    if thermal["baseline_freq_hz"] is not None:
        nominal = thermal["nominal_freq_hz"]
        of = "" if nominal is None else f" of {nominal / 1e9:.2f}"
        facts.append(f"{thermal['baseline_freq_hz'] / 1e9:.2f}{of} GHz at first")
    return facts


def _speeds(thermal: dict[str, Any]) -> list[str]:
    """Latency and throughput apart: a busy machine changes one of them without the other."""
    last_ns, last = thermal["sustained_latency_ns"], thermal["sustained_throughput_per_s"]
    at_end = f"{format_ns(last_ns)} at the end, {format_rate(last)} inferences/s"
    if thermal["retention_ratio"] is None:
        since = "throttled from the start"
        if thermal["latency_ns_before"] is not None:
            since = "throttled almost from the start"
        return [f"{at_end}; {since}, so nothing tells what it could do"]
    first = format_rate(thermal["peak_throughput_per_s"])
    return [
        f"latency {format_ns(thermal['peak_latency_ns'])} at first, {format_ns(last_ns)} at the "
        f"end: {thermal['retention_ratio']:.1%} of the speed kept",
        f"throughput {first}/s at first, {format_rate(last)}/s at the end",
    ]


def _around_onset(thermal: dict[str, Any]) -> list[str]:
    """The headline twice; without an interval, no number."""
    before, after = thermal["latency_ns_before"], thermal["latency_ns_after"]
    known = [
        f"{format_interval_ns(part['p50'], part['p50_ci95'])} {where} the onset"
        for part, where in ((before, "before"), (after, "after"))
        if part is not None and part["p50_ci95"] is not None
    ]
    return [f"p50 {', '.join(known)}"] if known else []


def _loadgen(result: dict[str, Any] | None) -> list[tuple[str, str]]:
    if result is None:
        return []
    names = ("p50", "p90", "p99")
    shown = [f"{name} {format_ns(result[f'{name}_ns'])}" for name in names if result[f"{name}_ns"]]
    if result["samples_per_s"] is not None:
        shown.append(f"{format_rate(result['samples_per_s'])} samples/s")
    return [("LoadGen says", ", ".join(["VALID" if result["is_valid"] else "INVALID", *shown]))]


def _accuracy(accuracy: dict[str, Any] | None) -> list[tuple[str, str]]:
    if accuracy is None:
        return []
    half_width = half_width_of(accuracy["ci95"], accuracy["value"])
    low, high = (format_plain(one, half_width) for one in accuracy["ci95"] or (0.0, 0.0))
    between = f", 95 % between {low} and {high}" if accuracy["ci95"] else ""
    drop = accuracy["drop_vs_reference"]
    worse = "" if drop is None else f", {format_plain(drop, half_width)} worse than its reference"
    count, shown = accuracy["sample_count"], format_plain(accuracy["value"], half_width)
    value = f"{accuracy['metric']} {shown} of {count} samples{between}{worse}"
    return [("accuracy", value)]
