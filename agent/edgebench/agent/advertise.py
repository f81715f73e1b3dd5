"""The agent's announcement on the local network: mDNS service `_edgebench._tcp`."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping

from zeroconf import (
    InterfaceChoice,
    IPVersion,
    NonUniqueNameException,
    ServiceInfo,
    Zeroconf,
)
from zeroconf.asyncio import AsyncZeroconf

from edgebench.agent.network import may_list_interfaces

SERVICE_TYPE = "_edgebench._tcp.local."
RETRY_S = 30.0
"""Interval of the attempts: a board often boots before its network does."""

logger = logging.getLogger(__name__)


async def advertise(
    addresses_now: Callable[[], tuple[str, ...]],
    port: int,
    fingerprint: str,
    properties: Mapping[str, str],
) -> None:
    """Advertise until cancelled; without a network, try again and again.

    The service name holds the agent's fingerprint, so it is unique by itself and the second of
    probing that the protocol otherwise asks for is skipped.
    """
    while True:
        if addresses_now():
            try:
                await _serve(addresses_now, port, fingerprint, properties)
            except (OSError, RuntimeError, NonUniqueNameException) as exc:
                logger.warning("not advertised on the network: %s", exc)
        await asyncio.sleep(RETRY_S)


async def _serve(
    addresses_now: Callable[[], tuple[str, ...]],
    port: int,
    fingerprint: str,
    properties: Mapping[str, str],
) -> None:
    addresses = addresses_now()
    name = f"edgebench-{fingerprint[:12]}"
    info = ServiceInfo(
        SERVICE_TYPE,
        f"{name}.{SERVICE_TYPE}",
        port=port,
        properties=dict(properties),
        server=f"{name}.local.",
        parsed_addresses=list(addresses),
    )
    zeroconf = AsyncZeroconf(zc=_responder(addresses))
    try:
        await zeroconf.async_register_service(info, cooperating_responders=True)
        while addresses_now() == addresses:
            await asyncio.sleep(RETRY_S)
    finally:
        await zeroconf.async_unregister_all_services()
        await zeroconf.async_close()


def _responder(addresses: tuple[str, ...]) -> Zeroconf:
    if not may_list_interfaces():  # the default one will do, which there is for IPv4 only
        return Zeroconf(interfaces=InterfaceChoice.Default, ip_version=IPVersion.V4Only)
    return Zeroconf(ip_version=_versions(addresses))


def _versions(addresses: tuple[str, ...]) -> IPVersion:
    has_v6 = any(":" in address for address in addresses)
    has_v4 = any(":" not in address for address in addresses)
    if has_v4 and has_v6:
        return IPVersion.All
    return IPVersion.V6Only if has_v6 else IPVersion.V4Only
