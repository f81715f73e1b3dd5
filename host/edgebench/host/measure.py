"""One run from the host: lease → push → start → watch → collect → analyse → store."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from edgebench.host.analysis.measurement import HostFacts, Pair, ReferenceAccuracy
from edgebench.host.client import Client
from edgebench.host.dataset import Dataset
from edgebench.host.digests import file_sha256
from edgebench.host.document import RUN_ID_TIME, build_document, created_utc, fit_clock
from edgebench.host.metering import Metering
from edgebench.host.store.files import (
    file_digests,
    read_clock,
    read_record,
    read_traces,
    unpack_traces,
    write_clock,
    write_document,
    write_events,
    write_facts,
)
from edgebench.host.store.layout import RAW_DIRECTORY, Store
from edgebench.host.store.power import write_power
from edgebench.meters.base import Recording
from edgebench.meters.registry import find_decoder
from edgebench.meters.spool import read_header
from edgebench.protocol.clock import ClockProbe
from edgebench.protocol.errors import (
    EdgebenchError,
    MeasurementError,
    RemoteProtocolError,
    StoreError,
    TargetError,
    UsageError,
    error_from_code,
)
from edgebench.protocol.messages import Progress, RunEnded, Telemetry
from edgebench.protocol.record import RUN_ID, Phase, RunRecord
from edgebench.protocol.spec import RunSpec
from edgebench.protocol.traces import METER_FILE


@dataclass(frozen=True, slots=True)
class Model:
    """A model file on the host."""

    path: Path
    name: str
    sha256: str
    size_bytes: int

    @property
    def format(self) -> str:
        """Tflite or onnx, by the file's suffix."""
        return self.path.suffix.lower().lstrip(".")


class Interrupted(Exception):
    """The user stopped a run; `document` is what was kept of it, if anything."""

    def __init__(self, document: dict[str, Any] | None) -> None:
        super().__init__("interrupted")
        self.document = document


OnNotice = Callable[[Progress | Telemetry], None]
OnBytes = Callable[[int, int], None]


def open_model(path: Path, name: str | None = None) -> Model:
    """Look at a model file.

    Raises:
        UsageError: there is no such file, or it cannot be read.
    """
    try:
        if path.exists() and not path.is_file():
            raise UsageError(f"model is not a file: {path}")
        digest, size_bytes = file_sha256(path), path.stat().st_size
    except OSError as exc:
        raise UsageError(f"model not readable: {exc.strerror}: {path}") from exc
    return Model(path, name or _printable(path.name), digest, size_bytes)


def _printable(name: str) -> str:
    """A name for people and for the wire: file names may hold anything but a slash."""
    return "".join(char if char.isprintable() else "?" for char in name)


def measure(
    client: Client,
    store: Store,
    model: Model,
    spec: RunSpec,
    *,
    dataset: Dataset | None = None,
    reference: ReferenceAccuracy | None = None,
    pair: Pair | None = None,
    ambient_c: float | None = None,
    metering: Metering | None = None,
    on_notice: OnNotice,
    on_bytes: OnBytes,
) -> dict[str, Any]:
    """Measure one model on one device and store the run; its document.

    Raises:
        Interrupted: the user pressed Ctrl-C; the device has stopped.
        EdgebenchError: anything else; a run that finished stays on the device until it is stored.
    """
    store.check_writable()
    client.acquire()
    client.push_model(model.path, model.sha256, on_bytes)
    if dataset:
        client.push_model(dataset.path, dataset.sha256, on_bytes)
    run_id = new_run_id()
    probes = [client.probe_clock()]
    facts = host_facts(dataset, reference, pair, ambient_c, metering)
    meter = metering.meter if metering else None
    # Before the start: when the link breaks, the next command that fetches the run finds them.
    with store.expecting(run_id) as directory:
        write_facts(directory, facts, dataset.labels if dataset else {})
        write_clock(directory, probes)
        session = meter.session(directory / RAW_DIRECTORY / METER_FILE) if meter else None
    with ExitStack() as stack:
        try:
            if session:
                stack.enter_context(session)
            client.start_run(
                run_id,
                spec,
                sha256=model.sha256,
                model_name=model.name,
                size_bytes=model.size_bytes,
            )
        except (TargetError, UsageError):  # not admitted, or the meter is gone
            store.forget_expected(run_id)
            raise
        watch = _probing(client, probes, on_notice)
        ended, is_interrupted = _wait_for_end(client, run_id, watch)
    if not ended.is_spooled:
        store.forget_expected(run_id)
        raise error_from_code(ended.code, ended.error or "the run could not be kept there")
    probes.append(client.probe_clock())
    recording = session.recording() if session else None
    document = collect(client, store, run_id, Beside(probes, recording))
    if is_interrupted:
        raise Interrupted(document)
    if document is None:
        raise error_from_code(ended.code, ended.error or "the run failed without a reason")
    return document


PROBED_WARMUP_S = 0.5
"""A warm-up of at least so long has room for probes; in the timed loop nobody asks anything."""


def _probing(client: Client, probes: list[list[ClockProbe]], on_notice: OnNotice) -> OnNotice:
    """Probe the device's clock beside the timed loop, and pass the notices on."""

    def watch(notice: Progress | Telemetry) -> None:
        on_notice(notice)
        if isinstance(notice, Progress) and _is_time_to_probe(notice):
            probes.append(client.probe_clock())

    return watch


def _is_time_to_probe(notice: Progress) -> bool:
    """Right before the timed loop, where there is room, and right after it."""
    if notice.phase is Phase.WARMING_UP:
        return (notice.expected_s or 0.0) >= PROBED_WARMUP_S
    return notice.phase is Phase.SPOOLING


@dataclass(frozen=True, slots=True)
class Beside:
    """What the host itself recorded while a run went on; nothing, when it was away."""

    probes: list[list[ClockProbe]]
    recording: Recording | None = None


def host_facts(
    dataset: Dataset | None,
    reference: ReferenceAccuracy | None,
    pair: Pair | None,
    ambient_c: float | None,
    metering: Metering | None,
) -> HostFacts:
    """What only the host knows of a run."""
    return HostFacts(
        dataset=dataset.name if dataset else None,
        metric=dataset.metric if dataset else None,
        reference=reference,
        pair=pair,
        ambient_c=ambient_c,
        meter=metering.name if metering else None,
        sync=metering.sync if metering else None,
        battery_capacity_j=metering.battery_capacity_j if metering else None,
    )


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

    A run whose traces make no sense stays where it is, and `on_doubt` hears of it: it must not
    keep anybody from measuring.
    """
    documents = []
    for run_id in client.list_runs().finished:
        try:
            document = collect(client, store, run_id, Beside([]))
        except (MeasurementError, RemoteProtocolError, StoreError) as exc:
            on_doubt(run_id, exc)
            continue
        if document is not None:
            documents.append(document)
    return documents


def _wait_for_end(client: Client, run_id: str, on_notice: OnNotice) -> tuple[RunEnded, bool]:
    """The end of the run, and whether the user asked for it."""
    is_interrupted = False
    while True:
        try:
            for notice in client.follow_run():
                if isinstance(notice, RunEnded):
                    return notice, is_interrupted
                on_notice(notice)
        except KeyboardInterrupt:
            if is_interrupted:
                raise  # the second time, the user does not want to wait
            is_interrupted = True
            client.request_cancel(run_id)


def _put_together(directory: Path, record: RunRecord, beside: Beside) -> dict[str, Any]:
    queries = unpack_traces(directory, record)
    # A run that another command started left its first probes and its facts here, if it was ours.
    probes = beside.probes or read_clock(directory)
    write_clock(directory, probes)
    if recording := beside.recording or _fetched_recording(directory, record):
        write_power(directory, recording)
    write_events(directory, record.events)
    document = build_document(
        record,
        read_traces(directory, record, queries),
        created_utc=created_utc(record.run_id) or _now().isoformat(timespec="seconds"),
        clock=fit_clock(probes, record),
    )
    document |= {"files": file_digests(directory)}
    write_document(directory, document)
    return document


def _fetched_recording(directory: Path, record: RunRecord) -> Recording | None:
    """What a meter of the agent's recorded; a damaged file gives no energy, and costs no run."""
    path = directory / RAW_DIRECTORY / METER_FILE
    if record.metered is None or not path.exists():
        return None
    try:
        header = read_header(path)
        find_decoder(header)
    except MeasurementError:
        return None
    return Recording(path, header, record.metered.trouble)


def new_run_id() -> str:
    """A fresh id; ids sort by time, to the millisecond."""
    now = _now()
    return f"{now.strftime(RUN_ID_TIME)}-{now.microsecond // 1000:03d}{secrets.token_hex(4)[:5]}"


def _now() -> datetime:
    return datetime.now(timezone.utc)
