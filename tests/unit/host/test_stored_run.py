"""Runs in the Python interface."""

from __future__ import annotations

import shutil
from datetime import datetime, timezone
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from edgebench.host.lab import Lab
from edgebench.host.store.annotations import Annotations, annotate
from edgebench.protocol.errors import NoSuchDevice, UsageError

RUNS = Path(__file__).parents[2] / "fixtures" / "runs" / "v7"
PLAIN, METERED = "20261123-031046-26335d6d", "20261123-031049-420b03bc"
OF_ONE_SET = ("20261123-031112-2510a256", "20261123-031114-392467a9")


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Lab:
    """A lab with runs of every kind, and no devices."""
    folder = tmp_path_factory.mktemp("lab")
    made = Lab(folder / "store", config=folder / "config")
    shutil.copytree(RUNS, made.store.runs)
    annotate(made.store, PLAIN, lambda _: Annotations(("night",), "fan off"))
    return made


def test_facts_of_a_run_are_attributes(lab: Lab) -> None:
    """Otherwise a notebook would have to search a dictionary of a thousand keys."""
    run = lab.run(PLAIN)
    assert run.created == datetime(2026, 11, 23, 3, 10, 46, tzinfo=timezone.utc)
    assert run.path == lab.store.directory(PLAIN)
    assert (run.tags, run.note) == (("night",), "fan off")
    assert (run.model.name, run.device.name) == (run.result.model.name, run.result.device.name)
    assert repr(run) == f"<StoredRun {PLAIN}: {run.verdict}>"


def test_power_is_on_the_axis_of_the_inferences(lab: Lab) -> None:
    """Otherwise the joules of the frame would differ from those of the result."""
    run = lab.run(METERED)
    energy, power = run.metrics.energy, run.power
    assert energy is not None
    assert energy.power_w_mean is not None
    assert list(power.columns) == [
        *("time_s", "duration_s", "channel", "power_w", "power_w_min", "power_w_max")
    ]
    assert power.attrs["power_apart"] is None
    latency = run.series.latency
    assert latency is not None
    inside = power[power["time_s"].between(0, float(latency.start_s[-1]))]
    mean_w = np.average(inside["power_w"], weights=inside["duration_s"])
    assert mean_w == pytest.approx(energy.power_w_mean, rel=0.05)
    assert (power["power_w_min"] <= power["power_w_max"]).all()


def test_samples_of_a_part_of_a_run(lab: Lab) -> None:
    """Otherwise a look at a millisecond would read an hour of a fast meter."""
    run = lab.run(METERED)
    every = run.power_samples()
    part = run.power_samples(begin_s=0.0, end_s=0.1)
    assert 0 < len(part) < len(every)
    assert part["time_s"].between(0.0, 0.1).all()
    inside = every[every["time_s"].between(0.0, 0.1)].reset_index(drop=True)
    pd.testing.assert_frame_equal(part, inside)
    assert lab.run(PLAIN).power_samples().empty
    assert lab.run(PLAIN).power.empty


def test_list_has_dates_and_keeps_its_columns(lab: Lab) -> None:
    """Otherwise dates would be compared as text, or a script would miss its column."""
    frame = lab.runs()
    assert isinstance(frame["created"].dtype, pd.DatetimeTZDtype)
    assert str(frame["created"].dt.tz) == "UTC"
    assert frame["created"].is_monotonic_increasing
    assert all(isinstance(one, str) for one in frame["created_utc"])
    assert list(lab.runs("night")["run_id"]) == [PLAIN]
    assert len(lab.runs(PLAIN, METERED, last=1)) == 1
    assert lab.runs(model="nothing")["created"].empty


def test_bundle_is_a_store_that_is_only_read(lab: Lab, tmp_path: Path) -> None:
    """Otherwise received runs would have to be copied into the user's own store."""
    path = lab.bundle([PLAIN, METERED], tmp_path / "two.zip")
    sent = Lab(path, config=tmp_path)
    assert list(sent.runs()["run_id"]) == [PLAIN, METERED]
    assert sent.run("night").queries.equals(lab.run(PLAIN).queries)
    assert lab.run(f"{path}#last").metrics == lab.run(METERED).metrics
    with pytest.raises(UsageError, match="a bundle is read-only"):
        sent.bench("digits_int8.tflite")
    with pytest.raises(UsageError, match="a bundle is read-only"):
        sent.collect()


def test_single_names_are_no_lists_of_letters(lab: Lab) -> None:
    """Otherwise `on="pi5"` would select the devices p, i and 5."""
    [result] = lab.compare(*OF_ONE_SET, metrics="latency_ns.p50")
    assert result.metric == "latency_ns.p50"
    for ask in (lab.bench, lab.collect):
        with pytest.raises(NoSuchDevice, match="pi5"):
            ask(on="pi5")
