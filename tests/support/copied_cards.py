"""Boards and SD cards that are copied, moved and swapped, and a host that measures on the boards.

A board is a tree of files that represents its hardware; a card is the directories of an agent with
its machine id. An agent is started with both: its card in its board, at an address of the board.
"""

from __future__ import annotations

import shutil
import socket
import subprocess
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path

from edgebench.agent.hardware import HARDWARE_FILE
from edgebench.host.devices.files import HostFiles, KnownDevice
from edgebench.host.transports.base import Announcement, Endpoint
from edgebench.protocol.errors import EdgebenchError, WrongAgent
from edgebench.protocol.identity import der_of, fingerprint
from support.agents import AgentProcess, Host
from support.trees import X86_VM, make_tree

_LAUNCHER = """
import sys
from pathlib import Path
from edgebench.agent import agent
agent.ROOT = Path(sys.argv.pop(1))
if sys.argv.pop(1) == "bare":
    from edgebench.agent.runtimes import registry
    registry.probe_all = lambda: ()
from edgebench.agent.entry import run
sys.exit(run())
"""
"""An agent that reads the hardware below another root, with no runtimes if it is bare: to probe
them takes longer than all else."""


class Evidence(str, Enum):
    """Identifying facts that a board exposes."""

    SERIAL = "serial"
    """A serial number in the device tree, and a network card."""
    MAINBOARD = "mainboard"
    """The UUID of the mainboard, as root reads it, and a network card."""
    NETWORK_CARDS = "network_cards"
    """Two network cards, and the serial number that its maker has left in."""


@dataclass
class Board:
    """A board."""

    number: int
    evidence: Evidence
    root: Path
    networks: list[int] = field(default_factory=list)
    """Numbers of its network cards."""
    dongle: int | None = None
    """Number of the network card that is plugged into USB."""

    @property
    def name(self) -> str:
        """Name that is written on it."""
        return f"b{self.number}"

    def address(self, slot: int = 0) -> str:
        """Address of a card in it; containers have several."""
        return f"127.0.{1 + slot}.{10 + self.number}"

    def build(self, machine_id: str) -> None:
        """Write the files, with the machine id of the inserted card."""
        shutil.rmtree(self.root, ignore_errors=True)
        make_tree(self.root, X86_VM, {"etc/machine-id": f"{machine_id}\n"})
        serial = {
            Evidence.SERIAL: ("proc/device-tree/serial-number", f"10000000{self.number:08x}\0"),
            Evidence.MAINBOARD: (
                "sys/class/dmi/id/product_uuid",
                f"4C4C4544-0042-3510-8052-{self.number:012X}\n",
            ),
            Evidence.NETWORK_CARDS: ("sys/class/dmi/id/board_serial", "Default string\n"),
        }
        make_tree(self.root, dict([serial[self.evidence]]))
        for number in self.networks:
            self._add_network(f"eth{number}", f"pci0000:00/0000:00:{number:02x}.0", number)
        if self.dongle is not None:
            self._add_network(f"enx{self.dongle}", "pci0000:00/0000:00:14.0/usb1/1-1", self.dongle)
        make_tree(self.root, {"sys/class/net/docker0/address": "02:42:ac:11:00:02\n"})
        make_tree(self.root, {"sys/class/net/docker0/addr_assign_type": "3\n"})

    def _add_network(self, name: str, device: str, number: int) -> None:
        folder = f"sys/devices/{device}/net/{name}"
        address = f"dc:a6:32:00:{number >> 8:02x}:{number & 255:02x}\n"
        make_tree(self.root, {f"{folder}/address": address, f"{folder}/addr_assign_type": "0\n"})
        (self.root / folder / "device").symlink_to("../..")
        networks = self.root / "sys/class/net"
        networks.mkdir(parents=True, exist_ok=True)
        (networks / name).symlink_to(self.root / folder)


@dataclass
class Card:
    """An SD card, or the volumes of a container."""

    folder: Path
    machine_id: str

    def copy_to(self, folder: Path, *, is_older: bool) -> Card:
        """A copy; a copy made by an older version knows of no hardware."""
        shutil.copytree(
            self.folder,
            folder,
            ignore=shutil.ignore_patterns("*.sock*", "agent.lock", "stderr.txt"),
        )
        if is_older:
            for path in (*folder.rglob(HARDWARE_FILE), *self.folder.rglob(HARDWARE_FILE)):
                path.unlink()
        return Card(folder, self.machine_id)


class CardAgent(AgentProcess):
    """An agent from a card in a board."""

    root: Path = Path("/")
    is_bare: bool = True
    can_fork = False

    def command(self, *words: str) -> list[str]:
        """A command line of the agent."""
        plain = super().command(*words)
        start = plain.index("-m")
        launcher = ["-c", _LAUNCHER, str(self.root), "bare" if self.is_bare else "whole"]
        return [*plain[:start], *launcher, *plain[start + 2 :]]

    def renew(self) -> tuple[int, str]:
        """Exit code and output of `edgebench-agent new-identity`."""
        command = self.command("new-identity")
        result = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        return result.returncode, result.stdout + result.stderr


class CardFarm:
    """The boards, the cards, what is on, and a host that is paired with some."""

    def __init__(self, folder: Path, host: Host, stack: ExitStack, *, is_bare: bool = True) -> None:
        self._folder = folder
        self._is_bare = is_bare
        with socket.create_server(("127.0.0.1", 0)) as free:
            self._port = free.getsockname()[1]  # the same on all boards, as the default is
        self.host = host
        self.boards: list[Board] = []
        self._card_count = 0
        self._network_count = 0
        self.on: dict[tuple[int, int], tuple[Card, CardAgent]] = {}
        """Cards and agents that are on, by the number of their board and slot."""
        stack.callback(self._switch_all_off)

    def _switch_all_off(self) -> None:
        for _, agent in self.on.values():
            agent.kill()

    def add_board(self, evidence: Evidence) -> Board:
        """Another board, without a card."""
        number = len(self.boards)
        board = Board(number, evidence, self._folder / f"board{number}")
        self.add_network(board)
        if evidence is Evidence.NETWORK_CARDS:
            self.add_network(board)
        self.boards.append(board)
        return board

    def add_network(self, board: Board) -> None:
        """Insert a new network card."""
        self._network_count += 1
        board.networks.append(self._network_count)

    def new_card(self) -> Card:
        """A card with a new system."""
        self._card_count += 1
        return Card(self._folder / f"card{self._card_count}", f"{self._card_count:032x}")

    def copy_of(self, card: Card, *, is_older: bool = False) -> Card:
        """A copy of a card, which is off."""
        self._card_count += 1
        return card.copy_to(self._folder / f"card{self._card_count}", is_older=is_older)

    def switch_on(self, board: Board, card: Card, slot: int = 0) -> CardAgent:
        """Start the agent of a card in a board."""
        board.build(card.machine_id)
        listen = f"{board.address(slot)}:{self._port}"
        agent = CardAgent(card.folder, options=["--name", board.name], listen=listen)
        agent.root, agent.is_bare = board.root, self._is_bare
        try:
            agent.start()
        except AssertionError:
            agent.kill()
            raise
        self.on[board.number, slot] = card, agent
        return agent

    def switch_off(self, board: Board, slot: int = 0) -> Card:
        """Stop the agent in a board; its card."""
        card, agent = self.on.pop((board.number, slot))
        agent.stop()
        return card

    def pair(self, board: Board, slot: int = 0) -> KnownDevice:
        """Pair the host with the running agent in a board."""
        agent = self.on[board.number, slot][1]
        text = agent.pairing_string().replace("127.0.0.1", board.address(slot))
        return self.host.lab.pair(text)

    def announcements(self, *_: object) -> list[Announcement]:
        """Announcements of the agents that are on."""
        made = []
        for (number, slot), (card, agent) in self.on.items():
            identity = (card.folder / "config" / "identity.pem").read_text()
            address, pin = self.boards[number].address(slot), fingerprint(der_of(identity))
            endpoint = Endpoint(self.boards[number].name, pin, (address,), agent.port)
            made.append(Announcement("", endpoint, "pair"))
        return made

    @property
    def known(self) -> tuple[KnownDevice, ...]:
        """Devices that the host is paired with."""
        return HostFiles(self.host.config).devices()


@dataclass
class Tally:
    """Counts of the host's connections by name."""

    right: int = 0
    refused: int = 0
    """Refused as another board's, or because several have the identity."""
    away: int = 0
    """Not reached at all."""
    wrong: list[str] = field(default_factory=list)
    """Names under which another board was measured."""
    boards: dict[str, str] = field(default_factory=dict)
    """Board of each device id that was seen."""


def connect_by_name(farm: CardFarm, tally: Tally, measure: Callable[[str], None] | None) -> None:
    """Connect to each known device; measure where it is the board with that name."""
    for device in farm.known:
        try:
            with farm.host.lab.connect(device.name) as client:
                board, device_id = client.device.name, client.device.id
        except WrongAgent:
            tally.refused += 1
            continue
        except EdgebenchError:
            tally.away += 1
            continue
        if board != device.name.partition("-")[0]:
            tally.wrong.append(f"{device.name} was {board}")
        elif tally.boards.setdefault(device_id, board) != board:
            tally.wrong.append(f"{board} has the device id of {tally.boards[device_id]}")
        else:
            tally.right += 1
            if measure is not None:
                measure(device.name)
