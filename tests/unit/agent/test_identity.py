"""Whom an agent trusts: pinned hosts for ever, pairing secrets once and for a while."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest

from edgebench.agent.files import write_private
from edgebench.agent.identity import MAX_PAIRING_S, Peer, Trust
from edgebench.protocol.errors import TargetError, UsageError
from edgebench.protocol.identity import Identity, der_of, new_identity, pairing_identity

HOST = new_identity("host")
ONCE = pairing_identity(b"sixteen bytes ok")


@dataclass
class Clock:
    """A clock that stands still until it is moved."""

    now_s: float = 50.0

    def __call__(self) -> float:
        """The time."""
        return self.now_s


@pytest.fixture
def clock() -> Clock:
    """The agent's clock."""
    return Clock()


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """A configuration directory with an identity in it."""
    identity = new_identity("board")
    write_private(tmp_path / "identity.pem", identity.key_pem + identity.certificate_pem)
    return tmp_path


@pytest.fixture
def trust(directory: Path, clock: Clock) -> Trust:
    """An agent that trusts no host."""
    return Trust(directory, clock)


def peer(trust: Trust, identity: Identity) -> Peer | None:
    """Return the peer that the agent takes this for."""
    return trust.peer(der_of(identity.certificate_pem))


def pairing_peer(trust: Trust) -> Peer:
    """The peer with the one-time identity."""
    found = peer(trust, ONCE)
    assert found is not None
    return found


def test_strangers_are_nobody(trust: Trust) -> None:
    """Otherwise any peer that finishes a handshake would be let in."""
    assert peer(trust, HOST) is None
    assert peer(trust, ONCE) is None
    assert trust.peer(None) is None
    assert trust.peer(b"") is None


def test_pairing_makes_a_host_known_and_uses_the_secret_up(trust: Trust) -> None:
    """Otherwise one string would pair two hosts, or none."""
    trust.open_pairing(ONCE.certificate_pem, 10)
    once = pairing_peer(trust)
    assert (once.is_pairing, once.is_local) == (True, False)
    trust.pair(once, HOST.certificate_pem, "Ada's laptop")
    found = peer(trust, HOST)
    assert found == Peer(HOST.fingerprint, "Ada's laptop")
    assert peer(trust, ONCE) is None


def test_pairing_ends_with_its_time(trust: Trust, clock: Clock) -> None:
    """Otherwise a string that is found a week later would still open the device."""
    trust.open_pairing(ONCE.certificate_pem, 10)
    clock.now_s += 9.9
    assert peer(trust, ONCE) is not None
    clock.now_s += 0.1
    assert peer(trust, ONCE) is None


@pytest.mark.parametrize("valid_s", [0, -1, MAX_PAIRING_S + 1, float("nan"), float("inf")])
def test_pairing_cannot_stay_open(trust: Trust, valid_s: float) -> None:
    """Otherwise one message would open the device for ever."""
    with pytest.raises(UsageError, match="limit 600 s"):
        trust.open_pairing(ONCE.certificate_pem, valid_s)
    assert peer(trust, ONCE) is None


def test_paired_hosts_survive_a_restart(trust: Trust, directory: Path) -> None:
    """Otherwise every host would have to pair again after the device was switched off."""
    trust.open_pairing(ONCE.certificate_pem, 10)
    trust.pair(pairing_peer(trust), HOST.certificate_pem, "host")
    again = Trust(directory)
    assert again.fingerprint == trust.fingerprint
    assert peer(again, HOST) == Peer(HOST.fingerprint, "host")
    assert peer(again, ONCE) is None


def test_secrets_are_readable_by_their_owner_only(trust: Trust, directory: Path) -> None:
    """Otherwise another user of the device could read the agent's key, or add a host."""
    trust.open_pairing(ONCE.certificate_pem, 10)
    trust.pair(pairing_peer(trust), HOST.certificate_pem, "host")
    for name in ("identity.pem", "hosts.json"):
        assert (directory / name).stat().st_mode & 0o777 == 0o600
    assert sorted(path.name for path in directory.iterdir()) == ["hosts.json", "identity.pem"]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "no certificate",
        "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----",
        "-----BEGIN CERTIFICATE-----\n\n-----END CERTIFICATE-----",
        "-----BEGIN CERTIFICATE-----\né\n-----END CERTIFICATE-----",
        "é",
    ],
)
def test_what_is_no_certificate_is_refused(trust: Trust, text: str) -> None:
    """Otherwise a bad certificate would end the connection in a traceback, or enter the list."""
    with pytest.raises(UsageError, match="certificate"):
        trust.open_pairing(text, 10)
    trust.open_pairing(ONCE.certificate_pem, 10)
    with pytest.raises(UsageError, match="certificate"):
        trust.pair(pairing_peer(trust), text, "host")
    assert trust.hosts == ()
    assert peer(trust, ONCE) is not None, "a failed pairing may be tried again"


def test_only_the_first_certificate_of_a_text_is_trusted(trust: Trust) -> None:
    """Otherwise a host could smuggle in a second certificate, which OpenSSL would then trust."""
    other = new_identity("other")
    both = HOST.certificate_pem + other.certificate_pem
    trust.open_pairing(ONCE.certificate_pem, 10)
    trust.pair(pairing_peer(trust), both, "host")
    assert peer(trust, HOST) is not None
    assert peer(trust, other) is None
    assert trust.context.cert_store_stats()["x509"] == 2


@pytest.mark.parametrize("content", ["", "{", "5", '[{"name": 1}]', '[{"fingerprint": "x"}]'])
def test_damaged_list_of_hosts_is_named_and_not_forgotten(directory: Path, content: str) -> None:
    """Otherwise a torn file would silently let no host in, or the next pairing overwrite it."""
    (directory / "hosts.json").write_text(content)
    with pytest.raises(TargetError, match=r"hosts\.json"):
        Trust(directory)
    assert (directory / "hosts.json").read_text() == content


def test_first_start_makes_an_identity(tmp_path: Path) -> None:
    """Otherwise a fresh device could not start, or would be another device after its next start."""
    first = Trust(tmp_path / "new" / "config")
    assert len(first.fingerprint) == 43
    assert Trust(tmp_path / "new" / "config").fingerprint == first.fingerprint


def test_private_file_is_replaced_whole(tmp_path: Path) -> None:
    """Otherwise a secret would be readable for a moment, or half written after a power cut."""
    path = tmp_path / "secret"
    path.write_text("old")
    path.chmod(0o644)
    write_private(path, "new")
    assert path.read_text() == "new"
    assert path.stat().st_mode & 0o777 == 0o600
    assert [entry.name for entry in tmp_path.iterdir()] == ["secret"]
