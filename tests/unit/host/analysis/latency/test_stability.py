"""Levels that alternate, blocks that differ, and what is only noise, drift or a warm-up.

A wrong result either way costs trust: a run that switches between 28 and 57 µs was once printed as
28.3 µs, valid.
"""

from __future__ import annotations

import os
from collections.abc import Callable

import numpy as np
import pyarrow.parquet as pq
import pytest
from numpy.typing import NDArray
from support.records import run_record, worker_record
from support.series import ar1
from support.tools import need_shared

from edgebench.host.analysis.latency.queries import Queries
from edgebench.host.analysis.latency.stability import (
    MIN_SLICES,
    SLICE_SIZE,
    comes_back,
    find_levels,
    rarer_level,
    stability,
)
from edgebench.host.analysis.latency.summary import share_limit, summarize
from edgebench.host.analysis.measurement import Traces, measure_traces
from edgebench.host.analysis.verdict.evidence import Evidence
from edgebench.host.analysis.verdict.judge import judge
from edgebench.host.result.facts import HostFacts
from edgebench.host.result.verdict import RuleOutcome

Series = NDArray[np.int64]
Make = Callable[[np.random.Generator], Series]
SEEDS = int(os.environ.get("EDGEBENCH_TESTS_SEEDS", "1"))
"""Number of series of each kind; a release is tested with 20."""
FAST_NS, SLOW_NS = 28_000, 57_000
SCATTER_RULES = {"steady_state", "precision_floor", "precision", "spread", "block_stability"}


def noisy(level_ns: NDArray[np.float64], draw: np.random.Generator, noise: float) -> Series:
    """Return latencies on these levels; 1 of 500 is a spike."""
    values = level_ns * np.exp(noise * draw.standard_normal(level_ns.size))
    spikes = draw.random(level_ns.size) < 0.002
    values[spikes] *= 1 + draw.pareto(1.5, np.count_nonzero(spikes))
    latency_ns: Series = values.astype(np.int64)
    return latency_ns


def alternating(
    draw: np.random.Generator,
    seconds: float,
    dwell_s: tuple[float, float],
    levels_ns: tuple[int, int] = (FAST_NS, SLOW_NS),
    noise: float = 0.03,
) -> Series:
    """Return two alternating levels, each stay half to one and a half times the average."""
    parts: list[NDArray[np.float64]] = []
    left_s, state = seconds, int(draw.random() < 0.5)
    while left_s > 0:
        stay_s = min(left_s, dwell_s[state] * draw.uniform(0.5, 1.5))
        count = int(stay_s * 1e9 / levels_ns[state])
        parts.append(np.full(count, float(levels_ns[state])))
        left_s -= max(stay_s, 1e-9)
        state = 1 - state
    return noisy(np.concatenate(parts), draw, noise)


def starts(latency_ns: Series) -> Series:
    """Return the starts of inferences, back to back."""
    return np.concatenate([[0], np.cumsum(latency_ns)[:-1]]).astype(np.int64)


def failures(latency_ns: Series, warmup_count: int = 100) -> set[str]:
    """Return the rules about scatter that fail for a run with these latencies."""
    worker = worker_record(latency_ns)
    record, begin = run_record(worker), starts(latency_ns)
    queries = Queries(
        start_ns=begin,
        invoke_start_ns=begin,
        invoke_end_ns=begin + latency_ns,
        end_ns=begin + latency_ns,
        scheduled_ns=begin,
        sample=np.zeros(latency_ns.size, np.int64),
        warmup_count=warmup_count,
    )
    measured = measure_traces(record, worker, Traces(queries))
    verdict = judge(Evidence(record, worker, measured, HostFacts(), None))
    found = {rule.id for rule in verdict.rules if rule.outcome is RuleOutcome.FAIL}
    return found & SCATTER_RULES


SWITCHING = {
    f"dwell {fast_s:g} s and {slow_s:g} s": (fast_s, slow_s)
    for fast_s, slow_s in (
        (0.01, 0.01),
        (0.01, 0.02),
        (0.03, 0.01),
        (0.05, 0.05),
        (0.1, 0.3),
        (0.2, 0.1),
        (0.5, 0.5),
        (0.3, 0.1),
        (1.0, 0.6),
        (1.0, 1.0),
    )
}


@pytest.mark.parametrize("dwell_s", SWITCHING.values(), ids=SWITCHING)
def test_levels_that_alternate_are_never_valid(dwell_s: tuple[float, float]) -> None:
    """Otherwise the faster or the slower level would be printed, by chance."""
    for seed in range(SEEDS):
        latency_ns = alternating(np.random.default_rng(seed), 8.0, dwell_s)
        assert failures(latency_ns), seed


@pytest.mark.parametrize("dwell_s", [(0.01, 0.01), (0.03, 0.01), (0.1, 0.3), (0.5, 0.5)])
def test_levels_are_told_with_their_shares_and_dwell_times(dwell_s: tuple[float, float]) -> None:
    """Otherwise the user would look for a governor with a period of 10 ms instead of 300 ms."""
    latency_ns = alternating(np.random.default_rng(7), 20.0, dwell_s)
    found = find_levels(latency_ns, starts(latency_ns), int(latency_ns.sum()))
    assert found is not None
    assert found.low_ns == pytest.approx(FAST_NS, rel=0.02)
    assert found.high_ns == pytest.approx(SLOW_NS, rel=0.02)
    assert found.low_dwell_s == pytest.approx(dwell_s[0], rel=0.35)
    assert found.high_dwell_s == pytest.approx(dwell_s[1], rel=0.35)
    assert found.high_ratio == pytest.approx(np.mean(latency_ns > 40_000), abs=0.03)


def drifting(draw: np.random.Generator, change: float) -> Series:
    """Return a latency that grows by this much, from the start to the end."""
    return noisy(3e4 * np.linspace(1, 1 + change, 200_000), draw, 0.02)


def burst(draw: np.random.Generator, share: float, factor: float, period_s: float) -> Series:
    """Return latencies while another process takes the core for this share of every period."""
    count = 200_000
    times_s = np.arange(count) * 40e-6
    is_hit = (times_s / period_s + draw.random()) % 1 < share
    return noisy(np.where(is_hit, factor, 1.0) * 4e4, draw, 0.02)


NEVER_VALID: dict[str, Make] = {
    "a third of the run is half as fast": lambda d: burst(d, 0.35, 2.0, 0.4),
    "a tenth slower every other second": lambda d: burst(d, 0.5, 1.15, 2.0),
    "bursts of 10 ms, a third of the time": lambda d: burst(d, 0.33, 1.5, 0.03),
    "drift by 20 %": lambda d: drifting(d, 0.2),
    "drift by 15 %": lambda d: drifting(d, 0.15),
    "wandering by a tenth": lambda d: (40_000 * np.exp(0.1 * ar1(d, 200_000, 0.9999))).astype(
        np.int64
    ),
    "scatter of a quarter": lambda d: noisy(np.full(50_000, 3e4), d, 0.25),
}
STEADY: dict[str, Make] = {
    "noise of 1 %": lambda d: noisy(np.full(200_000, 4e4), d, 0.01),
    "noise of 5 %": lambda d: noisy(np.full(200_000, 4e4), d, 0.05),
    "a clock of one tick": lambda d: np.round(noisy(np.full(200_000, 4e3), d, 0.05), -2),
    "costs of two inputs": lambda d: noisy(
        np.where(d.random(200_000) < 0.3, 1.2, 1.0) * 4e4, d, 0.01
    ),
    "bursts of 2 % of the time": lambda d: burst(d, 0.02, 3.0, 0.1),
    "drift by 0.5 %": lambda d: drifting(d, 0.005),
    "correlated noise of 2 %": lambda d: (40_000 * np.exp(0.02 * ar1(d, 200_000, 0.99))).astype(
        np.int64
    ),
    "a warm-up": lambda d: noisy(np.repeat(np.array([6e4, 4e4]), [20_000, 180_000]), d, 0.02),
    "a slow model": lambda d: noisy(np.full(600, 1e7), d, 0.01),
}


@pytest.mark.parametrize("make", NEVER_VALID.values(), ids=NEVER_VALID)
def test_median_that_depends_on_the_moment_is_not_valid(make: Make) -> None:
    """Otherwise the first tenth's median would be valid, while another tenth has another."""
    for seed in range(SEEDS):
        assert failures(make(np.random.default_rng(seed))), seed


@pytest.mark.parametrize("make", STEADY.values(), ids=STEADY)
def test_steady_run_is_not_suspected(make: Make) -> None:
    """Otherwise every run would be suspect, and the verdict would no longer be read."""
    suspected = [seed for seed in range(SEEDS) if failures(make(np.random.default_rng(seed)))]
    assert suspected == []


@pytest.mark.parametrize(
    ("name", "is_valid"),
    [
        ("switching_digits_int8_onnx", False),
        ("switching_digits_fp32_litert", False),
        ("steady_digits_int8_litert", True),
    ],
)
def test_real_traces_have_the_verdict_of_their_readme(name: str, is_valid: bool) -> None:
    """Real runs of a shared machine: the level that was cut as a warm-up came back."""
    table = pq.read_table(need_shared(f"known_answers/traces/{name}.parquet"))
    column = {column_name: table[column_name].to_numpy() for column_name in table.column_names}
    latency_ns = column["invoke_end_ns"] - column["invoke_start_ns"]
    warmup_count = int(column["warmup"].sum())
    assert (failures(latency_ns, warmup_count) == set()) is is_valid


def test_level_that_was_cut_and_comes_back_is_no_warm_up() -> None:
    """Otherwise the slow half of a run would be cut away, in favour of the fast half."""
    draw = np.random.default_rng(3)
    once = noisy(np.repeat([6e4, 4e4], [2_000, 8_000]), draw, 0.02)
    again = noisy(np.repeat([6e4, 4e4, 6e4, 4e4], [2_000, 5_000, 1_000, 2_000]), draw, 0.02)
    nearly = noisy(np.repeat([4.2e4, 4e4], [2_000, 8_000]), draw, 0.02)
    assert [comes_back(one, 100, 2_000) for one in (once, again, nearly)] == [False, True, False]
    assert not comes_back(once, 0, 3)


def test_few_queries_have_neither_levels_nor_blocks() -> None:
    """Otherwise twenty inferences would be divided by ten, and each pair would have a median."""
    draw = np.random.default_rng(1)
    few = noisy(np.full(99, 1e6), draw, 0.01)
    found = stability(few, starts(few), int(few.sum()))
    assert (found.block_p50_ns, found.block_range_ratio, found.levels) == ((), None, None)
    enough = noisy(np.full(MIN_SLICES * SLICE_SIZE, 1e6), draw, 0.01)
    assert len(stability(enough, starts(enough), int(enough.sum())).block_p50_ns) == 10


@pytest.mark.parametrize(("change", "seen"), [(0.04, 0.032), (-0.04, -0.032), (0.0, 0.0)])
def test_drift_is_that_from_the_first_to_the_last_fifth(change: float, seen: float) -> None:
    """Otherwise a set could not show a drift that its runs are too short to classify."""
    latency_ns = np.linspace(1_000_000, 1_000_000 * (1 + change), 1000).astype(np.int64)
    found = stability(latency_ns, starts(latency_ns), int(latency_ns.sum()))
    assert found.drift_ratio == pytest.approx(seen, abs=0.001)
    few = stability(latency_ns[:49], starts(latency_ns[:49]), int(latency_ns[:49].sum()))
    assert few.drift_ratio is None


def test_constant_latencies_are_one_level() -> None:
    """Otherwise a clock that stands still would cause a division by zero."""
    same = np.full(1000, 5, np.int64)
    found = stability(same, starts(same), int(same.sum()))
    assert (found.iqr_ratio, found.block_range_ratio, found.levels) == (0.0, 0.0, None)
    none = np.zeros(1000, np.int64)
    assert stability(none, np.arange(1000), 1000).levels is None


@pytest.mark.parametrize(("cycles", "has_interval"), [(5, False), (100, True)])
def test_percentile_of_a_level_that_was_seen_a_few_times_has_no_interval(
    cycles: int, has_interval: bool
) -> None:
    """Otherwise five stays on the slow level would be taken for a thousand independent queries."""
    draw = np.random.default_rng(5)
    latency_ns = noisy(np.tile(np.repeat([4e4, 8e4], [700, 300]), cycles), draw, 0.02)
    found = summarize(latency_ns)
    assert (found.p90_ci95 is not None) is has_interval
    assert rarer_level(latency_ns)[1] == cycles
    steady = noisy(np.full(latency_ns.size, 4e4), draw, 0.02)
    assert rarer_level(steady) == (0.0, 0)
    assert summarize(steady).p90_ci95 is not None


@pytest.mark.parametrize(("share", "count", "p50"), [(0.01, 6, True), (0.06, 6, False)])
def test_few_visits_to_a_level_may_have_been_many(share: float, count: int, p50: bool) -> None:
    """A level seen for 6 % of a run, in six stays, may well take 17 % of the next."""
    draw = np.random.default_rng(7)
    high = round(share * 1000)
    latency_ns = noisy(np.tile(np.repeat([4e4, 8e4], [1000 - high, high]), count), draw, 0.02)
    latency_ns = latency_ns.repeat(3)
    assert rarer_level(latency_ns)[1] == count
    assert (summarize(latency_ns).p50_ci95 is not None) is p50


def test_short_stays_on_a_level_are_visits() -> None:
    """Otherwise stays of 20 queries would not count as switching, and the median seem known."""
    draw = np.random.default_rng(9)
    levels = np.tile(np.repeat([4e4, 8e4], [100, 20]), 9)
    assert summarize(noisy(levels, draw, 0.03)).p50_ci95 is None


def test_share_of_a_level_has_the_known_limit() -> None:
    """F(0.975; 2, 2) is 39 and F(0.975; 4, 4) is 9.60."""
    assert share_limit(0.2, 1) == pytest.approx(39 / 43)
    assert share_limit(0.5, 2) == pytest.approx(9.6045 / 10.6045, rel=1e-4)
