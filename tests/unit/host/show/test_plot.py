"""Figures of runs by matplotlib."""

from __future__ import annotations

import shutil
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from edgebench.host.lab import Lab
from edgebench.host.series.run_series import RunSeries
from edgebench.host.show.plot import plot_run
from edgebench.protocol.errors import UsageError

RUNS = Path(__file__).parents[3] / "fixtures" / "runs" / "v7"
METERED = "20261123-031049-420b03bc"


@pytest.fixture
def lab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Lab:
    """A lab with a metered run; figures need no screen."""
    monkeypatch.setenv("MPLBACKEND", "agg")
    made = Lab(tmp_path)
    shutil.copytree(RUNS / METERED, made.store.runs / METERED)
    return made


def test_traces_share_one_axis_under_the_verdict(lab: Lab, tmp_path: Path) -> None:
    """Otherwise a peak of power would be drawn at another inference, or the verdict be missed."""
    run = lab.run(METERED)
    figure = run.plot()
    labels = [axes.get_ylabel() for axes in figure.axes]
    assert labels[:2] == ["latency, ms", "power, W"]
    assert len({axes.get_xlim() for axes in figure.axes}) == 1
    assert run.result.marks.label in figure.get_suptitle()
    [latency] = figure.axes[0].lines
    assert run.metrics.latency_ns is not None
    drawn_ms = np.asarray(latency.get_ydata())
    assert drawn_ms.min() <= run.metrics.latency_ns.mean / 1e6 <= drawn_ms.max()
    figure.savefig(tmp_path / "run.png")


def test_power_on_another_clock_has_its_own_axis(lab: Lab) -> None:
    """Otherwise power would be drawn next to inferences of another time."""
    run = lab.run(METERED)
    series = replace(run.series, power_apart="the clocks are strangers")
    figure = plot_run(run.result, series)
    assert [axes.get_ylabel() for axes in figure.axes][-1] == "power, W"
    assert "the clocks are strangers" in figure.axes[-1].get_xlabel()
    assert figure.axes[-1].get_shared_x_axes().joined(figure.axes[0], figure.axes[-1]) is False


def test_name_of_a_model_is_no_formula(lab: Lab, tmp_path: Path) -> None:
    """Otherwise `$` in a file name would end in matplotlib's traceback."""
    run = lab.run(METERED)
    named = replace(run.result, model=replace(run.model, name=r"a$\frac$b"))
    plot_run(named, run.series).savefig(tmp_path / "run.png")


def test_what_cannot_be_drawn_is_one_line(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise a notebook would show a traceback of matplotlib, or an empty figure."""
    run = lab.run(METERED)
    with pytest.raises(UsageError, match="has no traces"):
        plot_run(run.result, RunSeries())
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(UsageError, match=r"pip install 'edgebench\[plot\]'"):
        run.plot()
