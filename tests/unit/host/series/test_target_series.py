"""Traces of a board that times its inferences itself."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from support.board_runs import BOARD, stored_board_run

from edgebench.host.analysis.windows import measure_windows
from edgebench.host.series.run_series import LatencySeries, SpanKind, read_series
from edgebench.protocol.record import TargetRecord


def latency_of(target: TargetRecord, directory: Path) -> LatencySeries:
    """The trace of a stored run of this board."""
    one = stored_board_run(directory, target)
    found = read_series(one.directory, one.run).latency
    assert found is not None
    return found


def test_latencies_of_a_board_are_those_of_its_summary(tmp_path: Path) -> None:
    """Otherwise times by a counter of 80 MHz would look as coarse as the windows' microseconds."""
    series, summary = latency_of(BOARD, tmp_path), measure_windows(BOARD).latency
    assert summary is not None
    assert len(series.latency_ns) == summary.count
    assert (series.latency_ns.min(), series.latency_ns.max()) == (summary.min, summary.max)
    assert float(series.latency_ns.mean()) == pytest.approx(summary.mean)


def test_inferences_of_a_board_are_inside_their_windows(tmp_path: Path) -> None:
    """Otherwise a window would be as long as its inferences, which would reach into the next."""
    one = stored_board_run(tmp_path, BOARD)
    series = read_series(one.directory, one.run)
    assert series.latency is not None
    windows = [span for span in series.spans if span.kind is SpanKind.WINDOW]
    rows = np.split(np.arange(len(series.latency.start_s)), len(windows))
    for span, own in zip(windows, rows, strict=True):
        ends_s = series.latency.start_s[own] + series.latency.latency_ns[own] / 1e9
        assert span.begin_s <= series.latency.start_s[own[0]]
        assert ends_s[-1] <= span.end_s
        assert (ends_s[:-1] <= series.latency.start_s[own[1:]] + 1e-9).all()


def test_inferences_of_streaming_firmware_keep_their_interval(tmp_path: Path) -> None:
    """Otherwise frames of sound that arrive every 20 ms would look back to back."""
    pulsed = tuple(replace(window, ticks=None, tick_rate_hz=None) for window in BOARD.windows)
    series = latency_of(replace(BOARD, pace_ns=20_000_000, windows=pulsed), tmp_path)
    steps_s = np.diff(series.start_s[: BOARD.windows[0].count])
    assert steps_s == pytest.approx(np.full(len(steps_s), 0.02))
