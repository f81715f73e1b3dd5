"""Client of an agent, with a method for each request."""

from __future__ import annotations

import itertools
import secrets
import shutil
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from functools import cache, partial
from pathlib import Path
from time import perf_counter_ns
from typing import TypeVar

from edgebench.host.this_host import host_name, software
from edgebench.host.transports.link import Link
from edgebench.protocol import messages as m
from edgebench.protocol.clock import ClockProbe
from edgebench.protocol.codec import Frame, decode, encode
from edgebench.protocol.device import SystemDescription
from edgebench.protocol.digests import sha256_of
from edgebench.protocol.errors import (
    EdgebenchError,
    LinkTimeout,
    NoSuchDevice,
    RemoteProtocolError,
    StoreError,
    TargetError,
    error_from_code,
    os_error_as,
)
from edgebench.protocol.hardware import Hardware
from edgebench.protocol.sizes import format_distinct_sizes
from edgebench.protocol.spec import RunSpec
from edgebench.protocol.traces import SPOOL_FILES

ANSWER_TIMEOUT_S = 30.0
HASHED_BYTES_PER_S = 10e6
"""Speed at which the slowest devices, with a slow card and a slow core, read and hash files."""
DESCRIBE_TIMEOUT_S = 200.0
"""Timeout for the description of a device; for the first description, the agent imports every
runtime in turn, which is slow on slow boards."""
LEASE_TTL_S = 30.0
CHUNK_BYTES = 256 * 1024
"""Number of bytes of a model in a single message."""
CHUNKS_PER_POLL = 4
"""Number of chunks that are sent before the next check for an error from the agent; a check takes
30 µs."""
PROBE_COUNT = 8
"""Number of clock probes in a group; only the probe with the shortest round trip is used. The
shortest round trip on loopback was 264 µs with 8 probes, 252 µs with 12 probes and 242 µs with 16
probes. These times are medians of 300 groups, with two loaded cores. Each further probe takes
120 µs of CPU time in two threads."""
MAX_FILE_BYTES = 2**32
"""Maximum size of a file of a run; the trace of a few million inferences takes a few hundred
megabytes."""

_T = TypeVar("_T")
OnBytes = Callable[[int, int], None]
"""Callback with the number of bytes sent so far, and the total number of bytes."""


class Client:
    """A connection to an agent; each client has its own lease."""

    def __init__(self, link: Link, via: str = "", seat: str = "", agent: str = "") -> None:
        """Exchange `Hello` and `Welcome` with the agent.

        Args:
            link: An open connection to the agent. If this exchange fails, the connection is closed.
            via: Name of the transport. An agent keeps the runs of clients with different transports
                apart.
            seat: Name of the seat (a device of the agent) to use. Empty selects the first seat.
            agent: Fingerprint of the agent's certificate; empty if the agent has no certificate.

        Raises:
            NoSuchDevice: the agent has no such seat.
            EdgebenchError: the agent refused the request, or the connection failed.
        """
        self._link = link
        self.via = via
        self.agent = agent
        self._numbers = itertools.count(1)
        self._followed = 0
        self._notices: deque[Frame] = deque()
        """Notices of the followed run that were received while this client waited for a reply."""
        hello = m.Hello(m.PROTOCOL_VERSION, software(), host_name(), secrets.token_hex(8), seat)
        try:
            welcome = self.ask(hello, m.Welcome)
            if seat and welcome.protocol < m.SEATS_SINCE:  # such an agent ignores the name
                raise NoSuchDevice(
                    f"no device {seat!r} at this agent: {welcome.software} serves only a single "
                    "device"
                )
        except EdgebenchError:
            link.close()
            raise
        self.device = welcome.device
        self.software = welcome.software
        self.seat = welcome.seat
        """Name of the seat (one of the agent's devices) that this client uses; empty with an older
        agent."""
        self.board = welcome.board
        """Id of the board that carries the device; empty if unknown."""
        self.hardware = hardware_of(welcome, seat)
        """Hardware identifiers of the agent's machine, as far as the kernel reports them."""
        self.instance = welcome.instance
        """Random id that the agent chose at its start; empty with an older agent."""
        self._protocol = welcome.protocol

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection."""
        self._link.close()

    def ask(self, request: m.Message, answer: type[_T], timeout_s: float = ANSWER_TIMEOUT_S) -> _T:
        """Send a request and wait for the reply.

        Raises:
            EdgebenchError: the agent refused the request, or the connection failed.
        """
        return self._expect(self._send(request), answer, timeout_s)[0]

    def seats(self) -> tuple[m.SeatState, ...]:
        """Request the state of every seat of the agent; empty if the agent is too old for seats."""
        return self.ask(m.SeatList(), m.Seats).seats if self._protocol >= m.SEATS_SINCE else ()

    def describe(self) -> SystemDescription:
        """Request the description of the device, the system and the runtimes."""
        return self.ask(m.Describe(), m.Described, DESCRIBE_TIMEOUT_S).system

    def acquire(self, wait_s: float = 0.0) -> None:
        """Take or renew the lease; the agent waits up to `wait_s` seconds until the lease is free.

        An agent that is too old does not wait.

        Raises:
            LeaseHeld: another client holds the lease.
        """
        self.ask(m.Acquire(LEASE_TTL_S, wait_s), m.Granted, ANSWER_TIMEOUT_S + wait_s)

    def release(self) -> None:
        """Release the lease."""
        self.ask(m.Release(), m.Done)

    def probe_clock(self, count: int = PROBE_COUNT) -> list[ClockProbe]:
        """Make two-way clock probes in direct succession."""
        return [self._probe() for _ in range(count)]

    def _probe(self) -> ClockProbe:
        """Make a probe; the clock is read immediately before sending and after receiving."""
        number = next(self._numbers)
        request = encode(number, m.Probe())
        sent_ns = perf_counter_ns()
        self._link.send(request)
        while True:
            data = self._link.receive(ANSWER_TIMEOUT_S)
            received_ns = perf_counter_ns()
            message = self._reply_in(decode(data), number)
            if message is not None:
                reply = _of_type(message, m.ProbeReply)
                return ClockProbe(sent_ns, reply.received_ns, reply.sent_ns, received_ns)

    def push_model(self, path: Path, sha256: str, on_bytes: OnBytes | None = None) -> int:
        """Send the part of a model file that the device does not have yet.

        Returns:
            Number of bytes sent.

        Raises:
            NoSpace: the model does not fit on the device.
            LeaseHeld: this client does not hold the lease.
        """
        size = path.stat().st_size
        patience_s = _patience_s(size)
        state = self.ask(m.ModelOffer(sha256, size), m.ModelState, patience_s)
        if state.is_complete:
            return 0
        _keep_freed_memory()
        with path.open("rb") as file:
            file.seek(state.offset_bytes)
            sent = state.offset_bytes
            first: int | None = None
            for number, chunk in enumerate(iter(partial(file.read, CHUNK_BYTES), b"")):
                chunk_number = self._send(m.ModelChunk(sha256, sent), chunk)
                first = first or chunk_number
                sent += len(chunk)
                if number % CHUNKS_PER_POLL == 0:
                    self._raise_early_problem()
                if on_bytes:
                    on_bytes(sent, size)
        # The error of a chunk is more specific than the resulting error of the commit.
        self._expect(self._send(m.ModelCommit(sha256)), m.ModelState, patience_s, first)
        return sent - state.offset_bytes

    def start_run(
        self,
        run_id: str,
        spec: RunSpec,
        *,
        sha256: str,
        model_name: str,
        size_bytes: int,
        host_file: bytes = b"",
    ) -> None:
        """Start a run.

        The device first verifies the model file, so the timeout depends on the size of the model.
        `host_file` is kept in the spool with the run, unless the agent is too old.

        Raises:
            EdgebenchError: the agent rejected the run, or the connection failed.
        """
        self._notices.clear()
        kept = host_file if self._protocol >= m.SEATS_SINCE else b""
        self._followed = self._send(m.RunStart(run_id, spec, sha256, model_name), kept)
        self._expect(self._followed, m.RunAccepted, _patience_s(size_bytes))

    def follow(self, run_id: str) -> None:
        """Subscribe to the notices of a run that an earlier client of this host started.

        `follow_run` then yields the notices, beginning with the current phase; for a finished run,
        `RunEnded` follows immediately. If the lease is free, this client takes it.

        Raises:
            UsageError: the device has no run of this host with this id.
            TargetError: the agent is too old to support this request.
        """
        if self._protocol < m.SEATS_SINCE:
            raise TargetError(
                f"agent does not support following a run in progress: {self.software}"
            )
        self._notices.clear()
        self._followed = self._send(m.RunFollow(run_id, LEASE_TTL_S))
        self._expect(self._followed, m.RunAccepted, ANSWER_TIMEOUT_S)

    def follow_run(self) -> Iterator[m.Progress | m.Telemetry | m.RunEnded]:
        """Yield the notices of the run that this client started or follows, up to `RunEnded`."""
        while True:
            # No timeout: the pings of the connection detect a dead device.
            frame = self._notices.popleft() if self._notices else self._receive(None)
            if frame.number != self._followed:
                continue
            notice = _unwrap(frame)
            if isinstance(notice, (m.Progress, m.Telemetry, m.RunEnded)):
                yield notice
            if isinstance(notice, m.RunEnded):
                return

    def request_cancel(self, run_id: str) -> None:
        """Request the end of a run without waiting for it; thread-safe.

        Clients that follow the run receive its `RunEnded`.
        """
        self._send(m.RunCancel(run_id))

    def cancel(self, run_id: str) -> None:
        """Stop a run that this client does not follow; return when its worker has ended.

        Raises:
            UsageError: the run is not in progress.
        """
        self.ask(m.RunCancel(run_id), m.Done)

    def list_runs(self) -> m.RunListing:
        """List this host's runs on the device."""
        return self.ask(m.RunList(), m.RunListing)

    def fetch_run(self, run_id: str, directory: Path) -> None:
        """Copy the files of a finished run; only bytes that the directory lacks are transferred.

        Raises:
            StoreError: the directory cannot be written.
            RemoteProtocolError: a file arrived damaged.
        """
        # The size is not known yet: the device may have to hash gigabytes of a recording.
        files = self.ask(m.RunOpen(run_id), m.RunFiles, _patience_s(MAX_FILE_BYTES)).files
        for file in files:
            if file.name not in SPOOL_FILES or not 0 <= file.size_bytes <= MAX_FILE_BYTES:
                raise RemoteProtocolError(
                    f"device sent an invalid file of a run: {file.name[:40]!r}, "
                    f"{file.size_bytes} bytes"
                )
        _refuse_full_disk(files, directory)
        for file in files:
            with os_error_as(StoreError, "run not stored", directory):
                self._fetch_file(run_id, file, directory / Path(file.name).name)

    def acknowledge(self, run_id: str) -> None:
        """Confirm that a run is stored, so that the device deletes it."""
        self.ask(m.RunAcknowledge(run_id), m.Done)

    def _fetch_file(self, run_id: str, file: m.SpooledFile, path: Path) -> None:
        """Fetch the missing part of a file, or the whole file if a power cut damaged the copy.

        Raises:
            RemoteProtocolError: the file arrived damaged.
            OSError: the file cannot be written.
        """
        is_resumed = path.exists() and path.stat().st_size > 0
        if self._is_fetched(run_id, file, path):
            return
        path.unlink()
        if is_resumed and self._is_fetched(run_id, file, path):
            return
        path.unlink(missing_ok=True)
        raise RemoteProtocolError(f"file {file.name} of run {run_id} arrived damaged")

    def _is_fetched(self, run_id: str, file: m.SpooledFile, path: Path) -> bool:
        """Append the missing part of a file; return whether the result has the expected digest."""
        with path.open("a+b") as target:
            while target.tell() < file.size_bytes:
                number = self._send(m.FileRead(run_id, file.name, target.tell()))
                payload = self._expect(number, m.FileData, ANSWER_TIMEOUT_S)[1].payload
                if not payload:
                    break
                target.write(payload)
            target.seek(0)
            return sha256_of(target).hexdigest() == file.sha256

    def _raise_early_problem(self) -> None:
        """Check, between two chunks of a model, whether the agent has refused a chunk.

        Raises:
            EdgebenchError: the agent refused a chunk.
        """
        try:
            frame = self._receive(0)
        except LinkTimeout:
            return
        _unwrap(frame)

    def _send(self, message: m.Message, payload: bytes = b"") -> int:
        number = next(self._numbers)  # atomic: another thread may request the end of a run
        self._link.send(encode(number, message, payload))
        return number

    def _expect(
        self, number: int, answer: type[_T], timeout_s: float, first: int | None = None
    ) -> tuple[_T, Frame]:
        """Wait for the reply to a request.

        Raises:
            EdgebenchError: the reply to this request, or to any request since `first`, is an error.
        """
        while True:
            frame = self._receive(timeout_s)
            message = self._reply_in(frame, number, first)
            if message is not None:
                return _of_type(message, answer), frame

    def _reply_in(self, frame: Frame, number: int, first: int | None = None) -> m.Message | None:
        """Return a frame's message if it replies to a request with number `first` to `number`.

        For a notice, return None; a notice of the followed run is also queued.

        Raises:
            EdgebenchError: the frame contains an error.
        """
        if (first or number) <= frame.number <= number or frame.number == 0:
            return _unwrap(frame)
        if frame.number == self._followed:
            self._notices.append(frame)
        return None  # any other frame is a late notice

    def _receive(self, timeout_s: float | None) -> Frame:
        return decode(self._link.receive(timeout_s))


def hardware_of(welcome: m.Welcome, seat: str) -> Hardware:
    """Hardware of the agent that sent `welcome`; older agents send only the id of the board."""
    if seat or welcome.hardware != Hardware():
        return welcome.hardware
    return Hardware(welcome.board)


def _of_type(message: m.Message, answer: type[_T]) -> _T:
    if not isinstance(message, answer):
        raise RemoteProtocolError(f"unexpected reply of the agent: {type(message).__name__}")
    return message


def _unwrap(frame: Frame) -> m.Message:
    if isinstance(frame.message, m.Problem):
        raise error_from_code(frame.message.code, frame.message.text)
    return frame.message


def _refuse_full_disk(files: Sequence[m.SpooledFile], directory: Path) -> None:
    """Check that the disk has room for the files.

    Raises:
        StoreError: the disk has less free space than the files need.
    """
    with os_error_as(StoreError, "run not stored", directory):
        free = shutil.disk_usage(directory).free
        paths = (directory / Path(file.name).name for file in files)
        there = sum(path.stat().st_size for path in paths if path.exists())
    needed = sum(file.size_bytes for file in files) - there
    if needed > free:
        takes, has = format_distinct_sizes(needed, free)
        raise StoreError(f"run not stored: needs {takes}, disk has {has} free: {directory}")


@cache
def _keep_freed_memory() -> None:
    """Make the allocator reuse buffers of a chunk's size instead of returning them to the kernel.

    A chunk is copied four times before it is sent, and allocating fresh pages for each copy took
    longer than encrypting the chunk. After glibc has freed a large block, it keeps further freed
    blocks up to that size; with other allocators, this function has no effect. Source: mallopt(3),
    M_MMAP_THRESHOLD.
    """
    bytes(8 * CHUNK_BYTES)


def _patience_s(size_bytes: int) -> float:
    """Timeout for a reply that the device sends after reading and hashing this number of bytes."""
    return ANSWER_TIMEOUT_S + size_bytes / HASHED_BYTES_PER_S
