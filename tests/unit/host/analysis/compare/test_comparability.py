"""Runs that differ in more than the model are not compared without being told to."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from typing import Any

import pytest
from support.records import CREATED_UTC, latencies, run_record, traces_of, worker_record

from edgebench.host.analysis.compare.comparability import (
    KEYS,
    check_comparable,
    differences,
    fingerprint,
)
from edgebench.host.result.document import build_document
from edgebench.protocol.errors import UsageError

Document = dict[str, Any]


def document() -> Document:
    """The document of the made-up run."""
    record = run_record(worker_record(latencies()))
    return build_document(record, traces_of(latencies()), created_utc=CREATED_UTC, clock=None)


def changed(path: tuple[str, ...], value: object) -> Document:
    """The same with another value at this place."""
    made = deepcopy(document())
    part: Any = made
    for name in path[:-1]:
        part = part[name]
    part[path[-1]] = value
    return made


def test_every_part_of_a_fingerprint_is_in_a_document() -> None:
    """A key is misspelt, is `none` in every run, and two devices are compared as one."""
    made = document()
    may_be_none = {"virtualization", "delegate", "target_qps"}
    absent = {key for key, value in fingerprint(made).items() if value == "none"}
    assert absent == may_be_none
    for key in may_be_none:
        part: Any = made
        for name in KEYS[key]:
            assert name in part, key
            part = part[name]


@pytest.mark.parametrize("key", KEYS)
def test_difference_in_any_key_is_refused_by_its_name_and_may_be_allowed(key: str) -> None:
    """A run on another governor, with more threads, on another device is called a regression."""
    other = changed(KEYS[key], "something else")
    with pytest.raises(UsageError, match=rf"differ in {key} \(.* / something else\)"):
        check_comparable([document()], [other])
    found = check_comparable([document()], [other], allowed=[key])
    assert list(found) == [key]
    assert found[key][1] == "something else"


def test_difference_within_one_side_is_refused_too() -> None:
    """Half of the baseline was measured with two threads."""
    other = changed(("spec", "threads"), 2)
    with pytest.raises(UsageError, match=r"differ in threads \(1 / 2\)"):
        check_comparable([document(), other], [document()])


@pytest.mark.parametrize(
    "change",
    [
        lambda: changed(("model", "sha256"), "ff" * 32),
        lambda: changed(("model", "name"), "other.tflite"),
        lambda: changed(("metrics", "latency_ns", "p50"), 5),
        lambda: changed(("run_id",), "another"),
        lambda: changed(("environment", "load_1m"), 0.3),
    ],
)
def test_what_is_measured_is_no_difference(change: Callable[[], Document]) -> None:
    """Two models can never be compared."""
    assert check_comparable([document()], [change()]) == {}
    assert differences([document(), document()]) == {}


def test_side_of_two_models_is_refused() -> None:
    """The median of two models is compared with that of a third."""
    other = changed(("model", "sha256"), "ff" * 32)
    with pytest.raises(UsageError, match="baseline has several models"):
        check_comparable([document(), other], [document()])


def test_unknown_key_is_refused() -> None:
    """A mistyped --allow is taken as if nothing had been allowed, without a word."""
    with pytest.raises(UsageError, match="unknown key freqency: there are device"):
        check_comparable([document()], [document()], allowed=["freqency"])
