"""SSH host certificates: parsing, verification, and checks of the host name and the validity.

Source: OpenSSH, PROTOCOL.certkeys; `sshkey.c` (sshkey_cert_check_host).
"""

from __future__ import annotations

import base64
from dataclasses import dataclass
from datetime import datetime, timezone

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    PublicFormat,
    SSHCertificate,
    SSHCertificateType,
    load_ssh_public_identity,
)

from edgebench.protocol.text import one_line

MAX_STRINGS = 16
"""Maximum number of strings in a key; all supported types of keys have fewer."""


@dataclass(frozen=True, slots=True)
class HostCertificate:
    """An SSH certificate with a valid signature by its authority."""

    authority: bytes
    """Public key of the authority, in the wire format of SSH."""
    is_of_host: bool
    names: tuple[str, ...]
    """Hosts that may present the certificate; an empty list allows any host."""
    after_s: int
    before_s: int
    """End of the validity, exclusive; `after_s` is its start. Both are in seconds since 1970."""
    critical_options: tuple[str, ...]
    signature_algorithm: str

    def why_refused(self, host: str, now_s: float) -> str:
        """Reason why the certificate is not valid for a host at this time; empty if it is valid."""
        if not self.is_of_host:
            return "its certificate is a user certificate"
        if self.signature_algorithm == "ssh-rsa":
            return "its certificate is signed with SHA-1"
        if now_s < self.after_s:
            return f"its certificate is not valid before {_date(self.after_s)}"
        if now_s >= self.before_s:
            return f"its certificate was valid until {_date(self.before_s)}"
        if self.critical_options:
            return (
                "its certificate has an unsupported critical option: "
                f"{one_line(self.critical_options[0])}"
            )
        if self.names and host not in self.names:
            return f"its certificate is for {one_line(', '.join(self.names))}"
        return ""


def parse_certificate(blob: bytes) -> HostCertificate:
    """Parse a certificate, and verify its signature.

    Args:
        blob: The certificate in the wire format of SSH.

    Raises:
        ValueError: the certificate is malformed, of an unknown kind, or not signed by its
            authority.
    """
    kind = _string(blob, 0)[0]
    try:
        loaded = load_ssh_public_identity(kind + b" " + base64.b64encode(blob))
        if not isinstance(loaded, SSHCertificate):
            raise ValueError("not a certificate")
        loaded.verify_cert_signature()
        encoded = loaded.signature_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH)
    except InvalidSignature as exc:
        raise ValueError("its signature was not made with the authority's key") from exc
    except UnsupportedAlgorithm as exc:
        raise ValueError(str(exc)) from exc
    authority = base64.b64decode(encoded.split()[1])
    # The signature, which begins with the algorithm's name, follows the authority's key.
    signature, _ = _string(blob, blob.rindex(authority) + len(authority))
    return HostCertificate(
        authority=authority,
        is_of_host=loaded.type is SSHCertificateType.HOST,
        names=tuple(name.decode("utf-8", "replace") for name in loaded.valid_principals),
        after_s=loaded.valid_after,
        before_s=loaded.valid_before,
        critical_options=tuple(name.decode("utf-8", "replace") for name in loaded.critical_options),
        signature_algorithm=_string(signature, 0)[0].decode("ascii", "replace"),
    )


def strings_of(blob: bytes) -> list[bytes]:
    r"""Split a public key in SSH's wire format into its strings.

    Source: RFC 4251, section 5.

    Raises:
        ValueError: the key is truncated, or has more than `MAX_STRINGS` strings.

    >>> strings_of(b"\x00\x00\x00\x02ab\x00\x00\x00\x00")
    [b'ab', b'']
    """
    strings: list[bytes] = []
    offset = 0
    while offset < len(blob):
        if len(strings) == MAX_STRINGS:
            raise ValueError(f"more than {MAX_STRINGS} strings")
        text, offset = _string(blob, offset)
        strings.append(text)
    return strings


def _string(blob: bytes, offset: int) -> tuple[bytes, int]:
    """Read a length and the string after it; return the string, and the offset of its end."""
    start = offset + 4
    end = start + int.from_bytes(blob[offset:start], "big")
    if len(blob) < max(start, end):
        raise ValueError("truncated")
    return blob[start:end], end


def _date(time_s: int) -> str:
    try:
        return datetime.fromtimestamp(time_s, timezone.utc).strftime("%Y-%m-%d %H:%M UTC")
    except (OverflowError, ValueError, OSError):
        return "the end of time"
