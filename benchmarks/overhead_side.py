"""One side of harness_overhead.py, in a process of its own.

    python benchmarks/overhead_side.py SIDE RUNTIME MODEL THREADS WARMUP_S DURATION_S [LOOP.so]

prints what it saw as a line of JSON. RUNTIME and MODEL are `nothing` for calls that do nothing.

Every side but C, which calls no Python, calls the same callables: those that edgebench's driver
prepared. Every side runs `WARMUP_S` of them first, and has garbage collection off. Where a side
tells the moments of its queries, the time between two of them is taken over `BLOCK_QUERIES` at
once, since the clock counts in steps of 10 ns on some machines; the median over these is printed.
"""

from __future__ import annotations

import ctypes
import gc
import json
import re
import sys
import tempfile
from array import array
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any

import numpy as np
from native_calls import NativeCall, NotExported, native_call, nothing

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
"""A query that takes so long is a block of its own: the clock's steps do not show in it, and
sixteen would hardly ever go by without another process in between."""
MAX_QUERIES = 2_000_000
"""Bound on preallocated times."""
LOADGEN_LEAST_NS = 1000
"""LoadGen needs more for a query that does nothing, reference/measurement.md §1.7."""
ORDER_LENGTH = 65536
"""As in edgebench's scenarios."""


@dataclass(frozen=True, slots=True)
class Seen:
    """Medians of one side, nanoseconds; what it does not tell is None."""

    queries: int = 0
    period_ns: float | None = None
    """From one query to the next: wall time per query."""
    invoke_ns: float | None = None
    query_ns: float | None = None
    """Inputs in, invoke, outputs out."""
    harness_ns: float | None = None
    """What an agent says of its own loop: wall time of a query that does nothing."""
    skipped: str | None = None
    """Why there is nothing."""


@dataclass(frozen=True, slots=True)
class Job:
    """What to call, and for how long."""

    runtime: str
    path: str
    threads: int
    warmup_s: float
    duration_s: float
    loop: str | None

    def load(self) -> tuple[LoadedModel, list[Tensor]]:
        """The model, as the worker loads it, and the inputs that it gives it."""
        runtime = find_runtime(self.runtime)
        runtime.import_library()
        model = runtime.load(self.path, LoadOptions(self.threads))
        values = make_inputs(model.inputs, seed=0, memory_bytes=2**30)
        model.set_inputs(values)
        return model, values

    def calls(self) -> Calls:
        """The callables that the worker prepares."""
        if self.runtime == NOTHING:
            return Calls([do_nothing], do_nothing, do_nothing)
        model, values = self.load()
        return Calls(model.prepare([values]), model.invoker(), model.reader())


def do_nothing() -> None:
    """The model that costs no time."""


@contextmanager
def no_collection() -> Iterator[None]:
    """No garbage collection inside, as in the worker."""
    gc.collect()
    gc.freeze()
    gc.disable()
    yield
    gc.enable()


def main(arguments: Sequence[str]) -> None:
    """Run a side, print what it saw."""
    side, runtime, path, threads, warmup_s, duration_s = arguments[:6]
    loop = arguments[6] if len(arguments) > 6 else None
    job = Job(runtime, path, int(threads), float(warmup_s), float(duration_s), loop)
    try:
        seen = SIDES[side](job)
    except NotExported as exc:
        seen = Seen(skipped=str(exc))
    print(json.dumps(asdict(seen)))


def run_c(job: Job) -> Seen:
    """The C loop around the C function."""
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
    return Seen(len(ends), _period_ns(begins), _median_difference(begins, ends))


def _run_native(
    library: ctypes.CDLL, native: NativeCall, duration_s: float
) -> tuple[array[int], array[int]]:
    begins, ends = _zeros(MAX_QUERIES), _zeros(MAX_QUERIES)
    places = [(ctypes.c_int64 * MAX_QUERIES).from_buffer(values) for values in (begins, ends)]
    limits = (ctypes.c_int64(int(duration_s * NS_PER_S)), ctypes.c_int64(MAX_QUERIES))
    count = library.run_loop(native.function, native.words(), *limits, *places)
    del places
    if count < 2:
        raise NotExported("the function fails")
    return begins[:count], ends[:count]


def run_python_invoke(job: Job) -> Seen:
    """The plain Python loop around the invocation alone."""
    calls = job.calls()
    typical_ns = _warm_up(calls, job.warmup_s)
    begins, ends = _bare_invoke(calls.invoke, _count(job.duration_s, typical_ns))
    return Seen(len(ends), _period_ns(begins), _median_difference(begins, ends))


def run_public(job: Job) -> Seen:
    """The plain Python loop around the library's public call, as somebody would do by hand."""
    # Nothing is prepared here: the interpreters refuse to run while their native one is held.
    invoke = _public_call(job.load()[0])
    typical_ns = _warm_up(Calls([do_nothing], invoke, do_nothing), job.warmup_s)
    begins, ends = _bare_invoke(invoke, _count(job.duration_s, typical_ns))
    return Seen(len(ends), _period_ns(begins), _median_difference(begins, ends))


def _public_call(model: Any) -> Callable[[], Any]:
    if hasattr(model, "_interpreter"):
        invoke: Callable[[], Any] = model._interpreter.invoke
        return invoke
    return partial(model._session.run_with_iobinding, model._call._binding)


def run_python(job: Job) -> Seen:
    """The plain Python loop around the whole query."""
    calls = job.calls()
    typical_ns = _warm_up(calls, job.warmup_s)
    begins, ends = _bare_query(calls, _count(job.duration_s, typical_ns))
    query_ns = _median_difference(begins, ends)
    return Seen(len(ends), _period_ns(begins), None, query_ns)


def run_edgebench(job: Job) -> Seen:
    """The loop of edgebench's worker; its pauses, which no latency holds, are spread over all."""
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
    # Most are zero; there is a pause where one block of times ends and the next begins.
    pauses_ns = float(np.sum(starts[1:] - ends[:-1]))
    return Seen(
        len(times),
        _period_ns(times.end_ns) + pauses_ns / len(times),
        _median_difference(times.invoke_start_ns, times.invoke_end_ns),
        _median_difference(times.start_ns, times.end_ns),
    )


def run_loadgen(job: Job) -> Seen:
    """LoadGen, which calls back into Python for each query; its own latency, from its log.

    It keeps the moments of its queries to itself, so the callback takes one in `BLOCK_QUERIES`.
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
        text = (Path(folder) / "mlperf_log_summary.txt").read_text()
    library.DestroyQSL(samples)
    library.DestroySUT(system)
    found = re.search(r"^50\.00 percentile latency \(ns\)\s*: (\d+)$", text, re.MULTILINE)
    assert found, text
    period_ns = float(np.median(np.diff(moments))) / block
    return Seen(len(moments) * block, period_ns, None, float(found[1]))


def _issuer(
    library: Any, calls: Calls, block: int, moments: list[int]
) -> Callable[[Sequence[Any]], None]:
    """The callback; the count in it costs about 35 ns a query, and is the only thing added."""
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
    # LoadGen makes its queries before it starts, by this; half, so that they do not run out.
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
    """Run queries for so long; median time from one to the next, nanoseconds."""
    count, elapsed_ns, deadline_ns = 4, 0, int(duration_s * NS_PER_S)
    while True:
        begins, ends = _bare_query(calls, count)
        elapsed_ns += ends[-1] - begins[0]
        if elapsed_ns >= deadline_ns:
            return float(np.median(np.diff(begins)))
        count = min(2 * count, MAX_QUERIES)


def _bare_query(calls: Calls, count: int) -> tuple[array[int], array[int]]:
    """Begin and end of queries in the plainest loop that there is."""
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
    """Queries in such a time, and enough for two blocks."""
    count = int(duration_s * NS_PER_S / max(typical_ns, 1.0))
    return min(max(count, 2 * BLOCK_QUERIES), MAX_QUERIES)


def _period_ns(moments: array[int]) -> float:
    """Median time from one query to the next."""
    values = np.asarray(moments)
    block = _block(float(np.median(np.diff(values))))
    return float(np.median(np.diff(values[::block]))) / block


def _median_difference(begins: array[int], ends: array[int]) -> float:
    return float(np.median(np.asarray(ends) - np.asarray(begins)))


def _zeros(count: int) -> array[int]:
    return array("q", bytes(8 * count))


SIDES: dict[str, Callable[[Job], Seen]] = {
    "c": run_c,
    "python-invoke": run_python_invoke,
    "python-public": run_public,
    "python": run_python,
    "edgebench": run_edgebench,
    "loadgen": run_loadgen,
}

if __name__ == "__main__":
    main(sys.argv[1:])
