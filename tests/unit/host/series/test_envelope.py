"""Traces by interval, for pictures."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from edgebench.host.series.envelope import Points, even_edges


def test_empty_interval_is_a_gap() -> None:
    """Otherwise a line through a gap would show values that were not measured."""
    points = Points(np.array([0.1, 0.2, 2.5]), np.array([4.0, 2.0, 7.0]))
    found = points.envelope(even_edges(0.0, 3.0, 3))
    np.testing.assert_array_equal(found.low, [2.0, np.nan, 7.0])
    np.testing.assert_array_equal(found.mean, [3.0, np.nan, 7.0])
    np.testing.assert_array_equal(found.high, [4.0, np.nan, 7.0])


def test_value_at_the_last_edge_belongs_to_the_last_interval() -> None:
    """The last reading of a run is at its very end."""
    found = Points(np.array([0.0, 1.0]), np.array([1.0, 9.0])).envelope(even_edges(0.0, 1.0, 2))
    np.testing.assert_array_equal(found.mean, [1.0, 9.0])


@given(
    st.lists(st.floats(-5.0, 15.0), max_size=60),
    st.integers(1, 20),
)
def test_every_interval_has_the_extremes_and_the_mean_of_its_values(
    times: list[float], count: int
) -> None:
    """Otherwise an interval would hide a peak, which is the purpose of the picture."""
    time_s = np.array(sorted(times), np.float64)
    value: NDArray[np.float64] = np.cos(time_s)
    edges_s = even_edges(0.0, 10.0, count)
    found = Points(time_s, value).envelope(edges_s)
    for number in range(count):
        is_in = (time_s >= edges_s[number]) & (time_s < edges_s[number + 1])
        if number == count - 1:
            is_in |= time_s == edges_s[-1]
        if not is_in.any():
            assert np.isnan([found.low[number], found.mean[number], found.high[number]]).all()
            continue
        assert found.low[number] == value[is_in].min()
        assert found.high[number] == value[is_in].max()
        np.testing.assert_allclose(found.mean[number], value[is_in].mean(), atol=1e-9)
