"""Outputs of a target, for a data set and for comparison with reference kernels.

The process that drives a target is not confined, because a driver needs ports and programs.
Reference kernels, which parse the model, therefore run in their own, confined process:
`reference.py`.
"""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from edgebench.agent.runtimes.text import library_line
from edgebench.agent.worker.checks import digest_of, stack_outputs, write_arrays
from edgebench.agent.worker.inputs import are_finite, arrange, dataset_order, refuse_misfit
from edgebench.agent.worker.job import Job
from edgebench.agent.worker.reference import (
    OUTPUTS_FILE,
    SAMPLES_FILE,
    TIMEOUT_S,
    read_samples,
    write_samples,
)
from edgebench.agent.worker.rehearsal import refuse_outputs
from edgebench.agent.worker.stop import STOP, StopRequested
from edgebench.protocol.errors import (
    DatasetTooSlow,
    EdgebenchError,
    LineDamaged,
    MeasurementError,
    RemoteProtocolError,
)
from edgebench.protocol.record import CheckFacts, RuntimeFacts, TensorSpec
from edgebench.protocol.spec import RunSpec
from edgebench.protocol.target import OpenTarget
from edgebench.protocol.traces import ANSWERS_FILE, DATASET_INDEX
from edgebench.system.python_report import read_report
from edgebench.system.python_start import python_command
from edgebench.system.variables import worker_environment

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from edgebench.protocol.runtime import Tensor

REHEARSED_SAMPLES = 2
"""Number of samples of a data set that are run to estimate the time of the whole data set. The
number is larger than 1, because the first inference may be slower."""
KEEP_S = 30.0
"""Interval at which the outputs for a data set are written; a crash loses at most the outputs since
the last write."""


def sample_bytes(sample: Sequence[Tensor]) -> bytes:
    """Bytes of the inputs of a sample, as `OpenTarget.set_input` takes them."""
    return b"".join(tensor.tobytes() for tensor in sample)


def output_tensors(target: OpenTarget) -> list[Tensor]:
    """Outputs of the last inference.

    Raises:
        TargetError: there are no outputs, or their size differs from the model's.
    """
    data = target.output_bytes()
    sizes = [np.dtype(spec.dtype).itemsize * int(np.prod(spec.shape)) for spec in target.outputs]
    if sum(sizes) != len(data):
        raise LineDamaged(f"outputs have {len(data)} bytes, expected {sum(sizes)}")
    tensors: list[Tensor] = []
    for spec, size in zip(target.outputs, sizes, strict=True):
        tensors.append(np.frombuffer(data[:size], spec.dtype).reshape(spec.shape))
        data = data[size:]
    return tensors


@dataclass(slots=True)
class TargetDataset:
    """A labelled data set that a target runs, with an inference per sample."""

    spec: TensorSpec
    """Input of the model."""
    values: NDArray[np.generic]
    """Samples, in the order in which they are run."""
    index: NDArray[np.int64]
    """Position of each sample in the file."""
    expected_s: float = 0.0
    """Expected time for all samples."""
    check: CheckFacts = field(default_factory=CheckFacts)
    """Result of the checks so far."""
    is_stopped: bool = False
    """Whether the run was stopped before all samples were run."""

    def infer(self, target: OpenTarget, number: int) -> list[Tensor]:
        """Run an inference on a sample, and return its outputs.

        Raises:
            TargetError: the target fails.
        """
        target.set_input(sample_bytes([arrange(self.values[number], self.spec)]))
        target.window(1, warmup_count=0)
        return output_tensors(target)

    def rehearse(self, target: OpenTarget, *, limit_s: float) -> None:
        """Run the first samples, and estimate the time of all samples.

        Raises:
            DatasetTooSlow: the estimate is above the limit.
            OutputsTooLarge: the outputs are too large to keep.
            TargetError: the target fails.
        """
        count = min(REHEARSED_SAMPLES, len(self.index))
        begin_s = time.monotonic()
        outputs = [self.infer(target, number) for number in range(count)]
        each_s = (time.monotonic() - begin_s) / count
        refuse_outputs(outputs[0], len(self.index))
        self.expected_s = each_s * len(self.index)
        if self.expected_s > limit_s:
            raise DatasetTooSlow(
                f"{len(self.index)} samples of the data set take about {self.expected_s:.0f} s on "
                f"{target.firmware.name}, {each_s:.2g} s each; limit {limit_s:g} s, enough for "
                f"{int(limit_s / each_s)} samples"
            )


def open_dataset(path: str, target: OpenTarget, spec: RunSpec) -> TargetDataset:
    """Read a data set, with the samples that the run requests, in the order of the run.

    Raises:
        DatasetRefused: the samples do not fit the model.
    """
    refuse_misfit(path, target.inputs)
    with np.load(path, allow_pickle=False) as file:
        values = file["x"]
    index = dataset_order(len(values), spec.dataset_sample_count, seed=spec.seed)
    check = CheckFacts(dataset_wanted_count=len(index))
    return TargetDataset(target.inputs[0], values[index], index, check=check)


def run_dataset(
    target: OpenTarget,
    dataset: TargetDataset,
    directory: Path,
    *,
    keep: Callable[[CheckFacts], None],
    on_sample: Callable[[int, int], None],
) -> None:
    """Run all samples; after a failure, the outputs of the earlier samples are kept.

    Args:
        target: The target, with the model loaded.
        dataset: The data set; its `check` receives the result.
        directory: Directory of the run.
        keep: Called at intervals with the result so far, after the outputs are written to disk.
        on_sample: Called after every sample, with the number of samples done and the total.
    """
    outputs: list[list[Tensor]] = []
    error: str | None = None

    def write() -> None:
        if outputs:
            arrays = stack_outputs("dataset", outputs)
            arrays[DATASET_INDEX] = dataset.index[: len(outputs)]
            write_arrays(directory / ANSWERS_FILE, arrays)
        dataset.check = replace(
            dataset.check, dataset_sample_count=len(outputs), dataset_error=error
        )
        keep(dataset.check)

    try:
        kept_s = time.monotonic()
        for number in range(len(dataset.index)):
            with STOP.armed():
                output = dataset.infer(target, number)
            if not are_finite(output):
                raise MeasurementError("outputs for the data set contain NaN or infinity")
            outputs.append(output)
            on_sample(len(outputs), len(dataset.index))
            if time.monotonic() - kept_s > KEEP_S:
                write()
                kept_s = time.monotonic()
    except StopRequested:
        error, dataset.is_stopped = "stopped before it was done", True
    except EdgebenchError as exc:
        error = str(exc)
    write()


def compare_with_reference(
    job: Job,
    samples: Sequence[Sequence[Tensor]],
    outputs: Sequence[list[Tensor]],
    check: CheckFacts,
    directory: Path,
) -> CheckFacts:
    """Run reference kernels on the samples, and store their outputs with those of the target.

    Args:
        job: Job with the file of the model.
        samples: Samples that were run on the target.
        outputs: Outputs of the target for these samples.
        check: Result of the earlier checks.
        directory: Directory of the run.
    """
    if not job.model_path:
        return replace(check, reference_error="the model is part of the firmware and has no file")
    try:
        write_samples(directory / SAMPLES_FILE, samples)
        with STOP.armed():
            runtime = _run_reference(directory)
        reference = read_samples(directory / OUTPUTS_FILE)
        used = list(outputs[: len(reference)])
        arrays = _kept(directory / ANSWERS_FILE)
        arrays |= stack_outputs("used", used) | stack_outputs("reference", reference)
        write_arrays(directory / ANSWERS_FILE, arrays)
    except StopRequested:
        return replace(check, reference_error="stopped before it was done")
    except EdgebenchError as exc:
        return replace(check, reference_error=library_line(exc))
    except Exception as exc:  # a hostile model may have written any data
        return replace(check, reference_error=f"{type(exc).__name__}: {library_line(exc)}")
    finally:
        for name in (SAMPLES_FILE, OUTPUTS_FILE):
            (directory / name).unlink(missing_ok=True)
    return replace(
        check,
        sample_count=len(reference),
        distinct_count=len({digest_of(sample) for sample in samples[: len(reference)]}),
        reference=f"{runtime.name} {runtime.version} BUILTIN_REF",
        reference_runtime=runtime,
    )


def _kept(path: Path) -> dict[str, Tensor]:
    if not path.exists():
        return {}
    with np.load(path, allow_pickle=False) as file:
        return dict(file)


def _run_reference(directory: Path) -> RuntimeFacts:
    """Run reference kernels in their own process; returns the runtime that provides them.

    Raises:
        MeasurementError: the kernels fail or exceed the time limit.
    """
    python = python_command(
        *("edgebench.agent.worker.reference", directory, str(os.getpid())),
        directory=directory,
        environment=worker_environment(os.environ, directory),
    )
    try:
        # The standard error of this process goes to the worker's log.
        return read_report(python, RuntimeFacts, timeout_s=TIMEOUT_S, stderr=None)
    except subprocess.TimeoutExpired as exc:
        raise MeasurementError(f"reference kernels exceeded {TIMEOUT_S:g} s") from exc
    except subprocess.CalledProcessError as exc:
        text = library_line(exc.stdout.decode("utf-8", "replace")) or f"status {exc.returncode}"
        raise MeasurementError(f"reference kernels did not run: {text}") from exc
    except RemoteProtocolError as exc:
        raise MeasurementError(f"reference kernels returned malformed output: {exc}") from exc
