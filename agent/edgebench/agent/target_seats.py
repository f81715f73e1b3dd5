"""Seats of an agent for microcontrollers, either emulated or connected to ports of this machine.

A seat is a device that the agent serves, with its own lease and results.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from edgebench.agent.files import make_private_directory
from edgebench.agent.seat import SeatPlan
from edgebench.agent.seat_source import SeatOffer
from edgebench.agent.surroundings import TargetSurroundings
from edgebench.agent.targets import find_driver
from edgebench.device_profiles.load import find_profile
from edgebench.meters.wiring import Wiring
from edgebench.protocol.device import DeviceDescription
from edgebench.protocol.errors import EdgebenchError, NotPermitted, TargetDriverMissing, TargetError
from edgebench.protocol.target import MEMORY_FILE, TargetDescription, TargetPorts

GENERIC_PROFILE = "generic-mcu"
DEVICE_ID_CHARS = 16
"""Length of a target's device id, equal to the length of a machine's device id."""
NO_BOARDS = "none"
"""Address that disables all boards, including boards that are plugged in later."""
_TERMINALS = Path("/sys/class/tty")
_USB_TERMINALS = ("ttyACM", "ttyUSB")
"""Names of serial ports on USB. Source: Linux, Documentation/admin-guide/devices.txt."""


def target_seat(
    name: str, target: TargetDescription, state: Path, meters: tuple[str, ...] = ()
) -> SeatPlan:
    """Plan the seat of a target; its directory is `state`, and its runs may use `meters`."""
    make_private_directory(state)
    profile = find_profile(target.profile) or find_profile(GENERIC_PROFILE)
    assert profile is not None
    digest = hashlib.sha256(f"edgebench target {target.identity}".encode()).hexdigest()
    device = DeviceDescription(
        id=digest[:DEVICE_ID_CHARS],
        name=f"{target.name}-emulated" if target.is_emulated else target.name,
        profile=profile.id,
        arch=target.arch,
        soc=target.soc,
        os="none",
    )
    surroundings = TargetSurroundings(target)
    return SeatPlan(name, device, profile, surroundings, state, Wiring(meters=meters))


class TargetSource:
    """Targets at the ports of this machine; implements `SeatSource`.

    The driver is loaded when a serial port on USB appears, so an agent without boards does not need
    the driver.
    """

    period_s = 1.0
    """Listing the ports takes about a millisecond."""

    def __init__(
        self,
        named: Sequence[str],
        state: Path,
        *,
        is_probing: bool,
        meters: Sequence[str] = (),
        terminals: Path = _TERMINALS,
    ) -> None:
        """Check the addresses; no port is opened yet.

        Args:
            named: Addresses of targets, as `TargetDriver.ports` takes them.
            state: Directory of the agent's state.
            is_probing: Whether to open ports that are not in `named` but may have a target.
            meters: Meters of the agent. A meter with its own wires may be wired to a target. If the
                recording of such a meter lacks the target's pulses, the result of the run has no
                energy values.
            terminals: Directory in which the system lists its serial ports.

        Raises:
            UsageError: an address is invalid.
            TargetDriverMissing: an address is named, and no driver is installed.
        """
        self._memory = state / MEMORY_FILE
        self._is_probing = is_probing
        self._meters = _external(meters)
        self._terminals = terminals
        self._is_missing = False
        self._ports: TargetPorts | None = None
        if named:
            self._ports = find_driver().ports(named, self._memory, is_probing=is_probing)

    async def offers(self) -> Sequence[SeatOffer]:
        """An offer for each target, and for each port that cannot be used."""
        return await asyncio.to_thread(self._look)

    def _look(self) -> list[SeatOffer]:
        if self._ports is None:
            if self._is_missing or not self._has_usb_terminal():
                return []
            try:
                self._ports = find_driver().ports([], self._memory, is_probing=self._is_probing)
            except TargetDriverMissing:
                self._is_missing = True
                return []
        return [
            SeatOffer(
                board.target.identity,
                board.target.name,
                partial(self._open, board.target) if board.error is None else None,
                None if board.error is None else _with_advice(board.error),
            )
            for board in self._ports.look()
        ]

    def _open(self, target: TargetDescription, name: str, state: Path) -> SeatPlan:
        return target_seat(name, target, state, self._meters)

    def _has_usb_terminal(self) -> bool:
        try:
            return any(entry.name.startswith(_USB_TERMINALS) for entry in self._terminals.iterdir())
        except OSError:  # some containers lack this folder
            return False


def _external(meters: Sequence[str]) -> tuple[str, ...]:
    """Meters that can measure a device other than the machine to which they are connected."""
    if not meters:
        return ()
    # Imported here because an idle agent needs no drivers.
    from edgebench.meters.registry import is_external

    return tuple(meter for meter in meters if is_external(meter))


def _with_advice(error: EdgebenchError) -> EdgebenchError:
    if isinstance(error, NotPermitted):
        return TargetError(
            f"{error}; join the port's group (sudo usermod -aG dialout $USER), then log in again"
        )
    return error
