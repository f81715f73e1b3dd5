"""Which channels of a meter are the device."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.energy import header

from edgebench.host.analysis.site import WIDEST_FIRST, site_of
from edgebench.meters.base import Channel, Header
from edgebench.meters.rails import TOTAL
from edgebench.protocol.errors import MeasurementError

OTHERS = ("rail", "synthetic", "supply of the device, as wired")
channels = st.lists(
    st.builds(
        Channel, st.text("abcdef", min_size=1, max_size=3), st.sampled_from(WIDEST_FIRST + OTHERS)
    ),
    min_size=1,
    max_size=6,
    unique_by=lambda channel: channel.name,
)


def meter(measured: Sequence[Channel], total: Sequence[str] = ()) -> Header:
    """One that measures these."""
    return header(*measured, facts={TOTAL: list(total)} if total else {})


@given(channels)
def test_widest_boundary_is_taken_once(measured: list[Channel]) -> None:
    """A processor is added to the board that it is on, or taken for the board."""
    boundaries = {channel.boundary for channel in measured}
    widest = next((one for one in WIDEST_FIRST if one in boundaries), None)
    is_one_part = len(measured) == 1 and boundaries != {"rail"}
    if widest is None and not is_one_part:
        with pytest.raises(MeasurementError, match="nobody knows which of these rails add up"):
            site_of(meter(measured))
        return
    found = site_of(meter(measured))
    assert found.boundary == (widest or measured[0].boundary)
    inside = [channel.name for channel in measured if channel.boundary == found.boundary]
    assert list(found.channels) == (inside if widest == "package" else inside[:1])
    assert found.name == " + ".join(found.channels)


@given(channels, st.data())
def test_driver_that_knows_its_rails_decides(measured: list[Channel], data: st.DataObject) -> None:
    """A rail that the driver left out, since another one feeds it, is counted twice."""
    names = [channel.name for channel in measured]
    total = data.draw(st.lists(st.sampled_from(names), min_size=1, unique=True))
    found = site_of(meter(measured, total))
    assert list(found.channels) == total
    boundaries = {channel.boundary for channel in measured if channel.name in total}
    expected = boundaries.pop() if len(boundaries) == 1 else "sum of rails"
    assert found.boundary == expected
