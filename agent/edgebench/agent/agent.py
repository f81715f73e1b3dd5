"""The agent: its identity, its models, and its seats (the devices that it serves)."""

from __future__ import annotations

import asyncio
import ipaddress
import os
import secrets
import time
from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from edgebench.agent.android import (
    AndroidProperties,
    AndroidSurroundings,
    describe_phone,
    identify,
    read_properties,
)
from edgebench.agent.artifacts import ArtifactStore
from edgebench.agent.claims import Claims
from edgebench.agent.cpu_ticks import own_cpus
from edgebench.agent.hardware import (
    changed_hardware,
    forget_hardware,
    read_hardware,
    remember_hardware,
)
from edgebench.agent.hotplug import Hotplug
from edgebench.agent.identity import Trust
from edgebench.agent.network import own_addresses, useful_addresses
from edgebench.agent.seat import Seat, SeatPlan
from edgebench.agent.seat_memory import SeatMemory
from edgebench.agent.seat_source import SeatSource
from edgebench.agent.simulated_seats import SimulatedDirectory, fixed_seats
from edgebench.agent.surroundings import LinuxSurroundings
from edgebench.agent.system import (
    agent_version,
    describe_device,
    device_identity,
    is_emulated,
    renew_device_id,
)
from edgebench.agent.target_seats import NO_BOARDS, TargetSource, target_seat
from edgebench.agent.targets import find_driver, runtime_report
from edgebench.agent.watches import Watches
from edgebench.device_profiles.match import match_profile
from edgebench.meters.wiring import Wiring, may_be_same_unit
from edgebench.protocol.device import RuntimeReport, SystemDescription
from edgebench.protocol.errors import LeaseHeld, NoSuchDevice, TargetDriverMissing, UsageError
from edgebench.protocol.hardware import Hardware
from edgebench.protocol.messages import Status
from edgebench.system.android_commands import is_android
from edgebench.system.python_environment import PythonEnvironment, this_environment

ROOT = Path("/")
"""Root of the files that describe the machine."""
MACHINE_SEAT = "machine"
"""Name of the seat whose device is the machine on which the agent runs."""
ON_DEMAND = "qemu:"
"""Prefix of the seat names of emulated boards; these seats are created on request."""
SEATS_DIRECTORY = "seats"
"""Directory that contains the state of all seats except the first."""


@dataclass(frozen=True, slots=True)
class AgentSettings:
    """Settings with which an agent is started."""

    config: Path
    state: Path
    name: str | None = None
    listen: tuple[str | None, int] | None = None
    """Address and port of the TLS listener; the address None means every address. Without this
    pair, the agent listens on its unix socket only."""
    idle_exit_s: float | None = None
    """The agent stops after this time without a connection or a run; None: it never stops."""
    is_advertised: bool = True
    models_quota_bytes: int | None = None
    wiring: Wiring = field(default_factory=Wiring)
    simulate: tuple[str, ...] = ()
    """Names of simulated boards, such as `raspberry-pi-5-bare:3` with the seed 3; each gets its own
    seat."""
    simulate_directory: Path | None = None
    """Directory in which each file describes a simulated board; a board is present while its file
    exists."""
    boards: tuple[str, ...] = ()
    """Ports that have a board, each as ADDRESS or NAME=ADDRESS; `none` disables all boards."""
    log: Path | None = None
    """Log file, whose size is bounded; None: the log goes to standard error."""
    environment: PythonEnvironment = field(default_factory=this_environment)
    """Environment of the command that started the agent."""


def machine_seat(
    settings: AgentSettings, hardware: Hardware, android: AndroidProperties | None = None
) -> SeatPlan:
    """Plan the seat of the agent's machine; if the hardware has changed, the device id is renewed.

    Args:
        settings: Settings of the agent.
        hardware: Hardware of the machine.
        android: Properties of the machine's system; None if it is not Android.
    """
    if changed_hardware(settings.state, hardware) is not None:
        renew_device_id(settings.state)
        forget_hardware(settings.state)
    remember_hardware(settings.state, hardware)
    surroundings: LinuxSurroundings
    if android is not None:
        device = describe_phone(android, settings.state, settings.name, ROOT)
        profile = match_profile(identify(android, ROOT))
        surroundings = AndroidSurroundings(
            android, profile, device.id, state=settings.state, root=ROOT
        )
    else:
        device = describe_device(settings.state, settings.name, ROOT)
        profile = match_profile(device_identity(ROOT))
        surroundings = LinuxSurroundings(profile, device.id, state=settings.state, root=ROOT)
    return SeatPlan(
        MACHINE_SEAT,
        device,
        profile,
        surroundings,
        settings.state,
        settings.wiring,
        hardware.board,
    )


def _fixed(
    settings: AgentSettings, hardware: Hardware, android: AndroidProperties | None
) -> Iterable[SeatPlan]:
    """The seats whose devices are present for the agent's whole life."""
    if not settings.simulate:
        return [machine_seat(settings, hardware, android)]
    seats = settings.state / SEATS_DIRECTORY
    return fixed_seats(
        settings.simulate, settings.state, seats, shown=settings.name, wiring=settings.wiring
    )


def _sources(settings: AgentSettings) -> Iterator[SeatSource]:
    """Sources of devices that may appear and leave.

    Raises:
        UsageError: a board's address is invalid.
        TargetDriverMissing: a board is named, and the firmware bridge is not installed.
    """
    if settings.simulate_directory is not None:
        yield SimulatedDirectory(settings.simulate_directory)
    if NO_BOARDS in settings.boards and settings.boards != (NO_BOARDS,):
        raise UsageError(
            "--board none turns microcontrollers off; omit it or the other --board options"
        )
    # An agent of simulated boards serves boards at the ports of this machine only if named.
    if settings.boards != (NO_BOARDS,) and (settings.boards or not settings.simulate):
        # Probing restarts boards, so an agent that a command starts for itself must not probe; only
        # an agent with a network listener does.
        is_probing = settings.listen is not None
        meters = settings.wiring.meters
        yield TargetSource(settings.boards, settings.state, is_probing=is_probing, meters=meters)


class Agent:
    """The seats of an agent, and the parts that all seats share."""

    def __init__(self, settings: AgentSettings) -> None:
        self._started_s = time.monotonic()
        android = AndroidProperties(read_properties(ROOT)) if is_android(ROOT) else None
        self.hardware = read_hardware(ROOT, android.serial if android else "")
        self.instance = secrets.token_hex(8)
        """Random value, drawn at each start, that distinguishes agents with the same identity."""
        self.trust = Trust(settings.config, hardware=self.hardware) if settings.listen else None
        self.models = ArtifactStore(settings.state / "models")
        if settings.models_quota_bytes:
            self.models.quota_bytes = settings.models_quota_bytes
        plans = _fixed(settings, self.hardware, android)
        self.seats = {plan.name: self._opened(plan) for plan in plans}
        self.watches = Watches()
        self.claims = Claims(settings.environment)
        self.seats_changed = asyncio.Event()
        """Event that is set when a device appears or leaves. The task that waits for the event
        clears it."""
        self.hotplug: Hotplug | None = None
        if sources := list(_sources(settings)):
            self.hotplug = Hotplug(self, sources, SeatMemory(settings.state / SEATS_DIRECTORY))
        self.software = f"edgebench-agent {agent_version()}"
        self.port: int | None = None
        self._listen_host = settings.listen[0] if settings.listen else None
        self._state = settings.state
        self._opening = asyncio.Lock()
        self._runtimes: asyncio.Task[tuple[RuntimeReport, ...]] | None = None
        self._probed_state: tuple[float, ...] = ()
        self._open_files: asyncio.Task[str | None] | None = None
        """Why a model's code could open the files of the agent's user; None if it could not.
        Checked only once, because the answer depends only on the kernel."""

    def _opened(self, plan: SeatPlan) -> Seat:
        seat = Seat(plan.name, plan.device, plan.state)
        seat.open(plan, self.models)
        return seat

    def seat_changed(self, seat: Seat) -> None:
        """Notify watchers and the advertisement that the device of a seat has appeared or left."""
        self.watches.seat_changed(seat)
        self.seats_changed.set()

    @property
    def first(self) -> Seat:
        """The default seat, for hosts that name no seat; its device is always present."""
        return next(iter(self.seats.values()))

    async def opened_seat(self, name: str) -> Seat:
        """The seat of this name; if it is an emulated target that is not open yet, it is opened.

        Raises:
            NoSuchDevice: no seat has this name, and no target with this name can be created.
            TargetDriverMissing: no target can be created, because the driver or QEMU is missing.
        """
        if name.startswith(ON_DEMAND) and name not in self.seats:
            async with self._opening:
                if name not in self.seats:
                    plan = await asyncio.to_thread(self._plan_on_demand, name)
                    self.seats[name] = self._opened(plan)
                    self.seat_changed(self.seats[name])
        return self.seat(name)

    def _plan_on_demand(self, name: str) -> SeatPlan:
        """Plan the seat of a target that this machine can emulate; called in a thread.

        Raises:
            NoSuchDevice: no target has this name.
            TargetDriverMissing: no target can be created here.
        """
        targets = {target.address: target for target in find_driver().on_demand()}
        if name in targets:
            directory = self._state / SEATS_DIRECTORY / name.replace(":", "-")
            return target_seat(name, targets[name], directory)
        if targets:
            raise NoSuchDevice(
                f"no emulated board is named {name[:64]!r}; available: {', '.join(targets)}"
            )
        raise TargetDriverMissing("the device cannot emulate a board: QEMU is not installed")

    @asynccontextmanager
    async def undisturbed(self, seat: Seat, meter: str | None = None) -> AsyncIterator[None]:
        """Context manager in whose body a run may start on this seat and use this meter.

        Several targets may have runs at the same time. These runs may not share a meter,
        because a meter is wired to a single target. A run on the machine itself excludes a run on a
        target, because driving the target takes CPU time from the run on the machine.

        Raises:
            LeaseHeld: a run is in progress that would disturb the new run, or that uses the same
                meter.
        """
        # A target may appear on a machine without targets while a run starts there. An agent of
        # simulated boards has no targets, and its seats may start at the same time.
        if len(self.seats) > 1 and not any(other.is_target for other in self.seats.values()):
            yield
            return
        async with self._opening:
            for other in self.seats.values():
                if other.running and other.is_target != seat.is_target:
                    raise LeaseHeld(
                        f"run {other.running} is in progress on {other.name}, and would disturb a "
                        f"run on {seat.name}"
                    )
                taken = other.current.request.spec.meter if other.current else None
                if meter and taken and may_be_same_unit(meter, taken):
                    raise LeaseHeld(
                        f"meter {meter} records run {other.running} on {other.name}, and cannot "
                        f"record a run on {seat.name} at the same time"
                    )
            yield

    def seat(self, name: str) -> Seat:
        """The seat of this name, or the first seat if `name` is empty.

        Raises:
            NoSuchDevice: no seat has this name.
        """
        if name and name not in self.seats:
            names = ", ".join(self.seats)
            raise NoSuchDevice(f"no device seat is named {name[:64]!r}; available: {names}")
        return self.seats[name] if name else self.first

    async def forget(self, seat: str) -> None:
        """Remove a seat whose device has left.

        Raises:
            NoSuchDevice: no seat has this name.
            UsageError: the device is present or permanent, or the seat has uncollected runs.
            TargetError: the disk failed.
        """
        if self.hotplug is None:
            raise UsageError(f"seat {self.seat(seat).name!r} belongs to a permanent device")
        await self.hotplug.forget(seat)

    @property
    def is_measuring(self) -> bool:
        """Whether a run is in progress on any seat."""
        return any(seat.running for seat in self.seats.values())

    @property
    def used_by(self) -> str | None:
        """Name of the host that holds a device, or `a run in progress`; None when idle."""
        holders = [seat.lease.holder for seat in self.seats.values()]
        names = [holder.name for holder in holders if holder is not None]
        if not names and self.is_measuring:
            return "a run in progress"
        return names[0] if names else None

    async def describe(self, seat: Seat) -> SystemDescription:
        """Describe a device as it is now; probe the runtimes again if packages have changed.

        Raises:
            SeatLeft: the device has left.
        """
        from edgebench.agent.confine.probe import why_files_open
        from edgebench.agent.runtimes.kept_reports import installed_state
        from edgebench.agent.runtimes.registry import probe_all

        seat.require_device()  # before the probes, which take seconds
        if (target := seat.surroundings.target) is not None:
            return SystemDescription(
                seat.device,
                seat.surroundings.environment(),
                (runtime_report(),),
                emulated=target.is_emulated,
                own_model=target.own_model,
                takes_own_file=target.takes_own_file,
                meters=seat.wiring.meters,
                models_room_bytes=self.models.room_bytes(),
            )
        state = installed_state()
        is_free = not self.is_measuring  # a probe would take CPU time from a timed loop
        if self._runtimes is None or (state != self._probed_state and is_free):
            self._runtimes = asyncio.ensure_future(asyncio.to_thread(probe_all))
            self._probed_state = state
        is_simulated = seat.surroundings.simulation is not None
        if self._open_files is None and not is_simulated:
            probing = asyncio.to_thread(why_files_open, self._state)
            self._open_files = asyncio.ensure_future(probing)
        runtimes = await asyncio.shield(self._runtimes)
        open_files = None
        if self._open_files is not None and not is_simulated:
            open_files = await asyncio.shield(self._open_files)
        return SystemDescription(
            seat.device,
            seat.surroundings.environment(),
            runtimes,
            is_emulated(),
            simulated=is_simulated,
            open_files=open_files,
            meters=seat.wiring.meters,
            sync_line=seat.wiring.sync_line,
            models_room_bytes=self.models.room_bytes(),
            usable_cpus=own_cpus(),
        )

    def addresses(self) -> tuple[str, ...]:
        """Addresses at which other machines reach this agent; empty if it serves only loopback."""
        if self._listen_host is None or ipaddress.ip_address(self._listen_host).is_unspecified:
            return own_addresses()
        return useful_addresses([self._listen_host])

    def require_trust(self) -> Trust:
        """The identity and the trusted hosts of the agent's TLS listener.

        Raises:
            UsageError: the agent has no TLS listener.
        """
        if self.trust is None:
            raise UsageError(
                "the running agent serves this machine only and stops when idle; once it has "
                "stopped, start a network agent: edgebench-agent serve"
            )
        return self.trust

    def status(self) -> Status:
        """State of the agent, for its owner; the lease and the run are those of the first seat."""
        first, seats = self.first, self.seats.values()
        holder = first.lease.holder
        spooled = [seat.spool.usage() for seat in seats]
        models = self.models.usage()
        return Status(
            device=first.device,
            software=self.software,
            pid=os.getpid(),
            fingerprint=self.trust.fingerprint if self.trust else "",
            port=self.port,
            uptime_s=time.monotonic() - self._started_s,
            lease_holder=holder.name if holder else None,
            lease_expires_in_s=first.lease.expires_in_s(),
            running=first.running,
            spooled_count=sum(count for count, _ in spooled),
            spooled_bytes=sum(size for _, size in spooled),
            models_count=models[0],
            models_bytes=models[1],
            models_quota_bytes=self.models.quota_bytes,
            paired_hosts=tuple(host.name for host in self.trust.hosts) if self.trust else (),
            meters=first.wiring.meters,
            sync_line=first.wiring.sync_line,
            is_root=os.geteuid() == 0,
            seats=tuple(seat.state() for seat in seats),
        )
