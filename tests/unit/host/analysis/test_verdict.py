"""Verdict rules: each one passes on good evidence, and fails on evidence of its own."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from support.records import latencies, run_record, worker_record

from edgebench.host.analysis.latency import summarize
from edgebench.host.analysis.verdict import (
    RULES,
    Evidence,
    RuleOutcome,
    RuleResult,
    State,
    Verdict,
    judge,
)
from edgebench.protocol.record import HarnessFacts, MemoryFacts, Outcome, OutputFacts, RuntimeFacts

Change = Callable[[Evidence], Evidence]


def good() -> Evidence:
    """Evidence that nothing is wrong with."""
    latency_ns = latencies()
    worker = worker_record(latency_ns)
    record = run_record(worker)
    return Evidence(record, worker, summarize(latency_ns), latency_ns, int(latency_ns.sum()))


def record(**fields: Any) -> Change:
    """The agent's record with other fields."""
    return lambda evidence: replace(evidence, record=replace(evidence.record, **fields))


def spec(**fields: Any) -> Change:
    """The specification with other fields."""
    return lambda evidence: replace(
        evidence, record=replace(evidence.record, spec=replace(evidence.record.spec, **fields))
    )


def worker(**fields: Any) -> Change:
    """The worker's record with other fields."""
    return lambda evidence: replace(evidence, worker=replace(evidence.worker, **fields))


def delegates(requested: tuple[str, ...], used: tuple[str, ...]) -> Change:
    """Delegates that were asked for, and what became of them."""
    return worker(runtime=RuntimeFacts("tflite", "2.14.0", requested, used))


def full(evidence: Evidence) -> Evidence:
    """As many queries as allowed, in too short a time."""
    count = evidence.latency.count
    return spec(duration_s=3600.0, max_query_count=count)(evidence)


FAILING: list[tuple[str, State, Change]] = [
    ("complete", State.INVALID, record(outcome=Outcome.INTERRUPTED)),
    ("complete", State.INVALID, record(outcome=Outcome.FAILED)),
    ("real_time", State.INVALID, record(emulated=True)),
    ("enough_queries", State.INVALID, spec(min_query_count=501)),
    ("enough_time", State.INVALID, spec(duration_s=3600.0)),
    ("finite_outputs", State.INVALID, worker(output=OutputFacts("", is_finite=False))),
    ("delegation", State.INVALID, delegates(("xnnpack",), ())),
    ("delegation", State.INVALID, delegates(("cuda",), ("cpu",))),
    ("harness_dominates", State.INVALID, worker(harness=HarnessFacts(15_000, 15_000.0))),
    ("harness_share", State.SUSPECT, worker(harness=HarnessFacts(2_000, 2_000.0))),
    ("clock", State.INVALID, worker(wall_ns=(0, 1_000_000_000))),
    ("clock", State.INVALID, worker(monotonic_ns=(5, 5_000_000_005))),
    ("clock", State.INVALID, worker(wall_ns=(9_000_000, 8_000_000))),
    ("background_load", State.SUSPECT, worker(background_busy_ratio=0.11)),
    ("memory", State.SUSPECT, worker(memory=MemoryFacts(8 * 2**30, 0))),
]
UNKNOWN: list[tuple[str, Change]] = [
    ("delegation", delegates(("/opt/libedgetpu.so",), ())),
    ("background_load", worker(background_busy_ratio=None)),
    ("thermal", lambda evidence: evidence),
]
PASSING: list[tuple[str, Change]] = [
    ("enough_queries", spec(min_query_count=500)),
    ("enough_time", full),
    ("delegation", delegates(("none",), ())),
    ("delegation", delegates(("xnnpack",), ("xnnpack",))),
    ("harness_dominates", worker(harness=HarnessFacts(1_030, 1_030.0))),
    ("harness_share", worker(harness=HarnessFacts(1_000, 1_000.0))),
    ("background_load", worker(background_busy_ratio=0.10)),
]
NEVER_FAILS = {"thermal"}
"""Rules that say unknown until their analysis exists; this set may only shrink."""


def rule_of(verdict: Verdict, name: str) -> RuleResult:
    """One rule's answer."""
    (found,) = [rule for rule in verdict.rules if rule.id == name]
    return found


def test_good_evidence_is_valid_and_every_rule_has_looked() -> None:
    """A good run is thrown away, or a rule is never asked."""
    verdict = judge(good())
    assert verdict.state is State.VALID
    assert [rule.id for rule in verdict.rules] == [name for name, _, _ in RULES]
    others = {rule.id for rule in verdict.rules if rule.outcome is not RuleOutcome.PASS}
    assert others == NEVER_FAILS
    assert verdict.failures == ()


def test_every_rule_has_evidence_that_fails_it() -> None:
    """A rule is added that can never fail, and nobody notices."""
    assert {name for name, _, _ in FAILING} | NEVER_FAILS == {name for name, _, _ in RULES}


@pytest.mark.parametrize(("name", "state", "change"), FAILING, ids=[case[0] for case in FAILING])
def test_rule_fails_on_its_evidence_alone(name: str, state: State, change: Change) -> None:
    """A number that cannot be trusted is printed as valid."""
    verdict = judge(change(good()))
    rule = rule_of(verdict, name)
    assert rule.outcome is RuleOutcome.FAIL
    assert (rule.severity, verdict.state) == (state, state)
    assert rule.detail
    assert "\n" not in rule.detail
    also = {"harness_share"} if name == "harness_dominates" else set()
    assert {failed.id for failed in verdict.failures} == {name} | also


@pytest.mark.parametrize(("name", "change"), UNKNOWN, ids=[case[0] for case in UNKNOWN])
def test_rule_without_evidence_says_unknown_and_leaves_the_verdict(
    name: str, change: Change
) -> None:
    """What was not measured is guessed."""
    verdict = judge(change(good()))
    assert rule_of(verdict, name).outcome is RuleOutcome.UNKNOWN
    assert verdict.state is State.VALID


@pytest.mark.parametrize(("name", "change"), PASSING, ids=[case[0] for case in PASSING])
def test_rule_passes_at_its_limit(name: str, change: Change) -> None:
    """A limit is off by one."""
    assert rule_of(judge(change(good())), name).outcome is RuleOutcome.PASS


def test_worst_rule_decides_and_comes_first() -> None:
    """A suspect detail hides that the number is worthless."""
    both = worker(background_busy_ratio=0.5, output=OutputFacts("", is_finite=False))(good())
    verdict = judge(both)
    assert verdict.state is State.INVALID
    assert [rule.id for rule in verdict.failures] == ["finite_outputs", "background_load"]


def test_details_tell_the_value_and_the_limit() -> None:
    """A person reads that something is wrong, but not by how much."""
    verdict = judge(spec(min_query_count=501)(good()))
    assert rule_of(verdict, "enough_queries").detail == "500 queries, at least 501"


def test_zero_latencies_do_not_divide_by_zero() -> None:
    """A clock that does not move crashes the analysis."""
    latency_ns = np.zeros(500, np.int64)
    evidence = replace(good(), latency=summarize(latency_ns), latency_ns=latency_ns)
    assert judge(evidence).state is State.INVALID
