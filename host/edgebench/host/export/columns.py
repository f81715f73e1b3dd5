"""Columns of the table formats: a row per run, the same columns in CSV and Parquet.

Names match the keys of run.json, and end in the unit if the quantity has a unit. A column is never
renamed; docs/export.md lists all columns, and a test compares the two lists.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from edgebench.host.export.exported import ExportedRun, exported_numbers, reasons, sets_of
from edgebench.host.result.latency import PERCENTILES
from edgebench.host.result.metrics import LATENCY_SPANS, METRICS, Metric
from edgebench.host.result.run import Run
from edgebench.host.store.annotations import Annotations, read_annotations
from edgebench.protocol.text import printable

Fact = str | int | float | bool | None
LOWER, UPPER = ".lower_95", ".upper_95"
"""Suffixes of the columns with the bounds of a 95 % interval."""


@dataclass(frozen=True, slots=True)
class ExportRow:
    """A run, with the verdict of its set."""

    exported: ExportedRun
    set_verdict: str | None
    """Verdict of the run's set; None if it has no set, or the set's other runs are not exported."""

    @property
    def run(self) -> Run:
        """The run."""
        return self.exported.run


@dataclass(frozen=True, slots=True)
class ExportColumn:
    """Column with a fact about the run, as opposed to a measured number."""

    name: str
    kind: type[str] | type[int] | type[float] | type[bool]
    cell: Callable[[ExportRow], Fact]


FACT_COLUMNS = (
    ExportColumn("run_id", str, lambda row: row.run.run_id),
    ExportColumn("created_utc", str, lambda row: row.run.created_utc),
    ExportColumn("set_id", str, lambda row: row.run.set_id),
    ExportColumn("set_verdict", str, lambda row: row.set_verdict),
    ExportColumn("replaces", str, lambda row: _replaced_run_id(row.run)),
    ExportColumn("kind", str, lambda row: row.run.kind),
    ExportColumn("verdict", str, lambda row: row.run.headline_state.value),
    ExportColumn("label", str, lambda row: row.run.marks.label),
    ExportColumn("reasons", str, lambda row: "; ".join(reasons(row.run.verdict))),
    ExportColumn("simulated", bool, lambda row: row.run.simulated),
    ExportColumn("emulated", bool, lambda row: row.run.emulated),
    ExportColumn("model", str, lambda row: row.run.model.name),
    ExportColumn("model_sha256", str, lambda row: row.run.model.sha256),
    ExportColumn("model_precision", str, lambda row: row.run.model.precision),
    ExportColumn("model_size_bytes", int, lambda row: row.run.model.size_bytes),
    ExportColumn("device", str, lambda row: row.run.device.name),
    ExportColumn("profile", str, lambda row: row.run.device.profile),
    ExportColumn("arch", str, lambda row: row.run.device.arch),
    ExportColumn("soc", str, lambda row: row.run.device.soc),
    ExportColumn("os", str, lambda row: row.run.device.os),
    ExportColumn("governor", str, lambda row: row.run.environment.cpu.governor),
    ExportColumn("runtime", str, lambda row: row.run.runtime.name),
    ExportColumn("runtime_version", str, lambda row: row.run.runtime.version),
    ExportColumn("delegates_used", str, lambda row: ", ".join(row.run.runtime.delegates_used)),
    ExportColumn("scenario", str, lambda row: row.run.spec.scenario.value),
    ExportColumn("engine", str, lambda row: row.run.spec.engine.value),
    ExportColumn("preset", str, lambda row: row.run.spec.preset),
    ExportColumn("threads", int, lambda row: row.run.spec.threads),
    ExportColumn("threads_effective", int, lambda exported: _effective_threads(exported.run)),
    ExportColumn("signature", str, lambda exported: exported.run.model.signature),
    ExportColumn("duration_s", float, lambda row: row.run.spec.duration_s),
    ExportColumn("seed", int, lambda row: row.run.spec.seed),
    ExportColumn("ambient_c", float, lambda row: row.run.conditions.ambient_c),
    ExportColumn("supply_v", float, lambda row: row.run.conditions.supply_v),
    ExportColumn("meter", str, lambda row: e.meter if (e := row.run.metrics.energy) else None),
    ExportColumn(
        "boundary", str, lambda row: e.boundary if (e := row.run.metrics.energy) else None
    ),
    ExportColumn("tags", str, lambda row: ", ".join(_annotations(row).tags)),
    ExportColumn("note", str, lambda row: _annotations(row).note),
)


def _replaced_run_id(run: Run) -> str | None:
    replaced = run.member.replaces if run.member is not None else None
    return replaced.run_id if replaced is not None else None


def _effective_threads(run: Run) -> int | None:
    settings = run.conditions.settings
    count = settings.threads.effective if settings is not None else None
    return count if isinstance(count, int) else None


def export_rows(runs: Sequence[ExportedRun]) -> list[ExportRow]:
    """A row for each run, in the order of the runs."""
    verdicts = {
        run.run_id: run_set.verdict.state.value
        for run_set in sets_of(runs)
        if run_set.set_id is not None
        for run in run_set.runs
    }
    return [ExportRow(run, verdicts.get(run.run.run_id)) for run in runs]


def fact_cells(export_row: ExportRow) -> dict[str, Fact]:
    """Map columns to facts of a run; control characters except line feeds are replaced."""
    cells = {column.name: column.cell(export_row) for column in FACT_COLUMNS}
    for name, cell in cells.items():
        if isinstance(cell, str):
            cells[name] = printable(cell, keep_lines=True)
    return cells


def _annotations(export_row: ExportRow) -> Annotations:
    return read_annotations(export_row.exported.directory)


def has_interval(metric: Metric) -> bool:
    """Whether the metric of a run can have a 95 % interval."""
    span, _, name = metric.path.partition(".")
    is_latency = span in LATENCY_SPANS and name in ("mean", *PERCENTILES)
    return is_latency or metric.budget is not None or metric.path == "accuracy.value"


def number_columns() -> Iterator[str]:
    """Names of the columns with numbers, in order."""
    for metric in METRICS.values():
        yield metric.path
        if has_interval(metric):
            yield metric.path + LOWER
            yield metric.path + UPPER


def number_cells(export_row: ExportRow) -> dict[str, float]:
    """Map columns to numbers of a run; a metric that was not measured is left out."""
    cells: dict[str, float] = {}
    for number in exported_numbers(export_row.run):
        path = number.metric.path
        cells[path] = number.value
        if number.interval is not None:
            cells[path + LOWER], cells[path + UPPER] = number.interval
    return cells
