"""Carries out a run on the device, from its admission to the storage of its results."""

from __future__ import annotations

import asyncio
import json
import logging
import os
from collections.abc import Callable
from pathlib import Path

from edgebench.agent.artifacts import ArtifactStore
from edgebench.agent.cpu_ticks import own_cpus
from edgebench.agent.files import disk_errors, keep_end
from edgebench.agent.guard import Guard
from edgebench.agent.idle import work_between_idling
from edgebench.agent.lease import Lease
from edgebench.agent.memory import give_back
from edgebench.agent.metering import MeterRecorder, require_served
from edgebench.agent.running import ActiveRun, Listener
from edgebench.agent.spool import Spool
from edgebench.agent.surroundings import Surroundings
from edgebench.agent.system import is_emulated
from edgebench.agent.targets import runtime_report
from edgebench.agent.telemetry.job import LiveReading
from edgebench.agent.telemetry.process import SamplerMessage, SamplerProcess
from edgebench.agent.worker.job import Job
from edgebench.agent.worker.limits import default_memory_bytes
from edgebench.agent.worker.process import WorkerProcess, monotonic_ns
from edgebench.agent.worker.reports import PhaseStart
from edgebench.device_profiles.schema import Profile
from edgebench.meters.wiring import Wiring
from edgebench.protocol.device import DeviceDescription
from edgebench.protocol.errors import (
    EdgebenchError,
    ErrorCode,
    LeaseHeld,
    ModelRefused,
    RunStopped,
    RuntimeUnavailable,
    SeatLeft,
    UsageError,
)
from edgebench.protocol.messages import RunEnded, RunStart, Telemetry
from edgebench.protocol.plain import to_plain
from edgebench.protocol.record import (
    FIRMWARE_FORMAT,
    METER_TROUBLE,
    MeasuredRecord,
    ModelFacts,
    Outcome,
    Phase,
    RunRecord,
    TargetRecord,
    WorkerRecord,
)
from edgebench.protocol.spec import Engine, RunSpec, check_cpus
from edgebench.protocol.target import TargetDescription
from edgebench.protocol.telemetry import TelemetryFacts
from edgebench.protocol.thermal import CooldownFacts, CooldownOutcome
from edgebench.protocol.traces import (
    HOST_FILE,
    METER_FILE,
    QUERIES_FILE,
    RECORD_FILE,
    WORKER_LOG_FILE,
)

logger = logging.getLogger(__name__)

TARGET_MEMORY_BYTES = 6 * 2**30
"""Memory limit of a process that drives a target. An emulator maps all memory of its board (2 GiB
for an MPS3), although it uses only a small part."""
KEPT_LOG_BYTES = 256 * 1024
"""Number of bytes at the end of the worker's log that are kept; a runtime may print far more."""


class Runner:
    """Runs the models of a seat, a single run at a time."""

    def __init__(
        self,
        device: DeviceDescription,
        profile: Profile,
        surroundings: Surroundings,
        models: ArtifactStore,
        *,
        spool: Spool,
        lease: Lease,
        wiring: Wiring,
    ) -> None:
        self._device = device
        self._profile = profile
        self._wiring = wiring
        self._surroundings = surroundings
        self._models = models
        self._spool = spool
        self._lease = lease
        self._starting = asyncio.Lock()
        self._task: asyncio.Task[None] | None = None
        self._stopping: asyncio.Task[None] | None = None
        self._on_reading: Callable[[LiveReading], None] | None = None
        self._sampler: SamplerProcess | None = None
        self._left: SeatLeft | None = None
        self.current: ActiveRun | None = None

    async def start(
        self, request: RunStart, owner: str, listener: Listener, host_file: bytes = b""
    ) -> None:
        """Admit a run and start it; the run keeps the lease until it is spooled.

        Args:
            request: The run.
            owner: Host, or lab of hosts, that may fetch the run.
            listener: Function that receives the phases and the end of the run.
            host_file: Bytes that are spooled unchanged, together with the run.

        Raises:
            EdgebenchError: the run was not admitted; nothing is left on disk.
        """
        async with self._starting:
            if self._left is not None:
                raise self._left
            if self.current is not None:
                raise LeaseHeld(f"run {self.current.request.run_id} is in progress")
            run = await self._admit(request, owner)
            run.listeners.append(listener)
            run.host_file = host_file
            self.current = run
            self._lease.pin()
            self._task = asyncio.create_task(self._finish(run))

    def owned(self, run_id: str, owner: str) -> ActiveRun:
        """The run in progress, if it has this id and this owner.

        Raises:
            UsageError: no run with this id and owner is in progress.
        """
        if self.running_for(owner) != run_id or self.current is None:
            raise UsageError(f"run {run_id[:64]!r} is not in progress")
        return self.current

    def running_for(self, owner: str) -> str | None:
        """Id of the run in progress, if it belongs to this owner; else None."""
        is_owned = self.current is not None and self.current.owner == owner
        return self.current.request.run_id if self.current and is_owned else None

    def forget(self, listener: Listener) -> None:
        """Remove a listener that has disconnected."""
        if self.current is not None and listener in self.current.listeners:
            self.current.listeners.remove(listener)

    def watch(self, on_reading: Callable[[LiveReading], None] | None) -> None:
        """Set the function that receives the readings of all runs; None removes the function."""
        self._on_reading = on_reading
        if self._sampler is not None:
            self._sampler.watch(is_watched=on_reading is not None)

    async def end(self) -> None:
        """Stop the run in progress, and wait until it is spooled."""
        if self.current:
            await self.current.worker.stop()
        if self._task:
            await asyncio.shield(self._task)

    async def abandon(self, error: SeatLeft) -> None:
        """End the run in progress with an error, wait for its spooling, and reject later runs."""
        async with self._starting:  # after a start in progress
            self._left = error
        if self.current:
            self.current.left = error
            await self.current.worker.kill()
        if self._task:
            await asyncio.shield(self._task)

    async def _admit(self, request: RunStart, owner: str) -> ActiveRun:
        self._models.hold(*_digests(request))
        try:
            return await self._begin(request, owner)
        except BaseException:  # also when the start is cancelled
            self._models.let_go(*_digests(request))
            raise

    async def _begin(self, request: RunStart, owner: str) -> ActiveRun:
        job = await self._job(request)
        directory = self._spool.begin(request.run_id)
        environment = self._surroundings.environment()
        worker = WorkerProcess(directory, job)
        metering = MeterRecorder(job.spec.meter, directory / METER_FILE)
        run = ActiveRun(request, owner, job.model, environment, worker, metering)
        try:
            await worker.start()
            if simulation := self._surroundings.simulation:
                simulation.attach(worker.pid)
        except BaseException:  # also when cancelled
            self._spool.discard(request.run_id)
            raise
        return run

    async def _job(self, request: RunStart) -> Job:
        """Check that the files and devices for a run are present, and create the worker's job."""
        if (target := self._surroundings.target) is not None:
            return await self._target_job(request, target)
        if request.spec.engine is Engine.TARGET:
            raise UsageError(
                f"engine target requires a microcontroller, but {self._device.name} is not one"
            )
        # Imported here because an idle agent needs no runtime drivers.
        from edgebench.agent.runtimes.registry import find_runtime

        spec, verified = request.spec, self._models.verified_path
        check_cpus(self._device.name, spec.cpus, own_cpus())
        simulation = self._surroundings.simulation
        runtime = find_runtime(spec.runtime)
        path = await asyncio.to_thread(verified, request.model_sha256)
        require_served(spec.meter, self._wiring.meters)
        if spec.is_profiled and runtime.no_profiler:
            raise ModelRefused(runtime.no_profiler)  # before the measurement, not after it
        dataset, inputs = await self._given_files(spec)
        size_bytes = path.stat().st_size
        model = ModelFacts(
            name=request.model_name[:200],
            sha256=request.model_sha256,
            format=runtime.formats[0],
            size_bytes=size_bytes,
        )
        return Job(
            run_id=request.run_id,
            spec=spec,
            model=model,
            model_path=str(path),
            dataset_path=dataset,
            memory_bytes=spec.limits.memory_bytes or default_memory_bytes(size_bytes, spec),
            daemon_pid=os.getpid(),
            inputs_path=inputs,
            root=str(self._surroundings.root),
            speed_path=str(simulation.speed_path) if simulation else None,
            sync_line=self._wiring.sync_line,
            devices=tuple(
                path for accelerator in self._profile.accelerator for path in accelerator.devices
            ),
        )

    async def _given_files(self, spec: RunSpec) -> tuple[str | None, str | None]:
        """Paths of the run's data set and inputs; each is None if the run does not use it."""
        dataset, inputs = [
            str(await asyncio.to_thread(self._models.verified_path, digest)) if digest else None
            for digest in (spec.dataset_sha256, spec.inputs_sha256)
        ]
        return dataset, inputs

    async def _target_job(self, request: RunStart, target: TargetDescription) -> Job:
        """Create the job of a worker that drives a target, with the same checks as in `_job`."""
        spec = request.spec
        report = runtime_report()
        if spec.runtime != report.name or spec.engine is not Engine.TARGET:
            raise RuntimeUnavailable(
                f"{self._device.name} is a target and requires runtime {report.name} with engine "
                f"target; got runtime {spec.runtime[:40]!r}, engine {spec.engine.value}"
            )
        require_served(spec.meter, self._wiring.meters)
        dataset, inputs = await self._given_files(spec)
        has_own_file = target.takes_own_file and request.model_sha256
        if target.own_model is not None and not has_own_file:
            if request.model_sha256:
                raise ModelRefused(
                    f"{self._device.name} takes no model: its firmware contains {target.own_model}"
                )
            if dataset or inputs or spec.is_checked:
                raise UsageError(
                    f"{target.own_model} is part of a firmware: it takes no input files, and its "
                    "outputs cannot be checked"
                )
            model, path = ModelFacts(target.own_model, None, FIRMWARE_FORMAT, None), ""
        elif not request.model_sha256:
            raise UsageError(
                f"{self._device.name} has no model in its firmware: specify a model file"
            )
        else:
            path = str(await asyncio.to_thread(self._models.verified_path, request.model_sha256))
            size_bytes = os.path.getsize(path)
            model = ModelFacts(
                request.model_name[:200], request.model_sha256, report.formats[0], size_bytes
            )
        return Job(
            run_id=request.run_id,
            spec=spec,
            model=model,
            model_path=path,
            dataset_path=dataset,
            inputs_path=inputs,
            memory_bytes=spec.limits.memory_bytes or TARGET_MEMORY_BYTES,
            daemon_pid=os.getpid(),
            target=target.address,
            target_name=target.reported_name,
        )

    async def _finish(self, run: ActiveRun) -> None:
        run_id = run.request.run_id
        try:
            ended = await self._measure(run)
        except Exception as exc:  # the waiting host must receive an end
            # Only a possible bug needs a traceback; a named error is, for example, a full disk.
            is_bug = not isinstance(exc, EdgebenchError)
            logger.error("run %s could not be spooled: %s", run_id, exc, exc_info=is_bug)
            await run.worker.kill()
            self._spool.discard(run_id)
            code = exc.code if isinstance(exc, EdgebenchError) else ErrorCode.INTERNAL
            ended = RunEnded(run_id, Outcome.FAILED, int(code), str(exc), is_spooled=False)
        finally:
            self.current = None
            self._models.let_go(*_digests(run.request))
            self._lease.unpin()
        run.send(ended)
        give_back()

    async def _measure(self, run: ActiveRun) -> RunEnded:
        def stop() -> None:
            self._stopping = asyncio.create_task(run.worker.stop())

        def on_message(message: SamplerMessage) -> None:
            if isinstance(message, LiveReading):
                live = message
                run.send(Telemetry(run.request.run_id, live.time_ns, live.temp_c, live.freq_hz))
                if self._on_reading is not None:
                    self._on_reading(live)
            else:
                guard.on_message(message)

        directory = run.worker.directory
        self._sampler = sampler = SamplerProcess(directory)
        sampler.watch(is_watched=self._on_reading is not None)
        guard = Guard(self._surroundings.expected.abort_c, stop=stop, note=run.note)
        worker_record, error = None, None
        try:
            # In a thread, because on a phone this runs several commands.
            await asyncio.to_thread(self._surroundings.change_settings, run.request.spec)
            job = self._surroundings.sampler_job(run.request.spec, run.worker.pid)
            if job.rate_hz > 0:
                await sampler.start(job, on_message)
            run.cooldown = await self._cool_down(run, guard)
            if not run.worker.has_ended:  # otherwise that is the reason to report
                await guard.let_start()
            async with run.metering:
                worker_record = await work_between_idling(run)
            failure = run.worker.failure
            if worker_record.is_interrupted and failure and not run.worker.is_stopping:
                error = failure
                run.note("failed", str(error))
        except EdgebenchError as exc:
            error = run.left or exc
            run.note("failed", str(error))
            await run.worker.kill()
        finally:
            self._sampler = None
            try:
                telemetry = await sampler.end()  # last readings before the restore
            finally:
                await asyncio.to_thread(self._surroundings.restore_settings)
        run.too_hot = guard.error
        if run.metering.trouble is not None:
            run.note(METER_TROUBLE, run.metering.trouble)
        record = self._record(run, worker_record, error, telemetry)
        await asyncio.to_thread(self._spool_run, directory, record, run.host_file)
        return RunEnded(record.run_id, record.outcome, record.error_code, record.error)

    async def _cool_down(self, run: ActiveRun, guard: Guard) -> CooldownFacts:
        """Wait until the device is cool enough for its profile, or the time for cooling is over."""
        timeout_s = run.request.spec.cooldown_timeout_s
        if timeout_s is None:
            timeout_s = self._surroundings.cooldown_timeout_s
        if timeout_s == 0:
            return CooldownFacts()
        if not self._surroundings.has_thermometer:
            return CooldownFacts(CooldownOutcome.NO_SENSOR)
        run.enter(PhaseStart(Phase.COOLING, timeout_s, monotonic_ns()))
        return await self._surroundings.cool_down(
            timeout_s,
            is_stopping=lambda: run.worker.is_stopping or run.worker.has_ended or guard.is_in_vain,
            may_start=guard.may_start,
            sleep=run.worker.sleep,  # ends early if the worker has died
        )

    def _record(
        self,
        run: ActiveRun,
        measured: MeasuredRecord | None,
        error: EdgebenchError | None,
        telemetry: TelemetryFacts,
    ) -> RunRecord:
        worker = measured if isinstance(measured, WorkerRecord) else None
        if worker is not None and worker.query_count == worker.warmup_query_count:
            worker = measured = None  # stopped in the warm-up: nothing was measured
        outcome = Outcome.COMPLETED
        if measured is None:
            outcome = Outcome.FAILED
        elif measured.is_interrupted:
            outcome = Outcome.INTERRUPTED
        error = _reason(run, outcome, error)
        simulation = self._surroundings.simulation
        return RunRecord(
            run_id=run.request.run_id,
            owner=run.owner,
            spec=run.request.spec,
            model=measured.model if measured else run.model,
            device=self._device,
            environment=run.environment,
            outcome=outcome,
            worker=worker,
            error_code=int(error.code) if error else 0,
            error=str(error) if error else None,
            load_1m_after=self._surroundings.load_1m(),
            telemetry=telemetry,
            expected=self._surroundings.expected,
            cooldown=run.cooldown,
            events=tuple(run.events),
            metered=run.metering.facts,
            emulated=is_emulated(),
            simulated=simulation is not None,
            time_scale=None if simulation is None else simulation.time_scale,
            confinement=run.worker.confinement,
            target=measured if isinstance(measured, TargetRecord) else None,
        )

    def _spool_run(self, directory: Path, record: RunRecord, host_file: bytes) -> None:
        with disk_errors("run not spooled", directory):
            keep_end(directory / WORKER_LOG_FILE, KEPT_LOG_BYTES)
            if record.worker is None:
                (directory / QUERIES_FILE).unlink(missing_ok=True)
            (directory / HOST_FILE).unlink(missing_ok=True)  # written by the worker, perhaps
            if host_file:
                (directory / HOST_FILE).write_bytes(host_file)
            (directory / RECORD_FILE).write_text(json.dumps(to_plain(record)))
        self._spool.finish(record.run_id, record.owner)


def _digests(request: RunStart) -> list[str]:
    """Digests of all files in the model store that a run needs."""
    spec = request.spec
    return [
        digest
        for digest in (request.model_sha256, spec.dataset_sha256, spec.inputs_sha256)
        if digest
    ]


def _reason(
    run: ActiveRun, outcome: Outcome, error: EdgebenchError | None
) -> EdgebenchError | None:
    """Why a run is not complete; None if it is complete, or was stopped after measurements."""
    if outcome is Outcome.COMPLETED:
        return None  # any error came after the measurement
    if run.left is not None or run.too_hot is not None:
        return run.left or run.too_hot
    if outcome is not Outcome.FAILED:
        return error
    # Stopped on request, or by a signal to the worker, which then reports no error.
    was_stopped = run.worker.is_stopping or error is None
    return RunStopped("stopped before anything was measured") if was_stopped else error
