"""The daemon's side of a worker: start it, follow its phases, name the way it ended."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import signal
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from edgebench.agent.files import disk_errors, keep_regular, last_line
from edgebench.agent.runtimes.text import library_line
from edgebench.agent.worker.job import COMPLETE, REACHED, WAITING, WORKER_RECORD_FILE, Job
from edgebench.agent.worker.limits import (
    DISK_LIMIT_FILES,
    MAX_FILES,
    largest_file_bytes,
    written_bytes,
)
from edgebench.agent.worker.timeouts import (
    CHECK_TIMEOUT_S,
    COMPLETE_TIMEOUT_S,
    SPOOL_TIMEOUT_S,
    STOP_GRACE_S,
    TIMEOUT_FACTOR,
    TIMEOUT_MARGIN_S,
    UPLOAD_BYTES_PER_S,
)
from edgebench.protocol.errors import (
    EdgebenchError,
    ModelRefused,
    RemoteProtocolError,
    WorkerDied,
    WorkerTimeout,
    error_from_code,
)
from edgebench.protocol.plain import from_plain, to_plain
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
from edgebench.protocol.spec import Limits
from edgebench.protocol.traces import WORKER_LOG_FILE

SETTLE_TIMEOUT_S = 30.0
"""Time for the start of the interpreter, which takes a second or two on a small board."""
DISK_PERIOD_S = 1.0
"""Interval of the checks of the disk usage; a check takes 30 µs."""
MAX_LINE_BYTES = 16 * 1024
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


@dataclass(frozen=True, slots=True)
class PhaseStart:
    """Begin of a phase of the worker."""

    phase: Phase
    expected_s: float | None
    time_ns: int


class WorkerProcess:
    """One worker, from start to end."""

    def __init__(self, directory: Path, limits: Limits) -> None:
        self.directory = directory
        self._limits = limits
        self._phase = Phase.STARTING
        self._failure: EdgebenchError | None = None
        self._process: asyncio.subprocess.Process
        self._reader: asyncio.StreamReader
        self._held: bytes | None = None
        """A line that was read before `follow`."""
        self._job: Job
        self.confinement: Confinement | None = None
        """Confinement, as the worker told it before it knew the model; None until then."""
        self.is_stopping = False
        self._is_complete = False
        """Whether its record stands, however it ends."""
        self._is_session_ended = False
        """Whether its session was ended after the process had."""

    @property
    def pid(self) -> int:
        """Process id."""
        return self._process.pid

    async def start(self, job: Job) -> None:
        """Start the process, which then waits for `go`."""
        self._job = job
        with disk_errors("worker not started", self.directory):
            (self.directory / "job.json").write_text(json.dumps(to_plain(job)))
            log = (self.directory / WORKER_LOG_FILE).open("wb")
        read_end, write_end = os.pipe()
        self._reader = asyncio.StreamReader(limit=MAX_LINE_BYTES)
        await asyncio.get_running_loop().connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(self._reader),
            os.fdopen(read_end, "rb", buffering=0),
        )
        try:
            self._process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "edgebench.agent.worker.main"),
                *(str(self.directory), str(write_end)),
                stdin=asyncio.subprocess.PIPE,
                stdout=log,
                stderr=log,
                pass_fds=[write_end],
                cwd=self.directory,
                # Where a library needs a file for a moment, it finds a place that it may write to.
                env=os.environ | {"TMPDIR": str(self.directory)},
                start_new_session=True,
            )
        finally:
            os.close(write_end)  # else the reader never sees the end
            log.close()

    @property
    def failure(self) -> EdgebenchError | None:
        """What went wrong until now, by the worker's own words or by what was seen of it."""
        return self._failure

    @property
    def has_ended(self) -> bool:
        """Whether the process is gone."""
        return self._process.returncode is not None

    async def sleep(self, seconds: float) -> None:
        """Wait for so long, or until the process has ended."""
        with contextlib.suppress(asyncio.TimeoutError):
            await asyncio.wait_for(self._process.wait(), seconds)

    async def settle(self) -> None:
        """Wait until the process has nothing to do but wait for `go`, or has ended."""
        with contextlib.suppress(asyncio.TimeoutError):
            self._held = await asyncio.wait_for(self._read_line(), SETTLE_TIMEOUT_S)

    def go(self) -> None:
        """Let the worker begin."""
        if self._process.stdin:
            self._process.stdin.close()

    async def follow(
        self,
        on_phase: Callable[[PhaseStart], None],
        on_reached: Callable[[PhaseProgress], None] = lambda _: None,
    ) -> MeasuredRecord:
        """Wait for the end; the worker's record.

        Raises:
            WorkerTimeout: a phase took too long; the worker is gone.
            WorkerDied: it ended without a reason or a record.
            EdgebenchError: the failure that the worker itself reported.
        """
        watching = asyncio.create_task(self._watch_disk())
        try:
            return await self._follow(on_phase, on_reached)
        finally:
            watching.cancel()

    async def _watch_disk(self) -> None:
        """End a worker that writes more than any run does."""
        limit = DISK_LIMIT_FILES * largest_file_bytes(self._job.spec.max_query_count)
        while not self.has_ended:
            await asyncio.sleep(DISK_PERIOD_S)
            if written_bytes(self.pid, self.directory) > limit:
                self._failure = ModelRefused(
                    f"the model wrote more than {format_bytes(limit)} or {MAX_FILES} files to the "
                    "disk"
                )
                self._end_session()

    async def _follow(
        self,
        on_phase: Callable[[PhaseStart], None],
        on_reached: Callable[[PhaseProgress], None],
    ) -> MeasuredRecord:
        timeout_s = self._limits.load_timeout_s
        try:
            while line := await asyncio.wait_for(self._read_line(), timeout_s):
                began = self._take(line)
                if isinstance(began, PhaseProgress):  # its timeout begins anew
                    on_reached(began)
                elif began is not None:
                    self._phase = began.phase
                    timeout_s = self._timeout_s(began)
                    on_phase(began)
                elif self._is_complete:
                    timeout_s = COMPLETE_TIMEOUT_S
            code = await asyncio.wait_for(self._process.wait(), STOP_GRACE_S)
        except asyncio.TimeoutError:
            doing = _DOING[self._phase]
            code = await self._end_overdue()
            if self._is_complete:
                return self._read_record()
            if self._has_record:
                return self._unchecked(f"it was still {doing} after {timeout_s:g} s")
            if code != 0:
                raise WorkerTimeout(f"worker was still {doing} after {timeout_s:g} s") from None
        finally:
            self._end_session()
            with disk_errors("run not spooled", self.directory):
                keep_regular(self.directory)
        if self._is_complete:
            return self._read_record()
        if self._has_record and (self._failure or code != 0):
            return self._unchecked(str(self._failure or self._obituary(code)))
        if self._failure:
            raise self._failure
        if code != 0:
            raise WorkerDied(self._obituary(code))
        return self._read_record()

    @property
    def _has_record(self) -> bool:
        """Whether the measurement is on the disk: checks follow, or a target is let go of."""
        is_target = self._job.target is not None
        is_kept = is_target and (self.directory / WORKER_RECORD_FILE).exists()
        return is_kept or self._phase is Phase.CHECKING

    def _unchecked(self, reason: str) -> MeasuredRecord:
        """The record from before the checks: the measurement is not lost with the worker."""
        record = self._read_record()
        if isinstance(record, TargetRecord):  # it has kept what it had of the data set
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
        """Ask the worker to end and keep its measurement; kill it after a while."""
        self.is_stopping = True
        with contextlib.suppress(ProcessLookupError):
            self._process.terminate()
        try:
            await asyncio.wait_for(self._process.wait(), STOP_GRACE_S)
        except asyncio.TimeoutError:
            if self._phase is not Phase.SPOOLING:  # a worker that writes its results may finish
                await self.kill()

    async def _end_overdue(self) -> int:
        """End a worker that took too long; 0 when it could still write its measurement."""
        if self._phase is Phase.MEASURING:
            with contextlib.suppress(ProcessLookupError):
                self._process.terminate()
            with contextlib.suppress(asyncio.TimeoutError):
                return await asyncio.wait_for(self._process.wait(), STOP_GRACE_S)
        await self.kill()
        return -signal.SIGKILL

    async def kill(self) -> None:
        """End the worker now, with every process that it may have started."""
        self._end_session()
        await self._process.wait()

    def _end_session(self) -> None:
        # It leads a session of its own. Where no filter keeps it from starting processes, they may
        # be there when it has ended; later its number may be another's.
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
        except ValueError:  # longer than the limit: not one of ours
            return b""

    def _take(self, line: bytes) -> PhaseStart | PhaseProgress | None:
        try:
            fields: dict[str, Any] = json.loads(line)
            if WAITING in fields and self.confinement is None:
                if fields[WAITING] is not None:
                    self.confinement = from_plain(fields[WAITING], Confinement)
                return None
            if COMPLETE in fields:
                self._is_complete = True
                return None
            if "failed" in fields:
                text = library_line(fields["failed"])
                self._failure = error_from_code(int(fields["code"]), text)
                return None
            if REACHED in fields:
                return from_plain(fields[REACHED], PhaseProgress)
            expected_s = fields["expected_s"]
            return PhaseStart(Phase(fields["phase"]), expected_s, int(fields["time_ns"]))
        except (ValueError, KeyError, TypeError, RemoteProtocolError):
            self._failure = WorkerDied("worker sent an unreadable message")
            return None

    def _timeout_s(self, began: PhaseStart) -> float:
        expected_s = TIMEOUT_FACTOR * (began.expected_s or 0.0)
        if began.phase is Phase.LOADING:
            is_upload, size_bytes = self._job.target is not None, self._job.model.size_bytes or 0
            upload_s = size_bytes / UPLOAD_BYTES_PER_S if is_upload else 0.0
            return self._limits.load_timeout_s + upload_s
        if began.phase is Phase.SPOOLING:
            return SPOOL_TIMEOUT_S + expected_s
        if began.phase is Phase.CHECKING:
            return CHECK_TIMEOUT_S
        # The limit is one of the measurement; marks for a meter are not part of it.
        if began.phase is not Phase.SYNCING and self._limits.measure_timeout_s is not None:
            return self._limits.measure_timeout_s
        return expected_s + TIMEOUT_MARGIN_S

    def _obituary(self, code: int) -> str:
        doing = _DOING[self._phase]
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
        try:
            plain = json.loads((self.directory / WORKER_RECORD_FILE).read_bytes())
            if self._job.target is not None:
                return from_plain(plain, TargetRecord)
            return from_plain(plain, WorkerRecord)
        except (OSError, ValueError, RemoteProtocolError) as exc:
            raise WorkerDied(f"worker left no readable record: {exc}") from exc


def monotonic_ns() -> int:
    """The device's monotonic clock, the one that queries and telemetry use."""
    return time.perf_counter_ns()
