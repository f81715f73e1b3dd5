"""From a model file to measured times: load, first inference, warm-up, timed loop."""

from __future__ import annotations

import time
from array import array
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from edgebench.agent.cpu_quota import QuotaGroups
from edgebench.agent.simulated import slowed
from edgebench.agent.worker import facts
from edgebench.agent.worker.jitter import jitter_for
from edgebench.agent.worker.job import Job, Pipe
from edgebench.agent.worker.loop import Calls, Pauses, Times, new_times, run_closed
from edgebench.agent.worker.marks import Marks
from edgebench.agent.worker.realtime import pauses_for
from edgebench.agent.worker.rehearsal import refuse_full_disk, trace_bytes
from edgebench.agent.worker.stop import StopRequested
from edgebench.agent.worker.yardstick import calibrated_work
from edgebench.protocol.errors import InferenceFailed, SignatureRefused
from edgebench.protocol.record import (
    ColdStart,
    HarnessFacts,
    MemoryFacts,
    Moment,
    Phase,
    RealtimeLimit,
    SyncFacts,
    Yardstick,
)
from edgebench.protocol.runtime import LoadedModel, LoadOptions, Runtime, SignedModel
from edgebench.protocol.spec import Engine, RunSpec, samples_per_query

if TYPE_CHECKING:
    from edgebench.protocol.runtime import Tensor

NS_PER_S = 1_000_000_000
HARNESS_QUERIES = 4096
"""Number of empty queries that measure the overhead of the loop itself; they take about 3 ms."""


@dataclass(frozen=True, slots=True)
class PreparedModel:
    """A loaded model after its first inference, and the samples for the measurement."""

    runtime: Runtime
    version: str
    model: LoadedModel
    cold_start: ColdStart
    memory: MemoryFacts
    """Memory of the process after the first inference."""
    samples: list[list[Tensor]]
    inputs_clipped_ratio: float | None
    """Share of the given values that a quantised input clips; None if nothing was quantised."""
    first_outputs: list[Tensor]
    options: LoadOptions
    """Options with which the model was loaded; the checks of the outputs load it with the same
    shapes."""
    calls: Calls
    """Calls of the timed loop, for these samples."""


@dataclass(frozen=True, slots=True)
class LoopRecord:
    """Result of the warm-up and the timed loop."""

    warmup: Times
    timed: Times
    """Inferences of the timed loop; empty if the run was stopped during the warm-up."""
    before: Moment
    after: Moment
    harness: HarnessFacts
    sync: SyncFacts
    realtime: RealtimeLimit | None = None
    yardstick: Yardstick | None = None
    """Readings before and after the run; None in the record of a trial."""

    @property
    def is_interrupted(self) -> bool:
        """Whether the run was stopped early."""
        return self.warmup.is_interrupted or self.timed.is_interrupted


def prepare_model(job: Job) -> PreparedModel:
    """Import the library, load the model and run the first inference, and time each step."""
    # Imported here, so that an unknown runtime is reported like every other failure.
    from edgebench.agent.runtimes.registry import find_runtime
    from edgebench.agent.runtimes.shapes import refuse_other_shapes

    runtime = find_runtime(job.spec.runtime)
    import_ns, version = _timed(runtime.import_library)
    # Imported here: numpy counts as part of the runtime's import.
    from edgebench.agent.worker.inputs import clipped_ratio, read_inputs

    arrays = read_inputs(job.inputs_path) if job.inputs_path else {}
    options = LoadOptions(
        job.spec.threads,
        job.spec.delegate,
        job.spec.signature,
        shapes={name: value.shape[1:] for name, value in arrays.items()} | job.spec.input_shapes,
    )
    before_bytes = facts.resident_bytes()
    load_ns, model = _timed(lambda: runtime.load(job.model_path, options))
    _refuse_signature(job.spec, model)
    refuse_other_shapes(model.inputs, job.spec.input_shapes)
    (first,) = _samples(job, model, arrays, count=1)
    first_ns, first_outputs = _first_inference(job, model, first)
    # Read before samples and times take memory that does not belong to the model.
    peak_bytes, after_bytes = facts.resident_bytes("VmHWM"), facts.resident_bytes()
    memory = MemoryFacts(
        peak_rss_bytes=peak_bytes,
        model_bytes=(
            None
            if before_bytes is None or after_bytes is None
            else max(0, after_bytes - before_bytes)
        ),
        steady_rss_bytes=after_bytes,
        steady_pss_bytes=facts.proportional_bytes(),
        arena_bytes=model.arena_bytes(),
    )
    samples = _samples(job, model, arrays, count=job.spec.sample_count)
    return PreparedModel(
        runtime=runtime,
        version=version,
        model=model,
        cold_start=ColdStart(import_ns, load_ns, first_ns),
        memory=memory,
        samples=samples,
        inputs_clipped_ratio=clipped_ratio(model.inputs, arrays, count=len(samples)),
        options=options,
        first_outputs=first_outputs,
        calls=Calls(
            model.prepare(samples), slowed(model.invoker(), job.speed_path), model.reader()
        ),
    )


def _refuse_signature(spec: RunSpec, model: object) -> None:
    if spec.signature is not None and not isinstance(model, SignedModel):
        raise SignatureRefused(
            f"models of {spec.runtime} have no signatures, got {spec.signature!r}"
        )


def measure(
    job: Job,
    prepared: PreparedModel,
    pipe: Pipe,
    directory: Path,
    groups: QuotaGroups,
    limit: RealtimeLimit | None,
) -> LoopRecord:
    """Warm up and run the scenario, with marks for a meter if the run has a meter.

    The yardstick (fixed work) runs before the first marks and after the last marks. The reason is
    that the alignment of a meter requires an idle device right before the warm-up and right after
    the loop. The warm-up refills the caches after the yardstick.

    Args:
        job: The job.
        prepared: The loaded model.
        pipe: Pipe to the daemon, for the phases.
        directory: Directory for LoadGen's files.
        groups: Control groups with a quota, whose counters are read.
        limit: The kernel's limit on real-time tasks; None if this process has no real-time
            priority.
    """
    from edgebench.agent.worker.scenarios import run_warmup

    spec, root, calls = job.spec, Path(job.root), prepared.calls
    harness = _measure_harness()
    work = calibrated_work(root, job.speed_path)
    speed_before = work.measure()
    marks = Marks(job, pipe)
    marks.before_warmup()
    first_ns = prepared.cold_start.first_inference_ns
    pipe.phase(
        Phase.WARMING_UP,
        _expected_s(first_ns, spec.warmup_duration_s, spec.warmup_query_count),
    )
    warmup = run_warmup(calls, spec, _pauses(pauses_for(limit, spec, first_ns)))
    query_ns = typical_ns(warmup) or first_ns
    expected_s = _expected_scenario_s(spec, query_ns)
    if not warmup.is_interrupted:
        count = len(warmup) + _expected_inferences(spec, query_ns, expected_s)
        refuse_full_disk(directory, trace_bytes(count))
    pipe.phase(Phase.MEASURING, expected_s)
    before = facts.read_moment(root, groups)
    timed = new_times()
    if not warmup.is_interrupted:
        marks.pulse()
        pauses = _pauses(jitter_for(spec, job.run_id, query_ns), pauses_for(limit, spec, query_ns))
        timed = _run(calls, spec, query_ns, directory, pauses)
        marks.pulse()
    after = facts.read_moment(root, groups)
    if not (warmup.is_interrupted or timed.is_interrupted):
        marks.after_loop()
    marks.close()
    yardstick = Yardstick(speed_before, work.measure())
    if limit is not None:
        limit = replace(limit, paused_s=timed.paused_ns / 1e9)
    return LoopRecord(warmup, timed, before, after, harness, marks.facts, limit, yardstick)


def _pauses(*kinds: Pauses | None) -> tuple[Pauses, ...]:
    return tuple(pauses for pauses in kinds if pauses is not None)


def _run(
    calls: Calls, spec: RunSpec, query_ns: int, directory: Path, pauses: Sequence[Pauses]
) -> Times:
    from edgebench.agent.worker.loadgen import run_loadgen
    from edgebench.agent.worker.scenarios import run_scenario

    if spec.engine is Engine.LOADGEN:
        return run_loadgen(calls, spec, typical_ns=query_ns, directory=str(directory))
    return run_scenario(calls, spec, pauses)


def _samples(
    job: Job, model: LoadedModel, given: Mapping[str, Tensor], *, count: int
) -> list[list[Tensor]]:
    from edgebench.agent.worker.inputs import make_samples

    return make_samples(
        model.inputs,
        given,
        count=count,
        seed=job.spec.seed,
        memory_bytes=job.memory_bytes,
    )


def _first_inference(
    job: Job, model: LoadedModel, sample: list[Tensor]
) -> tuple[int, list[Tensor]]:
    from edgebench.agent.runtimes.text import library_line

    try:
        model.set_inputs(sample)
        elapsed_ns, _ = _timed(model.invoker())
        return elapsed_ns, model.read_outputs()
    except (MemoryError, StopRequested):
        raise
    except Exception as exc:  # libraries raise many types
        text = library_line(exc) or "no reason given; memory may be exhausted"
        raise InferenceFailed(f"{job.spec.runtime} failed in the first inference: {text}") from exc


def _measure_harness() -> HarnessFacts:
    def do_nothing() -> None: ...

    times = run_closed(
        Calls([do_nothing], do_nothing, do_nothing),
        [0] * HARNESS_QUERIES,
        duration_ns=0,
        min_count=HARNESS_QUERIES,
        max_count=HARNESS_QUERIES,
    )
    wall_ns = times.end_ns[-1] - times.start_ns[0]
    return HarnessFacts(
        p50_ns=typical_ns(times) or 0,
        per_query_ns=wall_ns / len(times),
        end_to_end_p50_ns=_median(times.start_ns, times.end_ns) or 0,
    )


def _expected_scenario_s(spec: RunSpec, query_ns: int) -> float:
    if spec.scenario.traits.is_scheduled and spec.target_qps is not None:
        arrival_count = max(spec.min_query_count, spec.target_qps * spec.duration_s)
        expected_s = max(arrival_count / spec.target_qps, arrival_count * query_ns / NS_PER_S)
    else:
        count = spec.min_query_count * samples_per_query(spec)
        expected_s = _expected_s(query_ns, spec.duration_s, count)
    return expected_s if spec.max_duration_s is None else min(expected_s, spec.max_duration_s)


def _expected_inferences(spec: RunSpec, query_ns: int, expected_s: float) -> int:
    if spec.scenario.traits.is_scheduled and spec.target_qps is not None:
        return int(max(spec.min_query_count, spec.target_qps * spec.duration_s))
    limit = spec.max_query_count * samples_per_query(spec)
    return int(min(limit, expected_s * NS_PER_S / query_ns))


def _expected_s(query_ns: int, duration_s: float, count: int) -> float:
    return max(duration_s, count * query_ns / NS_PER_S)


def typical_ns(times: Times) -> int | None:
    """Median invocation time of the last 1024 inferences, for estimates; None if none has run."""
    return _median(times.invoke_start_ns, times.invoke_end_ns)


def _median(begins: array[int], ends: array[int]) -> int | None:
    last = [end - begin for begin, end in zip(begins[-1024:], ends[-1024:], strict=True)]
    return sorted(last)[len(last) // 2] if last else None


def _timed(call: Callable[[], Any]) -> tuple[int, Any]:
    begin = time.perf_counter_ns()
    result = call()
    return time.perf_counter_ns() - begin, result
