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
from edgebench.protocol.messages import SeatState
from edgebench.protocol.record import Phase


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
    board: str = ""
    """Id of the board that carries it, which a new system keeps; empty where none is known."""


class Seat:
    """A device with everything that is its own: the lease, the run in progress, the spool."""

    def __init__(self, plan: SeatPlan, models: ArtifactStore) -> None:
        self.name = plan.name
        self.device = plan.device
        self.board = plan.board
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

    @property
    def phase(self) -> Phase | None:
        """Phase of the run in progress."""
        run = self.runner.current
        return run.progress.phase if run and run.progress else None

    def state(self) -> SeatState:
        """The device as it is now, for hosts that look for a free one."""
        holder, temp_c = self.lease.holder, self.surroundings.temp_c()
        return SeatState(
            name=self.name,
            device=self.device,
            held_by=holder.name if holder else None,
            held_for_s=self.lease.held_for_s(),
            running=self.running,
            temp_c=temp_c,
            fault=self._fault(temp_c),
            phase=self.phase,
        )

    def _fault(self, temp_c: float | None) -> str | None:
        """Why no run can start here now."""
        limit_c = self.surroundings.expected.abort_c
        if limit_c is not None and temp_c is not None and temp_c >= limit_c:
            return f"it has {temp_c:.1f} °C: the profile's limit is {limit_c:g} °C"
        waiting = self.spool.usage()[1]
        if waiting >= self.spool.quota_bytes:
            return f"its spool holds {waiting} bytes of uncollected runs"
        return None

    def inherit(self, holder: str, name: str, ttl_s: float) -> None:
        """Give this client the lease of the run in progress, if nobody is there who holds it."""
        current = self.lease.holder
        if current is not None and not self._present[current.identity]:
            self.lease.inherit(holder, name, ttl_s)

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
