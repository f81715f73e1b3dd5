"""Outlines of power over time."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgebench.host.analysis.energy.integrate import PowerLine, line_of_means
from edgebench.host.analysis.energy.outline import OutlineBuilder, PowerOutline, outline_of


def energy_j(outline: PowerOutline) -> float:
    """Return the energy under the blocks."""
    return float(np.dot(outline.mean_w, (outline.end_ns - outline.begin_ns) / 1e9))


@given(st.lists(st.integers(1, 200), min_size=1, max_size=5), st.integers(1, 40))
def test_blocks_cover_the_whole_line_and_keep_its_energy(sizes: list[int], step: int) -> None:
    """Otherwise a mean by samples, or a piece lost between row groups, would show another power."""
    draw = np.random.default_rng(sum(sizes))
    time_ns = np.cumsum(draw.integers(1, 1000, sum(sizes))).astype(np.int64)
    line = PowerLine(time_ns, draw.random(len(time_ns)))
    builder = OutlineBuilder(step)
    for part in np.split(np.arange(len(time_ns)), np.cumsum(sizes)[:-1]):
        builder.add(PowerLine(line.time_ns[part], line.power_w[part]))
    for outline in (builder.outline(), builder.outline().coarser(7)):
        if len(time_ns) == 1:
            assert len(outline) == 0
            continue
        assert energy_j(outline) == pytest.approx(line.energy_j())
        np.testing.assert_array_equal(outline.begin_ns[1:], outline.end_ns[:-1])
        assert (outline.begin_ns[0], outline.end_ns[-1]) == (time_ns[0], time_ns[-1])
        assert outline.low_w.min() == line.power_w.min()
        assert outline.high_w.max() == line.power_w.max()
        slack = 1e-9
        assert (outline.low_w <= outline.mean_w + slack).all()
        assert (outline.mean_w <= outline.high_w + slack).all()


def test_interval_of_a_meter_that_averages_is_one_block() -> None:
    """The line steps between two intervals; a step has no duration and no mean."""
    ends = np.array([10, 20, 30], np.int64)
    outline = outline_of(line_of_means(ends - 10, ends, np.array([1.0, 5.0, 2.0])), 1)
    np.testing.assert_array_equal(outline.begin_ns, [0, 10, 20])
    np.testing.assert_allclose(outline.mean_w, [1.0, 5.0, 2.0])
