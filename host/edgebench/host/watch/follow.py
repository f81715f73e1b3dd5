"""Watch an agent: connect, receive its notices, and reconnect."""

from __future__ import annotations

import asyncio
import random
import secrets
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

from websockets.asyncio.client import ClientConnection
from websockets.exceptions import ConnectionClosed

from edgebench.host.client import hardware_of
from edgebench.host.devices.board_check import require_board, require_single
from edgebench.host.devices.files import KnownDevice
from edgebench.host.devices.names import SEAT_MARK
from edgebench.host.this_host import host_name, software
from edgebench.host.watch.update import Absence, Batch, StateChange, Update
from edgebench.protocol import messages as m
from edgebench.protocol.codec import decode, encode
from edgebench.protocol.errors import (
    EdgebenchError,
    LinkLost,
    LinkTimeout,
    ProtocolError,
    RemoteProtocolError,
    TargetError,
    error_from_code,
)
from edgebench.protocol.live import unpack_samples

ANSWER_TIMEOUT_S = 30.0
SILENCE_S = 20.0
"""An agent counts as absent if no reading arrives for this time. An agent sends a reading every
second, but a board that is swapping may take seconds for any operation."""
FIRST_PAUSE_S, LAST_PAUSE_S = 0.5, 30.0
"""Shortest and longest pause before reconnecting to an agent; each pause is twice the previous
pause."""
JITTER = 0.25
"""Random variation of a pause, as a share of the pause. Without this variation, all watchers of a
rack would reconnect at once after the rack is switched on."""
NOTICES_PER_SEAT, NOTICES_WINDOW_S = 100, 10.0
"""Maximum number of notices per seat (device of an agent), and the period in seconds for which this
limit applies. A seat sends a notice every second, and the notices that were delayed by a network
outage may arrive at once. The limit is about three times the number of notices that a seat sends in
30 s."""

Open = Callable[[], Awaitable[ClientConnection]]
_T = TypeVar("_T", bound=m.Message)


class AgentWatch:
    """Watches the seats of an agent and reconnects after errors."""

    def __init__(
        self,
        devices: Sequence[KnownDevice],
        open_connection: Open,
        put: Callable[[Update], Awaitable[None]],
    ) -> None:
        """Prepare to watch; `follow` connects.

        Args:
            devices: Known devices of the agent, each at a seat. If the list is a single device
                without a seat, all seats of the agent are watched.
            open_connection: Opens a connection to the agent.
            put: Callback that receives each update. While the callback waits, nothing is read from
                the agent.
        """
        self._device = devices[0]
        self._agent = devices[0].name.removesuffix(f"{SEAT_MARK}{devices[0].seat}")
        seats = tuple(device.seat for device in devices)
        self._seats = seats if all(seats) else ()
        self._is_for_all = not self._seats
        self._names = {device.seat: device.name for device in devices}
        """Maps each known seat to the name of its device."""
        self._gone: dict[str, None] = {}
        """Seats whose devices have left the agent, in the order in which they left."""
        self._open = open_connection
        self._put = put
        self._connection: ClientConnection | None = None
        self._there_s = time.time()
        self._absence: Absence | None = None
        self._pause_s = FIRST_PAUSE_S
        self._received_s = 0.0
        self._is_putting = False
        self._window_s = 0.0
        self._notice_count = 0

    async def follow(self) -> None:
        """Watch the agent until it violates the protocol."""
        while True:
            try:
                await self._listen()
            except ProtocolError as exc:
                await self._report_absence(exc, is_final=True)
                return
            except EdgebenchError as exc:
                await self._report_absence(exc)
            finally:
                self._cut()
            await asyncio.sleep(self._pause_s * random.uniform(1 - JITTER, 1 + JITTER))
            self._pause_s = min(2 * self._pause_s, LAST_PAUSE_S)

    def check(self, now_s: float) -> None:
        """Cut the connection if no data has arrived for `SILENCE_S`."""
        if not self._is_putting and now_s - self._received_s > SILENCE_S:
            self._cut()

    def _cut(self) -> None:
        if self._connection is not None:
            self._connection.transport.abort()
            self._connection = None

    async def _listen(self) -> None:
        """Receive notices over a single connection until the connection fails."""
        connection = await self._open()
        self._received_s = self._window_s = time.monotonic()
        self._notice_count = 0
        self._connection = connection
        try:
            await self._begin(connection)
            self._pause_s = FIRST_PAUSE_S
            while True:
                data = await connection.recv(decode=False)
                self._received_s = time.monotonic()
                await self._notice(data)
        except (ConnectionClosed, OSError) as exc:
            if time.monotonic() - self._received_s > SILENCE_S:
                raise LinkTimeout(f"no data from {self._agent} for {SILENCE_S:.0f} s") from exc
            raise LinkLost(f"connection to {self._agent} was lost") from exc

    async def _begin(self, connection: ClientConnection) -> None:
        session = secrets.token_hex(8)
        hello = m.Hello(m.PROTOCOL_VERSION, software(), host_name(), session)
        welcome = await self._ask(connection, 1, hello, m.Welcome)
        require_single(self._device)
        require_board(self._device, hardware_of(welcome, ""), self._device.endpoint.address)
        if welcome.protocol < m.SEATS_SINCE:
            raise TargetError(f"agent is too old to be watched: {welcome.software}")
        seats = (await self._ask(connection, 2, m.Watch(self._seats), m.Seats)).seats
        if not 0 < len(seats) <= m.MAX_SEATS:
            raise RemoteProtocolError(f"agent has {len(seats)} devices, limit {m.MAX_SEATS}")
        self._gone.clear()
        if self._is_for_all:
            is_one = len(seats) == 1
            self._names = {
                seat.name: self._agent if is_one else f"{self._agent}{SEAT_MARK}{seat.name}"
                for seat in seats
            }
        self._absence = None
        for seat in seats:
            await self._report_state(seat)

    async def _ask(
        self, connection: ClientConnection, number: int, request: m.Message, answer: type[_T]
    ) -> _T:
        await connection.send(encode(number, request))
        try:
            data = await asyncio.wait_for(connection.recv(decode=False), ANSWER_TIMEOUT_S)
        except asyncio.TimeoutError as exc:
            raise LinkTimeout(f"no answer from {self._agent}") from exc
        message = decode(data).message
        if isinstance(message, m.Problem):
            raise error_from_code(message.code, message.text)
        if not isinstance(message, answer):
            raise RemoteProtocolError(f"agent answered with {type(message).__name__}")
        return message

    async def _notice(self, data: bytes) -> None:
        self._refuse_flood()
        frame = decode(data)
        notice = frame.message
        if isinstance(notice, m.SeatReadings):
            samples = unpack_samples(frame.payload, notice.sample_count)
            name = self._name(notice.seat)
            if notice.seat not in self._gone:  # else it only shows that the agent is alive
                await self._report(Batch(name, samples, notice.run_id, notice.load_1m))
        elif isinstance(notice, m.SeatChange):
            await self._report_state(notice.state)
        elif isinstance(notice, m.Problem):
            raise error_from_code(notice.code, notice.text)
        else:
            raise RemoteProtocolError(f"agent sent {type(notice).__name__} to a watcher")

    async def _report_state(self, seat: m.SeatState) -> None:
        """Report the state of a seat; a seat that was added later is watched from now on."""
        if self._is_for_all and seat.name not in self._names:
            if len(self._names) >= m.MAX_SEATS and self._gone:
                # The agent is at its maximum of seats, so it has removed a seat that was gone.
                forgotten = next(iter(self._gone))
                del self._gone[forgotten], self._names[forgotten]
            if len(self._names) < m.MAX_SEATS:
                self._names[seat.name] = f"{self._agent}{SEAT_MARK}{seat.name}"
        name = self._name(seat.name)
        if seat.gone_for_s is None:
            self._gone.pop(seat.name, None)
            await self._report(StateChange(name, seat))
        else:
            self._gone[seat.name] = None
            since_s = time.time() - seat.gone_for_s
            reason = "the device is no longer connected to its agent"
            await self._report(Absence(name, since_s, reason))

    def _name(self, seat: str) -> str:
        if seat not in self._names:
            raise RemoteProtocolError(f"agent reported a device that is not watched: {seat[:40]!r}")
        return self._names[seat]

    def _refuse_flood(self) -> None:
        self._notice_count += 1
        limit = NOTICES_PER_SEAT * len(self._names)
        if self._notice_count > limit:
            passed_s = self._received_s - self._window_s
            if passed_s < NOTICES_WINDOW_S:
                raise RemoteProtocolError(
                    f"{self._notice_count} notices of {self._agent} within {passed_s:.1f} s, "
                    f"limit {limit} within {NOTICES_WINDOW_S:.0f} s"
                )
            self._window_s, self._notice_count = self._received_s, 0

    async def _report_absence(self, error: EdgebenchError, *, is_final: bool = False) -> None:
        since_s, reason = self._there_s, str(error)
        absence = Absence(self._agent, since_s, reason, is_final)
        if absence == self._absence:
            return
        self._absence = absence
        for name in dict.fromkeys(self._names.values()):
            await self._put(Absence(name, since_s, reason, is_final))

    async def _report(self, update: Update) -> None:
        self._there_s = time.time()
        self._is_putting = True
        await self._put(update)
        self._received_s = time.monotonic()  # the caller's delay is not the agent's silence
        self._is_putting = False
