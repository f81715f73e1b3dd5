"""The usual speed of a device: the yardsticks of its earlier valid runs in a store."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from support.changes import changed
from support.kinds import KINDS, store_of
from support.records import YARDSTICK

from edgebench.host.analysis.yardstick import UsualSpeed, usual_speed
from edgebench.host.result.document import to_document
from edgebench.host.result.run import Run
from edgebench.host.result.verdict import State
from edgebench.host.show.yardstick import usual_line
from edgebench.host.store.earlier_runs import earlier_valid_runs
from edgebench.host.store.layout import RUN_FILE, Store

FASTER_NS = min(YARDSTICK.before.integer_ns_per_unit, YARDSTICK.after.integer_ns_per_unit)


def rewrite(store: Store, run: Run) -> None:
    """Replace a stored run."""
    (store.directory(run.run_id) / RUN_FILE).write_text(json.dumps(to_document(run)))


@pytest.fixture
def store(tmp_path: Path) -> Store:
    """A store with a set on each of two days; on the second, the device is a fifth slower."""
    made = store_of(tmp_path, KINDS[0])
    reading = replace(YARDSTICK.after, integer_ns_per_unit=1.2 * FASTER_NS)
    slow = replace(YARDSTICK, before=reading, after=reading)
    for run_id in made.run_ids():
        is_second = "20260302" in run_id
        yardstick = slow if is_second else YARDSTICK
        rewrite(made, changed(made.run(run_id), {"conditions.yardstick": yardstick}))
    return made


def usual_of(store: Store, day: int) -> UsualSpeed | None:
    """Speed of the device on that day of March, against the runs before it."""
    runs = [store.run(run_id) for run_id in store.run_ids() if f"202603{day:02}" in run_id]
    return usual_speed(runs, earlier_valid_runs(store, runs))


def test_slower_device_is_compared_with_its_earlier_runs(store: Store) -> None:
    """Otherwise a device that is slow in all runs of a set would look as usual."""
    usual = usual_of(store, 2)
    assert usual is not None
    assert usual.integer_ratio == pytest.approx(1.2)
    assert usual.run_count == 6
    line = "integer work took 1.200 times the median of the last 6 valid runs on this device"
    assert usual_line(usual) == line
    assert usual_of(store, 1) is None, "there are no earlier runs"


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("verdict.state", State.INVALID),
        ("environment.python", "2.7.18"),
        ("device.id", "ffeeddccbbaa9988"),
        ("conditions.yardstick", None),
    ],
)
def test_run_that_cannot_be_compared_is_left_out(store: Store, path: str, value: object) -> None:
    """Otherwise a disturbed run, or one with another Python, would be the reference."""
    first, second, *_ = store.run_ids()
    rewrite(store, changed(store.run(first), {path: value}))
    usual = usual_of(store, 2)
    assert usual is not None
    assert usual.run_count == 5
    rewrite(store, changed(store.run(second), {path: value}))
    assert usual_of(store, 2) is None, "four runs are too few"


def test_damaged_run_is_left_out(store: Store) -> None:
    """Otherwise a file that cannot be read would hide the page of another run."""
    first = min(store.run_ids())
    (store.directory(first) / RUN_FILE).write_text("{")
    usual = usual_of(store, 2)
    assert usual is not None
    assert usual.run_count == 5
