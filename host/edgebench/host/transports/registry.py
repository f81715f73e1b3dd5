"""The list of transports."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from edgebench.host.transports.base import Transport
from edgebench.host.transports.local import LocalTransport
from edgebench.host.transports.tls import TlsTransport


def transports(
    identity_path: Callable[[], Path], agent_state: Path | None = None
) -> dict[str, Transport]:
    """Every way to reach an agent, by name.

    Args:
        identity_path: Gives the file with this host's key and certificate, which it makes if
            there is none.
        agent_state: State directory of the agent on this machine; None: the user's own.
    """
    every: tuple[Transport, ...] = (
        LocalTransport(agent_state),
        TlsTransport(identity_path),
    )
    return {transport.name: transport for transport in every}
