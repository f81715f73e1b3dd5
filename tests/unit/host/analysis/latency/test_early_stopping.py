"""Early stopping: the published tables, the load generator itself, and what must always hold."""

from __future__ import annotations

import json
import math
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.tools import need_shared, skip_or_fail

from edgebench.host.analysis.latency.early_stopping import (
    DOUBT,
    allowed_over_latency_count,
    estimate,
    min_query_count,
    min_under_latency_count,
    server_passes,
)
from edgebench.protocol.errors import UsageError

PERCENTILES = (0.5, 0.9, 0.95, 0.97, 0.99, 0.999)
ROWS = (
    *[(0.9, n) for n in (63, 64, 65, 80, 100, 200, 500, 661, 662, 1000, 1024, 2000)],
    *[(0.99, n) for n in (661, 662, 1000, 2000)],
    *[(0.95, n) for n in (130, 131, 132, 1000)],
    *[(0.5, n) for n in (10, 11, 12, 100)],
)
"""Where the load generator is queried: on both sides of each limit, and at usual sizes."""
SERVER_ROWS = (
    *[(0.9, 43, 10**9), (0.9, 44, 10**9), (0.99, 458, 10**9), (0.99, 459, 10**9)],
    *[(0.5, 100, 0), (0.9, 200, 1500), (0.5, 300, 3000)],
)
"""Percentile, queries, limit in nanoseconds: none late, all late, and some of them."""


def known() -> Any:
    """Return known answers that were computed elsewhere."""
    return json.loads(need_shared("known_answers/measurement.json").read_text())["early_stopping"]


def test_counts_are_the_known_ones() -> None:
    """Otherwise a run one query too short would get an estimate, or a long enough run would not."""
    for p, row in known()["min_queries_for_t"].items():
        for slow, queries in row.items():
            assert min_under_latency_count(int(slow), float(p)) + int(slow) == queries, (p, slow)
        assert min_query_count(float(p)) == row["1"]


def test_allowed_counts_are_the_known_ones() -> None:
    """Otherwise the wrong order statistic would be reported."""
    rows = known()["allowed_t_for_n"]
    assert set(map(float, rows)) == set(PERCENTILES)
    for p, row in rows.items():
        for queries, slow in row.items():
            assert allowed_over_latency_count(int(queries), float(p)) == slow, (p, queries)


def test_ladder_gives_the_known_estimates() -> None:
    """Otherwise the right rank would be taken from the wrong end, or be off by one."""
    for count, row in known()["ladder_1000_2000_..._n_x1000_ns"].items():
        ordered = np.arange(1, int(count) + 1, dtype=np.int64) * 1000
        assert estimate(ordered, 0.90) == row["es90"]
        assert estimate(ordered, 0.99) == row["es99"]


def test_estimate_is_as_pessimistic_as_is_known() -> None:
    """Otherwise it would be unknown which percentile a short run reports."""
    for name, percent in known()["effective_percentile_of_estimate"].items():
        p, count = (float(part.lstrip("pn")) for part in name.split("_"))
        slow = allowed_over_latency_count(int(count), p)
        assert slow is not None
        assert 100 * (1 - slow / count) == pytest.approx(percent, abs=1e-3)


def test_recorded_answers_of_the_load_generator_are_ours() -> None:
    """Otherwise only the tables would agree, not the program behind the published results."""
    rows = known()["oracle_loadgen"]
    assert {(row["p"], row["n"]) for row in rows} == set(ROWS)
    for row in rows:
        assert allowed_over_latency_count(row["n"], row["p"]) == row["loadgen_t"], row


def ask_loadgen(folder: Path, scenario: str, p: float, count: int, target_ns: int) -> Any:
    """Return what the load generator reports of a run of so many queries."""
    folder.mkdir()
    script = Path(__file__).parents[4] / "support" / "loadgen_run.py"
    words = [scenario, repr(p), str(count), str(target_ns), str(folder)]
    done = subprocess.run(
        [sys.executable, script, *words], check=True, capture_output=True, timeout=60
    )
    return json.loads(done.stdout)


def need_loadgen() -> None:
    """Skip or fail unless MLPerf's load generator is installed."""
    if find_spec("mlperf_loadgen") is None:
        skip_or_fail("mlcommons-loadgen is not installed")


def test_load_generator_reports_our_estimates_of_its_own_latencies(tmp_path: Path) -> None:
    """Otherwise a result called MLPerf's estimate would be another number than MLPerf's."""
    need_loadgen()
    assert len(set(ROWS)) == 24

    def ask(row: tuple[float, int]) -> Any:
        return ask_loadgen(tmp_path / f"{row[0]}-{row[1]}", "SingleStream", *row, 0)

    with ThreadPoolExecutor(2) as pool:
        answers = list(pool.map(ask, ROWS))
    for (p, count), answer in zip(ROWS, answers, strict=True):
        ordered = np.sort(np.array(answer["latency_ns"], np.int64))
        assert ordered.size == count
        ours = estimate(ordered, p)
        assert answer["met"] == (ours is not None), (p, count)
        if ours is None:
            assert f"at least {min_query_count(p)} queries" in answer["text"]
            continue
        discarded = re.search(r"discard (\d+) highest", answer["text"])
        assert discarded
        assert int(discarded[1]) + 1 == allowed_over_latency_count(count, p), (p, count)
        assert answer["estimate_ns"] == ours, (p, count)
        assert answer["estimate_ns_p99"] == (estimate(ordered, 0.99) or 0), (p, count)


def test_load_generator_passes_the_servers_that_we_pass(tmp_path: Path) -> None:
    """Otherwise a server that is too often late would be called good, or the other way round."""
    need_loadgen()
    for p, count, target_ns in SERVER_ROWS:
        folder = tmp_path / f"{p}-{count}-{target_ns}"
        answer = ask_loadgen(folder, "Server", p, count, target_ns)
        assert len(answer["latency_ns"]) == count
        late_count = sum(latency_ns > target_ns for latency_ns in answer["latency_ns"])
        assert answer["met"] == server_passes(count, late_count, p), (p, count, late_count)


def exact_odds(fast: int, slow: int, p: Fraction) -> Fraction:
    """Return P[Bin(fast + slow, 1 - p) <= slow], in exact arithmetic."""
    count = fast + slow
    return sum(
        (math.comb(count, k) * (1 - p) ** k * p ** (count - k) for k in range(slow + 1)),
        Fraction(0),
    )


@settings(max_examples=60)
@given(slow=st.integers(0, 12), percent=st.integers(20, 95))
def test_smallest_count_is_the_smallest_in_exact_arithmetic(slow: int, percent: int) -> None:
    """Otherwise rounding at the limit would let one query too few pass."""
    p = Fraction(percent, 100)
    fast = min_under_latency_count(slow, float(p))
    assert exact_odds(fast, slow, p) < Fraction(DOUBT)
    assert fast == 1 or exact_odds(fast - 1, slow, p) >= Fraction(DOUBT)


@given(count=st.integers(1, 5_000_000), p=st.sampled_from(PERCENTILES))
def test_allowed_count_is_the_largest_that_passes(count: int, p: float) -> None:
    """Otherwise the bisection would stop next to its limit, where no table has a row."""
    slow = allowed_over_latency_count(count, p)
    if slow is None:
        assert count < min_query_count(p)
        return
    assert count >= min_query_count(p)
    assert server_passes(count, slow, p)
    assert not server_passes(count, slow + 1, p)


@given(count=st.integers(64, 1_000_000))
def test_estimate_is_never_below_the_percentile(count: int) -> None:
    """Otherwise a short run would report a better number than a long run."""
    slow = allowed_over_latency_count(count, 0.9)
    assert slow is not None
    assert count - slow >= int(count * 0.9)
    longer = allowed_over_latency_count(count + 1, 0.9)
    assert longer in (slow, slow + 1)


@pytest.mark.parametrize("p", [0.0, 1.0, -0.1, 99.0, math.nan])
def test_percentile_outside_of_its_range_is_refused(p: float) -> None:
    """Otherwise a percentile given in percent would loop for ever."""
    for call in (min_query_count, lambda p: server_passes(9, 1, p)):
        with pytest.raises(UsageError, match="percentile"):
            call(p)
    with pytest.raises(UsageError, match="percentile"):
        estimate(np.arange(100), p)


def test_impossible_counts_are_refused() -> None:
    """Otherwise more late queries than queries would pass as a run."""
    with pytest.raises(UsageError, match="11 late queries of 10"):
        server_passes(10, 11, 0.9)
    with pytest.raises(UsageError, match="negative"):
        min_under_latency_count(-1, 0.9)


def test_nothing_measured_has_no_estimate() -> None:
    """Otherwise an empty run would cause an index error."""
    assert estimate(np.array([], np.int64), 0.9) is None
    assert estimate(np.array([1], np.int64), 0.001) is None
    assert not server_passes(0, 0, 0.9)
