"""Headlines: the main result of a command in a sentence."""

from __future__ import annotations

from dataclasses import replace

import pytest
from support.changes import changed
from support.records import CREATED_UTC, latencies, run_record, traces_of, worker_record

from edgebench.host.analysis.run import analyse_run
from edgebench.host.analysis.run_set import alone, find_set
from edgebench.host.report.numbers import headline_numbers
from edgebench.host.result.energy import EnergyResult
from edgebench.host.result.facts import SetMember
from edgebench.host.result.measured import ProfileResult
from edgebench.host.result.outputs import Accuracy, ReferenceAccuracy
from edgebench.host.result.run import Run
from edgebench.host.result.run_set import RunSet
from edgebench.host.result.thermal import ThermalResult, ThermalState
from edgebench.host.result.verdict import Finding, RuleOutcome, State, Verdict
from edgebench.host.show.headline import HeadlineKind, best_of, headlines

RUN = analyse_run(
    run_record(worker_record(latencies())),
    traces_of(latencies()),
    created_utc=CREATED_UTC,
    clock=None,
)
VALID = Verdict(state=State.VALID, rules=())
LEVELS_NS = (1010.0, 1000.0, 1020.0, 1005.0, 1015.0)


def set_of(name: str, factor: float, verdict: Verdict = VALID, runtime: str = "tflite") -> RunSet:
    """Five runs of a model with this multiple of the latency."""
    runs: list[Run] = []
    for number, level_ns in enumerate(LEVELS_NS):
        p50_ns = factor * level_ns
        changes = {
            "model.name": name,
            "runtime.name": runtime,
            "verdict": verdict,
            "metrics.warmup": None,
            "metrics.stability": None,
            "metrics.latency_ns.p50": p50_ns,
            "metrics.latency_ns.p50_ci95": (0.99 * p50_ns, 1.01 * p50_ns),
        }
        member = SetMember(f"set-{name}-{runtime}", number, 5)
        runs.append(replace(changed(RUN, changes), run_id=f"{name}-{number}", member=member))
    return find_set(runs)


def only(*sets: RunSet) -> str:
    """The sentence of the only headline of these sets."""
    [found] = headlines(sets)
    return found.sentence


def test_one_model_takes_its_median() -> None:
    """The headline metric of a run without other options."""
    assert only(set_of("a.tflite", 1.0)) == "a.tflite on tflite takes 1.01 µs ±1.0 % per inference"


def test_two_models_are_a_ratio_with_its_interval() -> None:
    """The better model comes first, whichever was named first."""
    slow, fast = set_of("slow.tflite", 2.0), set_of("fast.tflite", 1.0)
    expected = "fast.tflite is 2.00× faster than slow.tflite, 95 % CI 1.97× to 2.03×"
    for sets in ((slow, fast), (fast, slow)):
        assert only(*sets) == expected
    [found] = headlines([slow, fast])
    assert found.kind is HeadlineKind.RATIO
    assert found.line == f"{expected} (valid)"
    assert found.document == {"kind": "ratio", "sentence": expected, "marks": "valid"}


def test_two_equal_models_are_the_same_within_a_bound() -> None:
    """A ratio of 1.00 without a bound would show nothing."""
    sentence = only(set_of("a.tflite", 1.0), set_of("b.tflite", 1.001))
    assert sentence == "a.tflite and b.tflite are the same within ±1.6 % (95 % CI)"


def test_wide_or_suspect_interval_is_not_called_the_same() -> None:
    """Otherwise "the same within ±16 %" would be printed of a machine that other programs used."""
    waiting = Finding(id="spread", outcome=RuleOutcome.FAIL, severity=State.SUSPECT)
    suspect = Verdict(state=State.SUSPECT, rules=(waiting,))
    first = set_of("a.tflite", 1.0)
    assert only(first, set_of("b.tflite", 1.001, suspect)) == (
        "a.tflite and b.tflite cannot be distinguished: 0.986× to 1.02× (95 % CI)"
    )
    runs = [
        changed(run, {"metrics.latency_ns.p50": factor * 1010.0})
        for run, factor in zip(
            set_of("b.tflite", 1.0).runs, (0.9, 0.95, 1.0, 1.05, 1.1), strict=True
        )
    ]
    assert "cannot be distinguished: 0." in only(first, find_set(runs))


def test_best_of_several_is_named_with_its_distance_to_the_second() -> None:
    """Otherwise the fastest of many rows would have to be searched for."""
    sets = [set_of(f"{factor}.tflite", factor) for factor in (4.0, 1.5, 3.0)]
    assert only(*sets).startswith("best of 3: 1.5.tflite is 2.00× faster than 3.0.tflite, 95 % CI")


def test_same_model_is_named_with_its_runtime() -> None:
    """Otherwise a model would be faster than itself."""
    first, second = set_of("a.tflite", 2.0), set_of("a.tflite", 1.0, runtime="litert")
    assert only(first, second).startswith("a.tflite on litert is 2.00× faster than a.tflite on tfl")


def test_accuracy_has_its_interval_over_the_samples_and_its_loss() -> None:
    """Otherwise the result of --accuracy --reference would be on the page of a single run only."""
    sibling = ReferenceAccuracy("20260101-000000-00000000", "fp32.tflite", 0.9956)
    accuracy = Accuracy("top1", 0.9933, (0.9806, 0.9986), 450, None, None, 0.0023, sibling)
    first, *others = set_of("a.tflite", 1.0).runs
    measured = find_set([changed(first, {"metrics.accuracy": accuracy}), *others])
    assert only(measured).endswith(
        " per inference, with an accuracy of 99.3 % (95 % CI 98.1 % to 99.9 % over 450 samples), "
        "0.23 percentage points worse than fp32.tflite (99.6 %) on this data set"
    )
    [card] = [one for one in headline_numbers(measured) if one.path == "accuracy.value"]
    assert card.shown == "99.3 %"
    assert card.bounds == (
        "98.1 % to 99.9 % (95 % CI over 450 samples); "
        "0.23 percentage points worse than fp32.tflite (99.6 %) on this data set"
    )


def test_worst_verdict_marks_a_ratio() -> None:
    """Otherwise the ratio of a suspect set would look valid."""
    switching = Finding(id="spread", outcome=RuleOutcome.FAIL, severity=State.SUSPECT)
    suspect = set_of("b.tflite", 2.0, Verdict(state=State.SUSPECT, rules=(switching,)))
    [found] = headlines([set_of("a.tflite", 1.0), suspect])
    assert found.marks == "suspect"


def test_refused_set_has_its_causes_and_no_number() -> None:
    """Otherwise the sentence would quote a number that cannot be trusted."""
    short = analyse_run(
        run_record(worker_record(latencies(20))),
        traces_of(latencies(20)),
        created_utc=CREATED_UTC,
        clock=None,
    )
    sentence = only(alone(short))
    assert sentence.startswith("digits.tflite on tflite: refused, too little was measured")
    assert "µs" not in sentence
    assert best_of([set_of("a.tflite", 1.0), alone(short)]) is None
    assert headlines([]) == []


@pytest.mark.parametrize(
    ("thermal", "expected"),
    [
        (
            ThermalResult(
                ThermalState.THROTTLED, "thermal", True, onset_s=10.2, retention_ratio=0.82
            ),
            "slowed down after 10 s by heat: at the end, 82 % of its peak performance is left, "
            "measured by latency",
        ),
        (
            ThermalResult(ThermalState.THROTTLED, "undervoltage", True),
            "slowed down from the start by undervoltage",
        ),
        (
            ThermalResult(ThermalState.FREQUENCY_LIMITED, "power_limit", False, onset_s=0.2),
            "slowed down from the start by a power limit",
        ),
        (
            ThermalResult(ThermalState.FREQUENCY_LIMITED, "unknown", False, onset_s=3.0),
            "slowed down after 3 s by a lower clock",
        ),
        (
            ThermalResult(ThermalState.INTERFERENCE, None, False, onset_s=3.0),
            "slowed down after 3 s by an unknown cause",
        ),
        (
            ThermalResult(ThermalState.NOT_THROTTLED, None, False),
            "did not slow down in 1200 s; it takes ",
        ),
        (ThermalResult(ThermalState.UNKNOWN, None, False, reason="no sensors"), "takes "),
    ],
    ids=lambda value: (
        f"{value.state.value} {value.cause}" if isinstance(value, ThermalResult) else ""
    ),
)
def test_sustained_run_states_when_why_and_what_is_left(
    thermal: ThermalResult, expected: str
) -> None:
    """Otherwise a run that was made to see throttling would begin with failed rules."""
    changes = {"metrics.thermal": thermal, "spec.is_sustained": True, "spec.duration_s": 1200.0}
    [found] = headlines([alone(changed(RUN, {**changes, "verdict": VALID}))])
    assert found.kind is HeadlineKind.SUSTAINED
    assert found.sentence.startswith(f"digits.tflite on tflite {expected}")


def test_main_result_of_a_metered_run_is_its_energy() -> None:
    """A refused energy has its cause, and no number."""
    energy = EnergyResult(meter="x", gross_j_per_inference=3.1e-3, u95_absolute_j=1e-4)
    metered = changed(RUN, {"metrics.energy": energy, "verdict": VALID})
    assert (
        only(alone(metered)) == "digits.tflite on tflite uses 3.10 mJ ±3.2 % per inference, gross"
    )
    refused = replace(energy, gross_j_per_inference=None, refused="the cable is loose")
    sentence = only(alone(changed(metered, {"metrics.energy": refused})))
    assert sentence == "digits.tflite on tflite: energy refused: the cable is loose"


def test_profile_has_no_latency() -> None:
    """The profiler's own time would be in it."""
    profile = ProfileResult(3, (), None, None, None)
    profiled = alone(changed(RUN, {"metrics.profile": profile, "verdict": VALID}))
    assert only(profiled) == "digits.tflite on tflite: 0 operators timed"


def test_sets_of_different_kinds_have_no_ratio() -> None:
    """Otherwise a set without a meter would lack an energy that was not requested."""
    energy = EnergyResult(meter="x", gross_j_per_inference=3.1e-3, u95_absolute_j=1e-4)
    metered = alone(changed(RUN, {"metrics.energy": energy, "verdict": VALID}))
    found = headlines([metered, set_of("a.tflite", 1.0)])
    assert [headline.kind for headline in found] == [HeadlineKind.ENERGY, HeadlineKind.RESULT]


def test_sets_of_one_model_with_other_settings_are_told_apart() -> None:
    """Otherwise a model would be faster than itself."""
    first, second = set_of("a.tflite", 2.0), set_of("a.tflite", 1.0)
    second = replace(second, set_id="set-second")
    names = {id(first): "1 thread", id(second): "2 threads"}
    best = best_of([first, second], lambda run_set: names[id(run_set)])
    assert best is not None
    assert "a.tflite on tflite, 2 threads is 2.00× faster than a.tflite on tflite, 1 thread" in (
        best.sentence
    )


def test_sets_of_two_occasions_have_no_ratio() -> None:
    """The state of a machine changes between two occasions: `compare` accounts for it."""
    first, second = set_of("a.tflite", 2.0), set_of("b.tflite", 1.0)
    later = [replace(run, created_utc="2026-01-02T05:00:00+00:00") for run in second.runs]
    assert best_of([first, find_set(later)]) is None


def test_third_that_may_be_better_leaves_no_best() -> None:
    """Otherwise the ratio of the best two would hide a set that may beat both."""
    sets = [set_of("a.tflite", 1.0), set_of("b.tflite", 1.002), set_of("c.tflite", 1.004)]
    assert best_of(sets) is None
    assert len(headlines(sets)) == 3


def test_set_whose_first_run_is_refused_shows_a_run_that_counts() -> None:
    """Otherwise a retention would be shown that the verdict refuses."""
    run_set = set_of("a.tflite", 1.0)
    slow = ThermalResult(ThermalState.THROTTLED, "thermal", True, retention_ratio=0.1)
    runs = [
        changed(run, {"spec.is_sustained": True, "metrics.thermal": None}) for run in run_set.runs
    ]
    refused = changed(runs[0], {"metrics.thermal": slow})
    refused = replace(refused, verdict=Verdict(state=State.INVALID, rules=()))
    assert "10 %" not in only(find_set([refused, *runs[1:]]))
