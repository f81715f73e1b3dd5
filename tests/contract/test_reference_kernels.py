"""The guarantee of a load with `is_reference`: the outputs that all others are compared with."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from support.digits import Case, images

from edgebench.protocol.runtime import LoadOptions

REFERENCE = LoadOptions(threads=2, delegate="xnnpack", is_reference=True)
"""The threads and the delegate must not count."""
MOST_STEPS = 2
"""By how many steps of its scale an int8 answer may differ; 1 was seen."""
MOST_FLOAT_DIFFERENCE = 1e-4
"""In logits, which reach from -10 to 15; 3e-6 was seen."""


def answers(case: Case, options: LoadOptions) -> NDArray[np.float64]:
    """The output for each held-out digit, shape (360, 10)."""
    loaded = case.load(options)
    invoke = loaded.invoker()
    found = []
    for setter in loaded.prepare([[image] for image in images(case.entry)[0]]):
        setter()
        invoke()
        found.append(loaded.read_outputs()[0][0].astype(np.float64))
    loaded.close()
    return np.array(found)


def test_reference_kernels_recognize_as_many_digits_as_the_manifest_says(case: Case) -> None:
    """Otherwise the reference itself would be wrong, and fail every correct output."""
    labels = images(case.entry)[1]
    correct_count = int((answers(case, REFERENCE).argmax(axis=1) == labels).sum())
    assert correct_count in {known["correct_count"] for known in case.entry["accuracy"]}


def test_default_kernels_agree_with_the_reference(case: Case) -> None:
    """Otherwise the two would differ so much that no limit could separate right from wrong."""
    difference = np.abs(answers(case, REFERENCE) - answers(case, LoadOptions(threads=1)))
    is_integer = case.entry["output"]["scale"] is not None
    assert difference.max() <= (MOST_STEPS if is_integer else MOST_FLOAT_DIFFERENCE)


def test_reference_has_no_delegate(case: Case) -> None:
    """Otherwise the reference would run on the delegate that it is to judge."""
    loaded = case.load(REFERENCE)
    assert loaded.delegates_used in ((), ("cpu",))
    loaded.close()
