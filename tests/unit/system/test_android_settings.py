"""Settings of a phone are changed for a while, and put back, whichever process is killed."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import psutil
import pytest
from support.agents import wait_until
from support.boards import BOARDS, make_board
from support.boards import _android as android
from support.forks import start_waiting
from support.trees import make_tree

from edgebench.protocol.errors import TargetError
from edgebench.system.android_settings import ChangedSettings, recover

WANTED = {"airplane_mode": "1", "brightness_mode": "0", "brightness": "40"}
KEYS = {
    "airplane_mode": "global-airplane_mode_on",
    "brightness_mode": "system-screen_brightness_mode",
    "brightness": "system-screen_brightness",
}


def new_phone(folder: Path, board: str = "android_16", airplane: str = "null") -> Path:
    """Root of a phone with an adaptive screen."""
    root = make_board(folder / "root", BOARDS[board])
    make_tree(root, android.display(102, airplane=airplane))
    return root


@pytest.fixture
def phone(tmp_path: Path) -> Path:
    """Root of a phone that has a command for airplane mode."""
    return new_phone(tmp_path)


def now(root: Path) -> dict[str, str]:
    """The settings that the phone has now."""
    return {
        name: (root / f"sim/settings-get-{key}").read_text().strip() for name, key in KEYS.items()
    }


def mark(root: Path) -> Path:
    """Where the mark is."""
    return root.parent / "state/phone-settings"


def test_settings_are_those_of_the_run_and_then_those_of_before(phone: Path) -> None:
    """Otherwise a phone would be dark and out of reach after a measurement."""
    own = ChangedSettings(mark(phone), phone)
    own.change(WANTED)
    assert now(phone) == WANTED
    assert mark(phone).stat().st_mode & 0o777 == 0o600
    own.restore()
    own.restore()
    assert now(phone) == {"airplane_mode": "0", "brightness_mode": "1", "brightness": "102"}
    assert not mark(phone).exists()


def test_setting_that_has_its_value_stays(tmp_path: Path) -> None:
    """Otherwise a rack's phone that is always in airplane mode would be online after a run."""
    phone = new_phone(tmp_path, airplane="1")
    own = ChangedSettings(mark(phone), phone)
    own.change({"airplane_mode": "1"})
    assert not mark(phone).exists()
    own.restore()
    assert now(phone)["airplane_mode"] == "1"


def test_phone_without_the_command_is_refused_and_left_as_it_was(tmp_path: Path) -> None:
    """Otherwise a run with radio would count as a run without it."""
    phone = new_phone(tmp_path, "android_8")
    before = now(phone)
    with pytest.raises(TargetError, match=r"^airplane mode not set: cmd .*; it needs Android 11"):
        ChangedSettings(mark(phone), phone).change({"brightness": "40", "airplane_mode": "1"})
    assert now(phone) == before | {"airplane_mode": "null"}
    assert not mark(phone).exists()


def test_phone_that_ignores_a_setting_is_refused(phone: Path) -> None:
    """Otherwise what was requested of the phone would count as what it did."""
    (phone / "system/bin/settings").write_text("#!/bin/sh\necho 102\n")
    with pytest.raises(TargetError, match=r"screen brightness not set: .* had no effect: the"):
        ChangedSettings(mark(phone), phone).change({"brightness": "40"})
    assert not mark(phone).exists()


@pytest.mark.parametrize("text", ["null", "", "a b", "-1", "1; reboot"])
def test_value_that_cannot_be_put_back_is_left_alone(phone: Path, text: str) -> None:
    """Otherwise a run would leave a brightness that was not set by the user."""
    make_tree(phone, {"sim/settings-get-system-screen_brightness": f"{text}\n"})
    with pytest.raises(TargetError, match=r"screen brightness not set: .* printed"):
        ChangedSettings(mark(phone), phone).change({"brightness": "40"})
    assert now(phone)["brightness"] == text


@pytest.mark.parametrize("is_guard_killed", [False, True])
def test_killed_process_leaves_the_phone_as_it_was(phone: Path, is_guard_killed: bool) -> None:
    """Otherwise kill -9 of an agent would leave a phone in airplane mode."""
    own = ChangedSettings(mark(phone), phone)
    child = start_waiting(lambda: own.change(WANTED))
    if is_guard_killed:  # as the end of adbd does
        for guard in psutil.Process(child).children(recursive=True):
            guard.kill()
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    if is_guard_killed:
        assert now(phone) == WANTED
        recover(mark(phone), phone)
    wait_until(lambda: not mark(phone).exists(), "everything was put back")
    assert now(phone) == {"airplane_mode": "0", "brightness_mode": "1", "brightness": "102"}


def test_value_that_could_not_be_put_back_is_not_forgotten(phone: Path) -> None:
    """Otherwise the next run would take what a killed run has left for the owner's choice."""
    child = start_waiting(lambda: ChangedSettings(mark(phone), phone).change({"brightness": "40"}))
    for guard in psutil.Process(child).children(recursive=True):
        guard.kill()
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    own = ChangedSettings(mark(phone), phone)
    own.change({"brightness": "60"})
    own.change({"brightness": "60"})
    assert now(phone)["brightness"] == "60"
    own.restore()
    assert now(phone)["brightness"] == "102"


@pytest.mark.parametrize(
    "content",
    [
        *("", "[]", "null", '{"boot_id": 1}', '{"boot_id": "b", "before": []}', "[" * 5000),
        '{"boot_id": "b", "before": {"brightness": "9; id", "reboot": "1", "airplane_mode": 1}}',
        '{"boot_id": "the boot before", "before": {"charging_suspended": "false"}}',
    ],
)
def test_mark_that_is_damaged_changes_nothing(phone: Path, content: str) -> None:
    """Otherwise a file that a power cut has damaged would run commands of its own."""
    before = now(phone)
    mark(phone).parent.mkdir()
    mark(phone).write_text(content)
    recover(mark(phone), phone)
    assert now(phone) == before
    assert not mark(phone).exists()
