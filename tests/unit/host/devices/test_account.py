"""What comes from a device over SSH: found among noise, bounded in what it can do."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from edgebench.host.devices.account import Account, open_account
from edgebench.host.devices.on_device import ANSWER_MARK, FAILURE_MARK
from edgebench.host.devices.shell import CommandOutput
from edgebench.protocol.errors import (
    NoSpace,
    PythonMissing,
    RemoteProtocolError,
    TargetError,
)

NOISE = "Welcome to your board!\n"


class Device:
    """Stands in for a shell: answers each command with the next text."""

    target = "pi@board"
    address = "10.0.0.9"
    via = "tls"

    def __init__(self, *answers: str) -> None:
        self.answers = list(answers)
        self.commands: list[Sequence[str]] = []

    def run(
        self, words: Sequence[str], *, what: str, timeout_s: float, stdin: bytes = b""
    ) -> CommandOutput:
        self.commands.append(words)
        return CommandOutput(0, self.answers.pop(0))

    def put(self, files: Sequence[Path], directory: str) -> None:
        pytest.fail("nothing is sent")

    def close(self) -> None:
        pass


def account(answer: object, mark: str = ANSWER_MARK) -> Account:
    """An account whose device gives this answer."""
    return Account(Device(f"{NOISE}\n{mark}{json.dumps(answer)}\n"), "python3")


def test_answer_is_found_among_what_the_login_prints() -> None:
    """A greeting in .bashrc makes a device impossible to deploy to."""
    assert account({"error": "no such thing"}).start([]).error == "no such thing"


def test_no_answer_is_an_error_that_quotes_the_last_line() -> None:
    """The user learns nothing about a Python that crashes."""
    device = Device("Traceback…\nMemoryError\n")
    with pytest.raises(TargetError, match=r"starting the agent on pi@board failed: MemoryError"):
        Account(device, "python3").start([])


def test_full_disk_is_an_error_of_its_own() -> None:
    """The hint sends the user to look for something else."""
    full = {"problem": "No space left on device: /home", "is_full": True}
    with pytest.raises(NoSpace, match="No space left"):
        account(full, FAILURE_MARK).make_room([])


def test_device_cannot_reach_the_terminal() -> None:
    """An error message from a device moves the cursor and writes its own lines."""
    error = account({"error": "\x1b[2Jfine\nhint: run this \u202e"}).start([]).error
    assert error == "?[2Jfine hint: run this ?"
    with pytest.raises(TargetError, match=r"\?\[2Jbad"):
        account({"problem": "\x1b[2Jbad", "is_full": False}, FAILURE_MARK).look()


@pytest.mark.parametrize(
    "answer", ["{", "5", "null", '["x"]', '{"error": 5}', '{"warnings": [[]]}', "[" * 10_000]
)
@pytest.mark.parametrize("mark", [ANSWER_MARK, FAILURE_MARK])
def test_answer_of_another_kind_is_one_error_that_quotes_it(mark: str, answer: str) -> None:
    """A device that answers something else ends the deploy in a traceback."""
    device = Device(f"{mark}{answer}\n")
    with pytest.raises(RemoteProtocolError) as caught:
        Account(device, "python3").start([])
    text = str(caught.value)
    assert text.startswith("starting the agent on pi@board: answer is not a Step")
    assert answer[:100] in text
    assert len(text) < 400


@pytest.mark.parametrize("version", ["²", "9" * 5000, "3", "x.y", "٣.١٢"])
def test_python_of_a_strange_version_is_passed_over(version: str) -> None:
    """A device that says nonsense about its Python ends the deploy in a traceback."""
    with pytest.raises(PythonMissing):
        open_account(Device(f"edgebench-python CPython Linux {version}\n"), "python3")


def test_first_python_that_is_new_enough_is_taken() -> None:
    """The device's default Python is too old, and the newer one beside it is not seen."""
    device = Device(
        f"{NOISE}edgebench-python CPython Linux 3.9.2\n",
        "sh: python3.13: not found\n",
        "edgebench-python PyPy Linux 3.12.1\n",
        "edgebench-python CPython Linux 3.11.2\n",
    )
    open_account(device)
    assert [words[0] for words in device.commands] == [
        "python3", "python3.13", "python3.12", "python3.11",
    ]  # fmt: skip


def test_every_python_that_will_not_do_is_named() -> None:
    """The user does not learn what to install."""
    device = Device("edgebench-python CPython Linux 3.9.2\n", *["not found\n"] * 4)
    with pytest.raises(PythonMissing, match=r"3\.10 or newer on pi@board: python3 is CPython 3\.9"):
        open_account(device)


def test_another_system_is_refused() -> None:
    """Wheels of Linux are sent to a Mac."""
    with pytest.raises(TargetError, match="runs Darwin; the agent runs on Linux only"):
        open_account(Device("edgebench-python CPython Darwin 3.12.1\n"))
