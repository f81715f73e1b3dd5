"""Runs of earlier commands that are on a device: followed to their ends, and stored."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass

from edgebench.host.bench.collect import settle_lost
from edgebench.host.bench.follow import follow
from edgebench.host.bench.run import DeviceLane
from edgebench.host.devices.files import KnownDevice
from edgebench.host.result.run import Run
from edgebench.protocol.errors import (
    EdgebenchError,
    LeaseHeld,
    NoSuchRun,
    RunNotStored,
    RunSetAside,
    SeatLeft,
    TransportError,
)


@dataclass(frozen=True, slots=True)
class DeviceTarget:
    """A device of which nothing is asked but what it has already."""

    device: KnownDevice
    meter: None = None


def fetch_all(lane: DeviceLane, device: str, *, is_waiting: bool) -> list[Run]:
    """Store every run of this owner that is on a device; also those that failed there.

    Args:
        lane: The connection and the store.
        device: Name by which the user knows the device.
        is_waiting: Whether a run in progress is followed. If not, the whole device is left alone
            while there is one: reading traces off it would disturb the measurement.

    Raises:
        Interrupted: the user pressed Ctrl-C, or the command was cancelled.
        LeaseHeld: another client measures there.
        EdgebenchError: the link failed, or the store cannot be written.
    """
    client, watcher = lane.client, lane.watcher
    running = client.list_runs().running
    if running is not None and not is_waiting:
        watcher.run_in_progress_skipped(device, running)
        return []
    runs: list[Run] = []
    try:
        if running is not None:
            runs += _fetched(lane, device, running)
        else:
            with suppress(SeatLeft):  # nobody can measure on a device that has left
                client.acquire()
        tried = {running}
        # As many at a time as one listing has.
        while waiting := [one for one in client.list_runs().finished if one not in tried]:
            for run_id in waiting:
                runs += _fetched(lane, device, run_id)
            tried.update(waiting)
        with suppress(
            LeaseHeld, SeatLeft
        ):  # else a command that is still there may start one just now
            client.acquire()
            for lost in settle_lost(client, lane.store):
                watcher.run_lost(lost)
    finally:
        with suppress(EdgebenchError):  # the lease of a lost link expires
            client.release()
    return runs


def _fetched(lane: DeviceLane, device: str, run_id: str) -> list[Run]:
    """The run, if it can be stored; a damaged one keeps no other from being stored."""
    lane.cancellation.check()
    lane.watcher.fetch_started(device, run_id)
    try:
        run = follow(lane, run_id)
    except (TransportError, LeaseHeld, RunNotStored):
        raise
    except NoSuchRun:  # it was in progress, and its own command is there
        lane.watcher.run_stored_elsewhere(device, run_id)
        return []
    except RunSetAside as exc:  # there is nothing left to do about it on the device
        lane.watcher.earlier_run_rejected(run_id, exc)
        return []
    except EdgebenchError as exc:
        if exc.run_id != run_id:
            lane.watcher.fetch_failed(run_id, exc)
            return []
        run = lane.store.run(run_id)  # it failed on the device, and is stored
    lane.watcher.fetch_finished(run)
    return [run]
