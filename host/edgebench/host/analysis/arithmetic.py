"""Arithmetic of the analysis: floating-point errors raise exceptions, and times are bounded.

On overflow, division by zero and invalid operations, numpy only warns and continues with infinity
or NaN. Such a value would end up in a result. Values that a valid run may lack, such as the power
of a window without a reading, are masked where they are computed.
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
    """Raise FloatingPointError instead of numpy's warnings, in this thread, inside the block."""
    with np.errstate(over="raise", divide="raise", invalid="raise"):
        yield


def check_times(time_ns: NDArray[np.integer[Any]]) -> None:
    """Reject times beyond the range of a clock.

    Raises:
        ValueError: a time is beyond `MAX_TIME_NS` on either side of zero.
    """
    if time_ns.size and not -MAX_TIME_NS <= time_ns.min() <= time_ns.max() <= MAX_TIME_NS:
        raise ValueError("a time is beyond the range of a clock")
