"""Observer of measurements: a method for each event, and what its base class does with it."""

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
    """Position of a run among the runs that a command makes on its device."""

    number: int
    """Number of the run, from 1."""
    count: int
    """Number of runs on the device."""
    settings: str = ""
    """Settings in which runs of the same model differ, as `threads 2`."""


class Watcher:
    """Observer of measurements.

    This one ignores all events but failures, which it raises: they end the command.
    """

    def for_device(self, device: str, device_count: int) -> Watcher:
        """Watcher of one device, out of `device_count` that are measured at the same time.

        Its methods are called in a thread of its own.
        """
        del device, device_count
        return self

    def reference_added(self, reference: Model) -> None:
        """A model that the user did not name is measured, as the accuracy of others needs it."""

    def reference_skipped(self, reference: Model) -> None:
        """A reference is not measured, as the device runs quantised models only."""

    def meter_missing(self, device: str) -> None:
        """The meter of the farm was requested, and none is wired to this device."""

    def farm_source_failed(self, error: EdgebenchError) -> None:
        """A source of the farm, or a part of one, cannot be used."""

    def labgrid_place_taken(self, device: str, place: str, acquired_by: str) -> None:
        """Another user has acquired the labgrid place of a device that is measured."""

    def device_skipped(self, device: str, health: DeviceHealth) -> None:
        """A device that was selected, but not by its name, is in quarantine and not measured."""

    def device_failed(self, device: str, error: EdgebenchError) -> None:
        """Nothing more is measured on a device."""
        del device
        raise error

    def device_busy(self, device: str, refusal: LeaseHeld, wait_s: float) -> None:
        """Another command measures on the device, which is waited for up to `wait_s`."""

    def device_still_busy(self, device: str, elapsed_s: float, wait_s: float) -> None:
        """The device is still in use by another command."""

    def device_unavailable(self, error: EdgebenchError, limit_s: float) -> None:
        """The device cannot be measured now; more attempts follow, for up to `limit_s`."""

    def files_open(self, device: str, reason: str) -> None:
        """A device does not keep the code of a model from the files of its agent's user."""

    def runtime_unavailable(self, report: RuntimeReport) -> None:
        """A runtime cannot be used on the device."""

    def run_started(self, device: str, model: Model, runtime: str, place: Place) -> None:
        """A run begins, or is refused; `runtime` is empty if none was chosen by then."""

    def progress(self, progress: Progress) -> None:
        """The run entered a phase, or progressed within it."""

    def telemetry(self, telemetry: Telemetry) -> None:
        """The device reported its temperature and clock, about once a second."""

    def notice(self, notice: Progress | Telemetry) -> None:
        """The device sent a notice during a run."""
        if isinstance(notice, Telemetry):
            self.telemetry(notice)
        else:
            self.progress(notice)

    def meter_started(self, session: MeterSession) -> None:
        """A meter of this host records; the run is about to start."""

    def hash_progress(self, done: int, total: int) -> None:
        """A part of the model is hashed, in bytes; called only if that takes long."""

    def push_progress(self, done: int, total: int) -> None:
        """A part of the model is on the device, in bytes."""

    def earlier_run_stored(self, run: Run) -> None:
        """A run of an earlier command, left on the device, is stored."""

    def earlier_run_failed(self, run_id: str, error: EdgebenchError) -> None:
        """A run of an earlier command had failed on the device; it is stored with the reason."""

    def fetch_started(self, device: str, run_id: str) -> None:
        """A run of an earlier command is fetched; its phases follow if it is still in progress."""

    def fetch_finished(self, run: Run) -> None:
        """The run is fetched and stored, with the reason if it failed."""

    def fetch_failed(self, run_id: str, error: EdgebenchError) -> None:
        """The run stays on the device, as it cannot be stored; the others are fetched."""
        del run_id
        raise error

    def run_stored_elsewhere(self, device: str, run_id: str) -> None:
        """The command that started the run has stored it, in another store."""

    def run_in_progress_skipped(self, device: str, run_id: str) -> None:
        """A run in progress is not waited for, and nothing is fetched from its device."""

    def earlier_run_rejected(self, run_id: str, error: EdgebenchError) -> None:
        """A run of an earlier command cannot be stored.

        It stays on the device, or is set aside if the error is `RunSetAside`.
        """

    def run_lost(self, run: IncompleteRun) -> None:
        """A run of an earlier command is not on its device any more."""

    def run_finished(self, run: Run) -> None:
        """A run is stored."""

    def run_failed(self, model: Model, runtime: str, error: EdgebenchError) -> None:
        """A run failed; the next one follows."""
        raise error


class ForwardingWatcher(Watcher):
    """Forwards to another watcher every event that its subclass does not handle."""

    def __init__(self, watcher: Watcher) -> None:
        self._watcher = watcher
        for name in vars(Watcher):
            if not name.startswith("_") and getattr(type(self), name) is getattr(Watcher, name):
                setattr(self, name, getattr(watcher, name))


class OutcomeWatcher(ForwardingWatcher):
    """Reports how runs end, and forwards all events to another watcher."""

    def __init__(
        self,
        watcher: Watcher,
        on_finished: Callable[[], None],
        on_failed: Callable[[EdgebenchError, str], None],
    ) -> None:
        """Forward to a watcher.

        Args:
            watcher: Receives every event.
            on_finished: Called first when a run is stored.
            on_failed: Called first when a run failed, with the error and the model's name.
        """
        super().__init__(watcher)
        self._on_finished = on_finished
        self._on_failed = on_failed

    def run_finished(self, run: Run) -> None:
        """A run is stored."""
        self._on_finished()
        self._watcher.run_finished(run)

    def run_failed(self, model: Model, runtime: str, error: EdgebenchError) -> None:
        """A run failed."""
        self._on_failed(error, model.name)
        self._watcher.run_failed(model, runtime, error)
