r"""Commands to a PowerShield, and its responses.

    volt 3300m \n   →   \r\n PowerShield > ack volt 3300m \r\n \r\n
                        PowerShield > error volt 9000m \r\n Error detail: … \r\n
                        ("err" in the manual)
    stop \n         →   no ack; the rest of the stream, then "Acquisition completed"

Source: ST UM2243 (commands); responses of the firmware: mlcommons/tiny, benchmark/runner,
power_manager.py; zissis-pap/x-nucleo-lpm01a-gui, core/protocol.py.
"""

from __future__ import annotations

import re

from edgebench.meters.transport import (
    ByteStream,
    Dialog,
    read_until,
    run_dry,
)
from edgebench.protocol.errors import TargetError

RESPONSE_S = 3.0
_QUIET_S = 0.1
_DETAIL = re.compile(rb"Error detail:\s*([^\r\n]+)\r?\n")


class Lpm01aRefusal(TargetError):
    """The unit responded to a command with an error."""


class Lpm01aDialog(Dialog):
    """Sends commands; bytes that arrive after a response are kept for the next read."""

    def __init__(self, transport: ByteStream, response_s: float = RESPONSE_S) -> None:
        super().__init__(transport)
        self._response_s = response_s
        self._ahead = b""

    def read(self, timeout_s: float) -> bytes:
        """Return bytes that have arrived; b"" on timeout."""
        if self._ahead:
            ahead, self._ahead = self._ahead, b""
            return ahead
        return super().read(timeout_s)

    def query(self, command: str) -> str:
        """Send a command and return its acknowledgement, without the repetition of the command.

        Raises:
            TargetError: the unit reports an error, or does not respond.
        """
        self._ahead = b""
        self.write(command.encode() + b"\n")
        name = re.escape(command.split()[0].encode())
        response = re.compile(rb"(?:(ack)\s+%s|err(?:or)?)\b([^\r\n]*)\r?\n" % name)
        received = read_until(self._transport, response, self._response_s)
        match = response.search(received)
        if match is None:
            raise TargetError(
                f"LPM01A did not respond to `{command}`: {len(received)} bytes in "
                f"{self._response_s:g} s, without ack or error"
            )
        if not match[1]:
            reason = self._reason(received)
            raise Lpm01aRefusal(f"LPM01A rejected `{command}`: {reason}")
        self._ahead = received[match.end() :]
        text = match[2].decode("ascii", "replace").strip()
        return text.removeprefix(command.partition(" ")[2]).strip()

    def rouse(self, command: str) -> None:
        """Send a query, and end a stream that another client has left running.

        A running stream blocks all queries. A fast stream is detected by its bytes, and a slow
        stream by the unit's rejection of the query. A unit without a stream receives only the
        query.

        Raises:
            TargetError: the stream does not stop, or the unit does not respond.
        """
        if self._transport.read(_QUIET_S):
            self.stop()
        try:
            self.query(command)
        except Lpm01aRefusal:
            self.stop()

    def stop(self) -> None:
        """Stop the stream if a stream is running, and discard its remaining bytes.

        Raises:
            TargetError: the stream does not stop.
        """
        self._ahead = b""
        self.write(b"stop\n")
        complaint = f"LPM01A does not stop: it still sends data after {self._response_s:g} s"
        run_dry(self._transport, complaint, self._response_s)

    def _reason(self, received: bytes) -> str:
        """Reason for an error, from the line after the error. Old firmware sends no such line."""
        detail = _DETAIL.search(read_until(self._transport, _DETAIL, _QUIET_S, received))
        return detail[1].decode("ascii", "replace").strip() if detail else "no reason given"
