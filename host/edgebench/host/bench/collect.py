"""A finished run, fetched from its device, analysed and stored."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from pathlib import Path

from edgebench.host.analysis.run import analyse_run, fit_clock
from edgebench.host.client import Client
from edgebench.host.result.document import created_utc
from edgebench.host.result.run import Run
from edgebench.host.show.sentences import described
from edgebench.host.store.files import (
    file_digests,
    read_clock,
    read_record,
    read_traces,
    unpack_traces,
    write_clock,
    write_events,
    write_run,
)
from edgebench.host.store.incomplete import IncompleteRun, claimed, mark_lost
from edgebench.host.store.layout import RAW_DIRECTORY, Store
from edgebench.host.store.power import remove_power
from edgebench.host.store.recording import open_recording, write_power
from edgebench.meters.base import Recording
from edgebench.protocol.clock import ClockProbe
from edgebench.protocol.errors import (
    EdgebenchError,
    RemoteProtocolError,
    RunNotStored,
    StoreError,
    TransportError,
    error_from_code,
)
from edgebench.protocol.messages import MAX_LISTED_RUNS
from edgebench.protocol.record import RUN_ID, RunRecord
from edgebench.protocol.traces import METER_FILE

OnProblem = Callable[[str, EdgebenchError], None]
"""Called with a run's id and what is wrong with it."""


@dataclass(frozen=True, slots=True)
class HostRecord:
    """What the host itself recorded during a run; nothing, when it was away."""

    probes: list[list[ClockProbe]]
    recording: Recording | None = None


def collect(client: Client, store: Store, run_id: str, beside: HostRecord) -> Run | None:
    """Store a finished run that waits on the device; None when it had measured nothing.

    The device forgets the run only after it is safe here.

    Raises:
        RunNotStored: the store cannot be written.
        RemoteProtocolError: the device calls a run what no host of ours would.
    """
    try:
        run = _store(client, store, run_id, beside)[1]
    except StoreError as exc:
        raise RunNotStored(f"run {run_id} stays on the device: {exc}") from exc
    client.acknowledge(run_id)
    return run


def collect_waiting(
    client: Client, store: Store, *, on_doubt: OnProblem, on_failure: OnProblem
) -> list[Run]:
    """Store the runs that earlier commands left on the device.

    A run whose traces make no sense, or that the device cannot read any more, stays where it is,
    and `on_doubt` hears of it: it must not keep anybody from measuring. Of a run that measured
    nothing, `on_failure` hears why, before the device forgets it.

    Raises:
        TransportError: the link failed.
    """
    runs = []
    for run_id in client.list_runs().finished:
        try:
            record, run = _store(client, store, run_id, HostRecord([]))
            if run is None:
                reason = record.error or "the run failed without a reason"
                on_failure(run_id, error_from_code(record.error_code, reason))
            else:
                runs.append(run)
            client.acknowledge(run_id)
        except TransportError:
            raise
        except EdgebenchError as exc:
            on_doubt(run_id, exc)
    return runs


def settle_lost(client: Client, store: Store) -> list[IncompleteRun]:
    """Mark or remove the runs of this device that it no longer has; which they are.

    The lease must be ours: then no other command starts one meanwhile.

    Raises:
        TransportError: the link failed.
        StoreError: the store cannot be read or written.
    """
    listing = client.list_runs()
    if len(listing.finished) >= MAX_LISTED_RUNS:
        return []  # it may have more
    on_device = {*listing.finished, listing.running}
    return mark_lost(
        store,
        device_id=client.device.id,
        via=client.via,
        on_device={run_id for run_id in on_device if run_id is not None},
    )


def _store(
    client: Client, store: Store, run_id: str, beside: HostRecord
) -> tuple[RunRecord, Run | None]:
    """Fetch and store a finished run, if it has measured something; the device keeps it."""
    if not RUN_ID.fullmatch(run_id):
        raise RemoteProtocolError(f"malformed run id: {run_id[:80]!r}")
    with store.incoming(run_id) as directory, claimed(directory):
        client.fetch_run(run_id, directory / RAW_DIRECTORY)
        record = read_record(directory)
        if record.run_id != run_id:
            raise RemoteProtocolError(f"device sent run {record.run_id[:80]!r} as {run_id}")
        run = None
        if record.worker is not None:
            run = _put_together(directory, record, beside)
    return record, run


def _put_together(directory: Path, record: RunRecord, beside: HostRecord) -> Run:
    queries = unpack_traces(directory, record)
    # A run that another command started left its first probes and its facts here, if it was ours.
    probes = beside.probes or read_clock(directory)
    write_clock(directory, probes)
    remove_power(directory)
    if recording := beside.recording or _kept_recording(directory, record):
        write_power(directory, recording)
    write_events(directory, record.events)
    now = datetime.now(timezone.utc).isoformat(timespec="seconds")
    run = analyse_run(
        record,
        read_traces(directory, record, queries),
        created_utc=created_utc(record.run_id) or now,
        clock=fit_clock(probes, record),
    )
    run = replace(run, files=file_digests(directory), verdict=described(run.verdict))
    write_run(directory, run)
    return run


def _kept_recording(directory: Path, record: RunRecord) -> Recording | None:
    """What a meter of the agent's recorded, or one of this host's that went away meanwhile.

    When the host's ended nobody knows; energy is refused for every window that it does not cover.
    """
    path = directory / RAW_DIRECTORY / METER_FILE
    if not path.exists():
        return None
    return open_recording(path, record.metered.trouble if record.metered else None)
