"""The agent's identity, the hosts that it trusts, and the TLS context made from both."""

from __future__ import annotations

import json
import os
import ssl
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from edgebench.agent.files import disk_errors, make_private_directory, write_private
from edgebench.agent.hardware import changed_hardware, forget_hardware, remember_hardware
from edgebench.protocol.errors import RemoteProtocolError, TargetError, UsageError
from edgebench.protocol.hardware import BoardChange, Hardware
from edgebench.protocol.identity import der_of, fingerprint, new_identity
from edgebench.protocol.pem import Pem
from edgebench.protocol.plain import from_outside, to_plain
from edgebench.system.python_start import python_command

MAX_PAIRING_S = 600.0
IDENTITY_FILE, HOSTS_FILE = "identity.pem", "hosts.json"


@dataclass(frozen=True, slots=True)
class PairedHost:
    """A host that may connect to this agent."""

    fingerprint: str
    name: str
    certificate_pem: Pem


@dataclass(frozen=True, slots=True)
class Peer:
    """The peer of a connection, as its certificate or its socket identifies it."""

    identity: str
    name: str
    is_pairing: bool = False
    """Whether the peer has a pairing secret but is not paired yet."""
    is_local: bool = False
    """Whether the peer is a process of the same user, or of root, on this machine."""


class Trust:
    """The identity of this agent and the hosts that it trusts.

    OpenSSL checks that a peer has the key of a trusted certificate. This class then checks the
    fingerprint of the certificate, and rejects an expired pairing, which OpenSSL still accepts.
    """

    def __init__(
        self,
        directory: Path,
        now_s: Callable[[], float] = time.monotonic,
        *,
        hardware: Hardware | None = None,
    ) -> None:
        """Load the identity; if it is missing or was made on another board, create a new identity.

        Args:
            directory: Directory of the identity and of the paired hosts.
            now_s: Clock by which pairings expire, in seconds.
            hardware: Hardware of this machine; None: the identity is valid on any machine.

        Raises:
            TargetError: a file cannot be read, or an identity cannot be created.
        """
        self._directory = make_private_directory(directory)
        self._now_s = now_s
        self._pairings: dict[str, float] = {}
        self._identity_path = directory / IDENTITY_FILE
        hardware = hardware or Hardware()
        self.change: BoardChange | None = None
        """Evidence of another board, because of which the identity was renewed; None if it was not
        renewed."""
        if not self._identity_path.exists():
            _make_identity(self._identity_path)
        elif (change := changed_hardware(directory, hardware)) is not None:
            if not os.access(directory, os.W_OK):
                raise TargetError(
                    "identity was created on another board, and a new identity cannot be written: "
                    f"{directory}"
                )
            renew_identity(directory)
            self.change = change
        remember_hardware(directory, hardware)
        self._hosts = {host.fingerprint: host for host in _load_hosts(self._hosts_path)}
        self.fingerprint = fingerprint(der_of(self._identity_path.read_text()))
        self.context = self._make_context()

    @property
    def hosts(self) -> tuple[PairedHost, ...]:
        """The paired hosts."""
        return tuple(self._hosts.values())

    def open_pairing(self, certificate_pem: str, valid_s: float) -> None:
        """Accept a one-time identity for `valid_s` seconds.

        Raises:
            UsageError: `valid_s` is out of bounds, or the text is not a certificate.
        """
        if not 0 < valid_s <= MAX_PAIRING_S:
            raise UsageError(f"validity of the pairing is {valid_s} s, limit {MAX_PAIRING_S:.0f} s")
        certificate = der_of(certificate_pem)
        self._trust(certificate)
        self._pairings[fingerprint(certificate)] = self._now_s() + valid_s

    def pair(self, pairing: Peer, certificate_pem: str, name: str) -> None:
        """Trust a host permanently, and invalidate the one-time identity.

        Raises:
            UsageError: the pairing has expired, or the text is not a certificate.
        """
        if self._pairings.get(pairing.identity, 0.0) <= self._now_s():
            raise UsageError("this pairing was used already, or has expired")
        certificate = der_of(certificate_pem)
        self._trust(certificate)
        pin = fingerprint(certificate)
        # Only the certificate that was checked is stored, regardless of the rest of the text.
        self._hosts[pin] = PairedHost(pin, name[:64], Pem(ssl.DER_cert_to_PEM_cert(certificate)))
        write_private(self._hosts_path, json.dumps(to_plain(self.hosts), indent=1))
        del self._pairings[pairing.identity]

    def peer(self, certificate_der: bytes | None) -> Peer | None:
        """The peer that owns a certificate; None if the peer is neither paired nor pairing."""
        if certificate_der is None:
            return None
        pin = fingerprint(certificate_der)
        if pin in self._hosts:
            return Peer(pin, self._hosts[pin].name)
        if self._pairings.get(pin, 0.0) > self._now_s():
            return Peer(pin, "a host that is pairing", is_pairing=True)
        return None

    @property
    def _hosts_path(self) -> Path:
        return self._directory / HOSTS_FILE

    def _trust(self, certificate_der: bytes) -> None:
        try:
            self.context.load_verify_locations(cadata=certificate_der)
        except (ssl.SSLError, ValueError) as exc:
            raise UsageError(f"not a certificate: {exc}") from exc

    def _make_context(self) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_3
        context.verify_mode = ssl.CERT_REQUIRED
        context.num_tickets = 0
        context.load_cert_chain(self._identity_path)
        for host in self._hosts.values():
            context.load_verify_locations(cadata=der_of(host.certificate_pem))
        return context


def _load_hosts(path: Path) -> tuple[PairedHost, ...]:
    try:
        return from_outside(json.loads(path.read_text()), tuple[PairedHost, ...])
    except FileNotFoundError:
        return ()
    except (OSError, ValueError, RemoteProtocolError) as exc:
        raise TargetError(f"cannot read the list of paired hosts: {path}: {exc}") from exc


def renew_identity(directory: Path) -> None:
    """Replace the identity by a new identity, with which no host is paired yet.

    Raises:
        TargetError: the new identity cannot be written; the old identity remains.
    """
    _make_identity(directory / IDENTITY_FILE)
    with disk_errors("list of paired hosts not removed", directory / HOSTS_FILE):
        (directory / HOSTS_FILE).unlink(missing_ok=True)
        forget_hardware(directory)


def _make_identity(path: Path) -> None:
    # In its own process: the certificate library would stay in the daemon's memory.
    python = python_command("edgebench.agent.identity", path.absolute())
    result = subprocess.run(
        python.words,
        cwd=python.directory,
        env=python.environment,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
    )
    if result.returncode:
        raise TargetError(f"identity not created: {result.stderr.strip()[-300:]}: {path}")


def _create(path: Path) -> None:
    import socket

    identity = new_identity(socket.gethostname())
    write_private(path, identity.key_pem + identity.certificate_pem)


if __name__ == "__main__":
    _create(Path(sys.argv[1]))
