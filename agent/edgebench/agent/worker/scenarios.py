"""How queries are issued: a function per scenario, chosen by the run specification."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from edgebench.agent.worker.loop import NO_LIMIT_NS, Calls, Pauses, Times, run_closed, run_scheduled
from edgebench.protocol.errors import UsageError
from edgebench.protocol.spec import MAX_ARRIVALS, RunSpec, Scenario

NS_PER_S = 1_000_000_000
ORDER_LENGTH = 65536
"""Length of the sample order before it repeats; a multiple of 8, the default number of samples in a
multi-stream query."""

Issue = Callable[[Calls, RunSpec, Sequence[Pauses]], Times]
"""Function that runs a scenario on a prepared inference."""


def run_scenario(calls: Calls, spec: RunSpec, pauses: Sequence[Pauses] = ()) -> Times:
    """Run the scenario of the specification; the server scenario ignores `pauses`."""
    return _SCENARIOS[spec.scenario](calls, spec, pauses)


def run_warmup(calls: Calls, spec: RunSpec, pauses: Sequence[Pauses] = ()) -> Times:
    """Run the warm-up, with the loop and the trace of the single-stream scenario."""
    return run_closed(
        calls,
        sample_order(spec, len(calls.set_inputs)),
        duration_ns=int(spec.warmup_duration_s * NS_PER_S),
        min_count=spec.warmup_query_count,
        max_count=spec.max_query_count,
        pauses=pauses,
    )


def sample_order(spec: RunSpec, sample_count: int) -> list[int]:
    """Order of the samples, drawn uniformly with replacement; equal seeds give equal orders.

    Source: MLPerf draws the samples of a performance run with replacement; mlcommons/inference,
    loadgen/loadgen.cc.
    """
    random = np.random.default_rng([spec.seed, 1])
    order: list[int] = random.integers(0, sample_count, ORDER_LENGTH).tolist()
    return order


def arrivals(spec: RunSpec) -> list[int]:
    """Arrivals of a Poisson process, nanoseconds after the start; determined by the seed.

    The list is long enough for both the duration and the least number of queries, but has at most
    the maximum number of queries. Apart from the first arrival, no arrival is after the maximum
    duration.

    Raises:
        UsageError: the run has no rate of arrivals.
    """
    if spec.target_qps is None:
        raise UsageError("the server scenario requires a rate, in queries per second")
    limit = min(spec.max_query_count, MAX_ARRIVALS)
    random = np.random.default_rng([spec.seed, 2])
    gap_ns = NS_PER_S / spec.target_qps
    moments = np.zeros(0)
    last = 0.0
    while len(moments) < spec.min_query_count or last < spec.duration_s * NS_PER_S:
        more = last + np.cumsum(random.exponential(gap_ns, ORDER_LENGTH))
        moments = np.concatenate([moments, more])
        last = float(moments[-1])
    in_time = int(np.searchsorted(moments, spec.duration_s * NS_PER_S)) + 1
    count = min(max(in_time, spec.min_query_count), limit)
    if spec.max_duration_s is not None:
        in_limit = int(np.searchsorted(moments, spec.max_duration_s * NS_PER_S))
        count = min(count, max(1, in_limit))
    return [int(moment) for moment in moments[:count]]


def _closed(
    calls: Calls, spec: RunSpec, pauses: Sequence[Pauses], *, group: int, is_one_query: bool = False
) -> Times:
    return run_closed(
        calls,
        sample_order(spec, len(calls.set_inputs)),
        duration_ns=int(spec.duration_s * NS_PER_S),
        min_count=spec.min_query_count * group,
        max_count=spec.max_query_count,
        max_duration_ns=_max_duration_ns(spec),
        group=group,
        is_one_query=is_one_query,
        pauses=pauses,
    )


def _single_stream(calls: Calls, spec: RunSpec, pauses: Sequence[Pauses]) -> Times:
    return _closed(calls, spec, pauses, group=1)


def _multi_stream(calls: Calls, spec: RunSpec, pauses: Sequence[Pauses]) -> Times:
    return _closed(calls, spec, pauses, group=spec.samples_per_query)


def _offline(calls: Calls, spec: RunSpec, pauses: Sequence[Pauses]) -> Times:
    return _closed(calls, spec, pauses, group=1, is_one_query=True)


def _server(calls: Calls, spec: RunSpec, _: Sequence[Pauses]) -> Times:
    return run_scheduled(
        calls,
        sample_order(spec, len(calls.set_inputs)),
        arrivals(spec),
        max_duration_ns=_max_duration_ns(spec),
    )


def _max_duration_ns(spec: RunSpec) -> int:
    return NO_LIMIT_NS if spec.max_duration_s is None else int(spec.max_duration_s * NS_PER_S)


_SCENARIOS: dict[Scenario, Issue] = {
    Scenario.SINGLE_STREAM: _single_stream,
    Scenario.MULTI_STREAM: _multi_stream,
    Scenario.SERVER: _server,
    Scenario.OFFLINE: _offline,
}
