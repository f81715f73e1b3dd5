"""The whole error tree, split by who must act.

    EdgebenchError
    ├── UsageError               the caller: a bad argument, an unknown name
    │   ├── NoSuchRun                no stored run has that name, or several have
    │   ├── NoSecondSide             runs of one side were named to be compared
    │   ├── PageUnavailable          the page cannot be served here, or at this address
    │   ├── FileExists               the file to write exists already
    │   ├── NoSuchModel              no file has that path, and no built-in model that name
    │   │   └── ModelFileMissing         the file that stored runs measured is not found by its hash
    │   ├── NotAModel                a path is not a file, or its format is unknown
    │   │   └── ModelNotFetched          the file is a pointer of Git LFS, the model is elsewhere
    │   ├── NotAKit                  a file holds no Python for that phone
    │   │   └── KitOfOtherMachine        it is for another machine
    │   ├── KitNotBuilt              a Python for phones cannot be built from that system
    │   ├── NoSuchCampaign           no campaign of the store has that name
    │   ├── CampaignRunning          another process makes a campaign's runs
    │   ├── NoSuchDevice             no known device or seat has that name, or several have
    │   │   ├── NotSimulated             no paired device has the name of a simulated board
    │   │   ├── DeviceNotOffered         no lab host of a cluster offers a device
    │   │   └── AllQuarantined           every matching device is in quarantine
    │   ├── BoardKnown               the agent to pair with may be on the board of a known device
    │   ├── NoSuchMeter              no energy meter has that name, or it cannot be used here
    │   ├── WrongMeterOption         an option of a meter's address is unknown, or beyond a limit
    │   ├── MeterNotServed           the device's agent does not serve that meter
    │   ├── FileRefused              a file to import is damaged, or of an unexpected kind
    │   │   ├── ColumnsUnknown           its column names are unknown: the user has to map them
    │   │   └── BundleRefused            not a bundle of runs, damaged, or over a limit
    │   ├── FileChanged              a file changed between two reads
    │   ├── DatasetFileRefused       a file is not a data set
    │   │   ├── DatasetIncomplete        it has no samples, or a sample has no label
    │   │   └── DatasetNotFinite         it holds NaN or infinity
    │   ├── InputsRefused            the chosen shapes or inputs do not fit the model
    │   ├── OwnModelOnly             a device has its model in its firmware, and takes no other
    │   ├── RunsTooShort             the duration that the runs share is too short for so many
    │   ├── NoLoadCode               a run has no load code to align a file with
    │   ├── NoLoadgenLog             a run has no LoadGen log that may be exported
    │   └── NotComparable            runs differ in more than what is compared
    │       └── MetersDiffer             their joules come from two meters, or two boundaries
    ├── TargetError              the device cannot or will not do this
    │   ├── RuntimeUnavailable       the runtime is absent or broken there
    │   ├── ModelRefused             the model file is not accepted
    │   │   ├── BoardModelRefused        a microcontroller cannot run it
    │   │   ├── NoBoardProfiler          a microcontroller cannot time its operators
    │   │   ├── DatasetRefused           a data set does not fit the model
    │   │   │   ├── SampleShapeRefused       its samples have another shape
    │   │   │   ├── SampleTypeRefused        its samples are quantised, the input takes real values
    │   │   │   ├── SamplesClipped           many of its values are out of the input's range
    │   │   │   ├── OutputsTooLarge          the outputs for all samples cannot be kept
    │   │   │   └── DatasetTooSlow           the device would take longer over it than allowed
    │   │   ├── DelegateRefused          the runtime has no such delegate, or cannot load it
    │   │   ├── SignatureRefused         the model file has no such signature
    │   │   ├── ExternalDataRefused      the weights of a model are in another file
    │   │   └── InferenceFailed          the model was loaded, and its first inference failed
    │   ├── WorkerDied               the process that ran the model was killed or crashed
    │   ├── WorkerTimeout            the model did not finish within its time limit
    │   ├── TooHot                   it is above the temperature at which a run has to end
    │   ├── RunStopped               the run was stopped before anything was measured
    │   ├── SeatLeft                 it was unplugged from its agent
    │   ├── GovernorRefused          the requested CPU governor cannot be set
    │   ├── SettingRefused           a phone setting, such as airplane mode, cannot be changed
    │   ├── MeterLost                an open energy meter has disappeared
    │   ├── NotPermitted             the user lacks the permission for an instrument
    │   ├── BoardLost                a microcontroller has disappeared
    │   ├── BoardSilent              a microcontroller does not respond, or in no known dialect
    │   ├── BoardRestarted           a microcontroller restarted during an operation
    │   ├── BoardRefusal             a microcontroller rejects a command with an error of its own
    │   ├── BoardFault               a microcontroller stopped in a fault of its processor
    │   ├── OtherBoard               another microcontroller than expected is connected
    │   ├── LineDamaged              a serial line loses or changes bytes repeatedly
    │   ├── LeaseHeld                another client measures there now
    │   ├── OtherEnvironment         an agent with other runtimes serves this machine
    │   ├── NoSpace                  disk full, or a quota reached
    │   │   └── TooLarge                 a file is larger than what the device can take
    │   ├── PythonMissing            the device has no Python that edgebench runs on
    │   │   └── KitMissing               the device is a phone, and this host has no Python for it
    │   ├── DeployRunning            another deploy is in progress on the device
    │   ├── PackagesMissing          no source has the packages to install there
    │   ├── SimulationMissing        the simulated boards are not installed there
    │   ├── TargetDriverMissing      the driver of microcontrollers is not installed there
    │   ├── FlashToolMissing         no installed program writes firmware onto this board
    │   ├── PortTaken                the agent cannot listen there
    │   └── AgentRunning             an agent with this state runs already
    ├── TransportError           the link (retryable)
    │   ├── Unreachable              no agent responds at that address
    │   │   ├── AgentBusy                it closes connections before it shows its certificate
    │   │   ├── AgentNotStarted          the device responds, but no agent runs on it
    │   │   ├── AdbMissing               no adb server runs here, and no `adb` is installed
    │   │   └── PhoneUnavailable         adb cannot use a phone in its present state
    │   ├── NotPaired                the other side does not trust this identity
    │   │   └── WrongAgent               its identity is not the pinned identity
    │   │       └── WrongBoard               it has the pinned identity, on another board
    │   ├── AccessDenied             SSH: its host key is not trusted, or it rejects the login
    │   │   └── TooManyKeys          SSH: it ends the login before the right key was offered
    │   ├── LabHostsUnreachable      no lab host of a cluster responds, or offers a device
    │   ├── LinkLost                 the connection broke
    │   └── LinkTimeout              no reply in time
    ├── ProtocolError            a bug, or a hostile peer
    │   ├── LocalProtocolError       this side sent something invalid
    │   └── RemoteProtocolError      the other side sent something invalid
    ├── OutOfMemory              a command needs more memory than this machine has
    ├── MeasurementError         the number cannot be trusted
    │   ├── NotMetered           energy of a run that was made without a meter
    │   ├── NoPairLeft           no pair of a comparison has two valid runs
    │   ├── CodesNotFound            a power trace does not contain a run's load codes
    │   └── TraceRefused         a power trace gives no energy of the run
    │       ├── SamplesUnknown       its samples may be instantaneous, and too few
    │       └── TraceOfAnotherRun    it was recorded during another run
    ├── StoreError               the result store: unreadable, read-only, full
    │   ├── RunNotStored             a finished run cannot be stored; it stays on its device
    │   ├── RunDamaged               a file of a stored run is missing or not readable
    │   │   ├── RunSetAside              a run of a device cannot be analysed; its files are kept
    │   │   └── BundleDamaged            … in a bundle
    │   ├── CampaignDamaged          plan or journal of a campaign is not readable
    │   ├── RunNewer                 a later version wrote a stored run, or a bundle of runs
    │   ├── BundleNotUnpacked        there is no space to unpack a bundle of runs
    │   ├── DirectoryTaken           the destination exists already
    │   └── FileNotWritten           a report or export cannot be written
    ├── SystemFailure            the operating system: a file or pipe cannot be read or written
    └── Unforeseen               a fault of edgebench: an exception that is not translated

The text of an error is a single printable line: what failed, the value, the limit. Quoted text is
made printable as well. The command-line layer adds the next step. Errors that cross the wire carry
an `ErrorCode`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from enum import Enum, IntEnum
from types import MappingProxyType
from typing import Any, TypeVar

from edgebench.protocol.text import one_line, printable

MAX_TEXT = 1000
"""Characters of an error's text that are taken from the other side."""


class ErrorCode(IntEnum):
    """Stable numbers of the errors that an agent may send; never renumber."""

    UNKNOWN = 0
    """A code that this version does not support (a newer agent sent it)."""
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
    BOARD_MODEL_REFUSED = 31
    OTHER_BOARD = 32
    NO_BOARD_PROFILER = 33

    @classmethod
    def _missing_(cls, value: object) -> ErrorCode:
        return cls.UNKNOWN


class Permission(Enum):
    """Permission that the user needs to use an instrument."""

    SERIAL_PORT = "serial_port"
    """A serial port: granted to a group of users."""
    USB_TESTER = "usb_tester"
    """A USB tester: granted by a udev rule."""


class EdgebenchError(Exception):
    """Root of every error that edgebench raises on purpose."""

    code = ErrorCode.INTERNAL
    retryable = False
    run_id: str | None = None
    """Stored run that failed with this error."""
    is_unstarted = False
    """Whether the run was rejected before it started, and left no data."""

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
        """Pickle the state as is: some classes take more arguments than a text."""
        return _unpickled, (type(self), self.args, self.__dict__)


def _unpickled(
    kind: type[EdgebenchError], args: tuple[Any, ...], state: dict[str, Any]
) -> EdgebenchError:
    """Rebuild the error from what `__reduce__` returns."""
    error = kind.__new__(kind, *args)
    error.args = args
    error.__dict__.update(state)
    return error


class UsageError(EdgebenchError):
    """A request of the caller is invalid."""

    code = ErrorCode.USAGE
    meant: str | None = None
    """Known name closest to the unknown name; None if no name is close."""


class NoSuchRun(UsageError):
    """No stored run matches a name, or several do."""

    def __init__(
        self, text: str, bundle: str | None = None, *, is_store_empty: bool = False
    ) -> None:
        super().__init__(text)
        self.bundle = bundle
        """Path of the bundle, if a bundle was searched."""
        self.is_store_empty = is_store_empty
        self.model: str | None = None
        """The name, if it is the name of a model file."""


class NoSecondSide(UsageError):
    """All runs of a comparison belong to the same side."""

    def __init__(
        self, text: str, comparison_id: str | None = None, *, sides: tuple[str, ...] = ()
    ) -> None:
        super().__init__(text)
        self.comparison_id = comparison_id
        """Comparison in pairs that the runs belong to, if any."""
        self.sides = sides
        """Names that the user may have meant as the two sides."""


class PageUnavailable(UsageError):
    """The page of results cannot be served: a package is missing, or the address is taken."""

    def __init__(self, text: str, install: str | None = None) -> None:
        super().__init__(text)
        self.install = install
        """Command that installs the missing package; None if no package is missing."""


class FileExists(UsageError):
    """A file to write exists already, and would be overwritten."""


class NoSuchModel(UsageError):
    """No file has this path, and no built-in model has this name."""


class ModelFileMissing(NoSuchModel):
    """The model of stored runs is to be measured again, and no file has its SHA-256."""

    def __init__(self, message: str, sha256: str) -> None:
        """Error with the digest of the missing file."""
        super().__init__(message)
        self.sha256 = sha256


class NotAModel(UsageError):
    """A path is not a file, or no runtime of the device loads its format."""


class ModelNotFetched(NotAModel):
    """A model file is a pointer of Git LFS: the model itself was not fetched."""


class NotAKit(UsageError):
    """A file is not a kit, is damaged, or is for another machine."""


class KitOfOtherMachine(NotAKit):
    """A kit is for a machine other than the phone's."""

    def __init__(self, message: str, machine: str = "") -> None:
        super().__init__(message)
        self.machine = machine
        """Machine of the phone, as uname(1) names it."""


class KitNotBuilt(UsageError):
    """A kit cannot be built from that system, or with the packages available for it."""


class NoSuchCampaign(UsageError):
    """No campaign of the store has this id or name."""


class CampaignRunning(UsageError):
    """Another process makes the runs of this campaign."""


class NoSuchDevice(UsageError):
    """No known device matches a name, or several do; or an agent has no seat of that name."""

    code = ErrorCode.NO_SUCH_DEVICE


class NotSimulated(NoSuchDevice):
    """No paired device has the name of a simulated board."""

    def __init__(self, text: str, board: str) -> None:
        super().__init__(text)
        self.board = board
        """Key of the board's profile."""


class DeviceNotOffered(NoSuchDevice):
    """No lab host of a cluster offers a device."""

    def __init__(self, text: str, device: str) -> None:
        super().__init__(text)
        self.device = device
        """Name of the device, quoted for a shell."""


class AllQuarantined(NoSuchDevice):
    """Every matching device is in quarantine."""

    def __init__(self, text: str, device: str) -> None:
        super().__init__(text)
        self.device = device
        """Name of any of the devices, quoted for a shell."""


class BoardKnown(UsageError):
    """An agent to pair with seems to be on a known device's board, and no user can confirm it."""


class NoSuchMeter(UsageError):
    """No driver has the name of a meter, or the meter is not connected."""

    def __init__(self, text: str, *, permission: Permission | None = None) -> None:
        super().__init__(text)
        self.permission = permission
        """Permission that the user lacks, if the meter is connected."""


class WrongMeterOption(UsageError):
    """The driver of a meter rejects the options after its name."""


class MeterNotServed(UsageError):
    """The agent was not started with the requested meter (`--meter`).

    `meant` is the only served meter whose text begins like the request.
    """

    def __init__(self, text: str, meter: str, *, meant: str | None = None) -> None:
        super().__init__(text)
        self.meter = meter
        """Meter, as `edgebench-agent serve --meter` takes it."""
        self.meant = meant


class FileRefused(UsageError):
    """A file to import is damaged, incomplete, or of an unknown kind.

    `works_with` are words of options with which it can be read, which were tried.
    """

    works_with: tuple[tuple[str, ...], ...] = ()


class BundleRefused(FileRefused):
    """A file is not a bundle of runs, is damaged, or exceeds a limit."""


class ColumnsUnknown(FileRefused):
    """The column names of a table are unknown; the text lists them."""


class FileChanged(UsageError):
    """A file was changed between two steps that need the same content."""


class DatasetFileRefused(UsageError):
    """A file is not a data set: its arrays, labels or metric are invalid."""


class DatasetIncomplete(DatasetFileRefused):
    """A data set has no samples, or the number of labels differs from that of samples."""


class DatasetNotFinite(DatasetFileRefused):
    """A data set holds NaN or infinity."""


class InputsRefused(UsageError):
    """The chosen shapes or inputs do not fit the model."""

    code = ErrorCode.INPUTS_REFUSED


class OwnModelOnly(UsageError):
    """A device runs only the model in its firmware, and the request is for another."""

    def __init__(self, text: str, device: str) -> None:
        super().__init__(text)
        self.device = device
        """Name of the device, as the host's commands accept it."""


class RunsTooShort(UsageError):
    """The duration that the runs of a set share is too short for so many runs."""

    def __init__(self, text: str, enough_s: float, run_limit: int) -> None:
        super().__init__(text)
        self.enough_s = enough_s
        """Duration that is long enough for so many runs."""
        self.run_limit = run_limit
        """Largest number of runs for which the duration is long enough."""


class NoLoadCode(UsageError):
    """A run has no load code, which is needed to align an instrument's file with it."""


class NoLoadgenLog(UsageError):
    """A run has no log of MLPerf's LoadGen, or is invalid, so its log is not exported."""


class NotComparable(UsageError):
    """Runs differ in more than what is compared."""

    def __init__(self, text: str, keys: Sequence[str], comparison_id: str | None = None) -> None:
        super().__init__(text)
        self.keys = tuple(keys)
        """Keys in which they differ, as `--allow` takes them."""
        self.comparison_id = comparison_id
        """Id of the compared pairs; None for runs that were named by sides."""


class MetersDiffer(NotComparable):
    """Energies come from two meters, or from two boundaries: no option allows the comparison."""

    def __init__(self, text: str) -> None:
        super().__init__(text, [])


class TargetError(EdgebenchError):
    """The device cannot or will not do what was requested."""

    code = ErrorCode.TARGET


class RuntimeUnavailable(TargetError):
    """The inference runtime is not installed on the device, or does not work there."""

    code = ErrorCode.RUNTIME_UNAVAILABLE
    install: str | None = None
    """Command that installs the runtime on the device; None if no command does."""


class ModelRefused(TargetError):
    """The model file is not accepted by the runtime, or exceeds a limit."""

    code = ErrorCode.MODEL_REFUSED


class BoardModelRefused(ModelRefused):
    """The firmware of a microcontroller cannot run the model, or has too little memory for it."""

    code = ErrorCode.BOARD_MODEL_REFUSED

    def __init__(
        self, text: str = "", *, missing_operators: Mapping[str, int] = MappingProxyType({})
    ) -> None:
        super().__init__(text)
        self.missing_operators = missing_operators
        """Operators that the firmware does not support: how many of each, by name."""

    @property
    def kind(self) -> str:
        """Name of its base class: documents have the same kind for all refused models."""
        return "model_refused"


class NoBoardProfiler(ModelRefused):
    """The firmware of a microcontroller cannot time the operators of the model."""

    code = ErrorCode.NO_BOARD_PROFILER

    @property
    def kind(self) -> str:
        """Name of its base class: documents have the same kind for all refused models."""
        return "model_refused"


class DatasetRefused(ModelRefused):
    """The samples of a data set, or the outputs for them, do not fit the model."""

    code = ErrorCode.DATASET_REFUSED


class SampleShapeRefused(DatasetRefused):
    """The shape of a data set's samples differs from the shape of the model's input."""

    code = ErrorCode.SAMPLE_SHAPE_REFUSED


class SampleTypeRefused(DatasetRefused):
    """The samples of a data set are quantised, but the model's input takes real values."""

    code = ErrorCode.SAMPLE_TYPE_REFUSED


class SamplesClipped(DatasetRefused):
    """Many values of a data set are beyond the range of a quantised input."""

    code = ErrorCode.SAMPLES_CLIPPED


class OutputsTooLarge(DatasetRefused):
    """The outputs for all samples of a data set cannot be kept."""

    code = ErrorCode.OUTPUTS_TOO_LARGE


class DatasetTooSlow(DatasetRefused):
    """A device that times itself would take longer over a data set than allowed."""

    code = ErrorCode.DATASET_TOO_SLOW


class DelegateRefused(ModelRefused):
    """A runtime has no delegate of this name, or cannot load it; the text lists its delegates."""

    code = ErrorCode.DELEGATE_REFUSED


class SignatureRefused(ModelRefused):
    """A model file has no signature of this name; the text lists its signatures."""

    code = ErrorCode.SIGNATURE_REFUSED


class ExternalDataRefused(ModelRefused):
    """Weights of a model are in another file, and a device receives only a single file."""

    code = ErrorCode.EXTERNAL_DATA_REFUSED


class InferenceFailed(ModelRefused):
    """The first inference of a loaded model failed, often because of unsuitable inputs."""

    code = ErrorCode.INFERENCE_FAILED


class WorkerDied(TargetError):
    """The worker process was killed or crashed before it finished."""

    code = ErrorCode.WORKER_DIED


class WorkerTimeout(TargetError):
    """The worker exceeded the time limit of a phase and was stopped."""

    code = ErrorCode.WORKER_TIMEOUT


class TooHot(TargetError):
    """The device is above the temperature at which its profile ends a run."""

    code = ErrorCode.TOO_HOT


class RunStopped(TargetError):
    """A run was stopped before anything was measured."""

    code = ErrorCode.RUN_STOPPED


class SeatLeft(TargetError):
    """A device is no longer connected to its agent."""

    code = ErrorCode.DEVICE_GONE


class GovernorRefused(TargetError):
    """The kernel does not offer the requested CPU governor, or it may not be set."""

    code = ErrorCode.GOVERNOR_REFUSED


class SettingRefused(TargetError):
    """The requested setting does not exist on the phone, or cannot be changed."""

    code = ErrorCode.SETTING_REFUSED


class MeterLost(TargetError):
    """An open energy meter does not start another recording."""


class NotPermitted(TargetError):
    """The user lacks the permission to use an instrument."""

    def __init__(self, text: str, permission: Permission) -> None:
        super().__init__(text)
        self.permission = permission


class BoardLost(TargetError):
    """A microcontroller, or the program in place of it, has disappeared."""


class BoardSilent(TargetError):
    """A microcontroller does not respond in time, or its replies have no known dialect."""


class BoardRestarted(TargetError):
    """A microcontroller restarted during an operation; its model and inputs are lost."""


class BoardRefusal(TargetError):
    """A microcontroller rejects a command with an error; the text quotes it."""


class BoardFault(TargetError):
    """A microcontroller reports a fault of its processor; it has stopped, or will restart."""


class OtherBoard(TargetError):
    """A microcontroller reports another name than when it was identified at its port."""

    code = ErrorCode.OTHER_BOARD


class LineDamaged(TargetError):
    """A serial line loses or changes bytes, even after all repetitions."""


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
        """Whether the holder has the same user name and machine name as the caller."""
        self.waited_s = waited_s
        """Time for which the caller has waited without success."""


class OtherEnvironment(TargetError):
    """The runtimes of the agent that serves this machine differ from those of the command."""

    def __init__(self, text: str, *, pid: int | None = None) -> None:
        super().__init__(text)
        self.pid = pid
        """Process of the agent."""


class DeployRunning(TargetError):
    """Another deploy is installing, starting or removing an agent in that account."""


class NoSpace(TargetError):
    """The device's disk is full, or a quota is reached."""

    code = ErrorCode.NO_SPACE


class TooLarge(NoSpace):
    """A file does not fit on the device, even if all other models are removed."""


class PythonMissing(TargetError):
    """The device has no Python that edgebench runs on."""


class KitMissing(PythonMissing):
    """The device is a phone, and this host has no Python for it."""

    def __init__(self, message: str, machine: str = "") -> None:
        super().__init__(message)
        self.machine = machine
        """Machine of the phone, as uname(1) names it."""


class PackagesMissing(TargetError):
    """The packages to install on the device are available neither there nor on the host."""


class SimulationMissing(TargetError):
    """The simulated boards are not part of this installation."""


class TargetDriverMissing(TargetError):
    """The driver of microcontrollers is not installed there: the firmware bridge, or QEMU."""

    code = ErrorCode.TARGET_DRIVER_MISSING


class FlashToolMissing(TargetError):
    """No program that writes firmware onto a board is on PATH."""


class PortTaken(TargetError):
    """The agent cannot listen: the port is in use, or the address is not the device's."""


class AgentRunning(TargetError):
    """An agent with this state directory runs already."""

    def __init__(self, text: str, pid: int | None = None) -> None:
        super().__init__(text)
        self.pid = pid
        """Process id of the agent; None if the agent did not report it."""


class TransportError(EdgebenchError):
    """The link failed."""

    retryable = True


class Unreachable(TransportError):
    """No agent responds at the address."""

    def __init__(self, text: str, *, reason: str = "", is_offline: bool = False) -> None:
        super().__init__(text)
        self.reason = reason or str(self)
        """Reason without the address; the text of the error names the address too."""
        self.is_offline = is_offline
        """Whether this machine has no network route to the address."""


class AgentBusy(Unreachable):
    """An address repeatedly closes connections before it shows a certificate.

    An agent closes them if too many are waiting for their handshake.
    """


class AgentNotStarted(Unreachable):
    """The device responds, but no process listens on the port of its agent."""

    def __init__(self, text: str, target: str) -> None:
        super().__init__(text)
        self.target = target
        """Device, as `edgebench deploy` takes it."""


class AdbMissing(Unreachable):
    """No adb server runs on this machine, and no program `adb` is installed to start it."""

    retryable = False


class PhoneUnavailable(Unreachable):
    """A phone is not connected, or is in a state in which adb cannot use it."""

    def __init__(self, text: str, reason: str, step: str) -> None:
        super().__init__(text, reason=reason)
        self.step = step
        """Next step for this state, with a command."""


class NotPaired(TransportError):
    """The other side rejects this identity, or shows an identity that is not pinned."""

    code = ErrorCode.NOT_PAIRED
    retryable = False


class WrongAgent(NotPaired):
    """The agent at the address is not the pinned agent."""


class WrongBoard(WrongAgent):
    """An agent with the pinned identity is on another board, or several agents have the identity.

    Both happen with copies of an SD card.
    """


class AccessDenied(TransportError):
    """The SSH server rejects the login, or shows a host key that is not trusted."""

    retryable = False

    def __init__(self, text: str, login: str) -> None:
        super().__init__(text)
        self.login = login
        """Arguments of `ssh` for the same login by hand."""


class TooManyKeys(AccessDenied):
    """The SSH server ends the login before the right key was offered."""


class LabHostsUnreachable(TransportError):
    """No scheduler of a cluster responds, or none of its lab hosts offers a device."""

    retryable = False


class LinkLost(TransportError):
    """An open connection broke."""


class LinkTimeout(TransportError):
    """The other side did not reply in time."""


class ProtocolError(EdgebenchError):
    """A peer violated the protocol."""

    code = ErrorCode.PROTOCOL


class LocalProtocolError(ProtocolError):
    """This side tried to send something that the protocol does not allow, or did send it."""


class RemoteProtocolError(ProtocolError):
    """The other side sent something that the protocol does not allow."""


class OutOfMemory(EdgebenchError):
    """A command needs more memory than this machine has, or than the process may use."""


class MeasurementError(EdgebenchError):
    """A measured number cannot be trusted, or cannot be computed."""

    def __init__(self, text: str, *, invalid: str | None = None) -> None:
        super().__init__(text)
        self.invalid = invalid
        """Run, set or comparison whose numbers were requested although it is invalid."""


class NotMetered(MeasurementError):
    """The energy was requested of a run that was made without a meter."""


class NoPairLeft(MeasurementError):
    """No pair of a comparison has two valid runs."""

    def __init__(self, text: str, comparison_id: str, *, is_invalid: bool = False) -> None:
        super().__init__(text, invalid=comparison_id if is_invalid else None)
        self.comparison_id = comparison_id


class CodesNotFound(MeasurementError):
    """A power trace does not contain the load codes of a run."""


class TraceRefused(MeasurementError):
    """A power trace gives no energy of a run; nothing was stored."""


class TraceOfAnotherRun(TraceRefused):
    """A power trace was recorded during another run."""

    def __init__(self, text: str, run_id: str) -> None:
        super().__init__(text)
        self.run_id = run_id
        """Id of the run whose load codes are in the trace."""


class SamplesUnknown(TraceRefused):
    """A trace does not state whether its samples are instantaneous; if so, they are too few."""


class StoreError(EdgebenchError):
    """The result store cannot be read or written."""


class RunNotStored(StoreError):
    """A finished run cannot be stored; its device keeps it."""


class RunDamaged(StoreError):
    """A file of a stored run is missing, or not readable in its format."""

    damaged_id: str | None = None
    """Id of the run in its store; None if it is in a bundle or elsewhere, or not known."""


class RunSetAside(RunDamaged):
    """A run of a device cannot be analysed; its files are kept apart from the runs."""


class BundleDamaged(RunDamaged):
    """A file of a run in a bundle differs from what its sender packed."""


class CampaignDamaged(StoreError):
    """Plan or journal of a campaign is missing, or not readable in its format."""


class RunNewer(StoreError):
    """A stored run, or a bundle of runs, has the schema of a later version of edgebench."""


class BundleNotUnpacked(StoreError):
    """A bundle of runs cannot be unpacked into the directory of temporary files."""


class DirectoryTaken(StoreError):
    """The directory for a recording exists already, with other content."""


class FileNotWritten(StoreError):
    """A report or an export cannot be written; the stored runs are not affected."""


class SystemFailure(EdgebenchError):
    """An operation of the operating system failed, and no other class is more specific."""

    def __init__(self, text: str = "", number: int | None = None) -> None:
        super().__init__(text)
        self.number = number
        """Its error number, errno(3)."""


class Unforeseen(EdgebenchError):
    """A fault of edgebench: an exception that no code expects or translates.

    Its traceback is in a file, see `edgebench.system.unforeseen`.
    """

    def __init__(self, text: str = "", path: str | None = None) -> None:
        super().__init__(text)
        self.path = path
        """File with the traceback; None if it was not written, or is on another machine."""


UsageErrorT = TypeVar("UsageErrorT", bound=UsageError)


@contextmanager
def os_error_as(kind: type[EdgebenchError], what: str, place: object = None) -> Iterator[None]:
    """Raise an OSError of the block as an error of this kind: what failed, why, and where.

    Without a place, it is the file that the operating system names; errors of libraries may have
    only a text.

    Raises:
        EdgebenchError: an error of this kind: the block raised an OSError.
    """
    try:
        yield
    except OSError as exc:
        parts = (what, exc.strerror or str(exc), place or exc.filename)
        raise kind(": ".join(str(part) for part in parts if part)) from exc


def with_meant(
    error: UsageErrorT, name: str, known: Iterable[str], *, cutoff: float = 0.6
) -> UsageErrorT:
    """Set `meant` of an error about an unknown name.

    `meant` is the first known name that starts with `name`, if `name` has 3 letters or more; else
    the known name closest to it, if its similarity, as difflib defines it, is at least `cutoff`.
    """
    from difflib import get_close_matches  # only here: a correct command does not need it

    names = list(known)
    longer = [known for known in names if len(name) > 2 and known.startswith(name)]
    error.meant = next(iter([*longer[:1], *get_close_matches(name, names, 1, cutoff)]), None)
    return error


def unknown_name(kind: str, name: str, known: Iterable[str]) -> UsageError:
    """Error about a name that is not among the known names.

    >>> error = unknown_name("runtime", "onxx", ["litert", "onnx"])
    >>> str(error), error.meant
    ("unknown runtime 'onxx': there are litert, onnx", 'onnx')
    """
    names = list(known)
    text = f"unknown {kind} {name!r}: there are {', '.join(names)}"
    return with_meant(UsageError(text), name, names)


def error_from_code(code: int, text: str) -> EdgebenchError:
    """Exception for an error that an agent reported by `code`; its text is a single line."""
    return _CLASS_BY_CODE.get(ErrorCode(code), TargetError)(one_line(text, MAX_TEXT))


_CLASSES: tuple[type[EdgebenchError], ...] = (
    UsageError,
    NoSuchDevice,
    TargetError,
    RuntimeUnavailable,
    ModelRefused,
    BoardModelRefused,
    NoBoardProfiler,
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
    OtherBoard,
    GovernorRefused,
    SettingRefused,
    LeaseHeld,
    NoSpace,
    NotPaired,
)
_CLASS_BY_CODE = {kind.code: kind for kind in _CLASSES} | {
    # The agent reports the peer's mistake, and the peer is this side.
    ErrorCode.PROTOCOL: LocalProtocolError,
}
