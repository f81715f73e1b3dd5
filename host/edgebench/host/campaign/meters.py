"""Check that the meter of a campaign is available, before the first run begins."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

from edgebench.host.bench.host import BenchHost
from edgebench.host.campaign.plan import CampaignPlan
from edgebench.host.campaign.requests import CellRequests
from edgebench.host.power.metering import FARM_METER, OpenMeter, is_of_host
from edgebench.protocol.errors import EdgebenchError, MeterNotServed, UsageError

MAX_ASKED = 8
"""Maximum number of devices that are queried in parallel; most respond within milliseconds."""


def refuse_unserved(plan: CampaignPlan, requests: CellRequests, host: BenchHost) -> None:
    """Check the meter on every device before the first run begins.

    A device that does not respond is skipped; its lane checks the meter once the device responds.

    Raises:
        MeterNotServed: an agent does not serve the meter; the message names all such devices.
        UsageError: the meter of a device cannot set the supply voltage of a cell.
    """
    if plan.spec.settings.meter is None:
        return

    def refusal(name: str) -> MeterNotServed | None:
        known, wired = host.find(name)
        # Every cell, because a meter may not be able to set all supply voltages.
        cells = [cell for cell in plan.cells if cell.device == name]
        energy, *_ = [requests.of(cell).on_device(name, wired).energy for cell in cells]
        if energy is None or is_of_host(energy.meter):
            return None
        try:
            with host.connect(known) as client:
                OpenMeter.of(energy).require_served(client.describe(), name)
        except MeterNotServed as refused:
            return refused
        except EdgebenchError:
            return None
        return None

    with ThreadPoolExecutor(MAX_ASKED) as pool:
        refusals = dict(zip(plan.devices, pool.map(refusal, plan.devices), strict=True))
    names = [name for name, refused in refusals.items() if refused is not None]
    first = next(filter(None, refusals.values()), None)
    if first is None:
        return
    others = f"; the meter is also missing on {', '.join(names[1:])}" if names[1:] else ""
    raise MeterNotServed(f"{first}{others}", first.meter, meant=first.meant)


def refuse_own_meter(meter: str | None) -> None:
    """Reject a meter of the coordinator, because the devices are attached to other hosts.

    Raises:
        UsageError: the setting names a meter of the host instead of `farm` or an agent's meter.
    """
    if meter is not None and meter != FARM_METER and is_of_host(meter):
        raise UsageError(
            "a campaign over several lab hosts must set "
            f'meter = "{FARM_METER}" to use the meters in their farm files, got {meter!r}'
        )
