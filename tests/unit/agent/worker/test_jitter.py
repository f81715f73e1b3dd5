"""Random gaps of the timed loop, for a meter of few instants."""

from __future__ import annotations

import pytest

from edgebench.agent.worker.jitter import jitter_for
from edgebench.protocol.errors import UsageError
from edgebench.protocol.spec import Engine, RunSpec, Scenario

MS = 10**6


@pytest.mark.parametrize(
    ("jitter_s", "inference_ns", "every_ns"),
    [
        (1e-3, 30_000, 50 * MS),  # 1 % of the time
        (1e-3, 10 * MS, 200 * MS),  # 20 inferences between two gaps
        (0.25e-3, 30_000, 12_500_000),
    ],
)
def test_gaps_are_rare(jitter_s: float, inference_ns: int, every_ns: int) -> None:
    """Otherwise gaps would take a part of the run, or many inferences find a cold cache."""
    pauses = jitter_for(RunSpec("litert", jitter_s=jitter_s), "a run", inference_ns)
    assert pauses is not None
    assert (pauses.every_ns, pauses.length_ns) == (every_ns, round(jitter_s * 1e9))


def test_gaps_follow_from_the_run() -> None:
    """Otherwise all runs of a set would have the same gaps."""
    spec = RunSpec("litert", jitter_s=1e-3)
    drawn = []
    for run_id in ("one", "one", "other"):
        pauses = jitter_for(spec, run_id, 1000)
        assert pauses is not None
        drawn.append([pauses.next_ns() for _ in range(5)])
    assert drawn[0] == drawn[1] != drawn[2]


@pytest.mark.parametrize("jitter_s", [None, 0.0])
def test_run_without_jitter_has_no_gaps(jitter_s: float | None) -> None:
    """Otherwise gaps could not be switched off."""
    assert jitter_for(RunSpec("litert", jitter_s=jitter_s), "a run", 1000) is None


@pytest.mark.parametrize(
    ("scenario", "engine"),
    [
        (Scenario.OFFLINE, Engine.NATIVE),
        (Scenario.MULTI_STREAM, Engine.NATIVE),
        (Scenario.SINGLE_STREAM, Engine.LOADGEN),
    ],
)
def test_gaps_that_would_change_a_result_are_refused(scenario: Scenario, engine: Engine) -> None:
    """Otherwise the rules by which queries arrive would be broken."""
    with pytest.raises(UsageError, match="leave out --jitter"):
        RunSpec("litert", scenario=scenario, engine=engine, jitter_s=1e-3)
    RunSpec("litert", scenario=scenario, engine=engine, jitter_s=0.0)
