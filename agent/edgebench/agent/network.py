"""Addresses of this machine at which other machines can reach it."""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Iterable, Iterator
from contextlib import suppress

import ifaddr


def own_addresses() -> tuple[str, ...]:
    """Addresses of all interfaces except loopback and link-local addresses, IPv4 first."""
    adapters = _adapters()
    if adapters is None:
        return useful_addresses(_address_towards_others())
    return useful_addresses(
        str(entry.ip if entry.is_IPv4 else entry.ip[0])
        for adapter in adapters
        for entry in adapter.ips
    )


def may_list_interfaces() -> bool:
    """Whether the system lets this process list its interfaces."""
    return _adapters() is not None


def _adapters() -> list[ifaddr.Adapter] | None:
    try:
        return list(ifaddr.get_adapters())
    except OSError:  # denied to apps on Android
        return None


def _address_towards_others() -> Iterator[str]:
    """Local addresses from which the kernel would reach another machine; no packet is sent.

    The address of that machine is an address that is reserved for documentation. Source: RFC 5737
    and RFC 3849.
    """
    for family, other in ((socket.AF_INET, "192.0.2.1"), (socket.AF_INET6, "2001:db8::1")):
        with suppress(OSError), socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.connect((other, 9))
            yield str(probe.getsockname()[0])


def useful_addresses(addresses: Iterable[str]) -> tuple[str, ...]:
    """Addresses except loopback, link-local and unspecified addresses, IPv4 first."""
    useful: set[str] = set()
    for address in addresses:
        ip = ipaddress.ip_address(address)
        if not (ip.is_loopback or ip.is_link_local or ip.is_unspecified):
            useful.add(address)
    return tuple(sorted(useful, key=lambda address: (":" in address, address)))
