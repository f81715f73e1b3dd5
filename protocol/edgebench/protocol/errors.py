"""All error classes of edgebench; each branch of their tree has a different kind of cause.

    EdgebenchError
    ├── UsageError               the caller: a bad argument, an unknown name
    │   ├── NoSuchRun                the name fits no stored run, or fits several
    │   ├── NoSecondSide             all runs named for a comparison belong to the same side
    │   ├── PageUnavailable          the page cannot be served here, or at this address
    │   ├── FileExists               the file to write exists already
    │   ├── NoSuchModel              no file has that path, and no built-in model has that name
    │   │   └── ModelFileMissing         no file has the hash of the model of stored runs
    │   ├── NotAModel                a path is not a file, or the file's format is unknown
    │   │   └── ModelNotFetched          the file is only a pointer of Git LFS to the model
    │   ├── NotAKit                  a file is not a kit (a Python for phones) for that phone
    │   │   └── KitOfOtherMachine        the kit is for another machine type
    │   ├── KitNotBuilt              a kit cannot be built from the given system or packages
    │   ├── NoSuchCampaign           no campaign of the store has that name
    │   ├── CampaignRunning          another process is making a campaign's runs
    │   ├── NoSuchDevice             the name fits no known device or seat, or fits several
    │   │   ├── NotSimulated             a simulated board has the name, but no paired device has it
    │   │   ├── DeviceNotOffered         no lab host of a cluster offers a device
    │   │   └── AllQuarantined           every matching device is in quarantine
    │   ├── BoardKnown               the agent to pair with may be on the board of a known device
    │   ├── NoSuchMeter              no energy meter has that name, or the meter cannot be used
    │   ├── WrongMeterOption         an option of a meter's address is unknown, or beyond a limit
    │   ├── MeterNotServed           the device's agent does not serve that meter
    │   ├── FileRefused              a file to import is damaged, or of an unexpected kind
    │   │   ├── ColumnsUnknown           the column names are unknown: the user has to map them
    │   │   └── BundleRefused            the file is no bundle of runs, is damaged, or over a limit
    │   ├── FileChanged              a file changed between two reads
    │   ├── DatasetFileRefused       a file is not a data set
    │   │   ├── DatasetIncomplete        the data set has no samples, or a sample has no label
    │   │   └── DatasetNotFinite         the data set contains NaN or infinity
    │   ├── InputsRefused            the chosen shapes or inputs do not fit the model
    │   ├── OwnModelOnly             the device takes no model except the model in its firmware
    │   ├── RunsTooShort             a total duration is too short to be divided among so many runs
    │   ├── NoLoadCode               a run has no load code to align a file with
    │   ├── NoLoadgenLog             a run has no LoadGen log that may be exported
    │   └── NotComparable            runs differ in properties that have to be equal
    │       └── MetersDiffer             the energies come from different meters or boundaries
    ├── TargetError              the device cannot or will not do this
    │   ├── RuntimeUnavailable       the runtime is absent or broken on the device
    │   ├── ModelRefused             the model file is not accepted
    │   │   ├── BoardModelRefused        a microcontroller cannot run the model
    │   │   ├── NoBoardProfiler          a microcontroller cannot time the model's operators
    │   │   ├── DatasetRefused           a data set does not fit the model
    │   │   │   ├── SampleShapeRefused       the samples have another shape than the input
    │   │   │   ├── SampleTypeRefused        the samples are quantised, the input takes real values
    │   │   │   ├── SamplesClipped           many sample values are out of the input's range
    │   │   │   ├── OutputsTooLarge          the outputs for all samples are too large to be kept
    │   │   │   └── DatasetTooSlow           the device would need more time than the limit
    │   │   ├── DelegateRefused          the runtime has no such delegate, or cannot load it
    │   │   ├── SignatureRefused         the model file has no such signature
    │   │   ├── ExternalDataRefused      the weights of a model are in another file
    │   │   └── InferenceFailed          the model was loaded, and its first inference failed
    │   ├── WorkerDied               the process that ran the model was killed or crashed
    │   ├── WorkerTimeout            the model did not finish within its time limit
    │   ├── TooHot                   the device is hotter than the limit at which a run has to end
    │   ├── RunStopped               the run was stopped before anything was measured
    │   ├── SeatLeft                 the device was unplugged from its agent
    │   ├── GovernorRefused          the requested CPU governor cannot be set
    │   ├── SettingRefused           a phone setting, such as airplane mode, cannot be changed
    │   ├── MeterLost                an open energy meter has disappeared
    │   ├── NotPermitted             the user lacks the permission for an instrument
    │   ├── BoardLost                a microcontroller has disappeared
    │   ├── BoardSilent              a microcontroller does not respond, or uses an unknown protocol
    │   ├── BoardRestarted           a microcontroller restarted during an operation
    │   ├── BoardRefusal             a microcontroller rejects a command with an error of its own
    │   ├── BoardFault               a microcontroller stopped in a fault of its processor
    │   ├── OtherBoard               another microcontroller than expected is connected
    │   ├── LineDamaged              a serial line loses or changes bytes repeatedly
    │   ├── LeaseHeld                another client measures on the device now
    │   ├── OtherEnvironment         the agent here uses another Python environment
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
    │   └── AgentRunning             an agent with this state directory runs already
    ├── TransportError           the link (retryable)
    │   ├── Unreachable              no agent responds at that address
    │   │   ├── AgentBusy                a server closes connections before it shows a certificate
    │   │   ├── AgentNotStarted          the device responds, but no agent runs on it
    │   │   ├── AdbMissing               no adb server runs here, and no `adb` is installed
    │   │   └── PhoneUnavailable         adb cannot use a phone in its present state
    │   ├── NotPaired                the other side does not trust this identity
    │   │   └── WrongAgent               the agent's identity is not the pinned identity
    │   │       └── WrongBoard               the agent has the pinned identity, on another board
    │   ├── AccessDenied             SSH: the host key is not trusted, or the login is rejected
    │   │   └── TooManyKeys          SSH: the login ended before the right key was offered
    │   ├── LabHostsUnreachable      a cluster does not respond, or no lab host offers a device
    │   ├── LinkLost                 the connection broke
    │   └── LinkTimeout              no reply in time
    ├── ProtocolError            a bug, or a hostile peer
    │   ├── LocalProtocolError       this side sent something invalid
    │   └── RemoteProtocolError      the other side sent something invalid
    ├── OutOfMemory              a command needs more memory than this machine has
    ├── MeasurementError         the number cannot be trusted
    │   ├── NotMetered           the run whose energy is requested was made without a meter
    │   ├── NoPairLeft           no pair of a comparison has two valid runs
    │   ├── CodesNotFound            a power trace does not contain a run's load codes
    │   └── TraceRefused         a run's energy cannot be computed from a power trace
    │       ├── SamplesUnknown       the samples are enough only if they are averages
    │       └── TraceOfAnotherRun    the trace was recorded during another run
    ├── StoreError               the result store: unreadable, read-only, full
    │   ├── RunNotStored             a finished run cannot be stored; it stays on its device
    │   ├── RunDamaged               a file of a stored run is missing or not readable
    │   │   ├── RunSetAside              a run of a device cannot be analysed; its files are kept
    │   │   └── BundleDamaged            a file of a run in a bundle is damaged
    │   ├── CampaignDamaged          plan or journal of a campaign is not readable
    │   ├── RunNewer                 a later version wrote a stored run, or a bundle of runs
    │   ├── BundleNotUnpacked        there is no space to unpack a bundle of runs
    │   ├── DirectoryTaken           the destination exists already
    │   └── FileNotWritten           a report or export cannot be written
    ├── SystemFailure            the operating system: a file or pipe cannot be read or written
    └── Unforeseen               a fault of edgebench: an exception that is not translated

The text of an error is a single printable line: what failed, the value, the limit. Unprintable
characters in quoted text are replaced. The command-line layer adds a hint with the next step.
Errors that an agent sends to a host have an `ErrorCode`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from enum import Enum, IntEnum
from types import MappingProxyType
from typing import Any, TypeVar

from edgebench.protocol.text import one_line, printable

MAX_TEXT = 1000
"""Maximum length, in characters, of an error text from a peer; a longer text is cut."""


class ErrorCode(IntEnum):
    """Stable numbers of the errors that an agent may send; never renumber."""

    UNKNOWN = 0
    """Replaces every code that this version does not define; only a newer agent sends such a
    code."""
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
    """Access to a serial port, which the system grants to a group of users."""
    USB_TESTER = "usb_tester"
    """Access to a USB tester, which a udev rule grants."""


class EdgebenchError(Exception):
    """Base class of all errors that edgebench raises on purpose."""

    code = ErrorCode.INTERNAL
    retryable = False
    run_id: str | None = None
    """Id of the stored run that failed with this error; None if there is no such run."""
    is_unstarted = False
    """Whether the run was rejected before it started, and left no data."""

    def __init__(self, text: str = "") -> None:
        # Errors quote files, peers and libraries, and are printed, logged, stored and sent.
        super().__init__(printable(text.replace("\n", " ")))

    @property
    def kind(self) -> str:
        """Name of the error class in JSON documents.

        >>> UsageError("no").kind
        'usage'
        """
        name = type(self).__name__.removesuffix("Error")
        return "".join(f"_{char.lower()}" if char.isupper() else char for char in name).lstrip("_")

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the attributes, because some constructors have parameters besides the text."""
        return _unpickled, (type(self), self.args, self.__dict__)


def _unpickled(
    kind: type[EdgebenchError], args: tuple[Any, ...], state: dict[str, Any]
) -> EdgebenchError:
    """Rebuild an error from the values that `__reduce__` provides."""
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
    """No stored run matches a name, or several runs match it."""

    def __init__(
        self, text: str, bundle: str | None = None, *, is_store_empty: bool = False
    ) -> None:
        super().__init__(text)
        self.bundle = bundle
        """Path of the bundle that was searched; None if the store was searched."""
        self.is_store_empty = is_store_empty
        self.model: str | None = None
        """The name that matches no run, if it is the name of a model file; else None."""


class NoSecondSide(UsageError):
    """All runs that were named for a comparison belong to the same side of the comparison."""

    def __init__(
        self, text: str, comparison_id: str | None = None, *, sides: tuple[str, ...] = ()
    ) -> None:
        super().__init__(text)
        self.comparison_id = comparison_id
        """Id of the comparison in pairs to which the runs belong; None if they were not made in
        pairs."""
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
    """The model of stored runs cannot be measured again, because no file has its SHA-256."""

    def __init__(self, message: str, sha256: str) -> None:
        """Create the error for a model file with this SHA-256."""
        super().__init__(message)
        self.sha256 = sha256


class NotAModel(UsageError):
    """A path is not a file, or no runtime of the device loads the format of the file."""


class ModelNotFetched(NotAModel):
    """A model file is only a pointer of Git LFS, because the model itself was not fetched."""


class NotAKit(UsageError):
    """A file is not a kit (a Python for phones), is damaged, or is for another machine type."""


class KitOfOtherMachine(NotAKit):
    """A kit (a Python for phones) is for another machine type than the phone's."""

    def __init__(self, message: str, machine: str = "") -> None:
        super().__init__(message)
        self.machine = machine
        """Machine type of the phone, as uname(1) names it."""


class KitNotBuilt(UsageError):
    """A kit (a Python for phones) cannot be built from the given system or packages."""


class NoSuchCampaign(UsageError):
    """No campaign of the store has this id or name."""


class CampaignRunning(UsageError):
    """Another process is making the runs of this campaign."""


class NoSuchDevice(UsageError):
    """No known device matches a name, several devices match it, or an agent has no such seat."""

    code = ErrorCode.NO_SUCH_DEVICE


class NotSimulated(NoSuchDevice):
    """The requested name belongs to a simulated board, but no paired device has this name."""

    def __init__(self, text: str, board: str) -> None:
        super().__init__(text)
        self.board = board
        """Key of the simulated board's profile."""


class DeviceNotOffered(NoSuchDevice):
    """No lab host of a cluster offers the requested device."""

    def __init__(self, text: str, device: str) -> None:
        super().__init__(text)
        self.device = device
        """Name of the device, quoted for a shell."""


class AllQuarantined(NoSuchDevice):
    """Every device that matches the request is in quarantine."""

    def __init__(self, text: str, device: str) -> None:
        super().__init__(text)
        self.device = device
        """Name of a matching device, quoted for a shell."""


class BoardKnown(UsageError):
    """The agent to pair with may run on a known device's board, and no user can confirm this."""


class NoSuchMeter(UsageError):
    """No meter driver has the requested name, or the meter is not connected."""

    def __init__(self, text: str, *, permission: Permission | None = None) -> None:
        super().__init__(text)
        self.permission = permission
        """Permission that the user lacks to use a connected meter; None if no permission is
        lacking."""


class WrongMeterOption(UsageError):
    """A meter's driver rejects the options that follow the meter's name."""


class MeterNotServed(UsageError):
    """The agent was not started with the requested meter (`--meter`).

    `meant` is the served meter whose address begins with the requested text; None unless exactly
    one meter matches.
    """

    def __init__(self, text: str, meter: str, *, meant: str | None = None) -> None:
        super().__init__(text)
        self.meter = meter
        """Address of the requested meter, as `edgebench-agent serve --meter` takes it."""
        self.meant = meant


class FileRefused(UsageError):
    """A file to import is damaged, incomplete, or of an unknown kind.

    `works_with` lists pairs of an option and its value. The file was read successfully with these
    command-line options.
    """

    works_with: tuple[tuple[str, ...], ...] = ()


class BundleRefused(FileRefused):
    """A file is not a bundle of runs, is damaged, or exceeds a limit."""


class ColumnsUnknown(FileRefused):
    """The column names of a table are unknown; the error text lists the names."""


class FileChanged(UsageError):
    """A file was changed between two steps that need the same content."""


class DatasetFileRefused(UsageError):
    """A file is not a data set: its arrays, labels or metric are invalid."""


class DatasetIncomplete(DatasetFileRefused):
    """A data set has no samples, or the number of labels differs from the number of samples."""


class DatasetNotFinite(DatasetFileRefused):
    """A data set holds NaN or infinity."""


class InputsRefused(UsageError):
    """The chosen shapes or inputs do not fit the model."""

    code = ErrorCode.INPUTS_REFUSED


class OwnModelOnly(UsageError):
    """A device runs only the model in its firmware, and another model was requested."""

    def __init__(self, text: str, device: str) -> None:
        super().__init__(text)
        self.device = device
        """Name of the device, as the host's commands accept it."""


class RunsTooShort(UsageError):
    """The total duration of a set is too short to be divided among so many runs."""

    def __init__(self, text: str, enough_s: float, run_limit: int) -> None:
        super().__init__(text)
        self.enough_s = enough_s
        """Smallest total duration that is long enough for the requested number of runs."""
        self.run_limit = run_limit
        """Largest number of runs for which the requested total duration is long enough."""


class NoLoadCode(UsageError):
    """A run has no load code, which is needed to align an instrument's file with the run."""


class NoLoadgenLog(UsageError):
    """No log of MLPerf's LoadGen is exported, because the run has no log or the run is invalid."""


class NotComparable(UsageError):
    """Runs cannot be compared, because they differ in properties that have to be equal."""

    def __init__(self, text: str, keys: Sequence[str], comparison_id: str | None = None) -> None:
        super().__init__(text)
        self.keys = tuple(keys)
        """Keys of the properties in which the runs differ, as the option `--allow` takes them."""
        self.comparison_id = comparison_id
        """Id of the comparison in pairs; None if the runs of each side were named separately."""


class MetersDiffer(NotComparable):
    """Two energies come from different meters or boundaries; no option makes them comparable."""

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
        """Maps the name of each operator kind that the firmware does not support to the number of
        such operators in the model."""

    @property
    def kind(self) -> str:
        """Kind of the base class, so that documents have the same kind for all refused models."""
        return "model_refused"


class NoBoardProfiler(ModelRefused):
    """The firmware of a microcontroller cannot time the operators of the model."""

    code = ErrorCode.NO_BOARD_PROFILER

    @property
    def kind(self) -> str:
        """Kind of the base class, so that documents have the same kind for all refused models."""
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
    """The outputs for all samples of a data set are too large to be kept."""

    code = ErrorCode.OUTPUTS_TOO_LARGE


class DatasetTooSlow(DatasetRefused):
    """A device that times its inferences itself would exceed the time limit for a data set."""

    code = ErrorCode.DATASET_TOO_SLOW


class DelegateRefused(ModelRefused):
    """A runtime has no such delegate, or cannot load it; the error text lists its delegates."""

    code = ErrorCode.DELEGATE_REFUSED


class SignatureRefused(ModelRefused):
    """A model file has no signature of this name; the error text lists the file's signatures."""

    code = ErrorCode.SIGNATURE_REFUSED


class ExternalDataRefused(ModelRefused):
    """Weights of a model are in another file, but only a single file is sent to a device."""

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
    """The device is hotter than the temperature in its profile at which a run has to end."""

    code = ErrorCode.TOO_HOT


class RunStopped(TargetError):
    """A run was stopped before anything was measured."""

    code = ErrorCode.RUN_STOPPED


class SeatLeft(TargetError):
    """A device is no longer connected to its agent."""

    code = ErrorCode.DEVICE_GONE


class GovernorRefused(TargetError):
    """The kernel does not offer the requested CPU governor, or the agent may not set it."""

    code = ErrorCode.GOVERNOR_REFUSED


class SettingRefused(TargetError):
    """The requested setting does not exist on the phone, or cannot be changed."""

    code = ErrorCode.SETTING_REFUSED


class MeterLost(TargetError):
    """An open energy meter has disappeared, or does not start a new recording."""


class NotPermitted(TargetError):
    """The user lacks the permission to use an instrument."""

    def __init__(self, text: str, permission: Permission) -> None:
        super().__init__(text)
        self.permission = permission


class BoardLost(TargetError):
    """A microcontroller, or the program that emulates it, has disappeared."""


class BoardSilent(TargetError):
    """A microcontroller does not respond in time, or uses an unknown firmware protocol."""


class BoardRestarted(TargetError):
    """A microcontroller restarted during an operation; its model and inputs are lost."""


class BoardRefusal(TargetError):
    """A microcontroller rejects a command; the error text quotes the microcontroller's error."""


class BoardFault(TargetError):
    """A microcontroller reports a processor fault, after which it stops or restarts."""


class OtherBoard(TargetError):
    """The microcontroller at a port reports another name than when the port was probed."""

    code = ErrorCode.OTHER_BOARD


class LineDamaged(TargetError):
    """A serial line loses or changes bytes, even when the transfer is repeated."""


class LeaseHeld(TargetError):
    """Another client holds the lease of the device (the right to measure on the device)."""

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
        """Name of the device, if the caller started the run in progress on the device and may
        therefore stop the run; else None."""
        self.is_by_this_host = is_by_this_host
        """Whether the holder of the lease has the same user name and machine name as the caller."""
        self.waited_s = waited_s
        """Time for which the caller has waited for the lease without success."""


class OtherEnvironment(TargetError):
    """The agent on this machine uses another Python environment than the command."""

    def __init__(self, text: str, *, pid: int | None = None) -> None:
        super().__init__(text)
        self.pid = pid
        """Process id of the agent; None if it is unknown."""


class DeployRunning(TargetError):
    """Another `edgebench deploy` installs, starts or removes an agent in the same account."""


class NoSpace(TargetError):
    """The device's disk is full, or a quota is reached."""

    code = ErrorCode.NO_SPACE


class TooLarge(NoSpace):
    """A file does not fit on the device, even if all other models are removed."""


class PythonMissing(TargetError):
    """The device has no Python version that edgebench supports."""


class KitMissing(PythonMissing):
    """The device is a phone, and this host has no kit (a Python for phones) to install on it."""

    def __init__(self, message: str, machine: str = "") -> None:
        super().__init__(message)
        self.machine = machine
        """Machine type of the phone, as uname(1) names it."""


class PackagesMissing(TargetError):
    """The packages to install on a device are available neither on the device nor on the host."""


class SimulationMissing(TargetError):
    """The simulated boards are not part of this installation."""


class TargetDriverMissing(TargetError):
    """The agent's machine lacks the driver of microcontrollers: the firmware bridge, or QEMU."""

    code = ErrorCode.TARGET_DRIVER_MISSING


class FlashToolMissing(TargetError):
    """No program that writes firmware onto a board is on PATH."""


class PortTaken(TargetError):
    """The agent cannot listen: the port is in use, or the device does not have the address."""


class AgentRunning(TargetError):
    """An agent with this state directory runs already."""

    def __init__(self, text: str, pid: int | None = None) -> None:
        super().__init__(text)
        self.pid = pid
        """Process id of the agent; None if the agent did not report it."""


class TransportError(EdgebenchError):
    """The connection to an agent failed, or could not be opened."""

    retryable = True


class Unreachable(TransportError):
    """No agent responds at the address."""

    def __init__(self, text: str, *, reason: str = "", is_offline: bool = False) -> None:
        super().__init__(text)
        self.reason = reason or str(self)
        """Reason without the address; the error text contains both."""
        self.is_offline = is_offline
        """Whether this machine has no network route to the address."""


class AgentBusy(Unreachable):
    """A server repeatedly closes connections before it shows a certificate.

    An agent closes a connection if too many connections are waiting for their TLS handshake.
    """


class AgentNotStarted(Unreachable):
    """The device responds, but no process listens on the port of its agent."""

    def __init__(self, text: str, target: str) -> None:
        super().__init__(text)
        self.target = target
        """Name of the device, as `edgebench deploy` takes it."""


class AdbMissing(Unreachable):
    """No adb server runs on this machine, and no program `adb` is installed to start it."""

    retryable = False


class PhoneUnavailable(Unreachable):
    """A phone is not connected, or is in a state in which adb cannot use it."""

    def __init__(self, text: str, reason: str, step: str) -> None:
        super().__init__(text, reason=reason)
        self.step = step
        """Next step for the user in this state of the phone, with a command."""


class NotPaired(TransportError):
    """The other side rejects this side's identity, or presents an identity that is not pinned."""

    code = ErrorCode.NOT_PAIRED
    retryable = False


class WrongAgent(NotPaired):
    """The agent at the address does not have the pinned certificate."""


class WrongBoard(WrongAgent):
    """The pinned agent is on an unexpected board, or several agents have its identity.

    The cause is a copied SD card, which contains the identity.
    """


class AccessDenied(TransportError):
    """The SSH server rejects the login, or shows a host key that is not trusted."""

    retryable = False

    def __init__(self, text: str, login: str) -> None:
        super().__init__(text)
        self.login = login
        """Arguments of `ssh` with which the user can try the same login by hand."""


class TooManyKeys(AccessDenied):
    """The SSH server ends the login before `ssh` has offered the right key."""


class LabHostsUnreachable(TransportError):
    """The scheduler of a cluster does not respond, or no lab host offers a device."""

    retryable = False


class LinkLost(TransportError):
    """An open connection broke."""


class LinkTimeout(TransportError):
    """The other side did not reply in time."""


class ProtocolError(EdgebenchError):
    """A peer violated the protocol."""

    code = ErrorCode.PROTOCOL


class LocalProtocolError(ProtocolError):
    """This side sent, or tried to send, something that the protocol does not allow."""


class RemoteProtocolError(ProtocolError):
    """The other side sent something that the protocol does not allow."""


class OutOfMemory(EdgebenchError):
    """A command needs more memory than this machine has, or than the process may use."""


class MeasurementError(EdgebenchError):
    """A measured number cannot be trusted, or cannot be computed."""

    def __init__(self, text: str, *, invalid: str | None = None) -> None:
        super().__init__(text)
        self.invalid = invalid
        """Id of the invalid run, set or comparison whose numbers were requested; None if the error
        has another cause."""


class NotMetered(MeasurementError):
    """The energy of a run was requested, but the run was made without a meter."""


class NoPairLeft(MeasurementError):
    """No pair of a comparison has two valid runs."""

    def __init__(self, text: str, comparison_id: str, *, is_invalid: bool = False) -> None:
        super().__init__(text, invalid=comparison_id if is_invalid else None)
        self.comparison_id = comparison_id


class CodesNotFound(MeasurementError):
    """A power trace does not contain the load codes of a run."""


class TraceRefused(MeasurementError):
    """The energy of a run cannot be computed from a power trace; nothing was stored."""


class TraceOfAnotherRun(TraceRefused):
    """A power trace was recorded during another run."""

    def __init__(self, text: str, run_id: str) -> None:
        super().__init__(text)
        self.run_id = run_id
        """Id of the run whose load codes are in the trace."""


class SamplesUnknown(TraceRefused):
    """A power trace has enough samples only if they are averages, and it is unknown if they are."""


class StoreError(EdgebenchError):
    """The result store cannot be read or written."""


class RunNotStored(StoreError):
    """A finished run cannot be stored on the host; the device keeps the run."""


class RunDamaged(StoreError):
    """A file of a stored run is missing or malformed."""

    damaged_id: str | None = None
    """Id of the run in the store; None if the run is not in the store, or its id is unknown."""


class RunSetAside(RunDamaged):
    """A run from a device cannot be analysed; its files are kept apart from the stored runs."""


class BundleDamaged(RunDamaged):
    """A file of a run in a bundle differs from the file that was packed."""


class CampaignDamaged(StoreError):
    """The plan or the journal of a campaign is missing or malformed."""


class RunNewer(StoreError):
    """A stored run, or a bundle of runs, has the schema of a later version of edgebench."""


class BundleNotUnpacked(StoreError):
    """A bundle of runs cannot be unpacked into the directory of temporary files."""


class DirectoryTaken(StoreError):
    """The directory for a recording exists already, and contains unrelated files."""


class FileNotWritten(StoreError):
    """A report or an exported file cannot be written; the stored runs are not affected."""


class SystemFailure(EdgebenchError):
    """An operation of the operating system failed, and there is no more specific class for it."""

    def __init__(self, text: str = "", number: int | None = None) -> None:
        super().__init__(text)
        self.number = number
        """Error number of the operation, see errno(3); None if there is no number."""


class Unforeseen(EdgebenchError):
    """A defect of edgebench: an exception that no code handles or translates.

    The traceback is written to a file, see `edgebench.system.unforeseen`.
    """

    def __init__(self, text: str = "", path: str | None = None) -> None:
        super().__init__(text)
        self.path = path
        """File with the traceback; None if it was not written, or is on another machine."""


UsageErrorT = TypeVar("UsageErrorT", bound=UsageError)


@contextmanager
def os_error_as(kind: type[EdgebenchError], what: str, place: object = None) -> Iterator[None]:
    """Translate an OSError of the block to a `kind` error, which states what failed, and why.

    Without `place`, the error text contains the file name of the OSError, if there is a file name.
    An OSError that a library raises may have only a text, but no error number and no file name.

    Raises:
        EdgebenchError: the block raised an OSError; the class of the error is `kind`.
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

    `meant` becomes the first of these names that exists:

    1. the first known name that starts with `name`, if `name` has at least 3 letters
    2. the most similar known name, if difflib's similarity ratio is at least `cutoff`

    If neither name exists, `meant` becomes None.
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
    ("unknown runtime 'onxx'; available: litert, onnx", 'onnx')
    """
    names = list(known)
    text = f"unknown {kind} {name!r}; available: {', '.join(names)}"
    return with_meant(UsageError(text), name, names)


def error_from_code(code: int, text: str) -> EdgebenchError:
    """Exception for an error that an agent reported by `code`; the text is cut to a single line."""
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
