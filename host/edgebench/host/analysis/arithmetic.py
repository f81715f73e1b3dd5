"""Arithmetic of the analysis: floating-point errors are raised, and times are bounded.

numpy prints a warning where a number overflows, is divided by zero, or does not exist, and goes on
with infinity or NaN, which end in a result. Values that an honest run may lack, such as those of a
window without a reading, are masked where they are computed.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgebench.protocol.bounds import MAX_TIME_NS


@contextmanager
def strict_arithmetic() -> Iterator[None]:
    """Raise FloatingPointError where numpy would warn, in this thread, while the block runs."""
    with np.errstate(over="raise", divide="raise", invalid="raise"):
        yield


def check_times(time_ns: NDArray[np.integer[Any]]) -> None:
    """Refuse times beyond the range of a clock.

    Raises:
        ValueError: a time is beyond `MAX_TIME_NS` on either side of zero.
    """
    if time_ns.size and not -MAX_TIME_NS <= time_ns.min() <= time_ns.max() <= MAX_TIME_NS:
        raise ValueError("a time is beyond the range of a clock")
