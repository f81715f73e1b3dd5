"""A book of the workers that agents have started, which outlives every process of the farm.

Results alone do not tell whether a run was made twice and stored once. So each worker writes its
run's id into a file as its first act: Python imports `sitecustomize` before anything else.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

_MODULE = """\
import json
import os
import sys
import time

if "edgebench.agent.worker.main" in sys.orig_argv:
    run = os.path.basename(sys.orig_argv[sys.orig_argv.index("edgebench.agent.worker.main") + 1])
    entry = {"run_id": run, "pid": os.getpid(), "time_s": time.time()}
    book = os.open(BOOK, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(book, json.dumps(entry).encode() + b"\\n")
    os.close(book)
"""


@dataclass(frozen=True, slots=True)
class WorkerStart:
    """A worker that was started."""

    run_id: str
    pid: int
    time_s: float
    """Wall-clock time, for the log of the faults."""


class StartBook:
    """The book, in a directory of its own."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True)
        self._folder = folder
        self._path = folder / "starts.jsonl"
        module = f"BOOK = {str(self._path)!r}\n{_MODULE}"
        (folder / "sitecustomize.py").write_text(module)

    @property
    def environment(self) -> dict[str, str]:
        """Variables of an agent whose workers write into the book."""
        return {"PYTHONPATH": str(self._folder)}

    def read(self) -> list[WorkerStart]:
        """All starts so far, oldest first."""
        if not self._path.exists():
            return []
        return [WorkerStart(**json.loads(line)) for line in self._path.read_text().splitlines()]
