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
    """A run, with the verdict of its set among the exported runs."""

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
    ExportColumn("run_id", str, lambda one: one.run.run_id),
    ExportColumn("created_utc", str, lambda one: one.run.created_utc),
    ExportColumn("set_id", str, lambda one: one.run.set_id),
    ExportColumn("set_verdict", str, lambda one: one.set_verdict),
    ExportColumn("replaces", str, lambda one: _replaced_run_id(one.run)),
    ExportColumn("kind", str, lambda one: one.run.kind),
    ExportColumn("verdict", str, lambda one: one.run.headline_state.value),
    ExportColumn("label", str, lambda one: one.run.marks.label),
    ExportColumn("reasons", str, lambda one: "; ".join(reasons(one.run.verdict))),
    ExportColumn("simulated", bool, lambda one: one.run.simulated),
    ExportColumn("emulated", bool, lambda one: one.run.emulated),
    ExportColumn("model", str, lambda one: one.run.model.name),
    ExportColumn("model_sha256", str, lambda one: one.run.model.sha256),
    ExportColumn("model_precision", str, lambda one: one.run.model.precision),
    ExportColumn("model_size_bytes", int, lambda one: one.run.model.size_bytes),
    ExportColumn("device", str, lambda one: one.run.device.name),
    ExportColumn("profile", str, lambda one: one.run.device.profile),
    ExportColumn("arch", str, lambda one: one.run.device.arch),
    ExportColumn("soc", str, lambda one: one.run.device.soc),
    ExportColumn("os", str, lambda one: one.run.device.os),
    ExportColumn("governor", str, lambda one: one.run.environment.cpu.governor),
    ExportColumn("runtime", str, lambda one: one.run.runtime.name),
    ExportColumn("runtime_version", str, lambda one: one.run.runtime.version),
    ExportColumn("delegates_used", str, lambda one: ", ".join(one.run.runtime.delegates_used)),
    ExportColumn("scenario", str, lambda one: one.run.spec.scenario.value),
    ExportColumn("engine", str, lambda one: one.run.spec.engine.value),
    ExportColumn("preset", str, lambda one: one.run.spec.preset),
    ExportColumn("threads", int, lambda one: one.run.spec.threads),
    ExportColumn("threads_effective", int, lambda exported: _effective_threads(exported.run)),
    ExportColumn("signature", str, lambda exported: exported.run.model.signature),
    ExportColumn("duration_s", float, lambda one: one.run.spec.duration_s),
    ExportColumn("seed", int, lambda one: one.run.spec.seed),
    ExportColumn("ambient_c", float, lambda one: one.run.conditions.ambient_c),
    ExportColumn("meter", str, lambda one: e.meter if (e := one.run.metrics.energy) else None),
    ExportColumn(
        "boundary", str, lambda one: e.boundary if (e := one.run.metrics.energy) else None
    ),
    ExportColumn("tags", str, lambda one: ", ".join(_annotations(one).tags)),
    ExportColumn("note", str, lambda one: _annotations(one).note),
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
        run.run_id: one.verdict.state.value
        for one in sets_of(runs)
        if one.set_id is not None
        for run in one.runs
    }
    return [ExportRow(one, verdicts.get(one.run.run_id)) for one in runs]


def fact_cells(one: ExportRow) -> dict[str, Fact]:
    """Facts of a run by column; control characters other than line feeds are replaced."""
    cells = {column.name: column.cell(one) for column in FACT_COLUMNS}
    for name, cell in cells.items():
        if isinstance(cell, str):
            cells[name] = printable(cell, keep_lines=True)
    return cells


def _annotations(one: ExportRow) -> Annotations:
    return read_annotations(one.exported.directory)


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


def number_cells(one: ExportRow) -> dict[str, float]:
    """Numbers of a run by column; a metric that was not measured is left out."""
    cells: dict[str, float] = {}
    for number in exported_numbers(one.run):
        path = number.metric.path
        cells[path] = number.value
        if number.interval is not None:
            cells[path + LOWER], cells[path + UPPER] = number.interval
    return cells
