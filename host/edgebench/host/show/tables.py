"""Tables for the terminal."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rich import box
from rich.console import Console, Group
from rich.table import Table
from rich.text import Text

from edgebench.host.devices.discovery import Access, Found
from edgebench.host.show.units import (
    ABSENT,
    format_bytes,
    format_half_width,
    format_ns,
)
from edgebench.host.store.index import Row

_VERDICT_STYLES = {"valid": "green", "suspect": "yellow", "invalid": "red"}
_ACCESS_STYLES = {Access.READY: "green", Access.NOT_PAIRED: "yellow", Access.UNREACHABLE: "red"}
PIPE_WIDTH = 160
"""Columns when the output is not a terminal."""


def console(*, stderr: bool = False) -> Console:
    """A console that does not cut tables when its output goes to a file."""
    made = Console(stderr=stderr, highlight=False)
    if not made.is_terminal:
        made.width = max(made.width, PIPE_WIDTH)
    return made


def results_table(documents: Sequence[dict[str, Any]]) -> Table:
    """The runs that were just made."""
    table = _table("device", "model", "precision", "runtime")
    for name in ("p50", "± 95 %", "p90", "p99", "queries", "load", "first", "peak memory"):
        table.add_column(name, justify="right")
    table.add_column("verdict")
    for document in documents:
        table.add_row(*_result_cells(document))
    return table


def runs_table(rows: Sequence[Row]) -> Table:
    """The runs in the store."""
    table = _table("run", "device", "model", "precision", "runtime")
    for name in ("threads", "p50", "p90", "p99"):
        table.add_column(name, justify="right")
    table.add_column("verdict")
    for row in rows:
        table.add_row(
            row.run_id,
            Text(row.device),
            Text(row.model),
            row.precision or ABSENT,
            row.runtime,
            str(row.threads),
            format_ns(row.latency_ns_p50),
            format_ns(row.latency_ns_p90),
            format_ns(row.latency_ns_p99),
            _verdict(row.verdict),
        )
    return table


def devices_table(found: Sequence[Found]) -> Table:
    """All devices, usable or not."""
    table = _table("device", "address", "access", "profile", "runtimes", "remark")
    for device in found:
        system = device.system
        usable = [r for r in system.runtimes if r.is_usable] if system else []
        table.add_row(
            Text(device.name),
            device.address,
            Text(device.access.value, style=_ACCESS_STYLES[device.access]),
            system.device.profile if system else ABSENT,
            "\n".join(f"{r.name} {r.version}" for r in usable) or ABSENT,
            Text(device.reason or _missing_runtimes(device)),
        )
    return table


def run_page(document: dict[str, Any], directory: str) -> Group:
    """Everything about one run that a person wants to see first."""
    facts = Table.grid(padding=(0, 2))
    for name, value in _facts(document):
        facts.add_row(Text(name, style="bold"), Text(value))
    rules = _table("rule", "outcome", "detail")
    for rule in document["verdict"]["rules"]:
        style = {"pass": "green", "fail": "red"}.get(rule["outcome"], "yellow")
        rules.add_row(rule["id"], Text(rule["outcome"], style=style), Text(rule["detail"]))
    return Group(facts, "", results_table([document]), "", rules, "", Text(directory))


def verdict_lines(document: dict[str, Any]) -> list[str]:
    """Why a run is not valid: one line for each rule that failed."""
    model, runtime = document["model"]["name"], document["runtime"]["name"]
    state = document["verdict"]["state"]
    return [
        f"{state}: {model} on {runtime}: {rule['detail']}"
        for rule in document["verdict"]["rules"]
        if rule["outcome"] == "fail"
    ]


def _facts(document: dict[str, Any]) -> list[tuple[str, str]]:
    model, device, runtime = document["model"], document["device"], document["runtime"]
    spec, environment = document["spec"], document["environment"]
    delegates = ", ".join(runtime["delegates_used"]) or "none"
    return [
        ("run", f"{document['run_id']}, {document['created_utc']}"),
        ("model", f"{model['name']}, {format_bytes(model['size_bytes'])}, {model['sha256'][:12]}"),
        ("runtime", f"{runtime['name']} {runtime['version']}, delegates used: {delegates}"),
        ("scenario", f"{spec['scenario']}, {spec['duration_s']:g} s, {spec['threads']} thread(s)"),
        ("device", f"{device['name']}, {device['soc']}, {device['os']}"),
        ("virtual", environment["virtualization"] or "no sign of it"),
        ("governor", environment["cpu"]["governor"] or "not told by the kernel"),
        ("load", f"{environment['load_1m']:.2f} before the run"),
    ]


def _result_cells(document: dict[str, Any]) -> list[str | Text]:
    metrics = document["metrics"]
    latency, cold = metrics["latency_ns"], metrics["cold_start_ns"]
    return [
        Text(document["device"]["name"]),
        Text(document["model"]["name"]),
        document["model"]["precision"] or ABSENT,
        document["runtime"]["name"],
        format_ns(latency["p50"]),
        format_half_width(latency["p50"], latency["p50_ci95"]),
        format_ns(latency["p90"]),
        format_ns(latency["p99"]),
        str(latency["count"]),
        format_ns(cold["load"]),
        format_ns(cold["first_inference"]),
        format_bytes(metrics["memory_bytes"]["peak_rss"]),
        _verdict(document["verdict"]["state"]),
    ]


def _missing_runtimes(device: Found) -> str:
    if device.system is None:
        return ""
    missing = [report for report in device.system.runtimes if not report.is_usable]
    return "\n".join(
        f"{report.name}: {report.reason}" + (f" ({report.install})" if report.install else "")
        for report in missing
    )


def _verdict(state: str) -> Text:
    return Text(state, style=_VERDICT_STYLES.get(state, ""))


def _table(*columns: str) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for name in columns:
        table.add_column(name, overflow="fold")
    return table
