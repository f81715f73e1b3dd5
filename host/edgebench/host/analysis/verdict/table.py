"""The rules that a run has to keep: each looks at one thing and tells its numbers.

A rule answers True (kept), False (broken) or None (cannot tell), with one line of detail.
"""

from __future__ import annotations

from edgebench.host.analysis.verdict import energy, machine, placement, run, thermal
from edgebench.host.analysis.verdict import outputs as answers
from edgebench.host.analysis.verdict.evidence import Rule, State

RULES: tuple[tuple[str, State, Rule], ...] = (
    ("complete", State.INVALID, run.complete),
    ("real_time", State.INVALID, run.real_time),
    ("real_device", State.SUSPECT, run.real_device),
    ("enough_queries", State.INVALID, run.enough_queries),
    ("enough_time", State.INVALID, run.enough_time),
    ("keeps_up", State.INVALID, run.keeps_up),
    ("latency_target", State.INVALID, run.latency_target),
    ("loadgen", State.INVALID, run.loadgen),
    ("finite_outputs", State.INVALID, answers.finite_outputs),
    ("accuracy_floor", State.INVALID, answers.accuracy(answers.ACCURACY_INVALID_RATIO)),
    ("accuracy", State.SUSPECT, answers.accuracy(answers.ACCURACY_SUSPECT_RATIO)),
    ("agreement", State.INVALID, answers.agreement),
    ("agreement_of_all", State.SUSPECT, answers.agreement_of_all),
    ("delegation", State.INVALID, placement.delegation),
    ("delegated_share", State.SUSPECT, placement.delegated_share),
    ("profile", State.INVALID, run.profiled),
    ("harness_dominates", State.INVALID, run.harness_share(run.HARNESS_INVALID_RATIO)),
    ("harness_share", State.SUSPECT, run.harness_share(run.HARNESS_SUSPECT_RATIO)),
    ("steady_state", State.SUSPECT, run.steady_state),
    ("steady_share", State.SUSPECT, run.steady_share),
    ("clock", State.INVALID, machine.clock(machine.CLOCK_INVALID_RATIO)),
    ("clock_drift", State.SUSPECT, machine.clock(machine.CLOCK_SUSPECT_RATIO)),
    ("frequency", State.SUSPECT, machine.frequency),
    ("scheduling", State.SUSPECT, machine.scheduling),
    ("cpu_share", State.SUSPECT, machine.cpu_share),
    ("background_load", State.SUSPECT, machine.background_load),
    ("cpu_pressure", State.SUSPECT, machine.stall("cpu", machine.CPU_STALL_LIMIT_RATIO)),
    ("memory_pressure", State.SUSPECT, machine.stall("memory", machine.MEMORY_STALL_LIMIT_RATIO)),
    ("memory", State.SUSPECT, machine.memory),
    ("swap", State.SUSPECT, machine.swap),
    ("thermal", State.SUSPECT, thermal.thermal),
    ("interference", State.SUSPECT, thermal.interference),
    ("start_temperature", State.SUSPECT, thermal.start_temperature),
    ("nominal_clock", State.SUSPECT, thermal.nominal_clock),
    ("cooldown", State.SUSPECT, thermal.cooldown),
    ("telemetry", State.SUSPECT, thermal.telemetry),
    ("meter", State.SUSPECT, energy.meter),
    ("energy_sync", State.SUSPECT, energy.sync),
    ("energy_idle", State.SUSPECT, energy.idle),
    ("energy", State.SUSPECT, energy.energy),
)
"""Id, severity and rule, in the order in which a person should read them."""
MILDER = {
    "harness_dominates": "harness_share",
    "accuracy_floor": "accuracy",
    "delegation": "delegated_share",
    "clock": "clock_drift",
    "agreement": "agreement_of_all",
    "meter": "energy",
    "energy_sync": "energy",
}
"""Rules that look at the same number with a milder limit, or follow: said once is enough."""
