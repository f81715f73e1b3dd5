"""Ratios in tables: with an interval between runs, or not at all."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace

import pytest
from support.changes import changed
from support.records import CREATED_UTC, latencies, run_record, traces_of, worker_record

from edgebench.host.analysis.compare.ratios import SetRatio, ratio_of_sets
from edgebench.host.analysis.run import analyse_run
from edgebench.host.analysis.run_set import find_set, find_sets
from edgebench.host.result.facts import Pair, SetMember
from edgebench.host.result.metrics import METRICS
from edgebench.host.result.run_set import RunSet
from edgebench.host.result.units import ABSENT
from edgebench.host.result.verdict import State, Verdict
from edgebench.host.show.ratios import ratio_lines, ratio_to_first, ratio_words, slower_int8_lines
from edgebench.protocol.spec import Scenario

RUN = analyse_run(
    run_record(worker_record(latencies())),
    traces_of(latencies()),
    created_utc=CREATED_UTC,
    clock=None,
)
FAST = (1000, 1005, 1010, 1015, 1020)
SLOW = tuple(2 * value for value in FAST)


def test_ratio_that_is_not_the_one_of_the_medians_is_told() -> None:
    """A ratio that differs from the ratio of the printed medians is explained.

    Otherwise 38.5 µs next to 8.11 µs would be called 5.25 times slower, and a reader would divide.
    """
    first = made((1000, 1001, 1002, 1003, 1004))
    assert ratio_lines([first, made(SLOW, name="n_fp32.tflite")]) == []
    two_levels = made((1000, 1001, 1002, 1300, 1301))
    scattered = made((2000, 2001, 2600, 2601, 2602), name="n_fp32.tflite")
    [line] = ratio_lines([two_levels, scattered])
    assert "the ratio of the medians is very different" in line


@pytest.mark.parametrize(
    ("times", "interval", "words"),
    [
        (2.0, (1.004, 4.0), "2.00× faster (just above 1× to 4.00×)"),
        (0.98, (0.02, 0.999), "1.02× slower (just above 1× to 50.0×)"),
        (1.04, (1.01, 9.0), "1.04× faster (1.01× to 9.00×)"),
        (123.4, (100.1, 1234.0), "123× faster (100× to 1234×)"),
        (30000.0, (12345.0, 54321.0), "30000× faster (12345× to 54321×)"),
        (2.77, (1.0, 10.0), "2.77× (1.00× to 10.0×)"),
        (2.75, (2.72, 2.79), "2.75× faster ±1.3 %"),
    ],
)
def test_wide_interval_is_a_range_with_both_bounds(
    times: float, interval: tuple[float, float], words: str
) -> None:
    """Otherwise a ratio of 1.02 would be ±2200 %, or a clear ratio have a range that includes 1."""
    assert ratio_words(SetRatio(METRICS["latency_ns.p50"], times, interval)) == words


def made(
    p50s_ns: Sequence[int],
    name: str = "m_fp32.tflite",
    precision: str = "fp32",
    changes: Mapping[str, object] | None = None,
    state: State = State.VALID,
) -> RunSet:
    """A set whose runs have these medians."""
    runs = [
        changed(
            RUN,
            {
                "run_id": f"20260102-030405-{number:08d}",
                "member": SetMember(f"set-{name}", number, len(p50s_ns)),
                "metrics.latency_ns.p50": p50,
                "metrics.end_to_end_ns.p50": p50,
                "metrics.latency_ns.p50_ci95": (p50 - 1, p50 + 1),
                "model.name": name,
                "model.precision": precision,
                "verdict": Verdict(state=state, rules=()),
                **(changes or {}),
            },
        )
        for number, p50 in enumerate(p50s_ns)
    ]
    return find_set(runs)


@pytest.mark.parametrize(
    ("other", "said"),
    [
        (SLOW, "2.00× slower ±1.2 %"),
        ([value // 4 for value in FAST], "4.00× faster ±1.3 %"),
        (FAST, "1.00× ±"),
    ],
)
def test_ratio_is_that_of_the_runs(other: Sequence[int], said: str) -> None:
    """Otherwise the sides would be swapped, or a difference be claimed that does not exist."""
    cell = ratio_to_first([made(FAST), made(other)], made(other))
    assert cell.startswith(said[:8]), cell
    assert re.fullmatch(r"[\d.]+× (faster |slower )?±[\d.]+ %", cell)
    assert ("er" in cell) == ("er" in said)


def test_ratio_lies_in_its_interval() -> None:
    """Otherwise the interval would be that of the other direction."""
    found = ratio_of_sets(made(FAST), made(SLOW))
    assert found is not None
    assert found.interval[0] < found.times < found.interval[1]
    assert found.times == pytest.approx(0.5, rel=0.01)
    swapped = ratio_of_sets(made(SLOW), made(FAST))
    assert swapped is not None
    assert swapped.times == pytest.approx(1 / found.times)
    assert swapped.interval == pytest.approx((1 / found.interval[1], 1 / found.interval[0]))


@pytest.mark.parametrize(
    ("p50s_ns", "changes", "state"),
    [
        (FAST, {}, State.INVALID),
        (FAST[:2], {}, State.VALID),
        (FAST, {"simulated": True}, State.VALID),
        (FAST, {"spec.scenario": Scenario.OFFLINE}, State.VALID),
    ],
    ids=["invalid", "two runs", "simulated", "another scenario"],
)
def test_no_ratio_without_an_interval(
    p50s_ns: Sequence[int], changes: Mapping[str, object], state: State
) -> None:
    """Otherwise an unreliable factor would be shown."""
    first, other = made(p50s_ns), made(p50s_ns, changes=changes, state=state)
    assert ratio_of_sets(first, other) is None
    assert ratio_to_first([first, other], other) == ABSENT


def test_first_set_has_no_ratio_to_itself() -> None:
    """Otherwise the first row would be compared with itself."""
    one = made(FAST)
    assert ratio_to_first([one, made(SLOW)], one) == ABSENT


def test_int8_model_slower_than_its_sibling_gives_a_warning() -> None:
    """Otherwise a slower quantised model would be shipped without a warning."""
    sibling, quantized = made(FAST), made(SLOW, "m_int8.tflite", "int8")
    [line] = slower_int8_lines([quantized, sibling])
    assert line.startswith("warning: m_int8.tflite is 2.0")
    assert "slower ±" in line
    assert " than m_fp32.tflite on " in line
    assert slower_int8_lines([sibling]) == []


@pytest.mark.parametrize(
    ("sibling_ns", "p50s_ns", "name", "changes"),
    [
        (SLOW, FAST, "m_int8.tflite", {}),
        (FAST, SLOW, "other_int8.tflite", {}),
        (FAST, SLOW, "m_int8.tflite", {"runtime.name": "litert"}),
        (FAST, SLOW, "m_int8.tflite", {"spec.threads": 4}),
        (FAST, FAST, "m_int8.tflite", {}),
    ],
    ids=["faster", "another model", "another runtime", "threads", "no clear difference"],
)
def test_no_warning_where_it_would_be_wrong(
    sibling_ns: Sequence[int], p50s_ns: Sequence[int], name: str, changes: Mapping[str, object]
) -> None:
    """Otherwise two unrelated models would cause a warning."""
    assert slower_int8_lines([made(sibling_ns), made(p50s_ns, name, "int8", changes)]) == []


def test_sides_of_a_comparison_in_pairs_have_the_paired_ratio() -> None:
    """Otherwise the table and the comparison would show two ratios of the same runs."""
    drift = [1000 + 30 * number for number in range(8)]
    sides: list[RunSet] = []
    for side, factor in (("baseline", 1.0), ("candidate", 1.25)):
        runs = made([round(factor * p50) for p50 in drift]).runs
        sides += find_sets(
            replace(run, run_id=f"{side}-{number}", member=None, pair=Pair("pairs-1", number, side))
            for number, run in enumerate(runs)
        )
    found = ratio_of_sets(*sides)
    assert found is not None
    assert 1 / found.times == pytest.approx(1.25, rel=1e-3)
    assert found.interval[1] / found.interval[0] < 1.01, "the drift of both cancels"
    swapped = ratio_of_sets(*sides[::-1])
    assert swapped is not None
    assert swapped.times == pytest.approx(1.25, rel=1e-3)
