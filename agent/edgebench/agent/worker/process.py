"""The daemon's side of a worker: start it, follow its phases, report how it ended."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import signal
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from edgebench.agent.files import disk_errors, keep_regular, last_line
from edgebench.agent.runtimes.text import library_line
from edgebench.agent.worker.job import WORKER_RECORD_FILE, Job
from edgebench.agent.worker.limits import (
    DISK_LIMIT_FILES,
    MAX_FILES,
    DiskUse,
    largest_file_bytes,
)
from edgebench.agent.worker.record_file import read_record
from edgebench.agent.worker.reports import MAX_LINE_BYTES, PhaseStart, WorkerReports
from edgebench.agent.worker.timeouts import STOP_GRACE_S
from edgebench.protocol.errors import EdgebenchError, ModelRefused, WorkerDied, WorkerTimeout
from edgebench.protocol.plain import to_plain
from edgebench.protocol.record import (
    CheckFacts,
    Confinement,
    MeasuredRecord,
    Phase,
    PhaseProgress,
    TargetRecord,
    WorkerRecord,
)
from edgebench.protocol.sizes import format_bytes
from edgebench.protocol.traces import WORKER_LOG_FILE
from edgebench.system.python_start import python_command
from edgebench.system.variables import worker_environment

SETTLE_TIMEOUT_S = 30.0
"""Time for the start of the interpreter, which takes a second or two on a small board."""
DISK_PERIOD_S = 1.0
"""Interval of the checks of the disk usage; a check takes 30 µs."""
_CHATTER = re.compile(r"\s*(?:INFO\b|VERBOSE\b|I\d{4} |.*\[[IV]:)")
"""Lines in the log of TensorFlow, glog and ONNX Runtime that do not explain a failure."""
_DOING = {
    Phase.STARTING: "starting",
    Phase.LOADING: "loading the model",
    Phase.SYNCING: "marking time for the meter",
    Phase.WARMING_UP: "warming up",
    Phase.MEASURING: "measuring",
    Phase.CHECKING: "checking the outputs",
    Phase.SPOOLING: "writing its results",
}


class WorkerProcess:
    """A worker process, from its start to its end."""

    def __init__(self, directory: Path, job: Job) -> None:
        self.directory = directory
        self._job = job
        self._reports = WorkerReports(job, time.monotonic())
        self._ended_for: EdgebenchError | None = None
        """Error for which the daemon ended the worker. None if the daemon did not end the worker,
        or ended it because of a timeout."""
        self._process: asyncio.subprocess.Process
        self._reader: asyncio.StreamReader
        self._held: bytes | None = None
        """Line that `settle` has read and `follow` has yet to process; None if there is none."""
        self.is_stopping = False
        self._is_session_ended = False
        """Whether the worker's session was killed after the worker had ended."""

    @property
    def pid(self) -> int:
        """Id of the worker's process, after `start`."""
        return self._process.pid

    async def start(self) -> None:
        """Start the process, which then waits for `go`."""
        job = self._job
        with disk_errors("worker not started", self.directory):
            (self.directory / "job.json").write_text(json.dumps(to_plain(job)))
            log = (self.directory / WORKER_LOG_FILE).open("wb")
        read_end, write_end = os.pipe()
        self._reader = asyncio.StreamReader(limit=MAX_LINE_BYTES)
        await asyncio.get_running_loop().connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(self._reader),
            os.fdopen(read_end, "rb", buffering=0),
        )
        directory = self.directory.absolute()
        python = python_command(
            *("edgebench.agent.worker.main", directory, str(write_end)),
            directory=directory,
            environment=worker_environment(os.environ, directory, is_target=job.target is not None),
        )
        try:
            self._process = await asyncio.create_subprocess_exec(
                *python.words,
                stdin=asyncio.subprocess.PIPE,
                stdout=log,
                stderr=log,
                pass_fds=[write_end],
                cwd=python.directory,
                env=python.environment,
                start_new_session=True,
            )
        finally:
            os.close(write_end)  # otherwise the pipe never ends for the reader
            log.close()

    @property
    def failure(self) -> EdgebenchError | None:
        """Failure that the daemon observed or the worker reported; None if there is none so far."""
        return self._ended_for or self._reports.failure

    @property
    def confinement(self) -> Confinement | None:
        """Confinement that the worker reports before it reads the model; None before that report.

        For a target, whose worker is not confined, the value stays None.
        """
        return self._reports.confinement

    @property
    def has_ended(self) -> bool:
        """Whether the process has ended."""
        return self._process.returncode is not None

    async def sleep(self, seconds: float) -> None:
        """Wait for this time, or until the process has ended if that is earlier."""
        with contextlib.suppress(asyncio.TimeoutError):
            await asyncio.wait_for(self._process.wait(), seconds)

    async def settle(self) -> None:
        """Wait until the process is ready for `go` or has ended, for at most `SETTLE_TIMEOUT_S`."""
        with contextlib.suppress(asyncio.TimeoutError):
            self._held = await asyncio.wait_for(self._read_line(), SETTLE_TIMEOUT_S)

    def go(self) -> None:
        """Let the worker start its job."""
        if self._process.stdin:
            self._process.stdin.close()

    async def follow(
        self,
        on_phase: Callable[[PhaseStart], None],
        on_reached: Callable[[PhaseProgress], None] = lambda _: None,
    ) -> MeasuredRecord:
        """Wait until the worker ends, and return its record.

        Raises:
            WorkerTimeout: a phase took too long; the worker was killed.
            WorkerDied: the worker crashed, or left no readable record.
            EdgebenchError: the failure that the worker reported.
        """
        watching = asyncio.create_task(self._watch_disk())
        try:
            return await self._follow(on_phase, on_reached)
        finally:
            watching.cancel()

    async def _watch_disk(self) -> None:
        """End a worker that writes more than any valid run does."""
        limit = DISK_LIMIT_FILES * largest_file_bytes(self._job.spec.max_query_count)
        disk = DiskUse(self.directory)
        while not self.has_ended:
            await asyncio.sleep(DISK_PERIOD_S)
            is_counted = self.confinement is not None and self.confinement.calls.is_applied
            if disk.taken_bytes(self.pid, is_counted=is_counted) > limit:
                self._end_for(
                    ModelRefused(
                        f"the model wrote more than {format_bytes(limit)} or {MAX_FILES} files to "
                        "the disk"
                    )
                )

    def _end_for(self, error: EdgebenchError) -> None:
        """End the worker because of an error; if there are several errors, the first is kept."""
        self._ended_for = self._ended_for or error
        self._end_session()

    async def _follow(
        self,
        on_phase: Callable[[PhaseStart], None],
        on_reached: Callable[[PhaseProgress], None],
    ) -> MeasuredRecord:
        reports = self._reports
        reports.go(time.monotonic())
        try:
            while line := await self._next_line():
                try:
                    report = reports.take(line, time.monotonic())
                except WorkerDied as exc:
                    self._end_for(exc)
                    break
                if isinstance(report, PhaseProgress):
                    on_reached(report)
                elif report is not None:
                    on_phase(report)
            code = await asyncio.wait_for(self._process.wait(), STOP_GRACE_S)
        except asyncio.TimeoutError:
            late = f"still {_DOING[reports.phase]} after {reports.limit_s:g} s"
            code = await self._end_overdue()
            if reports.is_complete:
                return self._read_record()
            if self._has_record:
                return self._unchecked(f"it was {late}")
            if code != 0:
                raise WorkerTimeout(f"worker was {late}") from None
        finally:
            self._end_session()
            with disk_errors("run not spooled", self.directory):
                keep_regular(self.directory)
        if reports.is_complete:
            return self._read_record()
        if self._has_record and (self.failure or code != 0):
            return self._unchecked(str(self.failure or self._obituary(code)))
        if self.failure:
            raise self.failure
        if code != 0:
            raise WorkerDied(self._obituary(code))
        return self._read_record()

    async def _next_line(self) -> bytes:
        """The next line on the pipe; empty at the end of the pipe.

        Raises:
            asyncio.TimeoutError: the time limit of the worker's phase or run has passed.
        """
        left_s = self._reports.deadline_s - time.monotonic()
        return await asyncio.wait_for(self._read_line(), max(0.0, left_s))

    @property
    def _has_record(self) -> bool:
        """Whether the measurement is on disk, and only checks or a target's release remain."""
        is_target = self._job.target is not None
        is_kept = is_target and (self.directory / WORKER_RECORD_FILE).exists()
        return is_kept or self._reports.phase is Phase.CHECKING

    def _unchecked(self, reason: str) -> MeasuredRecord:
        """The record that was written before the checks, with the reason why they are missing.

        So the measurement of a worker that died in the checks is not lost.
        """
        record = self._read_record()
        if isinstance(record, TargetRecord):  # it contains the data set's partial results
            check = record.check
            is_whole = check.dataset_sample_count >= check.dataset_wanted_count
            check = replace(
                check,
                reference_error=check.reference_error or reason,
                dataset_error=check.dataset_error or (None if is_whole else reason),
            )
            is_stopped = self.is_stopping and check.dataset_error == reason
            return replace(
                record, check=check, is_dataset_stopped=record.is_dataset_stopped or is_stopped
            )
        return replace(record, check=CheckFacts.undone(reason))

    async def stop(self) -> None:
        """Stop the worker so that it keeps its measurement; kill it after `STOP_GRACE_S`."""
        self.is_stopping = True
        with contextlib.suppress(ProcessLookupError):
            self._process.terminate()
        try:
            await asyncio.wait_for(self._process.wait(), STOP_GRACE_S)
        except asyncio.TimeoutError:
            # A worker that writes its results may finish.
            if self._reports.phase is not Phase.SPOOLING:
                await self.kill()

    async def _end_overdue(self) -> int:
        """End a worker that took too long; returns its exit status.

        The status is 0 if the worker still wrote its measurement.
        """
        if self._reports.phase is Phase.MEASURING:
            with contextlib.suppress(ProcessLookupError):
                self._process.terminate()
            with contextlib.suppress(asyncio.TimeoutError):
                return await asyncio.wait_for(self._process.wait(), STOP_GRACE_S)
        await self.kill()
        return -signal.SIGKILL

    async def kill(self) -> None:
        """Kill the worker now, and all processes that it may have started."""
        self._end_session()
        await self._process.wait()

    def _end_session(self) -> None:
        # The worker leads its own session. Without a system-call filter, it may have started
        # processes that outlive it. After its end, the session is killed only once, because the
        # kernel may reuse the id.
        if not self._is_session_ended:
            self._is_session_ended = self.has_ended
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)

    async def _read_line(self) -> bytes:
        if self._held is not None:
            line, self._held = self._held, None
            return line
        try:
            return await self._reader.readline()
        except ValueError:  # longer than the limit: not from our worker
            self._end_for(WorkerDied(f"worker sent a line of more than {MAX_LINE_BYTES} bytes"))
            return b""

    def _obituary(self, code: int) -> str:
        doing = _DOING[self._reports.phase]
        last = library_line(last_line(self.directory / WORKER_LOG_FILE, unlike=_CHATTER))
        detail = f": {last}" if last else ""
        if code > 0:
            return f"worker ended with status {code} while {doing}{detail}"
        # Real-time signals have no name.
        known = {number.value: number.name for number in signal.Signals}
        name = known.get(-code, f"signal {-code}")
        cause = " (out of memory?)" if name == "SIGKILL" else ""
        return f"worker was killed by {name} while {doing}{cause}{detail}"

    def _read_record(self) -> MeasuredRecord:
        path = self.directory / WORKER_RECORD_FILE
        if self._job.target is not None:
            return read_record(path, TargetRecord)
        return read_record(path, WorkerRecord)


def monotonic_ns() -> int:
    """Time of the device's monotonic clock, which queries and telemetry also use."""
    return time.perf_counter_ns()
