"""Where a scheduler listens, as people write it."""

from __future__ import annotations

import pytest

from edgebench.host.campaign.cluster.address import ClusterAddress
from edgebench.protocol.errors import UsageError


@pytest.mark.parametrize("port", ["0", "65536", "87860", "-1", "x", "", "1" * 5000])
def test_port_that_is_none_is_refused(port: str) -> None:
    """A digit too many ends in a traceback of the system, once the lab host has started."""
    with pytest.raises(UsageError, match=r"cluster (address|port) must be"):
        ClusterAddress(f"tcp://127.0.0.1:{port}")


def test_address_has_a_host_and_a_port() -> None:
    """Brackets of IPv6 are taken for a part of the name."""
    address = ClusterAddress("tcp://[::1]:65535")
    assert (address.host, address.port) == ("::1", 65535)
