"""Output of a device over SSH: found among noise, and limited in what it can do."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgebench.host.devices.account import Account, open_account
from edgebench.host.devices.on_device import ANSWER_MARK, FAILURE_MARK, EnvironmentMarkers
from edgebench.host.devices.packages import platform_tags
from edgebench.host.devices.shell import CommandOutput
from edgebench.protocol.errors import (
    NoSpace,
    PythonMissing,
    RemoteProtocolError,
    TargetError,
)

EXAMPLES = 5000 if "EDGEBENCH_TESTS_SEEDS" in os.environ else 300
NOISE = "Welcome to your board!\n"


class Device:
    """Stands in for a shell: answers each command with the next text."""

    target = "pi@board"
    address = "10.0.0.9"
    via = "tls"
    listen = ""
    default_name = ""
    restart_note = "nobody starts it again"
    kits = ""

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
    """An account whose device sends this reply."""
    return Account(Device(f"{NOISE}\n{mark}{json.dumps(answer)}\n"), "python3")


def test_answer_is_found_among_what_the_login_prints() -> None:
    """Otherwise a greeting in .bashrc would make a deploy to the device impossible."""
    assert account({"error": "no such thing"}).start([]).error == "no such thing"


def test_no_answer_is_an_error_that_quotes_the_last_line() -> None:
    """Otherwise the user would learn nothing about a Python that crashes."""
    device = Device("Traceback…\nMemoryError\n")
    with pytest.raises(TargetError, match=r"starting the agent on pi@board failed: MemoryError"):
        Account(device, "python3").start([])


def test_full_disk_is_an_error_of_its_own() -> None:
    """Otherwise the hint would send the user to look for something else."""
    full = {"problem": "No space left on device: /home", "is_full": True}
    with pytest.raises(NoSpace, match="No space left"):
        account(full, FAILURE_MARK).make_room([])


def test_device_cannot_reach_the_terminal() -> None:
    """Otherwise an error message of a device could move the cursor and write its own lines."""
    error = account({"error": "\x1b[2Jfine\nhint: run this \u202e"}).start([]).error
    assert error == "?[2Jfine hint: run this ?"
    with pytest.raises(TargetError, match=r"\?\[2Jbad"):
        account({"problem": "\x1b[2Jbad", "is_full": False}, FAILURE_MARK).look()


@pytest.mark.parametrize(
    "answer", ["{", "5", "null", '["x"]', '{"error": 5}', '{"warnings": [[]]}', "[" * 10_000]
)
@pytest.mark.parametrize("mark", [ANSWER_MARK, FAILURE_MARK])
def test_answer_of_another_kind_is_one_error_that_quotes_it(mark: str, answer: str) -> None:
    """Otherwise a device that sends another kind of reply would end the deploy in a traceback."""
    device = Device(f"{mark}{answer}\n")
    with pytest.raises(RemoteProtocolError) as caught:
        Account(device, "python3").start([])
    text = str(caught.value)
    assert text.startswith("starting the agent on pi@board: reply is not a Step")
    assert answer[:100] in text
    assert len(text) < 400


PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3)
    ),
    max_leaves=6,
)
FACTS = {
    "interpreter": {
        "markers": dict.fromkeys((field.name for field in fields(EnvironmentMarkers)), "3.11"),
        "abi": "cp311",
        "bits": 64,
        "libc": "glibc",
        "libc_version": [2, 36],
    },
    "host_name": "board",
    "agent": "/home/pi/agent",
    "wheels": "/home/pi/wheels",
    "log": "/home/pi/log",
    "free_bytes": 1,
}
"""A reply to `look` in which one value after another is replaced."""


def places(plain: object, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Paths of all values of a document."""
    yield path
    if isinstance(plain, dict):
        for key, inner in plain.items():
            yield from places(inner, (*path, key))


def with_value(plain: Any, path: tuple[str, ...], value: object) -> Any:
    """A copy with another value in one place."""
    if not path:
        return value
    return {**plain, path[0]: with_value(plain[path[0]], path[1:], value)}


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("interpreter", "markers", "platform_machine"), "../../../x"),
        (("interpreter", "markers", "platform_machine"), ""),
        (("interpreter", "abi"), "/etc"),
        (("interpreter", "libc_version"), [2, 10**9]),
        (("interpreter", "libc_version"), [2, -1]),
    ],
)
def test_platform_that_is_none_is_refused(path: tuple[str, ...], value: object) -> None:
    """Otherwise a machine name could write outside the cache, a C library build 10^9 tags."""
    with pytest.raises(RemoteProtocolError, match="reply is not a DeviceFacts"):
        account(with_value(FACTS, path, value)).look()


@settings(max_examples=EXAMPLES, deadline=None)
@given(path=st.sampled_from(list(places(FACTS))), value=PLAIN)
def test_hostile_answer_is_one_error_or_harmless(path: tuple[str, ...], value: object) -> None:
    """Otherwise such a reply would end in a traceback, or reach a path or the terminal."""
    try:
        facts = account(with_value(FACTS, path, value)).look()
    except RemoteProtocolError as exc:
        text = str(exc)
        assert text.isprintable()
        return
    tags = platform_tags(facts.interpreter)
    assert len(tags) < 4000
    assert all(re.fullmatch(r"[\w .]+", tag, re.ASCII) for tag in tags)
    assert facts.host_name.isprintable()


@pytest.mark.parametrize("version", ["²", "9" * 5000, "3", "x.y", "٣.١٢"])
def test_python_of_a_strange_version_is_passed_over(version: str) -> None:
    """Otherwise a nonsensical version of a device's Python would end the deploy in a traceback."""
    with pytest.raises(PythonMissing):
        open_account(Device(f"edgebench-python CPython Linux {version}\n"), "python3")


def test_first_python_that_is_new_enough_is_taken() -> None:
    """Otherwise a newer Python next to a default that is too old would not be found."""
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
    """Otherwise the user would not learn what to install."""
    device = Device("edgebench-python CPython Linux 3.9.2\n", *["not found\n"] * 4)
    with pytest.raises(PythonMissing, match=r"3\.10 or newer on pi@board: python3 is CPython 3\.9"):
        open_account(device)


def test_another_system_is_refused() -> None:
    """Otherwise wheels for Linux would be sent to a Mac."""
    with pytest.raises(TargetError, match="runs Darwin; the agent runs on Linux only"):
        open_account(Device("edgebench-python CPython Darwin 3.12.1\n"))
