"""Channels of a meter that add up to the device's power, and channels that measure its parts.

The power of the parts may not exceed the power of the whole. On some Jetson Nanos, rails have
swapped names. It cannot be determined which rail is which, so no energy is reported. A processor's
`psys` counter does not change if the board maker did not connect it. The reported energy is then
that of the packages.

Source: jetson_stats, forum logs with POM_5V_GPU above POM_5V_IN; energymon, jetson/README (which
rails of a Jetson are on its module and which on the carrier board)
"""

from __future__ import annotations

import logging
from dataclasses import dataclass

import numpy as np

from edgebench.host.analysis.energy.power_trace import PowerTrace
from edgebench.host.analysis.energy.refusal import EnergyRefused
from edgebench.host.result.reasons import energy as reasons
from edgebench.meters.base import Header
from edgebench.meters.jetson import PARTS_LIMIT_RATIO, parts_of
from edgebench.meters.rails import TOTAL

WIDEST_FIRST = ("wall", "board", "platform", "module", "battery", "package")
"""Boundaries that contain a whole device, widest first. The packages of a device are summed."""
logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Site:
    """Channels whose sum is a device's energy."""

    channels: tuple[str, ...]
    boundary: str

    @property
    def name(self) -> str:
        """Display name, such as `package-0 + package-1`."""
        return " + ".join(self.channels)


def site_of(header: Header) -> Site:
    """Widest boundary that a meter measures completely.

    Raises:
        MeasurementError: the meter measures only rails, and which of them add up is unknown.
    """
    channels = header.capability.channels
    boundary_of = {channel.name: channel.boundary for channel in channels}
    if total := header.facts.get(TOTAL):
        names = tuple(str(name) for name in total)
        boundaries = {boundary_of.get(name, "rail") for name in names}
        return Site(names, boundaries.pop() if len(boundaries) == 1 else "sum of rails")
    for boundary in WIDEST_FIRST:
        inside = tuple(name for name, has in boundary_of.items() if has == boundary)
        if inside:
            # Packages add up; for other boundaries, a second channel measures the same power.
            return Site(inside if boundary == "package" else inside[:1], boundary)
    # A rail does not cover a device when it is measured alone.
    if len(channels) == 1 and channels[0].boundary != "rail":
        return Site((channels[0].name,), channels[0].boundary)
    raise EnergyRefused(reasons.unknown_rails(rails=", ".join(boundary_of)))


def site_in(power: PowerTrace) -> Site:
    """Widest boundary that was measured completely and has at least the power of its parts.

    Raises:
        MeasurementError: `site_of` raises it, or the parts have a higher power than the whole.
    """
    site = site_of(power.header)
    # Channels inside the site; none of them is inside another.
    others = [
        channel for channel in power.header.capability.channels if channel.name not in site.channels
    ]
    if site.boundary == "platform":
        parts = tuple(channel.name for channel in others if channel.boundary == "package")
    elif not power.header.facts.get(TOTAL):
        parts = ()
    else:
        parts = parts_of([channel.name for channel in others], site.channels)
    if not parts:
        return site
    whole_w, parts_w = (
        sum(mean_power_w(power, name) for name in names) for names in (site.channels, parts)
    )
    if parts_w <= whole_w * PARTS_LIMIT_RATIO:
        return site
    if site.boundary == "platform":
        logger.warning(
            "%s is %.3g W, but %s inside it is %.3g W: the energy of the package is used",
            *(site.name, whole_w, " + ".join(parts), parts_w),
        )
        return Site(parts, "package")
    raise EnergyRefused(
        reasons.parts_above_whole(
            whole=site.name, whole_w=whole_w, parts=" + ".join(parts), parts_w=parts_w
        )
    )


def mean_power_w(power: PowerTrace, channel: str) -> float:
    """Mean power of a channel over the whole recording.

    Raises:
        MeasurementError: the channel has no value.
    """
    ends_ns = np.array(power.span_ns(channel))
    begin_j, end_j = power.cumulative_j(channel, ends_ns)
    return float(end_j - begin_j) * 1e9 / max(float(ends_ns[1] - ends_ns[0]), 1.0)
