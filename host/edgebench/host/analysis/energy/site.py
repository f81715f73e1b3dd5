"""Where a meter measures: which of its channels add up to the device, and what is inside them.

What is inside may not take more than the whole. On a Jetson Nano rails were seen with each other's
names, and there is no telling which is which: no energy. A processor's `psys` stands still where
the maker of the board did not wire it up: then its packages are what is measured.

Source: jetson_stats, forum logs with POM_5V_GPU above POM_5V_IN; energymon, jetson/README (which
rails of a Jetson are on its module, and which on the carrier board beside it)
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from edgebench.host.analysis.energy.power_trace import PowerTrace
from edgebench.meters.base import Header
from edgebench.meters.rails import TOTAL
from edgebench.protocol.errors import MeasurementError

WIDEST_FIRST = ("wall", "board", "platform", "module", "battery", "package")
"""Boundaries that a device has one of each, or several that add up."""
_PARTS = ("rail",)
"""Boundaries that say nothing about the device when measured alone."""
_PROCESSORS = {"CPU", "GPU", "SOC", "CV", "DDR"}
"""Words in names of rails that a Jetson's total feeds; others, as VDD_MUX of a TX2, may not be."""
PARTS_LIMIT_RATIO = 1.1
"""Share of the whole that its parts may seem to take: two channels differ by as much."""
logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Site:
    """Channels whose sum is a device's energy."""

    channels: tuple[str, ...]
    boundary: str

    @property
    def name(self) -> str:
        """Name for people."""
        return " + ".join(self.channels)


def site_of(header: Header) -> Site:
    """Widest boundary that a meter measures whole.

    Raises:
        MeasurementError: it measures parts, and it is unknown of what.
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
            # Packages add up; of any other, the second is another view of the same.
            return Site(inside if boundary == "package" else inside[:1], boundary)
    if len(channels) == 1 and channels[0].boundary not in _PARTS:
        return Site((channels[0].name,), channels[0].boundary)
    rails = ", ".join(boundary_of)
    raise MeasurementError(f"nobody knows which of these rails add up to the device: {rails}")


def site_in(power: PowerTrace) -> Site:
    """Widest boundary that was measured whole, and takes no less than what is inside it.

    Raises:
        MeasurementError: as `site_of`; or parts of it take more than all of it.
    """
    site = site_of(power.header)
    # Channels that are inside the site, none of them inside another.
    others = [one for one in power.header.capability.channels if one.name not in site.channels]
    if site.boundary == "platform":
        parts = tuple(one.name for one in others if one.boundary == "package")
    elif not power.header.facts.get(TOTAL):
        parts = ()
    else:
        parts = tuple(one.name for one in others if _PROCESSORS & set(one.name.split("_")))
    if not parts:
        return site
    whole_w, parts_w = (_mean_w(power, names) for names in (site.channels, parts))
    if parts_w <= whole_w * PARTS_LIMIT_RATIO:
        return site
    text = f"{site.name} is {whole_w:.3g} W, and {' + '.join(parts)} inside it {parts_w:.3g} W"
    if site.boundary == "platform":
        logger.warning("%s: the energy is that of the package", text)
        return Site(parts, "package")
    raise MeasurementError(f"{text}: the rails have wrong names")


def _mean_w(power: PowerTrace, names: Sequence[str]) -> float:
    """Mean power of these channels together, over the whole recording."""
    mean_w = 0.0
    for name in names:
        ends_ns = np.array(power.span_ns(name))
        begin_j, end_j = power.cumulative_j(name, ends_ns)
        mean_w += float(end_j - begin_j) * 1e9 / max(float(ends_ns[1] - ends_ns[0]), 1.0)
    return mean_w
