"""An account on a device; its typed methods run the steps of `on_device.py` in the account."""

from __future__ import annotations

import json
import re
import secrets
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any, TypeVar

from edgebench.host.devices import on_device
from edgebench.host.devices.on_device import (
    ANSWER_MARK,
    FAILURE_MARK,
    DeviceFacts,
    StepFailure,
    StepReport,
    UninstallReport,
    WheelFile,
)
from edgebench.host.devices.shell import Shell
from edgebench.host.this_host import host_name
from edgebench.protocol.errors import (
    DeployRunning,
    EdgebenchError,
    NoSpace,
    PythonMissing,
    RemoteProtocolError,
    TargetError,
)
from edgebench.protocol.plain import from_plain
from edgebench.protocol.text import one_line, printable

OLDEST_PYTHON = (3, 10)
CANDIDATES = ("python3", "python3.13", "python3.12", "python3.11", "python3.10")
STEP_TIMEOUT_S = 120.0
INSTALL_TIMEOUT_S = on_device.INSTALL_TIMEOUT_S + 60.0
# Runs in Python 2.7 and later, so that an old version can be reported. Python 2.7 has no `-I`;
# instead, the empty entry of sys.path is removed, which with `-c` is the directory of the login.
_WHO = (
    "import sys; sys.path[:] = filter(None, sys.path); import platform as p; "
    "print(' '.join(['edgebench-python', p.python_implementation(), "
    "p.system(), p.python_version()]))"
)
_T = TypeVar("_T")


class Account:
    """An account on a device, and the Python there that runs `on_device.py`."""

    def __init__(self, shell: Shell, python: str) -> None:
        self.shell = shell
        self.python = python
        self._script = Path(on_device.__file__).read_bytes()
        self._deploy = secrets.token_hex(8)
        self._is_changing = False

    @contextmanager
    def changing(self) -> Iterator[None]:
        """Make the device refuse other deploys from the first change to the end of the block."""
        try:
            yield
        finally:
            if self._is_changing:
                with suppress(EdgebenchError):  # else the deploy expires after `BROKEN_OFF_S`
                    self._ask(StepReport, "release", "ending the deploy")

    def look(self) -> DeviceFacts:
        """State of the device and the account."""
        return self._ask(DeviceFacts, "look", "looking around")

    def make_room(self, keep: Sequence[str], *, has_bridge: bool = False) -> None:
        """Create the directories, and remove the wheels that are not in `keep`.

        Args:
            keep: Names of the wheels that stay.
            has_bridge: Whether the firmware bridge is among the wheels to send.
        """
        self._ask(
            StepReport, "make_room", "making directories", keep=list(keep), has_bridge=has_bridge
        )

    def renew(self) -> None:
        """Create an empty virtual environment, which is not in use yet.

        Raises:
            TargetError: this Python cannot create a virtual environment.
        """
        if error := self._ask(StepReport, "renew", "making a virtual environment").error:
            raise TargetError(f"no virtual environment on {self.shell.target}: {error}")

    def duplicate(self) -> None:
        """Copy the virtual environment; the copy is not in use yet."""
        self._ask(StepReport, "duplicate", "copying a virtual environment", INSTALL_TIMEOUT_S)

    def drop(self) -> None:
        """Remove the virtual environments; the caller must stop the agent first."""
        self._ask(StepReport, "drop", "removing a virtual environment")

    def switch(self, *, is_offline: bool) -> None:
        """Put the newly installed environment into use; the caller must stop the agent first.

        Args:
            is_offline: Whether the environment contains only wheels that were sent.
        """
        self._ask(StepReport, "switch", "switching to the new environment", is_offline=is_offline)

    def restore(self) -> bool:
        """Switch back to the previous environment; return False if there is none."""
        return self._ask(StepReport, "restore", "restoring the environment").error is None

    def settle(self) -> None:
        """Remove the previous environment."""
        self._ask(StepReport, "settle", "removing a virtual environment")

    def install(
        self, words: Sequence[str], wheels: Iterable[WheelFile], *, is_offline: bool
    ) -> StepReport:
        """Run `pip install` in the environment that is not in use yet, and report any error.

        Args:
            words: Arguments of pip.
            wheels: The wheels that were sent. The device compares the digests of its copies with
                the digests in `wheels`, and does not run pip if any digest differs.
            is_offline: Whether pip may use only these wheels.
        """
        return self._ask(
            StepReport,
            "install",
            "installing",
            INSTALL_TIMEOUT_S,
            words=list(words),
            is_offline=is_offline,
            wheels=[asdict(wheel) for wheel in wheels],
        )

    def start(
        self,
        words: Sequence[str],
        *,
        listen: str = "",
        meters: Sequence[str] = (),
        sync_line: str | None = None,
        at_boot: bool = True,
    ) -> StepReport:
        """Start the agent; if the agent does not start, the returned report contains the reason."""
        return self._ask(
            StepReport,
            "start",
            "starting the agent",
            words=list(words),
            listen=listen,
            meters=list(meters),
            sync_line=sync_line,
            at_boot=at_boot,
        )

    def stop(self) -> None:
        """Stop the deployed agent, if it is running.

        Raises:
            TargetError: the agent does not stop.
        """
        if error := self._ask(StepReport, "stop", "stopping the agent").error:
            raise TargetError(f"{error} on {self.shell.target}")

    def remove(self) -> UninstallReport:
        """Remove everything that was deployed."""
        return self._ask(UninstallReport, "remove", "removing the agent")

    def _ask(
        self,
        kind: type[_T],
        verb: str,
        what: str,
        timeout_s: float = STEP_TIMEOUT_S,
        **arguments: object,
    ) -> _T:
        self._is_changing |= verb != on_device.look.__name__
        request = json.dumps({"verb": verb, "deploy": self._deploy, "by": host_name(), **arguments})
        output = self.shell.run(
            [self.python, "-I", "-", request], what=what, timeout_s=timeout_s, stdin=self._script
        )
        source = f"{what} on {self.shell.target}"
        lines = [line for line in output.text.splitlines() if line.strip()]
        for line in reversed(lines):
            if line.startswith(ANSWER_MARK):
                return parse_answer(line.removeprefix(ANSWER_MARK), kind, source=source)
            if line.startswith(FAILURE_MARK):
                text = line.removeprefix(FAILURE_MARK)
                failure = parse_answer(text, StepFailure, source=source)
                if failure.is_other_deploy:
                    raise DeployRunning(
                        f"{what} on {self.shell.target} was refused: {failure.problem}"
                    )
                error = NoSpace if failure.is_full else TargetError
                raise error(f"{source} failed: {failure.problem}")
        output_line = one_line(lines[-1], 400) if lines else f"status {output.code}, no output"
        raise TargetError(f"{source} failed: {output_line}")


def open_account(shell: Shell, python: str | None = None) -> Account:
    """Open an account with the given Python, or with the device's first Python that is new enough.

    Raises:
        PythonMissing: the device has no CPython that is new enough.
        TargetError: the device does not run Linux.
    """
    unfit = []
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
        match = re.match(r"(\d{1,3})\.(\d{1,3})", version, re.ASCII)
        is_new_enough = match is not None and (int(match[1]), int(match[2])) >= OLDEST_PYTHON
        if implementation == "CPython" and is_new_enough:
            return Account(shell, name)
        unfit.append(f"{name} is {implementation} {version}")
    oldest = ".".join(map(str, OLDEST_PYTHON))
    seen = "; ".join(unfit) or f"not found: {python or ', '.join(CANDIDATES)}"
    raise PythonMissing(f"no Python {oldest} or newer on {shell.target}: {seen}")


def parse_answer(text: str, kind: type[_T], *, source: str) -> _T:
    """Parse a device's JSON reply as a dataclass, and make all texts in it printable single lines.

    Args:
        text: The reply.
        kind: A dataclass; unknown fields of the reply are ignored.
        source: Step and device, for the error.

    Raises:
        RemoteProtocolError: the reply is not JSON, or does not match the dataclass; the error
            quotes the reply.
    """
    try:
        plain = _harmless(json.loads(text))
        if not isinstance(plain, dict):  # a list would be accepted for a dataclass without fields
            raise ValueError
        return from_plain(plain, kind)
    except (ValueError, RecursionError, RemoteProtocolError) as exc:
        raise RemoteProtocolError(
            f"{source}: reply is not a {kind.__name__}: {one_line(text)!r}"
        ) from exc


def _harmless(plain: Any) -> Any:
    """Remove control characters from a value; JSON can contain them as escape sequences."""
    if isinstance(plain, str):
        return printable(plain.replace("\n", " "))
    if isinstance(plain, list):
        return [_harmless(value) for value in plain]
    if isinstance(plain, dict):
        return {str(key): _harmless(value) for key, value in plain.items()}
    return plain
