"""The table of metrics: its paths exist in the types, and lead to numbers."""

from __future__ import annotations

from dataclasses import fields, is_dataclass, replace
from types import UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

import pytest
from support.records import CREATED_UTC, latencies, run_record, traces_of, worker_record

from edgebench.host.analysis.run import analyse_run
from edgebench.host.result.keys import key_of
from edgebench.host.result.latency import PERCENTILES, LatencySummary
from edgebench.host.result.measured import Metrics
from edgebench.host.result.metrics import (
    BY_SHORT_NAME,
    METRICS,
    Metric,
    NoSuchPath,
    headline,
    headline_latency,
    value_at,
)
from edgebench.host.result.run import Run
from edgebench.host.store.index import RunSummary
from edgebench.protocol.spec import SCENARIOS, Scenario

OTHER_UNITS = {
    "agreement.fraction_equal": "fraction",
    "energy.inferences_per_s_per_w": "per_s_per_w",
}
"""Names that express a ratio, or inferences per joule, in other words."""
RUN = analyse_run(
    run_record(worker_record(latencies())),
    traces_of(latencies()),
    created_utc=CREATED_UTC,
    clock=None,
)


def kinds_of(hint: Any) -> set[Any]:
    """The types that a hint allows, except None."""
    if get_origin(hint) in (Union, UnionType):
        return set().union(*(kinds_of(one) for one in get_args(hint))) - {type(None)}
    return {hint}


def kinds_at(path: str) -> set[Any]:
    """The types that may stand at a path of keys below `metrics`."""
    found: set[Any] = {Metrics}
    for key in path.split("."):
        (owner,) = found
        assert is_dataclass(owner), f"{path}: {owner} has no keys"
        names = {key_of(field.metadata, field.name): field.name for field in fields(owner)}
        assert key in names, f"{path}: there are {', '.join(names)}"
        found = kinds_of(get_type_hints(owner)[names[key]])
    return found


@pytest.mark.parametrize("metric", METRICS.values(), ids=lambda metric: metric.path)
def test_metric_is_a_number_of_the_result(metric: Metric) -> None:
    """Otherwise a field would be renamed, and the metric of that name be missing in every run."""
    kinds = kinds_at(metric.path)
    assert kinds
    assert kinds <= {int, float}


@pytest.mark.parametrize("metric", METRICS.values(), ids=lambda metric: metric.path)
def test_unit_of_a_metric_is_the_one_of_its_name(metric: Metric) -> None:
    """Otherwise nanoseconds would be printed as bytes, or as a plain number."""
    unit = OTHER_UNITS.get(metric.path, metric.quantity.value)
    assert not unit or f"_{unit}_" in f"_{metric.path.replace('.', '_')}_"


@pytest.mark.parametrize("metric", METRICS.values(), ids=lambda metric: metric.path)
def test_interval_of_a_metric_is_beside_it(metric: Metric) -> None:
    """Otherwise an interval would be renamed, and the numbers be printed without it."""
    place, _, name = metric.path.rpartition(".")
    (owner,) = kinds_at(place) if place else {Metrics}
    has_interval = f"{name}_ci95" in {field.name for field in fields(owner)}
    is_estimated = owner is LatencySummary and name in {"mean", *PERCENTILES}
    assert has_interval is is_estimated


def test_columns_are_those_of_the_list_of_runs() -> None:
    """Otherwise a misspelt column would end the first listing in a traceback."""
    columns = [metric.column for metric in METRICS.values() if metric.column]
    assert len(set(columns)) == len(columns)
    hints = get_type_hints(RunSummary)
    for metric in METRICS.values():
        if metric.column:
            assert kinds_of(hints[metric.column]) == kinds_at(metric.path), metric.path


def test_names_of_metrics_are_unique() -> None:
    """Otherwise a short name would hide a metric, or match two of them."""
    shorts = [metric.short for metric in METRICS.values() if metric.short]
    assert len(set(shorts)) == len(shorts) == len(BY_SHORT_NAME)
    assert not set(shorts) & METRICS.keys()
    assert all(METRICS[path].path == path for path in METRICS)


@pytest.mark.parametrize("scenario", Scenario)
def test_scenario_is_about_numbers_that_there_are(scenario: Scenario) -> None:
    """Otherwise a scenario's headline would be misspelt, and its runs show another metric."""
    traits = SCENARIOS[scenario]
    assert kinds_at(traits.headline) == {LatencySummary}
    assert traits.compared in METRICS


def test_headline_of_a_run_is_the_one_of_its_scenario() -> None:
    """Otherwise a run would be judged by an unrelated number."""
    assert headline(RUN).path == "latency_ns.p50"
    assert headline_latency(RUN) == RUN.metrics.latency_ns
    metric = METRICS["latency_ns.p50"]
    latency = RUN.metrics.latency_ns
    assert latency is not None
    assert metric.value(RUN) == latency.p50
    assert metric.interval(RUN) == latency.p50_ci95
    assert METRICS["energy.gross_j_per_inference"].value(RUN) is None
    assert METRICS["energy.gross_j_per_inference"].interval(RUN) is None


def server_run(**changes: Any) -> Run:
    """A run with arrivals, whose queries took twice as long as their invocations."""
    latency = RUN.metrics.latency_ns
    assert latency is not None
    assert latency.p50 is not None
    queries = replace(latency, p50=2 * latency.p50, **changes)
    spec = replace(RUN.spec, scenario=Scenario.SERVER, target_qps=100.0)
    return replace(RUN, spec=spec, metrics=replace(RUN.metrics, end_to_end_ns=queries))


def test_tail_that_so_few_queries_cannot_bound_is_no_headline() -> None:
    """Otherwise a refused p99, or the latency of another span, would summarise a finished run."""
    assert headline(server_run(p99_ci95=(1, 9))).path == "end_to_end_ns.p99"
    assert headline(server_run(p99_ci95=None)).path == "end_to_end_ns.p50"
    assert headline(server_run(p99=None, p99_ci95=None)).path == "end_to_end_ns.p50"


@pytest.mark.parametrize("path", ["", "latency_ns.p42", "latency_ns.p50.x", "latency", "import_"])
def test_path_that_is_not_there_is_told(path: str) -> None:
    """Otherwise a mistyped metric would look like a metric that was not measured."""
    with pytest.raises(NoSuchPath):
        value_at(RUN.metrics, path)


def test_path_goes_by_the_keys_of_the_document() -> None:
    """Otherwise a key that is no Python name would be found only by its attribute's name."""
    assert RUN.metrics.cold_start_ns is not None
    assert value_at(RUN.metrics, "cold_start_ns.import") == RUN.metrics.cold_start_ns.import_
    with pytest.raises(NoSuchPath):
        value_at(RUN.metrics, "cold_start_ns.import_")
    assert value_at(RUN.metrics, "energy.gross_j_per_inference") is None, "nobody measured it"
