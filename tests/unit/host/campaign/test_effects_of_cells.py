"""Effects of a campaign: of the cells that have numbers."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.campaigns import campaign_with

from edgebench.host.result.verdict import State
from edgebench.host.store.layout import Store

STEADY = [1.0, 1.001, 0.999, 1.0, 1.002]
SCATTERED = [1.0, 3.0, 0.3, 6.0, 0.1]
"""Medians of the runs of a cell, over that of the first."""


@pytest.mark.parametrize("medians", [[STEADY, STEADY], [STEADY, SCATTERED]])
def test_cell_that_is_refused_has_no_effect(tmp_path: Path, medians: list[list[float]]) -> None:
    """Otherwise a ratio would be printed of a cell whose numbers are refused."""
    campaign = campaign_with(Store(tmp_path), medians)
    states = {run_set.verdict.state for run_set in campaign.sets()}
    has_effect = bool(campaign.effects())
    assert (State.INVALID in states) == (medians[1] is SCATTERED)
    assert has_effect == (medians[1] is STEADY)
