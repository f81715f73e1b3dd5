"""The right to measure on a device: taken, waited for, or freed by stopping a run of ours."""

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
"""Interval of the reports while a device is waited for, and the wait that one request asks for.

Each is a message to a device that measures: no more than the connection's own pings."""
STOP_TIMEOUT_S = 60.0
"""Longest time for a stopped run to be written; its worker is killed after 20 s."""
STOP_POLL_S = 0.1


def check_wait(wait_s: float) -> None:
    """Check a limit on waiting.

    Raises:
        UsageError: it is negative, no number, or too long.
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
    """Connect to a device; wait while a command of another environment uses its agent.

    Args:
        open_client: Connects.
        device: Its name.
        wait_s: Longest wait; 0: none.
        notify: As for `take_lease`.
        cancellation: As for `take_lease`.

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
        device: Name by which the user knows it.
        wait_s: Longest wait; 0: none.
        notify: Receives once who holds the device, then the time that was waited so far.
        cancellation: Looked at before each request, so within `REPORT_INTERVAL_S`.
        check: Called once if another command holds the device, and may raise: nobody should wait
            for what the device cannot do.

    Raises:
        Interrupted: the command was cancelled.
        LeaseHeld: it is still held after the wait.
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
    """Call `attempt` with the time for which it may wait, until it is not refused any more."""
    cancellation.check()
    begin_s = time.monotonic()
    refusal = attempt(0.0)
    if refusal is not None and check is not None:
        check()
    if refusal is not None and wait_s > 0:
        notify(events.DeviceBusy(device, refusal, wait_s))
    while refusal is not None and (left_s := begin_s + wait_s - time.monotonic()) > 0:
        asked_s, interval_s = time.monotonic(), min(REPORT_INTERVAL_S, left_s)
        refusal = attempt(interval_s)
        if refusal is not None:
            # An older agent refuses at once.
            time.sleep(max(0.0, asked_s + interval_s - time.monotonic()))
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
    """Keep the lease, which expires while nothing is sent to the device.

    Raises:
        LeaseHeld: it has expired, and another client has it.
    """
    if (refusal := try_lease(client, client.device.name)) is not None:
        raise refusal


def try_lease(client: Client, device: str, wait_s: float = 0.0) -> LeaseHeld | None:
    """Take the lease, or keep it; why it was refused, or None once it is ours."""
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
    """Stop this user's run in progress; its id, or None if nothing runs there.

    What it measured stays on the device until a command stores it.

    Raises:
        LeaseHeld: another client measures there.
        LinkTimeout: the run does not end.
    """
    run_id = client.list_runs().running
    if run_id is None:
        if (refusal := try_lease(client, "")) is not None:
            raise refusal
        client.release()
        return None
    with suppress(UsageError):  # it has just ended by itself
        client.cancel(run_id)
    deadline_s = time.monotonic() + STOP_TIMEOUT_S
    while client.list_runs().running == run_id:
        if time.monotonic() > deadline_s:
            raise LinkTimeout(f"run {run_id} has not ended within {STOP_TIMEOUT_S:g} s")
        time.sleep(STOP_POLL_S)
    return run_id
