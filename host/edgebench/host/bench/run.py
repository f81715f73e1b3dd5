"""Make a run from the host: lease → push → start → watch → collect → analyse → store."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path

from edgebench.host.bench import events
from edgebench.host.bench.cancellation import Cancellation, Interrupted, holding_interrupts
from edgebench.host.bench.collect import HostRecord, collect, failure_of
from edgebench.host.bench.dataset import Dataset
from edgebench.host.bench.events import Notify
from edgebench.host.bench.finish import Finish, finish
from edgebench.host.bench.in_progress import OnNotice, probing, wait_for_end
from edgebench.host.bench.inputs import InputFile
from edgebench.host.bench.lease import renew_lease
from edgebench.host.bench.model import Model
from edgebench.host.client import LEASE_TTL_S, Client
from edgebench.host.power.metering import OpenMeter
from edgebench.host.power.session import begin_session
from edgebench.host.result.document import RUN_ID_TIME
from edgebench.host.result.facts import CommandFacts, HostFacts, Pair, SetMember
from edgebench.host.result.outputs import ReferenceAccuracy
from edgebench.host.result.run import Run
from edgebench.host.store.files import write_facts
from edgebench.host.store.host_file import packed_facts
from edgebench.host.store.incomplete import ExpectedRun, write_expectation
from edgebench.host.store.layout import RAW_DIRECTORY, Store, locked_run
from edgebench.meters.base import Meter, MeterSession
from edgebench.protocol.clock import ClockProbe
from edgebench.protocol.digests import sha256_of
from edgebench.protocol.errors import (
    FileChanged,
    InputsRefused,
    MeterLost,
    ModelRefused,
    StoreError,
    TargetError,
    UsageError,
    error_from_code,
)
from edgebench.protocol.messages import Progress, Telemetry
from edgebench.protocol.record import Outcome, Phase
from edgebench.protocol.spec import RunSpec
from edgebench.protocol.traces import METER_FILE


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRequest:
    """A run to make, with the facts about it that only the host has."""

    model: Model
    spec: RunSpec
    inputs: InputFile | None = None
    dataset: Dataset | None = None
    reference: ReferenceAccuracy | None = None
    pair: Pair | None = None
    member: SetMember | None = None
    command: CommandFacts | None = None
    ambient_c: float | None = None
    meter: OpenMeter | None = None
    new_id: Callable[[], str] | None = None
    """Function that makes the id of the run right before its start; None selects `new_run_id`."""

    @property
    def facts(self) -> HostFacts:
        """Facts about the run that only the host knows."""
        return HostFacts(
            dataset=self.dataset.name if self.dataset else None,
            metric=self.dataset.metric if self.dataset else None,
            reference=self.reference,
            pair=self.pair,
            member=self.member,
            command=self.command,
            ambient_c=self.ambient_c,
            inputs=self.inputs.name if self.inputs else None,
            energy=self.meter.request if self.meter else None,
        )


@dataclass(slots=True, kw_only=True, eq=False)
class OpenDevice:
    """Connection, store and consumer of events, shared by all runs on a device."""

    name: str
    """Name that the user has given to the device."""
    client: Client
    store: Store
    notify: Notify
    cancellation: Cancellation
    analyse: Finish = finish
    is_kept: bool = False
    """Whether the device keeps stored runs until another client has fetched them."""

    def notice(self, notice: Progress | Telemetry) -> None:
        """Convert a message that the device sent during a run to an event."""
        if isinstance(notice, Telemetry):
            self.notify(events.TelemetryReport(self.name, notice))
        else:
            self.notify(events.PhaseReport(self.name, notice))


def measure(device: OpenDevice, request: RunRequest) -> Run:
    """Measure a model on a device and store the run.

    Raises:
        InputsRefused: shapes or inputs do not fit the model; nothing is stored.
        Interrupted: the user pressed Ctrl-C, or the command was cancelled; the run has ended on the
            device.
        EdgebenchError: any other failure; a finished run stays on the device until it is stored.
    """
    client, store, model = device.client, device.store, request.model
    store.check_writable()
    _push_files(device, request)
    device.cancellation.check()
    run_id = (request.new_id or new_run_id)()
    probes = [client.probe_clock()]
    meter = request.meter.meter if request.meter else None
    # Written before the start, so that another command can fetch the run if the link breaks.
    with (
        _forgotten_if_refused(store, run_id),
        store.expecting(run_id) as directory,
        locked_run(directory),
    ):
        write_facts(directory, request.facts, request.dataset.labels if request.dataset else {})
        write_expectation(directory, _expected(client, model, probes[0]))
        host_file = packed_facts(directory)
    with ExitStack() as storing:
        with ExitStack() as stack:
            stack.enter_context(locked_run(directory))
            with _forgotten_if_refused(store, run_id):
                spool = directory / RAW_DIRECTORY / METER_FILE
                session = _begin(stack, meter, spool) if meter else None
                if session is not None:
                    device.notify(events.MeterBegan(device.name, session))
            # If Ctrl-C interrupted the start, the run would continue unattended on the device.
            with holding_interrupts() as is_pressed, _forgotten_if_refused(store, run_id):
                client.start_run(
                    run_id,
                    request.spec,
                    sha256=model.sha256,
                    model_name=model.name,
                    size_bytes=model.size_bytes,
                    host_file=host_file,
                )
            watch = probing(client, probes, device.notice)
            if session:
                watch = _stopping(client, run_id, session, watch)
            if is_interrupted := is_pressed.is_set():
                client.request_cancel(run_id)
            ended, is_stopped = wait_for_end(client, run_id, watch, device.cancellation)
            is_pressed = storing.enter_context(holding_interrupts())
        # Refused inputs are a mistake in the command: there is no measurement to keep.
        is_refused = ended.code == InputsRefused.code and ended.outcome is Outcome.FAILED
        if is_refused or not ended.is_spooled:
            store.forget_expected(run_id)
            if ended.is_spooled:
                client.acknowledge(run_id)
            raise error_from_code(ended.code, ended.error or "the device could not store the run")
        probes.append(client.probe_clock())
        host_record = HostRecord(probes, session.trouble if session else None)
        run = collect(client, store, run_id, host_record, device.analyse, is_kept=device.is_kept)
    if is_interrupted or is_stopped or is_pressed.is_set():
        raise Interrupted(None if run.failure else run)
    if (failure := failure_of(run)) is None:
        return run
    if session and session.trouble is not None:
        lost = MeterLost(f"run stopped before its first inference: {session.trouble}")
        lost.run_id = run.run_id
        raise lost
    raise failure


def _push_files(device: OpenDevice, request: RunRequest) -> None:
    """Renew the lease, and send the files of a run that the device does not have.

    Raises:
        ModelRefused: the model's file is empty.
        FileChanged: the device refused a file because the file changed after it was hashed.
        EdgebenchError: another client holds the device, or the device refused a file.
    """
    client, model, renewed_s = device.client, request.model, time.monotonic()

    def hashed(done: int, total: int) -> None:
        nonlocal renewed_s
        device.notify(events.HashProgress(device.name, done, total))
        if time.monotonic() - renewed_s > LEASE_TTL_S / 3:  # hashing gigabytes outlasts the lease
            renew_lease(client)
            renewed_s = time.monotonic()

    def pushed(done: int, total: int) -> None:
        device.notify(events.PushProgress(device.name, done, total))

    if not model.is_on_device:
        if not model.size_bytes:
            raise ModelRefused(f"model file is empty: {model.path}")
        model.hashed(hashed)
    renew_lease(client)
    files = {"model": model, "input file": request.inputs, "data set": request.dataset}
    for kind, file in files.items():
        if file is None or (file is model and model.is_on_device):
            continue
        try:
            client.push_model(file.path, file.sha256, pushed)
        except OSError as exc:
            raise UsageError(f"{kind} not readable: {exc.strerror or exc}: {file.path}") from exc
        except (ModelRefused, UsageError) as exc:
            with suppress(OSError), file.path.open("rb") as opened:
                if sha256_of(opened).hexdigest() == file.sha256:
                    raise
            raise FileChanged(f"{kind} changed after it was read: {file.path}") from exc


def _expected(client: Client, model: Model, probes: Sequence[ClockProbe]) -> ExpectedRun:
    device = client.device
    return ExpectedRun(
        device.id,
        device.name,
        client.via,
        model.name,
        agent=client.agent,
        seat=client.seat,
        probes=tuple(probes),
    )


@contextmanager
def _forgotten_if_refused(store: Store, run_id: str) -> Iterator[None]:
    """Remove the expected run from the store if the block fails, because no run was started."""
    try:
        yield
    except (TargetError, UsageError, StoreError) as exc:
        store.forget_expected(run_id)
        exc.is_unstarted = True
        raise


def _begin(stack: ExitStack, meter: Meter, path: Path) -> MeterSession:
    """Record with a meter until the stack is closed.

    Raises:
        MeterLost: the meter is open, but does not record. It is raised instead of `TargetError`,
            which would count as a failure of the device.
        StoreError: the recording cannot be written.
    """
    try:
        return begin_session(stack, meter, path)
    except TargetError as exc:
        raise MeterLost(f"meter does not record: {exc}") from exc


_BEFORE_LOOP = {
    Phase.COOLING,
    Phase.IDLE,
    Phase.STARTING,
    Phase.LOADING,
    Phase.SYNCING,
    Phase.WARMING_UP,
}
"""Phases before the timed loop; a run that ends in one of them has measured nothing yet."""


def _stopping(client: Client, run_id: str, session: MeterSession, on_notice: OnNotice) -> OnNotice:
    """Wrap `on_notice` to stop a run whose meter stops recording before the timed loop."""
    is_begun = is_stopped = False

    def watch(notice: Progress | Telemetry) -> None:
        nonlocal is_begun, is_stopped
        on_notice(notice)
        # IDLE also follows the loop. Once the loop has begun, the run is kept, without its energy.
        if isinstance(notice, Progress):
            is_begun = is_begun or notice.phase not in _BEFORE_LOOP
        if session.trouble is not None and not is_begun and not is_stopped:
            is_stopped = True
            client.request_cancel(run_id)

    return watch


def new_run_id() -> str:
    """A new run id, which begins with the time in milliseconds, so that ids sort by time."""
    now = datetime.now(timezone.utc)
    return f"{now.strftime(RUN_ID_TIME)}-{now.microsecond // 1000:03d}{secrets.token_hex(4)[:5]}"
