"""The lease of a device, which is the right to measure: take it, wait for it, or stop a run."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial

from edgebench.host.bench import events
from edgebench.host.bench.cancellation import Cancellation
from edgebench.host.bench.events import Notify
from edgebench.host.client import Client
from edgebench.host.this_host import host_name
from edgebench.protocol.errors import LeaseHeld, LinkTimeout, UsageError
from edgebench.protocol.spec import MAX_LENGTH_S

REPORT_INTERVAL_S = 10.0
"""Interval of the reports while waiting for a device; also the longest wait of a lease request.

Each request is a message to a device that is measuring; at this interval, requests are no more
frequent than the pings of the connection."""
STOP_TIMEOUT_S = 60.0
"""Longest wait for the end of a stopped run; the agent kills the run's worker after 20 s."""
STOP_POLL_S = 0.1


def check_wait(wait_s: float) -> None:
    """Check that a waiting time is within its limits.

    Raises:
        UsageError: the time is negative, NaN, or longer than 7 days.
    """
    if not 0 <= wait_s <= MAX_LENGTH_S:
        raise UsageError(f"wait must be 0 to {MAX_LENGTH_S:g} s (7 days), got {wait_s:.10g} s")


def open_when_free(
    open_client: Callable[[], Client],
    device: str,
    wait_s: float,
    notify: Notify,
    cancellation: Cancellation,
) -> Client:
    """Connect to a device; wait while its agent serves a command from another Python environment.

    Args:
        open_client: Function that connects to the device.
        device: Name of the device.
        wait_s: Longest wait; 0 means no wait.
        notify: See `take_lease`.
        cancellation: See `take_lease`.

    Raises:
        Interrupted: the command was cancelled.
        LeaseHeld: the agent is still in use after the wait.
    """
    clients: list[Client] = []

    def attempt(_: float) -> LeaseHeld | None:
        try:
            clients.append(open_client())
        except LeaseHeld as exc:
            return exc
        return None

    _wait_until_free(attempt, device, wait_s, notify, cancellation)
    return clients[0]


def take_lease(
    client: Client,
    device: str,
    wait_s: float,
    notify: Notify,
    cancellation: Cancellation,
    *,
    check: Callable[[], None] | None = None,
) -> None:
    """Take the lease of a device; if another command holds it, wait.

    Args:
        client: The connection to the device.
        device: Name that the user has given to the device.
        wait_s: Longest wait; 0 means no wait.
        notify: Called during a wait: once with the holder of the lease, then at intervals with the
            elapsed time.
        cancellation: Checked before each request, and so at least every `REPORT_INTERVAL_S`.
        check: Called once if another command holds the device. If the device cannot fulfil the
            request, `check` may raise an error, which prevents the wait.

    Raises:
        Interrupted: the command was cancelled.
        LeaseHeld: another client still holds the lease after the wait.
    """
    attempt = partial(try_lease, client, device)
    _wait_until_free(attempt, device, wait_s, notify, cancellation, check=check)


def _wait_until_free(
    attempt: Callable[[float], LeaseHeld | None],
    device: str,
    wait_s: float,
    notify: Notify,
    cancellation: Cancellation,
    *,
    check: Callable[[], None] | None = None,
) -> None:
    """Repeat `attempt`, whose argument is a waiting time, until success or the end of `wait_s`."""
    cancellation.check()
    begin_s = time.monotonic()
    refusal = attempt(0.0)
    if refusal is not None and check is not None:
        check()
    if refusal is not None and wait_s > 0:
        notify(events.DeviceBusy(device, refusal, wait_s))
    while refusal is not None and (left_s := begin_s + wait_s - time.monotonic()) > 0:
        started_s, interval_s = time.monotonic(), min(REPORT_INTERVAL_S, left_s)
        refusal = attempt(interval_s)
        if refusal is not None:
            # An older agent refuses immediately instead of waiting.
            time.sleep(max(0.0, started_s + interval_s - time.monotonic()))
            notify(events.DeviceStillBusy(device, time.monotonic() - begin_s, wait_s))
            cancellation.check()
    if refusal is not None and wait_s > 0:
        raise LeaseHeld(
            f"waited for {wait_s:g} s: {refusal}",
            stoppable_on=refusal.stoppable_on,
            is_by_this_host=refusal.is_by_this_host,
            waited_s=wait_s,
        )
    if refusal is not None:
        raise refusal


def renew_lease(client: Client) -> None:
    """Renew the lease, which expires if no message is sent to the device for some time.

    Raises:
        LeaseHeld: the lease has expired, and another client holds it.
    """
    if (refusal := try_lease(client, client.device.name)) is not None:
        raise refusal


def try_lease(client: Client, device: str, wait_s: float = 0.0) -> LeaseHeld | None:
    """Take or renew the lease; return the refusal, or None if this client holds the lease."""
    try:
        client.acquire(wait_s)
    except LeaseHeld as exc:
        has_run = client.list_runs().running is not None
        holders = [seat.held_by for seat in client.seats() if seat.name == client.seat]
        return LeaseHeld(
            str(exc),
            stoppable_on=device if has_run else None,
            is_by_this_host=host_name() in holders,
        )
    return None


def stop_run(client: Client) -> str | None:
    """Stop this user's run in progress; return its id, or None if no run is in progress.

    The stopped run stays on the device until a command stores it.

    Raises:
        LeaseHeld: another client is measuring on the device.
        LinkTimeout: the run does not end within `STOP_TIMEOUT_S`.
    """
    run_id = client.list_runs().running
    if run_id is None:
        if (refusal := try_lease(client, "")) is not None:
            raise refusal
        client.release()
        return None
    with suppress(UsageError):  # the run has just ended normally
        client.cancel(run_id)
    deadline_s = time.monotonic() + STOP_TIMEOUT_S
    while client.list_runs().running == run_id:
        if time.monotonic() > deadline_s:
            raise LinkTimeout(f"run {run_id} has not ended within {STOP_TIMEOUT_S:g} s")
        time.sleep(STOP_POLL_S)
    return run_id
