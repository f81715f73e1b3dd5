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
import time
from array import array
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from edgebench.agent.worker import facts
from edgebench.agent.worker.limits import apply_limits
from edgebench.agent.worker.loop import Calls, Times, new_times, run_closed
from edgebench.agent.worker.stop import STOP, StopRequested
from edgebench.protocol.codec import from_plain, to_plain
from edgebench.protocol.errors import EdgebenchError, ModelRefused, NoSpace, TargetError
from edgebench.protocol.record import (
    ColdStart,
    HarnessFacts,
    MemoryFacts,
    ModelFacts,
    Moment,
    OutputFacts,
    Phase,
    RuntimeFacts,
    WorkerRecord,
)
from edgebench.protocol.runtime import LoadedModel, LoadOptions, Runtime
from edgebench.protocol.spec import Engine, RunSpec, Scenario
from edgebench.protocol.traces import QUERIES_FILE, QUERY_COLUMNS

if TYPE_CHECKING:
    from edgebench.agent.worker.checks import Subject
    from edgebench.protocol.runtime import Tensor

NS_PER_S = 1_000_000_000
WORKER_RECORD_FILE = "worker.json"
CHECK_EXPECTED_S = 30.0
"""Checks have a budget of their own; this is only for the one who waits."""
HARNESS_QUERIES = 4096
"""Queries that do nothing, to measure the loop itself; takes about 3 ms."""
TIMEOUT_FACTOR = 3.0
TIMEOUT_MARGIN_S = 30.0


@dataclass(frozen=True, slots=True)
class Job:
    """What the daemon asks of a worker."""

    spec: RunSpec
    model: ModelFacts
    model_path: str
    dataset_path: str | None
    memory_bytes: int
    daemon_pid: int


class Pipe:
    """The way up to the daemon."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def send(self, **fields: Any) -> None:
        """Write one line."""
        os.write(self._descriptor, json.dumps(fields).encode() + b"\n")

    def phase(self, phase: Phase, expected_s: float | None = None) -> None:
        """Say that a phase begins."""
        self.send(phase=phase.value, expected_s=expected_s, time_ns=time.perf_counter_ns())


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


@dataclass(frozen=True, slots=True)
class Ready:
    """A model that has answered once, and the samples that it will be asked."""

    runtime: Runtime
    version: str
    model: LoadedModel
    cold_start: ColdStart
    model_bytes: int
    samples: list[list[Tensor]]
    first_outputs: list[Tensor]


@dataclass(frozen=True, slots=True)
class Measured:
    """What the timed loop gave."""

    warmup: Times
    timed: Times
    """Empty when the run was stopped during the warm-up."""
    before: Moment
    after: Moment
    harness: HarnessFacts
    steady_rss_bytes: int
    steady_pss_bytes: int | None

    @property
    def is_interrupted(self) -> bool:
        """Whether the run was stopped early."""
        return self.warmup.is_interrupted or self.timed.is_interrupted


def _execute(job: Job, directory: Path, pipe: Pipe) -> None:
    pipe.phase(Phase.LOADING)
    refused = facts.apply_scheduling(job.spec)
    with STOP.armed():
        ready = _get_ready(job)
    measured = _measure(job.spec, ready, pipe, directory)
    peak_bytes = facts.resident_bytes("VmHWM")
    pipe.phase(Phase.SPOOLING)
    _write_queries(directory / QUERIES_FILE, [measured.warmup, measured.timed])
    output = _answer_facts(ready)
    record = _record(job, ready, measured, output, refused, peak_bytes)
    _write_record(directory, record)
    if not measured.is_interrupted:
        _check(job, ready, measured, record, directory, pipe)


def _get_ready(job: Job) -> Ready:
    """Import, load, first inference: each timed on its own."""
    runtime = _find_runtime(job.spec.runtime)
    import_ns, version = _timed(runtime.import_library)
    before_bytes = facts.resident_bytes()
    options = LoadOptions(job.spec.threads, job.spec.delegate)
    load_ns, model = _timed(lambda: runtime.load(job.model_path, options))
    samples = _samples(job, model)
    first_ns, first_outputs = _first_inference(job, model, samples[0])
    return Ready(
        runtime=runtime,
        version=version,
        model=model,
        cold_start=ColdStart(import_ns, load_ns, first_ns),
        model_bytes=max(0, facts.resident_bytes() - before_bytes),
        samples=samples,
        first_outputs=first_outputs,
    )


def _measure(spec: RunSpec, ready: Ready, pipe: Pipe, directory: Path) -> Measured:
    from edgebench.agent.worker.scenarios import run_warmup

    model = ready.model
    calls = Calls(model.prepare(ready.samples), model.invoker(), model.reader())
    harness = _measure_harness()
    first_ns = ready.cold_start.first_inference_ns
    pipe.phase(
        Phase.WARMING_UP,
        _expected_s(first_ns, spec.warmup_duration_s, spec.warmup_query_count),
    )
    warmup = run_warmup(calls, spec)
    typical_ns = _typical_ns(warmup) or first_ns
    pipe.phase(Phase.MEASURING, _expected_scenario_s(spec, typical_ns))
    before = facts.read_moment()
    timed = _run(calls, spec, typical_ns, directory) if not warmup.is_interrupted else new_times()
    after = facts.read_moment()
    return Measured(
        warmup,
        timed,
        before,
        after,
        harness,
        facts.resident_bytes(),
        facts.proportional_bytes(),
    )


def _run(calls: Calls, spec: RunSpec, typical_ns: int, directory: Path) -> Times:
    from edgebench.agent.worker.loadgen import run_loadgen
    from edgebench.agent.worker.scenarios import run_scenario

    if spec.engine is Engine.LOADGEN:
        return run_loadgen(calls, spec, typical_ns=typical_ns, directory=str(directory))
    return run_scenario(calls, spec)


def _record(
    job: Job,
    ready: Ready,
    measured: Measured,
    output: OutputFacts,
    refused: tuple[str, ...],
    peak_bytes: int,
) -> WorkerRecord:
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
        memory=MemoryFacts(
            peak_rss_bytes=peak_bytes,
            model_bytes=ready.model_bytes,
            steady_rss_bytes=measured.steady_rss_bytes,
            steady_pss_bytes=measured.steady_pss_bytes,
            arena_bytes=model.arena_bytes(),
        ),
        harness=measured.harness,
        output=output,
        warmup_query_count=len(measured.warmup),
        query_count=len(measured.warmup) + len(measured.timed),
        is_interrupted=measured.is_interrupted,
        before=measured.before,
        after=measured.after,
        scheduling=facts.describe_scheduling(refused),
        sample_count=len(ready.samples),
        placement=model.placement(),
    )


def _check(
    job: Job, ready: Ready, measured: Measured, record: WorkerRecord, directory: Path, pipe: Pipe
) -> None:
    from edgebench.agent.worker.checks import run_checks

    query_ns = _typical_ns(measured.timed) or ready.cold_start.first_inference_ns
    pipe.phase(Phase.CHECKING, CHECK_EXPECTED_S)
    try:
        with STOP.armed():
            check = run_checks(_subject(job, ready, query_ns), directory)
    except StopRequested:
        return  # the measurement is complete all the same
    _write_record(directory, replace(record, check=check))


def _subject(job: Job, ready: Ready, query_ns: int) -> Subject:
    from edgebench.agent.worker.checks import Subject

    return Subject(
        job.spec,
        ready.runtime,
        job.model_path,
        job.dataset_path,
        ready.model,
        ready.samples,
        query_ns,
    )


def _find_runtime(name: str) -> Runtime:
    # Imported here, so that an unknown runtime is reported like every other failure.
    from edgebench.agent.runtimes.registry import find_runtime

    return find_runtime(name)


def _samples(job: Job, model: LoadedModel) -> list[list[Tensor]]:
    from edgebench.agent.worker.inputs import make_samples

    spec = job.spec
    return make_samples(
        model.inputs, count=spec.sample_count, seed=spec.seed, memory_bytes=job.memory_bytes
    )


def _first_inference(
    job: Job, model: LoadedModel, sample: list[Tensor]
) -> tuple[int, list[Tensor]]:
    from edgebench.agent.runtimes.text import one_line

    try:
        model.set_inputs(sample)
        elapsed_ns, _ = _timed(model.invoker())
        return elapsed_ns, model.read_outputs()
    except (MemoryError, StopRequested):
        raise
    except Exception as exc:  # each library has its own exceptions
        text = one_line(exc) or "no reason given; it may be out of memory"
        raise ModelRefused(f"{job.spec.runtime} failed in the first inference: {text}") from exc


def _answer_facts(ready: Ready) -> OutputFacts:
    from edgebench.agent.worker.checks import answer_facts

    return answer_facts(ready.model, ready.first_outputs, ready.samples[0])


def _measure_harness() -> HarnessFacts:
    nothing = Calls([_do_nothing], _do_nothing, _do_nothing)
    times = run_closed(
        nothing,
        [0] * HARNESS_QUERIES,
        duration_ns=0,
        min_count=HARNESS_QUERIES,
        max_count=HARNESS_QUERIES,
    )
    wall_ns = times.end_ns[-1] - times.start_ns[0]
    return HarnessFacts(
        p50_ns=_typical_ns(times) or 0,
        per_query_ns=wall_ns / len(times),
        end_to_end_p50_ns=_median(times.start_ns, times.end_ns) or 0,
    )


def _do_nothing() -> None:
    return None


def _expected_scenario_s(spec: RunSpec, query_ns: int) -> float:
    count = spec.min_query_count
    if spec.scenario is Scenario.MULTI_STREAM:
        count *= spec.samples_per_query
    at_once_s = _expected_s(query_ns, spec.duration_s, count)
    if spec.scenario is Scenario.SERVER and spec.target_qps is not None:
        return max(at_once_s, spec.min_query_count / spec.target_qps)
    return at_once_s


def _expected_s(query_ns: int, duration_s: float, count: int) -> float:
    return max(duration_s, count * query_ns / NS_PER_S)


def _typical_ns(times: Times) -> int | None:
    """Median latency of the last part, for estimates only."""
    return _median(times.invoke_start_ns, times.invoke_end_ns)


def _median(begins: array[int], ends: array[int]) -> int | None:
    last = [end - begin for begin, end in zip(begins[-1024:], ends[-1024:], strict=True)]
    return sorted(last)[len(last) // 2] if last else None


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


def _timed(call: Callable[[], Any]) -> tuple[int, Any]:
    begin = time.perf_counter_ns()
    result = call()
    return time.perf_counter_ns() - begin, result


if __name__ == "__main__":
    exit_code = main(sys.argv[1:])
    sys.stdout.flush()
    sys.stderr.flush()
    # Everything is written. LoadGen may still hold a thread, and libraries crash in their ends.
    os._exit(exit_code)
