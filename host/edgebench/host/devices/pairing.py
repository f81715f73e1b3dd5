"""Complete a pairing: the host's side of `edgebench-agent pair`."""

from __future__ import annotations

import tempfile
from itertools import chain, count
from pathlib import Path

from edgebench.host.client import Client
from edgebench.host.devices.files import LOCAL_NAME, HostFiles, KnownDevice
from edgebench.host.this_host import host_name
from edgebench.host.transports.base import Endpoint
from edgebench.host.transports.link import Link
from edgebench.host.transports.registry import transports
from edgebench.host.transports.tls import TlsTransport
from edgebench.protocol.errors import NotPaired, WrongAgent
from edgebench.protocol.identity import PairingString, pairing_identity, parse_pairing_string
from edgebench.protocol.messages import Done, PairHost
from edgebench.protocol.pem import Pem


def pair(
    files: HostFiles, text: str, *, via: str = TlsTransport.name, deployed_to: str | None = None
) -> KnownDevice:
    """Pair with the agent that printed this string, and remember it.

    Args:
        files: This host's identity and devices.
        text: Pairing string.
        via: Name of the transport that reaches the agent.
        deployed_to: Account that the agent was installed in; None where it was not by `deploy`.

    Raises:
        UsageError: not a pairing string.
        NotPaired: the string was used before, or is older than ten minutes.
        Unreachable: nobody answers at its addresses.
    """
    string = parse_pairing_string(text)
    identity_pem = files.identity_path().read_text()
    certificate_pem = Pem(identity_pem[identity_pem.index("-----BEGIN CERTIFICATE") :])
    with (
        tempfile.TemporaryDirectory(prefix="edgebench-") as folder,
        Client(_connect_once(string, via, Path(folder) / "once.pem")) as client,
    ):
        client.ask(PairHost(certificate_pem, host_name()), Done)
        device = KnownDevice(
            name=_free_name(files, client.device.name, string.fingerprint),
            id=client.device.id,
            pin=string.fingerprint,
            addresses=string.addresses,
            port=string.port,
            deployed_to=deployed_to,
            via=via,
            arch=client.device.arch,
        )
    files.remember(device)
    return device


def _connect_once(string: PairingString, via: str, once: Path) -> Link:
    """Connect with the string's one-time identity."""
    identity = pairing_identity(string.secret)
    once.touch(mode=0o600)
    once.write_text(identity.key_pem + identity.certificate_pem)
    try:
        endpoint = Endpoint("device", string.fingerprint, string.addresses, string.port)
        return transports(lambda: once)[via].connect(endpoint)
    except WrongAgent as exc:  # nobody there has seen the string yet
        raise WrongAgent(f"PIN is mistyped, or another agent printed the string: {exc}") from exc
    except NotPaired as exc:
        reasons = "its SECRET is mistyped, was used already, or is older than ten minutes"
        raise NotPaired(f"pairing string was refused: {reasons}") from exc


def _free_name(files: HostFiles, name: str, pin: str) -> str:
    """The device's own name, with a number where another device has it already."""
    taken = {known.name for known in files.devices() if known.pin != pin} | {LOCAL_NAME}
    numbered = (f"{name}-{number}" for number in count(2))
    return next(free for free in chain([name], numbered) if free not in taken)
