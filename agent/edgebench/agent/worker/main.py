"""The worker process: load, warm up, measure, write, exit.

It is started by the daemon with a job file and a pipe. Phases go up the pipe, one JSON line
each; the traces and the record go into the job's directory; whatever libraries print goes to the
worker's log. The exit code says little: a failure is the last line of the pipe.
"""

from __future__ import annotations

import hashlib
import json
import os
import resource
import signal
import sys
import time
from array import array
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from edgebench.agent.cpu_ticks import CpuTicks, read_cpu_ticks
from edgebench.agent.worker.limits import apply_limits
from edgebench.agent.worker.loop import Times, run_single_stream
from edgebench.agent.worker.scenarios import NS_PER_S, run_scenario, run_warmup
from edgebench.agent.worker.stop import STOP, StopRequested
from edgebench.protocol.codec import from_plain, to_plain
from edgebench.protocol.errors import EdgebenchError, ModelRefused, NoSpace, TargetError
from edgebench.protocol.record import (
    ColdStart,
    HarnessFacts,
    MemoryFacts,
    ModelFacts,
    OutputFacts,
    Phase,
    RuntimeFacts,
    WorkerRecord,
)
from edgebench.protocol.runtime import LoadedModel, LoadOptions, Runtime
from edgebench.protocol.spec import RunSpec
from edgebench.protocol.traces import QUERIES_FILE

if TYPE_CHECKING:
    from edgebench.protocol.runtime import Tensor

WORKER_RECORD_FILE = "worker.json"
HARNESS_QUERIES = 4096
"""Calls that do nothing, to measure the loop itself; takes about 2 ms."""
TIMEOUT_FACTOR = 3.0
TIMEOUT_MARGIN_S = 30.0


@dataclass(frozen=True, slots=True)
class Job:
    """What the daemon asks of a worker."""

    spec: RunSpec
    model: ModelFacts
    model_path: str
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
    """A model that has answered once."""

    runtime: Runtime
    version: str
    model: LoadedModel
    cold_start: ColdStart
    model_bytes: int
    first_outputs: list[Tensor]


@dataclass(frozen=True, slots=True)
class Moment:
    """Clocks and counters at one end of the timed loop."""

    monotonic_ns: int
    wall_ns: int
    involuntary_switches: int
    own_s: float
    """Processor time of this process."""
    ticks: CpuTicks | None


@dataclass(frozen=True, slots=True)
class Measured:
    """What the timed loop gave."""

    warmup: Times
    timed: Times | None
    """None when the run was stopped during the warm-up."""
    before: Moment
    after: Moment
    harness: HarnessFacts

    @property
    def parts(self) -> list[Times]:
        """The recorded queries in issue order."""
        return [self.warmup] if self.timed is None else [self.warmup, self.timed]


def _execute(job: Job, directory: Path, pipe: Pipe) -> None:
    pipe.phase(Phase.LOADING)
    with STOP.armed():
        ready = _get_ready(job)
    measured = _measure(job.spec, ready, pipe)
    pipe.phase(Phase.SPOOLING)
    _write_queries(directory / QUERIES_FILE, measured.parts)
    record = _record(job, ready, measured)
    (directory / WORKER_RECORD_FILE).write_text(json.dumps(to_plain(record)))


def _get_ready(job: Job) -> Ready:
    """Import, load, first inference: each timed on its own."""
    runtime = _find_runtime(job.spec.runtime)
    import_ns, version = _timed(runtime.import_library)
    before_bytes = _resident_bytes("VmRSS")
    options = LoadOptions(job.spec.threads, job.spec.delegate)
    load_ns, model = _timed(lambda: runtime.load(job.model_path, options))
    first_ns, first_outputs = _first_inference(job, model)
    return Ready(
        runtime=runtime,
        version=version,
        model=model,
        cold_start=ColdStart(import_ns, load_ns, first_ns),
        model_bytes=max(0, _resident_bytes("VmRSS") - before_bytes),
        first_outputs=first_outputs,
    )


def _measure(spec: RunSpec, ready: Ready, pipe: Pipe) -> Measured:
    invoke = ready.model.invoker()
    harness = _measure_harness()
    first_ns = ready.cold_start.first_inference_ns
    pipe.phase(
        Phase.WARMING_UP,
        _expected_s(first_ns, spec.warmup_duration_s, spec.warmup_query_count),
    )
    warmup = run_warmup(invoke, spec)
    typical_ns = _typical_ns(warmup) or first_ns
    pipe.phase(Phase.MEASURING, _expected_s(typical_ns, spec.duration_s, spec.min_query_count))
    before = _moment()
    timed = None if warmup.is_interrupted else run_scenario(invoke, spec)
    return Measured(warmup, timed, before, _moment(), harness)


def _record(job: Job, ready: Ready, measured: Measured) -> WorkerRecord:
    spec, model = job.spec, ready.model
    before, after = measured.before, measured.after
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
        memory=MemoryFacts(_resident_bytes("VmHWM"), ready.model_bytes),
        harness=measured.harness,
        output=_output_facts(ready.first_outputs, model.read_outputs()),
        warmup_query_count=len(measured.warmup),
        query_count=sum(map(len, measured.parts)),
        is_interrupted=measured.parts[-1].is_interrupted,
        cpu_affinity=tuple(sorted(os.sched_getaffinity(0))),
        monotonic_ns=(before.monotonic_ns, after.monotonic_ns),
        wall_ns=(before.wall_ns, after.wall_ns),
        involuntary_switch_count=after.involuntary_switches - before.involuntary_switches,
        background_busy_ratio=_background_ratio(before, after),
    )


def _find_runtime(name: str) -> Runtime:
    # Imported here, so that an unknown runtime is reported like every other failure.
    from edgebench.agent.runtimes.registry import find_runtime

    return find_runtime(name)


def _first_inference(job: Job, model: LoadedModel) -> tuple[int, list[Tensor]]:
    from edgebench.agent.runtimes.text import one_line
    from edgebench.agent.worker.inputs import make_inputs

    values = make_inputs(model.inputs, seed=job.spec.seed, memory_bytes=job.memory_bytes)
    try:
        model.set_inputs(values)
        elapsed_ns, _ = _timed(model.invoker())
        return elapsed_ns, model.read_outputs()
    except (MemoryError, StopRequested):
        raise
    except Exception as exc:  # each library has its own exceptions
        text = one_line(exc) or "no reason given; it may be out of memory"
        raise ModelRefused(f"{job.spec.runtime} failed in the first inference: {text}") from exc


def _measure_harness() -> HarnessFacts:
    times = run_single_stream(
        _do_nothing, duration_ns=0, min_count=HARNESS_QUERIES, max_count=HARNESS_QUERIES
    )
    wall_ns = times.end_ns[-1] - times.start_ns[0]
    return HarnessFacts(_typical_ns(times) or 0, wall_ns / len(times))


def _do_nothing() -> None:
    return None


def _expected_s(query_ns: int, duration_s: float, count: int) -> float:
    return max(duration_s, count * query_ns / NS_PER_S)


def _typical_ns(times: Times) -> int | None:
    """Median latency of the last part, for estimates only."""
    last = [e - s for s, e in zip(times.start_ns[-1024:], times.end_ns[-1024:], strict=True)]
    return sorted(last)[len(last) // 2] if last else None


def _write_queries(path: Path, parts: list[Times]) -> None:
    with path.open("wb") as file:
        for column in ("start_ns", "end_ns"):
            for times in parts:
                values: array[int] = getattr(times, column)
                if sys.byteorder == "big":
                    values.byteswap()
                values.tofile(file)


def _output_facts(first: list[Tensor], last: list[Tensor]) -> OutputFacts:
    from edgebench.agent.worker.inputs import are_finite

    digest = hashlib.sha256()
    for tensor in last:
        digest.update(tensor.tobytes() if tensor.dtype.kind != "O" else repr(tensor).encode())
    return OutputFacts(digest.hexdigest(), are_finite(first) and are_finite(last))


def _timed(call: Callable[[], Any]) -> tuple[int, Any]:
    begin = time.perf_counter_ns()
    result = call()
    return time.perf_counter_ns() - begin, result


def _resident_bytes(field: str) -> int:
    """VmRSS now, or VmHWM, its peak; getrusage(2) would count the parent's memory too."""
    with open("/proc/self/status", encoding="ascii", errors="replace") as file:
        for line in file:
            if line.startswith(field + ":"):
                return int(line.split()[1]) * 1024
    return 0


def _moment() -> Moment:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return Moment(
        monotonic_ns=time.perf_counter_ns(),
        wall_ns=time.time_ns(),
        involuntary_switches=usage.ru_nivcsw,
        own_s=usage.ru_utime + usage.ru_stime,
        ticks=read_cpu_ticks(),
    )


def _background_ratio(before: Moment, after: Moment) -> float | None:
    """What all CPUs did between two moments, less what this process did."""
    if before.ticks is None or after.ticks is None:
        return None
    total = after.ticks.total - before.ticks.total
    own = (after.own_s - before.own_s) * os.sysconf("SC_CLK_TCK")
    busy = after.ticks.busy - before.ticks.busy
    return min(1.0, max(0.0, (busy - own) / total)) if total > 0 else None


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
