"""Whether the calls of the timed loop compute the same outputs as the calls of the checks.

Theory of operation. The loop calls the functions that `prepare`, `invoker` and `reader` return. The
checks of the outputs call `set_inputs`, a new `invoker` and `read_outputs`. A driver whose timed
calls copy no inputs, skip inferences or read old outputs would appear fast, and would still pass
every check of the outputs. So after the loop, both kinds of calls run the same samples on the same
loaded model. The last of these samples is the sample with which the loop ended. Except for
`carried`, the model is reset before each inference:

    held       outputs after the loop, by its `reader`
    timed      s1 s2 … last    by the calls of the loop
    checked    s1 s2 … last    by the calls of the checks
    again      last … s2 s1    by the calls of the checks
    carried    last            by the calls of the checks, without a reset

`timed` must equal `checked`. If `carried` equals the last outputs in `checked`, the model has no
state, and `held` must also equal these outputs.

If a driver skips every second inference in its timed calls, every second step of `timed` is wrong.
If a driver skips every second inference in all its calls, `timed` and `checked` are wrong at the
same steps. `again` is wrong at the other steps, because the number of samples is even. In this
case, `checked` and `again` differ, and contain outputs of other samples. For a model that draws
random numbers, `checked` and `again` differ too, but do not contain outputs of other samples.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from edgebench.agent.runtimes.onnx_values import as_tensor
from edgebench.agent.runtimes.text import library_line
from edgebench.agent.worker.checks import MAX_OUTPUT_BYTES, infer
from edgebench.agent.worker.loop import Calls
from edgebench.protocol.record import TimedPathFacts, TimedPathFault
from edgebench.protocol.runtime import LoadedModel

if TYPE_CHECKING:
    from edgebench.protocol.runtime import Tensor

MOST_STEPS, FEWEST_STEPS = 8, 2
"""Largest and least number of samples that are compared; both are even, because `again` detects
skipped inferences only for an even number. A run with a single sample compares only that sample."""
SEQUENCES = 3
"""Number of inferences on each sample: one in each of `timed`, `checked` and `again`."""
BUDGET_S = 0.3
"""Limit on the expected time of all inferences; for slower models, fewer samples are compared. The
time is short because each of the eight runs of a quick set makes the comparison."""
LIMIT_S = 60.0
"""A model is not compared if even the least number of samples is expected to take longer than this
limit."""
SAME_RATIO = 0.05
"""Two outputs count as equal if this quotient is at most `SAME_RATIO`: their RMS difference,
divided by the RMS deviation of all samples' outputs from their mean.

The outputs of the built-in runtimes are equal to the last bit. Kernels that add in a varying order,
as on GPUs, change values by a relative error of about 1e-6. For outputs of two different samples,
the quotient is about 1.4, the square root of 2."""


@dataclass(frozen=True, slots=True)
class PathOutputs:
    """Outputs of both kinds of calls; for each inference, a list of tensors.

    `timed`, `checked` and `again` have an item per sample, in the order of the samples.
    """

    held: list[Tensor]
    timed: list[list[Tensor]]
    checked: list[list[Tensor]]
    again: list[list[Tensor]]
    carried: list[Tensor]


def check_timed_path(
    model: LoadedModel,
    calls: Calls,
    samples: Sequence[Sequence[Tensor]],
    *,
    last_sample: int,
    query_ns: int,
) -> TimedPathFacts:
    """Compare the timed calls with the calls of the checks; an error is returned, not raised.

    Args:
        model: The measured model, which must not have run since the timed loop.
        calls: The calls of the timed loop.
        samples: The samples for which the calls were prepared; each has a tensor per input.
        last_sample: Index of the last sample of the timed loop.
        query_ns: Typical latency.
    """
    fewest_s = FEWEST_STEPS * SEQUENCES * query_ns / 1e9
    if fewest_s > LIMIT_S:
        text = f"the comparison would take at least {fewest_s:.0f} s, limit {LIMIT_S:.0f} s"
        return TimedPathFacts(reason=text)
    try:
        held = copied(calls.read_outputs())
        size_bytes = max(1, sum(tensor.nbytes for tensor in held))
        fitting = min(
            MOST_STEPS,
            len(samples),
            int(BUDGET_S * 1e9 / (SEQUENCES * max(1, query_ns))),
            MAX_OUTPUT_BYTES // (SEQUENCES * size_bytes),
        )
        count = max(fitting - fitting % 2, min(FEWEST_STEPS, len(samples)))
        order = [(last_sample + 1 + step) % len(samples) for step in range(count - 1)]
        return compare(_run(model, calls, samples, [*order, last_sample], held))
    except Exception as exc:  # libraries raise many types
        return TimedPathFacts(reason=f"{type(exc).__name__}: {library_line(exc)}")


def _run(
    model: LoadedModel,
    calls: Calls,
    samples: Sequence[Sequence[Tensor]],
    order: Sequence[int],
    held: list[Tensor],
) -> PathOutputs:
    timed: list[list[Tensor]] = []
    for number in order:
        model.reset()
        calls.set_inputs[number]()
        calls.invoke()
        timed.append(copied(calls.read_outputs()))
    checked = [infer(model, samples[number]) for number in order]
    again = [infer(model, samples[number]) for number in reversed(order)]
    model.set_inputs(samples[order[-1]])
    model.invoker()()
    return PathOutputs(held, timed, checked, again[::-1], model.read_outputs())


def copied(values: Any) -> list[Tensor]:
    """Copy the outputs that a `reader` returned: a single output, or a list, tuple or dict.

    Raises:
        TypeError: the reader returned None.
    """
    if values is None:
        raise TypeError("the reader returns no outputs")
    parts: list[Any] = [values]
    if isinstance(values, (list, tuple)):
        parts = list(values)
    elif isinstance(values, dict):
        parts = list(values.values())
    # A tensor without dimensions is a number of numpy.
    return [np.array(part if isinstance(part, np.generic) else as_tensor(part)) for part in parts]


def compare(outputs: PathOutputs) -> TimedPathFacts:
    """Compare the outputs of both kinds of calls."""
    timed, checked, again = outputs.timed, outputs.checked, outputs.again
    is_same = OutputComparison(checked)
    count = len(checked)
    pairs = list(zip(timed, checked, strict=True))
    if is_same(outputs.carried, checked[-1]):
        pairs.append((outputs.held, checked[-1]))
    differing = [tensors for tensors, other in pairs if not is_same(tensors, other)]
    if any(_forms(tensors) != _forms(other) for tensors, other in pairs):
        return TimedPathFacts(len(pairs), len(differing), TimedPathFault.FORM)
    unequal = [step for step in range(count) if not is_same(checked[step], again[step])]
    if unequal and _are_of_other_samples(checked, again, unequal, is_same):
        return TimedPathFacts(len(pairs), len(unequal), TimedPathFault.OTHER_SAMPLE)
    if unequal:
        text = "repeated inferences have different outputs: the model draws random numbers, or has "
        reason = f"{text}a state that the runtime's driver does not reset"
        return TimedPathFacts(reason=reason, is_repeatable=False)
    if differing:
        # `held` may have the outputs of a sample that was not compared.
        known = [tensors for tensors in differing if any(is_same(tensors, o) for o in checked)]
        is_other = 2 * len(known) >= len(differing)
        fault = TimedPathFault.OTHER_SAMPLE if is_other else TimedPathFault.VALUES
        return TimedPathFacts(len(pairs), len(differing), fault)
    # A skipped inference leaves the outputs of the previous step; before the first step, the last
    # sample ran.
    visible = {step % 2 for step in range(count) if not is_same(checked[step - 1], checked[step])}
    if len(visible) < FEWEST_STEPS:
        what = (
            "the run has a single sample" if count == 1 else f"{count} samples have equal outputs"
        )
        return TimedPathFacts(reason=f"{what}, so a skipped inference would go undetected")
    return TimedPathFacts(len(pairs))


def _are_of_other_samples(
    checked: Sequence[list[Tensor]],
    again: Sequence[list[Tensor]],
    unequal: Sequence[int],
    is_same: OutputComparison,
) -> bool:
    """Whether the outputs that differ between repetitions are equal to outputs of other samples.

    If there are few distinct outputs, as for a model that draws a class at random, equality is no
    evidence, and the result is False.
    """
    count = len(checked)
    everything = [*checked, *again]
    distinct: list[list[Tensor]] = []
    for tensors in everything:
        if not any(is_same(tensors, other) for other in distinct):
            distinct.append(tensors)

    def occurs_elsewhere(tensors: list[Tensor], step: int) -> bool:
        return any(
            is_same(tensors, other)
            for place, other in enumerate(everything)
            if place % count != step
        )

    return len(distinct) >= count / 2 and all(
        occurs_elsewhere(checked[step], step) or occurs_elsewhere(again[step], step)
        for step in unequal
    )


class OutputComparison:
    """Equality of outputs, with a tolerance relative to the differences between samples."""

    def __init__(self, outputs: Sequence[list[Tensor]]) -> None:
        """Compute the tolerance for each output of the model from the outputs of all samples."""
        self._limits = [
            SAME_RATIO * _deviation(tensors)
            if len({tensor.shape for tensor in tensors}) == 1 and tensors[0].dtype.kind in "biuf"
            else 0.0
            for tensors in zip(*outputs, strict=False)
        ]

    def __call__(self, some: list[Tensor], other: list[Tensor]) -> bool:
        """Whether two inferences have the same outputs."""
        return _forms(some) == _forms(other) and all(map(self._is_near, some, other, self._limits))

    @staticmethod
    def _is_near(some: Tensor, other: Tensor, limit: float) -> bool:
        if np.array_equal(some, other, equal_nan=some.dtype.kind in "fc"):
            return True
        return limit > 0 and _rms(some.astype(np.float64) - other.astype(np.float64)) <= limit


def _forms(tensors: Sequence[Tensor]) -> list[tuple[tuple[int, ...], str]]:
    return [(tensor.shape, tensor.dtype.str) for tensor in tensors]


def _deviation(tensors: Sequence[Tensor]) -> float:
    values = np.stack(tensors).astype(np.float64)
    return _rms(values - values.mean(axis=0))


def _rms(values: Tensor) -> float:
    return float(np.sqrt(np.mean(np.square(values.astype(np.float64))))) if values.size else 0.0
