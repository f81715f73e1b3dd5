"""Runs of one model: the headline, its interval, the verdict, and the best split of the time."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from itertools import combinations, permutations
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar
from scipy.stats import binom
from support.changes import changed
from support.records import latencies, run_record, traces_of, worker_record

from edgebench.host.analysis.median import MIN_RUNS, median_interval
from edgebench.host.analysis.run import analyse_run
from edgebench.host.analysis.run_set import (
    alone,
    choose_sets,
    find_set,
    find_sets,
    next_run_interval,
    set_drift_ratio,
)
from edgebench.host.analysis.verdict.run_set import chance_of_order
from edgebench.host.result.energy import EnergyResult
from edgebench.host.result.facts import Pair, SetMember
from edgebench.host.result.latency import Stability
from edgebench.host.result.numbers import numbers_of
from edgebench.host.result.outputs import Accuracy
from edgebench.host.result.run import Run
from edgebench.host.result.run_set import RunSet
from edgebench.host.result.verdict import Finding, NumberKind, RuleOutcome, State, Verdict
from edgebench.host.show.sentences import sentence
from edgebench.protocol.clock import ClockModel
from edgebench.protocol.record import Yardstick, YardstickReading

TRIALS = 4000
SIGMA_POINTS = 100 * math.sqrt(0.95 * 0.05 / TRIALS)
"""Standard deviation of a coverage over so many trials, percent."""
FAILED = Finding(
    id="background_load",
    outcome=RuleOutcome.FAIL,
    severity=State.SUSPECT,
    value=0.4,
    limit=0.1,
    unit="ratio",
    detail="other processes took 40 % of the time",
)
Draw = Callable[[np.random.Generator, tuple[int, int]], NDArray[np.float64]]


LAUNCH_S = 1.5


def one_run() -> Run:
    """Return a run that took `LAUNCH_S` in addition to its timed loop."""
    worker = worker_record(latencies())
    loop_ns = worker.after.monotonic_ns - worker.before.monotonic_ns
    clock = ClockModel(
        "host:a", "device:b", 0, 0.0, 0.0, 0.0, span_ns=loop_ns + int(LAUNCH_S * 1e9)
    )
    return analyse_run(
        run_record(worker), traces_of(latencies()), created_utc="2026-01-02", clock=clock
    )


RUN = changed(
    one_run(),
    {"verdict": Verdict(state=State.VALID, rules=()), "metrics.stability.drift_ratio": None},
)


def runs_of(p50s_ns: list[int], half_width_ns: int = 100) -> list[Run]:
    """Return runs of a set with these medians, each with its own interval."""
    return [
        changed(
            RUN,
            {
                "run_id": f"20260102-030405-{number:08d}",
                "member": SetMember("set-00000001", number, len(p50s_ns)),
                "metrics.latency_ns.p50": p50,
                "metrics.latency_ns.p50_ci95": (p50 - half_width_ns, p50 + half_width_ns),
            },
        )
        for number, p50 in enumerate(p50s_ns)
    ]


def with_verdict(run: Run, state: State) -> Run:
    """Return the run with another verdict, by one rule that failed."""
    return replace(run, verdict=Verdict(state=state, rules=(replace(FAILED, severity=state),)))


# The interval between runs ----------------------------------------------------------------------

DRAWS: dict[str, tuple[Draw, float | None]] = {
    "normal": (lambda chance, size: chance.normal(0, 1, size), 0.0),
    "lognormal": (lambda chance, size: np.exp(chance.normal(0, 1, size)), 1.0),
    "heavy tails": (lambda chance, size: chance.standard_t(2, size), 0.0),
    "two levels": (
        lambda chance, size: chance.normal(0, 1, size) + 20.0 * (chance.random(size) < 0.3),
        # Half of all are 0.5 / 0.7 of the lower level.
        0.5659,
    ),
    "neighbour in one of ten": (
        lambda chance, size: (
            chance.normal(0, 1, size)
            + np.where(chance.random(size) < 0.1, chance.exponential(30, size), 0.0)
        ),
        None,
    ),
}


@pytest.mark.parametrize("count", [5, 6, 7, 8, 10, 13, 20, 50])
@pytest.mark.parametrize("name", DRAWS)
def test_interval_of_the_median_of_runs_covers_what_it_says(name: str, count: int) -> None:
    """Otherwise one of five sets would lie outside of the interval printed before."""
    draw, truth = DRAWS[name]
    chance = np.random.default_rng(count)
    if truth is None:
        truth = float(np.median(draw(chance, (1000, 1000))))
    bounds = [median_interval(values) for values in draw(chance, (TRIALS, count))]
    inside = 100 * np.mean([low <= truth <= high for low, high in filter(None, bounds)])
    assert abs(inside - 95) < 2 + 3 * SIGMA_POINTS, f"{inside:.1f} %"


def test_interval_is_between_the_order_statistics_that_enclose_its_level() -> None:
    """Otherwise the ranks would be off by one, and every interval too narrow."""
    ten = np.arange(1.0, 11.0)
    outer, inner = (1 - 2 * binom.cdf(rank - 1, 10, 0.5) for rank in (2, 3))
    excess = (outer - 0.95) / (outer - inner)
    weight = 8 * excess / (2 + 6 * excess)
    assert median_interval(ten) == pytest.approx((2 + weight, 9 - weight))
    assert median_interval(np.array([5.0, 1.0, 4.0, 2.0, 3.0])) == (1.0, 5.0)


@pytest.mark.parametrize("count", range(MIN_RUNS))
def test_fewer_than_five_runs_have_no_interval(count: int) -> None:
    """Otherwise three runs that happen to agree would be printed within 0.1 %."""
    assert median_interval(np.arange(float(count))) is None


# A set ------------------------------------------------------------------------------------------


def test_set_is_about_the_median_of_its_runs() -> None:
    """Otherwise the headline would be the fastest run, or the last."""
    found = find_set(runs_of([1040, 1000, 1010, 1030, 1020]))
    metric = found.metrics["latency_ns.p50"]
    assert found.headline == "latency_ns.p50"
    assert (metric.median, metric.min, metric.max, metric.count) == (1020, 1000, 1040, 5)
    assert metric.ci95 == (1000, 1040)
    assert (found.set_id, found.planned_count, len(found.run_ids)) == ("set-00000001", 5, 5)
    assert found.verdict.state is State.VALID


def test_other_metrics_of_the_launches_have_their_spread_too() -> None:
    """Otherwise cold start and memory would be those of one launch."""
    runs = runs_of([1000] * 5)
    runs = [
        changed(
            run,
            {
                "metrics.cold_start_ns.load": 100 + number,
                "metrics.memory_bytes.peak_rss": 10 * number + 10,
            },
        )
        for number, run in enumerate(runs)
    ]
    found = find_set(runs)
    assert found.metrics["cold_start_ns.load"].ci95 == (100, 104)
    assert found.metrics["memory_bytes.peak_rss"].median == 30


def test_tail_that_one_run_does_not_bound_is_left_out() -> None:
    """Otherwise the p99 of a set would be that of the runs low enough to be bounded."""
    runs = runs_of([1000] * 5)
    assert "latency_ns.p99" in find_set(runs).metrics
    runs[3] = changed(runs[3], {"metrics.latency_ns.p99_ci95": None})
    assert "latency_ns.p99" not in find_set(runs).metrics


def test_invalid_run_does_not_count_and_is_named() -> None:
    """Otherwise a run that was stopped halfway would move the median, or vanish."""
    runs = runs_of([1000, 1001, 1002, 1003, 1004, 9999])
    runs[5] = with_verdict(runs[5], State.INVALID)
    found = find_set(runs)
    assert found.metrics["latency_ns.p50"].max == 1004
    assert found.refused_run_ids == (runs[5].run_id,)
    assert found.verdict.state is State.SUSPECT
    [broken] = [rule for rule in found.verdict.rules if rule.id == FAILED.id]
    assert (broken.facts["failed_count"], broken.facts["of_count"]) == (1, 6)
    assert broken.severity is State.SUSPECT, "the numbers of the others are there"


@pytest.mark.parametrize(
    "damage", [{"failed_count": True}, {"of_count": 6.0}, {"is_worst": 1}, {"of_count": "6"}]
)
def test_counts_of_another_type_are_not_read(damage: dict[str, Any]) -> None:
    """Otherwise a table of a damaged document would show "True of 6 runs"."""
    counts = {"failed_count": 1, "of_count": 6, "is_worst": True}
    finding = Finding(id="spread", outcome=RuleOutcome.FAIL, severity=State.SUSPECT, facts=counts)
    assert finding.in_runs is not None
    assert replace(finding, facts={**counts, **damage}).in_runs is None


def test_set_of_invalid_runs_is_invalid() -> None:
    """Otherwise no run would count, without a reason."""
    found = find_set([with_verdict(run, State.INVALID) for run in runs_of([1000] * 5)])
    assert found.verdict.is_refused
    assert found.metrics == {}


def test_set_is_as_suspect_as_its_runs() -> None:
    """Otherwise it would not be reported that one of five runs shared the CPU."""
    runs = runs_of([1000] * 5)
    runs[2] = with_verdict(runs[2], State.SUSPECT)
    assert find_set(runs).verdict.state is State.SUSPECT


EIGHT_NS = [1000, 1001, 1002, 1003, 1004, 1005, 1006, 1007]


def eight_runs(p50_ns: int, state: State, count: int = 1) -> list[Run]:
    """Return eight runs, of which the first failed a rule and have this median."""
    runs = runs_of([*[p50_ns] * count, *EIGHT_NS[count:]])
    passed = Verdict(state=State.VALID, rules=(replace(FAILED, outcome=RuleOutcome.PASS),))
    good = [replace(run, verdict=passed) for run in runs[count:]]
    return [with_verdict(run, state) for run in runs[:count]] + good


@pytest.mark.parametrize("state", [State.SUSPECT, State.INVALID])
def test_one_broken_run_of_eight_is_outvoted(state: State) -> None:
    """Otherwise a neighbour in one of ten launches would spoil six of ten sets."""
    found = find_set(eight_runs(1400, state))
    assert found.verdict.state is State.VALID
    assert set(found.verdict.numbers.values()) == {State.VALID}
    [broken] = found.verdict.failures
    assert (broken.harms, broken.facts["failed_count"]) == ((), 1), "it is listed nevertheless"
    assert sentence(broken).endswith("; outvoted by the other runs")


def test_two_broken_runs_of_eight_are_not() -> None:
    """Otherwise a quarter of the runs could be disturbed without a word."""
    found = find_set(eight_runs(1400, State.SUSPECT, count=2))
    assert found.verdict.state is State.SUSPECT
    assert not any("outvoted" in sentence(failure) for failure in found.verdict.failures)


def test_runs_outvote_a_rule_for_each_number() -> None:
    """Otherwise short bursts in five runs, long in only one, would count as five moved medians."""
    bursts = replace(FAILED, harms=(NumberKind.TAIL, NumberKind.MEAN))
    long_bursts = replace(FAILED, harms=(NumberKind.MEDIAN, *bursts.harmed))
    runs = eight_runs(1400, State.SUSPECT)
    for number, finding in enumerate([long_bursts, *[bursts] * 4]):
        failed = Verdict(state=State.SUSPECT, rules=(finding,))
        runs[number] = replace(runs[number], verdict=failed)
    found = find_set(runs)
    assert found.verdict.suspect_kinds == (NumberKind.TAIL, NumberKind.MEAN)
    assert found.verdict.state is State.VALID
    [broken] = found.verdict.failures
    assert broken.facts["failed_count"] == 5


@pytest.mark.parametrize(
    ("count", "state", "expected"),
    [
        (2, State.SUSPECT, State.VALID),
        (3, State.SUSPECT, State.VALID),
        (4, State.SUSPECT, State.SUSPECT),
        (1, State.INVALID, State.VALID),
        (2, State.INVALID, State.SUSPECT),
    ],
)
def test_median_tolerates_three_disturbed_runs_that_agree(
    count: int, state: State, expected: State
) -> None:
    """Otherwise a neighbour that moves no median would make sets of shared machines suspect."""
    found = find_set(eight_runs(1001, state, count=count))
    assert found.verdict.state is expected
    is_whole = count == 1
    assert (NumberKind.MEAN in found.verdict.suspect_kinds) is not is_whole, "the mean is harmed"


def test_broken_run_does_not_lose_a_number_that_it_alone_has() -> None:
    """Otherwise the accuracy, which only the first run has, would be that of a broken run."""
    runs = eight_runs(1400, State.SUSPECT)
    accuracy = Accuracy("top1", 0.975, (0.95, 0.99), 360)
    found = find_set([changed(runs[0], {"metrics.accuracy": accuracy}), *runs[1:]])
    assert found.verdict.suspect_kinds == (NumberKind.OUTPUTS,)


def test_rule_that_only_one_run_checked_is_not_outvoted() -> None:
    """Otherwise the seven runs without checked outputs would outvote the one that is wrong."""
    runs = runs_of(EIGHT_NS)
    checked = replace(FAILED, id="agreement_of_all")
    runs[0] = replace(runs[0], verdict=Verdict(state=State.SUSPECT, rules=(checked,)))
    assert find_set(runs).verdict.state is State.SUSPECT


def test_state_of_a_set_is_that_of_its_headline() -> None:
    """Otherwise a p90 that switches would make people distrust a median that does not."""
    harmed = replace(FAILED, harms=(NumberKind.TAIL, NumberKind.MEAN))
    runs = [
        replace(run, verdict=Verdict(state=State.SUSPECT, rules=(harmed,)))
        for run in runs_of([1000, 1001, 1002, 1003, 1004])
    ]
    found = find_set(runs)
    assert found.verdict.state is State.VALID
    assert found.marks.label == "valid, suspect: tail and mean"
    assert number_states(found) == {"p50": "valid", "p90": "suspect", "mean": "suspect"}
    assert [run.marks.label for run in runs] == [found.marks.label] * 5


@pytest.mark.parametrize("spread", [0.003, 0.03, 0.3])
@pytest.mark.parametrize("count", [5, 8, 15])
def test_next_run_is_inside_its_interval(count: int, spread: float) -> None:
    """Otherwise the user's next run would be outside of the only printed interval in 2 of 6."""
    chance = np.random.default_rng(count)
    draws = np.exp(spread * chance.normal(0, 1, (TRIALS, count + 1)))
    bounds = [next_run_interval(values[:-1]) for values in draws]
    inside = [
        low <= value <= high
        for (low, high), value in zip(filter(None, bounds), draws[:, -1], strict=True)
    ]
    assert len(inside) == TRIALS
    assert abs(100 * np.mean(inside) - 95) < 0.1 + 3 * SIGMA_POINTS


@pytest.mark.parametrize("count", [5, 6, 8])
def test_chance_of_an_order_is_that_of_all_permutations(count: int) -> None:
    """Otherwise the limit for a trend would be that of another number of runs."""
    in_order = [
        max(
            sum(a < b for a, b in combinations(values, 2)),
            sum(a > b for a, b in combinations(values, 2)),
        )
        for values in permutations(range(count))
    ]
    for least in range(count * (count - 1) // 2 // 2 + 1, count * (count - 1) // 2 + 1):
        share = np.mean([number >= least for number in in_order])
        assert chance_of_order(count, least) == pytest.approx(share)


@pytest.mark.parametrize(
    ("p50s_ns", "is_trend"),
    [
        ([1000, 1010, 1020, 1030, 1040], True),
        ([1040, 1030, 1020, 1010, 1000], True),
        ([1000, 1010, 1030, 1020, 1040], False),
        ([1000, 1004, 1008, 1012, 1019], False),
        ([1000, 1010, 1020, 1030, 1040, 1035, 1050, 1060], True),
        ([1000, 1040, 1010, 1050, 1020, 1060, 1030, 1070], False),
    ],
)
def test_runs_that_rise_in_order_are_a_trend(p50s_ns: list[int], is_trend: bool) -> None:
    """Otherwise a set of a device that warms up by 10 % would be valid in one of two sets."""
    [found] = [rule for rule in find_set(runs_of(p50s_ns)).verdict.rules if rule.id == "trend"]
    assert (found.outcome is RuleOutcome.FAIL) == is_trend, found


@pytest.mark.parametrize(
    ("p50s_ns", "fast_count"),
    [
        ([1000, 1150, 1151, 1149, 1152, 1150, 1151, 1150], 1),
        ([1002, 1000, 1001, 1150, 1151, 1149, 1152, 1150], 3),
        ([1000, 1050, 1051, 1049, 1052], 1),
        ([1150, 1151, 1149, 1152, 1150, 1151, 1150, 1400], 0),
        ([1400, 1151, 1149, 1152, 1150, 1151, 1150, 1152], 0),
        ([1000, 1010, 1012, 1011, 1010, 1011, 1012, 1010], 0),
        ([1000, 1150, 1001, 1150, 1149, 1152, 1150, 1151], 0),
    ],
)
def test_device_that_throttles_after_its_first_runs_makes_a_step(
    p50s_ns: list[int], fast_count: int
) -> None:
    """Otherwise seven throttled runs of eight would agree, and be valid where nothing is read.

    A slow run at an end is a disturbance, and a rise below the limit is small.
    """
    found = find_set(runs_of(p50s_ns)).verdict
    steps = [rule.facts["fast_count"] for rule in found.rules if rule.reason == "step"]
    assert steps == [fast_count] * bool(fast_count)


@pytest.mark.parametrize(
    ("changes", "drift_ratio"),
    [
        ([0.03] * 8, 0.03),
        ([-0.03] * 8, 0.03),
        ([0.03, 0.02, 0.04, 0.03, 0.025, 0.035, 0.03, 0.03], 0.03),
        ([0.03, -0.03, 0.03, 0.03, -0.02, 0.03, -0.03, 0.03], 0.0),
        ([0.03] * 7 + [None], 0.0),
    ],
)
def test_drift_that_the_runs_share_shows_in_the_set(
    changes: list[float | None], drift_ratio: float
) -> None:
    """Otherwise a drift that noise hides in each short run would be valid, and not in the interval.

    Changes in different directions are noise.
    """
    runs = runs_of([1000] * 8)
    stability = RUN.metrics.stability
    assert stability is not None
    for number, change in enumerate(changes):
        whole = replace(stability, drift_ratio=change)
        runs[number] = changed(runs[number], {"metrics.stability": whole})
    assert set_drift_ratio(runs) == pytest.approx(drift_ratio)
    found = find_set(runs)
    assert found.metrics["latency_ns.p50"].half_width_ratio == pytest.approx(0.625 * drift_ratio)
    assert ("set_drift" in {failure.id for failure in found.verdict.failures}) == (
        drift_ratio > 0.02
    )


@pytest.mark.parametrize(
    ("changes", "highest_ns"),
    [
        ([None] * 8, 1006),
        ([0.01, 0.02] + [None] * 6, 1011),  # the highest of eight counts little
        ([1.0, 1.0, 1.0] + [None] * 5, 2002),
        ([1.0] * 4 + [None] * 4, 1006),
    ],
)
def test_warmup_of_few_runs_is_in_the_interval(
    changes: list[float | None], highest_ns: float
) -> None:
    """Slow starts of three runs of eight are a level of the device; those of four, its warm-up.

    Otherwise the median would be that of a device that never is on its slow level.
    """
    runs = [
        changed(run, {"metrics.warmup.p50_change_ratio": change})
        for run, change in zip(runs_of(list(range(1000, 1008))), changes, strict=True)
    ]
    found = find_set(runs).metrics["latency_ns.p50"]
    assert found.ci95 is not None
    assert found.median == 1003.5
    assert found.ci95 == pytest.approx((1001, highest_ns), abs=1)


def speeds(integer_ns: list[float], *, bytes_per_s: float = 4e9) -> list[Run]:
    """Runs with these times of integer work after each; before, another process slowed it down."""
    runs = runs_of([1000] * len(integer_ns))
    return [
        changed(
            run,
            {
                "conditions.yardstick": Yardstick(
                    before=YardstickReading(2 * time_ns, 0.5, bytes_per_s / 2, 0.5),
                    after=YardstickReading(time_ns, 0.01, bytes_per_s, 0.1),
                )
            },
        )
        for run, time_ns in zip(runs, integer_ns, strict=True)
    ]


def yardstick_of(runs: list[Run]) -> Finding:
    """What the set's rule found about the yardsticks of its runs."""
    [found] = [rule for rule in find_set(runs).verdict.rules if rule.id == "set_yardstick"]
    return found


@pytest.mark.parametrize(
    ("integer_ns", "outcome"),
    [
        ([100.0] * 8, RuleOutcome.PASS),
        ([100.0, *[102.9] * 7], RuleOutcome.PASS),
        ([100.0, *[103.1] * 7], RuleOutcome.FAIL),  # slower from the second run on
        ([*[100.0] * 6, 103.1, 103.1], RuleOutcome.FAIL),
        ([*[100.0] * 7, 140.0], RuleOutcome.PASS),  # outvoted
        ([*[100.0] * 4, 140.0], RuleOutcome.FAIL),  # five runs outvote none
        ([100.0 + number for number in range(8)], RuleOutcome.FAIL),
    ],
)
def test_speeds_of_the_runs_are_compared(integer_ns: list[float], outcome: RuleOutcome) -> None:
    """Otherwise a virtual machine that became slower would look like a slow model."""
    found = yardstick_of(speeds(integer_ns))
    assert found.outcome is outcome
    assert found.value is not None
    changed_ratio = integer_ns[-1] / integer_ns[0] - 1
    assert f"; it took {100 * changed_ratio:.1f} % " in sentence(found)


def test_slower_memory_makes_a_set_suspect() -> None:
    """Otherwise a memory controller at a lower clock would not be detected."""
    fast, slow = speeds([100.0] * 4), speeds([100.0] * 8, bytes_per_s=4e9 / 1.51)[4:]
    found = yardstick_of([*fast, *slow])
    assert (found.outcome, found.reason) == (RuleOutcome.FAIL, "memory")
    assert "copy in memory took 51.0 % longer" in sentence(found)


def test_different_work_is_not_compared() -> None:
    """Otherwise an update of Python between two runs would look like a slower device."""
    runs = speeds([100.0] * 4 + [200.0] * 4)
    for number in range(4, 8):
        runs[number] = changed(runs[number], {"environment.python": "3.13.0"})
    assert yardstick_of(runs).outcome is RuleOutcome.UNKNOWN
    assert yardstick_of(runs[:1]).outcome is RuleOutcome.UNKNOWN


def test_clock_that_cannot_be_read_is_watched_by_the_yardstick() -> None:
    """Otherwise a set would be `valid*` for a clock whose changes were detected; heat stays so."""
    unwatched = Verdict(state=State.VALID, rules=(), unwatched=("clock", "heat"))
    runs = [replace(run, verdict=unwatched) for run in speeds([100.0] * 8)]
    assert find_set(runs).verdict.unwatched == ("heat",)
    without = [changed(run, {"conditions.yardstick": None}) for run in runs]
    assert find_set(without).verdict.unwatched == ("clock", "heat")


def drift_of(levels: float, blocks: float) -> dict[str, object]:
    """Changes to a run whose levels and whose medians of blocks have these ranges."""
    return {
        "metrics.warmup.level_range_ratio": levels,
        "metrics.stability.block_range_ratio": blocks,
    }


def test_interval_of_a_set_has_the_drift_of_its_runs() -> None:
    """Otherwise runs that drift by 4 % would have an interval of 0.1 %, which a longer one misses.

    A single run that drifts is outvoted.
    """
    drifting = [
        changed(run, drift_of(levels=0.04, blocks=0.04))
        for run in runs_of([1000, 1000, 1001, 999, 1000])
    ]
    assert find_set(drifting).metrics["latency_ns.p50"].ci95 == pytest.approx((974, 1026))
    one_of_five = [*drifting[:1], *runs_of([1000, 1000, 1001, 999, 1000])[1:]]
    assert find_set(one_of_five).metrics["latency_ns.p50"].ci95 == (999, 1001)


def test_bursts_are_no_drift_of_the_median() -> None:
    """Otherwise other programs in 3 % of a run would refuse a median that all its blocks share.

    Recorded on a machine with another program: levels range over 1,000 %, blocks over 0.3 %.
    """
    bursts = [changed(run, drift_of(levels=10.0, blocks=0.003)) for run in runs_of([1000] * 5)]
    found = find_set(bursts)
    interval = found.metrics["latency_ns.p50"].ci95
    assert interval is not None
    assert 995 < interval[0] < 1000 < interval[1] < 1005
    mean, throughput = found.metrics["latency_ns.mean"], found.metrics["throughput_per_s"]
    for summary in (mean, throughput):
        assert summary.ci95 is not None
        assert summary.ci95[1] > 7 * summary.median
    assert found.verdict.state is State.VALID


@pytest.mark.parametrize(
    ("end_ns", "expected"),
    [
        ([1020, 1020], (986.5, 1021.02)),  # a step
        ([1010, 1020], (986.5, 1026.025)),  # the line through both blocks goes on
        ([990, 980], (974.025, 1013.5)),
        ([1000, 1000], (986.5, 1013.5)),
    ],
)
def test_interval_of_a_set_has_the_level_at_the_end_of_its_runs(
    end_ns: list[float], expected: tuple[float, float]
) -> None:
    """Otherwise runs that become slower at their end would not contain the next, longer run."""
    stability = Stability(0.01, (*[1000.0] * 8, *end_ns), 0.02, None)
    drifting = [
        changed(run, {"metrics.warmup.level_range_ratio": 0.02, "metrics.stability": stability})
        for run in runs_of([1000, 1000, 1001, 999, 1000])
    ]
    found = find_set(drifting).metrics
    assert found["latency_ns.p50"].ci95 == pytest.approx(expected)
    throughput = found["throughput_per_s"]
    assert throughput.ci95 is not None
    low, high = (bound / throughput.median for bound in throughput.ci95)
    is_at_end = 1000 / (1.5 * end_ns[1] - 0.5 * end_ns[0])
    assert low <= is_at_end * 1.001
    assert high >= is_at_end * 0.999


@pytest.mark.parametrize(("drift_ratio", "state"), [(0.02, State.VALID), (0.04, State.SUSPECT)])
def test_runs_that_all_drift_are_suspect(drift_ratio: float, state: State) -> None:
    """Otherwise a board that heats up by 4 % in each run would be valid, as no run shows it."""
    runs = runs_of([1000, 1000, 1001, 999, 1000, 1002, 1001, 1000])
    for number in range(5):
        runs[number] = changed(runs[number], drift_of(levels=drift_ratio, blocks=drift_ratio))
    found = find_set(runs).verdict
    assert found.state is state
    assert [failure.id for failure in found.failures] == ["set_drift"] * (state is State.SUSPECT)


def number_states(run_set: RunSet) -> dict[str, str]:
    """State of three latencies as they may be shown."""
    names = ("p50", "p90", "mean")
    found = numbers_of(run_set, [f"latency_ns.{name}" for name in names])
    return {number.metric.label: number.marks.state for number in found}


@pytest.mark.parametrize(
    ("p50s_ns", "state"),
    [
        ([1010, 1000, 1020, 1040, 1030], State.VALID),
        ([1010, 1000, 1020, 1140, 1030], State.SUSPECT),
        ([1010, 1000, 1020, 1640, 1030], State.INVALID),
        ([1010, 1000, 1020, 1030], State.SUSPECT),
    ],
)
def test_verdict_follows_from_the_interval_between_runs(p50s_ns: list[int], state: State) -> None:
    """Otherwise launches that differ by a third would be printed as one number, and valid."""
    assert find_set(runs_of(p50s_ns)).verdict.state is state


def test_rule_that_several_runs_broke_shows_the_worst() -> None:
    """Otherwise a set would report 13 % for all runs, though the fourth lost 92 % to others."""
    runs = runs_of([1000, 1001, 1002, 1003, 1004])
    values = (0.135, 0.319, 0.923, 0.2)
    for number, value in enumerate(values):
        rules = (replace(FAILED, value=value),)
        runs[number] = changed(
            runs[number], {"verdict.rules": rules, "verdict.state": State.SUSPECT}
        )
    [found] = [failure for failure in find_set(runs).verdict.failures if failure.id == FAILED.id]
    assert (found.value, found.facts["failed_count"], found.facts["is_worst"]) == (0.923, 4, True)
    # Two reasons cannot be compared.
    rules = (replace(FAILED, value=0.99, reason="under_test"),)
    runs[1] = changed(runs[1], {"verdict.rules": rules})
    [found] = [failure for failure in find_set(runs).verdict.failures if failure.id == FAILED.id]
    assert (found.value, found.facts["is_worst"]) == (0.135, False)


@pytest.mark.parametrize(
    ("details", "shown"),
    [
        (["it is simulated"] * 5, "in 5 of 5 runs: it is simulated"),
        (["a ran", *["b ran"] * 4], "in 5 of 5 runs; in one of them, a ran"),
    ],
)
def test_rule_that_all_runs_broke_alike_is_shown_once(details: list[str], shown: str) -> None:
    """Otherwise a set of simulated runs would read as if one of them were."""
    runs = [
        changed(
            run,
            {
                "verdict.rules": (replace(FAILED, value=None, detail=detail, reason="new"),),
                "verdict.state": State.SUSPECT,
            },
        )
        for run, detail in zip(runs_of([1000, 1001, 1002, 1003, 1004]), details, strict=True)
    ]
    [found] = [failure for failure in find_set(runs).verdict.failures if failure.id == FAILED.id]
    assert sentence(found) == shown


def test_accuracy_of_a_set_is_that_of_its_first_run_with_its_interval() -> None:
    """Otherwise the interval of the only run with an accuracy would be lost among the others."""
    runs = runs_of([1000, 1001, 1002, 1003, 1004])
    accuracy = Accuracy("top1", 0.975, (0.95, 0.99), 360)
    runs[0] = changed(runs[0], {"metrics.accuracy": accuracy})
    found = find_set(runs).metrics["accuracy.value"]
    assert (found.count, found.median, found.ci95) == (1, 0.975, (0.95, 0.99))


def test_run_on_its_own_keeps_its_verdict_and_its_interval() -> None:
    """Otherwise every run would become suspect with --runs 1."""
    run = replace(RUN, member=None)
    found = find_set([run])
    assert found.verdict == run.verdict
    assert found.set_id is None
    assert alone(runs_of([1000])[0]).set_id is None


def test_runs_are_put_into_their_sets_in_order() -> None:
    """Otherwise rounds over several models would be one heap."""
    first, second = runs_of([1, 2, 3]), runs_of([4, 5, 6])
    second = [changed(run, {"member.set_id": "set-00000002"}) for run in second]
    mixed = [run for pair in zip(first, second, strict=True) for run in pair]
    found = find_sets([*mixed[::-1], replace(RUN, member=None), replace(RUN, member=None)])
    assert [one.set_id for one in found] == ["set-00000002", "set-00000001", None, None]
    assert [run.run_id for run in found[0].runs] == [run.run_id for run in second]


def test_sides_of_a_comparison_are_sets_and_the_baseline_is_the_first() -> None:
    """Otherwise a report of ten pairs would have 20 columns, and the first model as baseline."""
    runs = [
        replace(one, member=None, pair=Pair("pairs-a", number // 2, side))
        for number, (one, side) in enumerate(
            zip(runs_of([1000] * 6), ("candidate", "baseline") * 3, strict=True)
        )
    ]
    baseline, candidate = find_sets(runs)
    assert (baseline.set_id, candidate.set_id) == ("pairs-a-baseline", "pairs-a-candidate")
    assert (len(baseline.run_ids), baseline.planned_count) == (3, 3)
    [only] = choose_sets(runs[:1])
    assert only.set_id is None
    assert only.verdict == runs[0].verdict


def test_run_without_the_rest_of_its_set_stands_alone() -> None:
    """Otherwise a good run would be suspect, since four others were not named with it."""
    runs = runs_of([1000, 1001, 1002, 1003, 1004])
    [only] = choose_sets(runs[2:3])
    assert (only.set_id, only.verdict) == (None, runs[2].verdict)
    assert [choose_set.set_id for choose_set in choose_sets(runs)] == [find_sets(runs)[0].set_id]


def test_energy_has_the_error_of_the_meter_beside_that_between_runs() -> None:
    """Otherwise a meter that is 3 % off would seem to measure five times within 0.1 %."""
    runs = [
        changed(
            run,
            {
                "metrics.energy": EnergyResult(
                    meter="m",
                    boundary="board",
                    gross_j_per_inference=1.0 + number / 1000,
                    u95_absolute_j=0.03,
                )
            },
        )
        for number, run in enumerate(runs_of([1000] * 5))
    ]
    found = find_set(runs).metrics["energy.gross_j_per_inference"]
    assert found.ci95 == pytest.approx((1.002 - 0.0301, 1.002 + 0.0301), abs=2e-4)


# The split of the time --------------------------------------------------------------------------


@pytest.mark.parametrize(("half_width_ns", "spread_ns"), [(400, 20), (60, 60), (20, 200)])
def test_proposed_split_is_the_best_one(half_width_ns: int, spread_ns: int) -> None:
    """Otherwise the advice would make the next measurement worse."""
    p50s = [100_000 + int(spread_ns * shift) for shift in (-1.2, -0.6, 0.0, 0.6, 1.2)] * 4
    found = find_set(runs_of(p50s, half_width_ns)).variance
    assert found is not None
    assert found.launch_s == pytest.approx(LAUNCH_S)
    within, between = found.within_ratio**2, found.between_ratio**2
    assert within**0.5 == pytest.approx(half_width_ns / 1.96 / 100_000, rel=1e-3)
    total_s = len(p50s) * (found.launch_s + found.duration_s)

    def error(loop_s: float) -> float:
        runs = total_s / (found.launch_s + loop_s)
        return math.sqrt((between + within * found.duration_s / loop_s) / runs)

    longest_s = total_s / MIN_RUNS - found.launch_s
    best = minimize_scalar(error, bounds=(0.5, longest_s), method="bounded")
    assert error(found.best_duration_s) == pytest.approx(best.fun, rel=0.01)
    assert found.gain_ratio == pytest.approx(best.fun / error(found.duration_s), rel=0.1)


def test_no_split_is_proposed_without_both_levels() -> None:
    """Four runs have no variance worth a proposal, nor have runs without an interval."""
    assert find_set(runs_of([1000, 1001, 1002, 1003])).variance is None
    runs = runs_of([1000, 1001, 1002, 1003, 1004])
    runs[1] = changed(runs[1], {"metrics.latency_ns.p50_ci95": None})
    assert find_set(runs).variance is None
