"""The list of transports."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from edgebench.host.transports.adb import AdbTransport
from edgebench.host.transports.base import Transport
from edgebench.host.transports.local import LocalTransport
from edgebench.host.transports.ssh import SshTransport
from edgebench.host.transports.tls import TlsTransport


def transports(
    identity_path: Callable[[], Path],
    agent_state: Path | None = None,
    *,
    any_environment: bool = False,
) -> dict[str, Transport]:
    """All transports, by name.

    Args:
        identity_path: Returns the path of the file with this host's key and certificate. Creates
            the file if it does not exist.
        agent_state: State directory of the agent on this machine. None selects the default
            directory of this user.
        any_environment: Whether the agent on this machine may run in another Python environment
            than this process. True only if nothing is measured.
    """
    every: tuple[Transport, ...] = (
        LocalTransport(agent_state, any_environment=any_environment),
        TlsTransport(identity_path),
        AdbTransport(identity_path),
        SshTransport(identity_path),
    )
    return {transport.name: transport for transport in every}
