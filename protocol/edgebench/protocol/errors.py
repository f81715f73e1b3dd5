"""The whole error tree, split by who must act.

    EdgebenchError
    ├── UsageError               the caller: a bad argument, an unknown name
    │   ├── NoSuchRun                no stored run has that name, or several have
    │   ├── NoSecondSide             runs of one side were named to be compared
    │   ├── PageUnavailable          the page cannot be served here, or at this address
    │   ├── FileExists               the file to write exists already
    │   ├── NoSuchModel              no file has that path, and no built-in model that name
    │   ├── NotAModel                a path is no file, or none of a known format
    │   ├── NotAKit                  a file holds no Python for that phone
    │   │   └── KitOfOtherMachine        it is for another machine
    │   ├── KitNotBuilt              a Python for phones cannot be made from that system
    │   ├── NoSuchCampaign           no campaign of the store has that name
    │   ├── CampaignRunning          another process makes a campaign's runs
    │   ├── NoSuchDevice             no known device or seat has that name, or several have
    │   │   ├── DeviceNotOffered         no lab host of a cluster offers a device
    │   │   └── AllQuarantined           every device that fits is left out until it is well again
    │   ├── BoardKnown               an agent to pair with may be on a board that is known
    │   ├── NoSuchMeter              no energy meter has that name, or it cannot be used here
    │   ├── WrongMeterOption         an option of a meter's address is unknown, or beyond a limit
    │   ├── MeterNotServed           the device's agent was not told of that meter
    │   ├── FileRefused              a file to import is damaged, or not what it should be
    │   │   ├── ColumnsUnknown           its columns are not known: the user has to name them
    │   │   └── BundleRefused            a bundle of runs is none, is damaged, or breaks a limit
    │   ├── FileChanged              a file is not what it was a moment ago
    │   ├── DatasetFileRefused       a file is no data set
    │   │   ├── DatasetIncomplete        it has no samples, or not one label for each
    │   │   └── DatasetNotFinite         it holds NaN or infinity
    │   ├── InputsRefused            shapes or inputs that were chosen do not fit the model
    │   ├── OwnModelOnly             a device has its model in its firmware, and takes no other
    │   ├── RunsTooShort             runs share a duration that is too short for so many
    │   ├── NoLoadCode               a run played no load code, by which a file is aligned with it
    │   ├── NoLoadgenLog             a run has no log of LoadGen's that may be handed on
    │   └── NotComparable            runs differ in more than what is compared
    │       └── MetersDiffer             their joules are of two meters, or of two boundaries
    ├── TargetError              the device: it cannot or will not do this
    │   ├── RuntimeUnavailable       the runtime is absent or broken there
    │   ├── ModelRefused             the model file was not accepted
    │   │   ├── DatasetRefused           a data set does not fit the model
    │   │   │   ├── SampleShapeRefused       its samples have another shape
    │   │   │   ├── SampleTypeRefused        they are quantised, where the input takes real values
    │   │   │   ├── SamplesClipped           many of its values are out of the input's range
    │   │   │   ├── OutputsTooLarge          the outputs for all samples cannot be kept
    │   │   │   └── DatasetTooSlow           a slow device would take too long over it
    │   │   ├── DelegateRefused          the runtime has no such delegate, or cannot load it
    │   │   ├── SignatureRefused         the model file has no such signature
    │   │   ├── ExternalDataRefused      the weights of a model are in another file
    │   │   └── InferenceFailed          the model was loaded, and its first inference failed
    │   ├── WorkerDied               the process that ran the model was killed or crashed
    │   ├── WorkerTimeout            the model did not finish in its time
    │   ├── TooHot                   it is above the temperature at which a run has to end
    │   ├── RunStopped               it was stopped before anything was measured
    │   ├── SeatLeft                 it was unplugged from its agent
    │   ├── GovernorRefused          the CPU governor that was asked for cannot be set
    │   ├── SettingRefused           a setting of a phone, as airplane mode, is not changed
    │   ├── MeterLost                an energy meter that was there is gone
    │   ├── NotPermitted             the system keeps the user from an instrument
    │   ├── BoardLost                a microcontroller that was there is gone
    │   ├── BoardSilent              a microcontroller does not answer, or not in a known dialect
    │   ├── BoardRestarted           a microcontroller restarted in the middle of something
    │   ├── BoardRefusal             a microcontroller answers a command with an error of its own
    │   ├── LineDamaged              a serial line loses or changes bytes, again and again
    │   ├── LeaseHeld                another client measures there now
    │   ├── OtherEnvironment         an agent with other runtimes serves this machine
    │   ├── NoSpace                  disk full, or a quota reached
    │   │   └── TooLarge                 a file is larger than what the device can take
    │   ├── PythonMissing            no Python there that edgebench runs on
    │   │   └── KitMissing               a phone, and no Python for it here
    │   ├── DeployRunning            another deploy is under way on the device
    │   ├── PackagesMissing          what has to be installed there cannot be had
    │   ├── SimulationMissing        the simulated boards are not installed there
    │   ├── TargetDriverMissing      what drives microcontrollers is not installed there
    │   ├── FlashToolMissing         no program writes firmware onto this board
    │   ├── PortTaken                the agent cannot listen there
    │   └── AgentRunning             an agent with this state runs already
    ├── TransportError           the link (retryable)
    │   ├── Unreachable              no agent answers at that address
    │   │   ├── AgentBusy                it ends connections before it shows who it is
    │   │   ├── AgentNotStarted          the device answers, and no agent runs on it
    │   │   ├── AdbMissing               no adb server runs here, and there is none to start
    │   │   └── PhoneUnavailable         adb cannot use a phone in its present state
    │   ├── NotPaired                the other side does not know us
    │   │   └── WrongAgent               it is not who it should be
    │   │       └── WrongBoard               it has the right identity, on another board
    │   ├── AccessDenied             SSH: its host key is not trusted, or it refuses us
    │   │   └── TooManyKeys          SSH: it ends the login before the right key was offered
    │   ├── LabHostsUnreachable      no lab host of a cluster offers a device, or answers
    │   ├── LinkLost                 the connection broke
    │   └── LinkTimeout              no answer in time
    ├── ProtocolError            a bug, or a hostile peer
    │   ├── LocalProtocolError       we said something wrong
    │   └── RemoteProtocolError      they said something wrong
    ├── OutOfMemory              a command needs more memory than this machine has
    ├── MeasurementError         the number cannot be trusted
    │   ├── NotMetered           energy of a run that was made without a meter
    │   ├── NoPairLeft           no pair of a comparison has two runs that count
    │   ├── TraceRefused         a file of power gives no energy of the run
    │   │   └── SamplesUnknown       its samples may be instants, which are too few
    │   └── WindowTooShort       a meter cannot resolve so short a time
    ├── StoreError               the result store: unreadable, read-only, full
    │   ├── RunNotStored             a finished run cannot be stored; it stays on its device
    │   ├── RunDamaged               a file of a stored run is missing or not readable
    │   │   ├── RunSetAside              a run of a device cannot be analysed; its files are kept
    │   │   └── BundleDamaged            … in a bundle
    │   ├── CampaignDamaged          plan or journal of a campaign is not readable
    │   ├── RunNewer                 a stored run, or a bundle of runs, is of a later version
    │   ├── BundleNotUnpacked        there is no room to unpack a bundle of runs
    │   ├── DirectoryTaken           something else is there already
    │   └── FileNotWritten           a report or export cannot be written
    ├── SystemFailure            the operating system: a file or pipe cannot be read or written
    └── Unforeseen               a fault of edgebench: an exception that nothing translates

The text of an error is one printable line, whatever it quotes: what failed, the value, the limit.
What to do next is written by the command-line layer, not here. Errors that cross the wire carry an
`ErrorCode`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import Enum, IntEnum
from typing import Any, TypeVar

from edgebench.protocol.text import one_line, printable

MAX_TEXT = 1000
"""Characters of an error's text that are taken from the other side."""


class ErrorCode(IntEnum):
    """Stable numbers of the errors that an agent may send; never renumber."""

    UNKNOWN = 0
    """A code this version does not know (a newer agent sent it)."""
    USAGE = 1
    TARGET = 2
    RUNTIME_UNAVAILABLE = 3
    MODEL_REFUSED = 4
    WORKER_DIED = 5
    WORKER_TIMEOUT = 6
    LEASE_HELD = 7
    NO_SPACE = 8
    PROTOCOL = 9
    INTERNAL = 10
    NOT_PAIRED = 11
    TOO_HOT = 12
    GOVERNOR_REFUSED = 13
    INPUTS_REFUSED = 14
    INFERENCE_FAILED = 15
    DATASET_REFUSED = 16
    NO_SUCH_DEVICE = 17
    SAMPLE_SHAPE_REFUSED = 18
    SAMPLE_TYPE_REFUSED = 19
    SAMPLES_CLIPPED = 20
    OUTPUTS_TOO_LARGE = 21
    RUN_STOPPED = 22
    DEVICE_GONE = 23
    DATASET_TOO_SLOW = 24
    TARGET_DRIVER_MISSING = 25
    DELEGATE_REFUSED = 26
    SIGNATURE_REFUSED = 28
    EXTERNAL_DATA_REFUSED = 29
    SETTING_REFUSED = 30

    @classmethod
    def _missing_(cls, value: object) -> ErrorCode:
        return cls.UNKNOWN


class Permission(Enum):
    """What the user has to be allowed, to use an instrument."""

    SERIAL_PORT = "serial_port"
    """A serial port: a group of users has it."""
    USB_TESTER = "usb_tester"
    """A USB tester: a rule of udev gives it."""


class EdgebenchError(Exception):
    """Root of every error that edgebench raises on purpose."""

    code = ErrorCode.INTERNAL
    retryable = False
    run_id: str | None = None
    """Stored run that failed with this error."""
    is_unstarted = False
    """Whether the run that it ended was not admitted, and left nothing anywhere."""

    def __init__(self, text: str = "") -> None:
        # Errors quote files, peers and libraries, and are printed, logged, stored and sent.
        super().__init__(printable(text.replace("\n", " ")))

    @property
    def kind(self) -> str:
        """Name of its class in documents.

        >>> UsageError("no").kind
        'usage'
        """
        name = type(self).__name__.removesuffix("Error")
        return "".join(f"_{char.lower()}" if char.isupper() else char for char in name).lstrip("_")

    def __reduce__(self) -> tuple[Any, ...]:
        """The error as it is: not every class is made of a text alone."""
        return _unpickled, (type(self), self.args, self.__dict__)


def _unpickled(
    kind: type[EdgebenchError], args: tuple[Any, ...], state: dict[str, Any]
) -> EdgebenchError:
    """The error that `__reduce__` has taken apart."""
    error = kind.__new__(kind, *args)
    error.args = args
    error.__dict__.update(state)
    return error


class UsageError(EdgebenchError):
    """The caller asked for something that makes no sense."""

    code = ErrorCode.USAGE
    meant: str | None = None
    """Known name closest to the unknown one; None if no name is close."""


class NoSuchRun(UsageError):
    """No stored run, or several, match a name."""

    def __init__(
        self, text: str, bundle: str | None = None, *, is_store_empty: bool = False
    ) -> None:
        super().__init__(text)
        self.bundle = bundle
        """Path of the bundle that was searched, if it was one."""
        self.is_store_empty = is_store_empty
        self.model: str | None = None
        """The name, if it is one of a model file."""


class NoSecondSide(UsageError):
    """A comparison has runs of one side only."""

    def __init__(
        self, text: str, comparison_id: str | None = None, *, sides: tuple[str, ...] = ()
    ) -> None:
        super().__init__(text)
        self.comparison_id = comparison_id
        """Comparison in pairs that the runs are of, if they are."""
        self.sides = sides
        """Names that may have been meant as the two sides."""


class PageUnavailable(UsageError):
    """The page of results cannot be served: a package is missing, or the address is taken."""

    def __init__(self, text: str, install: str | None = None) -> None:
        super().__init__(text)
        self.install = install
        """Command that installs what is missing; None if nothing is."""


class FileExists(UsageError):
    """A file to write exists, and would be lost."""


class NoSuchModel(UsageError):
    """No file has this path, and no built-in model this name."""


class NotAModel(UsageError):
    """A path is no file, or none of a format that a runtime of the device loads."""


class NotAKit(UsageError):
    """A file is no kit, is damaged, or is for another machine."""


class KitOfOtherMachine(NotAKit):
    """A kit is for another machine than the phone's."""

    def __init__(self, message: str, machine: str = "") -> None:
        super().__init__(message)
        self.machine = machine
        """Machine of the phone, as uname(1) names it."""


class KitNotBuilt(UsageError):
    """A kit cannot be made from that system, or with the packages that it can have."""


class NoSuchCampaign(UsageError):
    """No campaign of the store has this id or name."""


class CampaignRunning(UsageError):
    """Another process makes the runs of this campaign."""


class NoSuchDevice(UsageError):
    """No known device, or several, match a name; or an agent has no seat of that name."""

    code = ErrorCode.NO_SUCH_DEVICE


class DeviceNotOffered(NoSuchDevice):
    """No lab host of a cluster offers a device."""

    def __init__(self, text: str, device: str) -> None:
        super().__init__(text)
        self.device = device
        """Its name, as a shell takes it."""


class AllQuarantined(NoSuchDevice):
    """Every device that fits is in quarantine."""

    def __init__(self, text: str, device: str) -> None:
        super().__init__(text)
        self.device = device
        """Name of one of them, as a shell takes it."""


class BoardKnown(UsageError):
    """An agent to pair with seems to be on the board of a known device, and nobody can be asked."""


class NoSuchMeter(UsageError):
    """No driver has the name of a meter, or the meter is not there."""

    def __init__(self, text: str, *, permission: Permission | None = None) -> None:
        super().__init__(text)
        self.permission = permission
        """Permission that is missing, where the meter is there all the same."""


class WrongMeterOption(UsageError):
    """What stands behind a meter's name is not what its driver takes."""


class MeterNotServed(UsageError):
    """An agent was asked for a meter that its owner did not name.

    What is meant is the only served one whose text begins like this.
    """

    def __init__(self, text: str, meter: str, *, meant: str | None = None) -> None:
        super().__init__(text)
        self.meter = meter
        """Meter, as `edgebench-agent serve --meter` takes it."""
        self.meant = meant


class FileRefused(UsageError):
    """A file to import is damaged, says too little, or is none of the known kinds."""


class BundleRefused(FileRefused):
    """A file is not a bundle of runs, is damaged, or exceeds a limit."""


class ColumnsUnknown(FileRefused):
    """The columns of a table are not known by their names; the text lists them."""


class FileChanged(UsageError):
    """A file was changed between two steps that need the same content."""


class DatasetFileRefused(UsageError):
    """A file is not a data set: arrays, labels or metric are not as they have to be."""


class DatasetIncomplete(DatasetFileRefused):
    """A data set has no samples, or not one label for each."""


class DatasetNotFinite(DatasetFileRefused):
    """A data set holds NaN or infinity."""


class InputsRefused(UsageError):
    """Shapes or inputs that were chosen do not fit the model."""

    code = ErrorCode.INPUTS_REFUSED


class OwnModelOnly(UsageError):
    """A device has its model in its firmware, and something else was asked of it."""

    def __init__(self, text: str, device: str) -> None:
        super().__init__(text)
        self.device = device
        """Name of the device, as the host takes it."""


class RunsTooShort(UsageError):
    """Runs of a set share a duration that is too short for so many."""

    def __init__(self, text: str, enough_s: float, run_limit: int) -> None:
        super().__init__(text)
        self.enough_s = enough_s
        """Duration that is long enough for so many."""
        self.run_limit = run_limit
        """Runs for which the duration is long enough."""


class NoLoadCode(UsageError):
    """A run played no load code, by which the file of an instrument is aligned with it."""


class NoLoadgenLog(UsageError):
    """A run has no log of MLPerf's LoadGen, or is invalid, so that its log is not exported."""


class NotComparable(UsageError):
    """Runs differ in more than what is compared."""

    def __init__(self, text: str, keys: Sequence[str], comparison_id: str | None = None) -> None:
        super().__init__(text)
        self.keys = tuple(keys)
        """What they differ in, as `--allow` takes it."""
        self.comparison_id = comparison_id
        """Id of the pairs that were compared; None for runs that were named by sides."""


class MetersDiffer(NotComparable):
    """Energies of two meters, or of two boundaries: nothing allows to compare them."""

    def __init__(self, text: str) -> None:
        super().__init__(text, [])


class TargetError(EdgebenchError):
    """The device cannot or will not do what was asked."""

    code = ErrorCode.TARGET


class RuntimeUnavailable(TargetError):
    """The inference runtime is not installed on the device, or does not work there."""

    code = ErrorCode.RUNTIME_UNAVAILABLE
    install: str | None = None
    """Command that installs the runtime on the device, if there is one."""


class ModelRefused(TargetError):
    """The model file was refused, by the runtime or by a limit."""

    code = ErrorCode.MODEL_REFUSED


class DatasetRefused(ModelRefused):
    """The samples of a data set, or the outputs for them, do not fit the model."""

    code = ErrorCode.DATASET_REFUSED


class SampleShapeRefused(DatasetRefused):
    """The samples of a data set have another shape than the model's input."""

    code = ErrorCode.SAMPLE_SHAPE_REFUSED


class SampleTypeRefused(DatasetRefused):
    """The samples of a data set are quantised, where the model's input takes real values."""

    code = ErrorCode.SAMPLE_TYPE_REFUSED


class SamplesClipped(DatasetRefused):
    """Many values of a data set are beyond the range of a quantised input."""

    code = ErrorCode.SAMPLES_CLIPPED


class OutputsTooLarge(DatasetRefused):
    """The outputs for all samples of a data set cannot be kept."""

    code = ErrorCode.OUTPUTS_TOO_LARGE


class DatasetTooSlow(DatasetRefused):
    """A device that times itself would take longer over a data set than was allowed."""

    code = ErrorCode.DATASET_TOO_SLOW


class DelegateRefused(ModelRefused):
    """A runtime has no delegate of this name, or cannot load it; the text lists its delegates."""

    code = ErrorCode.DELEGATE_REFUSED


class SignatureRefused(ModelRefused):
    """A model file has no signature of this name; the text lists those that it has."""

    code = ErrorCode.SIGNATURE_REFUSED


class ExternalDataRefused(ModelRefused):
    """Weights of a model are in another file, and only one file travels to a device."""

    code = ErrorCode.EXTERNAL_DATA_REFUSED


class InferenceFailed(ModelRefused):
    """A loaded model failed in its first inference, often because its inputs make no sense."""

    code = ErrorCode.INFERENCE_FAILED


class WorkerDied(TargetError):
    """The worker process was killed or crashed before it finished."""

    code = ErrorCode.WORKER_DIED


class WorkerTimeout(TargetError):
    """The worker did not finish a phase in its time and was stopped."""

    code = ErrorCode.WORKER_TIMEOUT


class TooHot(TargetError):
    """The device is above the temperature at which its profile ends a run."""

    code = ErrorCode.TOO_HOT


class RunStopped(TargetError):
    """A run was stopped before anything was measured."""

    code = ErrorCode.RUN_STOPPED


class SeatLeft(TargetError):
    """A device that its agent knows is not there any more."""

    code = ErrorCode.DEVICE_GONE


class GovernorRefused(TargetError):
    """The CPU governor that was asked for is not offered, or may not be set."""

    code = ErrorCode.GOVERNOR_REFUSED


class SettingRefused(TargetError):
    """A setting of a phone that was asked for does not exist there, or is not changed."""

    code = ErrorCode.SETTING_REFUSED


class MeterLost(TargetError):
    """An energy meter that was open does not begin another recording."""


class NotPermitted(TargetError):
    """The system does not let the user use an instrument."""

    def __init__(self, text: str, permission: Permission) -> None:
        super().__init__(text)
        self.permission = permission


class BoardLost(TargetError):
    """A microcontroller, or the program that stands for one, is gone."""


class BoardSilent(TargetError):
    """A microcontroller does not answer in its time, or in nothing that the bridge understands."""


class BoardRestarted(TargetError):
    """A microcontroller restarted while it was at work; what was loaded into it is lost."""


class BoardRefusal(TargetError):
    """A microcontroller answers a command with an error; the text quotes it."""


class LineDamaged(TargetError):
    """What comes over a serial line is not what was sent, however often it is repeated."""


class LeaseHeld(TargetError):
    """Another host holds the device."""

    code = ErrorCode.LEASE_HELD
    retryable = True

    def __init__(
        self,
        text: str,
        *,
        stoppable_on: str | None = None,
        is_by_this_host: bool = False,
        waited_s: float = 0.0,
    ) -> None:
        super().__init__(text)
        self.stoppable_on = stoppable_on
        """Device whose run in progress belongs to the caller, who may stop it."""
        self.is_by_this_host = is_by_this_host
        """Whether the holder has the user and machine of the caller, by their names."""
        self.waited_s = waited_s
        """Time for which the caller has waited in vain."""


class OtherEnvironment(TargetError):
    """The agent that serves this machine has other runtimes than the command."""

    def __init__(self, text: str, *, pid: int | None = None) -> None:
        super().__init__(text)
        self.pid = pid
        """Process of the agent."""


class DeployRunning(TargetError):
    """Another deploy installs, starts or removes an agent in that account now."""


class NoSpace(TargetError):
    """The device's disk is full, or a quota is reached."""

    code = ErrorCode.NO_SPACE


class TooLarge(NoSpace):
    """A file is larger than what the device can take, even if it removes all other models."""


class PythonMissing(TargetError):
    """There is no Python on the device that edgebench runs on."""


class KitMissing(PythonMissing):
    """The device is a phone, and this host has no Python for it."""

    def __init__(self, message: str, machine: str = "") -> None:
        super().__init__(message)
        self.machine = machine
        """Its machine, as uname(1) names it."""


class PackagesMissing(TargetError):
    """What has to be installed on the device can be had neither here nor there."""


class SimulationMissing(TargetError):
    """The simulated boards are not part of this installation."""


class TargetDriverMissing(TargetError):
    """What drives microcontrollers is not installed there: the firmware bridge, or QEMU."""

    code = ErrorCode.TARGET_DRIVER_MISSING


class FlashToolMissing(TargetError):
    """No program that writes firmware onto a board is on PATH."""


class PortTaken(TargetError):
    """The agent cannot listen there: the port is in use, or the address is not the device's."""


class AgentRunning(TargetError):
    """An agent with this state directory runs already."""

    def __init__(self, text: str, pid: int | None = None) -> None:
        super().__init__(text)
        self.pid = pid
        """Process id of the agent; None where it did not tell."""


class TransportError(EdgebenchError):
    """The link failed."""

    retryable = True


class Unreachable(TransportError):
    """No agent answers at the address."""

    def __init__(self, text: str, *, reason: str = "", is_offline: bool = False) -> None:
        super().__init__(text)
        self.reason = reason or str(self)
        """Reason alone, where the text names the address too."""
        self.is_offline = is_offline
        """Whether this machine has no network that leads there."""


class AgentBusy(Unreachable):
    """Connections to an address end before a certificate is shown, again and again.

    An agent ends them if too many wait for their handshake.
    """


class AgentNotStarted(Unreachable):
    """The device answers, and nothing listens at the port of its agent."""

    def __init__(self, text: str, target: str) -> None:
        super().__init__(text)
        self.target = target
        """Device, as `edgebench deploy` takes it."""


class AdbMissing(Unreachable):
    """No adb server runs on this machine, and there is no program `adb` to start one."""

    retryable = False


class PhoneUnavailable(Unreachable):
    """A phone is not connected, or its state does not let adb use it."""

    def __init__(self, text: str, reason: str, step: str) -> None:
        super().__init__(text, reason=reason)
        self.step = step
        """Next step in this state, with a command."""


class NotPaired(TransportError):
    """The other side refuses our identity, or shows one that we did not pin."""

    code = ErrorCode.NOT_PAIRED
    retryable = False


class WrongAgent(NotPaired):
    """Another agent than the pinned one answers."""


class WrongBoard(WrongAgent):
    """An agent with the pinned identity is on another board, or several agents have the identity.

    Copies of an SD card are like that.
    """


class AccessDenied(TransportError):
    """SSH does not let us in, or shows a host key that is not trusted."""

    retryable = False

    def __init__(self, text: str, login: str) -> None:
        super().__init__(text)
        self.login = login
        """Arguments of `ssh` for the same login by hand."""


class TooManyKeys(AccessDenied):
    """SSH: the device ends the login before the right key was offered."""


class LabHostsUnreachable(TransportError):
    """No scheduler of a cluster answers, or none of its lab hosts offers a device."""

    retryable = False


class LinkLost(TransportError):
    """An open connection broke."""


class LinkTimeout(TransportError):
    """The other side did not answer in time."""


class ProtocolError(EdgebenchError):
    """One side broke the protocol."""

    code = ErrorCode.PROTOCOL


class LocalProtocolError(ProtocolError):
    """This side tried to send something that the protocol does not allow."""


class RemoteProtocolError(ProtocolError):
    """The other side sent something that the protocol does not allow."""


class OutOfMemory(EdgebenchError):
    """A command needs more memory than this machine has, or than the process may use."""


class MeasurementError(EdgebenchError):
    """A number was measured that cannot be trusted, or cannot be computed."""

    def __init__(self, text: str, *, invalid: str | None = None) -> None:
        super().__init__(text)
        self.invalid = invalid
        """Run, set or comparison that is invalid, where the error is that its numbers are asked
        for."""


class NotMetered(MeasurementError):
    """Energy is asked for of a run that was made without a meter."""


class NoPairLeft(MeasurementError):
    """No pair of a comparison has two runs that count."""

    def __init__(self, text: str, comparison_id: str, *, is_invalid: bool = False) -> None:
        super().__init__(text, invalid=comparison_id if is_invalid else None)
        self.comparison_id = comparison_id


class TraceRefused(MeasurementError):
    """A file of power gives no energy of a run; nothing was stored."""


class SamplesUnknown(TraceRefused):
    """Samples of a file may be instants, of which there are too few; or means, and nobody said."""


class WindowTooShort(MeasurementError):
    """A window is shorter than the meter, with what the clocks leave open, can resolve."""


class StoreError(EdgebenchError):
    """The result store cannot be read or written."""


class RunNotStored(StoreError):
    """A finished run cannot be stored; its device keeps it."""


class RunDamaged(StoreError):
    """A file of a stored run is missing, or not readable as what it should be."""


class RunSetAside(RunDamaged):
    """A run of a device cannot be analysed; its files are kept apart from the runs."""


class BundleDamaged(RunDamaged):
    """A file of a run in a bundle is not what its sender put into it."""


class CampaignDamaged(StoreError):
    """Plan or journal of a campaign is missing, or not readable as what it should be."""


class RunNewer(StoreError):
    """A stored run, or a bundle of runs, has a schema that a later edgebench made."""


class BundleNotUnpacked(StoreError):
    """A bundle of runs cannot be unpacked into the directory of temporary files."""


class DirectoryTaken(StoreError):
    """Something else is already where a recording is to be written."""


class FileNotWritten(StoreError):
    """A report or an export cannot be written; the stored runs are not affected."""


class SystemFailure(EdgebenchError):
    """The operating system refuses an operation for which there is no closer error."""

    def __init__(self, text: str = "", number: int | None = None) -> None:
        super().__init__(text)
        self.number = number
        """Its error number, errno(3)."""


class Unforeseen(EdgebenchError):
    """A fault of edgebench: an exception that no code expects or translates."""

    def __init__(self, text: str = "", path: str | None = None) -> None:
        super().__init__(text)
        self.path = path
        """File with the traceback; None if it could not be written, or is on another machine."""


UsageErrorT = TypeVar("UsageErrorT", bound=UsageError)


def with_meant(error: UsageErrorT, name: str, known: Iterable[str]) -> UsageErrorT:
    """The error about an unknown name; its `meant` is the first that begins so, or the closest."""
    from difflib import get_close_matches  # only here: a correct command does not need it

    names = list(known)
    longer = [one for one in names if len(name) > 2 and one.startswith(name)]
    error.meant = next(iter([*longer[:1], *get_close_matches(name, names, 1)]), None)
    return error


def unknown_name(kind: str, name: str, known: Iterable[str]) -> UsageError:
    """Error about a name that is not among the known ones.

    >>> error = unknown_name("runtime", "onxx", ["litert", "onnx"])
    >>> str(error), error.meant
    ("unknown runtime 'onxx': there are litert, onnx", 'onnx')
    """
    names = list(known)
    text = f"unknown {kind} {name!r}: there are {', '.join(names)}"
    return with_meant(UsageError(text), name, names)


def error_from_code(code: int, text: str) -> EdgebenchError:
    """The local exception for an error that an agent reported by `code`; its text is one line."""
    return _CLASS_BY_CODE.get(ErrorCode(code), TargetError)(one_line(text, MAX_TEXT))


_CLASSES: tuple[type[EdgebenchError], ...] = (
    UsageError,
    NoSuchDevice,
    TargetError,
    RuntimeUnavailable,
    ModelRefused,
    InputsRefused,
    DatasetRefused,
    SampleShapeRefused,
    SampleTypeRefused,
    SamplesClipped,
    OutputsTooLarge,
    DatasetTooSlow,
    DelegateRefused,
    SignatureRefused,
    ExternalDataRefused,
    InferenceFailed,
    WorkerDied,
    WorkerTimeout,
    TooHot,
    RunStopped,
    SeatLeft,
    TargetDriverMissing,
    GovernorRefused,
    SettingRefused,
    LeaseHeld,
    NoSpace,
    NotPaired,
)
_CLASS_BY_CODE = {kind.code: kind for kind in _CLASSES} | {
    # What the agent calls the peer's mistake is ours.
    ErrorCode.PROTOCOL: LocalProtocolError,
}
