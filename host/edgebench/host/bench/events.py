"""Events of measurements, in chronological order for each device.

Terminal, notebook, live file and health records consume the same stream. A consumer is called with
every event, in the thread that measures the event's device.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from edgebench.host.devices.health import DeviceHealth
from edgebench.host.result.facts import SetMember
from edgebench.host.result.run import Run
from edgebench.host.store.incomplete import IncompleteRun
from edgebench.meters.base import MeterSession
from edgebench.protocol.device import RuntimeReport
from edgebench.protocol.errors import EdgebenchError, LeaseHeld
from edgebench.protocol.messages import Progress, Telemetry


@dataclass(frozen=True, slots=True)
class Place:
    """Number of a run among all runs that a command makes on a device."""

    number: int
    """Number of the run, from 1."""
    count: int
    """Number of runs that the command makes on the device."""
    settings: str = ""
    """Settings that distinguish runs of the same model, such as `threads 2`."""


@dataclass(frozen=True, slots=True)
class FarmSourceFailed:
    """A source of the farm, such as labgrid, cannot be used at all, or only in part."""

    error: EdgebenchError


@dataclass(frozen=True, slots=True)
class DeviceSkipped:
    """A device is not measured because it is in quarantine and was not selected by name."""

    device: str
    health: DeviceHealth


@dataclass(frozen=True, slots=True)
class LabgridPlaceTaken:
    """Another user has acquired the labgrid place (the reserved resources) of a measured device."""

    device: str
    place: str
    acquired_by: str


@dataclass(frozen=True, slots=True)
class MeterMissing:
    """The meter in the farm file was requested, but the file has no meter for this device."""

    device: str


@dataclass(frozen=True, slots=True)
class DeviceSelected:
    """One of `device_count` devices will be measured; further events of this device follow."""

    device: str
    device_count: int


@dataclass(frozen=True, slots=True)
class DeviceFailed:
    """The measurement on a device has ended with an error; no further runs are made on it."""

    device: str
    error: EdgebenchError


@dataclass(frozen=True, slots=True)
class DeviceBusy:
    """Another command is measuring on the device; this command waits for up to `wait_s`."""

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
    """No run can be made on the device now; the command tries again for up to `limit_s`."""

    device: str
    error: EdgebenchError
    limit_s: float


@dataclass(frozen=True, slots=True)
class FilesOpen:
    """A model's code could access files of the user that runs the agent on this device."""

    device: str
    reason: str


@dataclass(frozen=True, slots=True)
class RuntimeLeftOut:
    """A runtime cannot be used on the device."""

    device: str
    report: RuntimeReport


@dataclass(frozen=True, slots=True)
class ReferenceAdded:
    """A model that the user did not name is measured to compare its accuracy with the others."""

    device: str
    model: str


@dataclass(frozen=True, slots=True)
class ReferenceSkipped:
    """The unquantised reference model is not measured: the device runs only quantised models."""

    device: str
    model: str


@dataclass(frozen=True, slots=True)
class RunBegan:
    """A run begins or was rejected; `runtime` is empty if a rejection preceded its choice."""

    device: str
    shown_name: str
    """Displayed name of the device; the plan of the runs or the device itself defines it."""
    model: str
    runtime: str
    place: Place


@dataclass(frozen=True, slots=True)
class ExtraRunPlanned:
    """An extra run follows, which replaces a disturbed run of its set."""

    device: str
    model: str
    runtime: str
    member: SetMember
    """Position of the extra run in its set; `member.replaces` is the disturbed run."""


@dataclass(frozen=True, slots=True)
class HashProgress:
    """Progress of hashing the model file, in bytes; sent only if hashing takes more than 1 s."""

    device: str
    done: int
    total: int


@dataclass(frozen=True, slots=True)
class PushProgress:
    """Progress, in bytes, of sending a file to the device: a model, inputs or a data set."""

    device: str
    done: int
    total: int


@dataclass(frozen=True, slots=True)
class MeterBegan:
    """A meter of this host began to record; the run is about to start."""

    device: str
    session: MeterSession


@dataclass(frozen=True, slots=True)
class PhaseReport:
    """The run entered a phase, or progressed within it."""

    device: str
    progress: Progress


@dataclass(frozen=True, slots=True)
class TelemetryReport:
    """The device reported its temperature and clock frequency; about once per second."""

    device: str
    telemetry: Telemetry


@dataclass(frozen=True, slots=True)
class RunStored:
    """A run is stored."""

    device: str
    run: Run


@dataclass(frozen=True, slots=True)
class RunFailed:
    """A run failed; the next run follows."""

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
    """A run that an earlier command left on the device cannot be stored.

    The run stays on the device; if the error is `RunSetAside`, it is set aside on the host instead.
    """

    device: str
    run_id: str
    error: EdgebenchError


@dataclass(frozen=True, slots=True)
class EarlierRunLost:
    """A run of an earlier command is no longer on its device."""

    device: str
    run: IncompleteRun


@dataclass(frozen=True, slots=True)
class FetchBegan:
    """The host begins to fetch an earlier command's run, or to follow it if it is in progress."""

    device: str
    run_id: str


@dataclass(frozen=True, slots=True)
class RunFetched:
    """The run was fetched and stored; a failed run contains the reason for its failure."""

    device: str
    run: Run


@dataclass(frozen=True, slots=True)
class FetchFailed:
    """The run cannot be stored and stays on the device; other runs are still fetched."""

    device: str
    run_id: str
    error: EdgebenchError


@dataclass(frozen=True, slots=True)
class RunStoredElsewhere:
    """The command that started the run has stored it in a store other than this one."""

    device: str
    run_id: str


@dataclass(frozen=True, slots=True)
class BusyDeviceSkipped:
    """A device is skipped because a run is in progress; nothing is fetched from it."""

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
DeviceEvent = (
    DeviceBusy
    | DeviceStillBusy
    | DeviceUnavailable
    | FilesOpen
    | RuntimeLeftOut
    | ReferenceAdded
    | ReferenceSkipped
    | RunBegan
    | ExtraRunPlanned
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
MeasurementEvent = CommandEvent | DeviceEvent
Notify = Callable[[MeasurementEvent], None]


def raise_failures(event: MeasurementEvent) -> None:
    """Raise the error of a failure, which ends the command; ignore all other events.

    Raises:
        EdgebenchError: a device, a run or a fetch failed.
    """
    if isinstance(event, (DeviceFailed, RunFailed, FetchFailed)):
        raise event.error


def ignore_events(event: MeasurementEvent) -> None:
    """Ignore all events, for callers that use only the returned outcome."""
    del event
