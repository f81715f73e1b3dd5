"""Boards that are made by copying cards: a name means one board, whatever is copied and moved.

Each test is one way of copying; tests/system/copied_cards.py has many at random.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import NoReturn

import pytest
from support.agents import Host
from support.copied_cards import CardFarm, Evidence

from edgebench.host.devices.discovery import Access, DiscoveredDevice, find_devices
from edgebench.host.devices.files import HostFiles
from edgebench.host.options.command import CommandLine
from edgebench.host.show.hints import hint_for
from edgebench.host.transports.local import LocalTransport
from edgebench.host.transports.tls import TlsTransport
from edgebench.protocol.errors import Unreachable, WrongAgent, WrongBoard


def away(*_: object) -> NoReturn:
    """This machine has no agent."""
    raise Unreachable("no agent here")


@pytest.fixture
def farm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[CardFarm]:
    """No boards yet; boards that are on are announced."""
    with ExitStack() as stack:
        made = CardFarm(tmp_path, Host(tmp_path / "host"), stack)
        monkeypatch.setattr(TlsTransport, "discover", made.announcements)
        # This machine's own agent takes longer to describe itself than all the boards.
        monkeypatch.setattr(LocalTransport, "connect", away)
        yield made


def listed(farm: CardFarm) -> list[DiscoveredDevice]:
    """Lines of the list of devices, without that of this machine."""
    files = HostFiles(farm.host.config)
    lines = find_devices(files, timeout_s=0.1, state=farm.host.folder / "agent")
    return [line for line in lines if line.name != "local"]


def board_of(farm: CardFarm, name: str) -> tuple[str, str]:
    """Name of the board that is measured under this name, and id of the device."""
    with farm.host.lab.connect(name) as client:
        return client.device.name, client.device.id


def test_copy_of_a_card_is_a_device_of_its_own(farm: CardFarm) -> None:
    """Otherwise the results of two boards would be stored as those of one."""
    first, second = (farm.add_board(Evidence.NETWORK_CARDS) for _ in range(2))
    farm.switch_on(first, farm.new_card())
    farm.pair(first)
    one = board_of(farm, "b0")
    card = farm.switch_off(first)
    copy = farm.copy_of(card)
    agent = farm.switch_on(second, copy)
    assert "new identity: the old identity was created on another board" in agent.errors()
    assert "edgebench-agent pair" in agent.errors()
    assert agent.status().paired_hosts == ()
    with pytest.raises(Unreachable):
        board_of(farm, "b0")
    farm.pair(second)
    other = board_of(farm, "b1")
    assert (one[0], other[0]) == ("b0", "b1")
    assert one[1] != other[1]
    # The cards are swapped: the board is a new device, and no name means another board.
    farm.switch_off(second)
    farm.switch_on(second, card)
    with pytest.raises(WrongAgent, match="is not the paired agent"):
        board_of(farm, "b1")
    with pytest.raises(Unreachable):
        board_of(farm, "b0")


def test_copy_that_older_versions_made_is_refused_by_name(farm: CardFarm) -> None:
    """Otherwise, while a board is off, its name would silently mean the other."""
    first, second = farm.add_board(Evidence.SERIAL), farm.add_board(Evidence.SERIAL)
    farm.switch_on(first, farm.new_card())
    farm.pair(first)
    card = farm.switch_off(first)
    copy = farm.copy_of(card, is_older=True)
    farm.switch_on(second, copy)
    with pytest.raises(
        WrongBoard,
        match="but runs on another board: the serial number differs from that at pairing",
    ):
        board_of(farm, "b0")
    [line] = listed(farm)
    assert (line.name, line.access) == ("b0", Access.COPIED)
    assert "on another board" in line.reason
    # Both on: each has its line, and the name means the board to which it was given.
    farm.switch_on(first, card)
    assert [line.access for line in listed(farm)] == [Access.READY, Access.COPIED]
    assert board_of(farm, "b0")[0] == "b0"
    with pytest.raises(WrongBoard) as caught:
        farm.pair(second)
    assert "edgebench-agent new-identity" in hint_for(caught.value, CommandLine(command="pair"))
    # The remedy of the hint is applied.
    renewed = farm.on[1, 0][1]
    code, output = renewed.renew()
    assert code == 1
    assert f"hint: stop it: kill {renewed.pid}; then: edgebench-agent new-identity" in output
    farm.switch_off(second)
    assert renewed.renew()[0] == 0
    farm.switch_on(second, copy)
    assert farm.pair(second).name == "b1"
    assert [line.access for line in listed(farm)] == [Access.READY, Access.READY]
