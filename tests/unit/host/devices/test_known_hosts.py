"""Files `known_hosts`: any bytes are read; OpenSSH's verdict on them is a test of the system."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgebench.host.devices.host_certificate import parse_certificate
from edgebench.host.devices.known_hosts import HostKey, KeyTrust, KnownHosts

KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"
PARTS = st.sampled_from(
    [b"@revoked", b"@cert-authority", b"@", b"pi", b"!pi", b"*", b"|1|", b"[", b",", b" ", b"\t",
     b"\r", b"\n", b"\0", b"\xff", b"#", KEY.encode(), KEY[:40].encode()]
)  # fmt: skip


@given(st.lists(PARTS | st.binary(max_size=8), max_size=40).map(b"".join))
def test_any_bytes_are_read(content: bytes) -> None:
    """Otherwise a damaged file would end a deploy in an exception of a parser."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "known_hosts"
        path.write_bytes(content)
        known = KnownHosts([path])
        assert len(set(known.algorithms("pi", 2222))) == len(known.algorithms("pi", 2222)) == 12
        assert known.decide("pi", 2222, HostKey(b"none"), 0.0).trust is not KeyTrust.TRUSTED


@given(st.binary(max_size=200))
def test_no_bytes_are_a_certificate(blob: bytes) -> None:
    """Otherwise a server with a malformed certificate would end a deploy in another error."""
    with pytest.raises(ValueError, match=r"."):
        parse_certificate(blob)


def test_algorithms_of_a_known_key_come_first(tmp_path: Path) -> None:
    """Otherwise a server with several keys would present a key that the user never accepted."""
    path = tmp_path / "known_hosts"
    path.write_text("pi ssh-rsa AAAAB3NzaC1yc2EAAAABAwAAAAEB\n")
    first = "rsa-sha2-512-cert-v01@openssh.com"
    assert KnownHosts([path]).algorithms("pi", 22)[0] == first
    assert KnownHosts([path]).algorithms("other", 22)[0] == "ssh-ed25519-cert-v01@openssh.com"
