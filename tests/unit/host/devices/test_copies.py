"""Agents with the same identity: a name means one board, and never another."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import cast

import pytest
from support.records import DEVICE, ENVIRONMENT

from edgebench.host.devices import discovery
from edgebench.host.devices.discovery import Access, DiscoveredDevice, find_devices, open_device
from edgebench.host.devices.files import HostFiles, KnownDevice
from edgebench.host.options.command import CommandLine
from edgebench.host.show.hints import hint_for
from edgebench.host.transports.base import Announcement, Endpoint, Transport
from edgebench.host.transports.link import Link
from edgebench.protocol import messages as m
from edgebench.protocol.codec import decode, encode
from edgebench.protocol.device import SystemDescription
from edgebench.protocol.errors import Unreachable, WrongBoard
from edgebench.protocol.hardware import Hardware

BOARD, OTHER = Hardware("5a", ("01", "02")), Hardware("5b", ("03",))
PIN = "p" * 43
PI = KnownDevice("pi", "05", PIN, ("10.0.0.1",), 7747, via="wire", hardware=BOARD)


@dataclass
class Agent:
    """An agent with the pinned identity."""

    address: str
    hardware: Hardware = BOARD
    instance: str = ""
    board: str = ""
    """Board, as older versions named it."""
    is_announced: bool = True
    port: int = 7747

    def link(self) -> Link:
        """A connection to the agent."""
        return cast(Link, AgentLink(self))


@dataclass
class AgentLink:
    """A connection that replies as the agent does."""

    agent: Agent
    replies: list[bytes] = field(default_factory=list)

    def send(self, frame: bytes) -> None:
        """Process a request, and keep the reply to it."""
        request, agent = decode(frame), self.agent
        device = replace(DEVICE, name=f"at {agent.address}")
        reply: m.Message = m.Welcome(
            m.PROTOCOL_VERSION, "", device, "", agent.board, agent.hardware, agent.instance
        )
        if isinstance(request.message, m.Describe):
            reply = m.Described(SystemDescription(device, ENVIRONMENT, ()))
        elif isinstance(request.message, m.SeatList):
            reply = m.Seats((m.SeatState("machine", device),))
        self.replies.append(encode(request.number, reply))

    def receive(self, _: float | None) -> bytes:
        """The next reply."""
        return self.replies.pop(0)

    def close(self) -> None:
        """Close nothing."""


@dataclass
class Wire:
    """The only transport: the agents that are on."""

    agents: list[Agent] = field(default_factory=list)
    name: str = "wire"
    asked: list[str] = field(default_factory=list)

    def connect(self, endpoint: Endpoint) -> Link:
        """Connect to the agent at the first address that has an agent."""
        self.asked.append(endpoint.address)
        for agent in self.agents:
            if (agent.address, agent.port) in ((at, endpoint.port) for at in endpoint.addresses):
                return agent.link()
        raise Unreachable(f"nobody at {endpoint.address}")

    def discover(self, timeout_s: float) -> list[Announcement]:
        """Agents that announce themselves."""
        return [
            Announcement("", Endpoint("pi", PIN, (agent.address,), agent.port), "pair")
            for agent in self.agents
            if agent.is_announced
        ]


@pytest.fixture
def wire(monkeypatch: pytest.MonkeyPatch) -> Wire:
    """A transport on which no agent is on."""
    made = Wire()
    every: dict[str, Transport] = {made.name: made}
    monkeypatch.setattr(discovery, "transports", lambda *_, **__: every)
    return made


@pytest.fixture
def files(tmp_path: Path) -> HostFiles:
    """A host that is paired with one device."""
    made = HostFiles(tmp_path)
    made.remember(PI)
    return made


def listed(files: HostFiles) -> list[DiscoveredDevice]:
    """Lines of the list of devices, without that of this machine."""
    return find_devices(files, timeout_s=0.0)[1:]


def test_other_board_with_the_identity_is_refused(files: HostFiles, wire: Wire) -> None:
    """Otherwise results of a copy would go to the history of the board that is off."""
    wire.agents = [Agent("10.0.0.2", OTHER, "b")]
    with pytest.raises(WrongBoard) as caught:
        open_device(files, "pi", timeout_s=0.0)
    assert str(caught.value) == (
        "agent at 10.0.0.2:7747 has the identity of pi, but runs on another board: the serial "
        "number differs from that at pairing"
    )
    assert "edgebench-agent new-identity" in hint_for(caught.value, CommandLine(command="bench"))
    assert files.devices() == (PI,), "nothing of it is remembered"
    [line] = listed(files)
    assert (line.address, line.access) == ("10.0.0.2:7747", Access.COPIED)


def test_board_is_found_where_a_copy_has_taken_its_address(files: HostFiles, wire: Wire) -> None:
    """Otherwise two boards that exchange their addresses would exchange their results."""
    wire.agents = [Agent("10.0.0.1", OTHER, "b"), Agent("10.0.0.9", BOARD, "a")]
    with open_device(files, "pi", timeout_s=0.0) as client:
        assert client.device.name == "at 10.0.0.9"
    assert files.devices()[0].addresses == ("10.0.0.9",)
    wire.agents = [Agent("10.0.0.9", OTHER, "b")]
    with pytest.raises(WrongBoard):
        open_device(files, "pi", timeout_s=0.0)


def test_board_and_its_copy_have_a_line_each(files: HostFiles, wire: Wire) -> None:
    """Otherwise a copy would not be noticed for as long as the board is on."""
    wire.agents = [Agent("10.0.0.1", BOARD, "a"), Agent("10.0.0.2", OTHER, "b")]
    lines = {line.address: (line.access, line.reason) for line in listed(files)}
    assert lines["10.0.0.1:7747"] == (Access.READY, "")
    assert lines["10.0.0.2:7747"][0] is Access.COPIED
    with open_device(files, "pi", timeout_s=0.0) as client:
        assert client.device.name == "at 10.0.0.1"


@pytest.mark.parametrize("hardware", [BOARD, Hardware()], ids=["containers", "nothing known"])
def test_agents_that_nothing_tells_apart_are_refused(
    files: HostFiles, wire: Wire, hardware: Hardware
) -> None:
    """Otherwise chance would decide which of them is measured."""
    files.revise(PIN, lambda known: replace(known, hardware=hardware))
    wire.agents = [Agent(f"10.0.0.{n}", hardware, f"agent {n}") for n in (1, 2)]
    for line in listed(files):
        assert (line.name, line.access) == ("pi", Access.COPIED)
        assert line.reason == "2 agents have the identity of pi: at 10.0.0.1:7747, 10.0.0.2:7747"
    with pytest.raises(WrongBoard, match="2 agents have the identity of pi"):
        open_device(files, "pi", timeout_s=0.0)
    with pytest.raises(WrongBoard):
        open_device(files, "pi/seat", timeout_s=0.0)
    # One agent is off: where nothing shows which of them it was, neither is meant.
    del wire.agents[0]
    [line] = listed(files)
    if hardware == BOARD:
        assert line.access is Access.READY, "it is the same board"
        open_device(files, "pi", timeout_s=0.0).close()
    else:
        assert line.access is Access.COPIED
        with pytest.raises(WrongBoard):
            open_device(files, "pi", timeout_s=0.0)


@pytest.mark.parametrize(
    "agents",
    [
        [Agent("10.0.0.1", instance="a"), Agent("10.0.0.5", instance="a")],
        [Agent("10.0.0.1"), Agent("10.0.0.5", Hardware())],
        [Agent("10.0.0.5", instance="a")],
        [Agent("10.0.0.1", instance="a", is_announced=False)],
    ],
    ids=["several addresses", "older agent", "moved", "not announced"],
)
def test_agent_is_not_taken_for_a_copy_of_itself(
    files: HostFiles, wire: Wire, agents: list[Agent]
) -> None:
    """Otherwise a board with two networks, or an older version, would become unusable."""
    wire.agents = agents
    assert [line.access for line in listed(files)] == [Access.READY]
    open_device(files, "pi", timeout_s=0.0).close()


def test_hardware_is_learnt_and_kept(files: HostFiles, wire: Wire) -> None:
    """Otherwise a device that an older version paired could never be told from its copy."""
    files.revise(PIN, lambda known: replace(known, hardware=Hardware()))
    for shown, known in (
        (Hardware("", ("01",)), Hardware("", ("01",))),
        (BOARD, BOARD),
        (Hardware("", ("02", "09")), Hardware("5a", ("02", "09"))),
        (Hardware("5a", ("77",)), Hardware("5a", ("77",))),
        (Hardware(), Hardware("5a", ("77",))),
    ):
        wire.agents = [Agent("10.0.0.1", shown, "a")]
        open_device(files, "pi", timeout_s=0.0).close()
        assert files.devices()[0].hardware == known


@pytest.mark.parametrize(("board", "is_refused"), [("5a", False), ("5b", True), ("", False)])
def test_board_that_older_agents_name_counts(
    files: HostFiles, wire: Wire, board: str, is_refused: bool
) -> None:
    """Otherwise agents that do not report their hardware yet would be measured as each other."""
    files.revise(PIN, lambda known: replace(known, hardware=Hardware(), board="5a"))
    wire.agents = [Agent("10.0.0.1", Hardware(), board=board)]
    if is_refused:
        with pytest.raises(WrongBoard):
            open_device(files, "pi", timeout_s=0.0)
    else:
        open_device(files, "pi", timeout_s=0.0).close()
