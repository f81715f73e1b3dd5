"""What the rules look at, and what they answer."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

from edgebench.host.analysis.energy.result import RunEnergy
from edgebench.host.analysis.measurement import HostFacts, Measurement
from edgebench.protocol.record import RunRecord, WorkerRecord
from edgebench.protocol.spec import Scenario


class State(str, Enum):
    """The verdict of a run."""

    VALID = "valid"
    SUSPECT = "suspect"
    INVALID = "invalid"


@dataclass(frozen=True, slots=True)
class Evidence:
    """What the rules look at."""

    record: RunRecord
    worker: WorkerRecord
    measured: Measurement
    facts: HostFacts
    energy: RunEnergy | None = None
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
    def is_server(self) -> bool:
        """The queries arrived by a schedule."""
        return self.record.spec.scenario is Scenario.SERVER


Rule = Callable[[Evidence], tuple[bool | None, str]]
