"""The daemon's side of the sampler: start it beside a worker, hear it, end it."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from edgebench.agent.files import last_line
from edgebench.agent.runtimes.text import one_line
from edgebench.agent.telemetry.job import (
    FACTS_FILE,
    JOB_FILE,
    READY,
    HeatReport,
    LiveReading,
    SamplerJob,
)
from edgebench.protocol.codec import from_plain, to_plain
from edgebench.protocol.errors import EdgebenchError
from edgebench.protocol.record import AbsentSensor, TelemetryFacts
from edgebench.protocol.traces import TELEMETRY_FILE

logger = logging.getLogger(__name__)

SILENCE_S = 30.0
"""A sampler tells something once a second; a small board needs some seconds to start it."""
END_TIMEOUT_S = 120.0
"""A small board sorts the trace of an hour for half a minute."""
MAX_LINE_BYTES = 4096
LOG_FILE = "sampler.log"
"""What it says before it fails."""


@dataclass(frozen=True, slots=True)
class SamplerLoss:
    """The sampler watches no more, or never did."""

    reason: str


SamplerMessage = LiveReading | HeatReport | SamplerLoss
Hear = Callable[[SamplerMessage], None]


class SamplerProcess:
    """One sampler; it samples until `end`, or until the daemon dies."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._process: asyncio.subprocess.Process | None = None
        self._listening: asyncio.Task[None] | None = None
        self._settled = asyncio.Event()
        """It is ready, or will never be."""
        self._is_ending = False
        self._failure = ""

    async def start(self, job: SamplerJob, hear: Hear) -> None:
        """Start the process and wait until it is ready; a failure is told to `hear`."""
        try:
            self._process = await self._start(job)
        except OSError as exc:
            self._lose(f"the sampler did not start: {exc.strerror or exc}", hear)
            return
        self._listening = asyncio.create_task(self._listen(self._process, hear))
        # Its start takes a second of CPU on a small board: not beside the model's cold start.
        await self._settled.wait()

    async def end(self) -> TelemetryFacts:
        """End the sampling; what was sampled, and what was absent with the reason.

        A sampler that fails costs the run its telemetry, never its latencies.
        """
        if self._process is None:
            return _nothing(self._failure or "the sampler was not started")
        self._is_ending = True
        if self._process.stdin:
            self._process.stdin.close()
        try:
            code = await asyncio.wait_for(self._process.wait(), END_TIMEOUT_S)
        except asyncio.TimeoutError:
            self._failure = f"the sampler did not end within {END_TIMEOUT_S:g} s"
            with contextlib.suppress(ProcessLookupError):
                self._process.kill()
            code = await self._process.wait()
        if self._listening:
            self._listening.cancel()
        return self._facts(code)

    async def _start(self, job: SamplerJob) -> asyncio.subprocess.Process:
        (self._directory / JOB_FILE).write_text(json.dumps(to_plain(job)))
        with (self._directory / LOG_FILE).open("wb") as log:
            return await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "edgebench.agent.telemetry.sampler", self._directory),
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=log,
                limit=MAX_LINE_BYTES,
            )

    async def _listen(self, process: asyncio.subprocess.Process, hear: Hear) -> None:
        """Hand on what the sampler says until its last line."""
        assert process.stdout is not None
        while True:
            try:
                line = await asyncio.wait_for(process.stdout.readline(), SILENCE_S)
            except asyncio.TimeoutError:
                self._lose(f"the sampler said nothing for {SILENCE_S:g} s", hear)
                continue
            except ValueError:  # longer than any line of ours; the reader has dropped it
                continue
            if not line:
                break
            if line.strip() == READY.encode():
                self._settled.set()
            else:
                _hand_on(line, hear)
        self._lose(self._obituary(await process.wait()), hear)

    def _lose(self, reason: str, hear: Hear) -> None:
        self._settled.set()
        if not self._is_ending and not self._failure:
            self._failure = reason
            _tell(SamplerLoss(reason), hear)

    def _facts(self, code: int) -> TelemetryFacts:
        trace = self._directory / TELEMETRY_FILE
        if code == 0 and trace.exists():
            try:
                plain = json.loads((self._directory / FACTS_FILE).read_bytes())
                return from_plain(plain, TelemetryFacts)
            except (OSError, ValueError, EdgebenchError) as exc:
                self._failure = one_line(f"the sampler left no readable account: {exc}")
        trace.unlink(missing_ok=True)
        return _nothing(self._failure or self._obituary(code))

    def _obituary(self, code: int) -> str:
        said = one_line(last_line(self._directory / LOG_FILE))
        return f"the sampler ended with status {code}{f': {said}' if said else ''}"


def _nothing(reason: str) -> TelemetryFacts:
    return TelemetryFacts(absent=(AbsentSensor("all", reason),))


def _hand_on(line: bytes, hear: Hear) -> None:
    """A line that makes no sense is dropped."""
    try:
        message = json.loads(line)
        is_watched = "watched" in message
        said = from_plain(message["watched" if is_watched else "live"], _kind(is_watched))
    except (ValueError, LookupError, TypeError, EdgebenchError) as exc:
        logger.warning("the sampler said %r: %s", line[:80], exc)
        return
    _tell(said, hear)


def _kind(is_watched: bool) -> type[LiveReading] | type[HeatReport]:
    return HeatReport if is_watched else LiveReading


def _tell(said: SamplerMessage, hear: Hear) -> None:
    """A listener that fails is no reason to lose what the next one would hear."""
    try:
        hear(said)
    except Exception:  # a host's connection may fail in many ways
        logger.exception("%s of the sampler was not heard", type(said).__name__)
