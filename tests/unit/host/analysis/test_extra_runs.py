"""Further runs of a set: which runs are replaced, by their findings and never by their values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import pytest
from support.changes import changed
from support.records import CREATED_UTC, latencies, run_record, traces_of, worker_record

from edgebench.host.analysis.extra_runs import (
    disturbances_of,
    external_disturbances_of,
    next_extra_run,
)
from edgebench.host.analysis.run import analyse_run
from edgebench.host.analysis.run_set import find_set
from edgebench.host.result.facts import Replacement, SetMember
from edgebench.host.result.run import Run
from edgebench.host.result.verdict import Finding, RuleOutcome, State, Verdict

MEASURED = analyse_run(
    run_record(worker_record(latencies())),
    traces_of(latencies()),
    created_utc=CREATED_UTC,
    clock=None,
)
GOOD = replace(MEASURED, verdict=Verdict(state=State.VALID, rules=()))
QUIET_NS = (1000, 1001, 1002, 1003, 1004, 1005, 1006, 1007)
BUSY = ("cpu_pressure",)


def failed(*rules: str, state: State = State.SUSPECT, **changes: object) -> Verdict:
    """Return the verdict of a run that failed these rules."""
    findings = [
        Finding(id=rule, outcome=RuleOutcome.FAIL, severity=state, value=0.4, limit=0.1)
        for rule in rules
    ]
    return Verdict(state=state, rules=tuple(changed(finding, changes) for finding in findings))


def set_of(p50s_ns: Sequence[int], broken: Mapping[int, Verdict]) -> list[Run]:
    """Return the runs of a set with these medians, some of which failed rules."""
    return [
        changed(
            GOOD,
            {
                "run_id": f"20260102-030405-{number:08d}",
                "member": SetMember("set-00000001", number, len(p50s_ns)),
                "metrics.latency_ns.p50": p50_ns,
                "verdict": broken.get(number, GOOD.verdict),
            },
        )
        for number, p50_ns in enumerate(p50s_ns)
    ]


def made_again(runs: Sequence[Run], verdict: Verdict = GOOD.verdict) -> list[Run]:
    """Return the runs with the next further run, which has this verdict."""
    member = next_extra_run(runs)
    assert member is not None
    run_id = f"20260102-030405-{len(runs):08d}"
    p50_ns = {"metrics.latency_ns.p50": QUIET_NS[3]}
    return [*runs, changed(GOOD, {"run_id": run_id, "member": member, "verdict": verdict} | p50_ns)]


@pytest.mark.parametrize("p50_ns", [1400, 1002, 700])
@pytest.mark.parametrize("rule", ["cpu_pressure", "background_load", "cpu_share", "interference"])
def test_disturbed_run_of_five_is_replaced_whatever_its_value(rule: str, p50_ns: int) -> None:
    """Otherwise the choice would depend on the value, and bias the median."""
    runs = set_of([*QUIET_NS[:2], p50_ns, *QUIET_NS[3:5]], {2: failed(rule)})
    replaced = Replacement(runs[2].run_id, (rule,))
    assert next_extra_run(runs) == SetMember("set-00000001", 2, 5, replaced)
    found = find_set(made_again(runs))
    assert found.verdict.state is State.VALID
    assert found.replaced_run_ids == (runs[2].run_id,)
    assert (found.metrics["latency_ns.p50"].max, len(found.counted)) == (1004, 5)
    assert (len(found.runs), found.planned_count) == (6, 5), "nothing measured is lost"


def test_slow_launch_without_a_recorded_disturbance_is_kept() -> None:
    """Otherwise slow launches would be measured again until they are fast."""
    runs = set_of([1000, 1001, 1900, 1003, 1004], {})
    assert find_set(runs).verdict.state is not State.VALID
    assert next_extra_run(runs) is None


@pytest.mark.parametrize(
    "verdict",
    [
        failed("thermal"),
        failed("cpu_pressure", "thermal"),
        failed("background_load", "agreement_of_all"),
        failed("cpu_share", reason="quota", facts={"quota": 0.5, "of": ""}),
        failed("spread"),
    ],
)
def test_run_that_the_next_run_would_resemble_is_kept(verdict: Verdict) -> None:
    """Otherwise a throttled board would be measured three times more, for the same result."""
    assert next_extra_run(set_of(QUIET_NS[:5], {1: verdict})) is None


def test_scatter_is_a_consequence_of_a_disturbance() -> None:
    """Otherwise a neighbour that also widens the latencies would count as a state of the device."""
    run = set_of(QUIET_NS[:5], {1: failed("spread", "cpu_pressure", "block_stability")})[1]
    assert disturbances_of(run) == BUSY


@pytest.mark.parametrize(
    ("verdict", "external"),
    [
        (failed("interference"), ()),
        (failed("interference", reason="moved"), ("interference",)),
        (failed("interference", "cpu_pressure"), BUSY),
        (failed("yardstick"), ("yardstick",)),
        (failed("cpu_pressure", "thermal"), ()),
    ],
)
def test_slowdown_of_the_model_alone_is_no_external_disturbance(
    verdict: Verdict, external: tuple[str, ...]
) -> None:
    """Otherwise sets of a model that leaks memory would be left out of its own comparison."""
    run = set_of(QUIET_NS[:5], {1: verdict})[1]
    assert external_disturbances_of(run) == external


def test_outvoted_run_is_not_replaced() -> None:
    """Otherwise every quick set with a single disturbed run would take longer for nothing."""
    runs = set_of([1400, *QUIET_NS[1:]], {0: failed(*BUSY)})
    passed = replace(failed(*BUSY).rules[0], outcome=RuleOutcome.PASS)
    runs[1:] = [changed(run, {"verdict.rules": (passed,)}) for run in runs[1:]]
    assert find_set(runs).verdict.state is State.VALID
    assert next_extra_run(runs) is None


def test_disturbed_runs_are_replaced_in_turn() -> None:
    """Otherwise only the first of two disturbed runs would be replaced."""
    runs = set_of([1400, *QUIET_NS[1:7], 1500], {0: failed(*BUSY), 7: failed("interference")})
    twice = made_again(made_again(runs))
    assert next_extra_run(twice) is None
    assert find_set(twice).replaced_run_ids == (runs[0].run_id, runs[7].run_id)


def test_disturbance_of_half_of_the_runs_is_a_condition() -> None:
    """Otherwise the numbers of a busy machine would be those of its quiet moments."""
    broken = dict.fromkeys(range(4), failed(*BUSY))
    assert next_extra_run(set_of(QUIET_NS, broken)) is None
    del broken[0]
    assert next_extra_run(set_of(QUIET_NS, broken)) is not None


def test_too_few_runs_have_no_interval_to_save() -> None:
    """Otherwise two runs of a script would become five on a busy machine."""
    assert next_extra_run(set_of(QUIET_NS[:4], {0: failed(*BUSY)})) is None


def test_disturbed_further_run_is_replaced_too() -> None:
    """Otherwise a neighbour that stays for two runs would spoil the set nevertheless."""
    runs = made_again(set_of(QUIET_NS[:5], {1: failed(*BUSY)}), failed(*BUSY))
    member = next_extra_run(runs)
    assert member is not None
    assert member.replaces == Replacement(runs[5].run_id, BUSY)
    assert find_set(made_again(runs)).replaced_run_ids == (runs[1].run_id, runs[5].run_id)


def test_invalid_further_run_replaces_nothing() -> None:
    """Otherwise a disturbed run that counts would be given up for a run without numbers."""
    runs = set_of(QUIET_NS[:5], {1: failed(*BUSY)})
    found = find_set(made_again(runs, failed("clock", state=State.INVALID)))
    assert (found.replaced_run_ids, len(found.counted)) == ((), 5)


def test_replaced_first_run_is_not_the_first_of_the_set() -> None:
    """Otherwise the outputs of the set would be those of the replaced run, and its order wrong."""
    runs = made_again(set_of([1400, *QUIET_NS[1:5]], {0: failed(*BUSY)}))
    assert find_set(runs).first is runs[5]
    assert next(rule for rule in find_set(runs).verdict.rules if rule.id == "trend").outcome is (
        RuleOutcome.PASS
    )
