"""An account on a device: what `on_device.py` does there, as typed calls from here."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeVar

from edgebench.host.devices import on_device
from edgebench.host.devices.on_device import ANSWER_MARK, Facts, Outcome, Removed
from edgebench.host.devices.shell import Output, Shell, printable
from edgebench.protocol.codec import from_plain
from edgebench.protocol.errors import NoSpace, PythonMissing, TargetError

OLDEST_PYTHON = (3, 10)
CANDIDATES = ("python3", "python3.13", "python3.12", "python3.11", "python3.10")
STEP_TIMEOUT_S = 120.0
INSTALL_TIMEOUT_S = on_device.INSTALL_TIMEOUT_S + 60.0
# For any Python since 2.7, so that an old one can say what it is.
_WHO = (
    "import platform as p; print(' '.join(['edgebench-python', p.python_implementation(), "
    "p.system(), p.python_version()]))"
)
_T = TypeVar("_T")


class Account:
    """Runs our script with the device's Python."""

    def __init__(self, shell: Shell, python: str) -> None:
        self.shell = shell
        self._python = python
        self._script = Path(on_device.__file__).read_bytes()

    def look(self) -> Facts:
        """What there is."""
        return self._ask(Facts, "look", "looking around")

    def make_room(self, keep: Sequence[str]) -> None:
        """Make the directories, and remove the wheels that are not named."""
        self._ask(Outcome, "make_room", "making directories", keep=list(keep))

    def renew(self) -> None:
        """Make the virtual environment, empty.

        Raises:
            TargetError: this Python cannot make one.
        """
        done = self._ask(Outcome, "renew", "making a virtual environment")
        if done.error:
            raise TargetError(f"no virtual environment on {self.shell.target}: {done.error}")

    def install(self, words: Sequence[str], *, is_offline: bool) -> Outcome:
        """Run `pip install` with these words; its error is an answer, not an exception."""
        return self._ask(
            Outcome, "install", "installing", INSTALL_TIMEOUT_S,
            words=list(words), is_offline=is_offline,
        )  # fmt: skip

    def start(
        self, words: Sequence[str], *, meters: Sequence[str] = (), sync_line: str | None = None
    ) -> Outcome:
        """Start the agent; why it does not start is an answer, not an exception."""
        return self._ask(
            Outcome, "start", "starting the agent",
            words=list(words), meters=list(meters), sync_line=sync_line,
        )  # fmt: skip

    def stop(self) -> None:
        """Stop the agent, if ours is running.

        Raises:
            TargetError: it does not stop.
        """
        if error := self._ask(Outcome, "stop", "stopping the agent").error:
            raise TargetError(f"{error} on {self.shell.target}")

    def remove(self) -> Removed:
        """Remove everything that was deployed."""
        return self._ask(Removed, "remove", "removing the agent")

    def _ask(
        self,
        shape: type[_T],
        verb: str,
        what: str,
        timeout_s: float = STEP_TIMEOUT_S,
        **arguments: object,
    ) -> _T:
        request = json.dumps({"verb": verb, **arguments})
        output = self.shell.run(
            [self._python, "-I", "-", request],
            what=what,
            timeout_s=timeout_s,
            stdin=self._script,
        )
        lines = [line for line in output.text.splitlines() if line.startswith(ANSWER_MARK)]
        if not lines:
            raise TargetError(f"{what} on {self.shell.target} failed: {_last_line(output)}")
        plain = _printable(json.loads(lines[-1].removeprefix(ANSWER_MARK)))
        if "problem" in plain:
            kind = NoSpace if plain["is_full"] else TargetError
            raise kind(f"{what} on {self.shell.target} failed: {plain['problem']}")
        return from_plain(plain, shape)


def open_account(shell: Shell, python: str | None = None) -> Account:
    """The account, with the first Python there that is new enough, or with this one.

    Raises:
        PythonMissing: there is none.
        TargetError: the device does not run Linux.
    """
    seen = []
    for name in (python,) if python else CANDIDATES:
        output = shell.run([name, "-c", _WHO], what="looking for Python", timeout_s=STEP_TIMEOUT_S)
        words = next(
            (line.split() for line in output.text.splitlines() if "edgebench-python " in line), []
        )
        if len(words) != 4:
            continue
        _, implementation, system, version = words
        if system != "Linux":
            raise TargetError(f"{shell.target} runs {system}; the agent runs on Linux only")
        if implementation == "CPython" and _parsed(version) >= OLDEST_PYTHON:
            return Account(shell, name)
        seen.append(f"{name} is {implementation} {version}")
    oldest = ".".join(map(str, OLDEST_PYTHON))
    found = "; ".join(seen) or f"not found: {python or ', '.join(CANDIDATES)}"
    raise PythonMissing(f"no Python {oldest} or newer on {shell.target}: {found}")


def _printable(plain: Any) -> Any:
    """JSON may spell out what the text that carried it may not contain."""
    if isinstance(plain, str):
        return printable(plain).replace("\n", " ")
    if isinstance(plain, list):
        return [_printable(value) for value in plain]
    if isinstance(plain, dict):
        return {str(key): _printable(value) for key, value in plain.items()}
    return plain


def _parsed(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split(".")[:2] if part.isdigit())


def _last_line(output: Output) -> str:
    lines = [line.strip() for line in output.text.splitlines() if line.strip()]
    return lines[-1][:400] if lines else f"status {output.code}, no output"
