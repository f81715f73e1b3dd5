"""Runs of a model whose duration is known, timed by a clock with a step; up to the verdict."""

from __future__ import annotations

from dataclasses import replace
from enum import Enum

import numpy as np
from numpy.typing import NDArray

from edgebench.host.analysis.latency.queries import Queries
from edgebench.host.analysis.measurement import Traces
from edgebench.host.analysis.run import analyse_run
from edgebench.host.result.verdict import NumberKind, State
from edgebench.protocol.device import ClockDescription
from edgebench.protocol.record import BindingFacts, HarnessFacts
from support.records import CREATED_UTC, answers, run_record, worker_record

STEPS_NS = (1000.0, 1e3 / 3.579545, 100.0, 1e3 / 19.2, 1e3 / 24, 1e3 / 54)
"""µs, ACPI timer, 10 MHz, and the timers of Arm boards."""
MODELS_NS = (300.0, 1_002.0, 3_002.0, 10_756.0, 30_000.0)
"""Two are close to a whole number of steps, so that their durations do not show the step."""
COUNT = 2000
READ_NS = 45.0
LOOP_NS = 60.0
"""Time that the loop adds to an invocation."""


class Interval(Enum):
    """What a run prints of its median."""

    INSIDE = "inside"
    """An interval that contains the true value."""
    OUTSIDE = "outside"
    REFUSED = "refused"
    """No number: the run is invalid."""
    NONE = "no interval"
    """A suspect number without an interval."""


def queries(model_ns: float, step_ns: float, chance: np.random.Generator, noise: float) -> Queries:
    """Inferences by a clock with this step, and the loop's own time between them.

    Args:
        model_ns: Median of the durations.
        step_ns: Step of the clock.
        chance: Source of chance.
        noise: Standard deviation of the logarithms of the durations.
    """
    true_ns = model_ns * np.exp(noise * chance.standard_normal(COUNT))
    ends_ns = np.cumsum(true_ns + chance.uniform(200, 400, COUNT)) + chance.uniform(0, step_ns)

    def read(at_ns: NDArray[np.float64]) -> NDArray[np.int64]:
        steps = np.floor(at_ns / step_ns)
        found: NDArray[np.int64] = 10_000 + np.floor(steps * step_ns).astype(np.int64)
        return found

    begins_ns, read_ns = read(ends_ns - true_ns), read(ends_ns)
    starts_ns = np.concatenate([begins_ns[:1], read_ns[:-1]])
    sample = np.arange(COUNT, dtype=np.int64) % 16
    return Queries(starts_ns, starts_ns, begins_ns, read_ns, read_ns, sample, 0)


def median_of(model_ns: float, step_ns: float, seed: int, noise: float) -> Interval:
    """What a run of this model, with this noise, prints of its median."""
    traced = queries(model_ns, step_ns, np.random.default_rng(seed), noise)
    loop_ns = round(LOOP_NS / step_ns) * step_ns
    worker = replace(
        worker_record(traced.invoke_ns),
        warmup_query_count=0,
        harness=HarnessFacts(round(loop_ns), LOOP_NS, binding=BindingFacts(300, 290)),
    )
    record = run_record(worker)
    described = ClockDescription("simulated", step_ns, READ_NS)
    record = replace(record, environment=replace(record.environment, clock=described))
    run = analyse_run(record, Traces(traced, answers()), created_utc=CREATED_UTC, clock=None)
    latency = run.metrics.latency_ns
    if run.verdict.numbers[NumberKind.MEDIAN.value] is State.INVALID or latency is None:
        return Interval.REFUSED
    if latency.p50_ci95 is None:
        return Interval.NONE
    low_ns, high_ns = latency.p50_ci95
    return Interval.INSIDE if low_ns <= model_ns <= high_ns else Interval.OUTSIDE
