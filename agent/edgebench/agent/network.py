"""This machine's addresses, as another machine could use them."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable

import ifaddr


def own_addresses() -> tuple[str, ...]:
    """Addresses of all interfaces, without loopback and link-local ones, IPv4 first."""
    return useful_addresses(
        str(entry.ip if entry.is_IPv4 else entry.ip[0])
        for adapter in ifaddr.get_adapters()
        for entry in adapter.ips
    )


def useful_addresses(addresses: Iterable[str]) -> tuple[str, ...]:
    """Those of them that another machine could use."""
    useful: set[str] = set()
    for address in addresses:
        ip = ipaddress.ip_address(address)
        if not (ip.is_loopback or ip.is_link_local or ip.is_unspecified):
            useful.add(address)
    return tuple(sorted(useful, key=lambda address: (":" in address, address)))
