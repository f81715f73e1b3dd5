"""Comparison of the timed calls with those of the checks, on models made for it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, cast

import numpy as np
import pytest
from numpy.typing import NDArray

from edgebench.agent.worker.loop import Calls
from edgebench.agent.worker.timed_path import (
    BUDGET_S,
    FEWEST_STEPS,
    LIMIT_S,
    MOST_STEPS,
    SAME_RATIO,
    SEQUENCES,
    check_timed_path,
)
from edgebench.protocol.record import TimedPathFacts, TimedPathFault
from edgebench.protocol.runtime import LoadedModel

Tensor = NDArray[Any]
Compute = Callable[[Tensor, list[Tensor]], Tensor]
"""Output for an input, and all earlier inputs since the last reset."""
SAMPLES = [[np.arange(4, dtype=np.float32) * number + number**2] for number in range(16)]


class FakeModel:
    """A model that computes what a test gives it; its calls are right."""

    def __init__(self, compute: Compute, *, has_reset: bool = True) -> None:
        self._compute, self._has_reset = compute, has_reset
        self._history: list[Tensor] = []
        self._input = self._output = np.zeros(4, np.float32)
        self.run_count = 0

    def set_inputs(self, values: Sequence[Tensor]) -> None:
        self._input = values[0]

    def prepare(self, samples: Sequence[Sequence[Tensor]]) -> list[Callable[[], Any]]:
        return [partial(self.set_inputs, sample) for sample in samples]

    def invoker(self) -> Callable[[], Any]:
        return self._run

    def _run(self) -> None:
        self.run_count += 1
        self._output = self._compute(self._input, self._history)
        self._history.append(self._input)

    def reader(self) -> Callable[[], Any]:
        return lambda: self._output.copy()

    def read_outputs(self) -> list[Tensor]:
        return [self._output.copy()]

    def reset(self) -> None:
        if self._has_reset:
            self._history.clear()


def compared(
    model: FakeModel, sample_count: int = 16, *, query_ns: int = 1000, calls: Calls | None = None
) -> TimedPathFacts:
    """The comparison after a loop that ended with the fourth sample, or the only one."""
    samples, last = SAMPLES[:sample_count], min(3, sample_count - 1)
    calls = calls or Calls(model.prepare(samples), model.invoker(), model.reader())
    for number in (0, last):
        calls.set_inputs[number]()
        calls.invoke()
    return check_timed_path(
        cast(LoadedModel, model), calls, samples, last_sample=last, query_ns=query_ns
    )


def double(value: Tensor, _: list[Tensor]) -> Tensor:
    """Twice the input."""
    return value * 2


def total(value: Tensor, history: list[Tensor]) -> Tensor:
    """The sum of all inputs since the reset."""
    return sum(history, value)


def constant(_value: Tensor, _: list[Tensor]) -> Tensor:
    """The same for every input."""
    return np.ones(4, np.float32)


def drawn() -> Compute:
    """Random numbers."""
    random = np.random.default_rng(1)
    return lambda value, _: value + random.normal(size=4).astype(np.float32) * 100


def drawn_class(seed: int) -> Compute:
    """One of two classes, at random."""
    random = np.random.default_rng(seed)
    return lambda *_: random.integers(0, 2, 1)


def in_a_varying_order(ratio: float) -> Compute:
    """Twice the input, with an error of this size relative to the spread of the outputs."""
    random = np.random.default_rng(1)
    spread = float(np.std([2 * sample[0] for sample in SAMPLES[:MOST_STEPS]]))
    return lambda value, _: value * 2 + (ratio * spread * random.choice([-1, 1], 4)).astype("f4")


def test_good_models_with_and_without_a_state_are_compared() -> None:
    """What the loop left is compared only without a state: a state depends on the whole loop."""
    assert compared(FakeModel(double)) == TimedPathFacts(MOST_STEPS + 1)
    assert compared(FakeModel(total)) == TimedPathFacts(MOST_STEPS)


@pytest.mark.parametrize("sample_count", [2, 3, 5, 16])
def test_every_second_inference_skipped_is_found_with_few_samples(sample_count: int) -> None:
    """Otherwise a run with two samples would hide it, whichever inferences are skipped."""
    for first in (0, 1):
        model, count = FakeModel(double), first

        def invoke(model: FakeModel = model) -> None:
            nonlocal count
            count += 1
            if count % 2:
                model.invoker()()

        calls = Calls(model.prepare(SAMPLES[:sample_count]), invoke, model.reader())
        found = compared(model, sample_count, calls=calls)
        assert found.fault is TimedPathFault.OTHER_SAMPLE, found


@pytest.mark.parametrize(
    ("model", "sample_count", "why"),
    [
        (FakeModel(drawn()), 16, "repeated inferences have different outputs"),
        (FakeModel(total, has_reset=False), 16, "repeated inferences have different outputs"),
        (FakeModel(constant), 16, "8 samples have equal outputs"),
        (FakeModel(double), 1, "the run has a single sample"),
    ],
)
def test_undecided_comparison_states_why(model: FakeModel, sample_count: int, why: str) -> None:
    """Otherwise a good model would be refused, or a fault pass that cannot be seen."""
    found = compared(model, sample_count)
    assert (found.fault, found.inference_count) == (None, 0)
    assert (found.reason or "").startswith(why)
    assert found.is_repeatable != why.startswith("repeated")


def test_model_that_draws_one_of_two_classes_is_not_accused() -> None:
    """Its outputs are always those of some other sample, by chance."""
    found = [compared(FakeModel(drawn_class(seed))).fault for seed in range(50)]
    assert found == [None] * 50


def test_equal_outputs_may_differ_by_a_small_part_of_their_spread() -> None:
    """Otherwise kernels that add in a varying order would be called random."""
    assert SAME_RATIO == 0.05
    assert compared(FakeModel(in_a_varying_order(1e-3))).inference_count == MOST_STEPS + 1
    assert compared(FakeModel(in_a_varying_order(0.2))).inference_count == 0


def test_time_of_the_comparison_is_bounded() -> None:
    """A slow model has fewer samples compared, and a very slow one none."""
    assert (BUDGET_S, LIMIT_S, FEWEST_STEPS, SEQUENCES) == (0.3, 60.0, 2, 3)
    slow = FakeModel(double)
    assert compared(slow, query_ns=9_000_000_000) == TimedPathFacts(FEWEST_STEPS + 1)
    assert slow.run_count == 2 + SEQUENCES * FEWEST_STEPS + 1
    found = compared(FakeModel(double), query_ns=11_000_000_000)
    assert found.reason == "the comparison would take at least 66 s, limit 60 s"


def test_error_of_the_driver_is_a_reason() -> None:
    """Otherwise the worker would end, and the other checks be lost."""

    def fail(_value: Tensor, history: list[Tensor]) -> Tensor:
        raise RuntimeError("device lost\n  at line 3")

    model = FakeModel(double)
    calls = Calls(model.prepare(SAMPLES), model.invoker(), model.reader())
    calls.invoke()
    model._compute = fail
    found = check_timed_path(cast(LoadedModel, model), calls, SAMPLES, last_sample=0, query_ns=1000)
    assert (found.reason or "").startswith("RuntimeError: device lost")


@pytest.mark.parametrize("form", [list, tuple, lambda outputs: {"out": outputs[0]}])
def test_reader_may_return_outputs_in_its_own_form(form: Callable[[list[Tensor]], Any]) -> None:
    """Otherwise a good driver would be refused for the form of what its reader returns."""
    model = FakeModel(double)
    calls = Calls(model.prepare(SAMPLES), model.invoker(), lambda: form(model.read_outputs()))
    assert compared(model, calls=calls) == TimedPathFacts(MOST_STEPS + 1)


def test_reader_that_returns_nothing_leaves_the_comparison_undecided() -> None:
    """Otherwise a driver that copies the outputs elsewhere would be called faulty."""
    model = FakeModel(double)
    calls = Calls(model.prepare(SAMPLES), model.invoker(), lambda: None)
    assert compared(model, calls=calls).reason == "TypeError: the reader returns no outputs"
