"""A campaign whose runs are stored, without a device that made them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timezone

import numpy as np

from edgebench.host.campaign.campaign import Campaign
from edgebench.host.campaign.journal import begin_journal
from edgebench.host.campaign.plan import AttemptName, new_plan
from edgebench.host.campaign.spec import Axes, CampaignSpec
from edgebench.host.result.facts import HostFacts
from edgebench.host.store.layout import Store
from support.records import latencies, put_into_store, run_record, worker_record


def campaign_with(store: Store, medians: Sequence[Sequence[float]]) -> Campaign:
    """A campaign with a cell for each list, and a run for each number in it.

    A number is the factor of the latencies of its run. Cells differ in their threads.
    """
    axes = Axes(model=("digits_int8.tflite",), threads=tuple(range(1, len(medians) + 1)))
    spec = CampaignSpec(schema=1, name="scatter", axes=axes, repeats=len(medians[0]))
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
