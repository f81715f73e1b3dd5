"""The rules of a run, a target and a set, in the order in which they are shown."""

from __future__ import annotations

from typing import Any

from edgebench.host.analysis.verdict import (
    clock,
    energy,
    latency,
    machine,
    outputs,
    phone,
    placement,
    run,
    run_set,
    set_heat,
    target,
    thermal,
    yardstick,
)
from edgebench.host.analysis.verdict.cause import Cause
from edgebench.host.analysis.verdict.evidence import Evidence
from edgebench.host.analysis.verdict.rule import Rule, RuleReason
from edgebench.host.analysis.verdict.run_set import SetEvidence
from edgebench.host.analysis.verdict.target import TargetEvidence
from edgebench.host.result.run import Run
from edgebench.host.result.verdict import Finding

RULES: tuple[Rule[Evidence], ...] = (
    *run.RUN_RULES,
    *outputs.OUTPUT_RULES,
    *placement.PLACEMENT_RULES,
    *latency.LATENCY_RULES,
    *clock.CLOCK_RULES,
    *machine.MACHINE_RULES,
    yardstick.YardstickRule(),
    *phone.PHONE_RULES,
    *thermal.THERMAL_RULES,
    *energy.ENERGY_RULES,
)
TARGET_RULES: tuple[Rule[TargetEvidence], ...] = (
    *target.RULES_OF_RUN,
    outputs.FiniteOutputsRule(),
    target.DatasetCompleteRule(),
    *outputs.QUALITY_RULES,
    *target.RULES_OF_DEVICE,
    *energy.METERED_TARGET_RULES,
)
"""Rules for a target that timed itself. If a rule has the name of a rule in `RULES`, both check the
same condition."""
SET_RULES: tuple[Rule[SetEvidence], ...] = (
    *run_set.RULES_BETWEEN_RUNS,
    *set_heat.SET_HEAT_RULES,
    yardstick.YardstickOfSetRule(),
)
ALL_RULES: tuple[Rule[Any], ...] = (*RULES, *TARGET_RULES, *SET_RULES)
BY_ID: dict[str, Rule[Any]] = {rule.id: rule for rule in ALL_RULES}
"""Maps names to rules. If two rules have the same name, the map has the rule for targets, which has
the reasons of both rules."""


def kind_of(finding: Finding) -> RuleReason[Any] | None:
    """Kind of a finding's reason; None if this version does not have the rule or the reason."""
    rule = BY_ID.get(finding.id)
    return None if rule is None else rule.reasons().get(finding.reason or "")


def cause_of(finding: Finding) -> Cause | None:
    """Cause of a finding, which is the cause of its reason or else of its rule.

    The result is None if this version does not have the rule.
    """
    kind, rule = kind_of(finding), BY_ID.get(finding.id)
    if kind is not None and kind.cause is not None:
        return kind.cause
    return rule.cause if rule is not None else None


def was_stopped(stopped: Run) -> bool:
    """Whether a run, or its data set, was stopped by a user.

    A run that became too hot or reached its time limit does not count as stopped by a user, because
    it would end the same way again.
    """
    return any(
        run.CompleteRule.was_stopped(finding) or target.DatasetCompleteRule.was_stopped(finding)
        for finding in stopped.verdict.failures
    )
