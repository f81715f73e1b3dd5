"""Commands of a guide, carried out in order by a real shell, as a reader would.

Where a page names something that only its reader has, as a port or a file, `stands_for` names what
stands in its place here. What cannot be carried out has a reason in the test.
"""

from __future__ import annotations

import os
import re
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from support.agents import Host

ROOT = Path(__file__).resolve().parents[2]
SHORT = {
    "--duration": "0.3s",
    "--min-queries": "50",
    "--warmup": "2",
    "--runs": "1",
    "--cooldown": "0s",
    "--idle": "0.5s",
}
"""Settings of a run that its page leaves open."""
ENDS_S = 120.0
PAIRING = "'edgebench://…'"
"""Place of the string that the command before has printed."""


def shell_commands(page: Path) -> Iterator[str]:
    """Lines of the blocks that a reader types, without comments."""
    blocks = re.findall(r"^```(\w*)\n(.*?)^```", page.read_text(), re.DOTALL | re.MULTILINE)
    for block in (text for language, text in blocks if not language):
        for line in re.sub(r"\\\n\s*", "", block).splitlines():
            if command := re.sub(r"(^|\s)#.*", "", line).strip():
                yield command


def shortened(command: str) -> str:
    """The command with the shortest run that it allows."""
    if not command.startswith("edgebench bench") or "qemu:" in command:
        return command
    words = command.split()
    is_one_run = "--against" in words or "--sustained" in words
    added = [
        f"{name} {value}"
        for name, value in SHORT.items()
        if name not in words
        and not (name == "--runs" and is_one_run)
        and not (name == "--idle" and "--meter" not in words)
        and not (name == "--duration" and "--sustained" in words)
    ]
    return " ".join([command, *added])


@dataclass
class Reader:
    """Somebody with a terminal, an empty home and edgebench on the path."""

    host: Host
    folder: Path
    stands_for: Mapping[str, str] = field(default_factory=dict[str, str])
    variables: dict[str, str] = field(default_factory=dict[str, str])
    """More variables of the terminal."""
    last_output: str = ""
    done: list[str] = field(default_factory=list[str])

    @property
    def environment(self) -> dict[str, str]:
        """Variables of the terminal."""
        own = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
        kept = {name: value for name, value in os.environ.items() if "EDGEBENCH" not in name}
        return kept | self.host.environment | {"PATH": own} | self.variables

    def written(self, command: str) -> str:
        """What is typed here for a command of the page."""
        for there, here in self.stands_for.items():
            command = command.replace(there, here)
        found = re.search(r"edgebench://\S+", self.last_output)
        if PAIRING in command and found:
            command = command.replace(PAIRING, f"'{found[0]}'")
        return shortened(command)

    def type(self, command: str, codes: tuple[int, ...]) -> str:
        """Carry out a command to its end; what it printed."""
        said = subprocess.run(
            ["bash", "-c", self.written(command)],
            cwd=self.folder,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=ENDS_S,
            check=False,
        )
        assert said.returncode in codes, f"{command}: {said.returncode}\n{said.stdout}{said.stderr}"
        assert "Traceback" not in said.stderr
        self.last_output = said.stdout
        self.done.append(command)
        return said.stdout

    @contextmanager
    def left_running(self, command: str, until: str) -> Iterator[None]:
        """A command that the page leaves running; Ctrl-C ends it."""
        process = subprocess.Popen(
            ["bash", "-c", f"exec {self.written(command)}"],
            cwd=self.folder,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
        try:
            self._await(process, until)
            self.done.append(command)
            yield
        finally:
            process.send_signal(signal.SIGINT)
            process.communicate(timeout=60)
        assert process.returncode in (0, 130), command

    @staticmethod
    def _await(process: subprocess.Popen[bytes], until: str) -> None:
        assert process.stdout is not None
        deadline_s, said = time.monotonic() + ENDS_S, ""
        while until not in said:
            left_s = max(0.0, deadline_s - time.monotonic())
            readable, _, _ = select.select([process.stdout], [], [], left_s)
            piece = os.read(process.stdout.fileno(), 1 << 16) if readable else b""
            assert piece, f"{until!r} was not said: {said}"
            said += piece.decode(errors="replace")
