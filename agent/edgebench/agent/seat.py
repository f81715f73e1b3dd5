"""A seat: one device as an agent serves it."""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from edgebench.agent.artifacts import ArtifactStore
from edgebench.agent.lease import Lease
from edgebench.agent.run import Runner
from edgebench.agent.spool import Spool
from edgebench.agent.surroundings import Surroundings
from edgebench.device_profiles.schema import Profile
from edgebench.meters.wiring import Wiring
from edgebench.protocol.device import DeviceDescription


@dataclass(frozen=True, slots=True)
class SeatPlan:
    """What an agent knows of a seat before it opens it."""

    name: str
    device: DeviceDescription
    profile: Profile
    surroundings: Surroundings
    state: Path
    """Directory of its spool."""
    wiring: Wiring


class Seat:
    """A device with everything that is its own: the lease, the run in progress, the spool."""

    def __init__(self, plan: SeatPlan, models: ArtifactStore) -> None:
        self.name = plan.name
        self.device = plan.device
        self.surroundings = plan.surroundings
        self.wiring = plan.wiring
        self.spool = Spool(plan.state)
        self.lease = Lease(time.monotonic)
        self.runner = Runner(
            plan.device,
            plan.profile,
            plan.surroundings,
            models,
            spool=self.spool,
            lease=self.lease,
            wiring=plan.wiring,
        )
        self._present: Counter[str] = Counter()

    @property
    def running(self) -> str | None:
        """Id of the run in progress."""
        run = self.runner.current
        return run.request.run_id if run else None

    def enter(self, holder: str) -> None:
        """Count a new connection of this client."""
        self._present[holder] += 1

    def leave(self, holder: str) -> None:
        """Count a connection less; with the last one, the lease of this client is free."""
        self._present[holder] -= 1
        if self._present[holder] <= 0:
            del self._present[holder]
            self.lease.abandon(holder)
        self.lease.wake()  # it may have been waiting
