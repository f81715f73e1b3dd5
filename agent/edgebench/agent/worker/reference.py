"""Reference kernels in their own process, for a model that a target runs.

The process takes two arguments: the directory of the job, and the id of its parent process. The
process confines itself before it reads the model. Then the samples are read from the directory, and
the outputs are written to it. The last line that the process prints names the runtime that was
used. If the process ends with status 1, the line instead contains the reason for the failure.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from edgebench.agent.runtimes.text import library_line
from edgebench.agent.worker.job import Job
from edgebench.agent.worker.limits import apply_limits, default_memory_bytes
from edgebench.agent.worker.permissions import confine_for
from edgebench.protocol.errors import EdgebenchError, RuntimeUnavailable
from edgebench.protocol.plain import from_plain, to_plain
from edgebench.protocol.record import RuntimeFacts

if TYPE_CHECKING:
    from edgebench.protocol.runtime import Runtime, Tensor

SAMPLES_FILE = "samples.npz"
OUTPUTS_FILE = "reference.npz"
RUNTIMES = ("litert", "tflite")
"""Runtimes with reference kernels for .tflite files, in order of preference."""
TIMEOUT_S = 90.0
"""Time limit of the process: 10 s for its start, plus four times the budget of the kernels
(`checks.REFERENCE_BUDGET_S`)."""


def write_samples(path: Path, samples: Sequence[Sequence[Tensor]]) -> None:
    """Write a list of samples or outputs; each item has a tensor for every input or output.

    Raises:
        OSError: the file cannot be written.
    """
    # Imported here: the process confines itself before numpy starts its threads.
    from edgebench.agent.worker.checks import write_arrays

    write_arrays(
        path,
        {
            f"{number}.{place}": tensor
            for number, sample in enumerate(samples)
            for place, tensor in enumerate(sample)
        },
    )


def read_samples(path: Path) -> list[list[Tensor]]:
    """Read the samples or outputs that `write_samples` wrote; they keep their order.

    Raises:
        Exception: the file cannot be read or does not contain samples; zipfile raises its own
            types.
    """
    import numpy as np

    samples: dict[int, list[Tensor]] = {}
    # Opened here because numpy leaves the file of a damaged archive open.
    with path.open("rb") as opened, np.load(opened, allow_pickle=False) as file:
        for name in file.files:
            samples.setdefault(int(name.partition(".")[0]), []).append(file[name])
    return list(samples.values())


def main(arguments: list[str]) -> int:
    """Run the reference kernels of a job; returns the exit status.

    Args:
        arguments: Directory of the job, and id of the parent process.
    """
    directory, parent_pid = Path(arguments[0]), int(arguments[1])
    job = from_plain(json.loads((directory / "job.json").read_bytes()), Job)
    apply_limits(
        memory_bytes=default_memory_bytes(job.model.size_bytes or 0, job.spec),
        max_query_count=job.spec.max_query_count,
        daemon_pid=parent_pid,
    )
    _, job, directory = confine_for(job, directory)
    from edgebench.agent.worker.checks import reference_outputs

    try:
        runtime, version = _first_usable()
        samples = read_samples(directory / SAMPLES_FILE)
        # The model is loaded again for each sample, because variables keep their values.
        outputs = reference_outputs(runtime, job.model_path, samples, is_repeatable=False)
        write_samples(directory / OUTPUTS_FILE, outputs)
    except Exception as exc:  # libraries raise many types
        text = library_line(exc).replace(job.model_path, job.model.name)
        print(text if isinstance(exc, EdgebenchError) else f"{type(exc).__name__}: {text}")
        return 1
    print(json.dumps(to_plain(RuntimeFacts(runtime.name, version))))
    return 0


def _first_usable() -> tuple[Runtime, str]:
    """The first usable runtime of `RUNTIMES`, with its version.

    Raises:
        RuntimeUnavailable: no runtime is installed.
    """
    from edgebench.agent.runtimes.registry import find_runtime

    reasons: list[str] = []
    for name in RUNTIMES:
        runtime = find_runtime(name)
        try:
            return runtime, runtime.import_library()
        except RuntimeUnavailable as exc:
            reasons.append(str(exc))
    raise RuntimeUnavailable("; ".join(reasons))


if __name__ == "__main__":
    exit_code = main(sys.argv[1:])
    sys.stdout.flush()
    os._exit(exit_code)  # libraries crash during exit
