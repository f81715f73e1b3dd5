"""Comparisons: known corrections and effects, symmetries, and the rules of the outcome."""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from support.tools import ROOT_OF_CHECKOUT, need_shared

from edgebench.host.analysis.compare.comparison import (
    ComparisonOutcome,
    Design,
    Rules,
    compare,
    compare_many,
    holm,
    minimum_detectable_effect,
    needed_run_count,
)
from edgebench.host.analysis.compare.ranks import RANK_SUM_LOSS, WINSORISED_LOSS
from edgebench.host.analysis.median import min_pair_count
from edgebench.host.result.metrics import Better
from edgebench.protocol.errors import MeasurementError, UsageError

Floats = NDArray[np.float64]
PAIRED = Rules(margin_ratio=0.03)
TESTED = (Design.PAIRED, Design.INDEPENDENT)
"""Designs whose runs scatter."""
DESIGNS = st.sampled_from(TESTED)
runs = st.lists(st.floats(1e3, 1e9), min_size=6, max_size=14)


def known(name: str) -> Any:
    """Return known answers that were computed elsewhere."""
    return json.loads(need_shared("known_answers/measurement.json").read_text())[name]


def sides(
    change: float, *, noise: float = 0.005, pairs: int = 10, seed: int = 0
) -> tuple[Floats, Floats]:
    """Return runs of a 100 µs baseline, and of a candidate that takes `change` times as long."""
    draw = np.random.default_rng(seed)
    both = 1e5 * np.exp(noise * draw.standard_normal((2, pairs)))
    return both[0], both[1] * change


def test_advised_pairs_are_enough() -> None:
    """Otherwise the advice after an interruption would end undecided again."""
    for count in range(1, 40):
        assert min_pair_count(count) == needed_run_count(Design.PAIRED, count)


def test_documented_numbers_of_runs_are_those_needed() -> None:
    """Otherwise docs/comparing.md would state fewer runs than a significant change takes."""
    assert [needed_run_count(Design.PAIRED, count) for count in (1, 2, 12)] == [6, 7, 9]
    assert [needed_run_count(Design.INDEPENDENT, count) for count in (1, 2)] == [4, 5]
    page = " ".join((ROOT_OF_CHECKOUT / "docs/comparing.md").read_text("utf-8").split())
    assert "at least six pairs (seven for two comparisons in one command, nine for twelve)" in page
    assert "four independent runs per side (five for two comparisons in one command)" in page


def test_corrections_are_the_known_ones() -> None:
    """Otherwise a hundred comparisons would find five regressions where there are none."""
    row = known("multiple_comparisons")
    assert holm(row["p"]) == pytest.approx(row["holm"])
    assert sum(p < 0.05 for p in holm(row["p"])) == row["reject_at_5pct"]["holm"]
    assert holm([0.04]) == [0.04]
    assert holm([]) == []


@pytest.mark.parametrize(
    ("p_values", "adjusted"),
    [
        ([0.04, 0.01, 0.03], [0.06, 0.03, 0.06]),  # by hand: 3 · 0.01, 2 · 0.03, not less
        ([0.02, 0.02, 0.02, 0.5], [0.08, 0.08, 0.08, 0.5]),
        ([1.0, 0.5, 0.6], [1.0, 1.0, 1.0]),
        ([0.0, 1.0], [0.0, 1.0]),
    ],
)
def test_correction_keeps_the_order_and_is_a_probability(
    p_values: list[float], adjusted: list[float]
) -> None:
    """Otherwise a metric would get the p value of another metric, or a p value above 1."""
    assert holm(p_values) == pytest.approx(adjusted)


def test_detectable_effects_are_the_known_ones() -> None:
    """Otherwise “no change” would be printed by a design that could not have detected a change."""
    row = known("power_mde")
    for name, effect in row["mde_for_n"].items():
        spread, count = (float(part.lstrip("cvn")) for part in name.split("_"))
        found = minimum_detectable_effect(spread, (int(count), int(count)))
        assert found == pytest.approx(effect, rel=1e-4)
    for name, count in row["n_per_arm"].items():
        spread, delta = (float(part.lstrip("cvdelta")) for part in name.split("_"))
        assert minimum_detectable_effect(spread, (count, count)) <= delta
        if count > 1:
            assert minimum_detectable_effect(spread, (count - 1, count - 1)) > delta


@pytest.mark.parametrize("instrument", [0.0, 0.004, 0.02])
@pytest.mark.parametrize("design", TESTED)
def test_detectable_change_is_detected_with_the_promised_power(
    design: Design, instrument: float
) -> None:
    """Otherwise the printed minimum would be optimistic: half of such changes would pass."""
    draw = np.random.default_rng(3)
    spread, count = 0.01, 12
    is_paired = design is Design.PAIRED
    loss = WINSORISED_LOSS if is_paired else RANK_SUM_LOSS
    truth = minimum_detectable_effect(
        loss * (spread * math.sqrt(2) if is_paired else spread),
        (count, None if is_paired else count),
        freedom=count - 1 if is_paired else 2 * count - 2,
        instrument=instrument,
    )
    rules = Rules(design=design, instrument_ratio=instrument)
    found = []
    for _ in range(400):
        logs = spread * draw.standard_normal((2, count))
        off = instrument * draw.standard_normal()  # the same for all runs of a comparison
        found.append(compare(np.exp(logs[0]), np.exp(logs[1] + truth + off), rules))
    worse = sum(one.outcome is ComparisonOutcome.WORSE for one in found)
    assert 0.75 <= worse / 400 <= 0.88
    printed = [one.minimum_detectable_ratio for one in found]
    assert np.median([value for value in printed if value]) == pytest.approx(truth, rel=0.05)


@pytest.mark.slow
@pytest.mark.parametrize("design", TESTED)
def test_same_runs_alarm_as_often_as_alpha_says(design: Design) -> None:
    """Otherwise a gate would fail one build in ten although nothing changed."""
    draw = np.random.default_rng(4)
    values = np.exp(0.02 * draw.standard_normal((1000, 2, 10)))
    rules = Rules(design=design)
    outcomes = [compare(a, b, rules).outcome for a, b in values]
    alarms = sum(outcome is not ComparisonOutcome.INCONCLUSIVE for outcome in outcomes)
    assert 25 <= alarms <= 68  # binomial(1000, 0.037…0.05), 99 %


OUTCOMES = [
    ("much slower", 1.10, Rules(margin_ratio=0.03), ComparisonOutcome.WORSE),
    ("slower without a margin", 1.02, Rules(), ComparisonOutcome.WORSE),
    ("slower, below the margin", 1.01, Rules(margin_ratio=0.03), ComparisonOutcome.EQUIVALENT),
    ("the same", 1.0, Rules(margin_ratio=0.03), ComparisonOutcome.EQUIVALENT),
    ("the same without a margin", 1.0, Rules(), ComparisonOutcome.INCONCLUSIVE),
    ("faster", 0.90, Rules(margin_ratio=0.03), ComparisonOutcome.BETTER),
    ("more per second", 1.10, Rules(better=Better.HIGHER), ComparisonOutcome.BETTER),
    ("less per second", 0.90, Rules(better=Better.HIGHER), ComparisonOutcome.WORSE),
]


@pytest.mark.parametrize("design", TESTED)
@pytest.mark.parametrize(
    ("change", "rules", "outcome"),
    [case[1:] for case in OUTCOMES],
    ids=[case[0] for case in OUTCOMES],
)
def test_outcome_follows_its_rule(
    change: float, rules: Rules, outcome: ComparisonOutcome, design: Design
) -> None:
    """Otherwise a regression would pass, or an improvement would break the build."""
    rules = Rules(design, rules.better, rules.alpha, rules.margin_ratio)
    found = compare(*sides(change), rules)
    assert found.outcome is outcome, found
    assert found.reason
    assert found.ratio == pytest.approx(change, rel=0.01)
    assert found.shift == pytest.approx(1e5 * (change - 1), abs=1000)


def test_noise_wider_than_the_margin_is_inconclusive() -> None:
    """Otherwise a change that was not found would be reported as no change."""
    found = compare(*sides(1.0, noise=0.1), PAIRED)
    assert found.outcome is ComparisonOutcome.INCONCLUSIVE
    assert "chance" in found.reason
    assert found.minimum_detectable_ratio is not None
    assert found.minimum_detectable_ratio > 0.03


@pytest.mark.parametrize("change", [1.01, 1 / 1.01])
def test_change_within_the_meter_is_not_called_chance(change: float) -> None:
    """Otherwise “may be chance: p 0.002, limit 0.05” would cause more runs, to no effect."""
    values = sides(change, noise=0.0005)
    assert compare(*values, Rules(margin_ratio=0.005)).outcome is not ComparisonOutcome.INCONCLUSIVE
    found = compare(*values, Rules(margin_ratio=0.005, instrument_ratio=0.01))
    assert found.outcome is ComparisonOutcome.INCONCLUSIVE
    assert found.p_adjusted < 0.05
    assert found.reason == (
        f"the change, {100 * (max(found.ratio, 1 / found.ratio) - 1):.2f} %, is within the "
        "combined error of meter and chance, 2.02 %"
    )
    noisy = compare(*sides(1.0, noise=0.01), Rules(instrument_ratio=0.01))
    assert noisy.reason.startswith("the change may be chance: p ")


def test_detectable_change_is_not_less_than_the_meter_may_be_off_by() -> None:
    """Otherwise quiet runs would promise to find 0.1 % with a meter whose own errors are 2 %."""
    for design in TESTED:
        found = compare(*sides(1.0, noise=1e-6), Rules(design, instrument_ratio=0.01))
        assert found.minimum_detectable_ratio is not None
        assert 0.028 < found.minimum_detectable_ratio < 0.031


def test_change_that_may_exceed_the_margin_is_inconclusive() -> None:
    """Otherwise a significant slow-down of about the margin would be called harmless."""
    baseline = np.full(10, 100.0)
    candidate = 100 * (1 + np.linspace(0.005, 0.05, 10))
    found = compare(baseline, candidate, PAIRED)
    assert found.outcome is ComparisonOutcome.INCONCLUSIVE
    assert found.p_value < 0.05
    assert "3.00 %" in found.reason


@pytest.mark.parametrize(
    ("design", "count", "can_fire"),
    [
        *[(Design.PAIRED, 5, False), (Design.PAIRED, 6, True)],
        *[(Design.INDEPENDENT, 3, False), (Design.INDEPENDENT, 4, True)],
        *[(Design.PAIRED, 1, False), (Design.INDEPENDENT, 1, False)],
    ],
)
def test_gate_that_cannot_fire_says_so(design: Design, count: int, can_fire: bool) -> None:
    """Otherwise five pairs would always pass, and the build would be green for ever."""
    draw = np.random.default_rng(1)
    baseline = 100 + draw.random(count)
    found = compare(baseline, baseline * 2, Rules(design, margin_ratio=0.03))
    if can_fire:
        assert found.outcome is ComparisonOutcome.WORSE
    else:
        assert found.outcome is ComparisonOutcome.INCONCLUSIVE
        needed = "6 pairs" if design is Design.PAIRED else "4 runs per side"
        assert found.reason.endswith(f"limit 0.05; {needed} are enough")
        assert found.smallest_p >= 0.05


def test_fewer_runs_may_be_enough_beside_more_of_the_other_side() -> None:
    """Checks why the reason states a number that is enough, and not the least one."""
    slow, fast = np.array([200.0, 201, 202]), np.array([100.0, 101, 102, 103, 104])
    rules = Rules(Design.INDEPENDENT)
    assert compare(slow, fast[:3], rules).needed_count == 4
    assert compare(slow, fast, rules).outcome is ComparisonOutcome.BETTER


def test_gate_that_cannot_fire_among_many_says_so() -> None:
    """Otherwise each of ten gates could fire alone, but none of them after the correction."""
    many = {str(i): sides(1.5, pairs=6, seed=i) for i in range(10)}
    found = compare_many(many, PAIRED)
    assert list(found) == list(many)
    assert all("too few runs" in one.reason for one in found.values())
    assert compare(*many["0"], PAIRED).outcome is ComparisonOutcome.WORSE


def test_many_comparisons_need_stronger_evidence() -> None:
    """Otherwise twenty gates at once would raise twenty times the alarms."""
    draw = np.random.default_rng(8)
    values = np.exp(0.01 * draw.standard_normal((15, 20, 2, 10)))
    alarms = 0
    for build in values:
        found = compare_many({str(i): (a, b) for i, (a, b) in enumerate(build)})
        alarms += any(one.outcome is not ComparisonOutcome.INCONCLUSIVE for one in found.values())
        assert all(one.p_adjusted >= one.p_value for one in found.values())
    assert alarms <= 3  # binomial(15, 0.05), 99 %; without a correction 10 of 15


@settings(max_examples=60, deadline=None)
@given(runs, runs, st.floats(1e-3, 1e3), DESIGNS)
def test_unit_does_not_matter(a: list[float], b: list[float], unit: float, design: Design) -> None:
    """Otherwise microseconds would have another verdict than nanoseconds."""
    count = min(len(a), len(b))
    baseline, candidate = np.array(a[:count]), np.array(b[:count])
    rules = Rules(design, margin_ratio=0.05)
    one, other = (
        compare(baseline, candidate, rules),
        compare(baseline * unit, candidate * unit, rules),
    )
    assert other.ratio == pytest.approx(one.ratio)
    assert other.shift == pytest.approx(one.shift * unit, rel=1e-6, abs=1e-6 * unit)
    assert other.p_value == pytest.approx(one.p_value, rel=0.2)  # rounding may break a tie


@settings(max_examples=60, deadline=None)
@given(runs, runs, DESIGNS)
def test_swapped_sides_give_the_inverse(a: list[float], b: list[float], design: Design) -> None:
    """Otherwise the choice of the baseline would decide whether there is a change."""
    count = min(len(a), len(b))
    baseline, candidate = np.array(a[:count]), np.array(b[:count])
    rules = Rules(design, margin_ratio=0.05)
    one, other = compare(baseline, candidate, rules), compare(candidate, baseline, rules)
    assert other.ratio == pytest.approx(1 / one.ratio)
    assert other.p_value == pytest.approx(one.p_value)
    assert other.superiority == pytest.approx(1 - one.superiority)
    assert other.cliffs_delta == pytest.approx(-one.cliffs_delta)
    assert one.ratio_interval is not None
    assert other.ratio_interval == pytest.approx(
        (1 / one.ratio_interval[1], 1 / one.ratio_interval[0])
    )
    is_equivalent = one.outcome is ComparisonOutcome.EQUIVALENT
    assert (other.outcome is ComparisonOutcome.EQUIVALENT) == is_equivalent


@settings(max_examples=60, deadline=None)
@given(runs, st.randoms(use_true_random=False))
def test_order_of_pairs_does_not_matter(values: list[float], random: Any) -> None:
    """Otherwise the result would depend on which pair was measured first."""
    baseline = np.array(values)
    candidate = baseline[::-1] * 1.01
    order = list(range(len(values)))
    random.shuffle(order)
    one, other = compare(baseline, candidate), compare(baseline[order], candidate[order])
    assert other.ratio == pytest.approx(one.ratio)
    assert other.p_value == pytest.approx(one.p_value)


def test_identical_runs_are_equivalent() -> None:
    """Otherwise a simulated device without any noise would cause a division by zero."""
    same = np.full(10, 5.0)
    for design in Design:
        found = compare(same, same, Rules(design, margin_ratio=0.01))
        assert found.outcome is ComparisonOutcome.EQUIVALENT
        assert (found.ratio, found.p_value, found.minimum_detectable_ratio) == (1.0, 1.0, 0.0)
        assert found.cliffs_delta == 0.0


EXACT = Rules(Design.EXACT, resolution_ratio=2e-5)


@pytest.mark.parametrize(
    ("candidate", "margin_ratio", "outcome"),
    [
        (1.001, None, ComparisonOutcome.WORSE),
        (1.02, None, ComparisonOutcome.WORSE),
        (0.999, None, ComparisonOutcome.BETTER),
        (1.0, None, ComparisonOutcome.EQUIVALENT),
        (1 + 1e-5, None, ComparisonOutcome.EQUIVALENT),
        (1.02, 0.03, ComparisonOutcome.EQUIVALENT),
        (1.04, 0.03, ComparisonOutcome.WORSE),
        (1.03 - 1e-5, 0.03, ComparisonOutcome.INCONCLUSIVE),
    ],
)
def test_count_that_does_not_scatter_is_judged_by_one_run_a_side(
    candidate: float, margin_ratio: float | None, outcome: ComparisonOutcome
) -> None:
    """Otherwise a kernel with a thousandth more instructions would need six pairs, or pass."""
    rules = Rules(Design.EXACT, margin_ratio=margin_ratio, resolution_ratio=2e-5)
    found = compare(np.array([12.7e6]), np.array([12.7e6 * candidate]), rules)
    assert found.outcome is outcome, found.reason
    assert found.ratio == pytest.approx(candidate)
    assert found.ratio_interval is not None
    assert found.ratio_interval[0] < candidate < found.ratio_interval[1]


def test_count_that_does_scatter_decides_nothing() -> None:
    """Otherwise an emulator that follows the clock of a busy machine would be an exact counter."""
    found = compare(np.array([1e6, 1.1e6]), np.array([2e6]), EXACT)
    assert found.outcome is ComparisonOutcome.INCONCLUSIVE
    assert "should be equal in all runs" in found.reason


def test_exact_counts_cost_tested_metrics_nothing() -> None:
    """Otherwise a metric that needs no test would make the others less likely to be significant."""
    values = sides(1.02)
    alone = compare(*values, PAIRED)
    both = compare_many(
        {"count": (np.array([5.0]), np.array([6.0])), "latency": values},
        {"count": EXACT, "latency": PAIRED},
    )
    assert list(both) == ["count", "latency"]
    assert both["latency"].p_adjusted == alone.p_adjusted


WRONG = [
    ([], [], "no run"),
    ([1.0, math.nan], [1.0, 2.0], "nan"),
    ([1.0, 2.0], [1.0, math.inf], "inf"),
    ([1.0, 0.0], [1.0, 2.0], "0.0"),
    ([1.0, -3.0], [1.0, 2.0], "-3.0"),
    ([1.0, 2.0, 3.0], [1.0, 2.0], "3 baseline runs cannot be paired with 2"),
]


@pytest.mark.parametrize(("baseline", "candidate", "text"), WRONG)
def test_values_that_cannot_be_are_refused(
    baseline: list[float], candidate: list[float], text: str
) -> None:
    """Otherwise a failed run with a latency of zero would make everything infinitely slower."""
    with pytest.raises(MeasurementError, match=text):
        compare(np.array(baseline), np.array(candidate))
    with pytest.raises(MeasurementError, match=r"gpu: |cannot be paired"):
        compare_many({"gpu": (np.array(baseline), np.array(candidate))})


@pytest.mark.parametrize(
    "rules", [{"alpha": 0.0}, {"alpha": 5.0}, {"margin_ratio": 0.0}, {"margin_ratio": -1.0}]
)
def test_rules_that_make_no_sense_are_refused(rules: dict[str, Any]) -> None:
    """Otherwise five percent could be given as 5."""
    with pytest.raises(UsageError, match=r"alpha|margin"):
        Rules(**rules)
