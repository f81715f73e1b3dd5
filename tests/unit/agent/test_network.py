"""Addresses of this machine where it may not list its interfaces."""

from __future__ import annotations

import ipaddress
from typing import Any

import ifaddr
import pytest
from zeroconf import InterfaceChoice, IPVersion

from edgebench.agent import advertise
from edgebench.agent.network import own_addresses


def test_agent_that_may_not_list_interfaces_knows_the_address_that_it_talks_from(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Otherwise pairing would fail on Android and under proot, which deny the list."""

    def deny() -> None:
        raise OSError("denied")

    listed = own_addresses()
    monkeypatch.setattr(ifaddr, "get_adapters", deny)
    found = own_addresses()
    assert set(found) <= set(listed)
    assert all(ipaddress.ip_address(one) for one in found)


@pytest.mark.parametrize("is_denied", [False, True], ids=["listed", "denied"])
def test_agent_that_may_not_list_interfaces_is_advertised_on_the_default_one(
    monkeypatch: pytest.MonkeyPatch, is_denied: bool
) -> None:
    """Otherwise the device would never be found: the mDNS library lists interfaces as well."""

    def deny() -> None:
        raise OSError("denied")

    if is_denied:
        monkeypatch.setattr(ifaddr, "get_adapters", deny)
    monkeypatch.setattr(advertise, "Zeroconf", lambda **options: options)
    responder: Any = advertise._responder(("10.0.0.9", "fd77::9"))
    if is_denied:
        assert responder == {
            "interfaces": InterfaceChoice.Default,
            "ip_version": IPVersion.V4Only,
        }
    else:
        assert responder == {"ip_version": IPVersion.All}
