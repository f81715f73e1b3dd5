"""Follow a run that an earlier process of this lab has started, and store the run."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import suppress

from edgebench.host.bench.cancellation import Interrupted, holding_interrupts
from edgebench.host.bench.collect import HostRecord, check_run_id, collect, failure_of, left_probes
from edgebench.host.bench.in_progress import probing, wait_for_end
from edgebench.host.bench.lease import try_lease
from edgebench.host.bench.run import OpenDevice
from edgebench.host.client import LEASE_TTL_S
from edgebench.host.result.run import Run
from edgebench.protocol.clock import DRIFT_LIMIT, ClockProbe
from edgebench.protocol.errors import NoSuchRun, SeatLeft, error_from_code

TAKEOVER_TIMEOUT_S = 2 * LEASE_TTL_S
"""Longest wait for the client that started a run to store the run, or for its lease to expire."""
TAKEOVER_POLL_S = 5.0


def follow(device: OpenDevice, run_id: str, on_stored: Callable[[Run], None] | None = None) -> Run:
    """Follow a run of an earlier process of this lab to the end of the run, and store the run.

    A run that has already ended is stored immediately. If the process that started the run still
    exists, that process stores the run. The run is then returned from this store, if both processes
    use the same store. In all other cases, this client holds the lease afterwards. A seat that has
    left has no lease.

    Args:
        device: The device.
        run_id: The run.
        on_stored: Called with the run, even if it failed, before the device deletes it.

    Raises:
        Interrupted: the user pressed Ctrl-C, or the command was cancelled; the run has ended on the
            device.
        NoSuchRun: neither the device nor this store has the run.
        RemoteProtocolError: the run id is malformed.
        LeaseHeld: the run has ended, but another client holds the device and does not store the
            run.
        EdgebenchError: the run failed, or could not be stored; a run that could not be stored stays
            on the device.
    """
    client, store, probes = device.client, device.store, list[list[ClockProbe]]()
    store.check_writable()
    check_run_id(run_id)
    device.cancellation.check()
    is_interrupted = False
    is_followed = client.list_runs().running == run_id
    if is_followed:
        client.follow(run_id)
        watch = probing(client, probes, device.notice)
        ended, is_interrupted = wait_for_end(client, run_id, watch, device.cancellation)
        if not ended.is_spooled:
            store.forget_expected(run_id)
            raise error_from_code(ended.code, ended.error or "the device could not store the run")
    with holding_interrupts() as is_pressed:
        if is_followed:
            probes.append(client.probe_clock())
        run = _stored(device, run_id, probes, on_stored)
    if is_interrupted or is_pressed.is_set():
        raise Interrupted(None if run.failure else run)
    if (failure := failure_of(run)) is not None:
        raise failure
    return run


def _stored(
    device: OpenDevice,
    run_id: str,
    probes: list[list[ClockProbe]],
    on_stored: Callable[[Run], None] | None,
) -> Run:
    """Store the run, or read it from this store if the process that started it has stored it."""
    client, store = device.client, device.store
    _take_over(device, run_id)
    if run_id in client.list_runs().finished:
        left = left_probes(store.unfinished / run_id)
        return collect(
            client,
            store,
            run_id,
            HostRecord(_joined(left, probes)),
            device.analyse,
            is_kept=device.is_kept,
            on_stored=on_stored,
        )
    if store.has(run_id):
        run = store.run(run_id)
        if on_stored is not None:
            on_stored(run)
        return run
    raise NoSuchRun(f"run {run_id} is neither on {client.device.name} nor in {store.root}")


def _take_over(device: OpenDevice, run_id: str) -> None:
    """Take the lease, or wait until another client has stored the run.

    Raises:
        Interrupted: the command was cancelled while another client holds the lease.
        LeaseHeld: another client still holds the lease after `TAKEOVER_TIMEOUT_S`.
    """
    deadline_s = time.monotonic() + TAKEOVER_TIMEOUT_S
    with suppress(SeatLeft):  # no client can hold a lease on a seat that has left
        while refusal := try_lease(device.client, device.name, TAKEOVER_POLL_S):
            if run_id not in device.client.list_runs().finished:
                return
            device.cancellation.check()
            if time.monotonic() > deadline_s:
                raise refusal


def _joined(
    left: Sequence[list[ClockProbe]], later: Sequence[list[ClockProbe]]
) -> list[list[ClockProbe]]:
    """Clock probes of the earlier process, and of this one if the clock has run without a break.

    The clock of this machine restarts at boot, and stops while the machine sleeps. In both cases,
    only the probes of the earlier process are used, because its meter recording has timestamps of
    the same clock.
    """
    if not left or not later or not left[-1] or not later[0]:
        return [*left, *later]
    before, after = left[-1][-1], later[0][0]
    elapsed_ns = after.t0 - before.t0
    limit_ns = DRIFT_LIMIT * elapsed_ns + (before.round_trip_ns + after.round_trip_ns) / 2
    is_one_clock = elapsed_ns > 0 and abs(after.offset_ns - before.offset_ns) <= limit_ns
    return [*left, *later] if is_one_clock else list(left)
