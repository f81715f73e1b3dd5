"""A Dask scheduler and lab hosts as processes on loopback, each of which may be killed."""

from __future__ import annotations

import os
import select
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from support.agents import Host

START_TIMEOUT_S = 90.0


@dataclass
class ClusterProcess:
    """A child process that is killed and started again."""

    process: subprocess.Popen[str] | None = field(default=None, init=False)

    def kill(self) -> None:
        """SIGKILL it."""
        if self.process is not None:
            self.process.kill()
            self.process.wait(30)
            if self.process.stdout is not None:
                self.process.stdout.close()
            self.process = None


@dataclass
class SchedulerProcess(ClusterProcess):
    """`dask scheduler`, always on the same port."""

    folder: Path
    port: int
    host: str = "127.0.0.1"
    allowed_failures: int = 3
    """Workers that may die with one task before Dask begins it no more; 3 is Dask's default."""

    @property
    def address(self) -> str:
        """Address as `--cluster` takes it."""
        return f"tcp://{self.host}:{self.port}"

    def start(self) -> SchedulerProcess:
        """Start it; lab hosts and coordinators wait for it."""
        self.folder.mkdir(parents=True, exist_ok=True)
        words = ["--host", self.host, "--port", str(self.port), "--no-dashboard"]
        with (self.folder / "scheduler.txt").open("ab") as errors:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "distributed.cli.dask_scheduler", *words],
                stdout=errors,
                stderr=errors,
                text=True,
                start_new_session=True,
                env=os.environ
                | {"DASK_DISTRIBUTED__SCHEDULER__ALLOWED_FAILURES": str(self.allowed_failures)},
            )
        return self


@dataclass
class LabProcess(ClusterProcess):
    """`edgebench lab work`."""

    host: Host
    name: str
    address: str
    words: Sequence[str] = ()

    def start(self) -> LabProcess:
        """Start it, and wait until the scheduler has registered it."""
        with (self.host.folder / "lab.txt").open("ab") as errors:
            self.process = subprocess.Popen(
                [
                    *(sys.executable, "-m", "edgebench.host.cli", "lab", "work", self.address),
                    *("--name", self.name, "--host", "127.0.0.1", *self.words),
                ],
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                env=os.environ | self.host.environment,
                stdin=subprocess.DEVNULL,
                start_new_session=True,
            )
        assert self.process.stdout is not None
        readable, _, _ = select.select([self.process.stdout], [], [], START_TIMEOUT_S)
        line = self.process.stdout.readline() if readable else ""
        assert line.startswith("ready: lab host "), (self.host.folder / "lab.txt").read_text()
        return self
