"""Link to an instrument over VISA: sockets, VXI-11, HiSLIP, USB and GPIB, through pyvisa.

A socket and a serial port carry bytes without message boundaries. So a response ends with a line
end, and a block ends according to the length that it contains. VXI-11, HiSLIP, USB and GPIB carry
whole messages.

After an instrument has not responded in time, further queries are rejected, because the late
response would be mistaken for the response to the next query.

Source: pyvisa-py, tcpip.py: a socket closed by the other side reads as a timeout.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from edgebench.meters.scpi.responses import SPECIAL, block_length, length_digits
from edgebench.protocol.distributions import install_command
from edgebench.protocol.errors import TargetError
from edgebench.protocol.text import one_line

RESPONSE_S = 3.0
_LINE_MAX_BYTES = 1 << 16
_END_MAX_BYTES = 4
"""Maximum length of the line end after a block, with padding before it."""
INSTALL = install_command("scpi")


class ScpiLink:
    """Sends commands to an instrument, and receives its responses."""

    def __init__(
        self, resource: Any, name: str, *, is_stream: bool, response_s: float = RESPONSE_S
    ) -> None:
        self._resource = resource
        self._response_s = response_s
        self._is_stream = is_stream
        self._is_late = False
        """Whether a response timed out, so that the bytes that arrive next may belong to that
        response."""
        self.name = name
        """Address as given by the user."""

    def write(self, command: str) -> None:
        """Send a command.

        Raises:
            TargetError: the instrument is gone.
        """
        with self._about(command):
            self._resource.write_raw(command.encode("ascii") + b"\n")

    def query(self, command: str) -> bytes:
        """Send a query and return the response without its line end.

        Raises:
            TargetError: the instrument does not respond in time.
        """
        self._put(command)
        with self._about(command):
            return self._line(_LINE_MAX_BYTES).rstrip(b"\r\n")

    def query_text(self, command: str) -> str:
        """Send a query and return the response as text."""
        return self.query(command).decode("ascii", "replace").strip()

    def query_period(self, command: str) -> float:
        """Send a query and return the interval between two values in seconds.

        Raises:
            TargetError: the instrument does not respond in time, or its response is not a number
                above 0.
        """
        return self.period_of(self.query_text(command), command)

    def period_of(self, response: str, command: str) -> float:
        """Parse the response to a query as the interval between two values in seconds.

        Raises:
            TargetError: the response is not a number above 0, or is 9.91E+37, which means no value.
        """
        try:
            period_s = float(response)
        except ValueError:
            period_s = math.nan
        if not abs(period_s) <= SPECIAL:  # also if it is NaN
            raise TargetError(
                f"the reply of {self.name} to `{command}` is not a number: {response[:40]!r}"
            )
        if period_s <= 0:
            raise TargetError(
                f"{self.name} returned {period_s:g} s to `{command}`: a period must be above 0"
            )
        return period_s

    def query_block(self, command: str) -> bytes:
        """Send a query for a block, and return the whole block with its header.

        Raises:
            TargetError: the instrument does not respond in time, or its response is not a block.
        """
        self._put(command)
        with self._about(command):
            if not self._is_stream:
                return bytes(self._resource.read_raw())
            head = bytes(self._resource.read_bytes(2))
            digits = bytes(self._resource.read_bytes(length_digits(head)))
            content = bytes(self._resource.read_bytes(block_length(digits)))
            self._line(_END_MAX_BYTES)
            return head + digits + content

    def refuse_errors(self, command: str) -> None:
        """Query the oldest error recorded by the instrument.

        Raises:
            TargetError: the instrument has recorded an error.
        """
        response = self.query_text(command)
        number, _, words = response.partition(",")
        if number.strip().lstrip("+-").strip("0"):
            message = words.strip().strip('"') or response[:40]
            raise TargetError(f"{self.name} rejected its configuration: {message}")

    def forget_errors(self) -> None:
        """Clear the errors of earlier clients."""
        self.write("*CLS")

    def close(self) -> None:
        """Close the link; may be called twice."""
        self._resource.close()

    def _put(self, command: str) -> None:
        """Send a query; raise TargetError if a response to an earlier query is still due."""
        if self._is_late:
            raise TargetError(f"{self.name} did not respond to an earlier query: connect again")
        self.write(command)

    def _line(self, limit_bytes: int) -> bytes:
        if not self._is_stream:
            return bytes(self._resource.read_raw())
        return bytes(self._resource.read_bytes(limit_bytes, break_on_termchar=True))

    @contextmanager
    def _about(self, command: str) -> Iterator[None]:
        """Convert exceptions of pyvisa to TargetError."""
        from pyvisa.errors import Error

        try:
            yield
        except TargetError as exc:
            raise TargetError(f"{self.name} sent a bad response to `{command}`: {exc}") from exc
        except (Error, OSError) as exc:
            self._is_late = True
            if "TMO" in getattr(exc, "abbreviation", ""):
                why = f"did not respond to `{command}` within {self._response_s:g} s"
            else:
                why = f"is gone: {_reason(exc)}"
            raise TargetError(f"{self.name} {why}") from exc


def open_link(
    address: str, response_s: float = RESPONSE_S, *, baud_rate: int | None = None
) -> ScpiLink:
    """Connect to an instrument.

    Args:
        address: Address of a VISA resource, as in TCPIP::192.168.1.5::5025::SOCKET.
        response_s: Time limit of a response.
        baud_rate: Rate of a serial port; None: 9600. Ignored for other interfaces.

    Raises:
        TargetError: pyvisa is not installed, or the connection fails.
    """
    try:
        import pyvisa
    except ImportError:
        raise TargetError(f"pyvisa is not installed, SCPI meters need it: {INSTALL}") from None
    try:
        resource: Any = pyvisa.ResourceManager("@py").open_resource(address)
        resource.timeout = response_s * 1000
        is_stream = resource.resource_class == "SOCKET" or address.upper().startswith("ASRL")
        resource.read_termination = "\n" if is_stream else None
        if baud_rate is not None and address.upper().startswith("ASRL"):
            resource.baud_rate = baud_rate
    except Exception as exc:  # pyvisa-py raises the base class if it cannot connect
        raise TargetError(f"no instrument at {address}: {_reason(exc)}") from exc
    return ScpiLink(resource, address, is_stream=is_stream, response_s=response_s)


def _reason(exc: Exception) -> str:
    text = getattr(exc, "description", None) or getattr(exc, "strerror", None) or exc
    return one_line(text)
