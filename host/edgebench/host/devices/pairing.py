"""Complete a pairing: the host's side of `edgebench-agent pair`."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from edgebench.host.client import Client
from edgebench.host.devices.board_check import require_board
from edgebench.host.devices.files import HostFiles, KnownDevice
from edgebench.host.this_host import host_name
from edgebench.host.transports.base import Endpoint
from edgebench.host.transports.link import Link
from edgebench.host.transports.registry import transports
from edgebench.host.transports.tls import TlsTransport
from edgebench.protocol.errors import EdgebenchError, NotPaired, WrongAgent
from edgebench.protocol.identity import PairingString, pairing_identity, parse_pairing_string
from edgebench.protocol.messages import Done, PairHost
from edgebench.protocol.pem import Pem

Decide = Callable[[KnownDevice, bool], bool]
"""Function that returns whether an agent replaces the given known device. The second argument is
true if the agent and the known device report the same board. It is false if they only have the same
machine id; boards with copies of the same SD card also have the same machine id."""


@dataclass(frozen=True, slots=True)
class Pairing:
    """The result of a pairing."""

    device: KnownDevice
    replaced: KnownDevice | None
    """Known device that the paired device replaces; the paired device takes over its name. None if
    the paired device is new, or was already paired."""


def pair(
    files: HostFiles,
    text: str | PairingString,
    *,
    via: str = TlsTransport.name,
    deployed_to: str | None = None,
    identity_file: str = "",
    decide: Decide | None = None,
) -> Pairing:
    """Pair with the agent that printed this string, and store the device.

    Args:
        files: This host's identity and devices.
        text: Pairing string, or its parsed parts if its format cannot express the address.
        via: Name of the transport that reaches the agent.
        deployed_to: Account in which `deploy` installed the agent; None if it was not deployed.
        identity_file: Private key with which the transport logs in, as in `KnownDevice`.
        decide: Called if the agent seems to be on the board of a known device that does not
            respond. (A board that was set up again has a new certificate.) Nothing has changed
            before this call. If `decide` raises an error, the string remains valid for another
            attempt. With None, the agent counts as a new device, and known devices are not checked.

    Raises:
        UsageError: not a pairing string.
        NotPaired: the string was used before, or is older than ten minutes.
        WrongBoard: the agent has the identity of a known device, but runs on a different board.
        Unreachable: no agent responds at the addresses.
    """
    string = parse_pairing_string(text) if isinstance(text, str) else text
    identity_pem = files.identity_path().read_text()
    certificate_pem = Pem(identity_pem[identity_pem.index("-----BEGIN CERTIFICATE") :])
    with (
        tempfile.TemporaryDirectory(prefix="edgebench-") as folder,
        Client(_connect_once(string, via, identity_file, Path(folder) / "once.pem")) as client,
    ):
        for known in files.devices():
            if known.pin == string.fingerprint:
                require_board(known, client.hardware, string.addresses[0])
        replaced = _on_same_board(files, client, string.fingerprint) if decide else None
        if decide and replaced and not decide(replaced, bool(client.board and replaced.board)):
            replaced = None
        client.ask(PairHost(certificate_pem, host_name()), Done)
        free = files.free_name(client.device.name, string.fingerprint)
        device = KnownDevice(
            name=replaced.name if replaced else free,
            id=client.device.id,
            pin=string.fingerprint,
            addresses=string.addresses,
            port=string.port,
            deployed_to=deployed_to,
            via=via,
            identity_file=identity_file,
            arch=client.device.arch,
            board=client.board,
            hardware=client.hardware,
        )
    files.remember(device)
    return Pairing(device, replaced)


def _on_same_board(files: HostFiles, client: Client, pin: str) -> KnownDevice | None:
    """Find the known device whose board seems to run this agent after a new setup.

    Known devices that still respond with their own certificate are skipped, because they were not
    set up again. Such a device is a second agent on the same machine, or a board whose SD card was
    copied.
    """
    for known in files.devices():
        boards = {known.board, client.board}
        is_same = known.id == client.device.id if "" in boards else len(boards) == 1
        if is_same and known.pin != pin and not _answers(files, known):
            return known
    return None


def _answers(files: HostFiles, known: KnownDevice) -> bool:
    try:
        transports(files.identity_path)[known.via].connect(known.endpoint).close()
    except (EdgebenchError, KeyError):  # written by a newer version with more transports
        return False
    return True


def _connect_once(string: PairingString, via: str, identity_file: str, once: Path) -> Link:
    identity = pairing_identity(string.secret)
    once.touch(mode=0o600)
    once.write_text(identity.key_pem + identity.certificate_pem)
    try:
        endpoint = Endpoint(
            "device", string.fingerprint, string.addresses, string.port, identity_file
        )
        return transports(lambda: once)[via].connect(endpoint)
    except WrongAgent as exc:  # the string was not sent, so it remains valid
        raise WrongAgent(f"PIN is mistyped, or another agent printed the string: {exc}") from exc
    except NotPaired as exc:
        reasons = (
            "the SECRET in the string is mistyped, was used already, or is older than ten minutes"
        )
        raise NotPaired(f"pairing string was refused: {reasons}") from exc
