"""Tables for the terminal."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from edgebench.host.analysis.verdict.table import MILDER
from edgebench.host.devices.discovery import Access, DiscoveredDevice
from edgebench.host.result.document import headline_ns
from edgebench.host.show.units import (
    ABSENT,
    format_bytes,
    format_half_width,
    format_joules_within,
    format_ns,
    format_plain,
    format_rate,
    half_width_of,
)
from edgebench.host.store.index import DAMAGED, INVALID, Row

_VERDICT_STYLES = {"valid": "green", "suspect": "yellow", "invalid": "red", DAMAGED: "red"}
_ACCESS_STYLES = {Access.READY: "green", Access.NOT_PAIRED: "yellow", Access.UNREACHABLE: "red"}
RUNS_WIDTH = 120
ENERGY_WIDTH = 32
"""Columns that an energy takes from the others."""
SYNTHETIC = "synthetic"
"""Boundary of a meter that measures nothing."""
REFUSED = "refused"
"""Asked for, and no number: the lines below a table, or `edgebench show`, say why."""
_BEFORE_ENERGY = ("meter", "energy_sync")
"""Rules that say why there is no energy, where they failed for that reason."""
_RUN_NAMES = ("device", "model", "runtime", "scenario", "kind")
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
    only_for: Callable[[dict[str, Any]], bool] | None = None
    """Shown when any run is of this kind; None: always."""
    is_asked_for: bool = False
    """The run was made for it: where the run is invalid, it says that it is refused."""


def results_table(documents: Sequence[dict[str, Any]], width: int = PIPE_WIDTH) -> Table:
    """The runs that were just made, as far as they fit into the width."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
    room = width - (ENERGY_WIDTH if any(map(_is_metered, documents)) else 0)
    columns = [
        column
        for column in _RESULT_COLUMNS
        if room >= column.least_width
        and (column.only_for is None or any(map(column.only_for, documents)))
    ]
    for column in columns:
        if column.is_number:
            table.add_column(column.name, justify="right", no_wrap=True)
        else:
            table.add_column(column.name, overflow="fold")
    for document in documents:
        table.add_row(*(_cell(column, document) for column in columns))
    return table


def _cell(column: _Column, document: dict[str, Any]) -> str | Text:
    """No number of an invalid run."""
    if document["verdict"]["state"] != INVALID or not column.is_number:
        return column.cell(document)
    is_its_kind = column.only_for is None or column.only_for(document)
    return _refused() if column.is_asked_for and is_its_kind else ABSENT


def runs_table(rows: Sequence[Row], width: int = PIPE_WIDTH) -> Table:
    """The runs in the store; an id is never broken, so that it can be copied."""
    is_metered = any(
        row.energy_j_per_inference is not None or row.energy_refused is not None for row in rows
    )
    is_wide = width - (ENERGY_WIDTH if is_metered else 0) >= RUNS_WIDTH
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
    table.add_column("run", no_wrap=True)
    narrow_names = ("model",) if is_metered else ("model", "runtime")
    for name in _RUN_NAMES if is_wide else narrow_names:
        table.add_column(name, overflow="fold")
    for name in ("p50", "p90", "p99") if is_wide else ("p50",):
        table.add_column(name, justify="right", no_wrap=True)
    if is_metered:
        table.add_column("energy/inference", justify="right", no_wrap=True)
    table.add_column("verdict", no_wrap=True)
    for row in rows:
        numbers = row.headline_ns
        names = [row.device, row.model, row.runtime, row.scenario, row.kind]
        table.add_row(
            text(row.run_id),
            *map(text, names if is_wide else names[1 : 1 + len(narrow_names)]),
            _refused() if row.verdict == INVALID else format_ns(numbers[0]),
            *(format_ns(value) for value in (numbers[1:] if is_wide else ())),
            *([_row_energy(row)] if is_metered else []),
            _verdict(row.verdict),
        )
    return table


def devices_table(found: Sequence[DiscoveredDevice]) -> Table:
    """All devices, usable or not."""
    table = plain_table("device", "address", "access", "profile", "runtimes", "remark")
    for device in found:
        system = device.system
        usable = [r for r in system.runtimes if r.is_usable] if system else []
        table.add_row(
            text(device.name),
            text(device.address),
            Text(device.access.value, style=_ACCESS_STYLES[device.access]),
            text(system.device.profile if system else ABSENT),
            text("\n".join(f"{r.name} {r.version}" for r in usable) or ABSENT),
            text(device.reason or _missing_runtimes(device)),
        )
    return table


def verdict_lines(document: dict[str, Any]) -> list[str]:
    """Why a run is not valid, on one line; nothing for a valid one."""
    failed = {r["id"]: r["detail"] for r in document["verdict"]["rules"] if r["outcome"] == "fail"}
    _name_energy(failed, document)
    for stricter, milder in MILDER.items():
        if stricter in failed:
            failed.pop(milder, None)
    if not failed:
        return []
    model, runtime = document["model"]["name"], document["runtime"]["name"]
    state = document["verdict"]["state"]
    return [safe(f"{state}: {model} on {runtime}: {'; '.join(failed.values())}")]


def _name_energy(failed: dict[str, str], document: dict[str, Any]) -> None:
    """Say of the reason why there is no energy that it is that, once.

    A rule about the meter or the clocks may have failed for that reason, or for another one.
    """
    reason = (document["metrics"].get("energy") or {}).get("refused")
    if reason is None or "energy" not in failed:
        return
    del failed["energy"]
    same = [
        rule
        for rule in _BEFORE_ENERGY
        if rule in failed and (failed[rule] in reason or reason in failed[rule])
    ]
    rule = same[0] if same else REFUSED
    failed[rule] = f"energy refused: {failed.get(rule, reason)}"


def _latency(name: str) -> Callable[[dict[str, Any]], str]:
    """A percentile; a tail that so few queries cannot bound is no number."""

    def cell(document: dict[str, Any]) -> str:
        latency = headline_ns(document)
        interval = latency.get(f"{name}_ci95")
        is_bounded = name == "p50" or interval is not None
        value_ns = latency.get(name) if is_bounded else None
        return format_ns(value_ns, half_width_of(interval, value_ns))

    return cell


def _is_offline(document: dict[str, Any]) -> bool:
    return bool(document["spec"]["scenario"] == "offline")


def _throughput(document: dict[str, Any]) -> str:
    per_s = document["metrics"]["throughput_per_s"]
    return ABSENT if per_s is None or not _is_offline(document) else format_rate(per_s)


def _has_accuracy(document: dict[str, Any]) -> bool:
    return document["metrics"]["accuracy"] is not None


def _accuracy(document: dict[str, Any]) -> str:
    accuracy = document["metrics"]["accuracy"]
    if accuracy is None:
        return ABSENT
    half_width = half_width_of(accuracy.get("ci95"), accuracy["value"])
    return f"{accuracy['metric']} {format_plain(accuracy['value'], half_width)}"


def _is_metered(document: dict[str, Any]) -> bool:
    return document["metrics"].get("energy") is not None


def _energy(document: dict[str, Any]) -> str | Text:
    """Joules an inference with their absolute uncertainty; refused ones are no number."""
    energy = document["metrics"].get("energy")
    if energy is None:
        return ABSENT
    if energy["gross_j_per_inference"] is None:
        return _refused()
    return _joules(energy["gross_j_per_inference"], energy["u95_absolute_j"], energy["boundary"])


def _row_energy(row: Row) -> str | Text:
    """The same of a stored run; one that was refused is told from one that had no meter."""
    if row.energy_j_per_inference is None or row.energy_u95_absolute_j is None:
        return _refused() if row.energy_refused else ABSENT
    return _joules(row.energy_j_per_inference, row.energy_u95_absolute_j, row.energy_boundary)


def _refused() -> Text:
    """In the place of a number that there is, and that nobody should trust."""
    return Text(REFUSED, style="yellow")


def _joules(value_j: float, u95_j: float, boundary: str | None) -> str:
    shown = format_joules_within(value_j, u95_j)
    return f"{shown}, synthetic" if boundary == SYNTHETIC else shown


def _cold_start(name: str) -> Callable[[dict[str, Any]], str]:
    return lambda document: format_ns(document["metrics"]["cold_start_ns"][name])


def _half_width(document: dict[str, Any]) -> str:
    latency = headline_ns(document)
    return format_half_width(latency.get("p50"), latency.get("p50_ci95"))


def _labelled_verdict(document: dict[str, Any]) -> Text:
    """A simulated device is called that in every table."""
    shown = _verdict(document["verdict"]["state"])
    return shown.append(", simulated") if document["simulated"] else shown


_RESULT_COLUMNS = (
    _Column("device", 100, lambda d: text(d["device"]["name"]), is_number=False),
    _Column("model", -ENERGY_WIDTH, lambda d: text(d["model"]["name"]), is_number=False),
    _Column("precision", 100, lambda d: text(d["model"]["precision"] or ABSENT), is_number=False),
    _Column("runtime", -ENERGY_WIDTH, lambda d: text(d["runtime"]["name"]), is_number=False),
    _Column("per second", -ENERGY_WIDTH, _throughput, only_for=_is_offline, is_asked_for=True),
    _Column("p50", -ENERGY_WIDTH, _latency("p50"), is_asked_for=True),
    _Column("± in run", 60, _half_width),
    _Column("p90", -ENERGY_WIDTH, _latency("p90")),
    _Column("p99", 70, _latency("p99")),
    _Column("accuracy", 70, _accuracy, only_for=_has_accuracy, is_asked_for=True),
    _Column("energy/inference", -ENERGY_WIDTH, _energy, only_for=_is_metered, is_asked_for=True),
    _Column("queries", 112, lambda d: str(headline_ns(d).get("count", ABSENT))),
    _Column("load", 132, _cold_start("load")),
    _Column("first", 132, _cold_start("first_inference")),
    _Column("peak memory", 132, lambda d: format_bytes(d["metrics"]["memory_bytes"]["peak_rss"])),
    _Column("verdict", -ENERGY_WIDTH, _labelled_verdict, is_number=False),
)


def _missing_runtimes(device: DiscoveredDevice) -> str:
    if device.system is None:
        return ""
    missing = [report for report in device.system.runtimes if not report.is_usable]
    return "\n".join(
        f"{report.name}: {report.reason}" + (f" ({report.install})" if report.install else "")
        for report in missing
    )


def text(value: str) -> Text:
    """Text from elsewhere, made harmless."""
    return Text(safe(value))


def _verdict(state: str) -> Text:
    return Text(state, style=_VERDICT_STYLES.get(state, ""))


def plain_table(*columns: str) -> Table:
    """A table of texts."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for name in columns:
        table.add_column(name, overflow="fold")
    return table
