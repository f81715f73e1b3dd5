"""Which lab host measures on a device, before and after a campaign is resumed."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import cast

from edgebench.host.bench.events import ignore_events
from edgebench.host.campaign.cluster.lab import DeviceOffer
from edgebench.host.campaign.cluster.lanes import (
    ClusterConnection,
    ClusterLanes,
    LabDescription,
    resumed_homes,
)
from edgebench.host.campaign.journal import DeviceAtLab, Journal, begin_journal
from edgebench.host.campaign.plan import CampaignPlan, new_plan
from edgebench.host.campaign.requests import CellRequests
from edgebench.host.campaign.run import CampaignWork
from edgebench.host.campaign.spec import Axes, CampaignSpec, Settings
from edgebench.host.store.layout import Store

DEVICE = "pi5"
SPEC = CampaignSpec(
    schema=1,
    name="nightly",
    axes=Axes(model=("digits_int8.tflite",)),
    settings=Settings(preset="quick"),
    lab_wait_s=0,
)


def place(lab: str, pin: str, seat: str = "") -> LabDescription:
    """Return a lab host that offers a device of the name."""
    offer = DeviceOffer(name=DEVICE, id="id", pin=pin, seat=seat)
    return LabDescription(lab, f"tcp://{lab}:1", "0", (offer,))


class Connected:
    """A connection to lab hosts, of which a test decides which are there."""

    def __init__(self, *labs: LabDescription) -> None:
        self.there: Sequence[LabDescription] = labs

    def labs(self) -> list[LabDescription]:
        """Return those that are there."""
        return list(self.there)


def lanes_over(labs: Connected, store: Store, plan: CampaignPlan, journal: Journal) -> ClusterLanes:
    """Return the lanes of a process that begins, or resumes, the campaign."""
    lanes = ClusterLanes(
        connection=cast(ClusterConnection, labs),
        journal=journal,
        store=store,
        plan=plan,
        requests=CellRequests(plan),
        homes=resumed_homes(journal),
    )
    work = CampaignWork(
        plan=plan,
        journal=journal,
        store=store,
        requests=lanes.requests,
        notify=ignore_events,
    )
    lanes.lane(DEVICE, work)
    return lanes


def measured_by(lanes: ClusterLanes) -> DeviceAtLab:
    """Return the lab host that opens a lane, as it is noted."""
    assert lanes.lab_of(DEVICE, ignore_events) is not None
    at = lanes.homes[DEVICE].at
    lanes.journal.note_lane(DEVICE, "measuring", at=at)
    return at


def test_resumed_lane_moves_to_the_same_device_only(tmp_path: Path) -> None:
    """Otherwise, after a restart, a campaign could measure on two devices of one name."""
    store = Store(tmp_path)
    plan = new_plan(SPEC, Path("campaign.toml"), lambda _: [DEVICE])
    journal = begin_journal(store, plan)
    labs = Connected(place("a", "11", "left"))
    at_a = DeviceAtLab("a", "11", "left")
    assert measured_by(lanes_over(labs, store, plan, journal)) == at_a
    resumed = lanes_over(labs, store, plan, journal)
    assert measured_by(resumed) == at_a
    journal.note_lane(DEVICE, "waiting", "no scheduler answers")
    for lanes in (resumed, lanes_over(labs, store, plan, journal)):
        lanes.homes[DEVICE].away_s = 0.0
        labs.there = [place("b", "22", "left"), place("c", "11", "right"), place("d", "11", "left")]
        assert measured_by(lanes) == DeviceAtLab("d", "11", "left")


def test_lab_of_a_device_says_which_one_it_is(tmp_path: Path) -> None:
    """Otherwise a board that was set up and paired again would be waited for until the end."""
    store = Store(tmp_path)
    plan = new_plan(SPEC, Path("campaign.toml"), lambda _: [DEVICE])
    journal = begin_journal(store, plan)
    journal.note_lane(DEVICE, "measuring", at=DeviceAtLab("a", "11"))
    lanes = lanes_over(Connected(place("a", "33"), place("b", "11")), store, plan, journal)
    assert measured_by(lanes) == DeviceAtLab("a", "33")
    assert lanes.homes[DEVICE].at.pin == "33"


def test_lab_host_that_returns_too_late_has_lost_the_lane(tmp_path: Path) -> None:
    """Otherwise a lab host that comes and goes would keep a device that another one can measure."""
    store = Store(tmp_path)
    plan = new_plan(SPEC, Path("campaign.toml"), lambda _: [DEVICE])
    journal = begin_journal(store, plan)
    journal.note_lane(DEVICE, "measuring", at=DeviceAtLab("b", "11"))
    lanes = lanes_over(Connected(place("a", "11"), place("b", "11")), store, plan, journal)
    assert measured_by(lanes) == DeviceAtLab("b", "11"), "it was never away"
    lanes.homes[DEVICE].away_s = 0.0
    assert measured_by(lanes) == DeviceAtLab("a", "11")
