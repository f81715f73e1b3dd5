"""How queries are issued: one function a scenario, chosen by the run specification."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from edgebench.agent.worker.loop import Times, run_single_stream
from edgebench.protocol.spec import RunSpec, Scenario

NS_PER_S = 1_000_000_000

Issue = Callable[[Callable[[], Any], RunSpec], Times]
"""Runs a scenario on a callable that does one inference."""


def run_scenario(invoke: Callable[[], Any], spec: RunSpec) -> Times:
    """Run the specified scenario."""
    return _SCENARIOS[spec.scenario](invoke, spec)


def run_warmup(invoke: Callable[[], Any], spec: RunSpec) -> Times:
    """Run the queries that come before: same loop, same records."""
    return run_single_stream(
        invoke,
        duration_ns=int(spec.warmup_duration_s * NS_PER_S),
        min_count=spec.warmup_query_count,
        max_count=spec.max_query_count,
    )


def _single_stream(invoke: Callable[[], Any], spec: RunSpec) -> Times:
    return run_single_stream(
        invoke,
        duration_ns=int(spec.duration_s * NS_PER_S),
        min_count=spec.min_query_count,
        max_count=spec.max_query_count,
    )


_SCENARIOS: dict[Scenario, Issue] = {Scenario.SINGLE_STREAM: _single_stream}
