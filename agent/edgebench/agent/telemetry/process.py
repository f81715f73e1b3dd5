"""The daemon's side of the sampler: starts the process, reads its messages, and ends it."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from edgebench.agent.files import last_line
from edgebench.agent.telemetry.job import (
    FACTS_FILE,
    JOB_FILE,
    READY,
    UNWATCHED,
    WATCHED,
    HeatReport,
    LiveReading,
    SamplerJob,
)
from edgebench.protocol.errors import EdgebenchError
from edgebench.protocol.plain import from_plain, to_plain
from edgebench.protocol.telemetry import AbsentSensor, TelemetryFacts
from edgebench.protocol.text import one_line
from edgebench.protocol.traces import TELEMETRY_FILE
from edgebench.system.python_start import python_command

logger = logging.getLogger(__name__)

SILENCE_S = 30.0
"""Time without a message after which a sampler counts as lost.

A sampler reports once a second, and takes some seconds to start on a small board."""
END_TIMEOUT_S = 120.0
"""Maximum time for the last readings and for the trace; a small board sorts the trace in half a
minute."""
MAX_LINE_BYTES = 4096
LOG_FILE = "sampler.log"
"""File with the sampler's standard error, from which the reason of a failure is read."""


@dataclass(frozen=True, slots=True)
class SamplerLoss:
    """The sampler no longer monitors the device, or never did."""

    reason: str


SamplerMessage = LiveReading | HeatReport | SamplerLoss
OnMessage = Callable[[SamplerMessage], None]


class SamplerProcess:
    """The process that samples telemetry, until `end` is called or the daemon dies."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._process: asyncio.subprocess.Process | None = None
        self._listening: asyncio.Task[None] | None = None
        self._settled = asyncio.Event()
        """Event that is set when the process is ready or has failed."""
        self._is_ending = False
        self._is_watched = False
        self._failure = ""

    async def start(self, job: SamplerJob, on_message: OnMessage) -> None:
        """Start the process and wait until it is ready; a failure is passed to `on_message`."""
        directory = self._directory.absolute()
        python = python_command("edgebench.agent.telemetry.sampler", directory, directory=directory)
        try:
            (self._directory / JOB_FILE).write_text(json.dumps(to_plain(job)))
            with (self._directory / LOG_FILE).open("wb") as log:
                self._process = await asyncio.create_subprocess_exec(
                    *python.words,
                    cwd=python.directory,
                    env=python.environment,
                    stdin=asyncio.subprocess.PIPE,
                    stdout=asyncio.subprocess.PIPE,
                    stderr=log,
                    limit=MAX_LINE_BYTES,
                )
        except OSError as exc:
            self._lose(f"the sampler did not start: {exc.strerror or exc}", on_message)
            return
        if self._is_watched:
            self.watch(is_watched=True)
        self._listening = asyncio.create_task(self._listen(self._process, on_message))
        # The start takes a second of CPU on a small board, and must not overlap the cold start.
        await self._settled.wait()

    def watch(self, *, is_watched: bool) -> None:
        """Set whether readings contain samples for watchers; may be called before `start`."""
        self._is_watched = is_watched
        if self._process and self._process.stdin and not self._process.stdin.is_closing():
            self._process.stdin.write(WATCHED if is_watched else UNWATCHED)

    async def end(self) -> TelemetryFacts:
        """End the sampling; returns the sensors that were read, and the reasons for absent sensors.

        If the sampler has failed, the run has no telemetry but keeps its latencies.
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

    async def _listen(self, process: asyncio.subprocess.Process, on_message: OnMessage) -> None:
        """Pass each message of the sampler to `on_message` until the process ends."""
        assert process.stdout is not None
        while True:
            try:
                line = await asyncio.wait_for(process.stdout.readline(), SILENCE_S)
            except asyncio.TimeoutError:
                self._lose(f"the sampler sent nothing for {SILENCE_S:g} s", on_message)
                continue
            except ValueError:  # longer than any valid line; the reader has dropped it
                continue
            if not line:
                break
            if line.strip() == READY.encode():
                self._settled.set()
            elif (message := _message(line)) is not None:
                _deliver(message, on_message)
        self._lose(self._obituary(await process.wait()), on_message)

    def _lose(self, reason: str, on_message: OnMessage) -> None:
        self._settled.set()
        if not self._is_ending and not self._failure:
            self._failure = reason
            _deliver(SamplerLoss(reason), on_message)

    def _facts(self, code: int) -> TelemetryFacts:
        trace = self._directory / TELEMETRY_FILE
        if code == 0 and trace.exists():
            try:
                plain = json.loads((self._directory / FACTS_FILE).read_bytes())
                return from_plain(plain, TelemetryFacts)
            except (OSError, ValueError, EdgebenchError) as exc:
                self._failure = one_line(f"the file with the sampler's facts is unreadable: {exc}")
        trace.unlink(missing_ok=True)
        return _nothing(self._failure or self._obituary(code))

    def _obituary(self, code: int) -> str:
        reason = one_line(last_line(self._directory / LOG_FILE))
        return f"the sampler ended with status {code}{f': {reason}' if reason else ''}"


def _nothing(reason: str) -> TelemetryFacts:
    return TelemetryFacts(absent=(AbsentSensor("all", reason),))


def _message(line: bytes) -> SamplerMessage | None:
    """Parse a line of the sampler; returns None if the line is malformed."""
    try:
        plain = json.loads(line)
        if "watched" in plain:
            return from_plain(plain["watched"], HeatReport)
        return from_plain(plain["live"], LiveReading)
    except (ValueError, LookupError, TypeError, EdgebenchError) as exc:
        logger.warning("malformed message of the sampler: %r: %s", line[:80], exc)
        return None


def _deliver(message: SamplerMessage, on_message: OnMessage) -> None:
    """Call the listener with a message; an error of the listener is only logged."""
    try:
        on_message(message)
    except Exception:  # a host's connection may fail in many ways
        logger.exception("%s of the sampler was not delivered", type(message).__name__)
