"""What the rules look at, and what they answer."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from edgebench.host.analysis.measurement import Measurement
from edgebench.host.result.energy import EnergyResult
from edgebench.host.result.facts import HostFacts
from edgebench.protocol.record import RunRecord, WorkerRecord


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
    def issued_rows(self) -> int:
        """Timed inferences that were made."""
        return self.worker.query_count - self.worker.warmup_query_count

    @property
    def loop_s(self) -> float:
        """How long the timed loop took."""
        return (self.worker.after.monotonic_ns - self.worker.before.monotonic_ns) / 1e9

    @property
    def is_scheduled(self) -> bool:
        """The queries arrived by a schedule."""
        return self.record.spec.scenario.traits.is_scheduled


Rule = Callable[[Evidence], tuple[bool | None, str]]
