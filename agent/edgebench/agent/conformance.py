"""Checks that a driver keeps the promises of its interface, on which the results of runs depend.

For the tests of a driver's package:

    from edgebench.agent.conformance import check_driver, failed_checks

    def test_driver_keeps_its_promises() -> None:
        assert failed_checks(check_driver(PlainOnnx(), "model.onnx")) == []

`edgebench-agent check-runtime` makes the same checks in a confined process (`conformance_process`).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from edgebench.agent.runtimes.registry import built_in_for
from edgebench.agent.runtimes.text import library_line
from edgebench.agent.worker.checks import infer, outputs_from_start, reference_outputs
from edgebench.agent.worker.facts import read_moment
from edgebench.agent.worker.inputs import make_samples
from edgebench.agent.worker.loop import Calls
from edgebench.agent.worker.timed_path import (
    MOST_STEPS,
    OutputComparison,
    check_timed_path,
    copied,
)
from edgebench.protocol.record import Confinement
from edgebench.protocol.runtime import LoadedModel, LoadOptions, Runtime

if TYPE_CHECKING:
    from edgebench.protocol.runtime import Tensor

ORDER = (0, 3, 1, 2, 2, 0, 3)
"""Order in which prepared samples run; it repeats samples, and differs from the order in which
`prepare` receives them."""
THREADS_S = 0.3
"""Time for which inferences run while the CPU time of the threads is counted."""
SETTLE_S, SETTLE_LIMIT_S = 0.05, 1.0
"""Working threads are counted only after all threads have been idle for `SETTLE_S`, or after a
delay of `SETTLE_LIMIT_S`. The delay is needed because numpy's OpenBLAS starts threads that spin for
80 ms.
"""
WORKING_RATIO = 0.1
"""A thread counts as working if its CPU time is at least this fraction of the busiest thread's CPU
time. The value is also used for `--threads`: docs/verdict.md, "Requested and in effect"."""
REFERENCE_LIMIT_RATIO = 0.3
"""Largest RMS difference from reference kernels, relative to the standard deviation of the outputs.
The value is the limit of the rule `agreement` for quantised models in docs/verdict.md."""
MEMORY_BYTES = 2**30
"""Memory limit for the inputs, equal to the limit that docs/confinement.md gives for a worker with
a small model."""


class ConformanceOutcome(Enum):
    """Outcome of a check."""

    PASS = "pass"
    FAIL = "fail"
    UNKNOWN = "unknown"
    """The check gives no result with this model, kernel or runtime."""


@dataclass(frozen=True, slots=True)
class ConformanceCheck:
    """A check of a driver."""

    name: str
    outcome: ConformanceOutcome
    seen: str
    """What the check found, as a line of text."""


@dataclass(frozen=True, slots=True)
class ConformanceReport:
    """Results of all checks of a driver with a model, made by a single process."""

    checks: tuple[ConformanceCheck, ...]
    confinement: Confinement | None = None
    """How the process was confined; None if it was not confined."""

    @property
    def has_loaded(self) -> bool:
        """Whether the driver loads and runs the model, so that all checks were made."""
        return self.checks[0].outcome is ConformanceOutcome.PASS


class _BrokenPromise(Exception):
    """The driver does not keep a promise of its interface."""


class _Impossible(Exception):
    """A check gives no result with this model or on this machine."""


@dataclass(frozen=True, slots=True)
class _Subject:
    """A loaded model with samples, and with the outputs that `read_outputs` returns for them."""

    driver: Runtime
    path: str
    model: LoadedModel
    samples: list[list[Tensor]]
    expected: list[list[Tensor]]
    is_same: OutputComparison

    def other_sample(self) -> int:
        """Index of a sample whose outputs differ from the outputs of the first sample.

        Raises:
            _Impossible: all samples have the same outputs.
        """
        for number, outputs in enumerate(self.expected):
            if not self.is_same(outputs, self.expected[0]):
                return number
        text = f"{len(self.samples)} random samples have equal outputs; use another model"
        raise _Impossible(text)


def check_driver(driver: Runtime, model: str | Path) -> list[ConformanceCheck]:
    """Check a driver with a model, in this process.

    Args:
        driver: The driver.
        model: A model file that it loads. Its outputs should differ between random inputs.
    """
    try:
        version = driver.import_library()
        subject = _load(driver, str(model))
    except Exception as exc:  # libraries raise many types
        return [ConformanceCheck("load", ConformanceOutcome.FAIL, _error_line(exc))]
    text = f"{driver.name} {version} loads and runs the model"
    checks = [ConformanceCheck("load", ConformanceOutcome.PASS, text)]
    checks += [_attempt(name, partial(check, subject)) for name, check in _CHECKS.items()]
    subject.model.close()
    return checks


def failed_checks(checks: Iterable[ConformanceCheck]) -> list[ConformanceCheck]:
    """The checks that failed."""
    return [check for check in checks if check.outcome is ConformanceOutcome.FAIL]


def _load(driver: Runtime, path: str) -> _Subject:
    model = driver.load(path, LoadOptions(threads=1))
    samples = make_samples(model.inputs, count=MOST_STEPS, seed=0, memory_bytes=MEMORY_BYTES)
    expected = [infer(model, sample) for sample in samples]
    return _Subject(driver, path, model, samples, expected, OutputComparison(expected))


def _attempt(name: str, check: Callable[[], str]) -> ConformanceCheck:
    try:
        return ConformanceCheck(name, ConformanceOutcome.PASS, check())
    except _Impossible as exc:
        return ConformanceCheck(name, ConformanceOutcome.UNKNOWN, str(exc))
    except _BrokenPromise as exc:
        return ConformanceCheck(name, ConformanceOutcome.FAIL, str(exc))
    except Exception as exc:  # libraries raise many types
        return ConformanceCheck(name, ConformanceOutcome.FAIL, _error_line(exc))


def _error_line(exc: Exception) -> str:
    return f"{type(exc).__name__}: {library_line(exc)}"


def _check_shapes(subject: _Subject) -> str:
    """Outputs have the number, shapes and types that `outputs` lists."""
    model, specs = subject.model, subject.model.outputs
    read = {"read_outputs": model.read_outputs(), "reader": copied(model.reader()())}
    for call, outputs in read.items():
        if len(outputs) != len(specs):
            text = f"{call} returns {len(outputs)} outputs, the model lists {len(specs)}"
            raise _BrokenPromise(text)
        for spec, output in zip(specs, outputs, strict=True):
            has_shape = len(spec.shape) == output.ndim and all(
                size in (-1, real) for size, real in zip(spec.shape, output.shape, strict=True)
            )
            if not has_shape or output.dtype != np.dtype(spec.dtype):
                raise _BrokenPromise(
                    f"{call} returns {spec.name!r} as {output.dtype} {list(output.shape)}, the "
                    f"model lists {spec.dtype} {list(spec.shape)}"
                )
    listed = ", ".join(f"{spec.dtype} {list(spec.shape)}" for spec in specs)
    return f"outputs are as listed: {listed}"


def _check_order(subject: _Subject) -> str:
    """Prepared samples can run repeatedly and in any order, and the model does not change them."""
    subject.other_sample()
    before = [[part.tobytes() for part in sample] for sample in subject.samples]
    numbers = range(len(subject.samples))
    _run_prepared(subject, subject.model.prepare(subject.samples), numbers)
    if before != [[part.tobytes() for part in sample] for sample in subject.samples]:
        raise _BrokenPromise("a sample was overwritten")
    return f"each of {len(ORDER)} inferences returns the outputs of the sample prepared for it"


def _check_prepare_again(subject: _Subject) -> str:
    """A second call of `prepare` replaces the samples of the first call."""
    subject.other_sample()
    subject.model.prepare(subject.samples)
    numbers = list(reversed(range(len(subject.samples))))
    setters = subject.model.prepare([subject.samples[number] for number in numbers])
    _run_prepared(subject, setters, numbers)
    return "after a second `prepare`, the outputs are those of the new samples"


def _run_prepared(
    subject: _Subject, setters: Sequence[Callable[[], Any]], numbers: Sequence[int]
) -> None:
    """Run prepared samples in another order, and check their outputs.

    Args:
        subject: The model.
        setters: Functions that `prepare` returned.
        numbers: Index of the sample that each setter sets.
    """
    invoke = subject.model.invoker()
    for place in (place % len(setters) for place in ORDER):
        subject.model.reset()
        setters[place]()
        invoke()
        outputs, number = subject.model.read_outputs(), numbers[place]
        if not subject.is_same(outputs, subject.expected[number]):
            same = [
                n for n, other in enumerate(subject.expected) if subject.is_same(outputs, other)
            ]
            what = f"the outputs of sample {same[0]}" if same else "outputs of no sample"
            raise _BrokenPromise(f"prepared sample {number} has {what}")


def _check_copies(subject: _Subject) -> str:
    """The next inference does not change outputs that were read before it."""
    model, samples = subject.model, subject.samples
    for name, read in (("reader", model.reader()), ("read_outputs", model.read_outputs)):
        model.reset()
        model.set_inputs(samples[0])
        model.invoker()()
        kept = read()
        before = copied(kept)
        infer(model, samples[subject.other_sample()])
        if not subject.is_same(copied(kept), before):
            raise _BrokenPromise(f"the next inference changes the outputs that `{name}` returned")
    return "outputs are copies: the next inference does not change them"


def _check_timed_path(subject: _Subject) -> str:
    """The calls of the timed loop compute the same outputs as the calls of the checks."""
    model = subject.model
    calls = Calls(model.prepare(subject.samples), model.invoker(), model.reader())
    last, begin_ns = subject.other_sample(), time.perf_counter_ns()
    for number in (0, last):
        calls.set_inputs[number]()
        calls.invoke()
        calls.read_outputs()
    query_ns = (time.perf_counter_ns() - begin_ns) // 2
    facts = check_timed_path(model, calls, subject.samples, last_sample=last, query_ns=query_ns)
    if facts.fault is not None:
        raise _BrokenPromise(
            f"{facts.differing_count} of {facts.inference_count} inferences by the timed calls "
            f"have other outputs than in the checks: {facts.fault.value.replace('_', ' ')}"
        )
    if not facts.inference_count:
        raise _Impossible(facts.reason or "the outputs were not compared")
    count = facts.inference_count
    return f"{count} inferences by the timed calls have the same outputs as in the checks"


def _check_state(subject: _Subject) -> str:
    """`reset` restores the initial state of the model."""
    model, samples = subject.model, subject.samples
    backwards = [infer(model, sample) for sample in reversed(samples)][::-1]
    if not all(map(subject.is_same, backwards, subject.expected)):
        raise _Impossible(
            "repeated inferences have different outputs: the model draws random numbers, or has a "
            "state that `reset` does not restore"
        )
    model.set_inputs(samples[-1])
    model.invoker()()
    has_state = not subject.is_same(model.read_outputs(), subject.expected[-1])
    return "`reset` restores the state of the model" if has_state else "the model has no state"


def _check_threads(subject: _Subject) -> str:
    """With 1 thread, the model computes on 1 thread; with 2 threads, its outputs are the same."""
    invoke = subject.model.invoker()
    limit_s = time.monotonic() + SETTLE_LIMIT_S
    before_s = _thread_times()
    while time.monotonic() < limit_s:
        time.sleep(SETTLE_S)
        earlier_s, before_s = before_s, _thread_times()
        if sum(before_s.values()) - sum(earlier_s.values()) < WORKING_RATIO * SETTLE_S:
            break
    end_s = time.monotonic() + THREADS_S
    while time.monotonic() < end_s:
        invoke()
    used_s = [run_s - before_s.get(thread, 0.0) for thread, run_s in _thread_times().items()]
    several = subject.driver.load(subject.path, LoadOptions(threads=2))
    outputs = [infer(several, sample) for sample in subject.samples]
    several.close()
    if not all(map(subject.is_same, outputs, subject.expected)):
        raise _BrokenPromise("the outputs with 2 threads differ from those with 1 thread")
    if not used_s:
        raise _Impossible("this kernel does not report the CPU time of threads")
    working_count = sum(used >= WORKING_RATIO * max(used_s) for used in used_s)
    if working_count > 1:
        raise _BrokenPromise(f"limited to 1 thread, the model runs on {working_count} threads")
    return "limited to 1 thread, the model runs on 1 thread; the outputs with 2 threads are equal"


def _thread_times() -> dict[int, float]:
    """Maps the id of each thread of this process to its CPU time, in seconds."""
    return {thread.thread: thread.run_s for thread in read_moment().threads}


def _check_reference(subject: _Subject) -> str:
    """The outputs are close to the outputs of reference kernels, preferably a built-in driver's.

    The driver and the reference kernels both load the model again for each sample, because either
    may fail to restore the model's variables.
    """
    load = partial(subject.driver.load, subject.path, LoadOptions(threads=1))
    used = outputs_from_start(load, subject.samples, is_repeatable=False)
    reasons: list[str] = []
    for other in (*built_in_for(subject.driver), subject.driver):
        try:
            other.import_library()
            outputs = reference_outputs(
                other, subject.path, subject.samples[: len(used)], is_repeatable=False
            )
        except Exception as exc:  # libraries raise many types
            reasons.append(f"{other.name}: {library_line(exc)}")
            continue
        ratios = _differences(used[: len(outputs)], outputs)
        if not ratios:
            raise _Impossible("the outputs are constant, or not numbers")
        text = (
            f"outputs differ by {min(ratios):.2g} of their spread from the outputs of the "
            "reference kernels of "
        )
        if min(ratios) > REFERENCE_LIMIT_RATIO:
            raise _BrokenPromise(f"{text}{other.name}, limit {REFERENCE_LIMIT_RATIO:g}")
        return f"{text}{other.name}"
    raise _Impossible(f"no reference kernels: {'; '.join(reasons)}")


def _differences(used: Sequence[list[Tensor]], wanted: Sequence[list[Tensor]]) -> list[float]:
    """RMS difference relative to the standard deviation, for each numeric output that varies."""
    ratios: list[float] = []
    for some, others in zip(zip(*used, strict=True), zip(*wanted, strict=True), strict=True):
        if others[0].dtype.kind not in "biuf":
            continue
        real, reference = np.stack(some).astype(float), np.stack(others).astype(float)
        if (spread := float(np.std(reference))) > 0:
            ratios.append(float(np.sqrt(np.mean((real - reference) ** 2))) / spread)
    return ratios


_CHECKS: dict[str, Callable[[_Subject], str]] = {
    "shapes": _check_shapes,
    "order": _check_order,
    "prepare again": _check_prepare_again,
    "copies": _check_copies,
    "timed path": _check_timed_path,
    "state": _check_state,
    "threads": _check_threads,
    "reference": _check_reference,
}
"""Maps names to the checks of a loaded model; a check returns what it found, or raises an error."""
