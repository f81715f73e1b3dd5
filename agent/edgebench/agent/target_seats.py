"""Seats of targets, which time themselves."""

from __future__ import annotations

import hashlib
from pathlib import Path

from edgebench.agent.files import make_private_directory
from edgebench.agent.seat import SeatPlan
from edgebench.agent.surroundings import TargetSurroundings
from edgebench.device_profiles.load import find_profile
from edgebench.meters.wiring import Wiring
from edgebench.protocol.device import DeviceDescription
from edgebench.protocol.target import TargetPlace

GENERIC_PROFILE = "generic-mcu"
DEVICE_ID_CHARS = 16
"""Length of a device id, as that of a machine."""


def target_seat(name: str, place: TargetPlace, state: Path) -> SeatPlan:
    """The seat of a target, with its state in this directory."""
    make_private_directory(state)
    profile = find_profile(place.profile) or find_profile(GENERIC_PROFILE)
    assert profile is not None
    digest = hashlib.sha256(f"edgebench target {place.identity}".encode()).hexdigest()
    device = DeviceDescription(
        id=digest[:DEVICE_ID_CHARS],
        name=f"{place.name}-emulated" if place.is_emulated else place.name,
        profile=profile.id,
        arch=place.arch,
        soc=place.soc,
        os="none",
    )
    surroundings = TargetSurroundings(place)
    return SeatPlan(name, device, profile, surroundings, state, Wiring())
