"""Outliers: the known labels, and that everything is counted once."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.tools import need_shared

from edgebench.host.analysis.latency.outliers import label_outliers, modified_scores
from edgebench.protocol.errors import MeasurementError

latencies = st.lists(st.integers(0, 2**40), min_size=1, max_size=100)


def known() -> Any:
    """Return known answers that were computed elsewhere."""
    return json.loads(need_shared("known_answers/measurement.json").read_text())["outliers"]


def test_labels_are_the_known_ones() -> None:
    """Otherwise quartiles of another kind would move the fences."""
    row = known()
    found = label_outliers(np.array(row["vector"]))
    assert found.mild_fences == pytest.approx(row["tukey_mild"])
    assert found.severe_fences == pytest.approx(row["tukey_severe"])
    assert found.score_max == pytest.approx(row["iglewicz_hoaglin_0.6745"])
    assert (found.mild_count, found.severe_count) == (0, 1)
    assert (found.high_severe_count, found.score_outlier_count) == (1, 1)


def test_scores_are_the_known_ones() -> None:
    """Otherwise the deviation would be scaled twice, or not at all."""
    row = known()
    values = np.array(row["vector"])
    scores = modified_scores(values)
    assert scores is not None
    far = scores[values.argmax()]
    assert far == pytest.approx(row["iglewicz_hoaglin_0.6745"])
    assert far / 0.6745 == pytest.approx(row["hyperfine_scores_of_12.5"])


def test_both_sides_and_both_kinds_are_told_apart() -> None:
    """Otherwise a query that was too fast would hide among those that were too slow."""
    values = np.array([*range(100, 201), 300, 400, 0, -60])
    found = label_outliers(values)
    assert (found.high_mild_count, found.high_severe_count) == (1, 1)
    assert (found.low_mild_count, found.low_severe_count) == (1, 1)


@given(latencies)
def test_every_latency_has_one_label(values: list[int]) -> None:
    """Otherwise a latency would be both mild and severe, or counts exceed what was measured."""
    found = label_outliers(np.array(values, np.int64))
    assert found.count == len(values)
    assert 0 <= found.mild_count + found.severe_count <= len(values) / 2
    assert found.severe_fences[0] <= found.mild_fences[0] <= found.mild_fences[1]
    assert found.score_outlier_count is None or 0 <= found.score_outlier_count <= len(values)


@given(latencies, st.integers(1, 1000))
def test_unit_and_order_do_not_matter(values: list[int], factor: int) -> None:
    """Otherwise nanoseconds would have more outliers than milliseconds."""
    one = label_outliers(np.array(values, np.int64))
    other = label_outliers(np.array(values[::-1], np.int64) * factor)
    assert (one.mild_count, one.severe_count) == (other.mild_count, other.severe_count)
    assert one.score_outlier_count == other.score_outlier_count


def test_equal_latencies_have_no_score() -> None:
    """Otherwise a coarse clock would make a query that took one tick more infinitely slow."""
    found = label_outliers(np.array([5] * 9 + [6]))
    assert (found.score_max, found.score_outlier_count) == (None, None)
    assert found.high_severe_count == 1


def test_no_query_has_no_outliers() -> None:
    """Otherwise an empty run would be called clean."""
    with pytest.raises(MeasurementError, match="no query"):
        label_outliers(np.array([], np.int64))
