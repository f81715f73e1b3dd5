"""Sides that were measured on different occasions: the state of the machine is no change."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats
from support.changes import changed
from support.occasion_simulation import STATES, BlockTrial
from support.occasion_simulation import State as MachineState
from support.records import CREATED_UTC, latencies, run_record, traces_of, worker_record

from edgebench.host.analysis.compare.blocks import (
    StudentShift,
    are_in_blocks,
    jump_beside_drift,
)
from edgebench.host.analysis.compare.comparison import ComparisonOutcome
from edgebench.host.analysis.compare.runs import RunComparison, Sides, compare_groups
from edgebench.host.analysis.occasions import MIN_OCCASIONS, OCCASION_S, OccasionSpread
from edgebench.host.analysis.run import analyse_run
from edgebench.host.result.facts import SetMember
from edgebench.host.result.metrics import Metric
from edgebench.host.result.run import Run
from edgebench.host.result.verdict import Finding, RuleOutcome, State, Verdict
from edgebench.host.show.comparisons import comparison_lines

WORSE = ComparisonOutcome.WORSE
TRIALS = 40
ALARMS = stats.binom.ppf(0.999, TRIALS, 0.05)
"""False alarms of so many trials at a true rate of 5 %, exceeded by one of a thousand tests."""
GOOD = analyse_run(
    run_record(worker_record(latencies())),
    traces_of(latencies()),
    created_utc=CREATED_UTC,
    clock=None,
)
P50S = (1000, 1001, 1002, 1003, 1004, 1005, 1006, 1007)


def a_set(name: str, *, day: int, ratio: float = 1.0, second: int = 0, step: int = 1) -> list[Run]:
    """The runs of a set of March, the first at this second, the others every so many seconds."""
    return [
        replace(
            changed(GOOD, {"metrics.latency_ns.p50": round(p50 * ratio)}),
            run_id=f"202603{day:02}-0000{second + step * place:02}-{name}",
            created_utc=f"2026-03-{day:02}T00:00:{second + step * place:02}+00:00",
            member=SetMember(name, place, len(P50S)),
        )
        for place, p50 in enumerate(P50S)
    ]


def compared(
    sides: Sides, spread: OccasionSpread, metrics: Sequence[str] | None = None
) -> RunComparison:
    """The first comparison with this spread between occasions."""

    def spread_of(
        _sides: Sides, _metric: Metric, /, *, left_out: Collection[str] = ()
    ) -> OccasionSpread:
        del left_out
        return spread

    return compare_groups([sides], spread_of=spread_of, metrics=metrics)[0]


def _text(found: RunComparison) -> str:
    return " ".join(comparison_lines([found]))


def worse_count(trial: BlockTrial, state: MachineState, *, trials: int = TRIALS) -> int:
    """Number of trials that find the candidate worse."""
    draw = np.random.default_rng(5)
    return sum(trial.outcome(state, draw) is WORSE for _ in range(trials))


@pytest.mark.parametrize("is_within_occasion", [False, True], ids=["hours apart", "at once"])
@pytest.mark.parametrize("state", STATES.values(), ids=STATES)
def test_no_model_is_worse_than_itself(state: MachineState, is_within_occasion: bool) -> None:
    """Otherwise a gate would fail because of warmth or a neighbour: 20 to 54 of 100 without it."""
    trial = BlockTrial(occasions=5, is_within_occasion=is_within_occasion)
    assert worse_count(trial, state) <= ALARMS


@pytest.mark.parametrize(
    ("name", "is_within_occasion"),
    [("AR(1) 0.97, sd 2 %", False), ("warms up by 10 %, 60 s", True)],
)
def test_runs_alone_find_a_change_where_there_is_none(name: str, is_within_occasion: bool) -> None:
    """Checks that the simulated states are as bad as those that were found."""
    trial = BlockTrial(occasions=1, is_within_occasion=is_within_occasion, knows_occasions=False)
    alone = worse_count(trial, STATES[name]) + worse_count(
        replace(trial, occasions=2), STATES[name]
    )
    assert alone > 2 * ALARMS


@pytest.mark.parametrize("name", [name for name in STATES if name != "neighbour +8 %"])
def test_slower_model_is_found_after_five_occasions(name: str) -> None:
    """Otherwise no regression would be found; a neighbour of 8 % hides one of 5 %."""
    trial = BlockTrial(occasions=5, compared=5, change=0.05)
    assert worse_count(trial, STATES[name], trials=10) >= 8


def test_recorded_neighbour_hides_no_change() -> None:
    """Otherwise a neighbour of 8 % would hide a change of 5 %, although it was recorded."""
    trial = BlockTrial(occasions=5, compared=5, is_recorded=True)
    state = STATES["neighbour +8 %"]
    assert worse_count(trial, state) <= ALARMS
    assert worse_count(replace(trial, change=0.05), state, trials=10) >= 6


def shortened(runs: list[Run], count: int) -> list[Run]:
    """A set of the first runs of a set."""
    return [
        replace(run, member=replace(run.member, count=count)) for run in runs[:count] if run.member
    ]


def disturbed(runs: list[Run], count: int, rule: str = "cpu_pressure") -> list[Run]:
    """The runs of a set, of which so many failed a rule about other programs."""
    failed = Finding(id=rule, outcome=RuleOutcome.FAIL, severity=State.SUSPECT)
    verdict = Verdict(state=State.SUSPECT, rules=(failed,))
    return [replace(run, verdict=verdict) for run in runs[:count]] + runs[count:]


def test_sets_beside_other_programs_are_left_out() -> None:
    """Otherwise a neighbour would be taken for a change of the model, or would hide one."""
    baseline, candidate = a_set("set-a", day=1), a_set("set-b", day=2)
    busy = disturbed(a_set("set-c", day=3, ratio=2.0), 4)
    spread = OccasionSpread(0.01, 4, 5, 1)
    found = compared(([*baseline, *busy], candidate), spread)
    assert found.baseline_runs == tuple(run.run_id for run in baseline)
    assert found.disturbed_run_ids == tuple(run.run_id for run in busy)
    assert found.result.ratio == pytest.approx(1.0)
    assert "8 runs are left out, because at least half of the runs in their sets" in _text(found)
    assert found.is_in_blocks


def test_sets_of_a_candidate_that_slows_itself_down_are_compared() -> None:
    """Otherwise a leak would hide itself: exactly the slow sets would be left out."""
    slow = disturbed(a_set("set-c", day=3, ratio=1.3), 8, "interference")
    sides = a_set("set-a", day=1), [*a_set("set-b", day=2), *slow]
    found = compared(sides, OccasionSpread(0.01, 4, 5, 1))
    assert (found.result.candidate_count, found.disturbed_run_ids) == (16, ())


@pytest.mark.parametrize(
    ("run_count", "metrics", "is_left_out"),
    [
        (3, None, False),
        (4, None, True),
        (4, ["latency_ns.p50", "latency_ns.p90"], False),
    ],
)
def test_sets_are_left_out_only_if_the_others_can_decide(
    run_count: int, metrics: list[str] | None, is_left_out: bool
) -> None:
    """Otherwise a comparison of enough runs would be inconclusive for lack of runs."""

    def side(first: int, ratio: float) -> list[Run]:
        sets = [a_set(f"set-{day}", day=day, ratio=ratio) for day in (first, first + 1)]
        kept, busy = (shortened(runs, run_count) for runs in sets)
        return [*kept, *disturbed(busy, run_count)]

    found = compared((side(1, 1.0), side(3, 1.5)), OccasionSpread(0.01, 4, 5, 1), metrics)
    assert bool(found.disturbed_run_ids) == is_left_out
    assert found.result.outcome is WORSE


def test_comparison_stays_in_blocks_without_the_set_that_made_it_one() -> None:
    """Otherwise JSON would have the inputs of a comparison in blocks beside its denial."""
    baseline = a_set("set-a", day=1, step=2)
    candidate = a_set("set-b", day=1, second=1, step=2)
    busy = disturbed(a_set("set-c", day=3), 8)
    found = compared((baseline, [*candidate, *busy]), OccasionSpread(0.01, 4, 5, 1))
    assert len(found.disturbed_run_ids) == 8
    assert found.result.rules.blocks is not None
    assert found.is_in_blocks


@pytest.mark.parametrize(
    ("count", "spread"),
    [(3, OccasionSpread(0.01, 4, 5, 1)), (4, OccasionSpread(occasion_count=2))],
    ids=["few disturbed runs", "the other sets have no spread"],
)
def test_disturbed_set_is_compared(count: int, spread: OccasionSpread) -> None:
    """Otherwise a disturbed run, or the lack of quiet occasions, would end a comparison."""
    busy = disturbed(a_set("set-c", day=3), count)
    found = compared(([*a_set("set-a", day=1), *busy], a_set("set-b", day=2)), spread)
    assert (found.result.baseline_count, found.disturbed_run_ids) == (16, ())


def test_side_of_disturbed_sets_is_compared_with_all_sets() -> None:
    """Otherwise a candidate beside a neighbour would be compared with a quiet baseline only."""
    baseline = [*a_set("set-a", day=1), *disturbed(a_set("set-c", day=3), 8)]
    found = compared((baseline, disturbed(a_set("set-b", day=2), 8)), OccasionSpread(0.01, 4, 5, 1))
    assert (found.result.baseline_count, found.disturbed_run_ids) == (16, ())


def test_jump_beside_a_drift_is_that_of_least_squares() -> None:
    """Checks shift and error against numpy's solution of the same model."""
    draw = np.random.default_rng(2)
    times_s = np.arange(8.0), np.arange(9.0, 15.0)
    logs = (0.01 * times_s[0], 0.01 * times_s[1] + 0.05)
    logs = (logs[0] + 0.002 * draw.normal(size=8), logs[1] + 0.002 * draw.normal(size=6))
    found = jump_beside_drift(times_s, logs)
    assert found is not None
    side = np.repeat([0.0, 1.0], [8, 6])
    columns = np.column_stack([np.ones(14), side, np.concatenate(times_s)])
    best, rest, *_ = np.linalg.lstsq(columns, np.concatenate(logs), rcond=None)
    error = math.sqrt(rest[0] / 11 * np.linalg.inv(columns.T @ columns)[1, 1])
    assert found.shift == pytest.approx(best[1])
    assert found.error == pytest.approx(error)
    assert found.freedom == 11
    low, high = found.interval(0.95)
    assert low < 0.05 < high
    assert found.p_value(1.0) == pytest.approx(2 * stats.t.sf(found.shift / found.error, 11))
    assert found.p_value(-1.0) == 1.0, "the other tests find a change in the other direction"


def test_jump_needs_runs_at_several_times() -> None:
    """Otherwise two runs, or runs of one second, would divide by zero."""
    one, two = np.ones(1), np.ones(2)
    assert jump_beside_drift((one, one), (one, one)) is None
    assert jump_beside_drift((two, two), (two, two)) is None
    assert StudentShift(0.0, 0.0, 3).p_value(1.0) == 1.0
    assert StudentShift(-0.1, 0.0, 3).p_value(-1.0) == 0.0


def test_sets_in_turn_need_no_occasions() -> None:
    """Otherwise two models of one command would be inconclusive."""
    sides = a_set("set-a", day=1, step=2), a_set("set-b", day=1, ratio=1.1, second=1, step=2)
    assert not are_in_blocks(*sides)
    [found] = compare_groups([sides])
    assert found.result.rules.blocks is None
    assert found.result.outcome is WORSE


def test_set_that_no_run_of_the_other_side_interrupts_is_a_block() -> None:
    """Otherwise an old set on one side would hide behind a new one that was made in turn."""
    in_turn = a_set("set-a", day=2, step=2)
    candidate = a_set("set-b", day=2, second=1, step=2)
    assert not are_in_blocks(in_turn, candidate)
    assert are_in_blocks([*a_set("set-old", day=1), *in_turn], candidate)


@pytest.mark.parametrize("count", [0, 1, 2])
def test_too_few_occasions_are_inconclusive_and_name_the_way_out(count: int) -> None:
    """Otherwise a first candidate would fail a build because the machine is another today."""
    sides = a_set("set-a", day=1), a_set("set-b", day=2, ratio=2.0)
    found = compared(sides, OccasionSpread(occasion_count=count))
    assert found.is_in_blocks
    assert found.result.outcome is ComparisonOutcome.INCONCLUSIVE
    assert found.result.ratio == pytest.approx(2.0, rel=1e-2)
    assert found.result.ratio_interval is None
    assert found.result.minimum_detectable_ratio is None
    text = _text(found)
    assert "is undecided against" in text
    assert f"models from {count} occasions, at least {MIN_OCCASIONS} needed" in text
    assert "edgebench bench A --against B" in text
    assert f"at least {OCCASION_S / 60:g} minutes apart: edgebench bench A" in text


def test_spread_between_occasions_widens_the_interval() -> None:
    """Checks the interval and the p value against Student's t, and the note that explains them."""
    sides = a_set("set-a", day=1), a_set("set-b", day=2, ratio=1.04)
    spread = OccasionSpread(0.01, 4, 5, 1)
    found = compared(sides, spread)
    half = math.log(found.result.ratio)
    reach = stats.t.ppf(0.975, 4) * 0.01 * math.sqrt(2)
    assert found.result.ratio_interval == pytest.approx(
        (math.exp(half - reach), math.exp(half + reach))
    )
    assert found.result.p_value == pytest.approx(2 * stats.t.sf(half / 0.01 / math.sqrt(2), 4))
    assert found.result.outcome is not WORSE
    assert found.result.minimum_detectable_ratio is not None
    assert found.result.minimum_detectable_ratio > 0.04
    assert "5 occasions of these models (standard deviation 1.00 %" in _text(found)
    pooled = compared(sides, replace(spread, model_count=3, is_pooled=True))
    assert "5 occasions of 3 models" in _text(pooled)
    assert compared(sides, replace(spread, deviation=0.001)).result.outcome is WORSE


def test_more_occasions_of_the_sides_reduce_their_share() -> None:
    """Otherwise five days of a candidate would say no more than one."""
    days = [run for day in (1, 2, 3) for run in a_set(f"set-{day}", day=day)]
    later = [run for day in (4, 5, 6) for run in a_set(f"set-{day}", day=day, ratio=1.04)]
    again = a_set("set-again", day=6, second=30)
    found = compared((days, [*later, *again]), OccasionSpread(0.01, 4, 5, 1))
    assert found.result.rules.blocks is not None
    assert found.result.rules.blocks.occasion_counts == (3, 3), "two sets of a minute are one"
    assert found.result.rules.blocks.jump is None
    assert found.result.outcome is WORSE


def test_sides_of_one_occasion_may_differ_by_their_drift() -> None:
    """Otherwise a device that warms up during both sets would look like a regression."""
    before, after = a_set("set-a", day=1), a_set("set-b", day=1, second=10)
    rising = [
        changed(run, {"metrics.latency_ns.p50": 100_000 + 300 * place + place % 2})
        for place, run in enumerate([*before, *after])
    ]
    found = compared((rising[:8], rising[8:]), OccasionSpread(0.0001, 4, 5, 1))
    assert found.result.rules.blocks is not None
    assert found.result.rules.blocks.jump is not None
    assert found.result.outcome is ComparisonOutcome.INCONCLUSIVE
    assert found.result.p_value > 0.05
    assert "and a drift between the sides" in _text(found)
