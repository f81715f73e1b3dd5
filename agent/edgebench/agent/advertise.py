"""Advertises the agent on the local network as the mDNS service `_edgebench._tcp`."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass

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
"""Interval between attempts to advertise. Several attempts may be needed, because a board often
boots before its network is up."""

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Advertisement:
    """The content of the mDNS announcement."""

    addresses: tuple[str, ...]
    """Addresses at which other machines reach the agent; empty if there is no network."""
    properties: Mapping[str, str]
    """Content of the service's TXT record."""


async def advertise(
    now: Callable[[], Advertisement], port: int, name: str, *, changed: asyncio.Event
) -> None:
    """Advertise until cancelled; while there is no network, retry at intervals of `RETRY_S`.

    The service name is unique, because it contains a value that only this agent has. The agent
    therefore skips mDNS's check for name conflicts, which takes a second.

    Args:
        now: Function that returns the current content of the announcement.
        port: Port of the agent.
        name: Unique name of the agent. Even agents with a copied identity have different names.
        changed: Event that is set when the content may have changed. The content, with the
            addresses, is also checked regularly.
    """
    while True:
        if (advertisement := now()).addresses:
            try:
                await _serve(advertisement, now, port, name, changed)
            except (OSError, RuntimeError, NonUniqueNameException) as exc:
                logger.warning("not advertised on the network: %s", exc)
        await asyncio.sleep(RETRY_S)


async def _serve(
    announced: Advertisement,
    now: Callable[[], Advertisement],
    port: int,
    name: str,
    changed: asyncio.Event,
) -> None:
    """Announce until the addresses change."""

    def info(advertisement: Advertisement) -> ServiceInfo:
        return ServiceInfo(
            SERVICE_TYPE,
            f"edgebench-{name}.{SERVICE_TYPE}",
            port=port,
            properties=dict(advertisement.properties),
            server=f"edgebench-{name}.local.",
            parsed_addresses=list(advertisement.addresses),
        )

    zeroconf = AsyncZeroconf(zc=_responder(announced.addresses))
    try:
        await zeroconf.async_register_service(info(announced), cooperating_responders=True)
        while (current := now()).addresses == announced.addresses:
            if current != announced:
                await zeroconf.async_update_service(info(current))
                announced = current
            with suppress(asyncio.TimeoutError):
                await asyncio.wait_for(changed.wait(), RETRY_S)
    finally:
        await zeroconf.async_unregister_all_services()
        await zeroconf.async_close()


def _responder(addresses: tuple[str, ...]) -> Zeroconf:
    if not may_list_interfaces():  # the default interface, which is IPv4 only
        return Zeroconf(interfaces=InterfaceChoice.Default, ip_version=IPVersion.V4Only)
    return Zeroconf(ip_version=_versions(addresses))


def _versions(addresses: tuple[str, ...]) -> IPVersion:
    has_v6 = any(":" in address for address in addresses)
    has_v4 = any(":" not in address for address in addresses)
    if has_v4 and has_v6:
        return IPVersion.All
    return IPVersion.V6Only if has_v6 else IPVersion.V4Only
