"""Everything that host and agent can say to each other: one dataclass a message.

A conversation, from the host's side:

    Hello → Welcome                      versions, who is who, and which seat this is about
    SeatList → Seats                     the devices that the agent serves
    Describe → SystemDescription         runtimes, environment
    Acquire → Granted                    the right to measure, for a while
    ModelOffer → ModelState, ModelChunk…, ModelCommit → ModelState
    RunStart → RunAccepted, then Progress… and RunEnded, pushed
    RunFollow → RunAccepted, then the same of a run that was started earlier
    RunList → RunListing, RunOpen → RunFiles, FileRead → FileData…, RunAcknowledge → Done
    Watch → Seats, then SeatChange… and SeatReadings… of seats, pushed until the connection ends
    Probe → ProbeReply                   two-way clock probes, any time

Each request carries a number; its answers carry the same number. Anything may be answered by
`Problem`. Chunks of models and files travel as the frame's payload, outside the message.
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
"""Raised with every change that an older peer would misread; by two when it cannot be bridged.

Peers one version apart work together: the newer one says only what the older one knows.
3: six columns of queries, and what a worker records. 4: `Telemetry`, and the phase of cooling.
5: seats, `RunFollow` and `Watch`.
"""
SEATS_SINCE = 5
"""Agents of this version know seats; an older one serves one device, whatever `Hello` asks for."""
MAX_SEATS = 30
"""Seats of one agent; the states of so many fit into one frame."""

MAX_LISTED_RUNS = 500
"""Ids that surely fit into one frame."""


@dataclass(frozen=True, slots=True)
class Hello:
    """First message of a host."""

    protocol: int
    software: str
    host_name: str
    session: str
    """Random, one for each client: two clients of one host must not share a lease."""
    seat: str = ""
    """Seat that the conversation is about; empty: the first one."""


@dataclass(frozen=True, slots=True)
class Welcome:
    """Answer to `Hello`."""

    protocol: int
    software: str
    device: DeviceDescription
    """Device of the seat."""
    seat: str = ""
    """Name of the seat; empty from older agents."""
    board: str = ""
    """Id of the board that carries the seat, which a new system on it keeps; empty if unknown."""
    hardware: Hardware = field(default_factory=Hardware)
    """Machine that the agent runs on; empty from older agents."""
    instance: str = ""
    """Drawn by the agent at its start; empty from older agents."""


@dataclass(frozen=True, slots=True)
class SeatList:
    """Ask for the state of every seat, whichever this conversation is about."""


@dataclass(frozen=True, slots=True)
class SeatState:
    """A device that the agent serves, as it is now."""

    name: str
    device: DeviceDescription
    held_by: str | None = None
    """Name of the host that has the lease; None where it is free."""
    held_for_s: float | None = None
    """Time since that host took it."""
    running: str | None = None
    """Id of the run in progress."""
    temp_c: float | None = None
    """Temperature of the zone by which the device cools down; None where there is none."""
    fault: str | None = None
    """Why the device can measure nothing now; None: it can, as far as its agent knows."""
    phase: Phase | None = None
    """Phase of the run in progress."""
    gone_for_s: float | None = None
    """Time since the device left its agent, which keeps its runs; None: it is there."""


@dataclass(frozen=True, slots=True)
class Seats:
    """Answer to `SeatList`, the first seat first; and to `Watch`."""

    seats: tuple[SeatState, ...]


@dataclass(frozen=True, slots=True)
class Watch:
    """Ask to be told of seats until the connection ends; needs no lease.

    The answer is `Seats`, their state now. `SeatChange` and `SeatReadings` follow under the same
    request number. A connection may ask once, and whoever does not read is cut off.
    """

    seats: tuple[str, ...] = ()
    """Names of the seats; empty: every one that the agent has, and those that come later."""


@dataclass(frozen=True, slots=True)
class SeatChange:
    """Another holder, run or phase, or a device that came or left; within about a second."""

    state: SeatState


@dataclass(frozen=True, slots=True)
class SeatReadings:
    """Readings since the last ones, about once a second; the samples are the payload."""

    seat: str
    sample_count: int
    """Samples in the payload: packed columns, see `protocol/live.py`."""
    run_id: str | None = None
    """Run in progress."""
    load_1m: float | None = None
    """Load average over the last minute, if the system reports it."""


@dataclass(frozen=True, slots=True)
class Problem:
    """A request failed: a stable code, and one line of text."""

    code: int
    text: str


@dataclass(frozen=True, slots=True)
class Done:
    """A request succeeded and has nothing to tell."""


@dataclass(frozen=True, slots=True)
class Describe:
    """Ask for the device's `SystemDescription`."""


@dataclass(frozen=True, slots=True)
class Described:
    """Answer to `Describe`."""

    system: SystemDescription


@dataclass(frozen=True, slots=True)
class Acquire:
    """Ask for the lease, or renew the one already held; it ends `ttl_s` after the last renewal."""

    ttl_s: float
    wait_s: float = 0.0
    """Time to wait for a lease that somebody else holds; older agents refuse at once."""


@dataclass(frozen=True, slots=True)
class Granted:
    """The lease is the sender's until it expires or is released."""

    expires_in_s: float


@dataclass(frozen=True, slots=True)
class Release:
    """Give the lease back."""


@dataclass(frozen=True, slots=True)
class ModelOffer:
    """Announce a model; the answer says from which byte to send."""

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
    """Bytes of an offered model, in the payload; not answered unless it fails."""

    sha256: str
    offset_bytes: int


@dataclass(frozen=True, slots=True)
class ModelCommit:
    """All bytes are sent: verify the digest and keep the model."""

    sha256: str


@dataclass(frozen=True, slots=True)
class RunStart:
    """Measure a model that the device holds; needs the lease.

    The payload, which may be empty, is kept with the run for whichever host of its owner collects
    it; the agent does not look into it. Agents before version 5 drop it.
    """

    run_id: str
    spec: RunSpec
    model_sha256: str
    """Digest of a model that was pushed; empty: the one in the firmware of the device."""
    model_name: str
    """Name for people and for the record; the digest is what counts."""


@dataclass(frozen=True, slots=True)
class RunAccepted:
    """The run has begun; `Progress` and `RunEnded` follow under the same request number."""

    run_id: str


@dataclass(frozen=True, slots=True)
class RunFollow:
    """Follow a run that an earlier client of this host has started; needs no lease.

    The answers are those of `RunStart`, from the present phase on; of a run that has finished, its
    `RunEnded` comes at once. If nobody is there any more who held the lease, it is the follower's.
    """

    run_id: str
    ttl_s: float
    """As in `Acquire`."""


@dataclass(frozen=True, slots=True)
class Progress:
    """A run entered a phase, or is so far in it."""

    run_id: str
    phase: Phase
    expected_s: float | None = None
    """Time that the phase should take, where that is known."""
    detail: str = ""
    reached: PhaseProgress | None = None
    """None when the phase begins, and in phases that tell no more."""


@dataclass(frozen=True, slots=True)
class Telemetry:
    """How the device is while a run goes on, about once a second; None where nothing reports it."""

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
    """False: not even its failure could be written down, and there is nothing to fetch."""


@dataclass(frozen=True, slots=True)
class RunCancel:
    """Stop a run; what it measured until now is spooled."""

    run_id: str


@dataclass(frozen=True, slots=True)
class RunStop:
    """Local only: stop the runs of all seats, whoever asked for them; the rest can be fetched."""


@dataclass(frozen=True, slots=True)
class RunList:
    """Ask for the asker's own runs that wait in the spool."""


@dataclass(frozen=True, slots=True)
class RunListing:
    """Finished runs in the spool, oldest first, and the one that is running now.

    Of many runs, only the first `MAX_LISTED_RUNS`: fetch those, and ask again.
    """

    finished: tuple[str, ...]
    running: str | None = None


@dataclass(frozen=True, slots=True)
class SpooledFile:
    """One file of a spooled run."""

    name: str
    size_bytes: int
    sha256: str


@dataclass(frozen=True, slots=True)
class RunOpen:
    """Ask for the files of a spooled run."""

    run_id: str


@dataclass(frozen=True, slots=True)
class RunFiles:
    """Answer to `RunOpen`."""

    run_id: str
    files: tuple[SpooledFile, ...]


@dataclass(frozen=True, slots=True)
class FileRead:
    """Ask for the bytes of a spooled file from an offset on; the answer's size is the agent's."""

    run_id: str
    name: str
    offset_bytes: int


@dataclass(frozen=True, slots=True)
class FileData:
    """Answer to `FileRead`; the bytes are the payload, empty at the end of the file."""

    offset_bytes: int


@dataclass(frozen=True, slots=True)
class RunAcknowledge:
    """The run is stored on the host: the agent may forget it."""

    run_id: str


@dataclass(frozen=True, slots=True)
class Probe:
    """Two-way clock probe; the host keeps its own sending time."""


@dataclass(frozen=True, slots=True)
class ProbeReply:
    """Device monotonic clock when the probe arrived and when this answer left."""

    received_ns: int
    sent_ns: int


@dataclass(frozen=True, slots=True)
class PairHost:
    """Sent with the one-time identity of a pairing string: trust this certificate from now on."""

    certificate_pem: Pem
    host_name: str


@dataclass(frozen=True, slots=True)
class PairingOpen:
    """Local only: accept the one-time identity with this certificate for a while."""

    certificate_pem: Pem
    valid_s: float


@dataclass(frozen=True, slots=True)
class PairingReady:
    """Answer to `PairingOpen`: where the agent listens and who it is."""

    fingerprint: str
    addresses: tuple[str, ...]
    port: int


@dataclass(frozen=True, slots=True)
class SeatForget:
    """Local only: forget a device that has left, so that another may have its name."""

    seat: str


class ClaimOutcome(Enum):
    """Reaction of an agent to the claim of a command on this machine."""

    SAME = "same"
    """The agent is of the command's environment, and serves it."""
    LEAVES = "leaves"
    """The agent is idle and ends now: a command of another environment has started it."""
    BUSY = "busy"
    """A command of another environment has started the agent, and it is in use."""
    SERVES = "serves"
    """The agent is of another environment, and serves until it is stopped."""


@dataclass(frozen=True, slots=True)
class AgentClaim:
    """Local only, and before `Hello`: a command requests an agent of its own environment.

    Two environments of one machine have different runtimes, and one agent: the device has one
    lease. Digests as of `edgebench.system.python_environment.PythonEnvironment`.
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
    """Host that uses a busy agent; empty if unknown."""


@dataclass(frozen=True, slots=True)
class StatusAsk:
    """Local only: how is the agent?"""


@dataclass(frozen=True, slots=True)
class Status:
    """Answer to `StatusAsk`."""

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
    """Every device that it serves; the lease and the run above are those of the first."""


Message = Union[
    Hello, Welcome, SeatList, Seats, Watch, SeatChange, SeatReadings, Problem, Done,
    Describe, Described, Acquire, Granted, Release,
    ModelOffer, ModelState, ModelChunk, ModelCommit,
    RunStart, RunFollow, RunAccepted, Progress, Telemetry, RunEnded, RunCancel, RunStop,
    RunList, RunListing, RunOpen, RunFiles, FileRead, FileData, RunAcknowledge,
    Probe, ProbeReply, PairHost, PairingOpen, PairingReady, SeatForget, StatusAsk, Status,
    AgentClaim, AgentClaimed,
]  # fmt: skip  # a line for what belongs together
"""Every message; a kind that is not here is refused."""
