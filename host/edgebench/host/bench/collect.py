"""A finished run, fetched from its device, analysed and stored."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from edgebench.host.client import Client
from edgebench.host.result.document import build_document, created_utc, fit_clock
from edgebench.host.store.files import (
    file_digests,
    read_clock,
    read_record,
    read_traces,
    unpack_traces,
    write_clock,
    write_document,
    write_events,
)
from edgebench.host.store.layout import RAW_DIRECTORY, Store
from edgebench.host.store.power import remove_power
from edgebench.host.store.recording import open_recording, write_power
from edgebench.meters.base import Recording
from edgebench.protocol.clock import ClockProbe
from edgebench.protocol.errors import (
    EdgebenchError,
    RemoteProtocolError,
    TransportError,
)
from edgebench.protocol.record import RUN_ID, RunRecord
from edgebench.protocol.traces import METER_FILE


@dataclass(frozen=True, slots=True)
class Beside:
    """What the host itself recorded while a run went on; nothing, when it was away."""

    probes: list[list[ClockProbe]]
    recording: Recording | None = None


def collect(client: Client, store: Store, run_id: str, beside: Beside) -> dict[str, Any] | None:
    """Store a finished run that waits on the device; None when it had measured nothing.

    The device forgets the run only after it is safe here.

    Raises:
        StoreError: the store cannot be written.
        RemoteProtocolError: the device calls a run what no host of ours would.
    """
    if not RUN_ID.fullmatch(run_id):
        raise RemoteProtocolError(f"malformed run id: {run_id[:80]!r}")
    with store.incoming(run_id) as directory:
        client.fetch_run(run_id, directory / RAW_DIRECTORY)
        record = read_record(directory)
        if record.run_id != run_id:
            raise RemoteProtocolError(f"device sent run {record.run_id[:80]!r} as {run_id}")
        document = None
        if record.worker is not None:
            document = _put_together(directory, record, beside)
    client.acknowledge(run_id)
    return document


def collect_waiting(
    client: Client, store: Store, on_doubt: Callable[[str, EdgebenchError], None]
) -> list[dict[str, Any]]:
    """Store the runs that finished while no host was there; their documents.

    A run whose traces make no sense, or that the device cannot read any more, stays where it is,
    and `on_doubt` hears of it: it must not keep anybody from measuring.

    Raises:
        TransportError: the link failed.
    """
    documents = []
    for run_id in client.list_runs().finished:
        try:
            document = collect(client, store, run_id, Beside([]))
        except TransportError:
            raise
        except EdgebenchError as exc:
            on_doubt(run_id, exc)
            continue
        if document is not None:
            documents.append(document)
    return documents


def _put_together(directory: Path, record: RunRecord, beside: Beside) -> dict[str, Any]:
    queries = unpack_traces(directory, record)
    # A run that another command started left its first probes and its facts here, if it was ours.
    probes = beside.probes or read_clock(directory)
    write_clock(directory, probes)
    remove_power(directory)
    if recording := beside.recording or _kept_recording(directory, record):
        write_power(directory, recording)
    write_events(directory, record.events)
    now = datetime.now(timezone.utc).isoformat(timespec="seconds")
    document = build_document(
        record,
        read_traces(directory, record, queries),
        created_utc=created_utc(record.run_id) or now,
        clock=fit_clock(probes, record),
    )
    document |= {"files": file_digests(directory)}
    write_document(directory, document)
    return document


def _kept_recording(directory: Path, record: RunRecord) -> Recording | None:
    """What a meter of the agent's recorded, or one of this host's that went away meanwhile.

    When the host's ended nobody knows; energy is refused for every window that it does not cover.
    """
    path = directory / RAW_DIRECTORY / METER_FILE
    if not path.exists():
        return None
    return open_recording(path, record.metered.trouble if record.metered else None)
