"""Connections of hosts to the agent, and the handlers of their messages.

Theory of operation. There are two listeners. The TLS listener accepts only peers with the key of a
pinned certificate. Any other peer is cut off during or right after the TLS handshake, before that
peer can read data. The unix socket accepts processes of the same user and of root. On both
listeners, a peer sends `Hello`, then one request after another. The tables at the end of this
module contain a handler for each message type. Messages of a connection are handled in order, so a
flood of messages delays only its sender.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from contextlib import contextmanager
from http import HTTPStatus
from typing import Any, TypeVar, cast

from websockets.asyncio.server import ServerConnection
from websockets.exceptions import ConnectionClosed
from websockets.http11 import Response

from edgebench.agent.admission import Admission
from edgebench.agent.agent import Agent
from edgebench.agent.artifacts import Upload
from edgebench.agent.identity import Peer, Trust
from edgebench.agent.memory import give_back
from edgebench.agent.running import Listener, Notice
from edgebench.agent.watches import SendNotice
from edgebench.agent.worker.process import monotonic_ns
from edgebench.protocol import messages as m
from edgebench.protocol.codec import MAX_PAYLOAD_BYTES, Frame, decode, encode, kind_of
from edgebench.protocol.errors import (
    EdgebenchError,
    ErrorCode,
    LeaseHeld,
    ProtocolError,
    RemoteProtocolError,
    UsageError,
)
from edgebench.protocol.text import one_line
from edgebench.protocol.traces import HOST_FILE
from edgebench.system.control_address import may_control, peer_uid

MAX_CONNECTIONS = 64
"""Maximum number of connections of paired hosts, at 350 KiB each; a larger number indicates a
fault."""
MAX_SURPLUS = 16
"""Maximum number of connections beyond `MAX_CONNECTIONS` that get an HTTP status; further
connections are cut off."""
MAX_BEHIND_BYTES = 256 * 1024
"""A watcher that does not read is cut off when its unread notices exceed this size. Each seat, a
device of the agent, sends 0.4 KB a second. The limit is reached after ten minutes with a single
seat, or after 20 s with `MAX_SEATS` seats."""
UPLOAD_LOOK_S = 0.1
"""Polling interval while a different host sends the same model."""

logger = logging.getLogger(__name__)


class Connections:
    """Counts the open connections and the conversations of both listeners."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._count = 0
        self._active_s = clock()
        self.paired_count = 0
        """Number of open TLS connections whose peer is paired or pairing."""
        self.surplus_count = 0
        """Number of connections beyond the limit, which get an HTTP status and are closed."""

    @property
    def idle_s(self) -> float:
        """Seconds since the last activity; 0 while a connection is open."""
        return 0.0 if self._count else self._clock() - self._active_s

    def active(self) -> None:
        """Record activity now, which sets `idle_s` back to 0."""
        self._active_s = self._clock()

    def enter(self) -> None:
        """Count a connection that opens, or a conversation that begins."""
        self._count += 1

    def leave(self) -> None:
        """Count a connection or conversation that ends."""
        self._count -= 1
        self.active()

    @contextmanager
    def conversation(self) -> Iterator[None]:
        """Count a conversation as well, because its handler may outlast the connection."""
        self.enter()
        try:
            yield
        finally:
            self.leave()


class CountedConnection(ServerConnection):
    """A connection that counts as open until it is lost, even before its first message arrives."""

    peer: Peer

    def __init__(self, connections: Connections, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._connections = connections
        # Not yet counted as open: asyncio never reports a failed TLS handshake as lost.
        connections.active()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Count the connection once its transport is ready, after TLS."""
        super().connection_made(transport)
        self._connections.enter()

    def connection_lost(self, exc: Exception | None) -> None:
        """Count the end of the connection."""
        super().connection_lost(exc)
        self._connections.leave()


class PinnedConnection(CountedConnection):
    """A connection that is cut off, before its first byte is read, if its peer is not paired."""

    def __init__(
        self,
        trust: Trust,
        admission: Admission,
        connections: Connections,
        *arguments: Any,
        **options: Any,
    ) -> None:
        super().__init__(connections, *arguments, **options)
        self._trust = trust
        self._admission = admission
        self._has_slot = False
        self.is_surplus = False
        """Whether the peer is paired, but too many connections are open."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Check the certificate as soon as the TLS handshake is done."""
        super().connection_made(transport)
        address = transport.get_extra_info("peername")
        tls = transport.get_extra_info("ssl_object")
        peer = self._trust.peer(tls.getpeercert(binary_form=True)) if tls else None
        self._admission.leave(address, is_known=peer is not None)
        connections = self._connections
        if peer is None:
            logger.warning("refused an unpaired peer from %s", address[0] if address else "nowhere")
            self.transport.abort()
        elif connections.paired_count < MAX_CONNECTIONS:
            self.peer = peer
            self._has_slot = True
            connections.paired_count += 1
        else:
            logger.warning("refused %s: %d connections are open", peer.name, MAX_CONNECTIONS)
            if connections.surplus_count < MAX_SURPLUS:
                self.is_surplus = True
                connections.surplus_count += 1
            else:
                self.transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        """Subtract the connection from the counts of open connections."""
        super().connection_lost(exc)
        self._connections.paired_count -= self._has_slot
        self._connections.surplus_count -= self.is_surplus

    def refuse_surplus(self) -> Response | None:
        """HTTP response to a connection beyond the limit; None for a connection within it."""
        if not self.is_surplus:
            return None
        return self.respond(HTTPStatus.SERVICE_UNAVAILABLE, "too many connections\n")


class LocalConnection(CountedConnection):
    """A connection over the unix socket, cut off unless its peer is the same user or root."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Get the user id of the peer from the kernel."""
        super().connection_made(transport)
        uid = peer_uid(transport.get_extra_info("socket"))
        if not may_control(uid):
            logger.warning("refused user %d of this machine", uid)
            self.transport.abort()
            return
        self.peer = Peer(f"local:{uid}", f"user {uid} on this machine", is_local=True)


class ConnectionHandler:
    """Handles the messages of a connection."""

    def __init__(self, agent: Agent, connection: CountedConnection) -> None:
        self._agent = agent
        self._seat = agent.first
        self._connection = connection
        self._peer = connection.peer
        self._holder = ""
        self._host_name = ""
        self._protocol = m.PROTOCOL_VERSION
        self._upload: Upload | None = None
        self._offered: list[str] = []
        """Models that were offered for the next run; protected from removal until the run
        starts."""
        self._listeners: list[Listener] = []
        self._sends: set[asyncio.Task[None]] = set()
        self._send_notice: SendNotice | None = None
        self._behind_bytes = 0
        self._gone: asyncio.Future[None]

    async def serve(self) -> None:
        """Handle messages until the peer disconnects."""
        # A handler may still run when the host disconnects: do not wait for it.
        self._gone = asyncio.ensure_future(self._connection.wait_closed())
        self._gone.add_done_callback(lambda _: self._seat.leave(self._holder))
        try:
            async for data in self._connection:
                await self._answer(data)
        except ConnectionClosed:
            pass
        finally:
            self._agent.claims.end(self)
            self._drop_upload()
            self._let_go_offered()
            if self._send_notice is not None:
                self._agent.watches.remove(self._send_notice)
            for listener in self._listeners:
                self._seat.forget(listener)

    async def _answer(self, data: str | bytes) -> None:
        number = 0
        try:
            if isinstance(data, str):
                raise RemoteProtocolError("text frame")
            frame = decode(data)
            number = frame.number
            await self._handle(frame)
        except ProtocolError as exc:
            await self._send(number, m.Problem(int(exc.code), str(exc)))
            await self._connection.close(1002)
        except EdgebenchError as exc:
            await self._send(number, m.Problem(int(exc.code), str(exc)))
        except Exception as exc:  # the connection outlives any failure of a handler
            logger.exception("request failed")
            text = f"agent failed: {one_line(exc)}"
            if not isinstance(exc, OSError):
                text = f"agent failed: unforeseen {type(exc).__name__}: {one_line(exc)}"
            await self._send(number, m.Problem(int(ErrorCode.INTERNAL), text))

    async def _handle(self, frame: Frame) -> None:
        kind = type(frame.message)
        allowed = _PAIRING if self._peer.is_pairing else _LOCAL if self._peer.is_local else _REMOTE
        handler = allowed.get(kind)
        if handler is None:
            raise RemoteProtocolError(f"{kind_of(kind)} is not allowed on this connection")
        if not self._holder and kind not in (m.Hello, m.AgentClaim):
            raise RemoteProtocolError(f"{kind_of(kind)} came before hello")
        self._seat.lease.touch(self._holder)
        await handler(self, frame)

    async def _send(self, number: int, message: m.Message, payload: bytes = b"") -> None:
        with contextlib.suppress(ConnectionClosed):
            await self._connection.send(encode(number, message, payload))

    def _push_bounded(self, data: bytes) -> None:
        """Send a notice; cut the connection off if too many unread notices wait."""
        self._behind_bytes += len(data)
        if self._behind_bytes > MAX_BEHIND_BYTES:
            logger.warning("disconnected %s, which does not read notices", self._peer.name)
            self._connection.transport.abort()
            return

        async def send() -> None:
            with contextlib.suppress(ConnectionClosed):
                await self._connection.send(data)
            self._behind_bytes -= len(data)

        self._send_apart(send())

    def _send_apart(self, sending: Coroutine[Any, Any, None]) -> None:
        """Send a notice without waiting for it."""
        task = asyncio.ensure_future(sending)
        self._sends.add(task)
        task.add_done_callback(self._sent)

    def _sent(self, task: asyncio.Task[None]) -> None:
        self._sends.discard(task)
        if not task.cancelled() and (failure := task.exception()) is not None:
            # Otherwise the host would wait for this notice for as long as a run may last.
            logger.error(
                "disconnected %s: a notice was not sent", self._peer.name, exc_info=failure
            )
            self._connection.transport.abort()

    # Handlers, in the order of a conversation.

    async def _hello(self, frame: Frame, hello: m.Hello) -> None:
        if abs(hello.protocol - m.PROTOCOL_VERSION) > 1:
            raise RemoteProtocolError(
                f"the host has protocol {hello.protocol}, the agent {m.PROTOCOL_VERSION}: "
                "update the older program"
            )
        self._host_name, self._protocol = hello.host_name[:64], hello.protocol
        if not self._holder:
            self._seat = await self._agent.opened_seat(hello.seat)
            self._holder = f"{self._peer.identity}/{hello.session}"
            self._seat.enter(self._holder)
            self._agent.claims.enter(self)
        seat, software = self._seat, self._agent.software
        welcome = m.Welcome(
            m.PROTOCOL_VERSION,
            software,
            seat.device,
            seat.name,
            seat.board,
            self._agent.hardware,
            self._agent.instance,
        )
        await self._send(frame.number, welcome)

    async def _seat_list(self, frame: Frame, _: m.SeatList) -> None:
        states = tuple(seat.state() for seat in self._agent.seats.values())
        await self._send(frame.number, m.Seats(states))

    async def _watch(self, frame: Frame, watch: m.Watch) -> None:
        if self._send_notice is not None:
            raise UsageError("this connection watches already")
        names = dict.fromkeys(watch.seats or self._agent.seats)
        seats = [self._agent.seat(name) for name in names]

        def send(notice: m.Message, payload: bytes) -> None:
            self._push_bounded(encode(frame.number, notice, payload))

        self._send_notice = send
        self._agent.claims.end(self)  # a watcher reconnects to the next agent
        is_for_all = not watch.seats
        states = self._agent.watches.add(seats, send, is_for_all=is_for_all)
        await self._send(frame.number, m.Seats(states))

    async def _describe(self, frame: Frame, _: m.Describe) -> None:
        await self._send(frame.number, m.Described(await self._agent.describe(self._seat)))

    async def _probe(self, frame: Frame, _: m.Probe) -> None:
        received_ns = monotonic_ns()
        await self._send(frame.number, m.ProbeReply(received_ns, monotonic_ns()))

    async def _acquire(self, frame: Frame, request: m.Acquire) -> None:
        self._seat.require_device()
        try:
            left_s = await self._seat.lease.acquire_within(
                self._holder,
                self._host_name,
                request.ttl_s,
                wait_s=request.wait_s,
                is_wanted=lambda: self._seat.is_there and not self._gone.done(),
            )
        except LeaseHeld:
            self._seat.require_device()  # the device may have left during the wait
            raise
        await self._send(frame.number, m.Granted(left_s))

    async def _release(self, frame: Frame, _: m.Release) -> None:
        self._seat.lease.release(self._holder)
        await self._send(frame.number, m.Done())

    async def _model_offer(self, frame: Frame, offer: m.ModelOffer) -> None:
        self._seat.require_device()
        self._seat.lease.require(self._holder)
        self._drop_upload()
        models = self._agent.models
        while offer.sha256 in models.arriving:  # from a host of another seat
            await asyncio.sleep(UPLOAD_LOOK_S)
            if self._gone.done():
                return
            self._seat.lease.touch(self._holder)
        offset_bytes, is_complete = models.offset(offer.sha256, offer.size_bytes)
        if not is_complete:
            models.arriving.add(offer.sha256)
            try:
                self._upload = await asyncio.to_thread(models.begin, offer.sha256, offer.size_bytes)
            except BaseException:  # also when cancelled, so that the next offer may begin
                models.arriving.discard(offer.sha256)
                raise
            offset_bytes = self._upload.offset_bytes
        models.hold(offer.sha256)
        self._offered.append(offer.sha256)
        await self._send(frame.number, m.ModelState(offer.sha256, offset_bytes, is_complete))

    async def _model_chunk(self, frame: Frame, chunk: m.ModelChunk) -> None:
        upload = self._current_upload(chunk.sha256)
        try:
            await upload.write(chunk.offset_bytes, frame.payload)
        except EdgebenchError:
            self._drop_upload()
            raise

    async def _model_commit(self, frame: Frame, commit: m.ModelCommit) -> None:
        upload = self._current_upload(commit.sha256)
        self._upload = None
        try:
            await asyncio.to_thread(self._agent.models.commit, upload)
        finally:
            self._agent.models.arriving.discard(upload.sha256)
        state = m.ModelState(commit.sha256, upload.size_bytes, is_complete=True)
        await self._send(frame.number, state)

    async def _run_start(self, frame: Frame, start: m.RunStart) -> None:
        self._seat.require_device()
        self._seat.lease.require(self._holder)
        listener = self._listen(frame.number)
        host_file = bytes(frame.payload)
        try:
            async with self._agent.undisturbed(self._seat, start.spec.meter):
                await self._seat.runner.start(start, self._peer.identity, listener, host_file)
        finally:
            self._let_go_offered()  # the run holds what it needs
        await self._send(frame.number, m.RunAccepted(start.run_id))

    async def _run_follow(self, frame: Frame, follow: m.RunFollow) -> None:
        owner = self._peer.identity
        run = self._seat.current
        if run is None or (run.owner, run.request.run_id) != (owner, follow.run_id):
            ended = self._seat.spool.ended(follow.run_id, owner)
            await self._send(frame.number, m.RunAccepted(follow.run_id))
            await self._send(frame.number, ended)
            return
        self._seat.inherit(self._holder, self._host_name, follow.ttl_s)
        listener = self._listen(frame.number)
        run.listeners.append(listener)
        await self._send(frame.number, m.RunAccepted(follow.run_id))
        if self._seat.current is run and run.progress is not None:  # it may have ended by now
            listener(run.progress)

    async def _run_cancel(self, frame: Frame, cancel: m.RunCancel) -> None:
        await self._seat.runner.owned(cancel.run_id, self._peer.identity).worker.stop()
        await self._send(frame.number, m.Done())

    async def _run_stop(self, frame: Frame, _: m.RunStop) -> None:
        runs = [seat.current for seat in self._agent.seats.values()]
        workers = [run.worker for run in runs if run is not None]
        if not workers:
            raise UsageError("nothing runs here")
        await asyncio.gather(*(worker.stop() for worker in workers))
        await self._send(frame.number, m.Done())

    async def _run_list(self, frame: Frame, _: m.RunList) -> None:
        finished = self._seat.spool.finished(self._peer.identity)[: m.MAX_LISTED_RUNS]
        run = self._seat.current
        is_own = run is not None and run.owner == self._peer.identity
        running = self._seat.running if is_own else None
        await self._send(frame.number, m.RunListing(finished, running))

    async def _run_open(self, frame: Frame, request: m.RunOpen) -> None:
        spool, owner = self._seat.spool, self._peer.identity
        files = await asyncio.to_thread(spool.files, request.run_id, owner)
        if self._protocol < m.SEATS_SINCE:  # such a host rejects unknown files
            files = tuple(file for file in files if file.name != HOST_FILE)
        await self._send(frame.number, m.RunFiles(request.run_id, files))

    async def _file_read(self, frame: Frame, request: m.FileRead) -> None:
        data = self._seat.spool.read(
            request.run_id,
            self._peer.identity,
            request.name,
            offset=request.offset_bytes,
            size=MAX_PAYLOAD_BYTES,
        )
        await self._send(frame.number, m.FileData(request.offset_bytes), data)

    async def _run_acknowledge(self, frame: Frame, request: m.RunAcknowledge) -> None:
        self._seat.spool.acknowledge(request.run_id, self._peer.identity)
        await self._send(frame.number, m.Done())
        if not self._agent.is_measuring:  # it would take CPU time from a timed loop
            give_back()  # memory that the transfer took

    async def _pair_host(self, frame: Frame, request: m.PairHost) -> None:
        trust = self._agent.require_trust()
        trust.pair(self._peer, request.certificate_pem, request.host_name)
        await self._send(frame.number, m.Done())

    async def _pairing_open(self, frame: Frame, request: m.PairingOpen) -> None:
        trust = self._agent.require_trust()
        trust.open_pairing(request.certificate_pem, request.valid_s)
        ready = m.PairingReady(trust.fingerprint, self._agent.addresses(), self._agent.port or 0)
        await self._send(frame.number, ready)

    async def _seat_forget(self, frame: Frame, request: m.SeatForget) -> None:
        await self._agent.forget(request.seat)
        await self._send(frame.number, m.Done())

    async def _agent_claim(self, frame: Frame, claim: m.AgentClaim) -> None:
        claims = self._agent.claims
        claimed = claims.decide(claim, self, self._agent.used_by)
        await self._send(frame.number, claimed)
        if claimed.outcome is m.ClaimOutcome.LEAVES and claims.leave is not None:
            claims.leave()

    async def _status(self, frame: Frame, _: m.StatusAsk) -> None:
        await self._send(frame.number, self._agent.status())

    def _listen(self, number: int) -> Listener:
        def listener(notice: Notice) -> None:
            self._send_apart(self._send(number, notice))

        self._listeners.append(listener)
        return listener

    def _current_upload(self, sha256: str) -> Upload:
        if self._upload is None or self._upload.sha256 != sha256:
            raise UsageError(f"model {sha256[:12]} was not offered on this connection")
        return self._upload

    def _let_go_offered(self) -> None:
        offered, self._offered = self._offered, []
        self._agent.models.let_go(*offered)

    def _drop_upload(self) -> None:
        if self._upload is not None:
            self._upload.close()
            self._agent.models.arriving.discard(self._upload.sha256)
            self._upload = None


Handler = Callable[[ConnectionHandler, Frame], Awaitable[None]]
_T = TypeVar("_T")


def _handler(method: Callable[[ConnectionHandler, Frame, _T], Awaitable[None]]) -> Handler:
    """Convert a method for a message type into a handler of frames, for the tables below."""
    return lambda handler, frame: method(handler, frame, cast(_T, frame.message))


_REMOTE: dict[type[m.Message], Handler] = {
    m.Hello: _handler(ConnectionHandler._hello),
    m.SeatList: _handler(ConnectionHandler._seat_list),
    m.Watch: _handler(ConnectionHandler._watch),
    m.Describe: _handler(ConnectionHandler._describe),
    m.Probe: _handler(ConnectionHandler._probe),
    m.Acquire: _handler(ConnectionHandler._acquire),
    m.Release: _handler(ConnectionHandler._release),
    m.ModelOffer: _handler(ConnectionHandler._model_offer),
    m.ModelChunk: _handler(ConnectionHandler._model_chunk),
    m.ModelCommit: _handler(ConnectionHandler._model_commit),
    m.RunStart: _handler(ConnectionHandler._run_start),
    m.RunFollow: _handler(ConnectionHandler._run_follow),
    m.RunCancel: _handler(ConnectionHandler._run_cancel),
    m.RunList: _handler(ConnectionHandler._run_list),
    m.RunOpen: _handler(ConnectionHandler._run_open),
    m.FileRead: _handler(ConnectionHandler._file_read),
    m.RunAcknowledge: _handler(ConnectionHandler._run_acknowledge),
}
"""Handlers of the messages that a paired host may send."""
_LOCAL: dict[type[m.Message], Handler] = _REMOTE | {
    m.PairingOpen: _handler(ConnectionHandler._pairing_open),
    m.SeatForget: _handler(ConnectionHandler._seat_forget),
    m.StatusAsk: _handler(ConnectionHandler._status),
    m.AgentClaim: _handler(ConnectionHandler._agent_claim),
    m.RunStop: _handler(ConnectionHandler._run_stop),
}
"""Handlers of the messages that a process of the same user, or of root, may send."""
_PAIRING: dict[type[m.Message], Handler] = {
    m.Hello: _handler(ConnectionHandler._hello),
    m.PairHost: _handler(ConnectionHandler._pair_host),
}
"""Handlers of the messages that a host with a pairing secret may send before it is paired."""
