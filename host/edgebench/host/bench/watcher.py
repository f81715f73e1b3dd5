"""Somebody who wants to see how measurements go."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from edgebench.host.bench.model import Model
from edgebench.host.devices.health import DeviceHealth
from edgebench.host.result.run import Run
from edgebench.host.store.incomplete import IncompleteRun
from edgebench.meters.base import MeterSession
from edgebench.protocol.device import RuntimeReport
from edgebench.protocol.errors import EdgebenchError, LeaseHeld
from edgebench.protocol.messages import Progress, Telemetry


@dataclass(frozen=True, slots=True)
class Place:
    """Which of a device's runs it is."""

    number: int
    """From 1."""
    count: int
    settings: str = ""
    """What tells it from other runs of the same model, as `threads 2`."""


class Watcher:
    """Somebody who is told how measurements go; this one does not look."""

    def of(self, device: str, device_count: int) -> Watcher:
        """Whoever watches this device, one of so many that are measured at the same time.

        Each is told by a thread of its own.
        """
        del device, device_count
        return self

    def added(self, reference: Model) -> None:
        """A model that the user did not name is measured too: the others' accuracy needs it."""

    def reference_left_out(self, reference: Model) -> None:
        """A reference is not measured: the device runs quantised models only."""

    def unmetered(self, device: str) -> None:
        """The farm's meter was asked for, and none is wired to this device."""

    def farm_doubted(self, error: EdgebenchError) -> None:
        """A source of the farm, or a part of it, is not used."""

    def place_taken(self, device: str, place: str, acquired_by: str) -> None:
        """Somebody else has acquired the place in labgrid of a device that is measured."""

    def left_out(self, device: str, health: DeviceHealth) -> None:
        """A device that fits is not measured: it is in quarantine, and nobody named it."""

    def device_failed(self, device: str, error: EdgebenchError) -> None:
        """Nothing more is measured on a device; unless nobody looks: then this raises the error."""
        del device
        raise error

    def held(self, device: str, refusal: LeaseHeld, wait_s: float) -> None:
        """Another command measures on a device, which is waited for up to so long."""

    def waiting(self, device: str, elapsed_s: float, wait_s: float) -> None:
        """The device is still in use."""

    def paused(self, error: EdgebenchError, limit_s: float) -> None:
        """A device cannot be measured now, and is tried again for up to so long."""

    def absent(self, report: RuntimeReport) -> None:
        """A runtime cannot be used on this device."""

    def run(self, device: str, model: Model, runtime: str, place: Place) -> None:
        """A run begins, or is refused; its runtime may be empty then, as nobody chose one."""

    def progress(self, progress: Progress) -> None:
        """The run entered a phase."""

    def telemetry(self, telemetry: Telemetry) -> None:
        """How the device is, about once a second."""

    def notice(self, notice: Progress | Telemetry) -> None:
        """Whatever the device says while a run goes on."""
        if isinstance(notice, Telemetry):
            self.telemetry(notice)
        else:
            self.progress(notice)

    def metered(self, session: MeterSession) -> None:
        """A meter of this host records beside the run that is about to start."""

    def hashed(self, done: int, total: int) -> None:
        """So many bytes of the model are hashed, if that takes long."""

    def pushed(self, done: int, total: int) -> None:
        """So many bytes of the model are on the device."""

    def collected(self, run: Run) -> None:
        """A run that an earlier command had left on the device was stored."""

    def failed_meanwhile(self, run_id: str, error: EdgebenchError) -> None:
        """A run of an earlier command had failed; it is stored with its reason."""

    def fetching(self, device: str, run_id: str) -> None:
        """A run of an earlier command is stored; its phases follow if it is still in progress."""

    def fetched(self, run: Run) -> None:
        """That run is stored, with its failure if it failed."""

    def not_fetched(self, run_id: str, error: EdgebenchError) -> None:
        """It cannot be stored, and the others are; unless nobody looks: then this raises it."""
        del run_id
        raise error

    def taken(self, device: str, run_id: str) -> None:
        """Whoever started that run has stored it, in another store."""

    def left(self, device: str, run_id: str) -> None:
        """A run in progress is not waited for, and its device is left alone."""

    def doubted(self, run_id: str, error: EdgebenchError) -> None:
        """A run that had finished earlier cannot be stored; it stays on the device."""

    def lost(self, run: IncompleteRun) -> None:
        """A run that was started earlier is not on its device any more."""

    def finished(self, run: Run) -> None:
        """A run is stored."""

    def failed(self, model: Model, runtime: str, error: EdgebenchError) -> None:
        """A run failed; the next one follows, unless nobody looks: then this raises it."""
        raise error


class ForwardingWatcher(Watcher):
    """Forwards to another watcher every event that its subclass does not handle."""

    def __init__(self, watcher: Watcher) -> None:
        """Forward to this watcher."""
        self._watcher = watcher
        for name in vars(Watcher):
            if not name.startswith("_") and getattr(type(self), name) is getattr(Watcher, name):
                setattr(self, name, getattr(watcher, name))


class OutcomeNotes(ForwardingWatcher):
    """Passes everything on to another watcher; how runs end, somebody else is told first."""

    def __init__(
        self,
        watcher: Watcher,
        on_finished: Callable[[], None],
        on_failed: Callable[[EdgebenchError, str], None],
    ) -> None:
        """Stand between the runs and their watcher.

        Args:
            watcher: Is told everything.
            on_finished: A run is stored.
            on_failed: A run failed with this error, of the model with this name.
        """
        super().__init__(watcher)
        self._on_finished = on_finished
        self._on_failed = on_failed

    def finished(self, run: Run) -> None:
        """A run is stored."""
        self._on_finished()
        self._watcher.finished(run)

    def failed(self, model: Model, runtime: str, error: EdgebenchError) -> None:
        """A run failed."""
        self._on_failed(error, model.name)
        self._watcher.failed(model, runtime, error)
