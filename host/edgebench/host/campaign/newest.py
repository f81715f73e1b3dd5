"""Progress of the newest campaigns of a store, cached for repeated reads."""

from __future__ import annotations

from contextlib import suppress

from edgebench.host.campaign.campaign import Campaign
from edgebench.host.campaign.journal import Journal
from edgebench.host.result.campaign import CampaignProgress
from edgebench.host.store.layout import CAMPAIGNS_DIRECTORY, Store, names_in
from edgebench.protocol.errors import StoreError

MAX_CAMPAIGNS = 20


class NewestCampaigns:
    """Cached progress of campaigns; running or changed campaigns are read again."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._campaigns: dict[str, Campaign] = {}
        self._known: dict[str, tuple[object, CampaignProgress]] = {}
        """Maps the id of each campaign that is not running to the modification time and size of its
        journal, and to its progress."""

    def read(self) -> list[CampaignProgress]:
        """Progress of the newest campaigns, newest first; unreadable campaigns are left out.

        Raises:
            StoreError: the store cannot be read.
        """
        folder = self._store.root / CAMPAIGNS_DIRECTORY
        names = set(names_in(folder))
        for name in names - self._campaigns.keys():
            with suppress(StoreError):
                self._campaigns[name] = Campaign(self._store, name, Journal(folder / name))
        for name in self._campaigns.keys() - names:
            del self._campaigns[name]
        newest = sorted(self._campaigns.values(), key=lambda campaign: campaign.plan.created_utc)
        campaigns: list[CampaignProgress] = []
        for campaign in newest[: -MAX_CAMPAIGNS - 1 : -1]:
            with suppress(StoreError):
                campaigns.append(self._progress(campaign))
        return campaigns

    def _progress(self, campaign: Campaign) -> CampaignProgress:
        stamp, known = _stamp(campaign.journal), self._known.get(campaign.plan.id)
        is_running = campaign.is_running
        if known is not None and known[0] == stamp and not is_running:
            return known[1]
        progress = CampaignProgress(campaign.summary(), tuple(campaign.lanes()))
        if not is_running:
            self._known[campaign.plan.id] = stamp, progress
        return progress


def _stamp(journal: Journal) -> tuple[int, int] | None:
    """Modification time and size of a journal; None if it does not exist yet."""
    try:
        facts = journal.path.stat()
    except OSError:
        return None
    return facts.st_mtime_ns, facts.st_size
