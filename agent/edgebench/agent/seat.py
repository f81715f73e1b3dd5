"""A seat: a device of an agent, together with its name, its lease and its runs.

Theory of operation. A seat continues to exist when its device has left. While the device is
present, the seat is open: it has surroundings, a wiring and a runner. After the device has left,
the seat keeps its name, its finished runs and its lease. The runs can still be collected; the lease
cannot be taken. Any use of the device then raises `SeatLeft`.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path

from edgebench.agent.artifacts import ArtifactStore
from edgebench.agent.lease import Lease
from edgebench.agent.run import Runner
from edgebench.agent.running import ActiveRun, Listener
from edgebench.agent.spool import Spool
from edgebench.agent.surroundings import Surroundings
from edgebench.device_profiles.schema import Profile
from edgebench.meters.wiring import Wiring
from edgebench.protocol.device import DeviceDescription
from edgebench.protocol.errors import SeatLeft
from edgebench.protocol.messages import SeatState
from edgebench.protocol.record import Phase
from edgebench.protocol.sizes import format_bytes


@dataclass(frozen=True, slots=True)
class SeatPlan:
    """The data with which an agent opens a seat."""

    name: str
    device: DeviceDescription
    profile: Profile
    surroundings: Surroundings
    state: Path
    """Directory that contains the spool of the seat."""
    wiring: Wiring
    board: str = ""
    """Id of the device's board, equal before and after a new installation; empty if unknown."""


@dataclass(frozen=True, slots=True)
class _Equipment:
    """The parts of a seat that exist while its device is present."""

    surroundings: Surroundings
    wiring: Wiring
    runner: Runner
    life: asyncio.Task[None] | None
    """Task that advances a simulated device."""


class Seat:
    """A device with its lease, its run in progress and its spool."""

    def __init__(
        self,
        name: str,
        device: DeviceDescription,
        state: Path,
        *,
        board: str = "",
        left_s: float | None = None,
        wall_s: Callable[[], float] = time.time,
    ) -> None:
        """Create a seat without its device.

        Args:
            name: Name of the seat.
            device: The device, as last described.
            state: Directory that contains the spool of the seat.
            board: As in `SeatPlan`.
            left_s: Unix time at which the device left; None: now.
            wall_s: Clock that reads Unix time, which is comparable across agents.
        """
        self.name = name
        self.device = device
        self.board = board
        self.spool = Spool(state)
        self.lease = Lease(time.monotonic)
        self._wall_s = wall_s
        self.left_s: float | None = wall_s() if left_s is None else left_s
        """Unix time at which the device left; None while the device is present."""
        self._equipment: _Equipment | None = None
        self._present: Counter[str] = Counter()

    def open(self, plan: SeatPlan, models: ArtifactStore) -> None:
        """Open the seat, because its device is present now."""
        assert self._equipment is None
        self.device, self.board = plan.device, plan.board
        runner = Runner(
            plan.device,
            plan.profile,
            plan.surroundings,
            models,
            spool=self.spool,
            lease=self.lease,
            wiring=plan.wiring,
        )
        simulation = plan.surroundings.simulation
        life = asyncio.create_task(simulation.live()) if simulation else None
        self._equipment = _Equipment(plan.surroundings, plan.wiring, runner, life)
        self.left_s = None

    async def lose_device(self) -> None:
        """Handle the loss of the device: end the lease and the run, and wait for the run's end."""
        equipment = self._equipment
        assert equipment is not None
        self.left_s = self._wall_s()
        try:
            await equipment.runner.abandon(self._left_error())
        finally:
            self.lease.revoke()
            self._drop(equipment)

    async def end(self) -> None:
        """Stop the run in progress, if any, and wait until it is spooled."""
        if (equipment := self._equipment) is not None:
            await equipment.runner.end()
            self._drop(equipment)

    def _drop(self, equipment: _Equipment) -> None:
        if equipment.life is not None:
            equipment.life.cancel()
        self._equipment = None

    @property
    def is_target(self) -> bool:
        """Whether the device is present and is a target, not a machine that runs models."""
        return self._equipment is not None and self._equipment.surroundings.target is not None

    @property
    def is_there(self) -> bool:
        """Whether the device is present."""
        return self.left_s is None

    def require_device(self) -> None:
        """Check that the device is present.

        Raises:
            SeatLeft: the device has left.
        """
        if not self.is_there:
            raise self._left_error()

    def _left_error(self) -> SeatLeft:
        since = datetime.fromtimestamp(self.left_s or 0.0, timezone.utc)
        return SeatLeft(
            f"device {self.name} has been disconnected from its agent since "
            f"{since:%Y-%m-%d %H:%M:%S} UTC"
        )

    @property
    def surroundings(self) -> Surroundings:
        """Source of the governor, sensors and environment.

        Raises:
            SeatLeft: the device has left.
        """
        return self._there.surroundings

    @property
    def wiring(self) -> Wiring:
        """Meters and sync line at the device.

        Raises:
            SeatLeft: the device has left.
        """
        return self._there.wiring

    @property
    def runner(self) -> Runner:
        """The runner, which runs models on the device.

        Raises:
            SeatLeft: the device has left.
        """
        return self._there.runner

    @property
    def _there(self) -> _Equipment:
        self.require_device()
        assert self._equipment is not None
        return self._equipment

    @property
    def current(self) -> ActiveRun | None:
        """The run in progress, which may be the last run of a device that has just left."""
        return self._equipment.runner.current if self._equipment else None

    @property
    def running(self) -> str | None:
        """Id of the run in progress; None if there is no run."""
        return self.current.request.run_id if self.current else None

    @property
    def phase(self) -> Phase | None:
        """Phase of the run in progress; None if there is no run, or before its first phase."""
        run = self.current
        return run.progress.phase if run and run.progress else None

    def state(self) -> SeatState:
        """Current state of the device, for hosts that look for a free device."""
        if self.left_s is not None:
            gone_for_s = max(0.0, self._wall_s() - self.left_s)
            return SeatState(self.name, self.device, gone_for_s=gone_for_s)
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
        """Why no run can start on the device now; None if a run can start."""
        limit_c = self.surroundings.expected.abort_c
        if limit_c is not None and temp_c is not None and temp_c >= limit_c:
            return f"temperature is {temp_c:.1f} °C, the profile's limit is {limit_c:g} °C"
        waiting = self.spool.usage()[1]
        if waiting >= self.spool.quota_bytes:
            return f"the spool holds {format_bytes(waiting)} of uncollected runs"
        return None

    def inherit(self, holder: str, name: str, ttl_s: float) -> None:
        """Give this client the lease of a run in progress whose holder has disconnected."""
        current = self.lease.holder
        if current is not None and not self._present[current.identity]:
            self.lease.inherit(holder, name, ttl_s)

    def forget(self, listener: Listener) -> None:
        """Remove a disconnected listener from the run in progress."""
        if self._equipment is not None:
            self._equipment.runner.forget(listener)

    def enter(self, holder: str) -> None:
        """Count a new connection of this client."""
        self._present[holder] += 1

    def leave(self, holder: str) -> None:
        """Count a closed connection; the last connection of a client frees the client's lease."""
        self._present[holder] -= 1
        if self._present[holder] <= 0:
            del self._present[holder]
            self.lease.abandon(holder)
        self.lease.wake()  # the client may have been waiting
