"""The request of each cell of a campaign, equivalent to a request of `edgebench bench`."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, cast

from edgebench.host.bench.builtin import find_model
from edgebench.host.bench.request import BenchOptions, BenchRequest, new_request
from edgebench.host.campaign.plan import CampaignPlan, Cell
from edgebench.host.campaign.spec import Settings
from edgebench.protocol.errors import FileChanged


class CellRequests:
    """The request of each cell; cells that differ only in the device share a request."""

    def __init__(self, plan: CampaignPlan) -> None:
        """Build the requests of all cells, so that their errors are found before any measurement.

        Raises:
            UsageError: a file cannot be read, or settings contradict each other.
            FileChanged: a model changed since the plan was made.
        """
        for name, sha256 in plan.digests.items():
            if find_model(name).sha256 != sha256:
                raise FileChanged(f"model changed since the campaign was planned: {name}")
        self._spec = plan.spec
        self._made: dict[tuple[Any, ...], BenchRequest] = {}
        for cell in plan.cells:
            self.of(cell)

    def of(self, cell: Cell) -> BenchRequest:
        """The request of a cell, without its device."""
        key = tuple(level for name, level in cell.factors.items() if name != "device")
        if key not in self._made:
            self._made[key] = cell_request(self._spec.settings, self._spec.repeats, cell)
        return self._made[key]


def cell_request(settings: Settings, repeats: int, cell: Cell) -> BenchRequest:
    """The request of a cell, without its device.

    Raises:
        UsageError: a file cannot be read, or settings contradict each other.
    """
    levels = {name: level for name, level in cell.levels.items() if level is not None}
    options = cast("BenchOptions", {**settings.given(), **levels, "runs": repeats})
    request = new_request([cell.model], **options)
    # Drop the reference model, which comes first: it is measured only if it is a cell, too. The
    # request has no command, because no `bench` command makes the runs of a cell.
    return replace(request, models=request.models[-1:], command=None)
