"""What the rules look at, and what they return."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol, TypeVar

from edgebench.host.result.energy import EnergyResult
from edgebench.host.result.facts import HostFacts
from edgebench.host.result.verdict import Fact, RuleOutcome
from edgebench.protocol.record import MeasuredRecord, RunRecord, WorkerRecord

TYPE_CHECKING = False  # see edgebench.host
if TYPE_CHECKING:
    from edgebench.host.analysis.measurement import Measurement


@dataclass(frozen=True, slots=True)
class Evidence:
    """What the rules look at."""

    record: RunRecord
    worker: WorkerRecord
    measured: Measurement
    facts: HostFacts
    energy: EnergyResult | None = None
    """None: no meter was asked for."""

    @property
    def measured_record(self) -> MeasuredRecord:
        """Record of the process that measured."""
        return self.worker

    @property
    def is_of_several(self) -> bool:
        """Whether it is one of a set or of pairs, whose interval is that between the runs."""
        return self.facts.member is not None or self.facts.pair is not None

    @property
    def issued_rows(self) -> int:
        """Timed inferences that were made."""
        return self.worker.query_count - self.worker.warmup_query_count

    @property
    def loop_s(self) -> float:
        """Duration of the timed loop."""
        return (self.worker.after.monotonic_ns - self.worker.before.monotonic_ns) / 1e9

    @property
    def is_scheduled(self) -> bool:
        """Whether the queries arrived by a schedule."""
        return self.record.spec.scenario.traits.is_scheduled


class MeteredEvidence(Protocol):
    """What the rules about energy look at, of every kind of device."""

    @property
    def energy(self) -> EnergyResult | None:
        """Energy of the run; None: no meter was asked for."""
        ...


@dataclass(frozen=True, slots=True)
class Ruling:
    """What one rule found; `show.sentences` has a sentence for each rule and reason."""

    outcome: RuleOutcome
    reason: str | None
    value: float | None
    limit: float | None
    unit: str | None
    facts: Mapping[str, Fact]


EvidenceT = TypeVar("EvidenceT")
RuleCheck = Callable[[EvidenceT], Ruling]


def at_most(
    value: float,
    limit: float,
    unit: str,
    reason: str | None = None,
    facts: Mapping[str, Fact] | None = None,
) -> Ruling:
    """Kept as long as the value is not above the limit."""
    return holds(value <= limit, reason, facts, value=value, limit=limit, unit=unit)


def at_least(
    value: float,
    limit: float,
    unit: str,
    reason: str | None = None,
    facts: Mapping[str, Fact] | None = None,
) -> Ruling:
    """Kept as long as the value is not below the limit."""
    return holds(value >= limit, reason, facts, value=value, limit=limit, unit=unit)


def holds(
    is_kept: bool,
    reason: str | None = None,
    facts: Mapping[str, Fact] | None = None,
    *,
    value: float | None = None,
    limit: float | None = None,
    unit: str | None = None,
) -> Ruling:
    """Kept, or broken."""
    outcome = RuleOutcome.PASS if is_kept else RuleOutcome.FAIL
    return Ruling(outcome, reason, value, limit, unit, facts or {})


def unknown(reason: str, facts: Mapping[str, Fact] | None = None) -> Ruling:
    """Checked, but the evidence for an answer is missing."""
    return Ruling(RuleOutcome.UNKNOWN, reason, None, None, None, facts or {})


def not_applicable(reason: str, facts: Mapping[str, Fact] | None = None) -> Ruling:
    """Never asked: the run has nothing that the rule looks at."""
    return Ruling(RuleOutcome.NOT_APPLICABLE, reason, None, None, None, facts or {})
