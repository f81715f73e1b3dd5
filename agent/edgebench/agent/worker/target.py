"""A run on a target that times itself: open, warm up, run the windows, compare the outputs.

Theory of operation. A target runs five windows (timed series of inferences), because MLPerf Tiny
requires the median of five windows. Each window has a different input if the run has at least five
samples. A trial window determines
the number of inferences per window. If the target is emulated and its instructions are counted, a
window is a single inference, because further inferences would have the same count. There is no
trial window either, because its result would depend on the load of this machine.

A stop during a window discards this window, and the earlier windows are kept. An error of the
target has the same effect as a stop, and is also reported. Before the windows, the first samples of
a data set are run to estimate the time of the whole data set. If the estimate is above the limit,
the data set is refused at once. The data set itself is run after the windows, when their record is
on disk.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from edgebench.agent.runtimes.shapes import refuse_other_shapes, resolve_shapes
from edgebench.agent.targets import find_driver
from edgebench.agent.worker.checks import PROFILE_BUDGET_S, PROFILE_RUNS, output_facts
from edgebench.agent.worker.inputs import clipped_ratio, make_samples, read_inputs
from edgebench.agent.worker.job import Job, Pipe
from edgebench.agent.worker.stop import STOP, StopRequested
from edgebench.agent.worker.target_outputs import (
    TargetDataset,
    compare_with_reference,
    open_dataset,
    output_tensors,
    run_dataset,
    sample_bytes,
)
from edgebench.agent.worker.timeouts import FIRST_INFERENCES_S, FIRST_SOUND_S, TARGET_WINDOWS
from edgebench.protocol.errors import (
    InferenceFailed,
    LineDamaged,
    NoBoardProfiler,
    TargetError,
    UsageError,
)
from edgebench.protocol.record import (
    CheckFacts,
    Phase,
    ProgressUnit,
    RuntimeFacts,
    TargetRecord,
    Window,
)
from edgebench.protocol.spec import RunSpec
from edgebench.protocol.target import OpenTarget

if TYPE_CHECKING:
    from edgebench.protocol.runtime import Tensor

MAX_WARMUP_COUNT = 1000
MAX_WINDOW_COUNT = 2**31 - 1
"""Maximum number of inferences in a window. The specification's `max_query_count` does not apply,
because it bounds a trace with a row for each query. A window has no rows, and a fast board needs
millions of inferences for a window of seconds. Source: mlcommons/tiny,
benchmark/api/internally_implemented.cpp, which reads the count with `atoi`."""
TRIAL_S = 0.5
"""Length of the trial window, which determines the number of inferences per window."""
UNTIMED_TRIAL_RATIO = 0.1
"""Length of the trial window on a target that reports no time, relative to a measured window."""
CLOCKS_MARGIN = 1.02
"""Factor by which windows are lengthened, because the clocks of the target and of this machine
differ."""
UNTIMED_MARGIN = 1.1
"""Replaces `CLOCKS_MARGIN` for a target that reports no time. Such a target sends a line at the
beginning and at the end of a window. These lines may be late by milliseconds."""


@dataclass(frozen=True, slots=True)
class TargetInputs:
    """Input data of a target's run."""

    samples: list[list[Tensor]]
    """Inputs of the windows, in order; further windows use them again from the first."""
    clipped_ratio: float | None
    dataset: TargetDataset | None

    @property
    def check(self) -> CheckFacts:
        """Result of the data set so far; empty without a data set."""
        return CheckFacts() if self.dataset is None else self.dataset.check


@dataclass(frozen=True, slots=True)
class WindowPlan:
    """Lengths of the windows of a run."""

    count: int
    """Number of timed inferences in each window."""
    warmup_count: int
    """Number of warm-up inferences before each window."""
    each_s: float
    """Upper estimate of the time of an inference, by this machine's clock."""


def measure_target(
    job: Job, pipe: Pipe, directory: Path, *, keep: Callable[[TargetRecord], None]
) -> None:
    """Run the windows and the checks.

    Args:
        job: What to measure.
        pipe: Pipe to the daemon.
        directory: Directory of the run.
        keep: Function that writes the record; called after the windows and after each check.

    Raises:
        StopRequested: a stop came before the first window was complete.
        InferenceFailed: the target's counter does not advance.
        UsageError: the target is in energy mode, and the run has a data set.
        NoBoardProfiler: a profile is requested, and the firmware cannot time operators.
        EdgebenchError: the target rejects model or inputs, or fails otherwise.
    """
    assert job.target is not None
    driver = find_driver()
    pipe.phase(Phase.LOADING)
    with STOP.armed():
        target = driver.open(
            job.target,
            Path(job.model_path) if job.model_path else None,
            directory,
            model_name=job.model.name,
            on_bytes=partial(pipe.reached, unit=ProgressUnit.BYTES),
            reported_name=job.target_name,
        )
    try:
        if job.spec.is_profiled and target.no_profiler:
            raise NoBoardProfiler(target.no_profiler)  # before the measurement, not after it
        inputs = _inputs(job, target)
        runtime = RuntimeFacts(driver.runtime, driver.version)
        record, outputs, failure = _measure(job, target, pipe, runtime, inputs)
        pipe.phase(Phase.SPOOLING)
        keep(record)
        if failure is not None:
            raise failure
        if record.is_interrupted:
            return

        def keep_check(check: CheckFacts) -> None:
            is_stopped = inputs.dataset is not None and inputs.dataset.is_stopped
            keep(replace(record, check=check, is_dataset_stopped=is_stopped))

        check = inputs.check
        # One phase for both; the profile's 5 s are within the margin of its time limit.
        if job.spec.is_profiled or inputs.dataset is not None:
            pipe.phase(
                Phase.CHECKING, None if inputs.dataset is None else inputs.dataset.expected_s
            )
        if job.spec.is_profiled:
            check = _profile(target, sample_bytes(inputs.samples[0]), record.windows[-1], check)
            keep_check(check)
        if inputs.dataset is not None:
            inputs.dataset.check = check
            run_dataset(
                target,
                inputs.dataset,
                directory,
                keep=keep_check,
                on_sample=partial(pipe.reached, unit=ProgressUnit.SAMPLES),
            )
            check = inputs.dataset.check
    finally:
        # A target completes the window in which it was stopped, and does not respond until then.
        if target.busy_s:
            pipe.phase(Phase.SPOOLING, target.busy_s)
        target.close()
    if job.spec.is_checked:
        pipe.phase(Phase.CHECKING)
        samples = inputs.samples[: len(outputs)]
        keep_check(compare_with_reference(job, samples, outputs, check, directory))


def _profile(target: OpenTarget, sample: bytes, window: Window, check: CheckFacts) -> CheckFacts:
    """Time every operator, in a number of inferences that take about `PROFILE_BUDGET_S` in total.

    On an emulated target whose instructions are counted, `TARGET_WINDOWS` inferences are run, so
    that the result does not depend on the load of this machine.
    """
    count = max(
        1, min(int(PROFILE_BUDGET_S * window.count / max(_passed_s(window), 1e-9)), PROFILE_RUNS[1])
    )
    if _is_counted(target):
        count = TARGET_WINDOWS
    try:
        with STOP.armed():
            target.set_input(sample)
            profile = target.profile(count)
    except StopRequested:
        return replace(check, profile_error="stopped before it was done")
    except TargetError as exc:
        return replace(check, profile_error=str(exc))
    return replace(
        check,
        operators=profile.operators,
        profile_run_count=count,
        profile_reading_ns=profile.reading_ns,
    )


def _is_counted(target: OpenTarget) -> bool:
    """Whether the target is emulated and its instructions are counted."""
    emulator = target.firmware.emulator
    return emulator is not None and emulator.instruction_ns is not None


def _measure(
    job: Job, target: OpenTarget, pipe: Pipe, runtime: RuntimeFacts, inputs: TargetInputs
) -> tuple[TargetRecord, list[list[Tensor]], TargetError | None]:
    """Run the windows; returns the record, the outputs, and the error that ended them early.

    The outputs have a list of tensors for each sample. The error is None if all windows are
    complete, or were ended by a stop.
    """
    samples = list(map(sample_bytes, inputs.samples))
    first_s = FIRST_INFERENCES_S if target.pace_ns is None else FIRST_SOUND_S
    pipe.phase(Phase.WARMING_UP, max(first_s, job.spec.warmup_duration_s))
    with STOP.armed():
        target.set_input(samples[0])
        plan = _plan_windows(target, job.spec, inputs.dataset)
    pipe.phase(Phase.MEASURING, TARGET_WINDOWS * (plan.count + plan.warmup_count) * plan.each_s)
    series = RecordedWindows([], [], _first_outputs(target, samples))
    failure: TargetError | None = None
    memory = target.memory
    try:
        with STOP.armed():
            _run_windows(target, samples, plan, pipe, series)
    except (StopRequested, TargetError) as exc:
        if not series.windows:
            raise
        series.is_interrupted = True
        failure = exc if isinstance(exc, TargetError) else None
    if not series.is_interrupted:
        # The windows are complete: without this reply, only the size of the stack is unknown.
        with suppress(StopRequested, TargetError), STOP.armed():
            memory = replace(memory, stack_peak_bytes=target.stack_peak_bytes())
    record = TargetRecord(
        model=replace(
            job.model, name=target.own_model or job.model.name, precision=target.precision
        ),
        runtime=runtime,
        inputs=target.inputs,
        outputs=target.outputs,
        firmware=target.firmware,
        memory=memory,
        output=replace(
            output_facts(series.outputs[0], series.outputs[1:]), sample_count=len(series.outputs)
        ),
        warmup_count=plan.warmup_count,
        windows=tuple(series.windows),
        is_interrupted=series.is_interrupted,
        inference_ticks=tuple(series.inference_ticks),
        upload_s=target.upload_s,
        is_read_back=target.is_read_back,
        pace_ns=target.pace_ns,
        inputs_clipped_ratio=inputs.clipped_ratio,
        check=inputs.check,
    )
    return record, series.outputs, failure


def _first_outputs(target: OpenTarget, samples: list[bytes]) -> list[list[Tensor]]:
    """Outputs of the first inference on each sample, for a target with state; otherwise empty.

    With state, the outputs of a window depend on the number of its inferences. The first inferences
    run before the windows, so that their pulses are not counted as pulses of a window.
    """
    outputs: list[list[Tensor]] = []
    for sample in samples if target.is_stateful else ():
        with STOP.armed():
            target.set_input(sample)
            target.window(1, warmup_count=0)
            outputs.append(output_tensors(target))
    return outputs


@dataclass(slots=True)
class RecordedWindows:
    """Results of the windows so far."""

    windows: list[Window]
    inference_ticks: list[int]
    outputs: list[list[Tensor]]
    """Outputs for each sample, from a window or, for a target with state, from the first
    inference."""
    is_interrupted: bool = False


def _run_windows(
    target: OpenTarget, samples: list[bytes], plan: WindowPlan, pipe: Pipe, series: RecordedWindows
) -> None:
    """Run the windows, each with the next sample, and append their results to `series`.

    Raises:
        LineDamaged: a window was run twice; its time is known only from pulses, and the pulses of
            the two runs cannot be distinguished.
    """
    for number in range(TARGET_WINDOWS):
        pipe.reached(number, TARGET_WINDOWS, ProgressUnit.WINDOWS)
        target.set_input(samples[number % len(samples)])
        timed = target.window(plan.count, warmup_count=plan.warmup_count)
        # The last pulses count as those of the windows, so only the first window may be repeated.
        if series.windows and timed.is_repeated and timed.window.ticks is None:
            raise LineDamaged(
                f"a reply of {target.firmware.name} was damaged, so the window was run twice: "
                "the pulses of the two runs cannot be distinguished"
            )
        if len(series.outputs) < len(samples):
            series.outputs.append(output_tensors(target))
        series.windows.append(timed.window)
        series.inference_ticks += timed.inference_ticks


def _plan_windows(target: OpenTarget, spec: RunSpec, dataset: TargetDataset | None) -> WindowPlan:
    """Determine the lengths of the windows with trial inferences, which are not in the result.

    Raises:
        InferenceFailed: the target's counter does not advance.
        UsageError: the target is in energy mode, and the run has a data set.
        DatasetTooSlow: the data set takes longer than the limit.
    """
    begin_s = time.monotonic()
    first = target.window(1, warmup_count=0).window
    each_s = time.monotonic() - begin_s
    if dataset is not None:
        if first.ticks is None:
            raise UsageError(
                f"{target.firmware.name} is in energy mode, so the pulses of a data set would "
                "count as pulses of the timed windows; run the data set in performance mode"
            )
        dataset.rehearse(target, limit_s=spec.dataset_limit_s)
    if _is_counted(target):
        return WindowPlan(1, 0, each_s)
    if first.ticks is None:
        trial = _untimed_trial(target, spec, first)
        each_s = max(_passed_s(trial), 1e-9) / trial.count
        count, warmup_count = _counts(spec, each_s, UNTIMED_MARGIN)
        if target.pace_ns is not None:  # a sound is played to its end
            count, warmup_count = max(count, trial.count), 0
        return WindowPlan(count, warmup_count, each_s)
    # The first inference alone may have been slower.
    count = max(1, math.ceil(TRIAL_S / max(each_s, 1e-4)))
    trial = target.window(count, warmup_count=0).window
    if not trial.duration_s:
        raise InferenceFailed(f"{target.firmware.name}: the counter does not advance")
    counts = _counts(spec, trial.duration_s / trial.count, CLOCKS_MARGIN)
    # A target whose clock is slow takes longer than it reports.
    passed_s = max(trial.duration_s, _passed_s(trial))
    return WindowPlan(*counts, passed_s / trial.count)


def _inputs(job: Job, target: OpenTarget) -> TargetInputs:
    """The inputs of the run, given or drawn at random, and its data set.

    Raises:
        InputsRefused: the given inputs do not fit the model.
        DatasetRefused: the data set does not fit the model.
    """
    spec, given = job.spec, read_inputs(job.inputs_path) if job.inputs_path else {}
    shapes = {name: value.shape[1:] for name, value in given.items()} | spec.input_shapes
    resolve_shapes({tensor.name: tensor.shape for tensor in target.inputs}, shapes)
    refuse_other_shapes(target.inputs, spec.input_shapes)
    samples = make_samples(
        target.inputs,
        given,
        count=min(TARGET_WINDOWS, spec.sample_count),
        seed=spec.seed,
        memory_bytes=job.memory_bytes,
    )
    return TargetInputs(
        samples=samples,
        clipped_ratio=clipped_ratio(target.inputs, given, count=len(samples)),
        dataset=open_dataset(job.dataset_path, target, spec) if job.dataset_path else None,
    )


def _untimed_trial(target: OpenTarget, spec: RunSpec, first: Window) -> Window:
    """Run a trial window that this machine times, for a target that reports no time.

    Lines of the target may be late by milliseconds, so the number of inferences is increased until
    this delay is negligible.
    """
    enough_s = max(TRIAL_S, UNTIMED_TRIAL_RATIO * spec.duration_s / TARGET_WINDOWS)
    trial = first
    while (passed_s := _passed_s(trial)) < enough_s and trial.count < MAX_WINDOW_COUNT:
        growth = max(2, min(10, math.ceil(1.2 * enough_s / max(passed_s, 1e-3))))
        trial = target.window(min(trial.count * growth, MAX_WINDOW_COUNT), warmup_count=0).window
    return trial


def _passed_s(window: Window) -> float:
    return (window.end_ns - window.begin_ns) / 1e9


def _counts(spec: RunSpec, each_s: float, margin: float) -> tuple[int, int]:
    """Numbers of inferences in a window and in its warm-up, if an inference takes `each_s`."""
    window_s = margin * spec.duration_s / TARGET_WINDOWS
    count = max(math.ceil(window_s / each_s), math.ceil(spec.min_query_count / TARGET_WINDOWS))
    if spec.max_duration_s is not None:
        count = min(count, max(1, int(spec.max_duration_s / TARGET_WINDOWS / each_s)))
    count = min(count, MAX_WINDOW_COUNT)
    warmup_count = max(spec.warmup_query_count, math.ceil(spec.warmup_duration_s / each_s))
    return count, min(warmup_count, MAX_WARMUP_COUNT)
