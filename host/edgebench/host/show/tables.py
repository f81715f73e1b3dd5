"""Tables for the terminal."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from rich import box
from rich.console import Console, Group
from rich.table import Table
from rich.text import Text

from edgebench.host.analysis.rules.table import MILDER
from edgebench.host.devices.discovery import Access, Found
from edgebench.host.document import headline_ns
from edgebench.host.show.units import (
    ABSENT,
    format_bytes,
    format_half_width,
    format_ns,
)
from edgebench.host.store.index import DAMAGED, Row

_VERDICT_STYLES = {"valid": "green", "suspect": "yellow", "invalid": "red", DAMAGED: "red"}
_ACCESS_STYLES = {Access.READY: "green", Access.NOT_PAIRED: "yellow", Access.UNREACHABLE: "red"}
INVALID = "invalid"
"""A number that cannot be trusted is refused: such a run is shown without its numbers."""
RUNS_WIDTH = 110
PIPE_WIDTH = 160
"""Columns when the output is not a terminal."""


def safe(value: object) -> str:
    """Text from a device or a file: nothing in it moves the cursor or turns the line around."""
    return "".join(char if char.isprintable() or char == "\n" else "?" for char in str(value))


def console(*, stderr: bool = False) -> Console:
    """A console that does not cut tables when its output goes to a file."""
    made = Console(stderr=stderr, highlight=False)
    if not made.is_terminal:
        made.width = max(made.width, PIPE_WIDTH)
    return made


@dataclass(frozen=True, slots=True)
class _Column:
    """One column of the result tables."""

    name: str
    least_width: int
    """Shown on terminals of at least so many columns; a number is never cut to make room."""
    cell: Callable[[dict[str, Any]], str | Text]
    is_number: bool = True


def results_table(documents: Sequence[dict[str, Any]], width: int = PIPE_WIDTH) -> Table:
    """The runs that were just made, as far as they fit into the width."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
    columns = [column for column in _RESULT_COLUMNS if width >= column.least_width]
    for column in columns:
        if column.is_number:
            table.add_column(column.name, justify="right", no_wrap=True)
        else:
            table.add_column(column.name, overflow="fold")
    for document in documents:
        is_refused = document["verdict"]["state"] == INVALID
        table.add_row(
            *(
                ABSENT if is_refused and column.is_number else column.cell(document)
                for column in columns
            )
        )
    return table


def runs_table(rows: Sequence[Row], width: int = PIPE_WIDTH) -> Table:
    """The runs in the store; an id is never broken, so that it can be copied."""
    is_wide = width >= RUNS_WIDTH
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
    table.add_column("run", no_wrap=True)
    for name in ("device", "model", "precision", "runtime") if is_wide else ("model", "runtime"):
        table.add_column(name, overflow="fold")
    for name in ("p50", "p90", "p99") if is_wide else ("p50",):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("verdict", no_wrap=True)
    for row in rows:
        is_refused = row.verdict in (INVALID, DAMAGED)
        numbers = [row.latency_ns_p50, row.latency_ns_p90, row.latency_ns_p99]
        names = [row.device, row.model, row.precision or ABSENT, row.runtime]
        table.add_row(
            _text(row.run_id),
            *map(_text, names if is_wide else names[1::2]),
            *(
                format_ns(None if is_refused else value)
                for value in (numbers if is_wide else numbers[:1])
            ),
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
            _text(device.name),
            _text(device.address),
            Text(device.access.value, style=_ACCESS_STYLES[device.access]),
            _text(system.device.profile if system else ABSENT),
            _text("\n".join(f"{r.name} {r.version}" for r in usable) or ABSENT),
            _text(device.reason or _missing_runtimes(device)),
        )
    return table


def run_page(document: dict[str, Any], width: int = PIPE_WIDTH) -> Group:
    """Everything about one run that a person wants to see first."""
    facts = Table.grid(padding=(0, 2))
    for name, value in _facts(document):
        facts.add_row(Text(name, style="bold"), _text(value))
    rules = _table("rule", "outcome", "detail")
    for rule in document["verdict"]["rules"]:
        style = {"pass": "green", "fail": "red"}.get(rule["outcome"], "yellow")
        rules.add_row(rule["id"], Text(rule["outcome"], style=style), _text(rule["detail"]))
    parts: list[Any] = [facts, "", results_table([document], width), ""]
    if document["metrics"]["profile"] is not None:
        parts += [operators_table(document), ""]
    return Group(*parts, rules, "")


def verdict_lines(document: dict[str, Any]) -> list[str]:
    """Why a run is not valid, on one line; nothing for a valid one."""
    failed = {r["id"]: r["detail"] for r in document["verdict"]["rules"] if r["outcome"] == "fail"}
    for stricter, milder in MILDER.items():
        if stricter in failed:
            failed.pop(milder, None)
    if not failed:
        return []
    model, runtime = document["model"]["name"], document["runtime"]["name"]
    state = document["verdict"]["state"]
    return [safe(f"{state}: {model} on {runtime}: {'; '.join(failed.values())}")]


def _facts(document: dict[str, Any]) -> list[tuple[str, str]]:
    model, device, runtime = document["model"], document["device"], document["runtime"]
    spec, environment = document["spec"], document["environment"]
    delegates = ", ".join(runtime["delegates_used"]) or "none"
    return [
        ("run", f"{document['run_id']}, {document['created_utc']}"),
        ("model", f"{model['name']}, {format_bytes(model['size_bytes'])}, {model['sha256'][:12]}"),
        ("runtime", f"{runtime['name']} {runtime['version']}, delegates used: {delegates}"),
        ("kind", _kind(document)),
        ("scenario", f"{spec['scenario']}, {spec['duration_s']:g} s, {spec['threads']} thread(s)"),
        *_more_facts(document["metrics"]),
        ("device", f"{device['name']}, {device['soc']}, {device['os']}"),
        ("virtual", environment["virtualization"] or "no sign of it"),
        ("governor", environment["cpu"]["governor"] or "not told by the kernel"),
        ("load average", f"{environment['load_1m']:.2f} before the run"),
    ]


def _kind(document: dict[str, Any]) -> str:
    profile = document["metrics"]["profile"]
    if profile is None:
        return "measurement"
    p50 = format_ns(profile["unprofiled_p50_ns"])
    return f"profile over {profile['run_count']} inferences; without the profiler p50 is {p50}"


def _more_facts(metrics: dict[str, Any]) -> list[tuple[str, str]]:
    """Throughput, warm-up, accuracy, as far as they were measured."""
    warmup, accuracy, per_s = metrics["warmup"], metrics["accuracy"], metrics["throughput_per_s"]
    facts = [("warm-up", f"{warmup['class'] or 'unknown'}, {warmup['query_count']} queries cut")]
    if per_s is not None:
        facts.append(("throughput", f"{per_s:.4g} inferences a second"))
    if accuracy is not None:
        low, high = accuracy["ci95"] or (None, None)
        between = f" ({low:.4g}..{high:.4g})" if low is not None else ""
        facts.append(("accuracy", f"{accuracy['metric']} {accuracy['value']:.4g}{between}"))
    return facts


def operators_table(document: dict[str, Any]) -> Table:
    """The operators of a profile in the order of execution, with their share of the time."""
    profile = document["metrics"]["profile"]
    total_ns = sum(operator["total_ns"] for operator in profile["operators"]) or 1
    table = _table("#", "operator", "place", "time", "share", "name")
    for operator in profile["operators"]:
        table.add_row(
            str(operator["index"]),
            _text(operator["operator"]),
            _text(operator["place"]),
            format_ns(operator["total_ns"] / max(1, operator["count"])),
            f"{operator['total_ns'] / total_ns:.1%}",
            _text(operator["name"]),
        )
    return table


def _latency(name: str) -> Callable[[dict[str, Any]], str]:
    return lambda document: format_ns(headline_ns(document).get(name))


def _cold_start(name: str) -> Callable[[dict[str, Any]], str]:
    return lambda document: format_ns(document["metrics"]["cold_start_ns"][name])


def _half_width(document: dict[str, Any]) -> str:
    latency = headline_ns(document)
    return format_half_width(latency.get("p50"), latency.get("p50_ci95"))


_RESULT_COLUMNS = (
    _Column("device", 100, lambda d: _text(d["device"]["name"]), is_number=False),
    _Column("model", 0, lambda d: _text(d["model"]["name"]), is_number=False),
    _Column("precision", 100, lambda d: _text(d["model"]["precision"] or ABSENT), is_number=False),
    _Column("runtime", 0, lambda d: _text(d["runtime"]["name"]), is_number=False),
    _Column("p50", 0, _latency("p50")),
    _Column("± 95 %", 0, _half_width),
    _Column("p90", 0, _latency("p90")),
    _Column("p99", 70, _latency("p99")),
    _Column("queries", 112, lambda d: str(headline_ns(d).get("count", ABSENT))),
    _Column("load", 132, _cold_start("load")),
    _Column("first", 132, _cold_start("first_inference")),
    _Column("peak memory", 132, lambda d: format_bytes(d["metrics"]["memory_bytes"]["peak_rss"])),
    _Column("verdict", 0, lambda d: _verdict(d["verdict"]["state"]), is_number=False),
)


def _missing_runtimes(device: Found) -> str:
    if device.system is None:
        return ""
    missing = [report for report in device.system.runtimes if not report.is_usable]
    return "\n".join(
        f"{report.name}: {report.reason}" + (f" ({report.install})" if report.install else "")
        for report in missing
    )


def _text(value: str) -> Text:
    return Text(safe(value))


def _verdict(state: str) -> Text:
    return Text(state, style=_VERDICT_STYLES.get(state, ""))


def _table(*columns: str) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for name in columns:
        table.add_column(name, overflow="fold")
    return table
