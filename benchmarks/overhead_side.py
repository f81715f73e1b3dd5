"""A side of harness_overhead.py, in its own process.

    python benchmarks/overhead_side.py SIDE RUNTIME MODEL THREADS WARMUP_S DURATION_S [LOOP.so]

The script prints the result of the side as a line of JSON. RUNTIME and MODEL are `nothing` for
calls that do nothing.

Every side except C calls the callables that edgebench's driver has prepared. Every side warms up
for WARMUP_S and runs without garbage collection. The wall time per query is the median over blocks
of `BLOCK_QUERIES` queries, because the clock has steps of 10 ns on some machines.
"""

from __future__ import annotations

import ctypes
import gc
import json
import sys
import tempfile
from array import array
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import partial
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any

import numpy as np
from native_calls import native_call, nothing, words_of

from edgebench.agent.runtimes.c_calls import CCall, NotExported
from edgebench.agent.runtimes.registry import find_runtime
from edgebench.agent.worker.inputs import make_inputs
from edgebench.agent.worker.loop import Calls, run_closed
from edgebench.protocol.runtime import LoadOptions

if TYPE_CHECKING:
    from edgebench.protocol.runtime import LoadedModel, Tensor

NOTHING = "nothing"
NS_PER_S = 1_000_000_000
BLOCK_QUERIES = 16
LONG_NS = 100_000
"""A query of at least this duration is a block by itself: the steps of the clock are negligible for
such a query, and sixteen of these queries would almost always be interrupted by another process."""
MAX_QUERIES = 2_000_000
"""Maximum number of timestamps that are preallocated."""
LOADGEN_LEAST_NS = 1000
"""Lower bound of the expected latency in LoadGen's settings. In LoadGen, a query that does nothing
takes about 2500 ns (docs/performance.md)."""
ORDER_LENGTH = 65536
"""Length of the order of the samples, as in edgebench's scenarios."""


@dataclass(frozen=True, slots=True)
class SideResult:
    """Medians of a side, nanoseconds; None if the side does not measure the quantity."""

    queries: int = 0
    period_ns: float | None = None
    """Wall time per query: from the start of a query to the start of the next."""
    invoke_ns: float | None = None
    harness_ns: float | None = None
    """Wall time per query of the agent's own loop around calls that do nothing."""
    skipped: str | None = None
    """Reason why the side cannot be run."""


@dataclass(frozen=True, slots=True)
class SideJob:
    """Model to call, and for how long."""

    runtime: str
    path: str
    threads: int
    warmup_s: float
    duration_s: float
    loop: str | None

    def load(self) -> tuple[LoadedModel, list[Tensor]]:
        """The model as the worker loads it, and its inputs."""
        runtime = find_runtime(self.runtime)
        runtime.import_library()
        model = runtime.load(self.path, LoadOptions(self.threads))
        values = make_inputs(model.inputs, seed=0, memory_bytes=2**30)
        model.set_inputs(values)
        return model, values

    def calls(self) -> Calls:
        """Callables that the worker prepares."""
        if self.runtime == NOTHING:
            return Calls([do_nothing], do_nothing, do_nothing)
        model, values = self.load()
        return Calls(model.prepare([values]), model.invoker(), model.reader())


def do_nothing() -> None:
    """Do nothing, in place of a model that takes no time."""


@contextmanager
def no_collection() -> Iterator[None]:
    """Switch garbage collection off, as the worker does."""
    gc.collect()
    gc.freeze()
    gc.disable()
    yield
    gc.enable()


def main(arguments: Sequence[str]) -> None:
    """Run a side and print its result."""
    side, runtime, path, threads, warmup_s, duration_s = arguments[:6]
    loop = arguments[6] if len(arguments) > 6 else None
    job = SideJob(runtime, path, int(threads), float(warmup_s), float(duration_s), loop)
    try:
        result = SIDES[side](job)
    except NotExported as exc:
        result = SideResult(skipped=str(exc))
    print(json.dumps(asdict(result)))


def run_c(job: SideJob) -> SideResult:
    """C loop around the C function."""
    assert job.loop is not None
    library = ctypes.CDLL(job.loop)
    library.run_loop.restype = ctypes.c_int64
    if job.runtime == NOTHING:
        native = nothing(library)
    else:
        model, values = job.load()
        native = native_call(job.runtime, model, job.path, job.threads, values)
    _run_native(library, native, job.warmup_s)
    begins, ends = _run_native(library, native, job.duration_s)
    return SideResult(len(ends), _period_ns(begins), _median_difference(begins, ends))


def _run_native(
    library: ctypes.CDLL, native: CCall, duration_s: float
) -> tuple[array[int], array[int]]:
    begins, ends = _zeros(MAX_QUERIES), _zeros(MAX_QUERIES)
    places = [(ctypes.c_int64 * MAX_QUERIES).from_buffer(values) for values in (begins, ends)]
    limits = (ctypes.c_int64(int(duration_s * NS_PER_S)), ctypes.c_int64(MAX_QUERIES))
    count = library.run_loop(native.function, words_of(native), *limits, *places)
    del places
    if count < 2:
        raise NotExported("the function fails")
    return begins[:count], ends[:count]


def run_python_invoke(job: SideJob) -> SideResult:
    """Plain Python loop around the invocation alone."""
    calls = job.calls()
    typical_ns = _warm_up(calls, job.warmup_s)
    begins, ends = _bare_invoke(calls.invoke, _count(job.duration_s, typical_ns))
    return SideResult(len(ends), _period_ns(begins), _median_difference(begins, ends))


def run_public(job: SideJob) -> SideResult:
    """Plain Python loop around the library's public call, as in a simple script."""
    # No calls are prepared: interpreters refuse to run while their native interpreter is held.
    invoke = _public_call(job.load()[0])
    typical_ns = _warm_up(Calls([do_nothing], invoke, do_nothing), job.warmup_s)
    begins, ends = _bare_invoke(invoke, _count(job.duration_s, typical_ns))
    return SideResult(len(ends), _period_ns(begins), _median_difference(begins, ends))


def _public_call(model: Any) -> Callable[[], Any]:
    if hasattr(model, "_interpreter"):
        invoke: Callable[[], Any] = model._interpreter.invoke
        return invoke
    return partial(model._session.run_with_iobinding, model._call._binding)


def run_python(job: SideJob) -> SideResult:
    """Plain Python loop around the whole query."""
    calls = job.calls()
    typical_ns = _warm_up(calls, job.warmup_s)
    begins, ends = _bare_query(calls, _count(job.duration_s, typical_ns))
    return SideResult(len(ends), _period_ns(begins))


def run_edgebench(job: SideJob) -> SideResult:
    """Loop of edgebench's worker; its pauses between blocks are spread over all queries."""
    calls = job.calls()
    typical_ns = _warm_up(calls, job.warmup_s)
    times = run_closed(
        calls,
        [0] * ORDER_LENGTH,
        duration_ns=int(job.duration_s * NS_PER_S),
        min_count=_block(typical_ns) + 1,
        max_count=MAX_QUERIES,
    )
    starts, ends = np.asarray(times.start_ns), np.asarray(times.end_ns)
    # Zero, except for the pauses between blocks of timestamps.
    pauses_ns = float(np.sum(starts[1:] - ends[:-1]))
    return SideResult(
        len(times),
        _period_ns(times.end_ns) + pauses_ns / len(times),
        _median_difference(times.invoke_start_ns, times.invoke_end_ns),
    )


def run_loadgen(job: SideJob) -> SideResult:
    """LoadGen, which calls back into Python for each query.

    LoadGen does not publish the timestamps of its queries, so the callback takes a timestamp per
    block.
    """
    library: Any = __import__("mlperf_loadgen")
    calls = job.calls()
    typical_ns = _warm_up(calls, job.warmup_s)
    block = _block(typical_ns)
    moments: list[int] = []
    system = library.ConstructSUT(_issuer(library, calls, block, moments), lambda: None)
    samples = library.ConstructQSL(1, 1, lambda _: None, lambda _: None)
    with tempfile.TemporaryDirectory(prefix="edgebench-") as folder, no_collection():
        settings = _loadgen_settings(library, job.duration_s, typical_ns)
        logs = _loadgen_logs(library, folder)
        library.StartTestWithLogSettings(system, samples, settings, logs, "")
    library.DestroyQSL(samples)
    library.DestroySUT(system)
    return SideResult(len(moments) * block, float(np.median(np.diff(moments))) / block)


def _issuer(
    library: Any, calls: Calls, block: int, moments: list[int]
) -> Callable[[Sequence[Any]], None]:
    """The callback; it adds only the counting of queries, which takes about 35 ns per query."""
    set_inputs, invoke, read_outputs = calls.set_inputs[0], calls.invoke, calls.read_outputs
    complete, response = library.QuerySamplesComplete, library.QuerySampleResponse
    clock, note = perf_counter_ns, moments.append
    mask, count = block - 1, 0

    def issue(queries: Sequence[Any]) -> None:
        nonlocal count
        for query in queries:
            set_inputs()
            invoke()
            read_outputs()
            complete([response(query.id, 0, 0)])
            count += 1
            if not count & mask:
                note(clock())

    return issue


def _loadgen_settings(library: Any, duration_s: float, typical_ns: float) -> Any:
    settings = library.TestSettings()
    settings.scenario = library.TestScenario.SingleStream
    settings.mode = library.TestMode.PerformanceOnly
    settings.min_duration_ms = int(duration_s * 1000)
    settings.min_query_count = 2 * BLOCK_QUERIES
    # LoadGen prepares its queries by this estimate: half the latency, so that there are enough.
    expected_ns = max(LOADGEN_LEAST_NS, int(typical_ns / 2))
    settings.single_stream_expected_latency_ns = expected_ns
    return settings


def _loadgen_logs(library: Any, folder: str) -> Any:
    logs = library.LogSettings()
    output = library.LogOutputSettings()
    output.outdir = folder
    output.copy_summary_to_stdout = False
    logs.log_output = output
    logs.enable_trace = False
    return logs


def _warm_up(calls: Calls, duration_s: float) -> float:
    """Run queries for this time; returns the median wall time per query, nanoseconds."""
    count, elapsed_ns, deadline_ns = 4, 0, int(duration_s * NS_PER_S)
    while True:
        begins, ends = _bare_query(calls, count)
        elapsed_ns += ends[-1] - begins[0]
        if elapsed_ns >= deadline_ns:
            return float(np.median(np.diff(begins)))
        count = min(2 * count, MAX_QUERIES)


def _bare_query(calls: Calls, count: int) -> tuple[array[int], array[int]]:
    """Run queries in the simplest possible loop; returns the times of their starts and ends."""
    set_inputs, invoke, read_outputs = calls.set_inputs[0], calls.invoke, calls.read_outputs
    clock, begins, ends = perf_counter_ns, _zeros(count), _zeros(count)
    with no_collection():
        for index in range(count):
            begin = clock()
            set_inputs()
            invoke()
            read_outputs()
            end = clock()
            begins[index] = begin
            ends[index] = end
    return begins, ends


def _bare_invoke(invoke: Callable[[], Any], count: int) -> tuple[array[int], array[int]]:
    clock, begins, ends = perf_counter_ns, _zeros(count), _zeros(count)
    with no_collection():
        for index in range(count):
            begin = clock()
            invoke()
            end = clock()
            begins[index] = begin
            ends[index] = end
    return begins, ends


def _block(typical_ns: float) -> int:
    return 1 if typical_ns >= LONG_NS else BLOCK_QUERIES


def _count(duration_s: float, typical_ns: float) -> int:
    """Number of queries that fit into the duration, but at least two blocks of queries."""
    count = int(duration_s * NS_PER_S / max(typical_ns, 1.0))
    return min(max(count, 2 * BLOCK_QUERIES), MAX_QUERIES)


def _period_ns(moments: array[int]) -> float:
    """Median wall time per query, from the starts or the ends of queries."""
    values = np.asarray(moments)
    block = _block(float(np.median(np.diff(values))))
    return float(np.median(np.diff(values[::block]))) / block


def _median_difference(begins: array[int], ends: array[int]) -> float:
    return float(np.median(np.asarray(ends) - np.asarray(begins)))


def _zeros(count: int) -> array[int]:
    return array("q", bytes(8 * count))


SIDES: dict[str, Callable[[SideJob], SideResult]] = {
    "c": run_c,
    "python-invoke": run_python_invoke,
    "python-public": run_public,
    "python": run_python,
    "edgebench": run_edgebench,
    "loadgen": run_loadgen,
}

if __name__ == "__main__":
    main(sys.argv[1:])
