"""Numbers of records at their extremes: each run ends in a result, or in one of our errors.

The short form of tests/system/damaged_runs.py: as many of a fixed order as fit into the time.
"""

from __future__ import annotations

import random
from itertools import product
from pathlib import Path

import pytest
from support.damage import EXTREMES, KINDS, Budget, Trial, numbers_in, record_of

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("kind", KINDS)
def test_no_number_of_a_record_ends_in_anything_else(kind: str, tmp_path: Path) -> None:
    """Otherwise a worker, or a broken counter, could lock the owner out of the device."""
    pairs = list(product(numbers_in(record_of(kind)), EXTREMES))
    random.Random(kind).shuffle(pairs)
    trial, budget = Trial(kind, tmp_path), Budget()
    for place, value in pairs:
        trial.of_record(place, value)
        if budget.is_spent:
            break
    assert trial.tally.faults == []
    assert trial.tally.refused > 0
