"""Messages between coordinator and lab hosts: bytes ↔ dataclasses, nothing is unpickled."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast, get_args

import msgpack

from edgebench.host.bench.cancellation import Interrupted
from edgebench.host.bench.events import Place
from edgebench.host.campaign.plan import Cell
from edgebench.host.campaign.spec import Settings
from edgebench.host.result.facts import SetMember
from edgebench.host.result.outputs import ReferenceAccuracy
from edgebench.protocol.codec import kind_of
from edgebench.protocol.errors import EdgebenchError, LeaseHeld, RemoteProtocolError
from edgebench.protocol.messages import Progress
from edgebench.protocol.plain import from_outside, to_plain


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceOffer:
    """A device that a lab host measures on."""

    name: str
    id: str
    pin: str
    """Digest of its agent's certificate: two devices may have one name."""
    seat: str = ""
    arch: str = ""
    labels: tuple[str, ...] = ()
    meter: str | None = None
    """Meter that the lab host's farm file says is wired to it."""


@dataclass(frozen=True, slots=True)
class OffersQuery:
    """Asks a lab host what it offers."""


@dataclass(frozen=True, slots=True)
class Offers:
    """What a lab host offers."""

    version: str
    """Version of edgebench there."""
    devices: tuple[DeviceOffer, ...]


@dataclass(frozen=True, slots=True)
class FileRef:
    """A file that runs need: a model, inputs, a data set."""

    sha256: str
    name: str
    size_bytes: int


@dataclass(frozen=True, slots=True)
class FilesQuery:
    """Asks which of these files a lab host does not have."""

    files: tuple[FileRef, ...]


@dataclass(frozen=True, slots=True)
class MissingFiles:
    """Files that a lab host does not have."""

    files: tuple[FileRef, ...]


@dataclass(frozen=True, slots=True)
class FilePart:
    """A part of a file is the payload of this message."""

    file: FileRef
    offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LaneOpen:
    """Begins the lane of a campaign on a device."""

    device: str
    campaign: str
    """Id of the campaign."""
    wait_s: float
    repeats: int
    settings: Settings
    cell: Cell
    """One of its cells."""
    files: Mapping[str, FileRef] = field(default_factory=dict)
    """Files of the lane, by the paths that settings and cells have for them."""


@dataclass(frozen=True, slots=True)
class LaneHandle:
    """The lane, as later calls name it."""

    lane: str


@dataclass(frozen=True, slots=True)
class LaneCall:
    """A call to a lane; the command, if any, is the next message."""

    lane: str
    seen: int
    """Number of the lane's reports that have arrived."""
    wait_s: float
    """Longest time to wait for another one."""


@dataclass(frozen=True, slots=True)
class SettleJob:
    """Asks for everything that was begun on the device."""

    stored: tuple[str, ...]
    """Runs of the device that the coordinator has."""
    begun: tuple[str, ...]
    """Runs of which it knows only that they were begun."""


@dataclass(frozen=True, slots=True)
class MakeJob:
    """Asks for one run."""

    cell: Cell
    place: Place
    member: SetMember | None
    references: Mapping[str, ReferenceAccuracy]


@dataclass(frozen=True, slots=True)
class IdGrant:
    """Id of the run that is about to start; the coordinator has written it down."""

    run_id: str


@dataclass(frozen=True, slots=True)
class RunReceipt:
    """The coordinator has these runs: lab host and device may forget them."""

    run_ids: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class LaneStop:
    """Cancellation: stops the run in progress."""


@dataclass(frozen=True, slots=True)
class LaneClose:
    """Ends the lane; a run in progress goes on."""


@dataclass(frozen=True, slots=True)
class RunFetch:
    """Asks for the packed files of a run that a lab host has stored, from an offset on."""

    run_id: str
    offset: int


@dataclass(frozen=True, slots=True)
class RunPart:
    """A part of the packed files is the payload of this message."""

    size_bytes: int
    """Size of the whole."""
    sha256: str
    """Digest of the whole."""


@dataclass(frozen=True, slots=True)
class EmptyReply:
    """Acknowledges a call that has no other answer."""


@dataclass(frozen=True, slots=True)
class ErrorReport:
    """An error of edgebench's, by the name of its class."""

    kind: str
    text: str
    run_id: str | None = None
    waited_s: float = 0.0
    is_unstarted: bool = False


@dataclass(frozen=True, slots=True)
class CallFailure:
    """A call could not be answered."""

    error: ErrorReport


@dataclass(frozen=True, slots=True)
class IdRequest:
    """A run is about to start, and needs its id."""


@dataclass(frozen=True, slots=True)
class RunStartNotice:
    """A run begins on this runtime."""

    runtime: str


@dataclass(frozen=True, slots=True)
class RunPhase:
    """The run entered a phase."""

    progress: Progress


@dataclass(frozen=True, slots=True)
class StoredRunNotice:
    """A run is stored at the lab host, and waits to be fetched."""

    run_id: str


@dataclass(frozen=True, slots=True)
class RunRefusal:
    """A run on the device cannot be stored."""

    run_id: str
    error: ErrorReport


@dataclass(frozen=True, slots=True)
class EarlierFailure:
    """A run of an earlier command had failed."""

    run_id: str
    error: ErrorReport


@dataclass(frozen=True, slots=True)
class DeviceWait:
    """Another client measures on the device, which is waited for."""

    error: ErrorReport
    wait_s: float


@dataclass(frozen=True, slots=True)
class JobResult:
    """A job is over."""

    error: ErrorReport | None = None
    is_interrupted: bool = False
    run_id: str | None = None
    """Run that was made, if any was stored."""


Report = (
    IdRequest
    | RunStartNotice
    | RunPhase
    | StoredRunNotice
    | RunRefusal
    | EarlierFailure
    | DeviceWait
    | JobResult
)
LaneCommand = SettleJob | MakeJob | IdGrant | RunReceipt | LaneStop | LaneClose
ClusterMessage = (
    OffersQuery
    | Offers
    | FilesQuery
    | MissingFiles
    | FilePart
    | LaneOpen
    | LaneHandle
    | LaneCall
    | RunFetch
    | RunPart
    | EmptyReply
    | CallFailure
    | LaneCommand
    | Report
)
_KINDS: dict[str, type[Any]] = {kind_of(kind): kind for kind in get_args(ClusterMessage)}


def pack(messages: Sequence[ClusterMessage]) -> bytes:
    """The bytes of messages."""
    plain = [[kind_of(type(one)), to_plain(one)] for one in messages]
    return cast(bytes, msgpack.packb(plain))


def unpack(data: bytes) -> list[ClusterMessage]:
    """The messages of bytes.

    Raises:
        RemoteProtocolError: they make no sense, as those of another version.
    """
    try:
        return [from_outside(body, _KINDS[kind]) for kind, body in msgpack.unpackb(data)]
    except (ValueError, KeyError, TypeError, msgpack.exceptions.UnpackException) as exc:
        raise RemoteProtocolError(f"not a message of a lab host: {exc}") from exc


def error_report(error: EdgebenchError) -> ErrorReport:
    """An error, to be raised at the other side."""
    waited_s = error.waited_s if isinstance(error, LeaseHeld) else 0.0
    return ErrorReport(type(error).__name__, str(error), error.run_id, waited_s, error.is_unstarted)


def reported_error(report: ErrorReport) -> EdgebenchError:
    """The error of a report; one of a class that a text does not make is of the class above."""
    kind = _error_classes().get(report.kind, EdgebenchError)
    error: EdgebenchError | None = None
    while error is None:
        try:
            error = kind(report.text)
        except TypeError:
            kind = kind.__bases__[0]
    error.run_id, error.is_unstarted = report.run_id, report.is_unstarted
    if isinstance(error, LeaseHeld):
        error.waited_s = report.waited_s
    return error


def _error_classes() -> dict[str, type[EdgebenchError]]:
    classes: dict[str, type[EdgebenchError]] = {}
    open_classes: list[type[EdgebenchError]] = [EdgebenchError]
    while open_classes:
        kind = open_classes.pop()
        classes[kind.__name__] = kind
        open_classes += kind.__subclasses__()
    return classes


def ended(problem: EdgebenchError | Interrupted | None, run_id: str | None) -> JobResult:
    """The end of a job."""
    if isinstance(problem, Interrupted):
        return JobResult(is_interrupted=True, run_id=run_id)
    return JobResult(error_report(problem) if problem else None, run_id=run_id)
