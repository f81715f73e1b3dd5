"""Stored runs side by side: pairs stay pairs, and what cannot be compared is refused."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
from support.changes import changed
from support.records import CREATED_UTC, latencies, run_record, traces_of, worker_record

from edgebench.host.analysis.compare.comparison import ComparisonOutcome, Design
from edgebench.host.analysis.compare.runs import (
    LeftOut,
    compare_groups,
    compare_pairs,
    split_sides,
    with_planned_pairs,
)
from edgebench.host.analysis.run import analyse_run
from edgebench.host.result.facts import Pair, Replacement, SetMember
from edgebench.host.result.run import Failure, Run
from edgebench.host.result.settings import Setting, SettingState
from edgebench.host.result.verdict import Finding, RuleOutcome, State, Verdict
from edgebench.host.show.comparisons import comparison_lines
from edgebench.protocol.errors import MeasurementError, NoSecondSide, UsageError
from edgebench.protocol.record import Outcome

GOOD = analyse_run(
    run_record(worker_record(latencies())),
    traces_of(latencies()),
    created_utc=CREATED_UTC,
    clock=None,
)


def run(p50: float, number: int, side: str | None = None, **metrics: object) -> Run:
    """Return a run with this median."""
    made = changed(
        GOOD,
        {"run_id": f"{side or 'run'}-{number}", "metrics.latency_ns.p50": p50}
        | {f"metrics.{name}": value for name, value in metrics.items()},
    )
    if side is None:
        return made
    model = {"model.sha256": side, "model.name": f"{side}.tflite"}
    return changed(made, {"pair": Pair("c", number, side), **model})


def campaign(ratio: float, count: int = 10) -> tuple[list[Run], list[Run]]:
    """Return pairs, in any order, of a device that slows down by 30 % meanwhile."""
    chance = random.Random(1)
    before, after = [], []
    for number in range(count):
        level = 1000 * (1 + 0.3 * number / count)
        before.append(run(level * chance.uniform(0.999, 1.001), number, "baseline"))
        after.append(run(level * ratio * chance.uniform(0.999, 1.001), number, "candidate"))
    chance.shuffle(before)
    chance.shuffle(after)
    return before, after


@pytest.mark.parametrize(
    ("ratio", "outcome"),
    [
        (1.05, ComparisonOutcome.WORSE),
        (0.95, ComparisonOutcome.BETTER),
        (1.0, ComparisonOutcome.EQUIVALENT),
    ],
)
def test_pairs_are_found_again_whatever_their_order(
    ratio: float, outcome: ComparisonOutcome
) -> None:
    """Otherwise pairs would be torn apart, and the drift of a campaign would hide the change."""
    (found,) = compare_groups([campaign(ratio)])
    assert found.result.rules.design is Design.PAIRED
    assert found.result.ratio == pytest.approx(ratio, rel=2e-3)
    assert found.result.outcome is outcome
    numbers = [int(name.split("-")[1]) for name in found.baseline_runs]
    assert numbers == [int(name.split("-")[1]) for name in found.candidate_runs]
    assert (found.baseline, found.candidate) == ("baseline.tflite", "candidate.tflite")


def test_runs_that_were_not_made_as_pairs_are_independent() -> None:
    """Otherwise runs of two days would be paired by the order in which they were typed."""
    sides = [run(100 + i, i) for i in range(8)], [run(100 + i, i + 10) for i in range(8)]
    (found,) = compare_groups([sides])
    assert found.result.rules.design is Design.INDEPENDENT


def test_pairs_of_which_one_is_missing_are_independent_or_left_out() -> None:
    """Otherwise the partner of a failed run would be paired with a run of another pair."""
    before, after = campaign(1.0)
    (found,) = compare_groups([(before, after[:-1])])
    assert found.result.rules.design is Design.INDEPENDENT
    kept = split_sides([*before, *after[:-1]])
    assert len(kept[0]) == len(kept[1]) == 9
    (found,) = compare_groups([kept])
    assert found.result.rules.design is Design.PAIRED


def test_pairs_alone_are_compared_as_by_sides_and_say_what_is_left_out() -> None:
    """Otherwise a pair without one of its runs would be dropped silently."""
    before, after = campaign(1.05)
    (whole,) = compare_pairs([*after, *before])
    (by_sides,) = compare_groups([(before, after)])
    assert replace(whole, comparison_id=None) == by_sides
    assert (whole.comparison_id, whole.left_out_count) == ("c", 0)
    (left,) = compare_pairs([*before, *after[:-2]])
    assert (left.left_out_count, left.result.baseline_count) == (2, 8)
    assert left.left_out == {LeftOut.MISSING: 2}


def test_pairs_are_left_out_by_reason() -> None:
    """Otherwise an interruption would be described as a run that failed, or is invalid."""
    before, after = campaign(1.05)
    for number, why in ((0, None), (1, "the CPU had 91 °C")):
        facts = {"ended": Outcome.INTERRUPTED.value, "why": why}
        finding = Finding(
            id="complete", outcome=RuleOutcome.FAIL, severity=State.INVALID, facts=facts
        )
        after[number] = replace(
            after[number], verdict=Verdict(state=State.INVALID, rules=(finding,))
        )
    failure = Failure(code="worker_died", message="the worker ended")
    after[2] = replace(after[2], failure=failure, verdict=Verdict(state=State.INVALID, rules=()))
    (found,) = compare_pairs([*before, *after[:-1]])
    early = replace(after[2], failure=replace(failure, code="run_stopped"))
    (stopped,) = compare_pairs([*before, *after[:2], early, *after[3:-1]])
    assert LeftOut.FAILED not in stopped.left_out, "a run that was stopped before its loop"
    made = {reason: 1 for reason in LeftOut if reason not in (LeftOut.NOT_MADE, LeftOut.NO_ENERGY)}
    assert (found.left_out, found.left_out_count) == (made, 4)
    planned = with_planned_pairs(found, 13)
    assert (planned.left_out, planned.left_out_count) == (made | {LeftOut.NOT_MADE: 3}, 7)


def test_each_comparison_in_pairs_is_one_and_an_empty_one_is_refused_by_name() -> None:
    """Otherwise the runs of two comparisons would be merged, or one of two dropped silently."""
    before, after = campaign(1.05)
    others = [
        replace(one, run_id=f"other-{one.run_id}", pair=replace(one.pair, comparison_id="d"))
        for one in (*before, *after)
        if one.pair
    ]
    metrics = ["latency_ns.p50", "throughput_per_s"]
    both = compare_pairs([*before, *after, *others], metrics=metrics)
    assert [one.comparison_id for one in both] == ["c", "c", "d", "d"]
    baselines = [one for one in others if one.pair and one.pair.side == "baseline"]
    with pytest.raises(MeasurementError, match="no pair of valid runs is left to compare in d"):
        compare_pairs([*before, *after, *baselines])


def test_run_of_no_pair_needs_a_second_side() -> None:
    """Otherwise a user who forgot the candidate would be told to measure again."""
    with pytest.raises(NoSecondSide, match="run-0 is not in a pair"):
        compare_pairs([run(1000, 0)])


def test_pairs_without_an_energy_say_so() -> None:
    """Otherwise the advice would be to measure for longer where a meter is missing."""
    before, after = campaign(1.05)
    with pytest.raises(MeasurementError, match="made without a meter"):
        compare_pairs([*before, *after], metrics=["energy_j"])


def test_several_metrics_are_judged_together() -> None:
    """Otherwise, of twenty metrics compared, one would always be a regression."""
    before, after = campaign(1.0, count=6)
    alone = compare_groups([(before, after)])[0].result
    both = compare_groups([(before, after)], metrics=["latency_ns.p50", "latency_ns.p90"])
    assert [one.metric for one in both] == ["latency_ns.p50", "latency_ns.p90"]
    assert both[0].result.p_adjusted >= alone.p_value
    assert both[0].result.smallest_p > alone.smallest_p


def test_higher_throughput_is_better() -> None:
    """Otherwise twice the throughput would be a regression."""
    sides = (
        [run(1, i, "baseline", throughput_per_s=100.0 + i) for i in range(8)],
        [run(1, i, "candidate", throughput_per_s=200.0 + i) for i in range(8)],
    )
    (found,) = compare_groups([sides], metrics=["throughput_per_s"])
    assert found.result.outcome is ComparisonOutcome.BETTER


def test_invalid_run_is_refused() -> None:
    """Otherwise a regression would be reported from numbers that were refused."""
    before, after = campaign(1.0)
    clock = Finding(id="clock", outcome=RuleOutcome.FAIL, severity=State.INVALID)
    after[3] = replace(after[3], verdict=Verdict(state=State.INVALID, rules=(clock,)))
    with pytest.raises(MeasurementError, match=r"candidate-\d is invalid \(clock\)"):
        compare_groups([(before, after)])


def test_set_that_is_invalid_is_refused() -> None:
    """Otherwise `show` would refuse the number of a set, and a comparison would print it."""

    def whole_set(name: str, *p50s_ns: float) -> list[Run]:
        return [
            replace(run(p50, place), run_id=f"{name}-{place}", member=SetMember(name, place, 5))
            for place, p50 in enumerate(p50s_ns)
        ]

    wide = whole_set("set-wide", 1000, 1010, 1020, 1900, 2500)
    narrow = whole_set("set-narrow", 1000, 1001, 1002, 1003, 1004)
    with pytest.raises(MeasurementError, match=r"set set-wide is invalid \(between_runs_floor"):
        compare_groups([(wide, narrow)])
    other = whole_set("set-other", 1001, 1002, 1003, 1004, 1005)
    assert compare_groups([(narrow, other)])


def test_replaced_run_of_a_set_is_left_out() -> None:
    """Otherwise a run that was measured again, as it was disturbed, would decide the comparison."""
    sides = [
        [
            replace(run(p50, place), run_id=f"{name}-{place}", member=SetMember(name, place, 5))
            for place, p50 in enumerate((1000, 1001, 1002, 1003, 1004))
        ]
        for name in ("set-a", "set-b")
    ]
    again = SetMember("set-b", 2, 5, Replacement("set-b-2", ("cpu_pressure",)))
    extra = replace(run(1002, 5), run_id="set-b-5", member=again)
    (found,) = compare_groups([(sides[0], [*sides[1], extra])])
    assert found.candidate_runs == ("set-b-0", "set-b-1", "set-b-3", "set-b-4", "set-b-5")
    (alone,) = compare_groups([(sides[0], sides[1])])
    assert "set-b-2" in alone.candidate_runs


def test_suspect_runs_are_counted() -> None:
    """Otherwise a comparison on a busy machine would look like one on a quiet machine."""
    before, after = campaign(1.0)
    after[3] = replace(after[3], verdict=Verdict(state=State.SUSPECT, rules=()))
    (found,) = compare_groups([(before, after)])
    assert (found.verdicts.valid_count, found.verdicts.suspect_count) == (19, 1)


@pytest.mark.parametrize(
    ("metric", "said"),
    [
        ("latency_ns.p42", "unknown metric 'latency_ns.p42'"),
        ("latency_ns", "is not a number"),
        ("warmup.class", "is not a number"),
        ("", "unknown metric ''"),
    ],
)
def test_metric_that_is_no_number_is_refused(metric: str, said: str) -> None:
    """Otherwise a mistyped metric would end in a traceback."""
    with pytest.raises(UsageError, match=said):
        compare_groups([campaign(1.0)], metrics=[metric])


def test_metric_that_a_run_has_not_is_refused_by_its_run() -> None:
    """Otherwise a p99 that was refused for want of queries would be ignored."""
    before, after = campaign(1.0)
    before[0] = changed(before[0], {"metrics.latency_ns.p99": None})
    with pytest.raises(MeasurementError, match=r"run baseline-\d has no latency_ns.p99"):
        compare_groups([(before, after)], metrics=["latency_ns.p99"])


def test_comparison_needs_both_sides() -> None:
    """Otherwise an empty side would cause a division by zero."""
    with pytest.raises(UsageError, match="both sides"):
        compare_groups([([], [run(1, 1)])])


def test_setting_without_effect_is_noted_in_a_comparison() -> None:
    """Otherwise two threads would be as fast as one, without a note that only one worked."""

    def threads(requested: int, number: int) -> Run:
        state = SettingState.AS_REQUESTED if requested == 1 else SettingState.DIFFERENT
        setting = Setting(requested=requested, effective=1, state=state, reason="fewer")
        made = run(100 + number % 8, number)
        return changed(made, {"spec.threads": requested, "conditions.settings.threads": setting})

    sides = [threads(1, i) for i in range(8)], [threads(2, i + 10) for i in range(8)]
    (found,) = compare_groups([sides], allowed=["threads"])
    assert found.in_effect == {"threads": ("1", "1")}
    note = "note: threads in effect: 1 / 1 on the two sides, not as requested"
    assert note in comparison_lines([found])
    (plain,) = compare_groups([(sides[0], [threads(1, i + 10) for i in range(8)])])
    assert plain.in_effect == {}
