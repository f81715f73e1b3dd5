"""Evidence for the rules of a run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from edgebench.host.result.energy import EnergyResult
from edgebench.host.result.facts import HostFacts
from edgebench.protocol.clock import ClockModel
from edgebench.protocol.record import MeasuredRecord, RunRecord, WorkerRecord

TYPE_CHECKING = False  # see edgebench.host
if TYPE_CHECKING:
    from edgebench.host.analysis.measurement import Measurement


@dataclass(frozen=True, slots=True)
class Evidence:
    """Evidence for the rules of a device with an agent."""

    record: RunRecord
    worker: WorkerRecord
    measured: Measurement
    facts: HostFacts
    energy: EnergyResult | None = None
    """Energy of the run; None if no meter was requested."""
    clock: ClockModel | None = None
    """Model of the device's clock relative to the host's clock; None without probes."""

    @property
    def measured_record(self) -> MeasuredRecord:
        """Record of the process that measured."""
        return self.worker

    @property
    def is_of_several(self) -> bool:
        """Whether the run is part of a set or a pair, so that the spread between runs counts."""
        return self.facts.member is not None or self.facts.pair is not None

    @property
    def issued_rows(self) -> int:
        """Number of timed inferences, which excludes the inferences of the issued warm-up."""
        return self.worker.query_count - self.worker.warmup_query_count

    @property
    def loop_s(self) -> float:
        """Duration of the timed loop, in seconds of the monotonic clock."""
        return (self.worker.after.monotonic_ns - self.worker.before.monotonic_ns) / 1e9

    @property
    def is_scheduled(self) -> bool:
        """Whether the queries arrived by a schedule."""
        return self.record.spec.scenario.traits.is_scheduled


class MeteredEvidence(Protocol):
    """Evidence for the rules about energy, for every kind of device."""

    @property
    def energy(self) -> EnergyResult | None:
        """Energy of the run; None if no meter was requested."""
        ...
