"""A run, computed from its traces: run.json in the keys that others rely on."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from support.records import (
    CREATED_UTC,
    WARMUP_COUNT,
    clock_probes,
    latencies,
    run_record,
    traces_of,
    worker_record,
)

from edgebench.host.analysis.run import analyse_run, fit_clock
from edgebench.host.result.document import Document, to_document
from edgebench.protocol.errors import MeasurementError

KEYS: dict[str, set[str]] = {
    "": {
        *("schema_version", "run_id", "created_utc", "simulated", "emulated", "spec", "model"),
        *("device", "runtime", "metrics", "environment", "conditions", "verdict"),
    },
    "spec": {
        *("scenario", "duration_s", "min_query_count", "threads", "delegate", "seed", "preset"),
    },
    "model": {"name", "sha256", "format", "precision", "size_bytes"},
    "device": {"id", "name", "profile", "arch", "soc", "os"},
    "runtime": {"name", "version", "delegates_requested", "delegates_used"},
    "metrics": {
        *("latency_ns", "end_to_end_ns", "throughput_per_s", "warmup", "cold_start_ns"),
        *("memory_bytes", "harness_ns", "accuracy", "agreement"),
    },
    "metrics.latency_ns": {
        *("count", "min", "mean", "p50", "p90", "p99", "p99_9", "max"),
        *("p50_ci95", "p90_ci95", "p99_ci95", "p99_9_ci95"),
    },
    "metrics.end_to_end_ns": {
        *("count", "min", "mean", "p50", "p90", "p99", "p99_9", "max"),
        *("p50_ci95", "p90_ci95", "p99_ci95", "p99_9_ci95"),
    },
    "metrics.agreement": {"reference", "max_abs_diff", "fraction_equal"},
    "metrics.warmup": {"class", "query_count", "duration_ns"},
    "metrics.cold_start_ns": {"import", "load", "first_inference"},
    "metrics.memory_bytes": {"peak_rss", "model", "arena"},
    "metrics.harness_ns": {"p50", "per_query"},
    "environment": {"cpu", "kernel", "packages"},
    "verdict": {"state", "rules"},
}
"""The keys that scripts and other tools rely on; they may grow, never shrink."""


def document(**fields: Any) -> Document:
    """Return the document of the simulated run."""
    record = replace(run_record(worker_record(latencies())), **fields)
    clock = fit_clock(clock_probes(), record)
    run = analyse_run(record, traces_of(latencies()), created_utc=CREATED_UTC, clock=clock)
    return to_document(run)


@pytest.mark.parametrize("place", KEYS)
def test_keys_that_others_rely_on_are_there(place: str) -> None:
    """Otherwise a script that reads run.json would find nothing under a key."""
    part: Any = document()
    for key in filter(None, place.split(".")):
        part = part[key]
    assert set(part) >= KEYS[place]


def test_document_is_plain_json_and_a_pure_function() -> None:
    """Otherwise the same run would give two documents, or one that no other tool reads."""
    assert json.loads(json.dumps(document(), allow_nan=False))
    assert json.dumps(document()) == json.dumps(document())


def test_metrics_leave_the_warm_up_out() -> None:
    """Otherwise the first slow queries would be part of the median."""
    metrics = document()["metrics"]
    timed = latencies()[WARMUP_COUNT:]
    assert metrics["latency_ns"]["count"] == len(timed)
    assert metrics["latency_ns"]["max"] == timed.max()
    assert metrics["end_to_end_ns"] == metrics["latency_ns"], "copying takes no time here"
    assert metrics["throughput_per_s"] == pytest.approx(len(timed) * 1e9 / timed.sum())
    assert metrics["warmup"] == {
        "class": "flat",
        "query_count": WARMUP_COUNT,
        "duration_ns": int(latencies()[:WARMUP_COUNT].sum()),
        "level_range_ratio": None,
        "p50_change_ratio": None,
    }


def test_metrics_have_the_change_of_the_median_by_a_detected_warm_up() -> None:
    """Otherwise a set could not show the slow level that only few of its runs begin on."""
    slow_first = latencies()
    slow_first[: WARMUP_COUNT + 245] *= 2
    run = analyse_run(
        run_record(worker_record(slow_first)),
        traces_of(slow_first),
        created_utc=CREATED_UTC,
        clock=None,
    )
    warmup = run.metrics.warmup
    assert warmup is not None
    assert (warmup.steady_class, warmup.query_count) == ("warmup", WARMUP_COUNT + 245)
    change = np.median(slow_first[WARMUP_COUNT:]) / np.median(slow_first[-245:]) - 1
    assert warmup.p50_change_ratio == pytest.approx(change)


def test_run_without_warm_up_has_a_warm_up_of_nothing() -> None:
    """Otherwise zero warm-up queries would crash the analysis."""
    record = run_record(worker_record(latencies()))
    made = analyse_run(record, traces_of(latencies(), 0), created_utc=CREATED_UTC, clock=None)
    assert made.metrics.warmup is not None
    assert made.metrics.warmup.duration_ns == 0
    assert made.metrics.latency_ns is not None
    assert made.metrics.latency_ns.count == len(latencies())
    assert made.conditions.clock is None


def test_clock_is_between_the_named_domains() -> None:
    """Otherwise a time would cross domains, and it would be unknown which."""
    clock = document()["conditions"]["clock"]
    assert clock["host_domain"] == "host:" + "f" * 43
    assert clock["device_domain"] == "device:0011223344556677"
    assert fit_clock([], run_record(None)) is None
    assert fit_clock([[], []], run_record(None)) is None


def test_trace_of_another_length_than_the_worker_counted_is_refused() -> None:
    """Otherwise a trace that lost its end would be stored, and doubted only by verify."""
    record = run_record(replace(worker_record(latencies()), query_count=501))
    with pytest.raises(MeasurementError, match="500 rows, the worker reports 501"):
        analyse_run(record, traces_of(latencies()), created_utc=CREATED_UTC, clock=None)


def test_run_that_measured_nothing_has_no_document() -> None:
    """Otherwise a failed run would be stored with numbers."""
    with pytest.raises(MeasurementError, match="measured nothing"):
        analyse_run(run_record(None), traces_of(latencies()), created_utc=CREATED_UTC, clock=None)
    record = run_record(worker_record(latencies()))
    for count in (len(latencies()), len(latencies()) + 5):
        with pytest.raises(MeasurementError, match="no query"):
            analyse_run(record, traces_of(latencies(), count), created_utc=CREATED_UTC, clock=None)
