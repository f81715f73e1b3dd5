"""MLPerf's LoadGen as the engine that issues the queries; it writes its own logs.

LoadGen decides when a query comes and when the run is over. What it calls is the same prepared
inference that the timed loop calls, and its times are kept in the same trace; only the moment at
which a query was due is LoadGen's secret, so the trace has the moment of the call instead.

One test a process: a second one writes wrong times into the log.
"""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from time import perf_counter_ns
from typing import Any

from edgebench.agent.worker.loop import Calls, Times, new_times
from edgebench.protocol.errors import RuntimeUnavailable
from edgebench.protocol.spec import RunSpec, Scenario

_SCENARIOS = {
    Scenario.SINGLE_STREAM: "SingleStream",
    Scenario.MULTI_STREAM: "MultiStream",
    Scenario.SERVER: "Server",
    Scenario.OFFLINE: "Offline",
}
_SEED_MASK = 2**32 - 1
"""LoadGen takes 64 bits and uses 32 of them: `std::mt19937`."""


def import_loadgen() -> Any:
    """The library.

    Raises:
        RuntimeUnavailable: it is not installed.
    """
    try:
        return importlib.import_module("mlperf_loadgen")
    except ImportError as exc:
        raise RuntimeUnavailable(
            "LoadGen is not installed on the device: pip install mlcommons-loadgen"
        ) from exc


def run_loadgen(calls: Calls, spec: RunSpec, *, typical_ns: int, directory: str) -> Times:
    """Run one test; its logs go into the directory.

    Args:
        calls: The inference.
        spec: What to run.
        typical_ns: Latency to expect; LoadGen makes its queries before the clock starts.
        directory: Where the logs go.

    Raises:
        RuntimeUnavailable: LoadGen is not installed.
    """
    library = import_loadgen()
    times = new_times()
    test = library.ConstructSUT(_issuer(library, calls, times), lambda: None)
    count = len(calls.set_inputs)
    samples = library.ConstructQSL(count, count, lambda _: None, lambda _: None)
    try:
        library.StartTestWithLogSettings(
            test, samples, _settings(library, spec, typical_ns), _logs(library, directory), ""
        )
    finally:
        library.DestroyQSL(samples)
        library.DestroySUT(test)
    return times


def _issuer(library: Any, calls: Calls, times: Times) -> Any:
    clock, invoke, read_outputs = perf_counter_ns, calls.invoke, calls.read_outputs
    set_inputs, complete = calls.set_inputs, library.QuerySamplesComplete
    response = library.QuerySampleResponse

    def issue(queries: Sequence[Any]) -> None:
        due = begin = clock()
        for query in queries:
            set_inputs[query.index]()
            ready = clock()
            invoke()
            done = clock()
            read_outputs()
            end = clock()
            complete([response(query.id, 0, 0)])
            times.scheduled_ns.append(due)
            times.start_ns.append(begin)
            times.invoke_start_ns.append(ready)
            times.invoke_end_ns.append(done)
            times.end_ns.append(end)
            times.sample.append(query.index)
            begin = end

    return issue


def _settings(library: Any, spec: RunSpec, typical_ns: int) -> Any:
    made = library.TestSettings()
    made.scenario = getattr(library.TestScenario, _SCENARIOS[spec.scenario])
    made.mode = library.TestMode.PerformanceOnly
    made.min_duration_ms = int(spec.duration_s * 1000)
    made.min_query_count = spec.min_query_count
    # Half the expected latency: a device that is faster than expected runs out of queries.
    made.single_stream_expected_latency_ns = max(1, typical_ns // 2)
    made.multi_stream_samples_per_query = spec.samples_per_query
    made.multi_stream_expected_latency_ns = max(1, typical_ns * spec.samples_per_query // 2)
    made.offline_expected_qps = 1e9 / max(1, typical_ns)
    if spec.scenario is Scenario.OFFLINE:
        # Offline is one query; the least number of samples is given by rate and duration.
        made.offline_expected_qps = max(
            made.offline_expected_qps, spec.min_query_count / max(spec.duration_s, 1e-3)
        )
    if spec.target_qps is not None:
        made.server_target_qps = spec.target_qps
    if spec.target_latency_s is not None:
        made.server_target_latency_ns = int(spec.target_latency_s * 1e9)
    made.server_target_latency_percentile = spec.target_percentile
    for name in ("qsl_rng_seed", "sample_index_rng_seed", "schedule_rng_seed"):
        setattr(made, name, spec.seed & _SEED_MASK)
    return made


def _logs(library: Any, directory: str) -> Any:
    output = library.LogOutputSettings()
    output.outdir = directory
    output.copy_summary_to_stdout = False
    made = library.LogSettings()
    made.log_output = output
    made.enable_trace = False  # on by default, and 655 bytes a query
    return made
