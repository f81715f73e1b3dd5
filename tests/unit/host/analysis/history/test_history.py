"""Outcome of the newest level, and marked changes of conditions."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from edgebench.host.analysis.history.history import (
    History,
    HistoryOutcome,
    HistoryRun,
    HistorySubject,
    find_history,
)
from edgebench.host.result.marks import ResultMarks
from edgebench.host.result.metrics import INSTRUCTIONS, METRICS

SUBJECT = HistorySubject(
    model="m", device="d", runtime="r", scenario="single_stream", threads=1, kind=""
)


def command(number: int, values: Sequence[float | None], **conditions: str) -> list[HistoryRun]:
    """Return the runs of one command, with these values."""
    return [
        HistoryRun(
            run_id=f"{number:04}-{place}",
            created_utc=f"2026-01-{1 + number % 28:02}T00:00:00+00:00",
            set_id=f"set-{number}",
            marks=ResultMarks("valid"),
            value=value,
            headline_value=value,
            conditions=conditions or {"governor": "performance"},
        )
        for place, value in enumerate(values)
    ]


def history(
    levels: Sequence[tuple[int, float]],
    metric: str = "latency_ns.p50",
    margin_ratio: float | None = 0.03,
) -> History:
    """Return a history with so many points at each level, which scatter by 1 %."""
    draw = np.random.default_rng(3)
    values = [level * draw.normal(1, 0.01) for count, level in levels for _ in range(count)]
    commands = [command(number, [value]) for number, value in enumerate(values)]
    return find_history(SUBJECT, commands, METRICS[metric], margin_ratio=margin_ratio)


@pytest.mark.parametrize(
    ("levels", "outcome"),
    [
        ([(4, 1000.0)], HistoryOutcome.INCONCLUSIVE),
        ([(20, 1000.0)], HistoryOutcome.STEADY),
        ([(20, 1000.0), (20, 1060.0)], HistoryOutcome.WORSE),
        ([(20, 1000.0), (20, 1015.0)], HistoryOutcome.WITHIN),
        ([(20, 1000.0), (20, 1032.0)], HistoryOutcome.INCONCLUSIVE),
        ([(20, 1000.0), (20, 900.0)], HistoryOutcome.BETTER),
        ([(20, 1000.0), (20, 1060.0), (20, 1000.0)], HistoryOutcome.BETTER),
        ([(3, 1000.0), (3, 1200.0)], HistoryOutcome.INCONCLUSIVE),
    ],
)
def test_outcome_judges_the_newest_level(
    levels: list[tuple[int, float]], outcome: HistoryOutcome
) -> None:
    """Otherwise a gate would pass a regression, or fail for a regression that was fixed."""
    found = history(levels)
    assert found.outcome is outcome, found.levels


def test_direction_is_that_of_the_metric() -> None:
    """Otherwise a higher throughput would be a regression."""
    levels = [(20, 1000.0), (20, 1100.0)]
    assert history(levels, "throughput_per_s").outcome is HistoryOutcome.BETTER
    assert history(levels).outcome is HistoryOutcome.WORSE


def test_interval_of_the_change_contains_the_true_ratio() -> None:
    """Otherwise the interval of a regression would not contain its size."""
    newest = history([(20, 1000.0), (20, 1060.0)]).levels[-1]
    assert newest.ratio is not None
    assert newest.ratio_interval is not None
    low, high = newest.ratio_interval
    assert low < newest.ratio < high
    assert low < 1.06 < high
    assert (newest.first, newest.count) == (20, 20)


def test_point_is_the_median_of_a_command_with_the_interval_between_its_runs() -> None:
    """Otherwise five runs of one minute would count as five days."""
    commands = [command(number, [100.0, 101.0, 99.0, 102.0, 98.0]) for number in range(6)]
    found = find_history(SUBJECT, commands, METRICS["latency_ns.p50"])
    assert len(found.points) == 6
    assert {point.value for point in found.points} == {100.0}
    assert {point.ci95 for point in found.points} == {(98.0, 102.0)}


def test_set_whose_runs_are_too_far_apart_is_left_out_as_it_is_invalid() -> None:
    """Otherwise `show` would refuse the number of a set, and its history would print it."""
    wide, narrow = (
        [1000.0, 1010.0, 1020.0, 1900.0, 2500.0],
        [1000.0, 1005.0, 1010.0, 1015.0, 1020.0],
    )
    found = find_history(SUBJECT, [command(1, wide), command(2, narrow)], METRICS["latency_ns.p50"])
    assert [point.set_id for point in found.points] == ["set-2"]
    assert (found.refused_count, found.missing_count) == (5, 0)


def test_change_of_conditions_is_marked_with_both_values() -> None:
    """Otherwise a new runtime would look like a slower model."""
    commands = [
        *(command(number, [100.0 + number % 3], runtime_version="1") for number in range(10)),
        *(command(number, [120.0 + number % 3], runtime_version="2") for number in range(10, 20)),
    ]
    found = find_history(SUBJECT, commands, METRICS["latency_ns.p50"])
    assert [point.changed for point in found.points if point.changed] == [
        {"runtime_version": ("1", "2")}
    ]
    assert found.levels[-1].changed == {"runtime_version": ("1", "2")}
    assert found.outcome is HistoryOutcome.WORSE


def test_runs_without_a_ratio_are_counted_and_left_out() -> None:
    """Otherwise a run whose metric is missing or zero would crash the command or become a point."""
    commands = [command(number, [value]) for number, value in enumerate([1.0, None, 0.0, 1.1])]
    found = find_history(SUBJECT, commands, METRICS["latency_ns.p50"])
    assert (len(found.points), found.missing_count) == (2, 2)


def test_one_run_of_an_exact_count_decides() -> None:
    """Otherwise an emulated board would need a week to show one more instruction."""
    commands = [command(number, [value]) for number, value in enumerate([1e6, 1e6, 1.02e6])]
    found = find_history(SUBJECT, commands, METRICS[INSTRUCTIONS], margin_ratio=0.005)
    assert found.outcome is HistoryOutcome.WORSE
    assert found.levels[-1].ratio == pytest.approx(1.02)
