"""A new agent that does not start: the previous agent is started again, by real commands."""

from __future__ import annotations

import hashlib
import os
import signal
import sys
import zipfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from support.shells import LocalShell

from edgebench.host.devices.account import Account
from edgebench.host.devices.deploy import AgentOptions, _start, _start_or_restore
from edgebench.host.devices.install import _install_wheels
from edgebench.host.devices.on_device import Places, WheelFile
from edgebench.host.devices.packages import WheelSet
from edgebench.protocol.errors import TargetError

OLD, NEW = WheelFile("old.whl", 3, "0" * 64), "new.whl"
GOOD = "if [ $1 = status ]; then exit 1; fi; echo ready board; exec /bin/sleep 60"
BAD = "echo 'error: no module named websockets' >&2; exit 1"


class Device:
    """This machine, with an agent that runs, and another agent that was installed next to it."""

    def __init__(self, home: Path) -> None:
        self.account = Account(LocalShell(home), sys.executable)
        self.places = Places({"HOME": str(home)})
        self.account.make_room([NEW])
        (self.places.wheels / NEW).write_bytes(b"abc")
        self._add(self.places.venv, GOOD)
        self.places.write_record(installed=(OLD,))
        self.steps: list[str] = []
        self.starting()

    def starting(self) -> tuple[str, ...]:
        """Start the agent in use."""
        options = AgentOptions("board", 7747, (), None)
        return _start(self.account, self.account.look(), options, self.steps.append, at_boot=False)

    def upgrade(self, script: str) -> None:
        """Install an agent, and use it."""
        self.account.renew()
        self._add(self.places.spare, script)
        self.account.stop()
        self.account.switch(is_offline=True)
        self.steps.clear()
        _start_or_restore(self.account, self.starting, self.steps.append)

    def program(self) -> Path:
        """The agent that runs."""
        words = Path(f"/proc/{self.places.pid.read_text().strip()}/environ").read_bytes()
        assert words, "it runs"
        return self.places.agent

    def _add(self, venv: Path, script: str) -> None:
        (venv / "bin").mkdir(parents=True, exist_ok=True)
        if not (venv / "bin" / "python").exists():
            (venv / "bin" / "python").symlink_to(sys.executable)
        agent = venv / "bin" / "edgebench-agent"
        agent.write_text(f"#!/bin/sh\n{script}\n")
        agent.chmod(0o755)


@pytest.fixture
def device(tmp_path: Path) -> Iterator[Device]:
    """A device; its agents end with the test."""
    home = tmp_path / "home"
    home.mkdir()
    made = Device(home)
    yield made
    if made.places.pid.exists():
        os.kill(int(made.places.pid.read_text()), signal.SIGKILL)


def test_agent_that_starts_replaces_the_one_of_before(device: Device) -> None:
    """Otherwise each upgrade would leave 200 MB, or run the old agent."""
    second, first = device.places.venvs
    device.upgrade(GOOD)
    assert device.program() == second / "bin" / "edgebench-agent"
    assert not first.exists()
    assert [wheel.name for wheel in device.places.read_record().installed] == [NEW]
    device.upgrade(GOOD)
    assert device.program() == first / "bin" / "edgebench-agent"
    assert not second.exists()


def test_agent_of_before_runs_again(device: Device) -> None:
    """Otherwise a version that does not start on this board would take it out of the farm."""
    second, first = device.places.venvs
    with pytest.raises(TargetError, match=r"no module named websockets.*; the previous agent runs"):
        device.upgrade(BAD)
    assert "note: the new agent does not start; starting the previous agent" in device.steps
    assert device.program() == first / "bin" / "edgebench-agent"
    assert not second.exists()
    record = device.places.read_record()
    assert (record.installed, record.installed_before) == ((OLD,), ())


def test_neither_agent_starts(device: Device) -> None:
    """Otherwise the message would promise an agent that does not run."""
    device.places.agent.write_text(f"#!/bin/sh\n{BAD}\n")
    with pytest.raises(TargetError, match="the previous agent does not start"):
        device.upgrade(BAD)
    assert not device.places.pid.exists()


def test_first_agent_that_does_not_start_is_the_only_error(tmp_path: Path) -> None:
    """Otherwise the error of a first deploy would mention a previous agent."""
    made = Device(tmp_path)
    made.account.stop()
    made.account.drop()
    assert not any(path.exists() for path in made.places.venvs)
    with pytest.raises(TargetError, match="no module named websockets") as caught:
        made.upgrade(BAD)
    assert "before" not in str(caught.value)


def test_copy_has_what_it_was_copied_from(device: Device) -> None:
    """Otherwise an upgrade of the agent alone would lose its packages.

    Or it would change those in use.
    """
    library = device.places.venv / "lib" / "numpy.py"
    library.parent.mkdir()
    library.write_text("pass\n")
    device.account.duplicate()
    copied = device.places.spare / "lib" / "numpy.py"
    assert copied.read_text() == "pass\n"
    assert copied.stat().st_ino != library.stat().st_ino
    assert (device.places.spare / "bin" / "python").is_symlink()


class Verbs(Account):
    """An account that only records what is to be done there."""

    def __init__(self, home: Path) -> None:
        super().__init__(LocalShell(home), sys.executable)
        self.verbs: list[str] = []

    def _ask(self, kind: type[Any], verb: str, *_: Any, **__: Any) -> Any:
        self.verbs.append(verb)
        return kind()


@pytest.mark.parametrize(
    ("free_bytes", "verbs"),
    [
        (10**9, ["make_room", "duplicate", "install", "stop", "switch"]),
        (30_000, ["make_room", "stop", "drop", "renew", "install", "stop", "switch"]),
    ],
)
def test_full_disk_gets_one_environment(tmp_path: Path, free_bytes: int, verbs: list[str]) -> None:
    """Otherwise a copy would be made of a removed environment, and the board have no agent."""
    own, other = (tmp_path / f"{name}-1-py3-none-any.whl" for name in ("edgebench_agent", "numpy"))
    for path, size in ((own, 1_000), (other, 100_000)):
        with zipfile.ZipFile(path, "w") as wheel:
            wheel.writestr("module.py", bytes(size))
    held = WheelFile(
        other.name, other.stat().st_size, hashlib.sha256(other.read_bytes()).hexdigest()
    )
    account = Account(LocalShell(tmp_path), sys.executable)
    before = WheelFile(own.name, 1, "0" * 64)
    facts = replace(
        account.look(),
        free_bytes=free_bytes,
        held=(held,),
        installed=(held, before),
        wheels=str(tmp_path / "there"),
    )
    (tmp_path / "there").mkdir()
    noting = Verbs(tmp_path)
    assert _install_wheels(noting, facts, WheelSet(own, (own, other), (), (), ()), print)
    assert noting.verbs == verbs
