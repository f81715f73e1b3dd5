"""Output of a command, and a host whose store holds one measured run."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from support.agents import Host

METERED = (
    *("--quick", "--runs=1", "--runtime", "litert", "--duration", "0.5s", "--min-queries", "50"),
    *(
        "--warmup",
        "2",
        "--warmup-duration",
        "0.05s",
        "--no-check",
        "--cooldown",
        "0s",
        "--idle",
        "0.5s",
    ),
)
"""A short run for a meter, on whatever device."""
QUICK = (
    *("--quick", "--runs=1", "--duration", "0.1s", "--min-queries", "50"),
    *("--warmup", "2", "--warmup-duration", "0.05s"),
)


_NOTICES_SOON = """
import sys
from edgebench.host.cli.main import main
from edgebench.host.transports import link
link.WEBSOCKET_OPTIONS.update(ping_interval=0.5, ping_timeout=1.5)
sys.exit(main(sys.argv[1:]))
"""
IMPATIENT = (sys.executable, "-c", _NOTICES_SOON)
"""`edgebench` that notices a silent device in two seconds; the real one takes half a minute."""


@contextmanager
def started(words: Sequence[str], host: Host) -> Iterator[subprocess.Popen[str]]:
    """A command in the background, which is killed if the test fails meanwhile.

    Otherwise its process and pipes would fail a later test, as leftovers.
    """
    with subprocess.Popen(
        words,
        env=os.environ | host.environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            yield process
        finally:
            process.kill()  # without effect after its end


@dataclass(frozen=True)
class Said:
    """The output of a command, and its exit code."""

    code: int
    out: str
    err: str


Run = Callable[..., Said]


@dataclass(frozen=True)
class Measured:
    """A host whose store holds one run of its own machine."""

    host: Host
    out: str
    err: str
    code: int

    @property
    def document(self) -> dict[str, Any]:
        """The document that `bench --json` printed."""
        (document,) = json.loads(self.out)["runs"]
        found: dict[str, Any] = document
        return found

    @property
    def run_id(self) -> str:
        """The run."""
        return str(self.document["run_id"])
