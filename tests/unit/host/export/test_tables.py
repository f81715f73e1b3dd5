"""CSV and Parquet, read by pandas."""

from __future__ import annotations

import io
import json
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from support.exports import (
    ALL,
    HOSTILE,
    INVALID,
    PLAIN,
    PROFILE,
    Stored,
    renamed,
    set_of,
    written,
)

from edgebench.host.export.columns import LOWER, UPPER, has_interval
from edgebench.host.export.exported import ExportedRun
from edgebench.host.result.metrics import METRICS
from edgebench.host.store.layout import ANNOTATIONS_FILE


def read_csv(data: bytes) -> pd.DataFrame:
    """Read CSV as a user does."""
    return pd.read_csv(io.BytesIO(data), float_precision="round_trip")


def read_parquet(data: bytes) -> pd.DataFrame:
    """Read Parquet as a user does."""
    return pd.read_parquet(io.BytesIO(data))


@pytest.mark.parametrize("name", ["csv", "parquet"])
def test_table_has_every_number_of_every_run(name: str, stored: Stored) -> None:
    """Otherwise a number would be rounded, in the wrong column, or lost."""
    runs = stored(ALL)
    frame = (read_csv if name == "csv" else read_parquet)(written(name, runs))
    assert list(frame["run_id"]) == [run.run.run_id for run in runs]
    for run, (_, row) in zip(runs, frame.iterrows(), strict=True):
        for metric in METRICS.values():
            value = None if run.run.verdict.is_refused else metric.bounded_value(run.run)
            assert row[metric.path] == value if value is not None else pd.isna(row[metric.path])
            if value is not None and has_interval(metric):
                bounds = metric.expanded_interval(run.run)
                found = (row[metric.path + LOWER], row[metric.path + UPPER])
                assert found == bounds if bounds else all(map(pd.isna, found))


@pytest.mark.parametrize("name", ["csv", "parquet"])
def test_row_tells_the_verdict_of_its_set(name: str, stored: Stored) -> None:
    """Otherwise the mean would be taken over runs whose common number was refused."""
    [one] = stored(PLAIN)
    apart, close = set_of(one, "a", (1000, 1010, 8000, 9000, 9100)), set_of(one, "b", (1000, 1010))
    frame = (read_csv if name == "csv" else read_parquet)(written(name, [*apart, *close, one]))
    assert set(frame["verdict"]) == {"valid", "suspect"}
    assert list(frame["set_verdict"][:7]) == ["invalid"] * 5 + ["suspect"] * 2
    assert pd.isna(frame["set_verdict"][7])


def test_every_interval_has_columns(stored: Stored, metered: ExportedRun) -> None:
    """Otherwise an interval of a metric would appear in no table."""
    known = {
        metric.path
        for one in (*stored(ALL), metered)
        for metric in METRICS.values()
        if metric.expanded_interval(one.run) is not None
    }
    assert {"latency_ns.p50", "accuracy.value", "energy.power_w_mean"} <= known
    assert [path for path in known if not has_interval(METRICS[path])] == []


def test_interval_of_an_energy_is_its_expanded_uncertainty(metered: ExportedRun) -> None:
    """Otherwise joules would have no uncertainty, or that of another quantity."""
    energy = metered.run.metrics.energy
    assert energy is not None
    assert energy.gross_j_per_inference
    assert energy.u95_absolute_j
    assert energy.power_w_mean
    assert energy.power_w_mean_u95_absolute
    for path, value, u95 in (
        ("energy.gross_j_per_inference", energy.gross_j_per_inference, energy.u95_absolute_j),
        ("energy.power_w_mean", energy.power_w_mean, energy.power_w_mean_u95_absolute),
    ):
        interval = METRICS[path].expanded_interval(metered.run)
        assert interval == pytest.approx((value - u95, value + u95), rel=1e-6)


def test_csv_has_no_text_that_a_spreadsheet_computes(stored: Stored) -> None:
    """Otherwise a model's name would start a program on the machine that opens the table."""
    [one] = map(renamed, stored(PLAIN))
    [row] = read_csv(written("csv", [one])).to_dict("records")
    assert row["model"] == row["device"] == f"'{HOSTILE}"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (" =1+1", "' =1+1"),
        ("\t=1+1", "?=1+1"),
        ("\r@x", "?@x"),
        ("fan off;=1+1", "fan off;'=1+1"),
        ("fan off\n+1", "fan off\n'+1"),
        ("＝1", "'＝1"),
        ("a-b+c=d; e", "a-b+c=d; e"),
    ],
)
def test_formula_hidden_in_a_text_is_none_in_csv(text: str, shown: str, stored: Stored) -> None:
    """Otherwise a blank, or a foreign separator, would bring a formula past the apostrophe."""
    [one] = [renamed(one, text) for one in stored(PLAIN)]
    [row] = read_csv(written("csv", [one])).to_dict("records")
    assert row["model"] == row["device"] == shown


def test_name_that_is_not_utf_8_is_shown_in_parquet(stored: Stored) -> None:
    """Otherwise a file name with a byte of another alphabet would end the export in a traceback."""
    [one] = [renamed(one, "caf\udce9.onnx") for one in stored(PLAIN)]
    [row] = read_parquet(written("parquet", [one])).to_dict("records")
    assert row["model"] == row["device"] == "caf?.onnx"


def test_parquet_has_the_latencies_that_count(stored: Stored) -> None:
    """Otherwise the column would contradict the percentile next to it, or include the warm-up."""
    [one] = stored(PLAIN)
    [row] = read_parquet(written("parquet", [one])).to_dict("records")
    latency_ns = np.sort(row["inference_latency_ns"])
    summary = one.run.metrics.latency_ns
    assert summary is not None
    assert len(latency_ns) == len(row["inference_start_s"]) == summary.count
    assert latency_ns[0] == summary.min
    assert latency_ns[-1] == summary.max
    assert latency_ns.mean() == pytest.approx(summary.mean)
    assert 0 <= row["inference_start_s"][0] < 1e-3


@pytest.mark.parametrize("kind", [INVALID, PROFILE])
def test_parquet_has_no_latencies_where_the_run_claims_none(kind: str, stored: Stored) -> None:
    """Otherwise a data frame would have refused latencies, or those of a profiled model."""
    [row] = read_parquet(written("parquet", stored(kind))).to_dict("records")
    assert row["inference_latency_ns"] is None


def test_annotations_are_columns(stored: Stored, tmp_path: Path) -> None:
    """Otherwise a run's tag would be lost on the way to the notebook."""
    [one] = stored(PLAIN)
    shutil.copytree(one.directory, tmp_path / "run")
    beside = {"tags": ["nightly", "=tag"], "note": "fan off"}
    (tmp_path / "run" / ANNOTATIONS_FILE).write_text(json.dumps(beside))
    copied = replace(one, directory=tmp_path / "run")
    [row] = read_parquet(written("parquet", [copied])).to_dict("records")
    assert (row["tags"], row["note"]) == ("=tag, nightly", "fan off")
    [row] = read_csv(written("csv", [copied])).to_dict("records")
    assert row["tags"] == "'=tag, nightly"
