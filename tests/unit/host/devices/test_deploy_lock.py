"""Two deploys into one account: one of them ends with a clear error, and harms nothing."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from support.shells import LocalShell

from edgebench.host.devices import on_device
from edgebench.host.devices.account import Account
from edgebench.host.devices.on_device import BROKEN_OFF_S, Places, turn
from edgebench.host.this_host import host_name
from edgebench.protocol.errors import DeployRunning, TargetError


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """Home of an account that was deployed to once."""
    Account(LocalShell(tmp_path), sys.executable).make_room([])
    return tmp_path


def account(home: Path) -> Account:
    """The account, for a further deploy."""
    return Account(LocalShell(home), sys.executable)


def lock(home: Path) -> Path:
    """File that names the deploy in progress."""
    return Places({"HOME": str(home)}).lock


def test_second_deploy_is_refused_until_the_first_has_ended(home: Path) -> None:
    """Otherwise two hosts would install into one environment, and neither agent would start."""
    first, second = account(home), account(home)
    with first.changing():
        first.make_room([])
        assert second.look().interpreter is not None, "to look changes nothing"
        who = rf"on .* was refused: {host_name()} is deploying to this device; .* \d s ago$"
        with pytest.raises(DeployRunning, match=who), second.changing():
            second.make_room([])
        with pytest.raises(DeployRunning):
            second.remove()
        assert lock(home).exists(), "who is refused releases nothing"
        first.stop()
    assert not lock(home).exists()
    second.make_room([])


def test_deploy_that_was_broken_off_is_overtaken(home: Path) -> None:
    """Otherwise a host that was killed would lock every other host out."""
    account(home).make_room([])
    ago_s = time.time() - BROKEN_OFF_S - 1
    os.utime(lock(home), (ago_s, ago_s))
    account(home).make_room([])


def test_clock_that_was_set_back_locks_nobody_out(home: Path) -> None:
    """Otherwise a board without a clock of its own would be locked for years after a boot."""
    account(home).make_room([])
    later_s = time.time() + 1e8
    os.utime(lock(home), (later_s, later_s))
    account(home).make_room([])


@contextmanager
def step_of_another(home: Path) -> Iterator[None]:
    """A step that takes longer than a deploy may be silent."""
    code = (
        "import sys, runpy, time, pathlib; names = runpy.run_path(sys.argv[1])\n"
        "places = names['Places']({'HOME': sys.argv[2]})\n"
        "with names['turn'](places, 'other', 'ada@lab'):\n"
        "    print('in', flush=True); sys.stdin.read()\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-I", "-c", code, on_device.__file__, str(home)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    assert process.stdout.readline() == b"in\n"
    try:
        yield
    finally:
        process.stdin.close()
        process.wait(10)
        process.stdout.close()


def test_long_step_is_not_broken_off(home: Path) -> None:
    """Otherwise pip on a slow card would be overtaken after two minutes."""
    with step_of_another(home):
        ago_s = time.time() - 3600
        os.utime(lock(home), (ago_s, ago_s))
        with pytest.raises(
            DeployRunning, match=r"ada@lab is deploying to this device; .* 360[01] s ago"
        ):
            account(home).make_room([])
    with pytest.raises(DeployRunning, match=r"ada@lab is deploying to this device; .* \d s ago"):
        account(home).make_room([])


@pytest.mark.parametrize("content", [b"", b"\n", bytes(40), b"x" * 5000, b"\xff\xfe a"])
def test_damaged_lock_is_no_deploy_for_long(home: Path, content: bytes) -> None:
    """Otherwise a power cut during a deploy would lock a board for good."""
    lock(home).write_bytes(content)
    ago_s = time.time() - BROKEN_OFF_S - 1
    os.utime(lock(home), (ago_s, ago_s))
    account(home).make_room([])


def test_first_deploy_and_uninstall_leave_no_lock(tmp_path: Path) -> None:
    """Otherwise uninstalling would leave a file."""
    own = account(tmp_path)
    with own.changing():
        own.make_room([])
        own.stop()
        assert own.remove().was_there
    assert list(tmp_path.rglob("*")) == []
    assert not own.remove().was_there
    assert list(tmp_path.rglob("*")) == []


def test_lock_that_cannot_be_made_is_an_error_of_the_device(home: Path) -> None:
    """Otherwise a directory in its place would end a deploy in a traceback."""
    lock(home).mkdir()
    with pytest.raises(TargetError, match=r"making directories on .* failed: Is a directory"):
        account(home).make_room([])


def test_turn_passes_errors_on(home: Path) -> None:
    """Otherwise a full disk would be no error."""
    places = Places({"HOME": str(home)})
    with pytest.raises(OSError, match="full"), turn(places, "a", "ada"):
        raise OSError("full")
    assert json.dumps(lock(home).read_text()) == '"a ada\\n"'
