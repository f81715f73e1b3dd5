"""What a check finds before it runs anything, and what is to blame for a failure."""

from __future__ import annotations

from dataclasses import replace
from typing import cast

import pytest
from support.records import DEVICE, ENVIRONMENT

from edgebench.host.bench.cancellation import Cancellation
from edgebench.host.bench.health_check import MIN_ROOM_BYTES, check_device, refused
from edgebench.host.client import Client
from edgebench.host.devices.health import CheckState
from edgebench.protocol import errors as e
from edgebench.protocol.device import RuntimeReport, SystemDescription
from edgebench.protocol.messages import SeatState

SYSTEM = SystemDescription(
    replace(DEVICE, profile="raspberrypi-5"),
    ENVIRONMENT,
    (RuntimeReport("litert", ("tflite",), reason="not installed"),),
    models_room_bytes=MIN_ROOM_BYTES,
)
SEAT = SeatState("machine", DEVICE, temp_c=41.0)


class Describing:
    """A client of a device with this description."""

    seat = "machine"

    def __init__(self, system: SystemDescription, seat: SeatState) -> None:
        self._system = system
        self._seat = seat

    def describe(self) -> SystemDescription:
        """Return the description of the system."""
        return self._system

    def seats(self) -> tuple[SeatState, ...]:
        """Return the state of the seat."""
        return (self._seat,)


@pytest.mark.parametrize(
    ("system", "seat", "error", "text"),
    [
        (SYSTEM, replace(SEAT, fault="no card in it"), e.TargetError, "no card in it"),
        (
            replace(SYSTEM, models_room_bytes=MIN_ROOM_BYTES - 1),
            SEAT,
            e.NoSpace,
            f"room for models is {MIN_ROOM_BYTES - 1:,} B, at least {MIN_ROOM_BYTES:,} B is needed",
        ),
        (
            SYSTEM,
            replace(SEAT, temp_c=88.0),
            e.TooHot,
            "idle temperature is 88.0 °C, and runs are aborted at 88",
        ),
        (SYSTEM, SEAT, e.RuntimeUnavailable, "litert: not installed"),
    ],
)
def test_device_that_can_measure_nothing_is_found_without_a_run(
    system: SystemDescription, seat: SeatState, error: type[Exception], text: str
) -> None:
    """Otherwise a check of a board with a full disk would end in mid-run, or find it healthy."""
    client = cast(Client, Describing(system, seat))
    with pytest.raises(error, match=text):
        check_device(client, "pi5", Cancellation())


@pytest.mark.parametrize(
    ("error", "state", "code", "is_of_device"),
    [
        (e.LeaseHeld("in use by ada"), CheckState.BUSY, None, False),
        (e.Unreachable("refused"), CheckState.UNWELL, "unreachable", True),
        (e.Unreachable("no route", is_offline=True), CheckState.UNWELL, "check_failed", False),
        (e.NotPaired("who are you"), CheckState.UNWELL, "check_failed", True),
        (e.StoreError("disk of this host"), CheckState.UNWELL, "check_failed", False),
        (e.NoSuchDevice("no seat"), CheckState.UNWELL, "check_failed", False),
        (e.RuntimeUnavailable("none"), CheckState.UNWELL, "check_failed", True),
    ],
)
def test_only_what_is_wrong_with_the_device_is_held_against_it(
    error: e.EdgebenchError, state: CheckState, code: str | None, is_of_device: bool
) -> None:
    """Otherwise a host without a network would take its whole farm out of service."""
    found = refused("pi5", error)
    assert (found.state, found.code, found.is_of_device) == (state, code, is_of_device)
    assert found.reason == str(error)
