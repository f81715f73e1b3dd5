"""The worker process: load, warm up, measure, write, exit.

The daemon starts the worker with a job file and a pipe. The worker reports each phase on the pipe,
as a line of JSON. The traces and the record are written to the job's directory, and the output of
libraries to the worker's log. A failure is reported in the last line on the pipe, not by the exit
code.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from array import array
from collections.abc import Callable
from dataclasses import replace
from functools import cache, partial
from pathlib import Path

from edgebench.agent.cpu_quota import QuotaGroups, open_quota_groups
from edgebench.agent.runtimes.library import LibraryRuntime, library_facts
from edgebench.agent.worker import facts
from edgebench.agent.worker.job import COMPLETE, WAITING, WORKER_RECORD_FILE, Job, Pipe
from edgebench.agent.worker.limits import apply_limits
from edgebench.agent.worker.loop import Times, new_times
from edgebench.agent.worker.measure import (
    LoopRecord,
    PreparedModel,
    measure,
    prepare_model,
    typical_ns,
)
from edgebench.agent.worker.permissions import confine_for
from edgebench.agent.worker.realtime import realtime_limit
from edgebench.agent.worker.record_file import write_record
from edgebench.agent.worker.rehearsal import attempt, refuse_full_disk, refuse_outputs
from edgebench.agent.worker.stop import STOP, StopRequested
from edgebench.protocol.errors import EdgebenchError, ModelRefused, NoSpace, RunStopped
from edgebench.protocol.plain import from_plain, to_plain
from edgebench.protocol.record import (
    BindingFacts,
    CheckFacts,
    HarnessFacts,
    Phase,
    RealtimeLimit,
    RuntimeFacts,
    Scheduling,
    SyncFacts,
    TimedPathFacts,
    WorkerRecord,
)
from edgebench.protocol.runtime import SignedModel
from edgebench.protocol.sizes import format_bytes
from edgebench.protocol.traces import QUERIES_FILE, QUERY_COLUMNS

_library_facts = cache(library_facts)
"""Facts of a library. They are cached, because the records before and after the loop both contain
them, and the search for them reads a file of each installed package."""
CHECK_EXPECTED_S = 30.0
"""Expected duration of the checks, for display only; their time limit is `CHECK_TIMEOUT_S`."""
_UNKNOWN = BindingFacts(reason="the worker ended before the measurement of the binding")
"""Placeholder for the cost of the binding in a record that is written before the measurement."""
_NOT_COMPARED = TimedPathFacts(reason="the worker ended during its checks")
"""Placeholder for the result in a record that is written before the timed calls are compared."""
_WITH_VARIABLES = TimedPathFacts(
    reason="the model has variables, which the runtime does not reset", is_repeatable=False
)
"""Comparison of the timed calls of a model whose outputs depend on all earlier inferences."""


def main(arguments: list[str]) -> int:
    """Run a job; returns the exit status.

    Args:
        arguments: Directory of the job, and descriptor of the pipe to the daemon.
    """
    directory, pipe = Path(arguments[0]), Pipe(int(arguments[1]))
    STOP.install()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    job = from_plain(json.loads((directory / "job.json").read_bytes()), Job)
    try:
        apply_limits(
            memory_bytes=job.memory_bytes,
            max_query_count=job.spec.max_query_count,
            daemon_pid=job.daemon_pid,
        )
        # Before the confinement, which drops the rights that the scheduling needs.
        refused = facts.apply_scheduling(job.spec)
        limit = realtime_limit(Path(job.root))
        groups = open_quota_groups(Path(job.root))
        android = facts.android_groups(Path(job.root))
        # A target's model is not parsed by a runtime here, and its driver needs ports and programs.
        confinement = None
        if job.target is None:
            confinement, job, directory = confine_for(job, directory)
        pipe.send(**{WAITING: to_plain(confinement) if confinement else None})
        sys.stdin.read()  # waits until the daemon closes it, as soon as the sampler is running
        describe = partial(facts.describe_scheduling, refused, groups, android)
        _execute(job, directory, pipe, describe, groups, limit)
    except (EdgebenchError, MemoryError, StopRequested, OSError) as exc:
        error = _named(exc, job)
        # Libraries name the file by its path in the store, which means nothing to a user.
        text = str(error)
        if job.model_path:
            text = text.replace(job.model_path, job.model.name)
        pipe.send(failed=text, code=int(error.code))
        return 1
    return 0


def _named(exc: BaseException, job: Job) -> EdgebenchError:
    """The error to report for the exception that ended the job."""
    if isinstance(exc, EdgebenchError):
        return exc
    if isinstance(exc, MemoryError):
        runtime, limit = job.spec.runtime, format_bytes(job.memory_bytes)
        return ModelRefused(f"{runtime} ran out of memory with the model, memory limit {limit}")
    if isinstance(exc, StopRequested):
        return RunStopped("stopped before the first query")
    what = exc.strerror if isinstance(exc, OSError) and exc.strerror else str(exc)
    where = exc.filename if isinstance(exc, OSError) and exc.filename else Path.cwd()
    return NoSpace(f"results not written: {what}: {where}")


def _execute(
    job: Job,
    directory: Path,
    pipe: Pipe,
    describe_scheduling: Callable[[], Scheduling],
    groups: QuotaGroups,
    limit: RealtimeLimit | None,
) -> None:
    if job.target is not None:
        # Imported here: only users with targets need the driver.
        from edgebench.agent.worker.target import measure_target

        measure_target(
            job, pipe, directory, keep=partial(write_record, directory / WORKER_RECORD_FILE)
        )
        return
    pipe.phase(Phase.LOADING)
    with STOP.armed():
        prepared = prepare_model(job)
        if job.dataset_path:
            # Imported here: numpy counts as part of the runtime's import.
            from edgebench.agent.worker.inputs import refuse_misfit

            sample_count = refuse_misfit(job.dataset_path, prepared.model.inputs)
            sample_count = min(sample_count, job.spec.dataset_sample_count or sample_count)
            size_bytes = refuse_outputs(prepared.first_outputs, sample_count)
            refuse_full_disk(directory, size_bytes)
        _try_writing(job, prepared, directory)
    loop = measure(job, prepared, pipe, directory, groups, limit)
    pipe.phase(Phase.SPOOLING)
    _write_queries(directory / QUERIES_FILE, [loop.warmup, loop.timed])
    record = _record(job, prepared, loop, describe_scheduling())
    write_record(directory / WORKER_RECORD_FILE, record)
    if loop.is_interrupted:
        return
    record = _with_checks(job, prepared, loop, record, directory, pipe)
    write_record(directory / WORKER_RECORD_FILE, record)
    pipe.send(**{COMPLETE: True})
    write_record(directory / WORKER_RECORD_FILE, _with_binding(record, prepared))


def _try_writing(job: Job, prepared: PreparedModel, directory: Path) -> None:
    """Write and then remove trial files of a run, so that errors occur before the loop."""
    now = facts.read_moment(Path(job.root))
    nothing = LoopRecord(
        warmup=new_times(),
        timed=new_times(),
        before=now,
        after=now,
        harness=HarnessFacts(p50_ns=0, per_query_ns=0.0),
        sync=SyncFacts(),
    )
    record = attempt(
        f"{job.spec.runtime} does not describe the model or its outputs",
        lambda: _record(job, prepared, nothing, facts.describe_scheduling(())),
    )
    _write_queries(directory / QUERIES_FILE, [nothing.timed])
    write_record(directory / WORKER_RECORD_FILE, record)
    for name in (QUERIES_FILE, WORKER_RECORD_FILE):
        (directory / name).unlink()


def _with_binding(record: WorkerRecord, prepared: PreparedModel) -> WorkerRecord:
    """Add the cost of the binding to the record; its measurement may crash the worker."""
    from edgebench.agent.worker.binding import TIMEOUT_S, measure_binding

    STOP.dismiss()
    signal.alarm(TIMEOUT_S)
    binding = measure_binding(prepared.runtime, (*record.inputs, *record.outputs))
    signal.alarm(0)
    return replace(record, harness=replace(record.harness, binding=binding))


def _record(
    job: Job, prepared: PreparedModel, loop: LoopRecord, scheduling: Scheduling
) -> WorkerRecord:
    from edgebench.agent.worker.checks import output_facts

    spec, model, library = job.spec, prepared.model, None
    if isinstance(prepared.runtime, LibraryRuntime):
        library = _library_facts(prepared.runtime.module)
    return WorkerRecord(
        model=replace(
            job.model,
            precision=model.precision,
            quantized=model.quantized,
            signature=model.signature if isinstance(model, SignedModel) else None,
            signatures=model.signatures if isinstance(model, SignedModel) else (),
        ),
        runtime=RuntimeFacts(
            name=spec.runtime,
            version=prepared.version,
            delegates_requested=(spec.delegate,) if spec.delegate else (),
            delegates_used=model.delegates_used,
            distribution=library.distribution if library else None,
            library=library.path if library else None,
        ),
        inputs=model.inputs,
        outputs=model.outputs,
        cold_start=prepared.cold_start,
        memory=prepared.memory,
        harness=loop.harness if loop.is_interrupted else replace(loop.harness, binding=_UNKNOWN),
        output=output_facts(prepared.first_outputs),
        warmup_query_count=len(loop.warmup),
        query_count=len(loop.warmup) + len(loop.timed),
        is_interrupted=loop.is_interrupted,
        before=loop.before,
        after=loop.after,
        scheduling=replace(scheduling, realtime=loop.realtime),
        sample_count=len(prepared.samples),
        inputs_clipped_ratio=prepared.inputs_clipped_ratio,
        placement=model.placement(),
        timed_path=None if loop.is_interrupted else _NOT_COMPARED,
        sync=loop.sync,
        yardstick=loop.yardstick,
    )


def _with_checks(
    job: Job,
    prepared: PreparedModel,
    loop: LoopRecord,
    record: WorkerRecord,
    directory: Path,
    pipe: Pipe,
) -> WorkerRecord:
    from edgebench.agent.runtimes.tflite_file import has_variables
    from edgebench.agent.worker.checks import Subject, run_checks
    from edgebench.agent.worker.timed_path import check_timed_path

    query_ns = typical_ns(loop.timed) or prepared.cold_start.first_inference_ns
    pipe.phase(Phase.CHECKING, CHECK_EXPECTED_S)
    try:
        with STOP.armed():
            if has_variables(job.model_path):
                timed_path = _WITH_VARIABLES
            else:
                timed_path = check_timed_path(
                    prepared.model,
                    prepared.calls,
                    prepared.samples,
                    last_sample=loop.timed.sample[-1],
                    query_ns=query_ns,
                )
            record = replace(record, timed_path=timed_path)
            # Written now, because the reference kernels, possibly of another library, may crash.
            write_record(directory / WORKER_RECORD_FILE, record)
            subject = Subject(
                job.spec,
                prepared.runtime,
                job.model_path,
                job.dataset_path,
                prepared.model,
                prepared.options,
                prepared.samples,
                prepared.first_outputs,
                query_ns,
                timed_path.is_repeatable,
            )
            output, check = run_checks(subject, directory)
    except StopRequested:
        # The measurement is complete nevertheless.
        output, check = record.output, CheckFacts.undone("stopped before it was done")
    return replace(record, output=output, check=check)


def _write_queries(path: Path, parts: list[Times]) -> None:
    with path.open("wb") as file:
        for column in QUERY_COLUMNS:
            for times in parts:
                values: array[int] = getattr(times, column.name)
                if sys.byteorder == "big":
                    values.byteswap()
                values.tofile(file)


if __name__ == "__main__":
    exit_code = main(sys.argv[1:])
    sys.stdout.flush()
    sys.stderr.flush()
    # Everything is written. LoadGen may still hold a thread, and libraries crash during exit.
    os._exit(exit_code)
