"""An analysis that computes each result once, for tests that judge the same latencies again."""

from __future__ import annotations

import hashlib
import json
import pickle
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from edgebench.host.analysis import measurement
from edgebench.host.bench import verify as verification
from edgebench.host.store.files import file_digests

PURE = ("find_steady_state", "summarize", "stability", "label_outliers", "find_throttling")
"""Parts of the analysis that take nearly all of its time, and see nothing of a document."""


@contextmanager
def analysed_once() -> Iterator[None]:
    """The same latencies are analysed once; only the document's statements about them change."""
    with pytest.MonkeyPatch.context() as patch:
        for name in PURE:
            patch.setattr(measurement, name, _remembering(getattr(measurement, name)))
        yield


@contextmanager
def recomputed_once() -> Iterator[None]:
    """The same raw files are recomputed once, for tests that change the document alone."""
    known: dict[object, object] = {}

    def remembering(compute: Callable[..., object]) -> Callable[..., object]:
        def once(directory: Path, record: object, claimed: object) -> object:
            key = compute, json.dumps(file_digests(directory)), claimed
            if key not in known:
                known[key] = compute(directory, record, claimed)
            return known[key]

        return once

    with pytest.MonkeyPatch.context() as patch:
        for name in ("_trace_differences", "_recomputed"):
            patch.setattr(verification, name, remembering(getattr(verification, name)))
        yield


def _remembering(compute: Callable[..., Any]) -> Callable[..., Any]:
    known: dict[bytes, Any] = {}

    def once(*args: Any, **kwargs: Any) -> Any:
        key = hashlib.sha256(pickle.dumps((args, kwargs))).digest()
        if key not in known:
            known[key] = compute(*args, **kwargs)
        return known[key]

    return once
