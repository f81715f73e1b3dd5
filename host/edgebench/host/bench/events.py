"""Events of measurements: what happens on devices, in the order in which it happens.

Terminal, notebook, live file and health records are consumers of one stream: each is called with
every event, in the thread of the device that the event is about.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

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


@dataclass(frozen=True, slots=True)
class FarmSourceFailed:
    """A source of the farm, or a part of one, cannot be used."""

    error: EdgebenchError


@dataclass(frozen=True, slots=True)
class DeviceSkipped:
    """A device that was selected, but not by its name, is in quarantine and not measured."""

    device: str
    health: DeviceHealth


@dataclass(frozen=True, slots=True)
class LabgridPlaceTaken:
    """Another user has acquired the labgrid place of a device that is measured."""

    device: str
    place: str
    acquired_by: str


@dataclass(frozen=True, slots=True)
class MeterMissing:
    """The meter of the farm was requested, and none is wired to this device."""

    device: str


@dataclass(frozen=True, slots=True)
class DeviceSelected:
    """A device is measured, out of `device_count`; its other events follow."""

    device: str
    device_count: int


@dataclass(frozen=True, slots=True)
class DeviceFailed:
    """Nothing more is measured on a device."""

    device: str
    error: EdgebenchError


@dataclass(frozen=True, slots=True)
class DeviceBusy:
    """Another command measures on the device, which is waited for up to `wait_s`."""

    device: str
    refusal: LeaseHeld
    wait_s: float


@dataclass(frozen=True, slots=True)
class DeviceStillBusy:
    """The device is still in use by another command."""

    device: str
    elapsed_s: float
    wait_s: float


@dataclass(frozen=True, slots=True)
class DeviceUnavailable:
    """The device cannot be measured now; more attempts follow, for up to `limit_s`."""

    device: str
    error: EdgebenchError
    limit_s: float


@dataclass(frozen=True, slots=True)
class FilesOpen:
    """A device does not keep the code of a model from the files of its agent's user."""

    device: str
    reason: str


@dataclass(frozen=True, slots=True)
class RuntimeLeftOut:
    """A runtime cannot be used on the device."""

    device: str
    report: RuntimeReport


@dataclass(frozen=True, slots=True)
class ReferenceAdded:
    """A model that the user did not name is measured, as the accuracy of others needs it."""

    device: str
    model: str


@dataclass(frozen=True, slots=True)
class ReferenceSkipped:
    """A reference is not measured, as the device runs quantised models only."""

    device: str
    model: str


@dataclass(frozen=True, slots=True)
class RunBegan:
    """A run begins, or is refused; `runtime` is empty if none was chosen by then."""

    device: str
    shown_name: str
    """Name of the device beside the run: that of a plan, or the device's own."""
    model: str
    runtime: str
    place: Place


@dataclass(frozen=True, slots=True)
class HashProgress:
    """A part of the model is hashed, in bytes; only if that takes long."""

    device: str
    done: int
    total: int


@dataclass(frozen=True, slots=True)
class PushProgress:
    """A part of the model is on the device, in bytes."""

    device: str
    done: int
    total: int


@dataclass(frozen=True, slots=True)
class MeterBegan:
    """A meter of this host records; the run is about to start."""

    device: str
    session: MeterSession


@dataclass(frozen=True, slots=True)
class PhaseReport:
    """The run entered a phase, or progressed within it."""

    device: str
    progress: Progress


@dataclass(frozen=True, slots=True)
class TelemetryReport:
    """The device reported its temperature and clock, about once a second."""

    device: str
    telemetry: Telemetry


@dataclass(frozen=True, slots=True)
class RunStored:
    """A run is stored."""

    device: str
    run: Run


@dataclass(frozen=True, slots=True)
class RunFailed:
    """A run failed; the next one follows."""

    device: str
    model: str
    runtime: str
    error: EdgebenchError


@dataclass(frozen=True, slots=True)
class EarlierRunStored:
    """A run of an earlier command, left on the device, is stored."""

    device: str
    run: Run


@dataclass(frozen=True, slots=True)
class EarlierRunFailed:
    """A run of an earlier command had failed on the device; it is stored with the reason."""

    device: str
    run_id: str
    error: EdgebenchError


@dataclass(frozen=True, slots=True)
class EarlierRunRejected:
    """A run of an earlier command cannot be stored.

    It stays on the device, or is set aside if the error is `RunSetAside`.
    """

    device: str
    run_id: str
    error: EdgebenchError


@dataclass(frozen=True, slots=True)
class EarlierRunLost:
    """A run of an earlier command is not on its device any more."""

    device: str
    run: IncompleteRun


@dataclass(frozen=True, slots=True)
class FetchBegan:
    """A run of an earlier command is fetched; its phases follow if it is still in progress."""

    device: str
    run_id: str


@dataclass(frozen=True, slots=True)
class RunFetched:
    """The run is fetched and stored, with the reason if it failed."""

    device: str
    run: Run


@dataclass(frozen=True, slots=True)
class FetchFailed:
    """The run stays on the device, as it cannot be stored; the others are fetched."""

    device: str
    run_id: str
    error: EdgebenchError


@dataclass(frozen=True, slots=True)
class RunStoredElsewhere:
    """The command that started the run has stored it, in another store."""

    device: str
    run_id: str


@dataclass(frozen=True, slots=True)
class BusyDeviceSkipped:
    """A run in progress is not waited for, and nothing is fetched from its device."""

    device: str
    run_id: str


CommandEvent = (
    FarmSourceFailed
    | DeviceSkipped
    | LabgridPlaceTaken
    | MeterMissing
    | DeviceSelected
    | DeviceFailed
)
"""Events of the whole command."""
DeviceEvent = (
    DeviceBusy
    | DeviceStillBusy
    | DeviceUnavailable
    | FilesOpen
    | RuntimeLeftOut
    | ReferenceAdded
    | ReferenceSkipped
    | RunBegan
    | HashProgress
    | PushProgress
    | MeterBegan
    | PhaseReport
    | TelemetryReport
    | RunStored
    | RunFailed
    | EarlierRunStored
    | EarlierRunFailed
    | EarlierRunRejected
    | EarlierRunLost
    | FetchBegan
    | RunFetched
    | FetchFailed
    | RunStoredElsewhere
    | BusyDeviceSkipped
)
"""Events of a device that is measured."""
MeasurementEvent = CommandEvent | DeviceEvent
Notify = Callable[[MeasurementEvent], None]
"""Consumer of events."""


def raise_failures(event: MeasurementEvent) -> None:
    """Consumer that ends the command at the first failure, and ignores all other events.

    Raises:
        EdgebenchError: a device, a run or a fetch failed.
    """
    if isinstance(event, (DeviceFailed, RunFailed, FetchFailed)):
        raise event.error


def ignore_events(event: MeasurementEvent) -> None:
    """Consumer that ignores all events, for those who read the outcome elsewhere."""
    del event
