"""The rule about the sampler: for what it was requested, and what it may cost."""

from __future__ import annotations

from dataclasses import replace

import pytest
from support.records import latencies, run_record, traces_of, worker_record

from edgebench.host.analysis.measurement import measure_traces
from edgebench.host.analysis.verdict.evidence import Evidence
from edgebench.host.analysis.verdict.judge import judge
from edgebench.host.result.facts import HostFacts
from edgebench.host.result.verdict import RuleOutcome
from edgebench.host.show.sentences import sentence
from edgebench.protocol.record import Scheduling


def watched(*, cpu_s: float, rate_hz: float = 10.0, cpus: tuple[int, ...] = ()) -> Evidence:
    """Return a run of a device with four CPUs that was watched for 100 s."""
    bound = Scheduling(cpus or (0, 1, 2, 3), "other", 0)
    worker = replace(worker_record(latencies()), scheduling=bound)
    record = run_record(worker)
    cpu = replace(record.environment.cpu, usable_count=4)
    record = replace(
        record,
        spec=replace(record.spec, cpus=cpus, telemetry_rate_hz=rate_hz),
        environment=replace(record.environment, cpu=cpu),
        telemetry=replace(record.telemetry, cpu_s=cpu_s, wall_s=100.0, rate_hz=rate_hz or 1.0),
    )
    measured = measure_traces(record, worker, traces_of(latencies()))
    return Evidence(record, worker, measured, HostFacts())


def judged(evidence: Evidence) -> tuple[bool, str]:
    """Return whether the rule about the sampler is kept, and its sentence."""
    (found,) = [rule for rule in judge(evidence).rules if rule.id == "telemetry"]
    assert found.outcome in (RuleOutcome.PASS, RuleOutcome.FAIL)
    return found.outcome is RuleOutcome.PASS, sentence(found)


@pytest.mark.parametrize(
    ("cpu_s", "cpus", "expected"),
    [
        (0.9, (), (True, "0.90 % of a CPU, limit 1 %")),
        (1.0001, (), (False, "1.01 % of a CPU, limit 1 %")),
        (1.5, (3,), (True, "1.50 % of a CPU, limit 2 %")),
        (2.0001, (3,), (False, "2.01 % of a CPU, limit 2 %")),
        (1.5, (0, 1, 2, 3), (False, "1.50 % of a CPU, limit 1 %")),
    ],
)
def test_watching_may_cost_more_where_it_takes_nothing_from_the_model(
    cpu_s: float, cpus: tuple[int, ...], expected: tuple[bool, str]
) -> None:
    """Otherwise a sampler on another CPU would make a run suspect, or 1.00 % exceed 1 %."""
    is_kept, text = judged(watched(cpu_s=cpu_s, cpus=cpus))
    assert (is_kept, text.partition("the sampler took ")[2]) == expected


def test_looks_of_the_guard_alone_are_called_that() -> None:
    """Otherwise unrequested telemetry would be present, and reported as absent."""
    is_kept, text = judged(watched(cpu_s=0.1, rate_hz=0.0))
    assert is_kept
    assert "sensors at 1 Hz, read only to enforce the temperature limit; the sampler took" in text
