"""The agent: its identity, models, spool, lease, and the run in progress."""

from __future__ import annotations

import asyncio
import ipaddress
import os
import shutil
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from edgebench.agent.artifacts import ArtifactStore
from edgebench.agent.identity import Trust
from edgebench.agent.lease import Lease
from edgebench.agent.network import own_addresses, useful_addresses
from edgebench.agent.run import Runner
from edgebench.agent.simulated import find_simulator
from edgebench.agent.spool import Spool
from edgebench.agent.system import (
    agent_version,
    describe_device,
    describe_environment,
    device_identity,
    is_emulated,
)
from edgebench.device_profiles.match import match_profile
from edgebench.meters.wiring import Wiring
from edgebench.protocol.device import RuntimeReport, SystemDescription
from edgebench.protocol.errors import UsageError
from edgebench.protocol.messages import Status

if TYPE_CHECKING:
    from edgebench.protocol.simulation import Simulation


@dataclass(frozen=True, slots=True)
class AgentSettings:
    """Settings with which an agent is started."""

    config: Path
    state: Path
    name: str | None = None
    listen: tuple[str | None, int] | None = None
    """Address (None: all) and port of the TLS door; None for the unix socket only."""
    idle_exit_s: float | None = None
    """Time without a connection or a run after which it stops; None: never."""
    is_advertised: bool = True
    models_quota_bytes: int | None = None
    wiring: Wiring = field(default_factory=Wiring)
    simulate: str | None = None
    """Name of a simulated board, and a seed: `raspberry-pi-5-bare:3`."""
    log: Path | None = None
    """File of its log, which is bounded; None: standard error."""


def _simulated(settings: AgentSettings) -> Simulation | None:
    """The simulated device, made anew in a directory of its own."""
    if settings.simulate is None:
        return None
    root = settings.state / "simulated"
    shutil.rmtree(root, ignore_errors=True)
    return find_simulator().simulate(settings.simulate, root)


class Agent:
    """The state of one agent."""

    def __init__(self, settings: AgentSettings) -> None:
        self._started_s = time.monotonic()
        self.trust = Trust(settings.config) if settings.listen else None
        self.simulated = _simulated(settings)
        root = self.simulated.root if self.simulated else Path("/")
        name = settings.name
        if settings.simulate:  # a simulated device says so wherever its name is shown
            name = f"{name or settings.simulate.partition(':')[0]}-simulated"
        self.device = describe_device(settings.state, name, root)
        profile = match_profile(device_identity(root))
        self.models = ArtifactStore(settings.state / "models")
        if settings.models_quota_bytes:
            self.models.quota_bytes = settings.models_quota_bytes
        self.spool = Spool(settings.state)
        self.lease = Lease(time.monotonic)
        self.runner = Runner(
            self.device,
            profile,
            self.models,
            self.spool,
            self.lease,
            self.simulated,
            state=settings.state,
            wiring=settings.wiring,
        )
        self._wiring = settings.wiring
        self.software = f"edgebench-agent {agent_version()}"
        self.port: int | None = None
        self._present: Counter[str] = Counter()
        self._listen_host = settings.listen[0] if settings.listen else None
        self._runtimes: asyncio.Task[tuple[RuntimeReport, ...]] | None = None
        self._probed_state: tuple[float, ...] = ()

    async def describe(self) -> SystemDescription:
        """The device as it is now; runtimes are probed again after something was installed."""
        from edgebench.agent.runtimes.registry import installed_state, probe_all

        state = installed_state()
        is_free = self.runner.current is None  # else a probe would take a core from its loop
        if self._runtimes is None or (state != self._probed_state and is_free):
            self._runtimes = asyncio.ensure_future(asyncio.to_thread(probe_all))
            self._probed_state = state
        runtimes = await asyncio.shield(self._runtimes)
        root = self.simulated.root if self.simulated else Path("/")
        return SystemDescription(
            self.device,
            describe_environment(clocks=root),
            runtimes,
            is_emulated(),
            simulated=self.simulated is not None,
            meters=self._wiring.meters,
            sync_line=self._wiring.sync_line,
            models_room_bytes=self.models.room_bytes(),
        )

    def addresses(self) -> tuple[str, ...]:
        """Addresses by which other machines reach this agent; none if it serves loopback only."""
        if self._listen_host is None or ipaddress.ip_address(self._listen_host).is_unspecified:
            return own_addresses()
        return useful_addresses([self._listen_host])

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

    def require_trust(self) -> Trust:
        """The pins, if this agent has a TLS door.

        Raises:
            UsageError: it has none.
        """
        if self.trust is None:
            raise UsageError(
                "the agent that runs here serves this machine only and ends by itself; "
                "then start one for others: edgebench-agent serve"
            )
        return self.trust

    def status(self) -> Status:
        """The state of the agent, for its owner."""
        holder = self.lease.holder
        spooled = self.spool.usage()
        models = self.models.usage()
        current = self.runner.current
        return Status(
            device=self.device,
            software=self.software,
            pid=os.getpid(),
            fingerprint=self.trust.fingerprint if self.trust else "",
            port=self.port,
            uptime_s=time.monotonic() - self._started_s,
            lease_holder=holder.name if holder else None,
            lease_expires_in_s=self.lease.expires_in_s(),
            running=current.request.run_id if current else None,
            spooled_count=spooled[0],
            spooled_bytes=spooled[1],
            models_count=models[0],
            models_bytes=models[1],
            models_quota_bytes=self.models.quota_bytes,
            paired_hosts=tuple(host.name for host in self.trust.hosts) if self.trust else (),
            meters=self._wiring.meters,
            sync_line=self._wiring.sync_line,
            is_root=os.geteuid() == 0,
        )
