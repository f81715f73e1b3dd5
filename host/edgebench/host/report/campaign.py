"""Charts of a campaign's results by cell, by device and model, and as ratios between cells.

A cell is a combination of the factors of the campaign, such as a model on a device.

This module receives data only: it is independent of how campaigns are planned and run.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from edgebench.host.analysis.compare.comparability import KEYS
from edgebench.host.analysis.compare.runs import compare_groups
from edgebench.host.analysis.effects import FactorEffect
from edgebench.host.analysis.outputs import ERROR_METRICS
from edgebench.host.report.charts import ChartDot, FrontChart
from edgebench.host.report.comparison import shown_bounds, shown_ratio
from edgebench.host.report.intervals import IntervalPlot, PlottedValue, interval_plot
from edgebench.host.report.numbers import ACCURACY, label_of, labels_of, number_of
from edgebench.host.result.campaign import CampaignSummary, LaneStatus
from edgebench.host.result.metrics import GROSS_ENERGY, METRICS, Better
from edgebench.host.result.run_set import RunSet
from edgebench.host.result.units import ABSENT
from edgebench.host.result.verdict import State
from edgebench.host.show.headline import best_of
from edgebench.protocol.errors import MeasurementError, UsageError

MAX_MATRIX = 12
"""Maximum number of rows and of columns of a matrix of ratios; more do not fit on a page."""
HEAT_LEVELS = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class CampaignFacts:
    """A campaign and its results."""

    summary: CampaignSummary
    lanes: Sequence[LaneStatus]
    sets: Sequence[RunSet]
    """The set of runs of each cell, with the device names of the plan."""
    settings: Callable[[RunSet], str]
    """Function that returns a cell's settings as text, to distinguish cells of the same model,
    device and runtime."""
    effects: Mapping[str, Sequence[FactorEffect]]
    failures: Sequence[str]
    """Reasons why runs failed, one line each."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CellPlot:
    """A metric of every cell, with its interval."""

    metric: str
    label: str
    plot: IntervalPlot
    refused: tuple[str, ...]
    """Names and verdicts of the cells without a number."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MatrixCell:
    """Cell of a matrix or a heat map."""

    shown: str
    detail: str
    level: int | None
    """Shade of the cell, 0 for the best value; None if there is no number."""
    is_clear: bool = False
    """Whether the interval of the ratio excludes 1."""
    value: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelledMatrix:
    """A table of numbers with shades."""

    title: str
    corner: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, tuple[MatrixCell, ...]], ...]
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class CampaignPart:
    """Part of a page that is about a campaign."""

    state: str
    """Worst verdict of the cells."""
    labels: tuple[str, ...]
    """Labels of cells with simulated or emulated devices or synthetic power."""
    headline: str
    """The best cell; empty if the cells cannot be compared."""
    sentence: str
    """Text about the verdicts of all cells."""
    summary: CampaignSummary
    lanes: tuple[LaneStatus, ...]
    failures: tuple[str, ...]
    cells: tuple[CellPlot, ...]
    heat: tuple[LabelledMatrix, ...]
    ratios: tuple[LabelledMatrix, ...]
    front: FrontChart | None
    front_rows: tuple[tuple[str, str, str, str, bool], ...]
    """Row of each cell, with name, latency, second metric, accuracy, and whether the cell is on the
    Pareto front."""
    effects: tuple[tuple[str, IntervalPlot], ...]


def campaign_part(facts: CampaignFacts) -> CampaignPart:
    """Charts of a campaign."""
    by_metric: dict[str, list[RunSet]] = {}
    for run_set in facts.sets:
        by_metric.setdefault(run_set.headline, []).append(run_set)
    front, front_rows = _front(facts)
    state, sentence = _verdict(facts.sets)
    best = best_of(facts.sets, facts.settings)
    return CampaignPart(
        state=state,
        labels=tuple(
            dict.fromkeys(label for run_set in facts.sets for label in labels_of(run_set))
        ),
        headline=best.line if best is not None else "",
        sentence=sentence,
        summary=facts.summary,
        lanes=tuple(facts.lanes),
        failures=tuple(facts.failures),
        cells=tuple(_cell_plots(facts, by_metric)),
        heat=tuple(_heat_map(facts, path, sets) for path, sets in by_metric.items()),
        ratios=tuple(
            matrix
            for path, sets in by_metric.items()
            for matrix in _ratio_matrices(facts, path, sets)
        ),
        front=front,
        front_rows=tuple(front_rows),
        effects=tuple(
            (label_of(facts.sets[0], METRICS[path]), interval_plot(list(map(_effect, effects))))
            for path, effects in facts.effects.items()
            if effects
        ),
    )


def _verdict(sets: Sequence[RunSet]) -> tuple[str, str]:
    """The worst verdict of the cells, and a sentence that counts the verdicts."""
    states = [run_set.verdict.state for run_set in sets]
    if not states:
        return "failed", "Nothing was measured."
    if len(set(states)) == 1:
        meaning = {
            State.VALID: "The numbers can be trusted",
            State.SUSPECT: "The numbers may be wrong",
            State.INVALID: "The numbers cannot be trusted and are not shown",
        }[states[0]]
        state, count = states[0].value, len(states)
        cells = f"all {count} cells are" if count > 1 else "the only cell is"
        return state, f"{meaning}: {cells} {state}."
    parts = [
        f"{count} {meaning.replace('have', 'has') if count == 1 else meaning}"
        for state, meaning in (
            (State.INVALID, "cannot be trusted and have no numbers"),
            (State.SUSPECT, "have numbers that may be wrong"),
            (State.VALID, "can be trusted"),
        )
        if (count := states.count(state))
    ]
    worst = State.INVALID if State.INVALID in states else State.SUSPECT
    return worst.value, f"Of {len(states)} cells, {', '.join(parts)}."


def _name(facts: CampaignFacts, run_set: RunSet, *, with_device: bool = True) -> str:
    device = f"{run_set.device}: " if with_device else ""
    return ", ".join(
        filter(None, (f"{device}{run_set.model}, {run_set.runtime}", facts.settings(run_set)))
    )


def _doubts(sets: Sequence[RunSet]) -> list[str]:
    """Labels of these sets' numbers, such as `suspect` or `simulated`."""
    states = [run_set.verdict.state for run_set in sets if run_set.verdict.state is not State.VALID]
    labels = [label for run_set in sets for label in labels_of(run_set)]
    return list(dict.fromkeys([*(state.value for state in states), *labels]))


def _counted(sets: Sequence[RunSet], path: str) -> list[RunSet]:
    return [
        run_set for run_set in sets if not run_set.verdict.is_refused and path in run_set.metrics
    ]


def _cell_plots(facts: CampaignFacts, by_metric: Mapping[str, list[RunSet]]) -> list[CellPlot]:
    plots: list[CellPlot] = []
    wanted = dict(by_metric)
    if any(GROSS_ENERGY in run_set.metrics for run_set in facts.sets):
        wanted[GROSS_ENERGY] = [
            run_set for run_set in facts.sets if GROSS_ENERGY in run_set.metrics
        ]
    for path, sets in wanted.items():
        counted = _counted(sets, path)
        if not counted:
            continue
        numbers = [(run_set, number_of(run_set, path)) for run_set in counted]
        values = [
            PlottedValue(
                label=_name(facts, run_set),
                value=number.value,
                interval=number.interval,
                shown=number.shown,
                bounds=number.bounds,
                state=number.state,
                labels=labels_of(run_set),
            )
            for run_set, number in numbers
        ]
        refused = [
            f"{_name(facts, run_set)}: {run_set.verdict.state.value}"
            for run_set in sets
            if run_set not in counted
        ]
        label = label_of(counted[0], METRICS[path])
        plots.append(
            CellPlot(metric=path, label=label, plot=interval_plot(values), refused=tuple(refused))
        )
    return plots


def _heat_map(facts: CampaignFacts, path: str, sets: Sequence[RunSet]) -> LabelledMatrix:
    """Table with the best cell of each model on each device."""
    metric = METRICS[path]
    sign = 1.0 if metric.better is Better.LOWER else -1.0
    places: dict[tuple[str, str], list[RunSet]] = {}
    for run_set in sets:
        places.setdefault((run_set.device, run_set.model), []).append(run_set)
    best = {
        place: min(counted, key=lambda run_set: sign * run_set.metrics[path].median)
        for place, cells in places.items()
        if (counted := _counted(cells, path))
    }
    values = [run_set.metrics[path].median for run_set in best.values()]
    ends = (min(values), max(values)) if values else (1.0, 1.0)

    def cell(device: str, model: str) -> MatrixCell:
        cells = places.get((device, model))
        if (device, model) not in best:
            shown = ABSENT if cells is None else cells[0].verdict.state.value
            return MatrixCell(shown=shown, detail="no number", level=None)
        run_set = best[device, model]
        number = number_of(run_set, path)
        bounds = number.bounds.partition(" (")[0]
        detail = ", ".join(
            filter(None, (run_set.runtime, facts.settings(run_set), bounds, *_doubts([run_set])))
        )
        # The shade is on a logarithmic scale between the lowest and the highest value.
        low, high = ends
        level = 0
        if low > 0 and high / low >= 1 + 1e-9:
            part = math.log(number.value / low) / math.log(high / low)
            part = part if metric.better is Better.LOWER else 1 - part
            level = min(HEAT_LEVELS - 1, max(0, int(part * HEAT_LEVELS)))
        return MatrixCell(shown=number.shown, detail=detail, level=level, value=number.value)

    models = tuple(dict.fromkeys(run_set.model for run_set in sets))
    devices = dict.fromkeys(run_set.device for run_set in sets)
    several = any(len(cells) > 1 for cells in places.values())
    return LabelledMatrix(
        title=label_of(sets[0], metric),
        corner="device",
        columns=models,
        rows=tuple((name, tuple(cell(name, model) for model in models)) for name in devices),
        note="The best cell of each device and model." if several else "",
    )


def _ratio_matrices(
    facts: CampaignFacts, path: str, sets: Sequence[RunSet]
) -> list[LabelledMatrix]:
    """Matrices of ratios between the cells of each device."""
    matrices: list[LabelledMatrix] = []
    for device in dict.fromkeys(run_set.device for run_set in sets):
        counted = _counted([run_set for run_set in sets if run_set.device == device], path)
        shown = counted[:MAX_MATRIX]
        if len(shown) < 2:
            continue
        names = tuple(_name(facts, run_set, with_device=False) for run_set in shown)
        note = "Ratio of row to column, with its 95 % confidence interval over runs."
        if len(counted) > len(shown):
            note += f" The first {len(shown)} of {len(counted)} cells."
        rows = tuple(
            (name, tuple(_ratio(row, column, path) for column in shown))
            for name, row in zip(names, shown, strict=True)
        )
        matrices.append(
            LabelledMatrix(
                title=f"{label_of(shown[0], METRICS[path])} on {device}",
                corner="row / column",
                columns=names,
                rows=rows,
                note=note,
            )
        )
    return matrices


def _ratio(row: RunSet, column: RunSet, path: str) -> MatrixCell:
    """Ratio of two cells, which may differ in any factor that the campaign varies."""
    if row is column:
        return MatrixCell(shown="1", detail="", level=None)
    try:
        [comparison] = compare_groups([(column.counted, row.counted)], metrics=[path], allowed=KEYS)
    except (UsageError, MeasurementError) as exc:
        return MatrixCell(shown=ABSENT, detail=str(exc), level=None)
    bounds = comparison.result.ratio_interval
    is_better = (comparison.result.ratio < 1) == (METRICS[path].better is Better.LOWER)
    return MatrixCell(
        shown=shown_ratio(comparison),
        detail=", ".join([shown_bounds(comparison), *_doubts([row, column])]),
        level=0 if is_better else HEAT_LEVELS - 1,
        is_clear=bounds is not None and not bounds[0] <= 1 <= bounds[1],
        value=comparison.result.ratio,
    )


def _front(facts: CampaignFacts) -> tuple[FrontChart | None, list[tuple[str, str, str, str, bool]]]:
    """Chart of latency against energy or, without energies, against the error on the data set.

    A cell dominates another cell if it is at least as good in each of latency, energy and accuracy,
    and better in at least one of them. A metric is ignored if not all cells of the chart have it. A
    cell is on the Pareto front if no other cell dominates it. The line of the chart joins the cells
    that are not dominated in the two metrics of the chart.
    """
    latency = "latency_ns.p50"
    timed = _counted(facts.sets, latency)
    second = next(
        (path for path in (GROSS_ENERGY, ACCURACY) if len(_counted(timed, path)) > 1), None
    )
    if second is None:
        return None, []
    sets = _counted(timed, second)
    judged = [latency, second]
    if second != ACCURACY and len(_counted(sets, ACCURACY)) == len(sets):
        judged.append(ACCURACY)
    costs = {
        id(run_set): [run_set.metrics[path].median * _cost_sign(run_set, path) for path in judged]
        for run_set in sets
    }
    devices = tuple(dict.fromkeys(run_set.device for run_set in sets))
    dots: list[ChartDot] = []
    rows: list[tuple[str, str, str, str, bool]] = []
    for run_set in sets:
        cost = costs[id(run_set)]
        is_best = not any(_beats(theirs, cost) for theirs in costs.values())
        is_joined = is_best and not any(_beats(theirs[:2], cost[:2]) for theirs in costs.values())
        x, y = run_set.metrics[latency].median, run_set.metrics[second].median
        name = ", ".join([_name(facts, run_set), *_doubts([run_set])])
        x_shown, y_shown = (number_of(run_set, path).shown for path in (latency, second))
        accuracy = number_of(run_set, ACCURACY).shown if ACCURACY in run_set.metrics else ABSENT
        third = accuracy if ACCURACY in judged[2:] else ""
        group = devices.index(run_set.device)
        dots.append(ChartDot(name, x, y, is_best, group, is_joined, third))
        rows.append((name, x_shown, y_shown, accuracy, is_best))
    metric = METRICS[second]
    chart = FrontChart(
        x_title="latency p50",
        x_unit="ns",
        y_title=label_of(sets[0], metric),
        y_unit=metric.quantity.value,
        is_y_lower_better=_cost_sign(sets[0], second) > 0,
        accuracy_title=label_of(sets[0], METRICS[ACCURACY]) if ACCURACY in judged[2:] else "",
        groups=devices,
        dots=tuple(dots),
    )
    return chart, rows


def _beats(theirs: Sequence[float], cost: Sequence[float]) -> bool:
    """Whether `theirs` is at most `cost` in every item, and less in at least one item."""
    return all(a <= b for a, b in zip(theirs, cost, strict=True)) and theirs != cost


def _cost_sign(run_set: RunSet, path: str) -> int:
    """Sign of a cost: 1 if lower is better, else -1; for an accuracy, it depends on the metric."""
    accuracy = run_set.first.metrics.accuracy
    if path == ACCURACY and accuracy is not None and accuracy.metric in ERROR_METRICS:
        return 1
    return 1 if METRICS[path].better is Better.LOWER else -1


def _effect(factor_effect: FactorEffect) -> PlottedValue:
    low, high = factor_effect.ci95
    levels = [
        str("default" if level is None else level).rpartition("/")[2]
        for level in (factor_effect.baseline, factor_effect.level)
    ]
    return PlottedValue(
        label=f"{factor_effect.factor}: {levels[0]} → {levels[1]}",
        value=factor_effect.ratio,
        interval=factor_effect.ci95,
        shown=f"× {factor_effect.ratio:.3f}",
        bounds=f"{low:.3f} to {high:.3f}, {factor_effect.pair_count} pairs",
        state=factor_effect.verdict.value,
    )
