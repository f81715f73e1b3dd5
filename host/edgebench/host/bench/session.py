"""A session with a device, which has a meter, a connection and a lease, and makes runs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass, field, replace
from enum import Enum
from functools import partial
from typing import Protocol

from edgebench.host.bench import events
from edgebench.host.bench.cancellation import Cancellation
from edgebench.host.bench.collect import failure_of, settle_lost
from edgebench.host.bench.events import Notify, Place
from edgebench.host.bench.finish import Finish, finish
from edgebench.host.bench.follow import follow
from edgebench.host.bench.lease import open_when_free, take_lease
from edgebench.host.bench.plan import (
    refuse_impossible,
    refuse_unseen_edges,
    run_request,
    single_step,
)
from edgebench.host.bench.request import BenchRequest
from edgebench.host.bench.run import OpenDevice, measure
from edgebench.host.client import Client
from edgebench.host.devices.files import KnownDevice
from edgebench.host.power.metering import OpenMeter, is_of_host
from edgebench.host.result.facts import EnergyRequest, Pair, SetMember
from edgebench.host.result.outputs import ReferenceAccuracy
from edgebench.host.result.run import Run
from edgebench.host.store.layout import Store
from edgebench.protocol.device import SystemDescription
from edgebench.protocol.errors import EdgebenchError, LeaseHeld, SeatLeft, TransportError


@dataclass(frozen=True, slots=True)
class Target:
    """A device, and the meter that is wired to it."""

    device: KnownDevice
    energy: EnergyRequest | None = None
    """Request to measure energy; None without a meter, or if the meter is at another host."""
    wire: str | None = None
    """Meter of a lab host that is wired to the device, in the form `HOST: METER`; None if there is
    none. Devices that are wired to the same meter are measured one after another."""

    @property
    def meter(self) -> str | None:
        """Unique name of the device's meter, which can measure only one device at a time."""
        if self.energy is None:
            return self.wire
        meter = self.energy.meter
        return meter if is_of_host(meter) else f"{meter} of {self.device.pin}"


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOrder:
    """A run that a plan asks a session to make."""

    request: BenchRequest
    """Request for a single model, with all settings."""
    place: Place
    device_name: str = ""
    """Name of the device in the plan; if empty, the device's own name is used."""
    pair: Pair | None = None
    member: SetMember | None = None
    references: Mapping[str, ReferenceAccuracy] = field(default_factory=dict)
    """Maps each runtime to the accuracy of the reference, in the order of the newest runs."""
    new_id: Callable[[], str] | None = None
    """Function that makes the id of the run right before its start; None selects `new_run_id`."""


class InProgress(Enum):
    """How to handle an earlier run that is in progress on a device."""

    FOLLOW = "follow"
    """Follow the run to its end, and store the run."""
    WAIT = "wait"
    """Wait for the lease; the command that started the run also stores the run."""
    LEAVE = "leave"
    """Skip the device, because fetching earlier runs would disturb the run in progress."""


class RunPlan:
    """The runs that a command makes on a device, and how the command handles earlier runs.

    The base class makes no runs, stores every run that is on the device, and keeps no journal.
    """

    is_measuring = True
    """Whether the plan makes runs; for such a plan, a lease that cannot be taken is an error."""

    def __init__(self, device: str, notify: Notify) -> None:
        self.device = device
        self.notify = notify

    def opened(self) -> None:
        """Called when the device is connected."""

    def on_progress(self, run_id: str) -> InProgress:
        """Decide how to handle an earlier run that is in progress on the device."""
        del run_id
        return InProgress.WAIT

    def is_wanted(self, run_id: str) -> bool:
        """Whether to fetch and store a finished run; if not, the run stays on the device."""
        del run_id
        return True

    def fetch_began(self, run_id: str) -> None:
        """Called before a run is fetched."""

    def fetched(self, run: Run) -> None:
        """Called after an earlier run has been fetched and stored, even if the run failed."""
        if (error := failure_of(run)) is not None:
            self.notify(events.EarlierRunFailed(self.device, run.run_id, error))
        else:
            self.notify(events.EarlierRunStored(self.device, run))

    def refused(self, run_id: str, error: EdgebenchError) -> None:
        """Called if an earlier run cannot be stored; new runs are made unless this method raises.

        Raises:
            EdgebenchError: the error prevents any further work on the device.
        """
        self.notify(events.EarlierRunRejected(self.device, run_id, error))

    def refuse_impossible(self, session: DeviceSession) -> None:
        """Reject requests that the device cannot fulfil, before waiting for its lease.

        Raises:
            EdgebenchError: the request would fail once the lease is taken.
        """

    def orders(self, session: RunSession) -> Iterable[RunOrder]:
        """Orders of the runs to make; each order is taken after the previous run has ended.

        The earlier runs on the device are stored before this method is called.

        Raises:
            EdgebenchError: the device cannot make the runs.
        """
        del session
        return ()

    def stored(self, order: RunOrder, run: Run) -> None:
        """Called after a run has been measured and stored, even if the run was interrupted."""

    def failed(self, order: RunOrder, error: EdgebenchError) -> None:
        """Called after a run has failed.

        Raises:
            EdgebenchError: the failure prevents further runs.
        """
        del order
        raise error

    def ended(self) -> None:
        """Called after the last run; all runs are then stored, and the device may delete them."""

    def pause_s(self, error: EdgebenchError) -> float | None:
        """Time to wait before the next attempt on the device; None to give up on the device."""
        del error
        return None

    def given_up(self, error: EdgebenchError) -> None:
        """Called when no further attempt on the device will be made.

        Raises:
            EdgebenchError: the same error, if it ends the command.
        """
        raise error


class RunSession(Protocol):
    """A session with a device that is paired with this host or with another host."""

    def settle(self, plan: RunPlan) -> None:
        """Store the earlier runs of the device, and take its lease.

        Raises:
            Interrupted: the command was cancelled.
            EdgebenchError: the device cannot be reached, or is in use.
        """
        ...

    def make(self, order: RunOrder) -> Run:
        """Make a run, and store it.

        Raises:
            Interrupted: the command was cancelled; `run` is the part that was measured.
            EdgebenchError: the run failed; if the error has a `run_id`, the run is stored.
        """
        ...

    def finish(self) -> None:
        """Allow the device to delete the stored runs; called after the last run.

        Raises:
            Interrupted: the command was cancelled.
            EdgebenchError: the device cannot be reached.
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuringHost:
    """Store, options and other parts of this host that a command uses for all of its devices."""

    store: Store
    connect: Callable[[KnownDevice], Client]
    analyse: Finish = finish
    wait_s: float = 0.0
    """Longest wait for the lease of a device; 0 means no wait."""
    is_for_another: bool = False
    """Whether another host stores the runs; each run stays on the device until that host has it."""


@dataclass(slots=True, kw_only=True, eq=False)
class DeviceSession(OpenDevice):
    """A session with a device that this host is connected to."""

    wait_s: float = 0.0
    meter: OpenMeter | None = None
    _system: SystemDescription | None = field(default=None, init=False)

    def take_lease(self, check: Callable[[], None] | None = None) -> None:
        """Take the lease; the end of the session releases it.

        Args:
            check: See `lease.take_lease`.

        Raises:
            Interrupted: the command was cancelled.
            LeaseHeld: another client still holds the lease after `wait_s`.
        """
        take_lease(self.client, self.name, self.wait_s, self.notify, self.cancellation, check=check)

    def settle(self, plan: RunPlan) -> None:
        """Handle a run in progress, take the lease, and store the finished runs of the device."""
        running, action = self.client.list_runs().running, InProgress.WAIT
        if running is not None:
            action = plan.on_progress(running)
        if running is not None and action is InProgress.LEAVE:
            self.notify(events.BusyDeviceSkipped(self.name, running))
            return
        if running is not None and action is InProgress.FOLLOW:
            self._fetch(running, plan)

        # The lease comes first, because another process of this owner may be fetching its run.
        is_ours = True
        try:
            self.take_lease(partial(plan.refuse_impossible, self))
        except SeatLeft:  # no run can be made on a seat that has left, but its runs can be fetched
            is_ours = False
            if plan.is_measuring:
                raise
        except LeaseHeld:  # the command that started the followed run has started another run
            is_ours = False
            if plan.is_measuring or action is not InProgress.FOLLOW:
                raise

        tried = {running}
        # A listing has a limited length, so list again until no run is left.
        while waiting := [
            run_id
            for run_id in self.client.list_runs().finished
            if run_id not in tried and plan.is_wanted(run_id)
        ]:
            for run_id in waiting:
                self._fetch(run_id, plan)
            tried.update(waiting)
        if is_ours:
            for lost in settle_lost(self.client, self.store):
                self.notify(events.EarlierRunLost(self.name, lost))
        if self.meter is not None:  # checked once here, so that not every run fails
            self.meter.require_served(self.describe(), self.name)

    def _fetch(self, run_id: str, plan: RunPlan) -> None:
        """Fetch and store a run; report an error of this run alone, such as a damaged file."""
        self.cancellation.check()
        plan.fetch_began(run_id)
        try:
            follow(self, run_id, plan.fetched)
        except TransportError:
            raise
        except EdgebenchError as exc:
            if exc.run_id != run_id:  # otherwise the run failed on the device, and is stored
                plan.refused(run_id, exc)

    def make(self, order: RunOrder) -> Run:
        """Make a run on the connected device, and store it."""
        request = order.request
        model, runtime = request.models[0].name, request.runtime or ""
        try:
            system = self.describe()
            if self.meter is not None and request.energy is not None:
                self.meter.set_supply(request.energy.supply_v)
            request = self.with_meter(request.on_system(system))
            step = replace(single_step(request, system), pair=order.pair, member=order.member)
            model, runtime = step.model.name, step.runtime
            refuse_impossible(self.client.device.name, request, system, self.meter)
            refuse_unseen_edges(request, [step], self.meter)
        finally:
            shown = order.device_name or self.client.device.name
            self.notify(events.RunBegan(self.name, shown, model, runtime, order.place))
        newest = next(reversed(list(order.references.values())), None)
        reference = order.references.get(step.runtime, newest)
        made = run_request(request, step, reference, self.meter)
        return measure(self, replace(made, new_id=order.new_id))

    def with_meter(self, request: BenchRequest) -> BenchRequest:
        """The request with the idle times and load codes that a meter or instrument needs."""
        instrument = self.meter or request.instrument
        if instrument is None:
            return request
        is_fixed = request.is_duration_fixed
        return replace(request, spec=instrument.spec(request.spec, is_duration_fixed=is_fixed))

    def describe(self) -> SystemDescription:
        """The device's description of itself, requested once per session."""
        if self._system is None:
            self._system = self.client.describe()
            if self._system.open_files is not None:
                self.notify(events.FilesOpen(self.name, self._system.open_files))
        return self._system

    def finish(self) -> None:
        """Do nothing, because runs that are stored on this host were acknowledged immediately."""


@contextmanager
def device_session(
    host: MeasuringHost, target: Target, notify: Notify, cancellation: Cancellation
) -> Iterator[DeviceSession]:
    """Open a device's meter, and connect to the device; the block's end releases the lease.

    Raises:
        Interrupted: the command was cancelled.
        EdgebenchError: the device or its meter cannot be reached.
    """
    with ExitStack() as stack:
        meter, device = None, target.device
        if target.energy is not None:
            meter = stack.enter_context(closing(OpenMeter.of(target.energy)))
        connect = partial(host.connect, device)
        client = stack.enter_context(
            open_when_free(connect, device.name, host.wait_s, notify, cancellation)
        )
        try:
            yield DeviceSession(
                name=device.name,
                client=client,
                store=host.store,
                notify=notify,
                cancellation=cancellation,
                analyse=host.analyse,
                is_kept=host.is_for_another,
                wait_s=host.wait_s,
                meter=meter,
            )
        finally:
            with suppress(EdgebenchError):  # the lease of a lost link expires
                client.release()
