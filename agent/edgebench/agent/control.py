"""Sends a single request to the agent on this machine, over the agent's unix socket."""

from __future__ import annotations

import asyncio
from typing import TypeVar

from websockets.asyncio.client import ClientConnection, unix_connect
from websockets.exceptions import WebSocketException

from edgebench.protocol.codec import decode, encode
from edgebench.protocol.errors import RemoteProtocolError, Unreachable, error_from_code
from edgebench.protocol.messages import PROTOCOL_VERSION, Hello, Message, Problem, Welcome
from edgebench.system.control_address import ControlAddress

ANSWER_TIMEOUT_S = 10.0
_T = TypeVar("_T")


async def send_request(address: ControlAddress, request: Message, answer: type[_T]) -> _T:
    """Send a request to the running agent, and return the reply.

    Raises:
        Unreachable: no agent runs here.
        EdgebenchError: the agent rejected the request.
    """
    try:
        connection = address.connect(ANSWER_TIMEOUT_S)
        async with unix_connect(sock=connection, uri="ws://agent/", compression=None) as link:
            hello = Hello(PROTOCOL_VERSION, "edgebench-agent", "this machine", "control")
            await _exchange(link, 1, hello, Welcome)
            return await _exchange(link, 2, request, answer)
    except (OSError, WebSocketException, asyncio.TimeoutError) as exc:
        raise Unreachable(f"no agent responds at {address}") from exc


async def _exchange(link: ClientConnection, number: int, request: Message, answer: type[_T]) -> _T:
    await link.send(encode(number, request))
    received = await asyncio.wait_for(link.recv(decode=False), ANSWER_TIMEOUT_S)
    message = decode(received).message
    if isinstance(message, Problem):
        raise error_from_code(message.code, message.text)
    if not isinstance(message, answer):
        raise RemoteProtocolError(f"unexpected reply of the agent: {type(message).__name__}")
    return message
