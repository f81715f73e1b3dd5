"""Where a meter measures: which of its channels add up to what, and what is inside."""

from __future__ import annotations

from dataclasses import dataclass

from edgebench.meters.base import Header
from edgebench.meters.rails import TOTAL
from edgebench.protocol.errors import MeasurementError

WIDEST_FIRST = ("wall", "board", "platform", "module", "battery", "package")
"""Boundaries of which a device has one each, or some that add up."""
_PARTS = ("rail",)
"""A channel of this boundary alone says nothing about the device."""


@dataclass(frozen=True, slots=True)
class Site:
    """The channels whose sum is a device's energy."""

    channels: tuple[str, ...]
    boundary: str

    @property
    def name(self) -> str:
        """For people."""
        return " + ".join(self.channels)


def site_of(header: Header) -> Site:
    """The widest thing that a meter measures whole.

    Raises:
        MeasurementError: it measures parts, and nobody knows of what.
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
