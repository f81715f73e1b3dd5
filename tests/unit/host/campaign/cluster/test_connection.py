"""Lab hosts that are asked what they offer."""

from __future__ import annotations

import asyncio

import pytest

from edgebench.host.campaign.cluster import messages as m
from edgebench.host.campaign.cluster.address import ClusterAddress
from edgebench.host.campaign.cluster.connection import ClusterConnection
from edgebench.protocol.errors import EdgebenchError, LinkLost, RemoteProtocolError, StoreError


@pytest.mark.parametrize("error", [LinkLost("gone"), RemoteProtocolError("?"), StoreError("full")])
def test_lab_out_of_order_is_left_out(
    error: EdgebenchError, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One lab host of another version, or with a full disk, keeps the campaign from all others."""

    async def call(*_: object) -> tuple[list[m.ClusterMessage], bytes]:
        raise error

    connection = ClusterConnection(ClusterAddress("tcp://127.0.0.1:1"))
    monkeypatch.setattr(connection, "_call", call)
    assert asyncio.run(connection._lab("rack-1", "tcp://127.0.0.1:2")) is None
