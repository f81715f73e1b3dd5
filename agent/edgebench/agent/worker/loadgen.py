"""MLPerf's LoadGen as the engine that issues the queries; it writes its own logs.

LoadGen decides when a query arrives and when the run ends. LoadGen calls the same prepared
inference as the timed loop, and the times are written to the same trace. LoadGen does not report
when a query was due, so the trace contains the time of the call instead.

LoadGen cannot be stopped, and an exception that passes through it ends the process. Therefore
LoadGen runs in its own thread. After a stop or an error, this thread waits forever at its next
query, so the process must end by `os._exit`.

A process may run only one test, because a second test would write wrong times into the log.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from dataclasses import replace
from threading import Event, Thread
from time import perf_counter_ns
from typing import Any

from edgebench.agent.worker.loop import Calls, Times, new_times
from edgebench.agent.worker.stop import STOP, StopRequested
from edgebench.protocol.errors import RuntimeUnavailable
from edgebench.protocol.spec import RunSpec, samples_per_query

_SEED_MASK = 2**32 - 1
"""Mask for the bits of a 64-bit seed that LoadGen uses: `std::mt19937` takes 32 bits."""
PARK_TIMEOUT_S = 5.0
"""Longest time that the worker waits after a stop until the current inference has ended and
LoadGen's thread has reached the next query. The time is limited, because the next query may arrive
much later."""
_MADE_RATIO = 2.0
"""Number of queries that LoadGen generates before it starts, relative to the number that is
expected in the duration of the run. `limits.LOADGEN_BYTES_PER_QUERY` is the memory of such a query.

Source: mlcommons/inference, loadgen/loadgen.cc, `GenerateQueries`."""


def import_loadgen() -> Any:
    """Import the library.

    Raises:
        RuntimeUnavailable: LoadGen is not installed.
    """
    try:
        return importlib.import_module("mlperf_loadgen")
    except ImportError as exc:
        raise RuntimeUnavailable(
            "LoadGen is not installed on the device: pip install mlcommons-loadgen"
        ) from exc


class _Test:
    """A LoadGen test that runs in its own thread."""

    def __init__(self, calls: Calls) -> None:
        self.times = new_times()
        self.error: BaseException | None = None
        self._calls = calls
        self._is_ended = False
        """Whether no further query may reach the model."""
        self._is_over = Event()
        self._is_parked = Event()

    def run(self, start: Callable[[], None], timeout_s: float | None) -> None:
        """Start LoadGen and wait until it has ended; after a stop, no further query runs.

        Args:
            start: Function that runs the test.
            timeout_s: Time after which no further query runs, even if LoadGen has not finished;
                None: no limit.

        Raises:
            Exception: LoadGen or the model raised it.
        """
        Thread(target=self._run, args=(start,), daemon=True).start()
        is_stopped = False
        try:
            with STOP.armed():
                is_over = self._is_over.wait(timeout_s)
        except StopRequested:
            is_over, is_stopped = False, True
        if not is_over:
            self._is_ended = True
            self._is_parked.wait(PARK_TIMEOUT_S)
            self.times = replace(_whole_rows(self.times), is_interrupted=is_stopped)
        if self.error is not None:
            raise self.error

    def _run(self, start: Callable[[], None]) -> None:
        try:
            start()
        except BaseException as exc:  # raised again in the waiting thread
            self.error = exc
        self._is_parked.set()
        self._is_over.set()

    def issuer(self, library: Any) -> Callable[[Sequence[Any]], None]:
        """The function that LoadGen calls with the samples of a query."""
        calls, times, clock = self._calls, self.times, perf_counter_ns
        invoke, read_outputs, set_inputs = calls.invoke, calls.read_outputs, calls.set_inputs
        complete, response = library.QuerySamplesComplete, library.QuerySampleResponse

        def issue(queries: Sequence[Any]) -> None:
            due = begin = clock()
            for query in queries:
                if self._is_ended:
                    self._park()
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

        def guarded(queries: Sequence[Any]) -> None:
            try:
                issue(queries)
            except BaseException as exc:  # must not pass through LoadGen
                self.error = exc
                self._is_over.set()
                self._park()

        return guarded

    def _park(self) -> None:
        self._is_parked.set()
        Event().wait()


def run_loadgen(calls: Calls, spec: RunSpec, *, typical_ns: int, directory: str) -> Times:
    """Run a test; its logs go into the directory.

    Args:
        calls: The inference.
        spec: What to run.
        typical_ns: Expected latency, which determines how many queries LoadGen generates before it
            starts.
        directory: Directory for the logs.

    Raises:
        RuntimeUnavailable: LoadGen is not installed.
    """
    library = import_loadgen()
    test, count = _Test(calls), len(calls.set_inputs)

    def start() -> None:
        system = library.ConstructSUT(test.issuer(library), lambda: None)
        samples = library.ConstructQSL(count, count, lambda _: None, lambda _: None)
        library.StartTestWithLogSettings(
            system, samples, _settings(library, spec, typical_ns), _logs(library, directory), ""
        )
        library.DestroyQSL(samples)
        library.DestroySUT(system)

    # LoadGen checks its maximum duration between two queries; offline, there is only one query.
    test.run(start, spec.max_duration_s if spec.scenario.traits.is_one_query else None)
    group = samples_per_query(spec)
    return _first_rows(test.times, len(test.times) - len(test.times) % group)


def _whole_rows(times: Times) -> Times:
    """The rows that have a value in every column."""
    columns = (times.scheduled_ns, times.start_ns, times.invoke_start_ns, times.invoke_end_ns)
    return _first_rows(times, min(map(len, (*columns, times.end_ns, times.sample))))


def _first_rows(times: Times, count: int) -> Times:
    return Times(
        times.scheduled_ns[:count],
        times.start_ns[:count],
        times.invoke_start_ns[:count],
        times.invoke_end_ns[:count],
        times.end_ns[:count],
        times.sample[:count],
        times.is_interrupted,
    )


def _settings(library: Any, spec: RunSpec, typical_ns: int) -> Any:
    settings = library.TestSettings()
    settings.scenario = getattr(library.TestScenario, spec.scenario.traits.loadgen_name)
    settings.mode = library.TestMode.PerformanceOnly
    settings.min_duration_ms = int(spec.duration_s * 1000)
    settings.min_query_count = spec.min_query_count
    if spec.max_duration_s is not None and not spec.scenario.traits.is_one_query:
        settings.max_duration_ms = int(spec.max_duration_s * 1000)
    group = samples_per_query(spec)
    most = max(spec.max_query_count // group, spec.min_query_count)
    # Not more queries than the run allows: at 10 µs per query, ten minutes would take 38 GB.
    expected_ns = max(1, typical_ns * group, int(_MADE_RATIO * spec.duration_s * 1e9 / most))
    settings.single_stream_expected_latency_ns = expected_ns
    settings.multi_stream_samples_per_query = spec.samples_per_query
    settings.multi_stream_expected_latency_ns = expected_ns
    if spec.scenario.traits.is_one_query:
        # A single query, with as many samples as rate times duration, plus 10 %.
        fitting = max(1e9 / expected_ns, spec.min_query_count / max(spec.duration_s, 1e-3))
        settings.offline_expected_qps = min(fitting, most / (1.1 * spec.duration_s))
    else:
        settings.max_query_count = most
    if spec.target_qps is not None:
        settings.server_target_qps = spec.target_qps
    if spec.target_latency_s is not None:
        settings.server_target_latency_ns = int(spec.target_latency_s * 1e9)
    settings.server_target_latency_percentile = spec.target_percentile
    for name in ("qsl_rng_seed", "sample_index_rng_seed", "schedule_rng_seed"):
        setattr(settings, name, spec.seed & _SEED_MASK)
    return settings


def _logs(library: Any, directory: str) -> Any:
    output = library.LogOutputSettings()
    output.outdir = directory
    output.copy_summary_to_stdout = False
    settings = library.LogSettings()
    settings.log_output = output
    settings.enable_trace = False  # on by default; it writes 655 bytes per query
    return settings
