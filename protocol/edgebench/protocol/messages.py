"""Messages between host and agent: a dataclass per message.

A conversation, from the host's side:

    Hello → Welcome                      versions, identities, and the seat
    SeatList → Seats                     the devices that the agent serves
    Describe → SystemDescription         runtimes, environment
    Acquire → Granted                    the right to measure, for a limited time
    ModelOffer → ModelState, ModelChunk…, ModelCommit → ModelState
    RunStart → RunAccepted, then Progress… and RunEnded, pushed
    RunFollow → RunAccepted, then the same for a run that was started earlier
    RunList → RunListing, RunOpen → RunFiles, FileRead → FileData…, RunAcknowledge → Done
    Watch → Seats, then SeatChange… and SeatReadings… of seats, pushed until the connection ends
    Probe → ProbeReply                   two-way clock probes, any time

Each request has a number, and its replies have the same number. The reply to any request may be
`Problem`. Chunks of models and files are the frame's payload, outside the message.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import Union

from edgebench.protocol.device import DeviceDescription, SystemDescription
from edgebench.protocol.hardware import Hardware
from edgebench.protocol.pem import Pem
from edgebench.protocol.record import Outcome, Phase, PhaseProgress
from edgebench.protocol.spec import RunSpec

PROTOCOL_VERSION = 5
"""Raised with every change that an older peer would misread; by two if it breaks compatibility.

Peers one version apart work together: the newer peer sends only what the older peer supports.
3: six columns of queries, and what a worker records. 4: `Telemetry`, and the phase of cooling.
5: seats, `RunFollow` and `Watch`.
"""
SEATS_SINCE = 5
"""First version with seats; older agents serve a single device, and ignore the seat in `Hello`."""
MAX_SEATS = 30
"""Maximum seats of an agent; the states of all of them fit into a frame."""

MAX_LISTED_RUNS = 500
"""Run ids that fit into a frame at their maximum length."""


@dataclass(frozen=True, slots=True)
class Hello:
    """First message of a host."""

    protocol: int
    software: str
    host_name: str
    session: str
    """Random for each client, so that two clients of a host do not share a lease."""
    seat: str = ""
    """Seat of the conversation; empty: the first seat."""


@dataclass(frozen=True, slots=True)
class Welcome:
    """Reply to `Hello`."""

    protocol: int
    software: str
    device: DeviceDescription
    """Device of the seat."""
    seat: str = ""
    """Name of the seat; empty from older agents."""
    board: str = ""
    """Id of the seat's board, which survives a new installation; empty if unknown."""
    hardware: Hardware = field(default_factory=Hardware)
    """Machine that the agent runs on; empty from older agents."""
    instance: str = ""
    """Random id that the agent draws when it starts; empty from older agents."""


@dataclass(frozen=True, slots=True)
class SeatList:
    """Request the state of every seat, not only of the conversation's seat."""


@dataclass(frozen=True, slots=True)
class SeatState:
    """Present state of a device that the agent serves."""

    name: str
    device: DeviceDescription
    held_by: str | None = None
    """Name of the host that has the lease; None if it is free."""
    held_for_s: float | None = None
    """Time since that host took it."""
    running: str | None = None
    """Id of the run in progress."""
    temp_c: float | None = None
    """Temperature of the zone that decides when the device is cool; None without such a zone."""
    fault: str | None = None
    """Why the device cannot measure now; None: the agent has found no fault."""
    phase: Phase | None = None
    """Phase of the run in progress."""
    gone_for_s: float | None = None
    """Time since the device was disconnected; the agent keeps its runs. None: it is connected."""


@dataclass(frozen=True, slots=True)
class Seats:
    """Reply to `SeatList` and `Watch`, starting with the first seat."""

    seats: tuple[SeatState, ...]


@dataclass(frozen=True, slots=True)
class Watch:
    """Subscribe to changes of seats until the connection ends; needs no lease.

    The reply is `Seats`, their present state. `SeatChange` and `SeatReadings` follow under the same
    request number. A connection may subscribe once, and the agent closes it if the client does not
    read.
    """

    seats: tuple[str, ...] = ()
    """Names of the seats; empty: all seats of the agent, and all that are added later."""


@dataclass(frozen=True, slots=True)
class SeatChange:
    """New holder, run or phase, or a device connected or removed; sent within about a second."""

    state: SeatState


@dataclass(frozen=True, slots=True)
class SeatReadings:
    """Readings since the previous message, about once a second; the samples are the payload."""

    seat: str
    sample_count: int
    """Samples in the payload: packed columns, see `protocol/live.py`."""
    run_id: str | None = None
    """Run in progress."""
    load_1m: float | None = None
    """Load average over the last minute, if the system reports it."""


@dataclass(frozen=True, slots=True)
class Problem:
    """A request failed: a stable code, and a line of text."""

    code: int
    text: str


@dataclass(frozen=True, slots=True)
class Done:
    """A request succeeded and has no result."""


@dataclass(frozen=True, slots=True)
class Describe:
    """Request the device's `SystemDescription`."""


@dataclass(frozen=True, slots=True)
class Described:
    """Reply to `Describe`."""

    system: SystemDescription


@dataclass(frozen=True, slots=True)
class Acquire:
    """Request the lease, or renew it; it expires `ttl_s` after the last renewal."""

    ttl_s: float
    wait_s: float = 0.0
    """Time to wait for a lease that another client holds; older agents reject at once."""


@dataclass(frozen=True, slots=True)
class Granted:
    """The requesting client holds the lease until it expires or is released."""

    expires_in_s: float


@dataclass(frozen=True, slots=True)
class Release:
    """Give the lease back."""


@dataclass(frozen=True, slots=True)
class ModelOffer:
    """Announce a model; the reply states from which byte to send."""

    sha256: str
    size_bytes: int


@dataclass(frozen=True, slots=True)
class ModelState:
    """How much of a model the device holds."""

    sha256: str
    offset_bytes: int
    is_complete: bool


@dataclass(frozen=True, slots=True)
class ModelChunk:
    """Bytes of an offered model, in the payload; there is no reply unless it fails."""

    sha256: str
    offset_bytes: int


@dataclass(frozen=True, slots=True)
class ModelCommit:
    """All bytes are sent: verify the digest and keep the model."""

    sha256: str


@dataclass(frozen=True, slots=True)
class RunStart:
    """Measure a model that the device holds; needs the lease.

    The payload, which may be empty, is kept with the run for the host of the owner that collects
    it; the agent does not interpret it. Agents before version 5 drop it.
    """

    run_id: str
    spec: RunSpec
    model_sha256: str
    """Digest of a pushed model; empty: the model in the firmware of the device."""
    model_name: str
    """Name for display and for the record; only the digest identifies the model."""


@dataclass(frozen=True, slots=True)
class RunAccepted:
    """The run has begun; `Progress` and `RunEnded` follow under the same request number."""

    run_id: str


@dataclass(frozen=True, slots=True)
class RunFollow:
    """Follow a run that an earlier client of this host has started; needs no lease.

    The replies are those of `RunStart`, beginning with the present phase; for a finished run,
    `RunEnded` follows immediately. If the client that held the lease has disconnected, the follower
    gets it.
    """

    run_id: str
    ttl_s: float
    """As in `Acquire`."""


@dataclass(frozen=True, slots=True)
class Progress:
    """A run entered a phase, or advanced in it."""

    run_id: str
    phase: Phase
    expected_s: float | None = None
    """Expected duration of the phase, if known."""
    detail: str = ""
    reached: PhaseProgress | None = None
    """None when the phase begins, and in phases that report no progress."""


@dataclass(frozen=True, slots=True)
class Telemetry:
    """State of the device during a run, about once a second; None without such a sensor."""

    run_id: str
    time_ns: int
    """Device monotonic clock."""
    temp_c: float | None = None
    """Temperature of the hottest zone."""
    freq_hz: float | None = None
    """Clock of the fastest CPU."""


@dataclass(frozen=True, slots=True)
class RunEnded:
    """A run is over, and spooled."""

    run_id: str
    outcome: Outcome
    code: int = 0
    error: str | None = None
    is_spooled: bool = True
    """False: not even the failure could be stored, and there is nothing to fetch."""


@dataclass(frozen=True, slots=True)
class RunCancel:
    """Stop a run; its measurements so far are spooled."""

    run_id: str


@dataclass(frozen=True, slots=True)
class RunStop:
    """Local only: stop the runs of all seats and owners; their measurements can be fetched."""


@dataclass(frozen=True, slots=True)
class RunList:
    """Request the list of the sender's own runs in the spool."""


@dataclass(frozen=True, slots=True)
class RunListing:
    """Finished runs in the spool, oldest first, and the run in progress.

    The list has at most `MAX_LISTED_RUNS` runs: fetch those, then request it again.
    """

    finished: tuple[str, ...]
    running: str | None = None


@dataclass(frozen=True, slots=True)
class SpooledFile:
    """A file of a spooled run."""

    name: str
    size_bytes: int
    sha256: str


@dataclass(frozen=True, slots=True)
class RunOpen:
    """Request the list of files of a spooled run."""

    run_id: str


@dataclass(frozen=True, slots=True)
class RunFiles:
    """Reply to `RunOpen`."""

    run_id: str
    files: tuple[SpooledFile, ...]


@dataclass(frozen=True, slots=True)
class FileRead:
    """Request bytes of a spooled file, beginning at an offset; the agent chooses their number."""

    run_id: str
    name: str
    offset_bytes: int


@dataclass(frozen=True, slots=True)
class FileData:
    """Reply to `FileRead`; the bytes are the payload, empty at the end of the file."""

    offset_bytes: int


@dataclass(frozen=True, slots=True)
class RunAcknowledge:
    """The run is stored on the host: the agent may delete it."""

    run_id: str


@dataclass(frozen=True, slots=True)
class Probe:
    """Two-way clock probe; the host keeps its own sending time."""


@dataclass(frozen=True, slots=True)
class ProbeReply:
    """Device monotonic clock when the probe arrived and when this reply was sent."""

    received_ns: int
    sent_ns: int


@dataclass(frozen=True, slots=True)
class PairHost:
    """Sent with the one-time identity of a pairing string: trust this certificate from now on."""

    certificate_pem: Pem
    host_name: str


@dataclass(frozen=True, slots=True)
class PairingOpen:
    """Local only: accept the one-time identity with this certificate for `valid_s`."""

    certificate_pem: Pem
    valid_s: float


@dataclass(frozen=True, slots=True)
class PairingReady:
    """Reply to `PairingOpen`: the agent's addresses and identity."""

    fingerprint: str
    addresses: tuple[str, ...]
    port: int


@dataclass(frozen=True, slots=True)
class SeatForget:
    """Local only: forget a disconnected device, so that another device may have its name."""

    seat: str


class ClaimOutcome(Enum):
    """An agent's reaction to the claim of a command on this machine."""

    SAME = "same"
    """The agent has the command's environment, and serves it."""
    LEAVES = "leaves"
    """The agent is idle and exits now: a command of another environment has started it."""
    BUSY = "busy"
    """A command of another environment has started the agent, and it is in use."""
    SERVES = "serves"
    """The agent has another environment, and runs until it is stopped."""


@dataclass(frozen=True, slots=True)
class AgentClaim:
    """Local only, and before `Hello`: a command requests an agent of its own environment.

    Two environments of a machine have different runtimes, but share one agent, because the device
    has one lease. The digests are those of
    `edgebench.system.python_environment.PythonEnvironment`.
    """

    libraries: str
    settings: str


@dataclass(frozen=True, slots=True)
class AgentClaimed:
    """Reply to `AgentClaim`."""

    outcome: ClaimOutcome
    interpreter: str
    """Path of the agent's interpreter."""
    pid: int
    used_by: str = ""
    """Host that uses the agent while it is busy; empty if unknown."""


@dataclass(frozen=True, slots=True)
class StatusAsk:
    """Local only: request the agent's `Status`."""


@dataclass(frozen=True, slots=True)
class Status:
    """Reply to `StatusAsk`."""

    device: DeviceDescription
    software: str
    pid: int
    fingerprint: str
    port: int | None
    uptime_s: float
    lease_holder: str | None
    lease_expires_in_s: float | None
    running: str | None
    spooled_count: int
    spooled_bytes: int
    models_count: int
    models_bytes: int
    models_quota_bytes: int
    paired_hosts: tuple[str, ...]
    meters: tuple[str, ...] = ()
    """Meters that it serves."""
    sync_line: str | None = None
    is_root: bool = False
    """Whether it runs as root."""
    seats: tuple[SeatState, ...] = ()
    """Every device that it serves; `lease_holder` and `running` are those of the first seat."""


Message = Union[
    Hello, Welcome, SeatList, Seats, Watch, SeatChange, SeatReadings, Problem, Done,
    Describe, Described, Acquire, Granted, Release,
    ModelOffer, ModelState, ModelChunk, ModelCommit,
    RunStart, RunFollow, RunAccepted, Progress, Telemetry, RunEnded, RunCancel, RunStop,
    RunList, RunListing, RunOpen, RunFiles, FileRead, FileData, RunAcknowledge,
    Probe, ProbeReply, PairHost, PairingOpen, PairingReady, SeatForget, StatusAsk, Status,
    AgentClaim, AgentClaimed,
]  # fmt: skip  # related messages share a line
"""Every message; all other kinds are rejected."""
