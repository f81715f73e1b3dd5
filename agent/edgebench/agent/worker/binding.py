"""Overhead of a runtime's Python binding per invocation, measured with a trivial model.

Theory of operation. Timing an empty loop would not be enough, because the binding works inside the
call: it parses arguments, and releases and reacquires Python's global lock. So three kinds of calls
are timed, in the same loop as the model under test. The first two run a model with next to no work:

- a call through the driver;
- a call of the library's C function with ctypes, if the library exports this function (see
  `c_calls`);
- a call of an empty C function with ctypes. Its time is the cost of ctypes, which is subtracted.

The three kinds alternate in rounds. The time of a fast round of each kind is used.

The difference between the times of the driver and of the C function is a lower bound of the
binding's cost. A real model fills the caches with its data and code. After an inference of such a
model, both kinds of calls take longer: calls through a binding, and calls of a C function from
Python (docs/performance.md).

The worker measures the binding last, when all results are on disk. The worker's reported memory
then does not include the trivial model. If the library crashes or hangs, only the cost of the
binding is unknown. A child process would isolate the measurement as well, but a confined worker
cannot start processes.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterable

from edgebench.agent.runtimes.c_calls import NotExported, c_call, nothing
from edgebench.agent.runtimes.trial import load_trivial
from edgebench.agent.worker.loop import Calls, run_closed
from edgebench.protocol.record import BindingFacts, TensorSpec
from edgebench.protocol.runtime import Runtime

ROUNDS = 20
ROUND_INVOCATIONS = 100
"""Invocations per round and kind of call. Measured: all rounds take 15 ms; with the loading of the
model, they take 30 to 150 ms."""
FAST_ROUND = 2
"""For each kind of call, the rounds are sorted, fastest first. The round at this index, which is
the first decile, is used. A fast round is used because other programs only make rounds slower. Most
inferences of the model under test may have run while other programs were idle."""
TIMEOUT_S = 3
"""Seconds after which the kernel ends a worker that is still measuring. For slow boards, this is 20
times the longest measured time of 150 ms."""
_THREADS = 1
"""Number of threads of the trivial model, which is a single addition and cannot be divided."""
_TEXT = "object"


def measure_binding(runtime: Runtime, tensors: Iterable[TensorSpec]) -> BindingFacts:
    """Measure the cost of the binding in this process; a failure is returned, not raised.

    Args:
        runtime: Driver of the model under test.
        tensors: Inputs and outputs of the model under test; text is not supported.
    """
    if any(spec.dtype == _TEXT for spec in tensors):
        return BindingFacts(reason="not measured for models with text tensors")
    try:
        return _measure(runtime)
    except Exception as exc:  # libraries raise many types
        return BindingFacts(reason=f"the trivial model fails: {type(exc).__name__}")


def _measure(runtime: Runtime) -> BindingFacts:

    loaded = load_trivial(runtime, threads=_THREADS)
    if loaded is None:
        return BindingFacts(reason="no trivial model in the formats of this runtime")
    model, path, sample = loaded
    model.set_inputs(sample)
    model.invoker()()
    expected = model.read_outputs()[0].tobytes()
    sides = {"binding": model.invoker()}
    reason = None
    try:
        native = c_call(runtime.name, model, path, _THREADS, sample[0])
        if native.invoker()() or native.read_output() != expected:
            raise NotExported("the C function and the binding return different outputs")
        sides |= {"c": native.invoker(), "nothing": nothing(len(native.arguments))}
    except NotExported as exc:
        reason = str(exc)
    setters, read_outputs = model.prepare([sample]), model.reader()
    p50_ns = _in_turns({name: Calls(setters, call, read_outputs) for name, call in sides.items()})
    return BindingFacts(
        p50_ns=round(p50_ns["binding"]),
        c_p50_ns=round(max(0.0, p50_ns["c"] - p50_ns["nothing"])) if "c" in p50_ns else None,
        reason=reason,
    )


def _in_turns(sides: dict[str, Calls]) -> dict[str, float]:
    """Median invocation time of each kind of call in its `FAST_ROUND`; the kinds alternate."""
    medians: dict[str, list[float]] = {name: [] for name in sides}
    for _ in range(ROUNDS):
        for name, calls in sides.items():
            medians[name].append(_median_ns(calls))
    return {name: sorted(values)[FAST_ROUND] for name, values in medians.items()}


def _median_ns(calls: Calls) -> float:
    times = run_closed(
        calls,
        [0] * ROUND_INVOCATIONS,
        duration_ns=0,
        min_count=ROUND_INVOCATIONS,
        max_count=ROUND_INVOCATIONS,
    )
    spans = zip(times.invoke_start_ns, times.invoke_end_ns, strict=True)
    return statistics.median(end - start for start, end in spans)
