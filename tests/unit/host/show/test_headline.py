"""Headlines: the answer to the question that a command asked."""

from __future__ import annotations

from dataclasses import replace

import pytest
from support.changes import changed
from support.records import CREATED_UTC, latencies, run_record, traces_of, worker_record

from edgebench.host.analysis.run import analyse_run
from edgebench.host.analysis.run_set import alone, find_set
from edgebench.host.result.energy import EnergyResult
from edgebench.host.result.facts import SetMember
from edgebench.host.result.run import Run
from edgebench.host.result.run_set import RunSet
from edgebench.host.result.thermal import ThermalResult, ThermalState
from edgebench.host.result.verdict import Finding, RuleOutcome, State, Verdict
from edgebench.host.show.headline import Question, best_of, headlines

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
    """The first question of everybody."""
    assert only(set_of("a.tflite", 1.0)) == "a.tflite on tflite takes 1.01 µs ±1.0 % per inference"


def test_two_models_are_a_ratio_with_its_interval() -> None:
    """The better model comes first, whichever was named first."""
    slow, fast = set_of("slow.tflite", 2.0), set_of("fast.tflite", 1.0)
    expected = "fast.tflite is 2.00× faster than slow.tflite, 95 % CI 1.97× to 2.03×"
    for sets in ((slow, fast), (fast, slow)):
        assert only(*sets) == expected
    [found] = headlines([slow, fast])
    assert found.question is Question.RATIO
    assert found.line == f"{expected} (valid)"
    assert found.document == {"question": "ratio", "sentence": expected, "marks": "valid"}


def test_two_equal_models_are_the_same_within_a_bound() -> None:
    """A ratio of 1.00 without a bound would be an answer to nothing."""
    sentence = only(set_of("a.tflite", 1.0), set_of("b.tflite", 1.001))
    assert sentence == "a.tflite and b.tflite are the same within ±1.6 % (95 % CI)"


def test_best_of_several_is_named_with_its_distance_to_the_second() -> None:
    """The reader of six rows looks for the fastest."""
    sets = [set_of(f"{factor}.tflite", factor) for factor in (4.0, 1.5, 3.0)]
    assert only(*sets).startswith("best of 3: 1.5.tflite is 2.00× faster than 3.0.tflite, 95 % CI")


def test_same_model_is_named_with_its_runtime() -> None:
    """Otherwise a model would be faster than itself."""
    first, second = set_of("a.tflite", 2.0), set_of("a.tflite", 1.0, runtime="litert")
    assert only(first, second).startswith("a.tflite on litert is 2.00× faster than a.tflite on tfl")


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
            "slowed down after 10 s by heat: 82 % of its peak performance is left",
        ),
        (
            ThermalResult(ThermalState.THROTTLED, "undervoltage", True),
            "slowed down from the start by undervoltage",
        ),
        (
            ThermalResult(ThermalState.NOT_THROTTLED, None, False),
            "did not slow down in 1200 s; it takes ",
        ),
        (
            ThermalResult(ThermalState.UNKNOWN, None, False),
            "may have slowed down: neither heat nor clock could be watched; it takes ",
        ),
    ],
    ids=lambda value: value.state.value if isinstance(value, ThermalResult) else "",
)
def test_sustained_run_states_when_why_and_what_is_left(
    thermal: ThermalResult, expected: str
) -> None:
    """Otherwise a run that was made to see throttling would begin with failed rules."""
    changes = {"metrics.thermal": thermal, "spec.is_sustained": True, "spec.duration_s": 1200.0}
    [found] = headlines([alone(changed(RUN, {**changes, "verdict": VALID}))])
    assert found.question is Question.SUSTAINED
    assert found.sentence.startswith(f"digits.tflite on tflite {expected}")


def test_metered_run_answers_with_its_energy() -> None:
    """A refused energy has its cause, and no number."""
    energy = EnergyResult(meter="x", gross_j_per_inference=3.1e-3, u95_absolute_j=1e-4)
    metered = changed(RUN, {"metrics.energy": energy, "verdict": VALID})
    assert (
        only(alone(metered)) == "digits.tflite on tflite uses 3.10 mJ ±3.2 % per inference, gross"
    )
    refused = replace(energy, gross_j_per_inference=None, refused="the cable is loose")
    sentence = only(alone(changed(metered, {"metrics.energy": refused})))
    assert sentence.startswith("digits.tflite on tflite: energy refused, ")
