"""Addresses of this machine where it may not list its interfaces."""

from __future__ import annotations

import ipaddress

import ifaddr
import pytest

from edgebench.agent.network import own_addresses


def test_agent_that_may_not_list_interfaces_knows_the_address_that_it_talks_from(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Pairing dies on Android and under proot, which deny it."""

    def deny() -> None:
        raise OSError("denied")

    listed = own_addresses()
    monkeypatch.setattr(ifaddr, "get_adapters", deny)
    found = own_addresses()
    assert set(found) <= set(listed)
    assert all(ipaddress.ip_address(one) for one in found)
