"""Checks of the model's outputs, after the measurement is over and safely on disk.

The measured model runs again on the prepared samples, and on the labelled data set if the run has a
data set. Then reference kernels run on the prepared samples. They are kernels of the same library
or, for a third-party driver, kernels of a built-in runtime that loads the file. All outputs are
written to a single file, which the host evaluates.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np

from edgebench.agent.runtimes.registry import built_in_for
from edgebench.agent.runtimes.text import library_line
from edgebench.agent.worker.inputs import are_finite, arrange, dataset_order
from edgebench.protocol.errors import EdgebenchError, MeasurementError
from edgebench.protocol.record import CheckFacts, OutputFacts, RuntimeFacts
from edgebench.protocol.runtime import LoadedModel, LoadOptions, Runtime
from edgebench.protocol.sizes import format_distinct_sizes
from edgebench.protocol.spec import RunSpec
from edgebench.protocol.traces import ANSWERS_FILE, DATASET_INDEX

if TYPE_CHECKING:
    from edgebench.protocol.runtime import Tensor

CHECKED_SAMPLES = 8
"""Number of prepared samples on which the model and the reference kernels run after the
measurement."""
REFERENCE_BUDGET_S = 20.0
"""Time limit of the reference kernels, which are up to a hundred times slower than the measured
model; samples beyond the limit are not run."""
FINITE_BUDGET_S = 10.0
"""Time limit for the samples that are not compared; their outputs are only searched for NaN and
infinity."""
PROFILE_BUDGET_S = 5.0
PROFILE_RUNS = (10, 1000)
"""Minimum and maximum number of inferences in which operators are timed."""
MAX_OUTPUT_BYTES = 64 * 2**20


@dataclass(frozen=True, slots=True)
class Subject:
    """The measured model and the data for its checks."""

    spec: RunSpec
    runtime: Runtime
    model_path: str
    dataset_path: str | None
    model: LoadedModel
    options: LoadOptions
    """Options with which the model was loaded."""
    samples: Sequence[Sequence[Tensor]]
    first_outputs: list[Tensor]
    """Outputs of the first inference, for the first sample."""
    query_ns: int
    """Typical latency of a query; used to estimate the time of the checks."""
    is_repeatable: bool = True
    """False if a comparison showed that `reset` does not restore the state of the model."""


def output_facts(outputs: list[Tensor], later: Sequence[list[Tensor]] = ()) -> OutputFacts:
    """Digest of `outputs`, and whether `outputs` and all `later` outputs are finite."""
    return OutputFacts(digest_of(outputs), all(map(are_finite, (outputs, *later))))


def digest_of(tensors: Sequence[Tensor]) -> str:
    """SHA-256 over the bytes of tensors, hexadecimal."""
    digest = hashlib.sha256()
    for tensor in tensors:
        # As a list, because numpy abbreviates the text of a large array of objects.
        is_text = tensor.dtype.kind == "O"
        digest.update(repr(tensor.tolist()).encode() if is_text else tensor.tobytes())
    return digest.hexdigest()


def run_checks(subject: Subject, directory: Path) -> tuple[OutputFacts, CheckFacts]:
    """Run every check that the run requests; a failed check does not affect the others."""
    facts = CheckFacts()
    arrays: dict[str, Tensor] = {}
    """Maps the name of each array in the file to its outputs."""
    if subject.dataset_path:
        facts = _attempt(
            lambda: _run_dataset(subject, facts, arrays),
            lambda text: replace(facts, dataset_error=text),
        )
        facts = _attempt(
            lambda: _write(directory / ANSWERS_FILE, arrays, facts),
            lambda text: replace(facts, dataset_sample_count=0, dataset_error=text),
        )
    used: list[list[Tensor]] = []
    facts = _attempt(
        lambda: _run_samples(subject, facts, used),
        lambda text: replace(facts, reference_error=text),
    )
    output = _check_others(subject, output_facts(subject.first_outputs, used), len(used))
    subject.model.close()  # two loaded models may exceed the run's memory
    if used and subject.spec.is_checked:
        facts = _attempt(
            lambda: _run_reference(subject, facts, arrays, used),
            lambda text: replace(facts, reference_error=text),
        )
    if subject.spec.is_profiled:
        facts = _attempt(
            lambda: _profile(subject, facts), lambda text: replace(facts, profile_error=text)
        )
    facts = _attempt(
        lambda: _write(directory / ANSWERS_FILE, arrays, facts),
        lambda text: replace(facts, sample_count=0, reference=None, reference_error=text),
    )
    return output, facts


def _attempt(action: Callable[[], CheckFacts], failed: Callable[[str], CheckFacts]) -> CheckFacts:
    try:
        return action()
    except (EdgebenchError, OSError, ValueError) as exc:
        return failed(library_line(exc) or type(exc).__name__)
    except Exception as exc:  # libraries raise many types
        return failed(f"{type(exc).__name__}: {library_line(exc)}")


def _write(path: Path, arrays: dict[str, Tensor], facts: CheckFacts) -> CheckFacts:
    if arrays:
        write_arrays(path, arrays)
    return facts


def write_arrays(path: Path, arrays: Mapping[str, Tensor]) -> None:
    """Write named arrays to a file completely or not at all, even if the worker dies meanwhile.

    Raises:
        OSError: the file cannot be written.
    """
    part = path.with_suffix(".part")
    with part.open("wb") as file:
        # Any: to the stub of savez, a name may be its option `allow_pickle`.
        np.savez(file, **dict[str, Any](arrays))
    part.replace(path)


def _run_dataset(subject: Subject, facts: CheckFacts, arrays: dict[str, Tensor]) -> CheckFacts:
    inputs = subject.model.inputs
    if len(inputs) != 1:
        raise MeasurementError(f"a data set requires a model with 1 input, got {len(inputs)}")
    with np.load(subject.dataset_path or "", allow_pickle=False) as file:
        if "x" not in file:
            raise MeasurementError("data set has no array x")
        values: Tensor = file["x"]
    index = None
    if (wanted_count := subject.spec.dataset_sample_count) is not None:
        index = dataset_order(len(values), wanted_count, seed=subject.spec.seed)
        values = values[index]
    samples = [[arrange(value, inputs[0])] for value in values]
    outputs = [infer(subject.model, sample) for sample in samples]
    if not all(map(are_finite, outputs)):
        raise MeasurementError("outputs for the data set contain NaN or infinity")
    arrays.update(stack_outputs("dataset", outputs))
    if index is not None:
        arrays[DATASET_INDEX] = index
    return replace(facts, dataset_sample_count=len(outputs), dataset_wanted_count=len(values))


def _run_samples(subject: Subject, facts: CheckFacts, used: list[list[Tensor]]) -> CheckFacts:
    # At least one, so that an output that has turned into NaN is detected.
    count = CHECKED_SAMPLES if subject.spec.is_checked else 1
    used[:] = [infer(subject.model, sample) for sample in subject.samples[:count]]
    return facts


def _check_others(subject: Subject, output: OutputFacts, done: int) -> OutputFacts:
    """Look for NaN and infinity in the outputs that are not compared, as far as the time allows."""
    deadline_s = time.monotonic() + FINITE_BUDGET_S
    is_finite, count = output.is_finite, max(1, done)
    for sample in subject.samples[done:] if done else []:
        if not is_finite or time.monotonic() > deadline_s:
            break
        is_finite = are_finite(infer(subject.model, sample))
        count += 1
    return replace(output, is_finite=is_finite, sample_count=count)


def reference_outputs(
    runtime: Runtime,
    model_path: str,
    samples: Sequence[Sequence[Tensor]],
    shapes: Mapping[str, tuple[int, ...]] = MappingProxyType({}),
    signature: str | None = None,
    *,
    is_repeatable: bool = True,
) -> list[list[Tensor]]:
    """Outputs of the reference kernels for as many of the first samples as the time allows.

    Args:
        runtime: Runtime whose reference kernels are used.
        model_path: File of the model.
        samples: For each sample, a tensor per input.
        shapes: Shapes of inputs by name, for a model that leaves dimensions open.
        signature: Signature whose graph is run; None: the first graph.
        is_repeatable: Whether `reset` restores the state of the model; if not, the model is loaded
            again for each sample.

    Raises:
        ModelRefused: the reference kernels do not load the model.
    """
    options = LoadOptions(threads=1, signature=signature, is_reference=True, shapes=shapes)
    load = partial(runtime.load, model_path, options)
    return outputs_from_start(load, samples, is_repeatable=is_repeatable)


def outputs_from_start(
    load: Callable[[], LoadedModel], samples: Sequence[Sequence[Tensor]], *, is_repeatable: bool
) -> list[list[Tensor]]:
    """Load a model, and return its outputs for as many samples as `REFERENCE_BUDGET_S` allows.

    Args:
        load: Function that loads the model.
        samples: For each sample, a tensor per input.
        is_repeatable: Whether `reset` restores the state of the model; if not, the model is loaded
            again for each sample.
    """
    deadline_s = time.monotonic() + REFERENCE_BUDGET_S
    model = load()
    outputs: list[list[Tensor]] = []
    for sample in samples:
        if outputs and not is_repeatable:
            model.close()
            model = load()
        outputs.append(infer(model, sample))
        if time.monotonic() > deadline_s:
            break
    return outputs


def _run_reference(
    subject: Subject, facts: CheckFacts, arrays: dict[str, Tensor], used: list[list[Tensor]]
) -> CheckFacts:
    if not subject.is_repeatable:
        # The model has a history that the reference lacks, such as resource variables, which
        # TensorFlow Lite's `reset_all_variables` does not reset.
        used = outputs_from_start(
            partial(subject.runtime.load, subject.model_path, subject.options),
            subject.samples[: len(used)],
            is_repeatable=False,
        )
    outputs, runtime = _reference(subject, subject.samples[: len(used)])
    arrays.update(stack_outputs("used", used[: len(outputs)]) | stack_outputs("reference", outputs))
    samples = {digest_of(sample) for sample in subject.samples[: len(outputs)]}
    return replace(
        facts,
        sample_count=len(outputs),
        distinct_count=len(samples),
        reference=f"{runtime.name if runtime else subject.runtime.name} reference kernels",
        reference_runtime=runtime,
    )


def _reference(
    subject: Subject, samples: Sequence[Sequence[Tensor]]
) -> tuple[list[list[Tensor]], RuntimeFacts | None]:
    """Outputs of the reference kernels, and the kernels' runtime (None: the model's runtime).

    A third-party driver may have the same fault in its reference kernels, so a built-in runtime
    that loads the file is preferred.
    """
    outputs_by = partial(
        reference_outputs,
        model_path=subject.model_path,
        samples=samples,
        shapes=subject.options.shapes,
        signature=subject.options.signature,
        is_repeatable=subject.is_repeatable,
    )
    for other in built_in_for(subject.runtime):
        with suppress(Exception):  # not installed, or it does not load this file
            facts = RuntimeFacts(other.name, other.import_library())
            return outputs_by(other), facts
    return outputs_by(subject.runtime), None


def _profile(subject: Subject, facts: CheckFacts) -> CheckFacts:
    options = replace(subject.options, is_profiled=True)
    model = subject.runtime.load(subject.model_path, options)
    model.set_inputs(subject.samples[0])
    fitting = int(PROFILE_BUDGET_S * 1e9 / max(1, subject.query_ns))
    count = min(max(fitting, PROFILE_RUNS[0]), PROFILE_RUNS[1])
    operators = model.profile(count)
    # A profiler whose file would grow too large makes fewer runs than requested.
    done = max((operator.count for operator in operators), default=0)
    return replace(facts, operators=operators, profile_run_count=min(done, count))


def infer(model: LoadedModel, sample: Sequence[Tensor]) -> list[Tensor]:
    """Reset the model, run an inference, and return the outputs.

    The outputs are copied, because a driver may return the same memory each time, although its
    interface forbids that.
    """
    model.reset()
    model.set_inputs(sample)
    model.invoker()()
    return [output.copy() for output in model.read_outputs()]


def stack_outputs(name: str, outputs: list[list[Tensor]]) -> dict[str, Tensor]:
    """Stack the outputs for all samples into an array for each output of the model.

    Raises:
        MeasurementError: the outputs are not numbers, change shape, or are too large to keep.
    """
    size = sum(tensor.nbytes for tensors in outputs for tensor in tensors)
    if size > MAX_OUTPUT_BYTES:
        takes, limit = format_distinct_sizes(size, MAX_OUTPUT_BYTES)
        raise MeasurementError(f"outputs take {takes}, limit {limit}")
    stacked: dict[str, Tensor] = {}
    for number, tensors in enumerate(zip(*outputs, strict=True)):
        if any(tensor.dtype.kind not in "biuf" for tensor in tensors):
            raise MeasurementError("outputs are not numbers")
        if len({tensor.shape for tensor in tensors}) > 1:
            raise MeasurementError("outputs change their shape from sample to sample")
        stacked[f"{name}.{number}"] = np.stack(tensors)
    return stacked
