"""Effects of a campaign: of the cells that have numbers."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timezone
from pathlib import Path

import numpy as np
import pytest
from support.records import latencies, put_into_store, run_record, worker_record

from edgebench.host.campaign.campaign import Campaign
from edgebench.host.campaign.journal import begin_journal
from edgebench.host.campaign.plan import AttemptName, new_plan
from edgebench.host.campaign.spec import Axes, CampaignSpec
from edgebench.host.result.facts import HostFacts
from edgebench.host.result.verdict import State
from edgebench.host.store.layout import Store

REPEATS = 5
STEADY = [1.0, 1.001, 0.999, 1.0, 1.002]
SCATTERED = [1.0, 3.0, 0.3, 6.0, 0.1]
"""Medians of the runs of a cell, over that of the first."""


def campaign_with(store: Store, medians: list[list[float]]) -> Campaign:
    """A campaign of a cell for each of the lists, whose runs are stored."""
    axes = Axes(model=("digits_int8.tflite",), threads=tuple(range(1, len(medians) + 1)))
    spec = CampaignSpec(schema=1, name="scatter", axes=axes, repeats=REPEATS)
    plan = new_plan(spec, store.root / "campaign.toml", lambda _: ["board"])
    begin_journal(store, plan)
    for planned in plan.planned:
        run_id = AttemptName(plan.id, planned, 1).run_id(
            datetime(2026, 11, 23, tzinfo=timezone.utc)
        )
        factor = medians[planned.cell][planned.repeat]
        latency_ns = (latencies() * factor).astype(np.int64)
        record = run_record(worker_record(latency_ns), run_id)
        record = replace(record, spec=replace(record.spec, threads=planned.cell + 1))
        put_into_store(store, record, latency_ns, facts=HostFacts(member=plan.member(planned)))
    return Campaign(store, plan.id)


@pytest.mark.parametrize("medians", [[STEADY, STEADY], [STEADY, SCATTERED]])
def test_cell_that_is_refused_has_no_effect(tmp_path: Path, medians: list[list[float]]) -> None:
    """Otherwise a ratio would be printed of a cell whose numbers are refused."""
    campaign = campaign_with(Store(tmp_path), medians)
    states = {one.verdict.state for one in campaign.sets()}
    has_effect = bool(campaign.effects())
    assert (State.INVALID in states) == (medians[1] is SCATTERED)
    assert has_effect == (medians[1] is STEADY)
