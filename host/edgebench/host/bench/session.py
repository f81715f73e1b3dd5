"""A device while runs are made on it or fetched from it: meter, connection, lease, earlier runs."""

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
    """What is asked of the meter; None without one, or where another host has it."""
    wire: str | None = None
    """Meter of another host that the device needs for itself, with the name of that host."""

    @property
    def meter(self) -> str | None:
        """Meter that the device needs for itself; those of two agents or hosts have two names."""
        if self.energy is None:
            return self.wire
        meter = self.energy.meter
        return meter if is_of_host(meter) else f"{meter} of {self.device.pin}"


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOrder:
    """One run that is to be made."""

    request: BenchRequest
    """What it is to measure: one model, and all settings."""
    place: Place
    device_name: str = ""
    """Name of the device in a plan; empty: the one that the device has for itself."""
    pair: Pair | None = None
    member: SetMember | None = None
    references: Mapping[str, ReferenceAccuracy] = field(default_factory=dict)
    """What the reference of the model has achieved, by runtime, the newest last."""
    new_id: Callable[[], str] | None = None
    """Gives the run its id, right before it starts; None: a new one."""


class InProgress(Enum):
    """What is done about a run that is in progress on a device before ours."""

    FOLLOW = "follow"
    """It is followed to its end, and stored."""
    WAIT = "wait"
    """Its own command stores it; the lease is waited for."""
    LEAVE = "leave"
    """The device is left alone: reading traces off it would disturb the measurement."""


class RunPlan:
    """The runs that a command makes on a device, and what it does about those of earlier ones.

    This one makes none, stores every run that waits there, and writes nothing down.
    """

    is_measuring = True
    """Whether runs are made: the device must be there, and be ours."""

    def __init__(self, device: str, notify: Notify) -> None:
        self.device = device
        self.notify = notify

    def opened(self) -> None:
        """The device is connected to."""

    def on_progress(self, run_id: str) -> InProgress:
        """What is done about a run that is in progress."""
        del run_id
        return InProgress.WAIT

    def is_wanted(self, run_id: str) -> bool:
        """Whether a run that waits on the device is stored; else it stays there."""
        del run_id
        return True

    def fetch_began(self, run_id: str) -> None:
        """A run is fetched."""

    def fetched(self, run: Run) -> None:
        """A run is fetched and stored, with the reason if it failed."""
        if (error := failure_of(run)) is not None:
            self.notify(events.EarlierRunFailed(self.device, run.run_id, error))
        else:
            self.notify(events.EarlierRunStored(self.device, run))

    def refused(self, run_id: str, error: EdgebenchError) -> None:
        """A run cannot be stored; that keeps none from being made.

        Raises:
            EdgebenchError: nothing more can be done on the device.
        """
        self.notify(events.EarlierRunRejected(self.device, run_id, error))

    def refuse_impossible(self, session: DeviceSession) -> None:
        """Refuse what the device cannot do, before it is waited for.

        Raises:
            EdgebenchError: it would fail once the device is ours.
        """

    def orders(self, session: RunSession) -> Iterable[RunOrder]:
        """The runs to make, each once the one before has ended; what was begun is settled.

        Raises:
            EdgebenchError: the device cannot make any.
        """
        del session
        return ()

    def stored(self, order: RunOrder, run: Run) -> None:
        """A run was made, and is stored; one that was interrupted as well."""

    def failed(self, order: RunOrder, error: EdgebenchError) -> None:
        """A run failed.

        Raises:
            EdgebenchError: no other run can be made now.
        """
        del order
        raise error

    def ended(self) -> None:
        """Every run was made, and the device may forget them."""

    def pause_s(self, error: EdgebenchError) -> float | None:
        """Time after which the device is tried again; None: it is given up."""
        del error
        return None

    def given_up(self, error: EdgebenchError) -> None:
        """Nothing more is made on the device.

        Raises:
            EdgebenchError: the error, where it ends the command.
        """
        raise error


class RunSession(Protocol):
    """A device while runs are made on it, by whichever host it is paired with."""

    def settle(self, plan: RunPlan) -> None:
        """Bring what was begun on the device into the store; the device is ours afterwards.

        Raises:
            Interrupted: the command was cancelled.
            EdgebenchError: it cannot be reached, or is in use.
        """
        ...

    def make(self, order: RunOrder) -> Run:
        """Make a run, and store it.

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


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuringHost:
    """What a command measures with, on all of its devices."""

    store: Store
    connect: Callable[[KnownDevice], Client]
    analyse: Finish = finish
    wait_s: float = 0.0
    """Longest wait for the lease of a device; 0: none."""
    is_for_another: bool = False
    """Whether the runs go to another host's store: they stay on the device until they are there."""


@dataclass(slots=True, kw_only=True, eq=False)
class DeviceSession(OpenDevice):
    """A device that this host is connected to."""

    wait_s: float = 0.0
    meter: OpenMeter | None = None
    _system: SystemDescription | None = field(default=None, init=False)

    def take_lease(self, check: Callable[[], None] | None = None) -> None:
        """Take the lease, which the end of the session gives back.

        Args:
            check: As for `lease.take_lease`.

        Raises:
            Interrupted: the command was cancelled.
            LeaseHeld: another client has it, and kept it for as long as it was waited for.
        """
        take_lease(self.client, self.name, self.wait_s, self.notify, self.cancellation, check=check)

    def settle(self, plan: RunPlan) -> None:
        """Follow what is in progress, take the lease, and store what waits on the device."""
        running, action = self.client.list_runs().running, InProgress.WAIT
        if running is not None:
            action = plan.on_progress(running)
        if running is not None and action is InProgress.LEAVE:
            self.notify(events.BusyDeviceSkipped(self.name, running))
            return
        if running is not None and action is InProgress.FOLLOW:
            self._fetch(running, plan)

        # The lease first: another process of ours may be fetching its run just now.
        is_ours = True
        try:
            self.take_lease(partial(plan.refuse_impossible, self))
        except SeatLeft:  # no run can be made on a device that has left; its runs can be had
            is_ours = False
            if plan.is_measuring:
                raise
        except LeaseHeld:  # the command whose run was followed makes another one
            is_ours = False
            if plan.is_measuring or action is not InProgress.FOLLOW:
                raise

        tried = {running}
        # As many at a time as one listing has.
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
        if self.meter is not None:  # one that is not served fails the device, and not each run
            self.meter.require_served(self.describe(), self.name)

    def _fetch(self, run_id: str, plan: RunPlan) -> None:
        """Store a run, if it can be stored; a damaged one keeps no other from being stored."""
        self.cancellation.check()
        plan.fetch_began(run_id)
        try:
            follow(self, run_id, plan.fetched)
        except TransportError:
            raise
        except EdgebenchError as exc:
            if exc.run_id != run_id:  # else it failed on the device, and is stored
                plan.refused(run_id, exc)

    def make(self, order: RunOrder) -> Run:
        """Measure."""
        request = order.request
        model, runtime = request.models[0].name, request.runtime or ""
        try:
            system = self.describe()
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
        """The request with what the device does for a meter."""
        instrument = self.meter or request.instrument
        if instrument is None:
            return request
        is_fixed = request.is_duration_fixed
        return replace(request, spec=instrument.spec(request.spec, is_duration_fixed=is_fixed))

    def describe(self) -> SystemDescription:
        """The device as it describes itself, read once."""
        if self._system is None:
            self._system = self.client.describe()
            if self._system.open_files is not None:
                self.notify(events.FilesOpen(self.name, self._system.open_files))
        return self._system

    def finish(self) -> None:
        """Nothing: a run that is stored here was acknowledged right then."""


@contextmanager
def device_session(
    host: MeasuringHost, target: Target, notify: Notify, cancellation: Cancellation
) -> Iterator[DeviceSession]:
    """Open the meter that is wired to a device, and connect to it; the lease ends with the block.

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
