"""Pairing strings, and identities: self-signed certificates that are pinned by fingerprint.

Theory of operation. Host and agent each have a self-signed certificate, which is created once. Each
side trusts exactly the certificates that it has pinned; there is no certificate authority. The
certificates are valid from 1970 to 9999, because the clock of a board without a battery starts in
the past.

Pairing uses the agent's normal port. `edgebench-agent pair` generates a random secret and prints it
in the pairing string, which the user copies to the host. From the secret, both sides derive the
same one-time key and certificate, byte for byte (Ed25519 signatures are deterministic). The agent
trusts the one-time certificate for ten minutes, and only for the message that contains the host's
real certificate. This protects against three attacks:

- A peer without the secret fails in the TLS handshake.
- An eavesdropper cannot decrypt the connection.
- The host cannot be redirected to another agent, because the pairing string contains the agent's
  fingerprint.

The key derivation is SHA-256 over a label and the secret. The secret has 128 random bits, so a slow
derivation (key stretching) is not needed. Source: NIST SP 800-108r1, section 4 (key derivation from
a strong secret).
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import re
from dataclasses import dataclass
from datetime import datetime

from edgebench.protocol.errors import UsageError
from edgebench.protocol.pem import Pem

DEFAULT_PORT = 7747
"""Default TCP port of an agent; IANA has not assigned it to another service, as of 2026."""
PAIRING_VALID_S = 600.0
SECRET_BYTES = 16
_SCHEME = "edgebench://"
_PAIRING_LABEL = b"edgebench pairing key, version 1\x00"
# RFC 5280, 4.1.2.5: 99991231235959Z means that there is no well-defined end.
_NOT_BEFORE = datetime(1970, 1, 1)
_NOT_AFTER = datetime(9999, 12, 31, 23, 59, 59)


@dataclass(frozen=True, slots=True)
class Identity:
    """A private key with its certificate."""

    key_pem: str
    certificate_pem: Pem

    @property
    def fingerprint(self) -> str:
        """Fingerprint that identifies the certificate in pins, logs and pairing strings."""
        return fingerprint(der_of(self.certificate_pem))


@dataclass(frozen=True, slots=True)
class PairingString:
    """The string that `edgebench-agent pair` prints and `edgebench pair` takes as argument."""

    addresses: tuple[str, ...]
    port: int
    fingerprint: str
    secret: bytes

    def __str__(self) -> str:
        hosts = ",".join(f"[{a}]" if ":" in a else a for a in self.addresses)
        return f"{_SCHEME}{hosts}:{self.port}/{self.fingerprint}/{_encode(self.secret)}"


PIN_CHARS, SECRET_CHARS = 43, 22
"""Lengths of the fingerprint (a SHA-256) and of the secret (16 bytes) in a pairing string, in
characters of base64url without padding (RFC 4648)."""


def parse_pairing_string(text: str) -> PairingString:
    """Parse a pairing string into its parts.

    Raises:
        UsageError: the text is not a pairing string.
    """
    match = re.fullmatch(
        _SCHEME + r"(?P<hosts>[^/]+?)(?::(?P<port>\d{1,9}))?/(?P<pin>[^/]*)/(?P<secret>[^/]*)",
        text.strip(),
        re.ASCII,
    )
    if match is None:
        raise UsageError("not a pairing string: expected edgebench://ADDRESS:PORT/PIN/SECRET")
    if match["port"] is None or not 0 < int(match["port"]) < 65536:
        raise UsageError(
            f"not a pairing string: port must be 1..65535, got {match['port'] or 'none'}"
        )
    for name, length in (("pin", PIN_CHARS), ("secret", SECRET_CHARS)):
        if not re.fullmatch(rf"[\w-]{{{length}}}", match[name], re.ASCII):
            raise UsageError(
                f"not a pairing string: {name.upper()} must be {length} letters, digits, - or _, "
                f"got {len(match[name])} characters"
            )
    try:
        secret = base64.urlsafe_b64decode(match["secret"] + "==")
    except binascii.Error as exc:
        raise UsageError("not a pairing string: the secret is damaged") from exc
    addresses = tuple(part.strip("[]") for part in match["hosts"].split(","))
    if not all(addresses):
        raise UsageError("not a pairing string: an address is empty")
    return PairingString(addresses, int(match["port"]), match["pin"], secret)


def fingerprint(certificate_der: bytes) -> str:
    """SHA-256 of the certificate, base64url without padding, 43 characters."""
    return _encode(hashlib.sha256(certificate_der).digest())


def der_of(certificate_pem: str) -> bytes:
    """DER bytes of the first certificate in a PEM text.

    Raises:
        UsageError: the text has no certificate, or a damaged certificate.
    """
    match = re.search(
        "-----BEGIN CERTIFICATE-----(.+?)-----END CERTIFICATE-----", certificate_pem, re.DOTALL
    )
    if match is None:
        raise UsageError("no certificate found in the text")
    try:
        return base64.b64decode("".join(match[1].split()), validate=True)
    except ValueError as exc:  # not base64, or not ASCII
        raise UsageError("the certificate text is damaged") from exc


def new_identity(common_name: str) -> Identity:
    """Create an identity with a new random key."""
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.x509 import random_serial_number

    key = Ed25519PrivateKey.generate()
    return _self_signed(key.private_bytes_raw(), common_name, random_serial_number())


def pairing_identity(secret: bytes) -> Identity:
    """Derive the one-time identity from a pairing secret; both sides derive the same identity."""
    seed = hashlib.sha256(_PAIRING_LABEL + secret).digest()
    return _self_signed(seed, "edgebench pairing", 1)


def _self_signed(seed: bytes, common_name: str, serial: int) -> Identity:
    # Imported here: cryptography takes 100 ms and 9 MB, and a running agent does not need it.
    from cryptography import x509
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    key = Ed25519PrivateKey.from_private_bytes(seed)
    # OpenSSL looks trusted certificates up by name: two hosts with the same name must not collide.
    unique = hashlib.sha256(key.public_key().public_bytes_raw()).hexdigest()[:16]
    subject = f"{common_name[:40]} {unique}"
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, subject)])
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(serial)
        .not_valid_before(_NOT_BEFORE)
        .not_valid_after(_NOT_AFTER)
        .sign(key, algorithm=None)
    )
    key_pem = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    certificate_pem = certificate.public_bytes(serialization.Encoding.PEM)
    return Identity(key_pem.decode(), Pem(certificate_pem.decode()))


def _encode(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")
