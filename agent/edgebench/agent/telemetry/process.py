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
from typing import Any

from edgebench.agent.telemetry.job import FACTS_FILE, JOB_FILE, SamplerJob
from edgebench.protocol.codec import from_plain, to_plain
from edgebench.protocol.errors import EdgebenchError
from edgebench.protocol.record import AbsentSensor, TelemetryFacts
from edgebench.protocol.traces import TELEMETRY_FILE

logger = logging.getLogger(__name__)

READY_TIMEOUT_S = 20.0
END_TIMEOUT_S = 10.0
MAX_LINE_BYTES = 4096


@dataclass(frozen=True, slots=True)
class Live:
    """What a person wants to see while a run goes on; None where nothing tells."""

    time_ns: int
    temp_c: float | None
    freq_hz: float | None


@dataclass(frozen=True, slots=True)
class TooHot:
    """A zone reached the temperature at which a run has to end."""

    zone: str
    temp_c: float
    limit_c: float


Hear = Callable[[Live | TooHot], None]


class SamplerProcess:
    """One sampler; it samples until `end`, or until the daemon dies."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._process: asyncio.subprocess.Process | None = None
        self._listening: asyncio.Task[None] | None = None
        self._failure = "the sampler was not started"

    async def start(self, job: SamplerJob, hear: Hear) -> None:
        """Start the process; without it, the run goes on."""
        (self._directory / JOB_FILE).write_text(json.dumps(to_plain(job)))
        try:
            self._process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "edgebench.agent.telemetry.sampler", self._directory),
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.DEVNULL,
                limit=MAX_LINE_BYTES,
            )
        except OSError as exc:
            self._failure = f"the sampler did not start: {exc.strerror}"
            return
        # Its start takes a second of CPU on a small board: not beside the model's cold start.
        with contextlib.suppress(asyncio.TimeoutError):
            await asyncio.wait_for(_ready(self._process), READY_TIMEOUT_S)
        self._listening = asyncio.create_task(_listen(self._process, hear))

    async def end(self) -> TelemetryFacts:
        """End the sampling; what was sampled, and what was absent with the reason.

        A sampler that fails costs the run its telemetry, never its latencies.
        """
        if self._process is None:
            return _nothing(self._failure)
        if self._process.stdin:
            self._process.stdin.close()
        try:
            code = await asyncio.wait_for(self._process.wait(), END_TIMEOUT_S)
        except asyncio.TimeoutError:
            self._process.kill()
            code = await self._process.wait()
        if self._listening:
            await self._listening
        if code != 0 or not (self._directory / TELEMETRY_FILE).exists():
            (self._directory / TELEMETRY_FILE).unlink(missing_ok=True)
            return _nothing(f"the sampler ended with status {code}")
        facts = json.loads((self._directory / FACTS_FILE).read_text())
        return from_plain(facts, TelemetryFacts)


async def _ready(process: asyncio.subprocess.Process) -> None:
    """Wait for the first line; a sampler that ends says nothing more."""
    if process.stdout is not None and (line := await process.stdout.readline()):
        logger.debug("the sampler says %r", line[:80])


def _nothing(reason: str) -> TelemetryFacts:
    return TelemetryFacts(absent=(AbsentSensor("all", reason),))


async def _listen(process: asyncio.subprocess.Process, hear: Hear) -> None:
    """Hand on what the sampler says; one of its lines that makes no sense is dropped."""
    if process.stdout is None:
        return
    while line := await process.stdout.readline():
        try:
            said = _heard(json.loads(line))
        except (ValueError, EdgebenchError) as exc:
            logger.warning("the sampler said %r: %s", line[:80], exc)
            continue
        hear(said)


def _heard(message: dict[str, Any]) -> Live | TooHot:
    if "abort" in message:
        return from_plain(message["abort"], TooHot)
    return from_plain(message.get("live"), Live)
