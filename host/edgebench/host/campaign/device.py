"""What a campaign does on one device, by the host that the device is paired with."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass, field, replace
from typing import Protocol

from edgebench.host.bench.cancellation import Cancellation, Interrupted
from edgebench.host.bench.collect import OnProblem, collect_waiting, settle_lost
from edgebench.host.bench.finish import Finish
from edgebench.host.bench.follow import follow
from edgebench.host.bench.lanes import Target
from edgebench.host.bench.lease import take_lease
from edgebench.host.bench.plan import (
    Step,
    refuse_too_large,
    refuse_unseen_edges,
    run_request,
    runtimes_for,
    runtimes_of_targets,
)
from edgebench.host.bench.request import BenchRequest
from edgebench.host.bench.run import DeviceLane, measure
from edgebench.host.bench.watcher import Place, Watcher
from edgebench.host.campaign.journal import NO_LAB, DeviceAtLab
from edgebench.host.campaign.plan import Cell, attempt_name
from edgebench.host.client import Client
from edgebench.host.devices.files import KnownDevice
from edgebench.host.power.metering import OpenMeter
from edgebench.host.result.facts import SetMember
from edgebench.host.result.outputs import ReferenceAccuracy
from edgebench.host.result.run import Run
from edgebench.host.store.layout import Store
from edgebench.protocol.device import SystemDescription
from edgebench.protocol.errors import (
    EdgebenchError,
    LabHostsUnreachable,
    LeaseHeld,
    MeterLost,
    NoSpace,
    RunDamaged,
    RunSetAside,
    SeatLeft,
    StoreError,
    TooLarge,
    TransportError,
    UsageError,
)

_PASSING = (TransportError, LeaseHeld, NoSpace, SeatLeft, MeterLost, StoreError)
"""Errors of the place and not of the run: they may pass, and the run is still to be made."""
_LASTING = (TooLarge, RunDamaged, LabHostsUnreachable)
"""Among them, those that were waited for already, or never pass."""


def may_pass(error: EdgebenchError) -> bool:
    """Whether it is worth waiting: a link, disk, device or meter that comes back."""
    return isinstance(error, _PASSING) and not isinstance(error, _LASTING)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOrder:
    """One attempt at a run of a campaign."""

    cell: Cell
    place: Place
    member: SetMember | None = None
    references: Mapping[str, ReferenceAccuracy] = field(default_factory=dict)
    """What the reference model of the cell has achieved, by runtime, the newest last."""


class CampaignDevice(Protocol):
    """A device while a campaign measures on it."""

    @property
    def at(self) -> DeviceAtLab:
        """The lab host by which it is reached; `NO_LAB`: this host."""
        ...

    def settle(self, kept: Callable[[Run], None], refused: OnProblem) -> None:
        """Bring everything that was begun on it into the store; the device is ours afterwards.

        Args:
            kept: Called with each run that is stored, and did not fail.
            refused: Called with each run that cannot be stored, and never will be.

        Raises:
            Interrupted: the command was cancelled.
            EdgebenchError: it cannot be reached, or is in use.
        """
        ...

    def make(self, order: RunOrder, new_id: Callable[[], str]) -> Run:
        """Make one attempt, and store it.

        Args:
            order: The attempt.
            new_id: Gives the run its id, right before it starts.

        Raises:
            Interrupted: the command was cancelled; `run` is what was measured.
            EdgebenchError: it failed; with a `run_id`, it is stored.
        """
        ...

    def finish(self) -> None:
        """Let the device forget the runs that are stored, as no more are made.

        Raises:
            Interrupted: the command was cancelled.
            EdgebenchError: it cannot be reached.
        """
        ...


class DeviceOutcomes(Protocol):
    """Where it is noted how the runs on a device end."""

    def succeeded(self) -> None:
        """A run was made."""

    def failed(self, error: EdgebenchError, model: str | None = None) -> None:
        """A run failed, or the device did."""


OpenDevice = Callable[[Watcher, Cancellation], AbstractContextManager[CampaignDevice]]
"""Opens a device, for as long as runs are made on it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceHost:
    """What a host measures with, on all devices of a campaign."""

    campaign: str
    """Id of the campaign."""
    wait_s: float
    """Longest wait for the lease."""
    store: Store
    finish: Finish
    connect: Callable[[KnownDevice], Client]
    request: Callable[[Cell], BenchRequest]
    """What a cell asks for."""
    is_for_another: bool = False
    """Whether the runs go to another host's store: they stay on the device until they are there,
    and those of other campaigns are left alone."""


class PairedDevice:
    """A device that this host is connected to."""

    at = NO_LAB

    def __init__(
        self, host: DeviceHost, lane: DeviceLane, target: Target, meter: OpenMeter | None
    ) -> None:
        self._host = host
        self._lane = lane
        self._target = target
        self._meter = meter
        self._system: SystemDescription | None = None

    @property
    def client(self) -> Client:
        """The connection."""
        return self._lane.client

    def settle(self, kept: Callable[[Run], None], refused: OnProblem) -> None:
        """Follow what runs there, take the lease, and store what waits there."""
        host, lane, watcher = self._host, self._lane, self._lane.watcher

        def doubted(run_id: str, error: EdgebenchError) -> None:
            if may_pass(error):
                raise error
            watcher.earlier_run_rejected(run_id, error)
            refused(run_id, error)

        self._follow_running(kept, doubted)
        take_lease(lane.client, self._target.device.name, host.wait_s, watcher, lane.cancellation)
        for run in collect_waiting(
            lane.client,
            lane.store,
            on_doubt=doubted,
            on_failure=watcher.earlier_run_failed,
            finish=lane.finish,
            wanted=self._is_ours if host.is_for_another else None,
            is_kept=lane.is_kept,
        ):
            watcher.earlier_run_stored(run)
            kept(run)
        for lost in settle_lost(lane.client, lane.store):
            watcher.run_lost(lost)
        self._describe()  # a meter that is not served fails all runs: the device, and not each run

    def _describe(self) -> SystemDescription:
        """The device as it says it is, once for all runs.

        Raises:
            MeterNotServed: its agent does not serve the meter.
        """
        if self._system is None:
            system = self.client.describe()
            if self._meter is not None:
                self._meter.require_served(system, self._target.device.name)
            if system.open_files is not None:
                self._lane.watcher.files_open(self._target.device.name, system.open_files)
            self._system = system
        return self._system

    def _is_ours(self, run_id: str) -> bool:
        name = attempt_name(run_id)
        return name is not None and name.campaign == self._host.campaign

    def _follow_running(self, kept: Callable[[Run], None], doubted: OnProblem) -> None:
        """Follow a run of this campaign that a host before us has started, to its end."""
        run_id = self.client.list_runs().running
        if run_id is None or not self._is_ours(run_id):
            return
        try:
            kept(follow(self._lane, run_id))
        except RunSetAside as exc:
            doubted(run_id, exc)
        except EdgebenchError as exc:
            if may_pass(exc):
                raise
        except Interrupted as exc:
            if exc.run is not None:
                kept(exc.run)
            raise

    def make(self, order: RunOrder, new_id: Callable[[], str]) -> Run:
        """Measure."""
        system = self._describe()
        lane, device, energy = self._lane, self._target.device, self._target.request.energy
        request = self._host.request(order.cell)
        request = request.on_device(device.name, energy.meter if energy else None)
        try:
            request = request.on_system(system)
        except UsageError:  # it is this run's, and not the device's
            lane.watcher.run_started(
                order.cell.device,
                request.models[0],
                request.runtime or "",  # to look for one may fail, too, and not for this reason
                order.place,
            )
            raise
        refuse_too_large(lane.client.device.name, request, system)
        model = request.models[0]
        runtime = runtimes_for(model, request.runtime, system)[0]
        if (asked := self._meter or request.instrument) is not None:
            spec = asked.spec(request.spec, is_duration_fixed=request.is_duration_fixed)
            request = replace(request, spec=spec)
        lane.watcher.run_started(order.cell.device, model, runtime, order.place)
        newest = next(reversed(list(order.references.values())), None)
        reference = order.references.get(runtime, newest)
        is_target = runtime in runtimes_of_targets(system)
        if is_target and self._meter is not None:
            refuse_unseen_edges(self._meter.request, has_dataset=request.accuracy is not None)
        step = Step(model, runtime, member=order.member, is_target=is_target)
        made = run_request(request, step, reference, self._meter)
        return measure(lane, replace(made, new_id=new_id))

    def finish(self) -> None:
        """Nothing: a run that is stored here was acknowledged right then."""


@contextmanager
def at_device(
    host: DeviceHost, target: Target, watcher: Watcher, cancellation: Cancellation
) -> Iterator[PairedDevice]:
    """Connect to a device, and open the meter that is wired to it.

    Raises:
        EdgebenchError: the device or its meter cannot be reached.
    """
    with ExitStack() as stack:
        energy, meter = target.request.energy, None
        if energy is not None:
            meter = stack.enter_context(closing(OpenMeter.of(energy)))
        client = stack.enter_context(host.connect(target.device))
        lane = DeviceLane(
            client, host.store, watcher, cancellation, host.finish, is_kept=host.is_for_another
        )
        try:
            yield PairedDevice(host, lane, target, meter)
        finally:
            with suppress(EdgebenchError):  # the lease of a lost link expires
                client.release()
