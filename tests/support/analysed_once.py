"""An analysis that computes each result once, for tests that judge the same latencies again."""

from __future__ import annotations

import hashlib
import pickle
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from edgebench.host.analysis import measurement

PURE = ("find_steady_state", "summarize", "stability", "label_outliers", "find_throttling")
"""Parts of the analysis that take nearly all of its time, and see nothing of a document."""


@contextmanager
def analysed_once() -> Iterator[None]:
    """The same latencies are analysed once; only the document's statements about them change."""
    with pytest.MonkeyPatch.context() as patch:
        for name in PURE:
            patch.setattr(measurement, name, _remembering(getattr(measurement, name)))
        yield


def _remembering(compute: Callable[..., Any]) -> Callable[..., Any]:
    known: dict[bytes, Any] = {}

    def once(*args: Any, **kwargs: Any) -> Any:
        key = hashlib.sha256(pickle.dumps((args, kwargs))).digest()
        if key not in known:
            known[key] = compute(*args, **kwargs)
        return known[key]

    return once
