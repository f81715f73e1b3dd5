"""What the model answers, looked at when the measurement is over and safely on disk.

The measured model answers the prepared samples again, and the labelled data set, if one was
given. Then reference kernels of the same library answer the same samples. All answers go into
one file; what they are worth is for the host to say.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from edgebench.agent.runtimes.text import library_line
from edgebench.agent.worker.inputs import are_finite, arrange
from edgebench.protocol.errors import EdgebenchError, MeasurementError
from edgebench.protocol.record import CheckFacts, OutputFacts
from edgebench.protocol.runtime import LoadedModel, LoadOptions, Runtime
from edgebench.protocol.spec import RunSpec
from edgebench.protocol.traces import ANSWERS_FILE

if TYPE_CHECKING:
    from edgebench.protocol.runtime import Tensor

CHECKED_SAMPLES = 8
"""Prepared samples that are answered again."""
REFERENCE_BUDGET_S = 20.0
"""Reference kernels are up to a hundred times slower; fewer samples are checked then."""
FINITE_BUDGET_S = 10.0
"""For the answers that are only looked at for NaN and infinity."""
PROFILE_BUDGET_S = 5.0
PROFILE_RUNS = (10, 1000)
"""At least and at most so many profiled inferences."""
MAX_ANSWER_BYTES = 64 * 2**20


@dataclass(frozen=True, slots=True)
class Subject:
    """What is checked."""

    spec: RunSpec
    runtime: Runtime
    model_path: str
    dataset_path: str | None
    model: LoadedModel
    samples: Sequence[Sequence[Tensor]]
    first_outputs: list[Tensor]
    """What the first inference answered to the first sample."""
    query_ns: int
    """Typical latency, for estimates."""


def output_facts(outputs: list[Tensor], later: Sequence[list[Tensor]] = ()) -> OutputFacts:
    """Digest of the first answer, and whether it and the later ones are finite."""
    digest = hashlib.sha256()
    for tensor in outputs:
        digest.update(tensor.tobytes() if tensor.dtype.kind != "O" else repr(tensor).encode())
    return OutputFacts(digest.hexdigest(), all(map(are_finite, (outputs, *later))))


def run_checks(subject: Subject, directory: Path) -> tuple[OutputFacts, CheckFacts]:
    """Answer, compare, profile, as far as the run asks for it; each on its own may fail."""
    facts = CheckFacts()
    answers: dict[str, Tensor] = {}
    if subject.dataset_path:
        facts = _answer_dataset(subject, facts, answers)
        _write_answers(directory / ANSWERS_FILE, answers)
    used: list[list[Tensor]] = []
    facts = _answer_samples(subject, facts, used)
    output = _others_finite(subject, output_facts(subject.first_outputs, used), len(used))
    subject.model.close()  # two models at once take more memory than a run may have
    if used and subject.spec.is_checked:
        facts = _answer_again(subject, facts, answers, used)
    if subject.spec.is_profiled:
        facts = _profile(subject, facts)
    _write_answers(directory / ANSWERS_FILE, answers)
    return output, facts


def _write_answers(path: Path, answers: dict[str, Tensor]) -> None:
    """Whole or not at all: the worker may die in the middle of it."""
    if not answers:
        return
    part = path.with_suffix(".part")
    with part.open("wb") as file:
        # In the stub of savez, arrays by name may be taken for its option `allow_pickle`.
        np.savez(file, **answers)  # pyright: ignore[reportArgumentType]
    part.replace(path)


def _answer_dataset(subject: Subject, facts: CheckFacts, answers: dict[str, Tensor]) -> CheckFacts:
    def answer() -> CheckFacts:
        samples = _dataset_samples(subject)
        outputs = [_answer(subject.model, sample) for sample in samples]
        if not all(map(are_finite, outputs)):
            raise MeasurementError("answers to the data set hold NaN or infinity")
        answers.update(_stack("dataset", outputs))
        return replace(facts, dataset_sample_count=len(outputs))

    return _attempt(answer, lambda text: replace(facts, dataset_error=text))


def _answer_samples(subject: Subject, facts: CheckFacts, used: list[list[Tensor]]) -> CheckFacts:
    def answer() -> CheckFacts:
        # At least one, so that an answer that turned into NaN meanwhile is noticed.
        count = CHECKED_SAMPLES if subject.spec.is_checked else 1
        samples = subject.samples[:count]
        used[:] = [_answer(subject.model, sample) for sample in samples]
        return facts

    return _attempt(answer, lambda text: replace(facts, reference_error=text))


def _others_finite(subject: Subject, output: OutputFacts, done: int) -> OutputFacts:
    """Look at the answers to all other samples too: one that is no number taints every query."""
    deadline_s = time.monotonic() + FINITE_BUDGET_S
    is_finite, count = output.is_finite, max(1, done)
    for sample in subject.samples[done:] if done else []:
        if not is_finite or time.monotonic() > deadline_s:
            break
        is_finite = are_finite(_answer(subject.model, sample))
        count += 1
    return replace(output, is_finite=is_finite, sample_count=count)


def _answer_again(
    subject: Subject, facts: CheckFacts, answers: dict[str, Tensor], used: list[list[Tensor]]
) -> CheckFacts:
    def answer() -> CheckFacts:
        deadline_s = time.monotonic() + REFERENCE_BUDGET_S
        options = LoadOptions(threads=1, is_reference=True)
        model = subject.runtime.load(subject.model_path, options)
        outputs: list[list[Tensor]] = []
        for sample in subject.samples[: len(used)]:
            outputs.append(_answer(model, sample))
            if time.monotonic() > deadline_s:
                break
        stacked = _stack("used", used[: len(outputs)]) | _stack("reference", outputs)
        answers.update(stacked)
        name = f"{subject.runtime.name} reference kernels"
        return replace(facts, sample_count=len(outputs), reference=name)

    return _attempt(answer, lambda text: replace(facts, reference_error=text))


def _profile(subject: Subject, facts: CheckFacts) -> CheckFacts:
    def profile() -> CheckFacts:
        spec = subject.spec
        options = LoadOptions(spec.threads, spec.delegate, is_profiled=True)
        model = subject.runtime.load(subject.model_path, options)
        model.set_inputs(subject.samples[0])
        fitting = int(PROFILE_BUDGET_S * 1e9 / max(1, subject.query_ns))
        count = min(max(fitting, PROFILE_RUNS[0]), PROFILE_RUNS[1])
        operators = model.profile(count)
        # A profiler whose file would grow too large runs less often than it was asked to.
        done = max((operator.count for operator in operators), default=0)
        return replace(facts, operators=operators, profile_run_count=min(done, count))

    return _attempt(profile, lambda text: replace(facts, profile_error=text))


def _attempt(action: Callable[[], CheckFacts], failed: Callable[[str], CheckFacts]) -> CheckFacts:
    try:
        return action()
    except (EdgebenchError, OSError, ValueError) as exc:
        return failed(library_line(exc) or type(exc).__name__)
    except Exception as exc:  # each library has its own exceptions
        return failed(f"{type(exc).__name__}: {library_line(exc)}")


def _dataset_samples(subject: Subject) -> list[list[Tensor]]:
    inputs = subject.model.inputs
    if len(inputs) != 1:
        raise MeasurementError(f"a data set has one input, the model has {len(inputs)}")
    with np.load(subject.dataset_path or "", allow_pickle=False) as file:
        if "x" not in file:
            raise MeasurementError("data set has no array x")
        values: Tensor = file["x"]
    return [[arrange(value, inputs[0])] for value in values]


def _answer(model: LoadedModel, sample: Sequence[Tensor]) -> list[Tensor]:
    model.reset()
    model.set_inputs(sample)
    model.invoker()()
    return model.read_outputs()


def _stack(name: str, outputs: list[list[Tensor]]) -> dict[str, Tensor]:
    """The answers to all samples, one array for each output.

    Raises:
        MeasurementError: they are texts, change their shape, or are too large to keep.
    """
    size = sum(tensor.nbytes for tensors in outputs for tensor in tensors)
    if size > MAX_ANSWER_BYTES:
        raise MeasurementError(f"answers take {size} bytes, limit {MAX_ANSWER_BYTES}")
    stacked: dict[str, Tensor] = {}
    for number, tensors in enumerate(zip(*outputs, strict=True)):
        if any(tensor.dtype.kind not in "biuf" for tensor in tensors):
            raise MeasurementError("answers are not numbers")
        if len({tensor.shape for tensor in tensors}) > 1:
            raise MeasurementError("answers change their shape from sample to sample")
        stacked[f"{name}.{number}"] = np.stack(tensors)
    return stacked
