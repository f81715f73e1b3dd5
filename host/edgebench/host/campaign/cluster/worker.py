"""A lab host as a worker of a Dask scheduler: its devices are the worker's resources."""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from edgebench.host.campaign.cluster.address import (
    CONNECT_TIMEOUT_S,
    ClusterAddress,
    configure_dask,
)

if TYPE_CHECKING:
    from edgebench.host.campaign.cluster.lab import LabService

RECONNECT_S = 1.0
"""Pause before the scheduler is tried again."""
RESOURCE_PREFIX = "device:"
"""Prefix of the resources that are devices."""
NAME_TAKEN = "name taken"
"""What a scheduler answers to the second worker of a name; Source: distributed 2026.8.0,
`Scheduler.add_worker`."""
SERVICE = "edgebench_lab"
"""Attribute of a Dask worker that leads to the lab host."""


async def answer(request: bytes, payload: bytes, dask_worker: Any) -> tuple[bytes, bytes]:
    """Answer a call in a worker, in a thread, while others are answered.

    Raises:
        LookupError: the worker is no lab host.
    """
    service: LabService | None = getattr(dask_worker, SERVICE, None)
    if service is None:
        raise LookupError("this worker is no lab host of edgebench")
    loop = asyncio.get_running_loop()
    return await loop.run_in_executor(service.pool, service.answer, request, payload)


def work_for(
    service: LabService,
    cluster: ClusterAddress,
    *,
    name: str,
    host: str | None,
    on_connected: Callable[[], None],
    on_away: Callable[[str], None],
) -> None:
    """Be a lab host until Ctrl-C; a scheduler that goes away is waited for.

    Args:
        service: What answers.
        cluster: The scheduler.
        name: Name of the lab host, which no other one has.
        host: Address of this host at which the scheduler reaches it; None: Dask finds one.
        on_connected: The scheduler has taken us.
        on_away: It is not there or does not take us, for this reason; called again where the
            reason is another one.

    Raises:
        UsageError: Dask is not installed.
    """
    configure_dask()
    asyncio.run(_work(service, cluster, name, host, on_connected, on_away))


async def _find_scheduler(cluster: ClusterAddress) -> None:
    """Connect once: Dask's worker tries for ever, and does not say that nobody answers.

    Raises:
        OSError: nobody does.
        asyncio.TimeoutError: not in time.
    """
    opened = asyncio.open_connection(cluster.host, cluster.port)
    _, writer = await asyncio.wait_for(opened, CONNECT_TIMEOUT_S)
    writer.close()


def why_away(exc: BaseException) -> str:
    """Why the scheduler cannot be reached, for people.

    >>> why_away(ConnectionRefusedError(111, "Connect call failed ('127.0.0.1', 8786)"))
    'Connection refused'
    """
    errno, text = (exc.errno, exc.strerror) if isinstance(exc, OSError) else (None, None)
    if errno is not None and errno > 0:  # those of the resolver are no numbers of the system
        return os.strerror(errno)
    if isinstance(exc, asyncio.TimeoutError):
        return f"no answer within {CONNECT_TIMEOUT_S:g} s"
    return text or str(exc) or type(exc).__name__


async def _work(
    service: LabService,
    cluster: ClusterAddress,
    name: str,
    host: str | None,
    on_connected: Callable[[], None],
    on_away: Callable[[str], None],
) -> None:
    from distributed import Worker

    reported: str | None = None
    folder = service.scratch
    while True:
        worker = None
        shutil.rmtree(folder, ignore_errors=True)  # that of a worker that was killed
        try:
            await _find_scheduler(cluster)
            folder.mkdir(parents=True)
            worker = Worker(
                cluster.address,
                name=name,
                host=host,
                security=cluster.security(),
                resources={f"{RESOURCE_PREFIX}{offer.name}": 1 for offer in service.offers},
                nthreads=1,
                memory_limit=0,
                dashboard=False,
                local_directory=str(folder),
            )
            setattr(worker, SERVICE, service)
            await worker
            on_connected()
            reported = None
            await worker.finished()
            reason = f"no scheduler at {cluster.address}: connection lost"
        except (OSError, RuntimeError, ValueError, asyncio.TimeoutError) as exc:
            why = why_away(exc.__cause__ or exc)
            reason = f"no scheduler at {cluster.address}: {why}"
            if NAME_TAKEN in why:
                reason = f"another lab host at {cluster.address} is called {name}: --name NAME"
        finally:
            if worker is not None:
                with suppress(OSError, RuntimeError, asyncio.TimeoutError):
                    await worker.close(timeout=2, executor_wait=False)
            shutil.rmtree(folder, ignore_errors=True)
        if reason != reported:
            on_away(reason)
            reported = reason
        await asyncio.sleep(RECONNECT_S)
