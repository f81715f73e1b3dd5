"""The rules that a run has to keep, in the order in which a person should read them."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Any, Generic

from edgebench.host.analysis.verdict import (
    energy,
    machine,
    outputs,
    phone,
    placement,
    run,
    target,
    thermal,
)
from edgebench.host.analysis.verdict.evidence import Evidence, EvidenceT, RuleCheck
from edgebench.host.analysis.verdict.target import TargetEvidence
from edgebench.host.result.verdict import Finding, State


class Cause(Enum):
    """What several rules may be signs of: shown once, by the first of them that failed."""

    BUSY_MACHINE = "busy_machine"
    MEMORY = "memory"
    HEAT = "heat"
    SCATTER = "scatter"
    QUOTA = "quota"


class WatchedQuantity(Enum):
    """What rules watch for the whole of a run, where the device lets them."""

    CLOCK = "clock"
    HEAT = "heat"
    LOAD = "load"


@dataclass(frozen=True, slots=True)
class Rule(Generic[EvidenceT]):
    """One row: what is looked at, and what the run becomes when it fails."""

    id: str
    severity: State
    check: RuleCheck[EvidenceT]
    includes: str | None = None
    """Rule with a milder limit on the same number: said once is enough."""
    cause: Cause | None = None
    watches: WatchedQuantity | None = None
    """What was not watched if all rules that watch it are unknown."""


_INVALID, _SUSPECT = State.INVALID, State.SUSPECT
_BUSY, _MEMORY, _HEAT = Cause.BUSY_MACHINE, Cause.MEMORY, Cause.HEAT
_SCATTER = Cause.SCATTER
_CLOCK, _TEMPERATURE, _LOAD = WatchedQuantity.CLOCK, WatchedQuantity.HEAT, WatchedQuantity.LOAD

_OUTPUT_RULES: tuple[Rule[Any], ...] = (
    Rule("accuracy_floor", _INVALID, outputs.accuracy_floor, includes="accuracy"),
    Rule("accuracy", _SUSPECT, outputs.accuracy),
    Rule("agreement", _INVALID, outputs.agreement, includes="agreement_of_all"),
    Rule("agreement_of_all", _SUSPECT, outputs.agreement_of_all),
)
"""Outputs are judged alike, whether the worker or the target timed the inferences."""
RULES: tuple[Rule[Evidence], ...] = (
    Rule("complete", _INVALID, run.complete),
    Rule("real_time", _INVALID, run.real_time),
    Rule("real_device", _SUSPECT, run.real_device),
    Rule("enough_queries", _INVALID, run.enough_queries),
    Rule("enough_time", _INVALID, run.enough_time),
    Rule("keeps_up", _INVALID, run.keeps_up),
    Rule("latency_target", _INVALID, run.latency_target),
    Rule("loadgen", _INVALID, run.loadgen),
    Rule("finite_outputs", _INVALID, outputs.finite_outputs),
    *_OUTPUT_RULES,
    Rule("delegation", _INVALID, placement.delegation, includes="delegated_share"),
    Rule("delegated_share", _SUSPECT, placement.delegated_share),
    Rule("profile", _INVALID, run.profiled),
    Rule("harness_dominates", _INVALID, run.harness_dominates, includes="harness_share"),
    Rule("harness_share", _SUSPECT, run.harness_share),
    Rule("binding_share", _SUSPECT, run.binding_share),
    Rule("steady_state", _SUSPECT, run.steady_state, cause=_SCATTER),
    Rule("steady_share", _SUSPECT, run.steady_share),
    Rule("precision_floor", _INVALID, run.precision_floor, includes="precision"),
    Rule("precision", _SUSPECT, run.precision, cause=_SCATTER),
    Rule("spread", _SUSPECT, run.spread, cause=_SCATTER),
    Rule("block_stability", _SUSPECT, run.block_stability, cause=_SCATTER),
    Rule("clock", _INVALID, machine.clock, includes="clock_drift"),
    Rule("clock_drift", _SUSPECT, machine.clock_drift),
    Rule("frequency", _SUSPECT, machine.frequency, watches=_CLOCK),
    Rule("scheduling", _SUSPECT, machine.scheduling),
    Rule("cpu_quota", _SUSPECT, machine.cpu_quota, cause=Cause.QUOTA),
    Rule("background_load", _SUSPECT, machine.background_load, cause=_BUSY, watches=_LOAD),
    Rule("cpu_pressure", _SUSPECT, machine.cpu_pressure, cause=_BUSY, watches=_LOAD),
    Rule("cpu_share", _SUSPECT, machine.cpu_share, cause=_BUSY),
    Rule("memory_pressure", _SUSPECT, machine.memory_pressure, cause=_MEMORY),
    Rule("memory", _SUSPECT, machine.memory, cause=_MEMORY),
    Rule("swap", _SUSPECT, machine.swap, cause=_MEMORY),
    Rule("suspended", _SUSPECT, phone.suspended),
    Rule("charging", _SUSPECT, phone.charging),
    Rule("screen", _SUSPECT, phone.screen),
    Rule("power_saver", _SUSPECT, phone.power_saver),
    Rule("phone_settings", _SUSPECT, phone.phone_settings),
    Rule("scheduling_group", _SUSPECT, phone.scheduling_group),
    Rule(
        "thermal_status_moderate",
        _INVALID,
        phone.thermal_status_moderate,
        includes="thermal_status",
        cause=_HEAT,
        watches=_TEMPERATURE,
    ),
    Rule("thermal_status", _SUSPECT, phone.thermal_status, cause=_HEAT, watches=_TEMPERATURE),
    Rule("thermal", _SUSPECT, thermal.thermal, cause=_HEAT, watches=_TEMPERATURE),
    Rule("interference", _SUSPECT, thermal.interference),
    Rule(
        "start_temperature", _SUSPECT, thermal.start_temperature, cause=_HEAT, watches=_TEMPERATURE
    ),
    Rule("nominal_clock", _SUSPECT, thermal.nominal_clock, watches=_CLOCK),
    Rule("cooldown", _SUSPECT, thermal.cooldown, cause=_HEAT),
    Rule("telemetry", _SUSPECT, thermal.telemetry),
    Rule("meter", _SUSPECT, energy.meter),
    Rule("energy_sync", _SUSPECT, energy.sync),
    Rule("energy_idle", _SUSPECT, energy.idle),
    Rule("energy", _SUSPECT, energy.energy),
)
TARGET_RULES: tuple[Rule[TargetEvidence], ...] = (
    Rule("complete", _INVALID, target.complete),
    Rule("real_time", _INVALID, target.real_time),
    Rule("real_device", _SUSPECT, target.real_device),
    Rule("enough_queries", _INVALID, target.enough_queries),
    Rule("enough_time", _INVALID, target.enough_time),
    Rule("enough_windows", _SUSPECT, target.enough_windows),
    Rule("finite_outputs", _INVALID, outputs.finite_outputs),
    Rule("dataset_complete", _SUSPECT, target.dataset_complete),
    *_OUTPUT_RULES,
    Rule("known_model", _SUSPECT, target.known_model),
    Rule("inputs_read_back", _SUSPECT, target.inputs_read_back),
    Rule("window_range", _SUSPECT, target.window_range),
    Rule("target_clock", _INVALID, target.target_clock, watches=_CLOCK),
    Rule("thermal", _SUSPECT, target.thermal, watches=_TEMPERATURE),
    Rule("meter", _SUSPECT, energy.meter),
    Rule("energy_windows", _SUSPECT, energy.energy_windows),
    Rule("energy", _SUSPECT, energy.energy),
)
"""Rules for a target that timed itself; one of the same name as above looks at the same thing."""

ALL_RULES: tuple[Rule[Any], ...] = (*RULES, *TARGET_RULES)
BY_ID: dict[str, Rule[Any]] = {rule.id: rule for rule in ALL_RULES}
"""By name; those of one name look at the same thing, and are as severe."""


def cause_of(finding: Finding) -> Cause | None:
    """Possible cause of a finding: that of its rule, or a quota that makes the rule fail."""
    if finding.reason == machine.QUOTA:
        return Cause.QUOTA
    rule = BY_ID.get(finding.id)
    return rule.cause if rule is not None else None
