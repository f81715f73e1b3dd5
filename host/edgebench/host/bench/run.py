"""One run from the host: lease → push → start → watch → collect → analyse → store."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from edgebench.host.analysis.measurement import HostFacts, Pair, ReferenceAccuracy
from edgebench.host.bench.collect import Beside, collect
from edgebench.host.bench.dataset import Dataset
from edgebench.host.client import Client
from edgebench.host.digests import file_sha256
from edgebench.host.power.metering import Metering
from edgebench.host.power.session import begin_session
from edgebench.host.result.document import RUN_ID_TIME
from edgebench.host.store.files import (
    write_clock,
    write_facts,
)
from edgebench.host.store.layout import RAW_DIRECTORY, Store
from edgebench.meters.base import Meter, MeterSession
from edgebench.protocol.clock import ClockProbe
from edgebench.protocol.errors import (
    MeterLost,
    StoreError,
    TargetError,
    UsageError,
    error_from_code,
)
from edgebench.protocol.messages import Progress, RunEnded, Telemetry
from edgebench.protocol.record import Phase
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
    with ExitStack() as stack:
        with _forgotten_if_refused(store, run_id):
            spool = directory / RAW_DIRECTORY / METER_FILE
            session = _begin(stack, meter, spool) if meter else None
            _start(client, run_id, model, spec)
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


@contextmanager
def _forgotten_if_refused(store: Store, run_id: str) -> Iterator[None]:
    """Nothing is expected of a run that was not admitted, or whose meter does not record."""
    try:
        yield
    except (TargetError, UsageError, StoreError):
        store.forget_expected(run_id)
        raise


def _start(client: Client, run_id: str, model: Model, spec: RunSpec) -> None:
    client.start_run(
        run_id,
        spec,
        sha256=model.sha256,
        model_name=model.name,
        size_bytes=model.size_bytes,
    )


def _begin(stack: ExitStack, meter: Meter, path: Path) -> MeterSession:
    """Let a meter record until the stack is closed.

    Raises:
        MeterLost: it was open, and does not record: nobody's device has failed.
        StoreError: its recording cannot be written.
    """
    try:
        return begin_session(stack, meter, path)
    except TargetError as exc:
        raise MeterLost(f"meter does not record: {exc}") from exc


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


def new_run_id() -> str:
    """A fresh id; ids sort by time, to the millisecond."""
    now = _now()
    return f"{now.strftime(RUN_ID_TIME)}-{now.microsecond // 1000:03d}{secrets.token_hex(4)[:5]}"


def _now() -> datetime:
    return datetime.now(timezone.utc)
