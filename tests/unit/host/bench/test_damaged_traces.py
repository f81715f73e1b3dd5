"""Traces with other bytes: each run ends in a result, or in one of our errors.

The short form of tests/system/damaged_runs.py: as many of a fixed order as fit into the time.
"""

from __future__ import annotations

from itertools import count
from pathlib import Path

import pytest
from support.damage import KINDS, Budget, Trial

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("kind", KINDS)
def test_no_trace_ends_in_anything_else(kind: str, tmp_path: Path) -> None:
    """Otherwise control of a device's spool would decide what its owner's commands do."""
    trial, budget = Trial(kind, tmp_path), Budget()
    for seed in count():
        trial.of_traces(seed)
        # Every fourth as it may have been stored, past the analysis.
        if seed % 4 == 3:
            trial.of_stored_traces(seed)
        if budget.is_spent:
            break
    assert trial.tally.faults == []
    assert trial.tally.stored + trial.tally.refused > 0
