"""The agent, as the host sees it: one method for each request."""

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
)
from edgebench.protocol.hardware import Hardware
from edgebench.protocol.sizes import format_distinct_sizes
from edgebench.protocol.spec import RunSpec
from edgebench.protocol.traces import SPOOL_FILES

ANSWER_TIMEOUT_S = 30.0
HASHED_BYTES_PER_S = 10e6
"""Speed at which the slowest devices read and hash files: a slow card beside a slow core."""
DESCRIBE_TIMEOUT_S = 200.0
"""Limit on a description: the first one imports every runtime in turn, slowly on a slow board."""
LEASE_TTL_S = 30.0
CHUNK_BYTES = 256 * 1024
"""Bytes of a model in one message."""
CHUNKS_PER_POLL = 4
"""Chunks sent between two checks for an early error of the agent's; a check takes 30 µs."""
PROBE_COUNT = 8
"""Probes of a group, of which the one with the least round trip counts. On loopback that was 264 µs
of 8, 252 of 12 and 242 of 16 (medians of 300 groups, two loaded cores), and each more takes 120 µs
of CPU time of two threads."""
MAX_FILE_BYTES = 2**32
"""Limit on a file of a run; a trace of a few million inferences has some hundred megabytes."""

_T = TypeVar("_T")
OnBytes = Callable[[int, int], None]
"""Called with bytes sent and bytes in all."""


class Client:
    """A conversation with one agent; it has a lease of its own, apart from all other clients."""

    def __init__(self, link: Link, via: str = "", seat: str = "", agent: str = "") -> None:
        """Begin the conversation.

        Args:
            link: An open connection to the agent, which is closed if this fails.
            via: Name of the transport; the agent keeps apart who comes by which.
            seat: Name of the seat that this is about; empty: the first one.
            agent: Fingerprint of the agent's certificate; empty where it has none.

        Raises:
            NoSuchDevice: the agent has no such seat.
            EdgebenchError: it refused, or the link failed.
        """
        self._link = link
        self.via = via
        self.agent = agent
        self._numbers = itertools.count(1)
        self._followed = 0
        self._notices: deque[Frame] = deque()
        """Notices of the followed run that came while a reply was waited for."""
        hello = m.Hello(m.PROTOCOL_VERSION, software(), host_name(), secrets.token_hex(8), seat)
        try:
            welcome = self.ask(hello, m.Welcome)
            if seat and welcome.protocol < m.SEATS_SINCE:  # it did not look at the name
                raise NoSuchDevice(
                    f"no seat is called {seat!r} there: its agent, {welcome.software}, serves one "
                    "device only"
                )
        except EdgebenchError:
            link.close()
            raise
        self.device = welcome.device
        self.software = welcome.software
        self.seat = welcome.seat
        """Name of the seat; empty with an older agent."""
        self.board = welcome.board
        """Id of the board that carries the device; empty where none is known."""
        self.hardware = hardware_of(welcome, seat)
        """Machine that the agent runs on, as far as its kernel shows it."""
        self.instance = welcome.instance
        """Drawn by the agent at its start; empty with an older agent."""
        self._protocol = welcome.protocol

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection."""
        self._link.close()

    def ask(self, request: m.Message, answer: type[_T], timeout_s: float = ANSWER_TIMEOUT_S) -> _T:
        """Send a request and wait for its answer.

        Raises:
            EdgebenchError: the agent refused, or the link failed.
        """
        return self._expect(self._send(request), answer, timeout_s)[0]

    def seats(self) -> tuple[m.SeatState, ...]:
        """State of every seat of the agent; empty where it is too old to have any."""
        return self.ask(m.SeatList(), m.Seats).seats if self._protocol >= m.SEATS_SINCE else ()

    def describe(self) -> SystemDescription:
        """Description of the device, its conditions now, and its runtimes."""
        return self.ask(m.Describe(), m.Described, DESCRIBE_TIMEOUT_S).system

    def acquire(self, wait_s: float = 0.0) -> None:
        """Take the lease, or renew it; an agent that can wait does so for as long.

        Raises:
            LeaseHeld: another host has it.
        """
        self.ask(m.Acquire(LEASE_TTL_S, wait_s), m.Granted, ANSWER_TIMEOUT_S + wait_s)

    def release(self) -> None:
        """Give the lease back."""
        self.ask(m.Release(), m.Done)

    def probe_clock(self, count: int = PROBE_COUNT) -> list[ClockProbe]:
        """Make two-way clock probes, one right after another."""
        return [self._probe() for _ in range(count)]

    def _probe(self) -> ClockProbe:
        """One probe; the clock is read with no more than the link between it and the wire."""
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
        """Send what the device does not hold of a model yet; number of bytes sent.

        Raises:
            NoSpace: it does not fit there.
            LeaseHeld: the lease is not ours.
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
        # An error of a chunk says more than the error of the whole that follows from it.
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
        """Start a run of a model of this size, which the device checks first.

        What the host sends along is spooled with the run, unless its agent is too old.

        Raises:
            EdgebenchError: it was not admitted, or the link failed.
        """
        self._notices.clear()
        kept = host_file if self._protocol >= m.SEATS_SINCE else b""
        self._followed = self._send(m.RunStart(run_id, spec, sha256, model_name), kept)
        self._expect(self._followed, m.RunAccepted, _patience_s(size_bytes))

    def follow(self, run_id: str) -> None:
        """Follow a run that an earlier client of this host started, by `follow_run`.

        They begin with the present phase; of a run that has finished, `RunEnded` comes at once. If
        nobody is there any more who holds the lease, it is ours.

        Raises:
            UsageError: this host has no such run there.
            TargetError: its agent is too old to know how.
        """
        if self._protocol < m.SEATS_SINCE:
            raise TargetError(f"agent cannot let anybody follow a run: {self.software}")
        self._notices.clear()
        self._followed = self._send(m.RunFollow(run_id, LEASE_TTL_S))
        self._expect(self._followed, m.RunAccepted, ANSWER_TIMEOUT_S)

    def follow_run(self) -> Iterator[m.Progress | m.Telemetry | m.RunEnded]:
        """Notices of the run that was started, or is followed; ends after `RunEnded`."""
        while True:
            # No limit on the wait: the connection's own pings notice a dead device.
            frame = self._notices.popleft() if self._notices else self._receive(None)
            if frame.number != self._followed:
                continue
            notice = _unwrap(frame)
            if isinstance(notice, (m.Progress, m.Telemetry, m.RunEnded)):
                yield notice
            if isinstance(notice, m.RunEnded):
                return

    def request_cancel(self, run_id: str) -> None:
        """Ask the device to stop a run; whoever follows it sees it end. Any thread may do so."""
        self._send(m.RunCancel(run_id))

    def cancel(self, run_id: str) -> None:
        """Stop a run, of which nobody here is told the end; returns when its worker has ended.

        Raises:
            UsageError: it is not in progress.
        """
        self.ask(m.RunCancel(run_id), m.Done)

    def list_runs(self) -> m.RunListing:
        """List this host's runs on the device."""
        return self.ask(m.RunList(), m.RunListing)

    def fetch_run(self, run_id: str, directory: Path) -> None:
        """Copy a finished run's files; continues after what is in the directory already.

        Raises:
            StoreError: the directory cannot be written.
            RemoteProtocolError: a file arrived damaged.
        """
        # How much the device has to hash is not known: a meter's recording may be gigabytes.
        files = self.ask(m.RunOpen(run_id), m.RunFiles, _patience_s(MAX_FILE_BYTES)).files
        for file in files:
            if file.name not in SPOOL_FILES or not 0 <= file.size_bytes <= MAX_FILE_BYTES:
                raise RemoteProtocolError(
                    f"device offers {file.name[:40]!r} of {file.size_bytes} bytes as part of a run"
                )
        _refuse_full_disk(files, directory)
        for file in files:
            try:
                self._fetch_file(run_id, file, directory / Path(file.name).name)
            except OSError as exc:
                raise StoreError(f"run not stored: {exc.strerror}: {directory}") from exc

    def acknowledge(self, run_id: str) -> None:
        """Let the device forget a run."""
        self.ask(m.RunAcknowledge(run_id), m.Done)

    def _fetch_file(self, run_id: str, file: m.SpooledFile, path: Path) -> None:
        """Fetch the rest of a file; all of it where a power cut has damaged the first part.

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
        """Append the rest of a file; whether it then has its digest."""
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
        """Notice between two chunks that the agent has refused one."""
        try:
            frame = self._receive(0)
        except LinkTimeout:
            return
        _unwrap(frame)

    def _send(self, message: m.Message, payload: bytes = b"") -> int:
        number = next(self._numbers)  # in one step: another thread may ask for the end of a run
        self._link.send(encode(number, message, payload))
        return number

    def _expect(
        self, number: int, answer: type[_T], timeout_s: float, first: int | None = None
    ) -> tuple[_T, Frame]:
        """Reply to a request, or the error of it or of one since `first`."""
        while True:
            frame = self._receive(timeout_s)
            message = self._reply_in(frame, number, first)
            if message is not None:
                return _of_type(message, answer), frame

    def _reply_in(self, frame: Frame, number: int, first: int | None = None) -> m.Message | None:
        """What a frame says to a request, or to one since `first`; a notice is kept for later.

        Raises:
            EdgebenchError: it says that the request was refused.
        """
        if (first or number) <= frame.number <= number or frame.number == 0:
            return _unwrap(frame)
        if frame.number == self._followed:
            self._notices.append(frame)
        return None  # else a late notice about something else

    def _receive(self, timeout_s: float | None) -> Frame:
        return decode(self._link.receive(timeout_s))


def hardware_of(welcome: m.Welcome, seat: str) -> Hardware:
    """Machine of the agent that has sent a welcome; older agents send the board of a seat only."""
    if seat or welcome.hardware != Hardware():
        return welcome.hardware
    return Hardware(welcome.board)


def _of_type(message: m.Message, answer: type[_T]) -> _T:
    if not isinstance(message, answer):
        raise RemoteProtocolError(f"agent answered with {type(message).__name__}")
    return message


def _unwrap(frame: Frame) -> m.Message:
    if isinstance(frame.message, m.Problem):
        raise error_from_code(frame.message.code, frame.message.text)
    return frame.message


def _refuse_full_disk(files: Sequence[m.SpooledFile], directory: Path) -> None:
    """Refuse files for which the disk has no room.

    Raises:
        StoreError: it has not.
    """
    try:
        free = shutil.disk_usage(directory).free
        paths = (directory / Path(file.name).name for file in files)
        there = sum(path.stat().st_size for path in paths if path.exists())
    except OSError as exc:
        raise StoreError(f"run not stored: {exc.strerror}: {directory}") from exc
    needed = sum(file.size_bytes for file in files) - there
    if needed > free:
        takes, has = format_distinct_sizes(needed, free)
        raise StoreError(f"run not stored: it takes {takes}, disk has {has} free: {directory}")


@cache
def _keep_freed_memory() -> None:
    """Have buffers of a chunk's size reused, not given back to the kernel and fetched again.

    A chunk is copied four times on its way out, and fresh pages for each copy took longer than to
    encrypt it. The first large block that is freed tells glibc to keep blocks up to that size;
    elsewhere this does nothing. Source: mallopt(3), M_MMAP_THRESHOLD.
    """
    bytes(8 * CHUNK_BYTES)


def _patience_s(size_bytes: int) -> float:
    """Timeout for a reply before which the device has to read and hash this much."""
    return ANSWER_TIMEOUT_S + size_bytes / HASHED_BYTES_PER_S
