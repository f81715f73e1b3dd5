"""Device profiles of the boards that the firmware runs on."""

from __future__ import annotations

import pytest

from edgebench.device_profiles.load import find_profile
from edgebench.firmware_bridge.flashing import FLASH_RECIPES
from edgebench.firmware_bridge.generate import BOARD_MEMORY
from edgebench.firmware_bridge.transports.qemu import QEMU_MACHINES

PROFILES = {name: f"qemu-{name}" for name in QEMU_MACHINES} | {
    name: name for name in BOARD_MEMORY if name not in QEMU_MACHINES and name != "posix"
}


@pytest.mark.parametrize("board", PROFILES)
def test_board_has_a_profile_of_its_own(board: str) -> None:
    """Otherwise a run on it would report an unknown microcontroller."""
    profile = find_profile(PROFILES[board])
    assert profile is not None
    assert profile.device_class == ("emulator" if board in QEMU_MACHINES else "mcu")
    assert profile.soc is not None
    if board in QEMU_MACHINES:
        (cluster,) = profile.soc.cluster
        assert QEMU_MACHINES[board].cpu.lower() == (cluster.core or "").removesuffix("f")


def test_every_real_board_can_be_flashed() -> None:
    """Otherwise a user would have the firmware, and no way to put it onto the board."""
    real = {name for name in BOARD_MEMORY if name not in QEMU_MACHINES and name != "posix"}
    assert real == set(FLASH_RECIPES)
