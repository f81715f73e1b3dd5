"""Plan, begin and resume campaigns on the devices of this host or of lab hosts."""

from __future__ import annotations

import shlex
from pathlib import Path

from edgebench.host.bench.cancellation import Cancellation
from edgebench.host.bench.events import Notify
from edgebench.host.bench.host import BenchHost
from edgebench.host.bench.live import publish_status
from edgebench.host.campaign.campaign import Campaign
from edgebench.host.campaign.cluster.address import ClusterAddress
from edgebench.host.campaign.journal import begin_journal
from edgebench.host.campaign.lanes import make_runs, paired_lanes
from edgebench.host.campaign.meters import refuse_own_meter, refuse_unserved
from edgebench.host.campaign.plan import CampaignPlan, new_plan
from edgebench.host.campaign.requests import CellRequests
from edgebench.host.campaign.spec import load_spec
from edgebench.host.devices.selection import select
from edgebench.host.power.metering import check_wiring
from edgebench.host.store.bundle_file import refuse_bundle
from edgebench.protocol.errors import DeviceNotOffered

MAX_PARALLEL_LANES = 512
"""Maximum number of devices of lab hosts that are measured in parallel; each device has a thread on
this host."""


def plan_campaign(
    host: BenchHost, file: Path, notify: Notify, cluster: str | ClusterAddress | None
) -> CampaignPlan:
    """Plan the campaign in a file, with the current devices; see `Lab.plan_campaign`."""
    offered = None
    if cluster is not None:
        from edgebench.host.campaign.cluster.lanes import offered_devices

        offered = offered_devices(ClusterAddress.of(cluster))
    own_farm, _ = host.merged_farm(notify)

    def choose(word: str) -> list[str]:
        if offered is None:
            return [device.name for device in host.choose([word], own_farm, notify)]
        devices, farm = offered
        known = [device.name for device in devices]
        names = [device.name for device in select([word], devices, farm)]
        if missing := [name for name in names if name not in known]:
            raise DeviceNotOffered(
                f"no lab host offers {missing[0]}; offered: {', '.join(known)}",
                shlex.quote(missing[0]),
            )
        return names

    plan = new_plan(load_spec(file), file, choose)
    meter = plan.spec.settings.meter
    if offered is not None:
        refuse_own_meter(meter)
    elif meter:
        check_wiring(meter, plan.devices)
    CellRequests(plan)
    return plan


def begin_campaign(
    host: BenchHost, file: Path, notify: Notify, cluster: str | ClusterAddress | None
) -> CampaignPlan:
    """Plan the campaign in a file, and store the plan; see `Lab.begin_campaign`."""
    refuse_bundle(host.store)
    plan = plan_campaign(host, file, notify, cluster)
    if cluster is None:
        refuse_unserved(plan, CellRequests(plan), host)
    begin_journal(host.store, plan)
    return plan


def resume_campaign(
    host: BenchHost,
    campaign: Campaign,
    *,
    notify: Notify,
    cancellation: Cancellation,
    cluster: str | ClusterAddress | None,
    store_url: str | None,
) -> None:
    """Make the remaining runs of a campaign; see `Lab.resume_campaign`."""
    parallel, lanes = host.farm().parallel, paired_lanes(host)
    with publish_status(host.store, "campaign", notify, campaign.plan.id) as publisher:
        if cluster is not None:
            from edgebench.host.campaign.cluster.lanes import cluster_lanes

            lanes = cluster_lanes(
                ClusterAddress.of(cluster), campaign.journal, host.store, publisher, store_url
            )
            parallel = MAX_PARALLEL_LANES
        make_runs(
            campaign.journal,
            host.store,
            lanes,
            notify=publisher,
            cancellation=cancellation,
            parallel=parallel,
        )
