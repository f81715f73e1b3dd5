"""Where a scheduler listens, as users write it."""

from __future__ import annotations

import pytest

from edgebench.host.campaign.cluster.address import ClusterAddress
from edgebench.protocol.errors import UsageError


@pytest.mark.parametrize("port", ["0", "65536", "87860", "-1", "x", "", "1" * 5000])
def test_port_that_is_none_is_refused(port: str) -> None:
    """Otherwise a digit too many would end in a system traceback once the lab host has started."""
    with pytest.raises(UsageError, match=r"cluster (address|port) must be"):
        ClusterAddress(f"tcp://127.0.0.1:{port}")


def test_address_has_a_host_and_a_port() -> None:
    """Otherwise brackets of IPv6 would be taken for a part of the name."""
    address = ClusterAddress("tcp://[::1]:65535")
    assert (address.host, address.port) == ("::1", 65535)
