"""Sets of runs whose true median is known, by the whole analysis: from latencies to the verdict.

A kind of launches yields the latencies of one launch after another. The true median is that of many
such launches. Further runs replace disturbed runs as `bench` makes them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cache
from itertools import islice

import numpy as np
from numpy.typing import NDArray
from scipy.signal import lfilter

from edgebench.host.analysis.extra_runs import DEFAULT_EXTRA_RUNS, next_extra_run
from edgebench.host.analysis.run import analyse_run
from edgebench.host.analysis.run_set import find_set
from edgebench.host.result.facts import HostFacts, SetMember
from edgebench.host.result.run import Run
from edgebench.host.result.run_set import RunSet
from support.records import CREATED_UTC, moment, run_record, traces_of, worker_record

Floats = NDArray[np.float64]
QUERIES = 1000
"""Queries of each launch."""
LEVEL_NS = 1e6
NOISE = 0.02
"""Standard deviation of the logarithm of a query's latency."""
TRUTH_LAUNCHES = 2000
BUSY_SHARE = 0.5
"""Share of a CPU that other processes take in a disturbed launch."""
QUICK_RUNS = 8


@dataclass(frozen=True, slots=True)
class Launch:
    """A launch."""

    logs: Floats
    """Logarithms of its latencies over the level, shape (queries,)."""
    is_busy: bool = False
    """Whether the load of other processes was recorded."""


Launches = Callable[[np.random.Generator], Iterator[Launch]]


def queries(random: np.random.Generator) -> Floats:
    """Logarithms of latencies with noise and a tail of one in a hundred."""
    logs = NOISE * random.standard_normal(QUERIES)
    return logs + (random.random(QUERIES) < 0.01) * random.exponential(0.5, QUERIES)


def varying(launch: Callable[[np.random.Generator], float]) -> Launches:
    """Launches with independent levels, logarithms."""

    def made(random: np.random.Generator) -> Iterator[Launch]:
        while True:
            yield Launch(launch(random) + queries(random))

    return made


def shaped(shape: Callable[[np.random.Generator], Floats]) -> Launches:
    """Launches whose latencies vary during the run; the logarithms have shape (queries,)."""

    def made(random: np.random.Generator) -> Iterator[Launch]:
        while True:
            yield Launch(0.003 * random.standard_normal() + shape(random) + queries(random))

    return made


def disturbed(share: float, *, is_recorded: bool) -> Launches:
    """Launches of which a share is slowed by 40 % by a neighbour, independently."""

    def made(random: np.random.Generator) -> Iterator[Launch]:
        while True:
            is_busy = bool(random.random() < share)
            logs = 0.003 * random.standard_normal() + np.log(1.4) * is_busy + queries(random)
            yield Launch(logs, is_busy and is_recorded)

    return made


def state(phi: float, sd: float) -> Launches:
    """Launches on a machine whose state is correlated from launch to launch."""

    def made(random: np.random.Generator) -> Iterator[Launch]:
        level = sd * random.standard_normal()
        while True:
            yield Launch(level + queries(random))
            level = phi * level + sd * (1 - phi**2) ** 0.5 * random.standard_normal()

    return made


def warming(change: float) -> Launches:
    """Launches that become slower in the order of a quick set, and stay there."""

    def made(random: np.random.Generator) -> Iterator[Launch]:
        number = 0
        while True:
            part = min(number / (QUICK_RUNS - 1), 1.0)
            yield Launch(change * part + 0.003 * random.standard_normal() + queries(random))
            number += 1

    return made


def correlated(phi: float, sd: float) -> Callable[[np.random.Generator], Floats]:
    """An autoregressive process during the run."""

    def drawn(random: np.random.Generator) -> Floats:
        noise = random.standard_normal(QUERIES) * sd * (1 - phi**2) ** 0.5
        noise[0] /= (1 - phi**2) ** 0.5
        series: Floats = np.asarray(lfilter([1.0], [1.0, -phi], noise))
        return series

    return drawn


def levels(ratio: float, dwell: int, share: float = 0.2) -> Callable[[np.random.Generator], Floats]:
    """Two levels during the run; the slower one has this share and lasts `dwell` queries."""

    def drawn(random: np.random.Generator) -> Floats:
        is_slow, stay = np.empty(QUERIES), {True: dwell, False: dwell * (1 - share) / share}
        done, now = 0, bool(random.random() < share)
        while done < QUERIES:
            length = int(random.geometric(1 / stay[now]))
            is_slow[done : done + length] = now
            done, now = done + length, not now
        logs: Floats = np.log(ratio) * is_slow
        return logs

    return drawn


def walk(random: np.random.Generator) -> Floats:
    """A random walk that reaches 5 % at the end of the run."""
    steps: Floats = np.cumsum(random.standard_normal(QUERIES)) * 0.05 / QUERIES**0.5
    return steps


PLACES = np.linspace(0.0, 1.0, QUERIES)
KINDS: dict[str, Launches] = {
    "quiet, tails, sd 0.3 %": varying(lambda random: 0.003 * random.standard_normal()),
    "disturbed by 40 %, 5 %": disturbed(0.05, is_recorded=True),
    "disturbed by 40 %, 10 %": disturbed(0.1, is_recorded=True),
    "disturbed by 40 %, 10 %, unrecorded": disturbed(0.1, is_recorded=False),
    "drift 2 % linear": shaped(lambda _: 0.02 * PLACES),
    "drift 4 % linear": shaped(lambda _: 0.04 * PLACES),
    "drift 4 % step": shaped(lambda _: 0.04 * (PLACES > 0.5)),
    "drift 4 % late": shaped(lambda _: 0.04 * np.maximum(0.0, PLACES - 0.7) / 0.3),
    "drift 8 % linear": shaped(lambda _: 0.08 * PLACES),
    "normal, sd 2 %": varying(lambda random: 0.02 * random.standard_normal()),
    "normal, sd 5 %": varying(lambda random: 0.05 * random.standard_normal()),
    "normal, sd 10 %": varying(lambda random: 0.10 * random.standard_normal()),
    "80/20, +10 %": varying(
        lambda random: 0.003 * random.standard_normal() + np.log(1.1) * (random.random() < 0.2)
    ),
    "80/20, +20 %": varying(
        lambda random: 0.003 * random.standard_normal() + np.log(1.2) * (random.random() < 0.2)
    ),
    "50/50, +8 %": varying(
        lambda random: 0.003 * random.standard_normal() + np.log(1.08) * (random.random() < 0.5)
    ),
    "AR 0.9 from query to query": shaped(correlated(0.9, 0.05)),
    "AR 0.99 from query to query": shaped(correlated(0.99, 0.05)),
    "levels ×1.2, dwell 300": shaped(levels(1.2, 300)),
    "levels ×2, dwell 300": shaped(levels(2.0, 300)),
    "levels ×1.06, dwell 2000": shaped(levels(1.06, 2000)),
    "random walk of 5 % in each run": shaped(walk),
    "warms up over the runs by 4 %": warming(0.04),
    "warms up over the runs by 10 %": warming(0.10),
    "state of the machine, AR 0.95, sd 5 %": state(0.95, 0.05),
}
"""Launches by name. Source: table 1 of the findings of 2026-11-27."""


@cache
def true_median_ns(name: str) -> float:
    """Median over many launches of a kind."""
    random = np.random.default_rng([1, *name.encode()])
    launches = islice(KINDS[name](random), TRUTH_LAUNCHES)
    return LEVEL_NS * float(np.exp(np.median([np.median(one.logs) for one in launches])))


def simulated_set(name: str, seed: int, *, extra_runs: int = DEFAULT_EXTRA_RUNS) -> RunSet:
    """Return a quick set of launches of a kind, with its further runs."""
    launches = KINDS[name](np.random.default_rng([seed, *name.encode()]))
    members = (SetMember("set-00000001", number, QUICK_RUNS) for number in range(QUICK_RUNS))
    runs = [_analysed(next(launches), member, number) for number, member in enumerate(members)]
    for _ in range(extra_runs):
        if (member := next_extra_run(runs)) is None:
            break
        runs.append(_analysed(next(launches), member, len(runs)))
    return find_set(runs)


def holds(found: RunSet, truth_ns: float) -> bool:
    """Whether the interval of the median contains the true value."""
    interval = found.metrics["latency_ns.p50"].ci95
    assert interval is not None
    return interval[0] <= truth_ns <= interval[1]


def _analysed(launch: Launch, member: SetMember, number: int) -> Run:
    latency_ns = (LEVEL_NS * np.exp(launch.logs)).astype(np.int64)
    worker = worker_record(latency_ns)
    if launch.is_busy:
        span_ns = worker.after.monotonic_ns - worker.before.monotonic_ns
        quiet_s = worker.after.cpu_busy_s
        assert quiet_s is not None
        busy_s = quiet_s + BUSY_SHARE * span_ns / 1e9
        worker = replace(worker, after=moment(span_ns, cpu_busy_s=busy_s))
    record = run_record(worker, run_id=f"20260102-030405-{number:08d}")
    traces = replace(traces_of(latency_ns), facts=HostFacts(member=member))
    return analyse_run(record, traces, created_utc=CREATED_UTC, clock=None)
