"""The daemon's side of the sampler: start it beside a worker, end it, take what it found."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path

from edgebench.agent.telemetry.sampler import ABSENT_FILE
from edgebench.protocol.record import AbsentSensor
from edgebench.protocol.traces import SENSORS_FILE

END_TIMEOUT_S = 10.0


class SamplerProcess:
    """One sampler; it samples until `end`, or until the daemon dies."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._process: asyncio.subprocess.Process | None = None
        self._failure = "the sampler was not started"

    async def start(self, worker_pid: int) -> None:
        """Start the process; without it, the run goes on."""
        try:
            self._process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "edgebench.agent.telemetry.sampler"),
                *(str(self._directory), str(worker_pid)),
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.DEVNULL,
                stderr=asyncio.subprocess.DEVNULL,
            )
        except OSError as exc:
            self._failure = f"the sampler did not start: {exc.strerror}"

    async def end(self) -> tuple[AbsentSensor, ...]:
        """End the sampling; the sensors that were absent, with the reason.

        A sampler that fails costs the run its telemetry, never its latencies.
        """
        if self._process is None:
            return (AbsentSensor("all", self._failure),)
        if self._process.stdin:
            self._process.stdin.close()
        try:
            code = await asyncio.wait_for(self._process.wait(), END_TIMEOUT_S)
        except asyncio.TimeoutError:
            self._process.kill()
            code = await self._process.wait()
        if code != 0 or not (self._directory / SENSORS_FILE).exists():
            return (AbsentSensor("all", f"the sampler ended with status {code}"),)
        absent = json.loads((self._directory / ABSENT_FILE).read_text())
        return tuple(AbsentSensor(name, reason) for name, reason in absent.items())
