"""Messages between host and agent: a dataclass per message.

A conversation, from the host's side:

    Hello → Welcome                      versions, identities, and the seat
    SeatList → Seats                     the devices that the agent serves
    Describe → Described                 runtimes, environment
    Acquire → Granted                    the right to measure, for a limited time
    ModelOffer → ModelState, ModelChunk…, ModelCommit → ModelState
    RunStart → RunAccepted, then Progress… and RunEnded, pushed
    RunFollow → RunAccepted, then the same notices of a run that was started earlier
    RunList → RunListing, RunOpen → RunFiles, FileRead → FileData…, RunAcknowledge → Done
    Watch → Seats, then SeatChange… and SeatReadings… of seats, pushed until the connection ends
    Probe → ProbeReply                   two-way clock probes, any time

Each request has a number, and its replies have the same number. The reply to any request may be
`Problem`. The bytes of models and files are in the frame's payload, outside the message.
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
"""Version of the protocol. A change that an older peer would misinterpret increases the version
by one; a change that breaks compatibility increases it by two.

Peers whose versions differ by one work together, because the newer peer sends only what the older
peer supports.

- Version 3 introduced six columns of queries and changed the worker's record.
- Version 4 added `Telemetry` and the cooling phase.
- Version 5 added seats, `RunFollow` and `Watch`.
"""
SEATS_SINCE = 5
"""First protocol version with seats (a seat is one of an agent's devices). Agents with an older
version serve a single device, and ignore the seat in `Hello`."""
MAX_SEATS = 30
"""Maximum number of seats (devices) of an agent, so that the states of all seats fit into a
frame."""

MAX_LISTED_RUNS = 500
"""Maximum number of run ids in a message; a frame has space for this number of the longest ids."""


@dataclass(frozen=True, slots=True)
class Hello:
    """First message of a host on a connection."""

    protocol: int
    software: str
    host_name: str
    session: str
    """Random id of the client, so that two clients of a host do not share a lease."""
    seat: str = ""
    """Name of the seat (one of the agent's devices) that the connection uses; empty for the agent's
    first seat."""


@dataclass(frozen=True, slots=True)
class Welcome:
    """Reply to `Hello`."""

    protocol: int
    software: str
    device: DeviceDescription
    """Description of the device that the connection uses."""
    seat: str = ""
    """Name of the seat that the connection uses; empty from older agents."""
    board: str = ""
    """Id of the device's board; a new installation does not change the id. Empty if unknown."""
    hardware: Hardware = field(default_factory=Hardware)
    """Hardware identifiers of the machine that the agent runs on; empty from older agents."""
    instance: str = ""
    """Random id that the agent generates when it starts; empty from older agents."""


@dataclass(frozen=True, slots=True)
class SeatList:
    """Request the state of every seat (device) of the agent."""


@dataclass(frozen=True, slots=True)
class SeatState:
    """Present state of a seat, a device that the agent serves."""

    name: str
    device: DeviceDescription
    held_by: str | None = None
    """Name of the host that has the lease; None if the lease is free."""
    held_for_s: float | None = None
    """Time since the host took the lease; None if the lease is free."""
    running: str | None = None
    """Id of the run in progress; None if there is no run."""
    temp_c: float | None = None
    """Temperature of the thermal zone that decides whether the device is cool enough for a run.
    None if no zone decides this."""
    fault: str | None = None
    """Reason why the device cannot measure now; None if the agent has found no fault."""
    phase: Phase | None = None
    """Phase of the run in progress; None if there is no run."""
    gone_for_s: float | None = None
    """Time since the device was disconnected; None if it is connected. The agent keeps the runs of
    a disconnected device."""


@dataclass(frozen=True, slots=True)
class Seats:
    """Reply to `SeatList` and `Watch`: the states of the seats, in the agent's order."""

    seats: tuple[SeatState, ...]


@dataclass(frozen=True, slots=True)
class Watch:
    """Subscribe to changes of seats (devices) until the connection ends; needs no lease.

    The reply is `Seats`, with the present state of each seat. `SeatChange` and `SeatReadings`
    follow under the same request number. A connection may subscribe only once, and the agent closes
    the connection if the client does not read the messages.
    """

    seats: tuple[str, ...] = ()
    """Names of the seats; empty: all seats of the agent, including seats that are added later."""


@dataclass(frozen=True, slots=True)
class SeatChange:
    """Notice that a seat's holder, run, phase or connection changed; sent within about a second."""

    state: SeatState


@dataclass(frozen=True, slots=True)
class SeatReadings:
    """Notice with the samples of a seat since the previous notice; sent about once a second."""

    seat: str
    sample_count: int
    """Number of samples in the payload, whose format `protocol/live.py` defines."""
    run_id: str | None = None
    """Id of the run in progress; None if there is no run."""
    load_1m: float | None = None
    """Load average over the last minute; None if the system does not report it."""


@dataclass(frozen=True, slots=True)
class Problem:
    """Reply to a request that failed, with a stable `ErrorCode` and a line of text."""

    code: int
    text: str


@dataclass(frozen=True, slots=True)
class Done:
    """Reply to a request that succeeded and has no result."""


@dataclass(frozen=True, slots=True)
class Describe:
    """Request the device's `SystemDescription`."""


@dataclass(frozen=True, slots=True)
class Described:
    """Reply to `Describe`."""

    system: SystemDescription


@dataclass(frozen=True, slots=True)
class Acquire:
    """Request or renew the lease, which expires `ttl_s` seconds after the last such request."""

    ttl_s: float
    wait_s: float = 0.0
    """Maximum time that the agent waits if another client holds the lease; older agents reject the
    request without waiting."""


@dataclass(frozen=True, slots=True)
class Granted:
    """Reply to `Acquire`: the client holds the lease until it expires or is released."""

    expires_in_s: float


@dataclass(frozen=True, slots=True)
class Release:
    """Give the lease (the right to measure) back."""


@dataclass(frozen=True, slots=True)
class ModelOffer:
    """Announce a model; the `ModelState` in reply contains the offset of the first byte to send."""

    sha256: str
    size_bytes: int


@dataclass(frozen=True, slots=True)
class ModelState:
    """Reply to `ModelOffer` and `ModelCommit`: the part of a model file that the device has."""

    sha256: str
    offset_bytes: int
    is_complete: bool


@dataclass(frozen=True, slots=True)
class ModelChunk:
    """Bytes of an offered model, in the payload; the agent replies only if it rejects the chunk."""

    sha256: str
    offset_bytes: int


@dataclass(frozen=True, slots=True)
class ModelCommit:
    """Request to verify the digest of a model after its last chunk, and to keep the model."""

    sha256: str


@dataclass(frozen=True, slots=True)
class RunStart:
    """Request to measure a model that the device has; the client must hold the lease.

    The payload may be empty. The agent stores the payload with the run, does not interpret the
    payload, and sends it to the host that fetches the run. Agents with a protocol version before 5
    drop the payload.
    """

    run_id: str
    spec: RunSpec
    model_sha256: str
    """SHA-256 of a model that was sent to the device; empty for the model in the device's
    firmware."""
    model_name: str
    """Name for display and for the record; only the digest identifies the model."""


@dataclass(frozen=True, slots=True)
class RunAccepted:
    """Reply to `RunStart` and `RunFollow`; notices of the run follow under the same number."""

    run_id: str


@dataclass(frozen=True, slots=True)
class RunFollow:
    """Request the notices of a run that an earlier client of this host started; needs no lease.

    The replies are the same as to `RunStart`, beginning with the present phase; for a finished run,
    `RunEnded` follows immediately. If the client that held the lease has disconnected, the sender
    of this request gets the lease.
    """

    run_id: str
    ttl_s: float
    """Time after which the lease expires, as in `Acquire`."""


@dataclass(frozen=True, slots=True)
class Progress:
    """Notice that a run entered a phase, or advanced within its present phase."""

    run_id: str
    phase: Phase
    expected_s: float | None = None
    """Expected duration of the phase; None if it is unknown."""
    detail: str = ""
    reached: PhaseProgress | None = None
    """Progress within the phase; None when the phase begins, and in phases that report no
    progress."""


@dataclass(frozen=True, slots=True)
class Telemetry:
    """Sensor readings during a run, sent about once a second; a missing sensor reads None."""

    run_id: str
    time_ns: int
    """Time of the readings on the device's monotonic clock."""
    temp_c: float | None = None
    """Temperature of the hottest zone."""
    freq_hz: float | None = None
    """Clock of the fastest CPU."""


@dataclass(frozen=True, slots=True)
class RunEnded:
    """Notice that a run has ended, and that its files can be fetched from the spool."""

    run_id: str
    outcome: Outcome
    code: int = 0
    error: str | None = None
    is_spooled: bool = True
    """False if not even the record of a failure could be stored, so that there is nothing to
    fetch."""


@dataclass(frozen=True, slots=True)
class RunCancel:
    """Request to stop a run; the measurements made until then are kept in the spool."""

    run_id: str


@dataclass(frozen=True, slots=True)
class RunStop:
    """Stop the runs of all owners on all seats, and keep their measurements; local socket only."""


@dataclass(frozen=True, slots=True)
class RunList:
    """Request the list of the sender's own runs in the spool."""


@dataclass(frozen=True, slots=True)
class RunListing:
    """Finished runs in the spool, oldest first, and the run in progress.

    The list has at most `MAX_LISTED_RUNS` runs: to get further runs, fetch and acknowledge the
    listed runs, then request the list again.
    """

    finished: tuple[str, ...]
    running: str | None = None


@dataclass(frozen=True, slots=True)
class SpooledFile:
    """Name, size and digest of a file of a run in the spool."""

    name: str
    size_bytes: int
    sha256: str


@dataclass(frozen=True, slots=True)
class RunOpen:
    """Request the list of files of a run in the spool."""

    run_id: str


@dataclass(frozen=True, slots=True)
class RunFiles:
    """Reply to `RunOpen`: the files of the run."""

    run_id: str
    files: tuple[SpooledFile, ...]


@dataclass(frozen=True, slots=True)
class FileRead:
    """Request bytes of a spooled file from an offset on; the agent chooses the number of bytes."""

    run_id: str
    name: str
    offset_bytes: int


@dataclass(frozen=True, slots=True)
class FileData:
    """Reply to `FileRead`; the payload has the bytes, and is empty at the end of the file."""

    offset_bytes: int


@dataclass(frozen=True, slots=True)
class RunAcknowledge:
    """Notice that a run is stored on the host, so that the agent may delete the run."""

    run_id: str


@dataclass(frozen=True, slots=True)
class Probe:
    """Two-way clock probe; it has no timestamp, because the host stores the time of sending."""


@dataclass(frozen=True, slots=True)
class ProbeReply:
    """Times of the probe's arrival and of this reply, on the device's monotonic clock."""

    received_ns: int
    sent_ns: int


@dataclass(frozen=True, slots=True)
class PairHost:
    """Request to trust this certificate; sent over a connection with a one-time identity."""

    certificate_pem: Pem
    host_name: str


@dataclass(frozen=True, slots=True)
class PairingOpen:
    """Local socket only: accept this certificate of a one-time identity for `valid_s` seconds."""

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
    """Local socket only: forget a disconnected device, so that its name becomes available."""

    seat: str


class ClaimOutcome(Enum):
    """An agent's reaction to the `AgentClaim` of a command on this machine."""

    SAME = "same"
    """The agent runs in the same Python environment as the command, and serves the command."""
    LEAVES = "leaves"
    """A command of another Python environment started the agent, which is idle and exits now."""
    BUSY = "busy"
    """A command of another Python environment started the agent, which is in use."""
    SERVES = "serves"
    """The agent runs in another Python environment than the command, and the agent does not exit
    by itself."""


@dataclass(frozen=True, slots=True)
class AgentClaim:
    """Request an agent in the command's Python environment; local socket only, before `Hello`.

    Different Python environments of a machine have different runtimes, but share a single agent,
    because the device has a single lease. `libraries` and `settings` are digests from
    `edgebench.system.python_environment.PythonEnvironment`.
    """

    libraries: str
    settings: str


@dataclass(frozen=True, slots=True)
class AgentClaimed:
    """Reply to `AgentClaim`."""

    outcome: ClaimOutcome
    interpreter: str
    """Path of the agent's Python interpreter."""
    pid: int
    used_by: str = ""
    """Name of the host that uses a busy agent; empty if unknown."""


@dataclass(frozen=True, slots=True)
class StatusAsk:
    """Local socket only: request the agent's `Status`."""


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
    """Energy meters that the agent serves."""
    sync_line: str | None = None
    is_root: bool = False
    """Whether the agent runs as root."""
    seats: tuple[SeatState, ...] = ()
    """State of every seat of the agent; `lease_holder` and `running` belong to the first seat."""


Message = Union[
    Hello, Welcome, SeatList, Seats, Watch, SeatChange, SeatReadings, Problem, Done,
    Describe, Described, Acquire, Granted, Release,
    ModelOffer, ModelState, ModelChunk, ModelCommit,
    RunStart, RunFollow, RunAccepted, Progress, Telemetry, RunEnded, RunCancel, RunStop,
    RunList, RunListing, RunOpen, RunFiles, FileRead, FileData, RunAcknowledge,
    Probe, ProbeReply, PairHost, PairingOpen, PairingReady, SeatForget, StatusAsk, Status,
    AgentClaim, AgentClaimed,
]  # fmt: skip  # related messages share a line
"""All message classes; a message of any other kind is rejected."""
