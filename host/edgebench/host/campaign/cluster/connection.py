"""The connection of a coordinator to its lab hosts, through a Dask scheduler."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Coroutine, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, TypeVar

from edgebench.host.campaign.cluster import messages as m
from edgebench.host.campaign.cluster.address import (
    CONNECT_TIMEOUT_S,
    ClusterAddress,
    configure_dask,
)
from edgebench.host.campaign.cluster.worker import RESOURCE_PREFIX, answer
from edgebench.host.campaign.journal import DeviceAtLab
from edgebench.host.this_host import software
from edgebench.protocol.errors import EdgebenchError, LabHostsUnreachable, LinkLost
from edgebench.protocol.text import one_line

LOOK_S = 0.5
"""Interval at which a call in progress looks whether the scheduler is gone."""
CALL_TIMEOUT_S = 20.0
"""Longest time for a call, beside the time for which it waits: files go over slow links."""
_BROKEN = (OSError, RuntimeError, LookupError, ValueError, asyncio.TimeoutError)
"""What Dask raises where a scheduler or worker is gone."""
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class LabDescription:
    """A lab host that is connected to the scheduler now."""

    name: str
    address: str
    """Address of its worker; a new one after each start."""
    version: str
    devices: tuple[m.DeviceOffer, ...]

    def offer(self, device: str) -> m.DeviceOffer | None:
        """Offer of a device, by name."""
        return next((one for one in self.devices if one.name == device), None)

    def device(self, name: str) -> DeviceAtLab:
        """A device that it offers, as the journal notes it."""
        offer = self.offer(name)
        return DeviceAtLab(self.name, *((offer.pin, offer.seat) if offer else ()))


class ClusterConnection:
    """Calls to lab hosts; from any thread. A scheduler that was away is connected to again."""

    def __init__(self, cluster: ClusterAddress) -> None:
        self._cluster = cluster
        self._client: Any = None
        self._known: dict[str, LabDescription] = {}
        """Lab hosts by the address of their worker."""
        self._loop = asyncio.new_event_loop()
        self._connecting = asyncio.Lock()
        self._thread = threading.Thread(target=self._loop.run_forever, name="dask", daemon=True)

    def __enter__(self) -> ClusterConnection:
        configure_dask()
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._wait_for(self._disconnect())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def connect(self) -> None:
        """Connect.

        Raises:
            LabHostsUnreachable: no scheduler answers there.
        """
        try:
            self._wait_for(self._connected())
        except LinkLost as exc:
            raise LabHostsUnreachable(str(exc)) from exc

    def labs(self) -> list[LabDescription]:
        """The lab hosts that are there, by name.

        Raises:
            LinkLost: the scheduler is not there.
        """
        return sorted(self._wait_for(self._labs()), key=lambda lab: lab.name)

    def call(
        self,
        lab: LabDescription,
        *request: m.ClusterMessage,
        payload: bytes = b"",
        wait_s: float = 0.0,
    ) -> tuple[list[m.ClusterMessage], bytes]:
        """The answer of a lab host.

        Raises:
            LinkLost: it is gone, or does not answer in time.
            EdgebenchError: what the lab host answers with.
        """
        called = self._call(lab.name, lab.address, request, payload, wait_s + CALL_TIMEOUT_S)
        return self._wait_for(called)

    def _wait_for(self, task: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(task, self._loop).result()

    async def _connected(self) -> Any:
        from distributed import Client

        async with self._connecting:
            if self._client is not None and self._client.status == "running":
                return self._client
            await self._disconnect()
            client: Any = Client(
                self._cluster.address,
                security=self._cluster.security(),
                timeout=CONNECT_TIMEOUT_S,
                asynchronous=True,
                set_as_default=False,
                name="edgebench",
            )
            try:
                await client
            except _BROKEN as exc:
                await _close(client)
                raise LinkLost(f"no scheduler answers at {self._cluster.address}") from exc
            self._client = client
            return client

    async def _disconnect(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            await _close(client)

    async def _labs(self) -> list[LabDescription]:
        client = await self._connected()
        try:
            identity = await asyncio.wait_for(
                client.scheduler.identity(n_workers=-1), CONNECT_TIMEOUT_S
            )
        except _BROKEN as exc:
            raise LinkLost(f"no scheduler answers at {self._cluster.address}") from exc
        workers = {
            address: str(worker["name"])
            for address, worker in identity["workers"].items()
            if any(name.startswith(RESOURCE_PREFIX) for name in worker["resources"])
        }
        self._known = {at: lab for at, lab in self._known.items() if at in workers}
        new = [at for at in workers if at not in self._known]
        for lab in await asyncio.gather(*(self._lab(workers[at], at) for at in new)):
            if lab is not None:
                self._known[lab.address] = lab
        return list(self._known.values())

    async def _lab(self, name: str, address: str) -> LabDescription | None:
        """What a lab host offers; None for one that is gone by now, or cannot say."""
        try:
            answers, _ = await self._call(name, address, [m.OffersQuery()], b"", CONNECT_TIMEOUT_S)
        except EdgebenchError:  # one that is out of order keeps nobody from the others
            return None
        [offers] = answers
        if not isinstance(offers, m.Offers):
            return None
        devices = offers.devices if offers.version == software() else ()
        return LabDescription(name, address, offers.version, devices)

    async def _call(
        self,
        name: str,
        address: str,
        request: Sequence[m.ClusterMessage],
        payload: bytes,
        timeout_s: float,
    ) -> tuple[list[m.ClusterMessage], bytes]:
        client = await self._connected()
        try:
            called = client.run(answer, m.pack(request), payload, workers=[address])
            answers, part = (await _while_connected(client, called, timeout_s))[address]
        except _BROKEN as exc:
            raise LinkLost(f"lab host {name} does not answer: {one_line(exc)}") from exc
        messages = m.unpack(answers)
        for failed in messages:
            if isinstance(failed, m.CallFailure):
                raise m.reported_error(failed.error)
        return messages, part


async def _while_connected(client: Any, called: Coroutine[Any, Any, T], timeout_s: float) -> T:
    """Wait for a call; Dask leaves some for ever whose scheduler died.

    Raises:
        OSError: the scheduler is gone.
        asyncio.TimeoutError: there is no answer in time.
    """
    deadline_s = time.monotonic() + timeout_s
    task = asyncio.ensure_future(called)
    try:
        while not task.done():
            if client.status != "running":
                raise OSError("connection to the scheduler lost")
            if time.monotonic() > deadline_s:
                raise asyncio.TimeoutError(f"no answer in {timeout_s:g} s")
            await asyncio.wait([task], timeout=LOOK_S)
        return task.result()
    finally:
        task.cancel()


async def _close(client: Any) -> None:
    with suppress(*_BROKEN):
        await asyncio.wait_for(client.close(), CONNECT_TIMEOUT_S)
