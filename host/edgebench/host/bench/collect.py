"""A finished run, fetched from its device, analysed and stored."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from pathlib import Path

from edgebench.host.analysis.run import analyse_failure, analyse_run, fit_clock
from edgebench.host.client import Client
from edgebench.host.result.document import created_utc
from edgebench.host.result.run import Run
from edgebench.host.show.sentences import described
from edgebench.host.store.files import (
    file_digests,
    read_clock,
    read_facts,
    read_record,
    read_traces,
    unpack_telemetry,
    unpack_traces,
    write_clock,
    write_events,
    write_run,
)
from edgebench.host.store.incomplete import IncompleteRun, claimed, mark_lost
from edgebench.host.store.index import note_run
from edgebench.host.store.layout import RAW_DIRECTORY, Store
from edgebench.host.store.power import remove_power
from edgebench.host.store.recording import open_recording, write_power
from edgebench.meters.base import Recording
from edgebench.protocol.clock import ClockProbe
from edgebench.protocol.errors import (
    EdgebenchError,
    ErrorCode,
    RemoteProtocolError,
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


def collect(client: Client, store: Store, run_id: str, beside: HostRecord) -> Run:
    """Store a finished run that waits on the device, also one that failed.

    The device forgets the run only after it is safe here.

    Raises:
        StoreError: the store cannot be written.
        RemoteProtocolError: the device calls a run what no host of ours would.
    """
    run = _store(client, store, run_id, beside)
    client.acknowledge(run_id)
    return run


def collect_waiting(
    client: Client, store: Store, *, on_doubt: OnProblem, on_failure: OnProblem
) -> list[Run]:
    """Store the runs that finished while no host was there; those that did not fail.

    A run whose traces make no sense, or that the device cannot read any more, stays where it is,
    and `on_doubt` hears of it: it must not keep anybody from measuring. Of a run that failed,
    `on_failure` hears why, before the device forgets it.

    Raises:
        TransportError: the link failed.
    """
    runs = []
    for run_id in client.list_runs().finished:
        try:
            run = _store(client, store, run_id, HostRecord([]))
            if (error := failure_of(run)) is not None:
                on_failure(run_id, error)
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


def failure_of(run: Run) -> EdgebenchError | None:
    """The error that a stored run failed with; None for one that measured something."""
    if run.failure is None:
        return None
    error = error_from_code(ErrorCode[run.failure.code.upper()], run.failure.message)
    error.run_id = run.run_id
    return error


def _store(client: Client, store: Store, run_id: str, beside: HostRecord) -> Run:
    """Fetch and store a finished run; the device keeps it."""
    if not RUN_ID.fullmatch(run_id):
        raise RemoteProtocolError(f"malformed run id: {run_id[:80]!r}")
    with store.incoming(run_id) as directory, claimed(directory):
        client.fetch_run(run_id, directory / RAW_DIRECTORY)
        record = read_record(directory)
        if record.run_id != run_id:
            raise RemoteProtocolError(f"device sent run {record.run_id[:80]!r} as {run_id}")
        run = _put_together(directory, record, beside)
    note_run(store, run_id)
    return run


def _put_together(directory: Path, record: RunRecord, beside: HostRecord) -> Run:
    # A run that another command started left its first probes and its facts here, if it was ours.
    probes = beside.probes or read_clock(directory)
    write_clock(directory, probes)
    remove_power(directory)
    write_events(directory, record.events)
    now = datetime.now(timezone.utc).isoformat(timespec="seconds")
    made_utc, clock = created_utc(record.run_id) or now, fit_clock(probes, record)
    if record.worker is None:
        # What a meter recorded stays under raw/: there is no inference that it could be divided by.
        unpack_telemetry(directory, record)
        facts = read_facts(directory)
        run = analyse_failure(record, facts, created_utc=made_utc, clock=clock)
    else:
        queries = unpack_traces(directory, record)
        if recording := beside.recording or _kept_recording(directory, record):
            write_power(directory, recording)
        traces = read_traces(directory, record, queries)
        run = analyse_run(record, traces, created_utc=made_utc, clock=clock)
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
