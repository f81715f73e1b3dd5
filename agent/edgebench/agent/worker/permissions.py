"""What one job needs, and so what its worker may do."""

from __future__ import annotations

import os
from pathlib import Path

from edgebench.agent.confine import AllowedPaths, Permissions
from edgebench.agent.confine.paths import ACCELERATOR_DEVICES, folders_of
from edgebench.agent.worker.job import Job
from edgebench.agent.worker.timeouts import BESIDE_MEASUREMENT_S, TIMEOUT_FACTOR
from edgebench.protocol.spec import RunSpec, samples_per_query

_CPU_DELEGATES = (None, "xnnpack", "none", "cpu")
"""Delegates that need no device."""


def permissions_of(job: Job, directory: Path) -> Permissions:
    """The files and the CPU time of this job."""
    given = (job.model_path, job.dataset_path, job.inputs_path)
    simulated = (job.root,) if job.root != "/" else ()
    delegate = job.spec.delegate if job.spec.delegate not in _CPU_DELEGATES else None
    # Its dependencies often lie beside it.
    library = (delegate, *folders_of([delegate])) if delegate and "/" in delegate else ()
    accelerators = ACCELERATOR_DEVICES if delegate else ()
    wire = (job.sync_line.partition(":")[2],) if job.sync_line else ()
    return Permissions(
        AllowedPaths(
            readable=(*filter(None, given), *simulated, *library),
            writable=(str(directory), *((job.speed_path,) if job.speed_path else ())),
            devices=(*job.devices, *accelerators, *wire),
        ),
        cpu_s=longest_s(job.spec) * (os.cpu_count() or 1),
    )


def longest_s(spec: RunSpec) -> float:
    """Bound of the time that a worker may take, seconds.

    The daemon ends a worker by the times of its phases, long before. This is for the worker whose
    daemon cannot: its first inference ended within the time to load, and so bounds the others.
    """
    if spec.limits.measure_timeout_s is not None:
        measure_s = 2 * spec.limits.measure_timeout_s
    else:
        count = spec.warmup_query_count + spec.min_query_count * samples_per_query(spec)
        if spec.target_qps is not None:
            count += int(spec.target_qps * spec.duration_s)
        slowest_s = spec.limits.load_timeout_s * count
        measure_s = TIMEOUT_FACTOR * (spec.warmup_duration_s + spec.duration_s + slowest_s)
    return spec.limits.load_timeout_s + measure_s + BESIDE_MEASUREMENT_S
