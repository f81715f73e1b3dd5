"""Targets: what a person types, and what is printed back as arguments of `ssh`."""

from __future__ import annotations

import pytest

from edgebench.host.devices.target import SshTarget, parse_target
from edgebench.host.transports.ssh_program import SshAddress
from edgebench.protocol.errors import UsageError


@pytest.mark.parametrize(
    ("text", "address", "login"),
    [
        ("pi@raspberrypi", SshAddress("pi", "raspberrypi"), "pi@raspberrypi"),
        ("pi@10.0.0.7:2222", SshAddress("pi", "10.0.0.7", 2222), "-p 2222 pi@10.0.0.7"),
        ("a.b-c@host.local", SshAddress("a.b-c", "host.local"), "a.b-c@host.local"),
        ("pi@[fe80::1%eth0]:22", SshAddress("pi", "fe80::1%eth0", 22), "-p 22 pi@fe80::1%eth0"),
        ("pi", SshAddress(None, "pi"), "pi"),
        ("pi.lab:2222", SshAddress(None, "pi.lab", 2222), "-p 2222 pi.lab"),
        ("[::1]", SshAddress(None, "::1"), "::1"),
        ("ssh://pi", SshAddress(None, "pi"), "pi"),
        ("ssh://me@pi:2222/", SshAddress("me", "pi", 2222), "-p 2222 me@pi"),
    ],
)
def test_target_is_taken_apart(text: str, address: SshAddress, login: str) -> None:
    """Otherwise the login would go to another place than was typed."""
    assert parse_target(text) == SshTarget(address)
    assert parse_target(str(address)) == SshTarget(address)
    assert address.login == login


@pytest.mark.parametrize(
    "text",
    ["", "@host", "pi@", "pi@host:", "pi@host:0", "pi@host:65536", "pi@host:x", "host:", "-host",
     "pi@-oProxyCommand=x", "-oProxyCommand=x@host", "pi@fe80::1", "pi@ho st", "pi@host\n-l",
     "ssh://", "ssh://pi/x", "pi/x", "ssh:/pi", "http://pi"],
)  # fmt: skip
def test_what_is_not_a_target_is_refused(text: str) -> None:
    """Otherwise a typing error would become an option of `ssh`, or an arbitrary connection."""
    with pytest.raises(UsageError, match=r"expected \[USER@\]HOST"):
        parse_target(text)
