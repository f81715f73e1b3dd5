"""Identities and pairing strings."""

from __future__ import annotations

import base64
import hashlib
import ipaddress
from contextlib import suppress
from datetime import datetime, timezone

import pytest
from cryptography import x509
from hypothesis import example, given
from hypothesis import strategies as st

from edgebench.protocol.errors import UsageError
from edgebench.protocol.identity import (
    SECRET_BYTES,
    PairingString,
    der_of,
    fingerprint,
    new_identity,
    pairing_identity,
    parse_pairing_string,
)

PIN = "A" * 43
SECRET = "B" * 21 + "A"
ADDRESSES = st.lists(st.ip_addresses().map(str), min_size=1, max_size=4).map(tuple)
PAIRING_STRINGS = st.builds(
    PairingString,
    addresses=ADDRESSES,
    port=st.integers(1, 65535),
    fingerprint=st.binary(min_size=8, max_size=8).map(fingerprint),
    secret=st.binary(min_size=SECRET_BYTES, max_size=SECRET_BYTES),
)


def test_pairing_identity_is_the_same_bytes_twice() -> None:
    """Otherwise two ends would derive different certificates from one secret, and never pair."""
    first, second = (pairing_identity(b"sixteen bytes ok") for _ in range(2))
    assert first == second
    assert pairing_identity(b"sixteen bytes ko").certificate_pem != first.certificate_pem


def test_pairing_identity_is_the_same_in_every_version() -> None:
    """Otherwise a host of this version could not pair with an agent of another version."""
    assert pairing_identity(bytes(SECRET_BYTES)).fingerprint == (
        "sIj33HYh3eWCeeoSam3R7XIIigeF0A26JnvtA4c2A-8"
    )


def test_fresh_identities_differ_in_key_and_name() -> None:
    """Otherwise two hosts of one name would collide in OpenSSL's list of trusted names."""
    first, second = new_identity("board"), new_identity("board")
    assert first.key_pem != second.key_pem
    assert _subject(first.certificate_pem) != _subject(second.certificate_pem)
    assert all("board " in _subject(identity.certificate_pem) for identity in (first, second))


def test_identity_is_valid_whatever_the_clock_says() -> None:
    """Otherwise a board without a clock battery could not connect, or a certificate run out."""
    certificate = _decoded(new_identity("board").certificate_pem)
    assert certificate.not_valid_before_utc == datetime(1970, 1, 1, tzinfo=timezone.utc)
    assert certificate.not_valid_after_utc.year == 9999


def test_long_common_names_are_cut() -> None:
    """Otherwise a long host name would make a certificate that X.509 forbids.

    It allows 64 characters at most.
    """
    assert len(_subject(new_identity("n" * 200).certificate_pem)) <= 64


def test_fingerprint_is_the_digest_of_the_certificate() -> None:
    """Otherwise a pin would pin something other than the certificate."""
    identity = new_identity("board")
    digest = hashlib.sha256(der_of(identity.certificate_pem)).digest()
    assert base64.urlsafe_b64decode(identity.fingerprint + "=") == digest
    assert len(identity.fingerprint) == 43


@given(PAIRING_STRINGS)
@example(PairingString(("fe80::1",), 7747, PIN, bytes(16)))
@example(PairingString(("192.0.2.1", "2001:db8::1"), 1, PIN, bytes(range(16))))
def test_pairing_string_survives_being_printed(string: PairingString) -> None:
    """Otherwise a string that an agent prints could not be used on a host."""
    text = str(string)
    assert parse_pairing_string(text) == string
    assert parse_pairing_string(f"  {text}\n") == string
    assert not set(text) & set(" '\"\\$`&|;<>()!*?"), "it must survive a shell inside quotes"


def test_ipv6_addresses_are_bracketed_in_the_text_only() -> None:
    """Otherwise the port would be part of the address, or the brackets would reach the socket."""
    text = str(PairingString(("192.0.2.1", "2001:db8::1"), 7747, PIN, bytes(16)))
    assert text.startswith("edgebench://192.0.2.1,[2001:db8::1]:7747/")
    found = parse_pairing_string(text)
    assert [ipaddress.ip_address(address).version for address in found.addresses] == [4, 6]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "edgebench://",
        f"https://192.0.2.1:7747/{PIN}/{SECRET}",
        f"edgebench://192.0.2.1/{PIN}/{SECRET}",
        f"edgebench://192.0.2.1:0/{PIN}/{SECRET}",
        f"edgebench://192.0.2.1:65536/{PIN}/{SECRET}",
        f"edgebench://192.0.2.1:+1/{PIN}/{SECRET}",
        f"edgebench://192.0.2.1:٧٧/{PIN}/{SECRET}",
        f"edgebench://:7747/{PIN}/{SECRET}",
        f"edgebench://,:7747/{PIN}/{SECRET}",
        f"edgebench://192.0.2.1,:7747/{PIN}/{SECRET}",
        f"edgebench://[]:7747/{PIN}/{SECRET}",
        f"edgebench://192.0.2.1:7747/{PIN[1:]}/{SECRET}",
        f"edgebench://192.0.2.1:7747/{PIN}/{SECRET[1:]}",
        f"edgebench://192.0.2.1:7747/{PIN}/{SECRET}/",
        f"edgebench://192.0.2.1:7747/{PIN}/{SECRET}\nmore",
        f"edgebench://192.0.2.1:7747/{PIN[:-1]}=/{SECRET}",
        f"edgebench://192.0.2.1:7747/{PIN}/{SECRET[:-1]}é",
    ],
)
def test_damaged_pairing_strings_are_refused(text: str) -> None:
    """Otherwise half a string would lead to a wrong address, or to a traceback."""
    with pytest.raises(UsageError, match="not a pairing string"):
        parse_pairing_string(text)


@given(st.text(max_size=200))
def test_junk_is_never_a_pairing_string(text: str) -> None:
    """Otherwise text from a clipboard would raise an exception unknown to the command line."""
    with pytest.raises(UsageError):
        parse_pairing_string(text)


@given(string=PAIRING_STRINGS, position=st.integers(0, 300), junk=st.characters())
def test_one_wrong_character_is_refused_or_means_something_else(
    string: PairingString, position: int, junk: str
) -> None:
    """Otherwise a mistyped string would raise something other than a usage error."""
    text = str(string)
    at = position % len(text)
    with suppress(UsageError):
        found = parse_pairing_string(text[:at] + junk + text[at + 1 :])
        assert all(found.addresses)
        assert 0 < found.port < 65536


@pytest.mark.parametrize(
    "text",
    [
        "",
        "no certificate",
        "-----BEGIN CERTIFICATE-----\nAAAA",
        "-----BEGIN CERTIFICATE-----\n!!!!\n-----END CERTIFICATE-----",
        "-----BEGIN CERTIFICATE-----\nA\n-----END CERTIFICATE-----",
        "-----BEGIN CERTIFICATE-----\né\n-----END CERTIFICATE-----",
    ],
)
def test_text_without_a_certificate_is_refused(text: str) -> None:
    """Otherwise what a host sends as its certificate would raise an unexpected exception."""
    with pytest.raises(UsageError, match="certificate"):
        der_of(text)


def _subject(certificate_pem: str) -> str:
    (name,) = _decoded(certificate_pem).subject
    return str(name.value)


def _decoded(certificate_pem: str) -> x509.Certificate:
    return x509.load_pem_x509_certificate(certificate_pem.encode())
