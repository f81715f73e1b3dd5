"""Decide by the user's and the system's `known_hosts` files whether a host key is trusted.

Theory of operation. A line is `[marker] names type base64 [comment]`. Lines for other hosts are
ignored, even if they are malformed. The key in a line without a marker is trusted. Host
certificates that are signed by the key in a line with `@cert-authority` are trusted. The key in a
line with `@revoked` is rejected, as a host's key and as an authority's key, regardless of other
lines. If the authority of a certificate is not trusted, the key in the certificate is checked like
a key without a certificate. If no line names the host with its port, lines that name the host
without a port are used. Files that cannot be read count as empty. The files are never written.

Sources: sshd(8), "SSH_KNOWN_HOSTS FILE FORMAT". The order of decisions is from OpenSSH 9.2:

- `hostfile.c` (hostkeys_foreach_file, check_hostkeys_by_key_or_type)
- `sshconnect.c` (check_host_key)
- `sshconnect2.c` (order_hostkeyalgs)
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from fnmatch import fnmatchcase
from pathlib import Path

from edgebench.host.devices.host_certificate import HostCertificate, strings_of
from edgebench.protocol.text import one_line

DEFAULT_PORT = 22
CERTIFICATE_SUFFIX = "-cert-v01@openssh.com"
MAX_FILE_BYTES = 64 * 2**20
"""Maximum number of bytes that are read from a file; 64 MiB hold about 500,000 hosts."""

_FIELD_COUNTS = {
    "ssh-ed25519": 2,
    "ecdsa-sha2-nistp256": 3,
    "ecdsa-sha2-nistp384": 3,
    "ecdsa-sha2-nistp521": 3,
    "ssh-rsa": 3,
    "sk-ssh-ed25519@openssh.com": 3,
    "sk-ecdsa-sha2-nistp256@openssh.com": 4,
    "ssh-dss": 5,
}
"""Maps each type of key to its number of strings in the wire format, including the type. Sources:
RFC 4253 section 6.6, RFC 5656 section 3.1, RFC 8709 section 4, OpenSSH PROTOCOL.u2f."""
_ALGORITHMS = (
    ("ssh-ed25519", "ssh-ed25519"),
    ("ecdsa-sha2-nistp256", "ecdsa-sha2-nistp256"),
    ("ecdsa-sha2-nistp384", "ecdsa-sha2-nistp384"),
    ("ecdsa-sha2-nistp521", "ecdsa-sha2-nistp521"),
    ("rsa-sha2-512", "ssh-rsa"),
    ("rsa-sha2-256", "ssh-rsa"),
)
"""Signature algorithms in order of preference, each with the type of its key. They are the
algorithms of OpenSSH's HostKeyAlgorithms that paramiko also supports."""


class Marker(Enum):
    """Marker at the start of a `known_hosts` line; a line with an ordinary key has no marker."""

    NONE = ""
    AUTHORITY = "@cert-authority"
    REVOKED = "@revoked"


class KeyTrust(Enum):
    """Whether a key is trusted, according to the `known_hosts` files."""

    TRUSTED = "trusted"
    UNKNOWN = "unknown"
    CHANGED = "changed"
    REVOKED = "revoked"


@dataclass(frozen=True, slots=True)
class HostLine:
    """A line of a `known_hosts` file that names the host."""

    place: str
    """File name and line number, such as `/home/pi/.ssh/known_hosts line 3`."""
    marker: Marker
    key_type: str
    key: bytes
    """Public key in the wire format of SSH."""


@dataclass(frozen=True, slots=True)
class HostLines:
    """All lines, of any file, that name a host."""

    lines: tuple[HostLine, ...]
    faults: tuple[str, ...]
    """Files that cannot be read, and malformed lines that name the host."""

    def marked(self, marker: Marker) -> Iterator[HostLine]:
        """The lines with the given marker."""
        return (line for line in self.lines if line.marker is marker)


@dataclass(frozen=True, slots=True)
class HostKey:
    """A public key that a host has presented, with proof that it owns the private key."""

    key: bytes
    """Public key without a certificate, in the wire format of SSH."""
    certificate: HostCertificate | None = None


@dataclass(frozen=True, slots=True)
class Decision:
    """Decision about a key, with the line of a `known_hosts` file that determines it."""

    trust: KeyTrust
    line: HostLine | None = None
    """The line that decides; None if no line for the host applies to the key."""
    reason: str = ""
    """Reason why a certificate was ignored, or why a line was ignored that would have led to a
    different decision."""


@dataclass(frozen=True, slots=True)
class KnownHosts:
    """The files in which a user and a system keep the keys of hosts."""

    paths: Sequence[Path]

    def lines_of(self, name: str) -> HostLines:
        """Lines of the files for a host.

        Args:
            name: Name or address of the host; `[name]:port` for any port other than 22.
        """
        lines: list[HostLine] = []
        faults: list[str] = []
        for path in self.paths:
            try:
                with path.open("rb") as file:
                    content = file.read(MAX_FILE_BYTES)
            except FileNotFoundError:
                continue
            except OSError as exc:
                faults.append(f"{path}: {one_line(exc.strerror or exc)}")
                continue
            for number, text in enumerate(content.split(b"\n"), 1):
                place = f"{path} line {number}"
                parsed = _parse(text, name.lower(), place)
                if isinstance(parsed, HostLine):
                    lines.append(parsed)
                elif parsed is not None:
                    faults.append(f"{place}: {parsed}")
        return HostLines(tuple(lines), tuple(faults))

    def algorithms(self, host: str, port: int) -> tuple[str, ...]:
        """Host key algorithms to offer to a server, with the algorithms of known keys first."""
        lines = self.lines_of(host_name(host, port))
        known = {line.key_type for line in lines.marked(Marker.NONE)}
        has_authority = any(lines.marked(Marker.AUTHORITY))
        certificates = [(name + CERTIFICATE_SUFFIX, kind) for name, kind in _ALGORITHMS]
        if _ALGORITHMS[0][1] in known:
            return tuple(name for name, _ in (*certificates, *_ALGORITHMS))
        first = [name for name, kind in certificates if has_authority or kind in known]
        first += [name for name, kind in _ALGORITHMS if kind in known]
        rest = [name for name, _ in (*certificates, *_ALGORITHMS) if name not in first]
        return (*first, *rest)

    def decide(self, host: str, port: int, presented: HostKey, now_s: float) -> Decision:
        """Decide whether a key that a host presents is trusted.

        Args:
            host: Name or address, as typed by the user.
            port: Port of the host's SSH server.
            presented: The key.
            now_s: Current time in seconds since 1970, for the validity of a certificate.
        """
        lines = self.lines_of(host_name(host, port))
        refusal = ""
        if presented.certificate is not None:
            decision = self._decide(host, port, presented, lines, now_s)
            if decision.trust in (KeyTrust.TRUSTED, KeyTrust.REVOKED):
                return decision
            refusal, presented = decision.reason, HostKey(presented.key)
        decision = self._decide(host, port, presented, lines, now_s)
        if decision.trust in (KeyTrust.TRUSTED, KeyTrust.REVOKED):
            return decision
        if not refusal and (authority := next(lines.marked(Marker.AUTHORITY), None)):
            refusal = f"{authority.place} accepts only certificates of an authority, but the host "
            refusal += "has no certificate of this authority"
        return Decision(
            decision.trust, decision.line, "; ".join(filter(None, (refusal, *lines.faults)))
        )

    def _decide(
        self, host: str, port: int, presented: HostKey, lines: HostLines, now_s: float
    ) -> Decision:
        """Decide by the given lines whether a certificate, or a plain key, is trusted."""
        certificate = presented.certificate
        authority = None if certificate is None else certificate.authority
        for line in lines.marked(Marker.REVOKED):
            if line.key in (presented.key, authority):
                return Decision(KeyTrust.REVOKED, line)
        decision = Decision(KeyTrust.UNKNOWN)
        marker = Marker.NONE if certificate is None else Marker.AUTHORITY
        for line in lines.marked(marker):
            if certificate is None and line.key != presented.key:
                decision = Decision(KeyTrust.CHANGED, line)
            elif certificate is None:
                return Decision(KeyTrust.TRUSTED, line)
            elif line.key == authority:
                if reason := certificate.why_refused(host.lower(), now_s):
                    return Decision(KeyTrust.CHANGED, line, f"{reason} ({line.place})")
                return Decision(KeyTrust.TRUSTED, line)
        if decision.trust is KeyTrust.UNKNOWN and port != DEFAULT_PORT:
            without_port = self.decide(host, DEFAULT_PORT, presented, now_s)
            if without_port.trust is KeyTrust.TRUSTED:
                return without_port
        return decision


def host_name(host: str, port: int) -> str:
    """Name under which `known_hosts` files list a host and port.

    >>> host_name("pi.local", 22), host_name("fe80::1", 2222)
    ('pi.local', '[fe80::1]:2222')
    """
    return host if port == DEFAULT_PORT else f"[{host}]:{port}"


def _parse(text: bytes, name: str, place: str) -> HostLine | str | None:
    """Parse a line for the host, or return its fault; None if the line is for other hosts."""
    # OpenSSH reads a line as a C string, so it ends at the first NUL.
    words = text.partition(b"\0")[0].decode("latin-1").replace("\t", " ").split(" ")
    words = [word for word in words if word.strip("\r")]
    marker = Marker.NONE
    if words and words[0].startswith("@"):
        try:
            marker = Marker(words.pop(0))
        except ValueError:  # a marker of a later version, which OpenSSH also ignores
            return None
    if not words or words[0].startswith("#") or not _names(words[0], name):
        return None
    if len(words) < 3:
        return "no key"
    key_type, encoded = words[1].rstrip("\r"), words[2].rstrip("\r")
    if key_type not in _FIELD_COUNTS:
        return f"unknown type of key: {one_line(key_type)}"
    try:
        key = base64.b64decode(encoded, validate=True)
        fields = strings_of(key)
    except (binascii.Error, ValueError):
        return "malformed key"
    if len(fields) != _FIELD_COUNTS[key_type] or fields[0] != key_type.encode():
        return "malformed key"
    return HostLine(place, marker, key_type, key)


def _names(patterns: str, name: str) -> bool:
    """Whether the first field of a line names a host.

    >>> _names("*.lab,!old.lab", "pi.lab"), _names("*.lab,!old.lab", "old.lab")
    (True, False)
    """
    if patterns.startswith("|"):
        return _is_hash_of(patterns, name)
    is_named = False
    for pattern in patterns.lower().split(","):
        # OpenSSH has no character sets: a bracket matches itself.
        glob = pattern.removeprefix("!").replace("[", "[[]")
        if glob and fnmatchcase(name, glob):
            if pattern.startswith("!"):
                return False
            is_named = True
    return is_named


def _is_hash_of(hashed: str, name: str) -> bool:
    """Whether `|1|SALT|DIGEST`, with SALT and DIGEST in base64, is the HMAC-SHA1 of a name."""
    parts = hashed.split("|")
    try:
        _, version, salt, digest = parts
        expected = base64.b64decode(digest, validate=True)
        digest_of_name = hmac.new(
            base64.b64decode(salt, validate=True), name.encode(), hashlib.sha1
        ).digest()
    except ValueError:
        return False
    return version == "1" and hmac.compare_digest(digest_of_name, expected)
