"""Targets: what a person types, and what is printed back as arguments of `ssh`."""

from __future__ import annotations

import pytest

from edgebench.host.devices.ssh import SshTarget
from edgebench.host.devices.target import parse_target
from edgebench.protocol.errors import UsageError


@pytest.mark.parametrize(
    ("text", "target", "login"),
    [
        ("pi@raspberrypi", SshTarget("pi", "raspberrypi"), "pi@raspberrypi"),
        ("pi@10.0.0.7:2222", SshTarget("pi", "10.0.0.7", 2222), "-p 2222 pi@10.0.0.7"),
        ("a.b-c@host.local", SshTarget("a.b-c", "host.local"), "a.b-c@host.local"),
        ("pi@[fe80::1%eth0]:22", SshTarget("pi", "fe80::1%eth0"), "pi@fe80::1%eth0"),
    ],
)
def test_target_is_taken_apart(text: str, target: SshTarget, login: str) -> None:
    """Somebody logs in elsewhere than was typed."""
    assert parse_target(text) == target
    assert parse_target(str(target)) == target
    assert target.login == login


@pytest.mark.parametrize(
    "text",
    ["", "host", "@host", "pi@", "pi@host:", "pi@host:0", "pi@host:65536", "pi@host:x",
     "pi@-oProxyCommand=x", "-oProxyCommand=x@host", "pi@fe80::1", "pi@ho st", "pi@host\n-l"],
)  # fmt: skip
def test_what_is_not_a_target_is_refused(text: str) -> None:
    """A slip of the finger becomes an option of `ssh`, or a connection to somewhere."""
    with pytest.raises(UsageError, match="expected USER@HOST"):
        parse_target(text)
