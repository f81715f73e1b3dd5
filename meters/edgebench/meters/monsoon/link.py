"""Requests to a Monsoon HVPM, and its samples."""

from __future__ import annotations

import time

from edgebench.meters.bulk import BulkTransport
from edgebench.meters.monsoon.packets import (
    BUSY,
    FOREVER,
    GET_OR_SET,
    START,
    STOP,
    Register,
    record_of,
)
from edgebench.protocol.errors import TargetError

CALIBRATION_MS = 1250
"""Interval of calibrations in ms, as in Monsoon's client (sampleEngine.py)."""
_GATHER_S = 0.02
"""Time during which transfers are gathered and then written together, because a packet holds only
up to three observations."""
_QUIET_S = 0.05
_DRAIN_S = 2.0


class MonsoonLink:
    """Registers and samples of a unit."""

    def __init__(self, transport: BulkTransport) -> None:
        self._transport = transport
        self.texts = transport.texts

    def register(self, register: Register, size: int = 2) -> int:
        """Read a register whose value has `size` bytes.

        Raises:
            TargetError: the unit is sampling, or sends too few bytes.
        """
        response = self._transport.control_in(GET_OR_SET, register, 4)
        value = int.from_bytes(response, "little")
        if len(response) < 4 or value == BUSY:
            name = register.name.lower().replace("_", " ")
            raise TargetError(f"the Monsoon does not report its {name}")
        return int.from_bytes(response[:size], "little")

    def signed(self, register: Register) -> int:
        """Read a register whose value has two bytes and may be negative."""
        value = self.register(register)
        return value - (1 << 16) if value >= 1 << 15 else value

    def set(self, register: Register, value: int) -> None:
        """Set a register."""
        index = register | (value >> 16 & 0xFF) << 8
        self._transport.control_out(GET_OR_SET, value & 0xFFFF, index, value.to_bytes(4, "little"))

    def start(self) -> None:
        """Start sampling; the unit samples until `stop`."""
        self._transport.control_out(START, CALIBRATION_MS, 0, FOREVER.to_bytes(4, "little"))

    def stop(self) -> None:
        """Stop sampling, and discard the remaining packets.

        Raises:
            TargetError: packets still arrive after 2 s.
        """
        self._transport.control_out(STOP)
        deadline_s = time.monotonic() + _DRAIN_S
        while self._transport.read(_QUIET_S):
            if time.monotonic() > deadline_s:
                raise TargetError(f"the Monsoon still sends data {_DRAIN_S:g} s after the stop")

    def read(self, timeout_s: float) -> bytes:
        """Return the packets that arrive in about 20 ms, as records; b"" on timeout."""
        records: list[bytes] = []
        deadline_s = time.monotonic() + _GATHER_S
        left_s = timeout_s
        try:
            while left_s > 0 and (transfer := self._transport.read(left_s)):
                records.append(record_of(transfer))
                left_s = deadline_s - time.monotonic()
        except TargetError:  # the unit is gone; the next read raises again
            if not records:
                raise
        return b"".join(records)

    def close(self) -> None:
        """Release the device."""
        self._transport.close()
