"""Permissions of a worker: only the files, devices and CPU time that its job needs."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

from edgebench.agent.confine import AllowedPaths, Permissions, confine
from edgebench.agent.confine.paths import ACCELERATOR_DEVICES, folders_of
from edgebench.agent.worker.job import Job
from edgebench.agent.worker.timeouts import STOP_GRACE_S, run_limit_s
from edgebench.protocol.record import Confinement

_CPU_DELEGATES = (None, "xnnpack", "none", "cpu")
"""Delegates of a runtime that need no file under /dev."""


def permissions_of(job: Job, directory: Path) -> Permissions:
    """The files and the CPU time that this job needs."""
    given = (job.model_path, job.dataset_path, job.inputs_path)
    simulated = (job.root,) if job.root != "/" else ()
    delegate = job.spec.delegate if job.spec.delegate not in _CPU_DELEGATES else None
    # The dependencies of a delegate's library often lie in the same directory.
    library = (delegate, *folders_of([delegate])) if delegate and "/" in delegate else ()
    accelerators = ACCELERATOR_DEVICES if delegate else ()
    wire = (job.sync_line.partition(":")[2],) if job.sync_line else ()
    return Permissions(
        AllowedPaths(
            readable=(*filter(None, given), *simulated, *library),
            writable=(str(directory), *((job.speed_path,) if job.speed_path else ())),
            devices=(*job.devices, *accelerators, *wire),
        ),
        # The daemon normally ends the worker long before this limit.
        cpu_s=(run_limit_s(job) + STOP_GRACE_S) * (os.cpu_count() or 1),
    )


def confine_for(job: Job, directory: Path) -> tuple[Confinement, Job, Path]:
    """Confine this process as the worker of a job.

    Returns:
        The confinement, and the job and directory with the paths that are valid from now on. A
        worker that now runs as a different user may have no access to the original paths.
    """
    confined = confine(permissions_of(job, directory))
    directory = Path(confined.path(str(directory)))
    os.environ["TMPDIR"] = str(directory)

    def path(name: str | None) -> str | None:
        return None if name is None else confined.path(name)

    renamed = replace(
        job,
        model_path=confined.path(job.model_path),
        dataset_path=path(job.dataset_path),
        inputs_path=path(job.inputs_path),
        root=confined.path(job.root),
        speed_path=path(job.speed_path),
    )
    return confined.record, renamed, directory
