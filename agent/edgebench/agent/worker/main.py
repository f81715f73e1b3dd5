"""The worker process: load, warm up, measure, write, exit.

It is started by the daemon with a job file and a pipe. Phases go up the pipe, one JSON line
each; the traces and the record go into the job's directory; whatever libraries print goes to the
worker's log. The exit code says little: a failure is the last line of the pipe.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from array import array
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from edgebench.agent.worker import facts
from edgebench.agent.worker.job import WAITING, WORKER_RECORD_FILE, Job, Pipe
from edgebench.agent.worker.limits import apply_limits
from edgebench.agent.worker.loop import Times
from edgebench.agent.worker.measure import LoopRecord, PreparedModel, get_ready, measure, typical_ns
from edgebench.agent.worker.stop import STOP, StopRequested
from edgebench.protocol.codec import from_plain, to_plain
from edgebench.protocol.errors import EdgebenchError, ModelRefused, NoSpace, TargetError
from edgebench.protocol.record import CheckFacts, Phase, RuntimeFacts, WorkerRecord
from edgebench.protocol.traces import QUERIES_FILE, QUERY_COLUMNS

if TYPE_CHECKING:
    from edgebench.agent.worker.checks import Subject

CHECK_EXPECTED_S = 30.0
"""Checks have a budget of their own; this is only for the one who waits."""


def main(arguments: list[str]) -> int:
    """Run the job in this directory: DIRECTORY PIPE_DESCRIPTOR."""
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
        pipe.send(**WAITING)
        sys.stdin.read()  # until the daemon closes it: the sampler is running now
        _execute(job, directory, pipe)
    except (EdgebenchError, MemoryError, StopRequested, OSError) as exc:
        error = _named(exc, job)
        # Libraries name the file by its path in our store, which tells nobody anything.
        text = str(error).replace(job.model_path, job.model.name)
        pipe.send(failed=text, code=int(error.code))
        return 1
    return 0


def _named(exc: BaseException, job: Job) -> EdgebenchError:
    """The error to report for whatever ended the job."""
    if isinstance(exc, EdgebenchError):
        return exc
    if isinstance(exc, MemoryError):
        runtime, limit = job.spec.runtime, job.memory_bytes
        return ModelRefused(f"{runtime} ran out of memory with the model, limit {limit} bytes")
    if isinstance(exc, StopRequested):
        return TargetError("stopped before the first query")
    return NoSpace(f"results not written: {exc}")


def _execute(job: Job, directory: Path, pipe: Pipe) -> None:
    pipe.phase(Phase.LOADING)
    refused = facts.apply_scheduling(job.spec)
    with STOP.armed():
        ready = get_ready(job)
        if job.dataset_path:
            # Imported here: numpy is part of what the runtime's import takes.
            from edgebench.agent.worker.inputs import refuse_misfit

            refuse_misfit(job.dataset_path, ready.model.inputs)
    measured = measure(job, ready, pipe, directory)
    pipe.phase(Phase.SPOOLING)
    _write_queries(directory / QUERIES_FILE, [measured.warmup, measured.timed])
    record = _record(job, ready, measured, refused)
    _write_record(directory, record)
    if not measured.is_interrupted:
        _check(job, ready, measured, record, directory, pipe)


def _record(
    job: Job, ready: PreparedModel, measured: LoopRecord, refused: tuple[str, ...]
) -> WorkerRecord:
    from edgebench.agent.worker.checks import output_facts

    spec, model = job.spec, ready.model
    return WorkerRecord(
        model=replace(job.model, precision=model.precision),
        runtime=RuntimeFacts(
            name=spec.runtime,
            version=ready.version,
            delegates_requested=(spec.delegate,) if spec.delegate else (),
            delegates_used=model.delegates_used,
        ),
        inputs=model.inputs,
        outputs=model.outputs,
        cold_start=ready.cold_start,
        memory=ready.memory,
        harness=measured.harness,
        output=output_facts(ready.first_outputs),
        warmup_query_count=len(measured.warmup),
        query_count=len(measured.warmup) + len(measured.timed),
        is_interrupted=measured.is_interrupted,
        before=measured.before,
        after=measured.after,
        scheduling=facts.describe_scheduling(refused),
        sample_count=len(ready.samples),
        placement=model.placement(),
        sync=measured.sync,
    )


def _check(
    job: Job,
    ready: PreparedModel,
    measured: LoopRecord,
    record: WorkerRecord,
    directory: Path,
    pipe: Pipe,
) -> None:
    from edgebench.agent.worker.checks import run_checks

    query_ns = typical_ns(measured.timed) or ready.cold_start.first_inference_ns
    pipe.phase(Phase.CHECKING, CHECK_EXPECTED_S)
    try:
        with STOP.armed():
            output, check = run_checks(_subject(job, ready, query_ns), directory)
    except StopRequested:
        # The measurement is complete all the same.
        output, check = record.output, CheckFacts(reference_error="stopped before it was done")
    _write_record(directory, replace(record, output=output, check=check))


def _subject(job: Job, ready: PreparedModel, query_ns: int) -> Subject:
    from edgebench.agent.worker.checks import Subject

    return Subject(
        job.spec,
        ready.runtime,
        job.model_path,
        job.dataset_path,
        ready.model,
        ready.samples,
        ready.first_outputs,
        query_ns,
    )


def _write_queries(path: Path, parts: list[Times]) -> None:
    with path.open("wb") as file:
        for column in QUERY_COLUMNS:
            for times in parts:
                values: array[int] = getattr(times, column.name)
                if sys.byteorder == "big":
                    values.byteswap()
                values.tofile(file)


def _write_record(directory: Path, record: WorkerRecord) -> None:
    """Whole or not at all: the worker may die in the checks that come after the first one."""
    path = directory / WORKER_RECORD_FILE
    part = path.with_suffix(".part")
    part.write_text(json.dumps(to_plain(record)))
    part.replace(path)


if __name__ == "__main__":
    exit_code = main(sys.argv[1:])
    sys.stdout.flush()
    sys.stderr.flush()
    # Everything is written. LoadGen may still hold a thread, and libraries crash in their ends.
    os._exit(exit_code)
