"""Tests of the diagnosis: failed rules by their cause."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path

import pytest

from edgebench.host.analysis.verdict.cause import Cause
from edgebench.host.analysis.verdict.diagnosis import diagnose
from edgebench.host.analysis.verdict.judge import verdict_of
from edgebench.host.analysis.verdict.table import ALL_RULES, BY_ID
from edgebench.host.result.verdict import Finding, RuleOutcome, State

ROOT = Path(__file__).parents[5]
SCATTER = ("steady_state", "spread", "block_stability", "between_runs")


def failed(name: str, reason: str | None = None, severity: State | None = None) -> Finding:
    """A failure of a rule."""
    severity = severity or BY_ID[name].severity
    return Finding(id=name, outcome=RuleOutcome.FAIL, severity=severity, reason=reason)


def causes_of(*findings: Finding) -> list[Cause | None]:
    """Causes of these failures, the first to be mended first."""
    return [one.cause for one in diagnose(verdict_of(findings))]


def test_each_cause_has_a_title_and_a_section() -> None:
    """Otherwise a page would fail, or link to a section that does not exist."""
    headings = (ROOT / "docs" / "suspect.md").read_text().splitlines()
    for cause in Cause:
        assert cause.title
        assert f"## {cause.section}" in headings


def test_busy_machine_is_one_cause_with_its_effects() -> None:
    """Otherwise its six failed rules would read like six problems."""
    busy = ("background_load", "cpu_pressure", "cpu_share")
    (one,) = diagnose(verdict_of(map(failed, (*SCATTER, *busy))))
    assert one.cause is Cause.OTHER_PROGRAMS
    assert one.evidence[0].id == "background_load"
    assert {found.id for found in one.effects} == set(SCATTER)


def test_threads_beyond_the_cpus_are_the_cause_of_their_own_waits() -> None:
    """Otherwise the advice would be to end other programs."""
    waits = failed("cpu_pressure", "more_threads")
    assert causes_of(waits, *map(failed, ("cpu_share", *SCATTER))) == [Cause.TOO_MANY_THREADS]


def test_other_programs_are_ended_before_threads_are_fewer() -> None:
    """Otherwise the first advice, --threads N, would be followed to the same verdict."""
    waits = failed("cpu_pressure", "more_threads")
    found = (waits, *map(failed, ("cpu_share", "background_load", *SCATTER)))
    assert causes_of(*found) == [Cause.OTHER_PROGRAMS, Cause.TOO_MANY_THREADS]
    assert causes_of(waits, failed("cpu_share"), failed("background_load"))[0] is (
        Cause.OTHER_PROGRAMS
    )


def test_cause_of_one_run_comes_after_that_of_all_runs() -> None:
    """Otherwise a moment of another program would hide why every run of the set waited."""
    waits, moment = failed("cpu_pressure", "more_threads"), failed("background_load")
    often, once = ({"failed_count": count, "of_count": 5} for count in (5, 1))
    found = replace(waits, facts=often), replace(moment, facts=once)
    causes = diagnose(verdict_of((*found, *map(failed, SCATTER))))
    assert [one.cause for one in causes] == [Cause.TOO_MANY_THREADS, Cause.OTHER_PROGRAMS]
    assert {finding.id for finding in causes[0].effects} == set(SCATTER)
    usual = replace(waits, facts=often), replace(moment, facts=often)
    assert causes_of(*usual)[0] is Cause.OTHER_PROGRAMS
    constant = replace(failed("agreement", "constant"), facts=once)  # the first run is compared
    few = [replace(failed(name), facts=once) for name in ("steady_share", "steady_state")]
    assert causes_of(*few, constant)[0] is Cause.INPUTS


def test_slower_work_in_a_set_shows_no_clock() -> None:
    """Otherwise a virtual machine whose neighbour slows it would have a low clock as its cause."""
    assert causes_of(failed("set_yardstick")) == [Cause.UNKNOWN_SLOWDOWN]
    assert causes_of(failed("set_yardstick"), failed("set_clock")) == [Cause.CLOCK_FREQUENCY]


@pytest.mark.parametrize(
    ("finding", "cause"),
    [
        (failed("thermal"), Cause.HEAT),
        (failed("thermal", "power_supply"), Cause.POWER_SUPPLY),
        (failed("thermal", "memory_clock"), Cause.CLOCK_FREQUENCY),
        (failed("thermal", "power_limit"), Cause.CLOCK_FREQUENCY),
        (failed("interference", "moved"), Cause.OTHER_CORES),
        (failed("cpu_share", "quota"), Cause.CPU_LIMIT),
        (failed("suspended", "stopped"), Cause.PAUSED),
        (failed("power_saver"), Cause.PHONE_STATE),
    ],
    ids=lambda value: value.id if isinstance(value, Finding) else value.value,
)
def test_cause_explains_clock_and_scatter(finding: Finding, cause: Cause) -> None:
    """Otherwise a throttled device would be asked for another governor and for longer runs."""
    assert causes_of(finding, *map(failed, SCATTER))[0] is cause
    assert len(causes_of(finding, *map(failed, SCATTER))) == 1
    if cause in BY_ID["frequency"].effect_of:
        assert causes_of(finding, failed("frequency"), failed("nominal_clock")) == [cause]


def test_effect_of_an_effect_has_the_first_cause() -> None:
    """Slower work in a set is an effect of the clock, which fell because of heat."""
    found = diagnose(verdict_of(map(failed, ("set_yardstick", "set_clock", "set_heat"))))
    assert [one.cause for one in found] == [Cause.HEAT]
    assert {effect.id for effect in found[0].effects} == {"set_yardstick", "set_clock"}


def test_unexplained_scatter_stays_unexplained() -> None:
    """Otherwise a cause would be named that no rule saw."""
    assert causes_of(*map(failed, SCATTER)) == [Cause.VARIATION]


def test_known_reason_comes_before_an_unknown_one() -> None:
    """Otherwise a model with a constant output on a noisy machine would be measured for longer."""
    constant = failed("agreement", "constant")
    assert causes_of(*map(failed, SCATTER), constant) == [Cause.INPUTS, Cause.VARIATION]
    slower = failed("yardstick")
    assert causes_of(slower, *map(failed, SCATTER), failed("precision", "too_few"))[-1] is (
        Cause.UNKNOWN_SLOWDOWN
    )


def test_cause_of_a_refusal_comes_first() -> None:
    """Otherwise the advice would leave the result invalid."""
    outputs = failed("finite_outputs")
    assert outputs.severity is State.INVALID
    causes = causes_of(failed("background_load"), failed("cpu_share"), outputs)
    assert causes == [Cause.OUTPUTS, Cause.OTHER_PROGRAMS]


def test_chosen_simulation_comes_last() -> None:
    """Otherwise the throttling that a simulated board demonstrates would come second."""
    simulated = failed("real_device", "simulated")
    assert causes_of(simulated, failed("thermal")) == [Cause.HEAT, Cause.NOT_REAL]


def test_stopped_run_explains_what_it_lacks() -> None:
    """What else is wrong with it would be wrong with a whole run, too."""
    findings = [failed(name) for name in ("complete", "enough_time", "steady_state", "energy")]
    assert causes_of(*findings) == [Cause.STOPPED]
    assert causes_of(*findings, failed("finite_outputs"))[1:] == [Cause.OUTPUTS]


def test_end_by_heat_or_by_waiting_queries_is_no_accident() -> None:
    """Otherwise the advice would be to let the run finish."""
    assert causes_of(failed("complete", "too_hot"), failed("enough_time")) == [Cause.HEAT]
    waiting = failed("complete", "still_waiting")
    assert causes_of(waiting, failed("keeps_up"))[0] is Cause.ARRIVALS
    assert causes_of(waiting, failed("keeps_up"), failed("background_load")) == [
        Cause.OTHER_PROGRAMS
    ]


def test_set_without_runs_has_the_cause_of_its_runs() -> None:
    """Otherwise eight runs on an emulated CPU would have measured too little."""
    none = failed("run_count", "none", State.INVALID)
    assert causes_of(none, failed("real_time", "emulated")) == [Cause.NOT_REAL]
    assert causes_of(failed("run_count")) == [Cause.TOO_SHORT]


def test_set_without_runs_has_the_cause_that_refused_them() -> None:
    """Otherwise an addition of 0.4 µs would be advised to warm up."""
    refused = failed("run_count", "none", State.INVALID), failed("harness_dominates")
    causes = diagnose(verdict_of((*refused, failed("steady_share"))))
    assert [diagnosis.cause for diagnosis in causes] == [Cause.TOO_SMALL, Cause.WARMING_UP]
    assert [effect.id for effect in causes[0].effects] == ["run_count"]


def test_run_that_a_cause_took_from_its_set_is_its_effect() -> None:
    """Otherwise the advice would be to make more runs, which are lost in the same way."""
    lost, constant = failed("run_count", "lost"), failed("agreement", "constant")
    assert causes_of(lost, constant) == [Cause.INPUTS]
    assert causes_of(lost) == [Cause.TOO_SHORT]


def test_runs_that_a_busy_machine_took_from_their_set_are_its_effect() -> None:
    """Otherwise a busy machine would have two causes, and two steps against them."""
    lost, scattered = failed("run_count", "lost"), failed("precision_floor")
    (one,) = diagnose(verdict_of((lost, scattered, failed("background_load"))))
    assert one.cause is Cause.OTHER_PROGRAMS
    assert {effect.id for effect in one.effects} == {"run_count", "precision_floor"}


def test_few_queries_are_no_variation() -> None:
    """Otherwise a run of ten queries would vary for an unknown reason."""
    few = failed("precision", "few_queries")
    assert causes_of(few) == [Cause.TOO_SHORT]
    assert causes_of(few, failed("enough_queries")) == [Cause.TOO_SHORT]
    assert causes_of(failed("precision", "worth")) == [Cause.VARIATION]


def test_slower_runs_without_a_temperature_are_not_hot() -> None:
    """A neighbour that begins in the middle of a set makes the same step."""
    assert causes_of(failed("trend", "step"), failed("between_runs")) == [Cause.WARMING_UP]
    busy = failed("background_load")
    assert causes_of(failed("trend", "step"), busy) == [Cause.OTHER_PROGRAMS]


def test_effects_of_causes_have_no_circles() -> None:
    """Otherwise a diagnosis would not end."""
    effects: dict[Cause, set[Cause]] = {}
    for rule in ALL_RULES:
        for kind in rule.reasons().values():
            own, of = kind.cause or rule.cause, kind.effect_of
            effects.setdefault(own, set()).update(rule.effect_of if of is None else of)
    reached = {cause: set(others) for cause, others in effects.items()}
    for _ in Cause:
        for cause in reached:
            for other in tuple(reached[cause]):
                reached[cause] |= reached.get(other, set())
    assert not {cause for cause, others in reached.items() if cause in others}


def test_evidence_of_a_cause_comes_before_its_effects_of_others() -> None:
    """Threads explain the waits of the model, and not the other programs."""
    waits, slower = failed("cpu_pressure", "more_threads"), failed("set_yardstick")
    found = diagnose(verdict_of([waits, failed("cpu_share"), failed("background_load"), slower]))
    rules = {one.cause: {finding.id for finding in one.findings} for one in found}
    assert rules == {
        Cause.TOO_MANY_THREADS: {"cpu_pressure", "cpu_share"},
        Cause.OTHER_PROGRAMS: {"background_load", "set_yardstick"},
    }


def test_unknown_rule_is_a_cause_of_its_own() -> None:
    """Otherwise a failure that a newer version stored would be left out."""
    newer = Finding(id="newer_rule", outcome=RuleOutcome.FAIL, severity=State.SUSPECT)
    found = diagnose(verdict_of([newer, failed("spread")]))
    assert {one.title for one in found} == {"newer_rule", Cause.VARIATION.title}


def test_each_failed_rule_has_exactly_one_cause() -> None:
    """Otherwise a failure would be hidden, or shown twice."""
    kinds = [(rule.id, key or None) for rule in ALL_RULES for key in rule.reasons()]
    chance = random.Random(0)
    for _ in range(500):
        chosen = dict(chance.sample(kinds, chance.randint(1, 12)))
        verdict = verdict_of(failed(name, reason) for name, reason in chosen.items())
        diagnoses = diagnose(verdict)
        placed = [finding.id for diagnosis in diagnoses for finding in diagnosis.findings]
        assert sorted(placed) == sorted(chosen)
        assert all(diagnosis.evidence for diagnosis in diagnoses)
