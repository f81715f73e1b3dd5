"""The timed calls of each driver compute what those of the checks do; planted faults are found."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from support.digits import PACKAGES, Case, imported
from support.faulty_drivers import BASES, FAULTS
from support.tools import need_runtime

from edgebench.agent.worker.inputs import make_samples
from edgebench.agent.worker.loop import Calls, run_closed
from edgebench.agent.worker.timed_path import check_timed_path
from edgebench.protocol.record import TimedPathFacts, TimedPathFault
from edgebench.protocol.runtime import LoadedModel

COUNT = 16
EXPECTED = {
    "zeros": TimedPathFault.VALUES,
    "previous": TimedPathFault.OTHER_SAMPLE,
    "skipped": TimedPathFault.OTHER_SAMPLE,
    "all-skipped": TimedPathFault.OTHER_SAMPLE,
    "stale": TimedPathFault.OTHER_SAMPLE,
    "shape": TimedPathFault.FORM,
}


def after_a_loop(
    model: LoadedModel, *, sample_count: int = COUNT, inference_count: int = 7
) -> TimedPathFacts:
    """The comparison after a timed loop of this model, as in a worker."""
    samples = make_samples(model.inputs, count=sample_count, seed=1, memory_bytes=2**30)
    model.set_inputs(samples[0])
    model.invoker()()
    calls = Calls(model.prepare(samples), model.invoker(), model.reader())
    order = np.random.default_rng(1).integers(0, len(samples), inference_count).tolist()
    times = run_closed(
        calls, order, duration_ns=0, min_count=inference_count, max_count=inference_count
    )
    return check_timed_path(model, calls, samples, last_sample=times.sample[-1], query_ns=1000)


def test_good_driver_is_not_accused(case: Case, model: LoadedModel) -> None:
    """Otherwise every ordinary run would be refused."""
    assert after_a_loop(model) == TimedPathFacts(9)


@pytest.mark.parametrize("inference_count", [7, 8])
@pytest.mark.parametrize("fault", list(FAULTS))
@pytest.mark.parametrize("base", list(BASES))
def test_planted_fault_is_found(base: str, fault: str, inference_count: int) -> None:
    """Otherwise the time of something else would be stored as the model's latency.

    The loop has an odd and an even number of inferences: a skipped inference may be the last.
    """
    need_runtime(PACKAGES[base])
    (suffix,) = imported(base).formats
    case = Case(base, {"file": f"digits_fp32.{suffix}"})
    model: Any = FAULTS[fault](case.load())
    found = after_a_loop(model, inference_count=inference_count)
    assert found.fault is EXPECTED[fault], found
    assert found.differing_count > 0
