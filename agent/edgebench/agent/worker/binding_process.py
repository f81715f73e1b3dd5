"""The process that measures what a binding adds (see `binding`), and the daemon's side of it."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import sys
from collections.abc import Iterable
from dataclasses import dataclass

from edgebench.agent.confine import AllowedPaths, Permissions, confine
from edgebench.agent.worker import facts
from edgebench.agent.worker.job import Job, worker_environment
from edgebench.agent.worker.limits import apply_limits
from edgebench.protocol.codec import from_plain, to_plain
from edgebench.protocol.errors import EdgebenchError
from edgebench.protocol.record import BindingFacts, TensorSpec

TIMEOUT_S = 60.0
"""Time for the interpreter and the runtime's import, which take ten seconds on a small board, and
three for the measurement."""
_CPU_S = 30.0


@dataclass(frozen=True, slots=True)
class BindingJob:
    """What the process is told, on its standard input."""

    job: Job
    tensors: tuple[TensorSpec, ...]


async def measure_apart(job: Job, tensors: Iterable[TensorSpec]) -> BindingFacts:
    """Measure in a process of its own; never raises for what happens there."""
    text = json.dumps(to_plain(BindingJob(job, tuple(tensors)))).encode()
    try:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "edgebench.agent.worker.binding_process"),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
            # Not where the worker was: Python would import what the model left there.
            cwd="/",
            env=worker_environment(),
            start_new_session=True,
        )
    except OSError as exc:
        return BindingFacts(reason=f"no process to measure it in: {exc.strerror}")
    try:
        answer, _ = await asyncio.wait_for(process.communicate(text), TIMEOUT_S)
        return from_plain(json.loads(answer), BindingFacts)
    except asyncio.TimeoutError:
        return BindingFacts(reason=f"not measured within {TIMEOUT_S:g} s")
    except (ValueError, EdgebenchError):
        return BindingFacts(reason="its process ended without a measurement")
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        await process.wait()


def main() -> int:
    """Measure as standard input says; the facts go to standard output."""
    task = from_plain(json.load(sys.stdin), BindingJob)
    job = task.job
    apply_limits(
        memory_bytes=job.memory_bytes,
        max_query_count=job.spec.max_query_count,
        daemon_pid=job.daemon_pid,
    )
    facts.apply_scheduling(job.spec)
    # Imported here, so that the daemon does not import the drivers.
    from edgebench.agent.runtimes.registry import find_runtime
    from edgebench.agent.worker.binding import measure_binding

    permissions = Permissions(AllowedPaths(devices=job.devices), cpu_s=_CPU_S)
    measured = measure_binding(
        find_runtime(job.spec.runtime), task.tensors, lambda: confine(permissions)
    )
    print(json.dumps(to_plain(measured)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
