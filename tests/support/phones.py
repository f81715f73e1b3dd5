"""A made-up phone on which an agent runs: files and commands are the board's, processes real."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from support.agents import AgentProcess
from support.boards import BOARDS, make_board
from support.boards._parts import Part
from support.copied_cards import CardAgent
from support.emulated_clock import EmulatedClock
from support.trees import make_tree

BOARD = "android_8"


class Phone:
    """A root with a phone's files, and an agent in it."""

    def __init__(self, folder: Path, *parts: Part) -> None:
        board = BOARDS[BOARD]
        # The kernel's own account of processes is real.
        files = {name: text for name, text in board.files.items() if not name.startswith("proc/")}
        self.root = make_board(folder / "phone", replace(board, files=files))
        (self.root / "proc").symlink_to("/proc")
        self.show(*parts)
        self.clock = EmulatedClock(folder)
        self.data = folder / "data"
        agent = CardAgent(
            folder / "agent",
            options=["--meter", self.meter],
            environment={
                **self.clock.environment,
                "XDG_DATA_HOME": str(self.data),
            },
        )
        agent.root, agent.is_bare = self.root, False
        self.agent: AgentProcess = agent.start()

    @property
    def meter(self) -> str:
        """Its own battery, as the agent serves it."""
        return f"battery,discharge,root={self.root}"

    def show(self, *parts: Part) -> None:
        """Change files, each in one step: a reader finds the old one or the new one."""
        for part in parts:
            for name, content in part.items():
                path = self.root / name
                new = path.with_name(f"{path.name}.new")
                make_tree(self.root, {str(new.relative_to(self.root)): content})
                new.rename(path)

    def status_of_battery(self, status: str) -> None:
        """Change the kernel's word on the battery, in the file that is open."""
        with (self.root / "sys/class/power_supply/battery/status").open("r+") as file:
            file.write(f"{status}\n")
            file.truncate()
