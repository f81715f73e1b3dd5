"""Cards are copied, moved and swapped at random, and a host measures by name: run by hand.

    python tests/system/copied_cards.py [--changes 100] [--seed 1] [--measure]

A change, drawn from the seed: a card with a new system; a copy of a card (one in three as an older
version made it, which did not record hardware); a board that is switched on or off; two cards that
are swapped; a copy of a container next to the first, or a container with a system of its own; a
network card that is replaced, or a dongle that is moved to another board. After each, the host
pairs what is new (three times out of four), lists all devices and connects to each by its name;
with `--measure`, it also makes a short run there. That the board is the one of the name is read
from the name that each agent was started with, which is the board's; so is that of each stored run.

Prints how often the right board was reached, how often the host refused, and each time that a
wrong one was; the script ends with 1 if there was any. tests/loopback/test_copied_cards.py is the
short form.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from unittest.mock import patch

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from support.agents import Host
from support.copied_cards import Board, CardFarm, Evidence, Tally, connect_by_name

from edgebench.host.devices.discovery import find_devices
from edgebench.host.devices.files import HostFiles
from edgebench.host.store.index import list_runs
from edgebench.host.transports.local import LocalTransport
from edgebench.host.transports.tls import TlsTransport
from edgebench.protocol.errors import EdgebenchError, Unreachable, WrongBoard

BOARD_COUNT = 5
MODEL = "digits_int8.onnx"


def main() -> int:
    """Make the changes; 1 if a wrong board was ever measured."""
    parser = argparse.ArgumentParser(description="Copied cards, and a host that measures by name.")
    parser.add_argument("--changes", type=int, default=100, metavar="N")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--measure", action="store_true", help="make a run on each board")
    options = parser.parse_args()
    chance = random.Random(options.seed)
    with tempfile.TemporaryDirectory(prefix="edgebench-cards-") as name, ExitStack() as stack:
        folder = Path(name)
        host = Host(folder / "host")
        farm = CardFarm(folder, host, stack, is_bare=not options.measure)
        stack.enter_context(patch.object(TlsTransport, "discover", farm.announcements))
        # This machine's own agent takes longer to describe itself than all the boards.
        away = Unreachable("no agent here")
        stack.enter_context(patch.object(LocalTransport, "connect", side_effect=away))
        for number in range(BOARD_COUNT):
            farm.add_board(list(Evidence)[number % len(Evidence)])
        tally, number = Tally(), 0
        while number < options.changes:
            if (change := _change(farm, chance)) is None:
                continue
            number += 1
            paired = _pair_new(farm, chance)
            find_devices(HostFiles(host.config), timeout_s=0.1, state=folder / "none")
            before = tally.right
            connect_by_name(farm, tally, partial(_measure, host) if options.measure else None)
            reached = tally.right - before
            print(
                f"{number}: {change}; {paired} paired; {reached} reached, "
                f"{len(tally.wrong)} wrong so far",
                flush=True,
            )
        if options.measure:
            tally.wrong += _wrong_runs(host)
    print(f"right board {tally.right}, refused {tally.refused}, away {tally.away}")
    print(f"runs under a wrong device: {len(tally.wrong)} of {tally.right + len(tally.wrong)}")
    for line in tally.wrong:
        print(line)
    return 1 if tally.wrong else 0


def _change(farm: CardFarm, chance: random.Random) -> str | None:
    """Make one change; what it was, or None if it was not possible."""
    board, other = chance.sample(farm.boards, 2)
    here, there = (board.number, 0) in farm.on, (other.number, 0) in farm.on
    kind = chance.choice(
        ["new card", "copy", "copy", "copy", "off", "swap", "swap", "move", "container", "network"]
    )
    if kind == "new card" and not here:
        farm.switch_on(board, farm.new_card())
        return f"{board.name} has a new card"
    if kind == "copy" and here and not there:
        card = farm.switch_off(board)
        is_older = chance.random() < 1 / 3
        copy = farm.copy_of(card, is_older=is_older)
        farm.switch_on(other, copy)
        is_back = chance.random() < 0.5
        if is_back:
            farm.switch_on(board, card)
        made = "an older copy" if is_older else "a copy"
        return f"{other.name} has {made} of {board.name}'s card, {'both' if is_back else 'one'} on"
    if kind == "off" and here:
        farm.switch_off(board)
        return f"{board.name} is off"
    if kind == "swap" and here and there:
        cards = farm.switch_off(board), farm.switch_off(other)
        farm.switch_on(board, cards[1])
        farm.switch_on(other, cards[0])
        return f"the cards of {board.name} and {other.name} are swapped"
    if kind == "move" and here and not there:
        farm.switch_on(other, farm.switch_off(board))
        return f"the card of {board.name} is in {other.name}"
    if kind == "container" and here:
        return _container(farm, board, chance)
    if kind == "network" and here:
        return _network(farm, board, other, chance)
    return None


def _container(farm: CardFarm, board: Board, chance: random.Random) -> str:
    """Begin or end a second agent on a board."""
    if (board.number, 1) in farm.on:
        farm.switch_off(board, 1)
        return f"the container on {board.name} is off"
    if chance.random() < 0.5:
        farm.switch_on(board, farm.new_card(), 1)
        return f"{board.name} has a container"
    card = farm.switch_off(board)
    farm.switch_on(board, farm.copy_of(card), 1)
    farm.switch_on(board, card)
    return f"{board.name} has a container that is a copy"


def _network(farm: CardFarm, board: Board, other: Board, chance: random.Random) -> str:
    """Replace a network card of a board, or move a dongle between two."""
    card = farm.switch_off(board)
    if chance.random() < 0.5:
        board.dongle, other.dongle = other.dongle, board.dongle or 200 + board.number
        text = f"dongles of {board.name} and {other.name} are exchanged"
    else:
        del board.networks[0]
        farm.add_network(board)
        text = f"{board.name} has a new network card"
    farm.switch_on(board, card)
    return text


def _pair_new(farm: CardFarm, chance: random.Random) -> int:
    """Pair with most agents whose identity the host does not know; how many."""
    count, pins = 0, {device.pin for device in farm.known}
    for (number, slot), announced in zip(list(farm.on), farm.announcements(), strict=True):
        if announced.endpoint.pin in pins or chance.random() < 0.25:
            continue
        try:
            farm.pair(farm.boards[number], slot)
            count += 1
        except WrongBoard:
            continue
    return count


def _measure(host: Host, name: str) -> None:
    """Make a short run on a device; a run that fails does not count."""
    words = ("--on", name, "--runtime", "onnx", "--quick", "--runs", "1", "--duration", "0.2s")
    try:
        host.run("bench", MODEL, *words, "--no-check")
    except (EdgebenchError, AssertionError) as exc:
        print(f"no run on {name}: {exc}")


def _wrong_runs(host: Host) -> list[str]:
    """Stored runs whose device is another board than the one whose history they are in."""
    wrong, boards = list[str](), dict[str, str]()
    for row in list_runs(host.lab.store):
        run = host.lab.store.run(row.run_id)
        if boards.setdefault(run.device.id, run.device.name) != run.device.name:
            wrong.append(f"run {run.run_id} of {run.device.name} is {boards[run.device.id]}'s")
    return wrong


if __name__ == "__main__":
    sys.exit(main())
