"""Which channels of a meter belong to the device."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.energy import SECOND_NS, header, recorded

from edgebench.host.analysis.energy.site import WIDEST_FIRST, Site, site_in, site_of
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
    """Return a meter that measures these channels."""
    return header(*measured, facts={TOTAL: list(total)} if total else {})


@given(channels)
def test_widest_boundary_is_taken_once(measured: list[Channel]) -> None:
    """Otherwise a processor would be added to the board that it is on, or taken for the board."""
    boundaries = {channel.boundary for channel in measured}
    widest = next((one for one in WIDEST_FIRST if one in boundaries), None)
    is_one_part = len(measured) == 1 and boundaries != {"rail"}
    if widest is None and not is_one_part:
        with pytest.raises(MeasurementError, match="which of these rails supply the device"):
            site_of(meter(measured))
        return
    found = site_of(meter(measured))
    assert found.boundary == (widest or measured[0].boundary)
    inside = [channel.name for channel in measured if channel.boundary == found.boundary]
    assert list(found.channels) == (inside if widest == "package" else inside[:1])
    assert found.name == " + ".join(found.channels)


@given(channels, st.data())
def test_driver_that_knows_its_rails_decides(measured: list[Channel], data: st.DataObject) -> None:
    """Otherwise a rail that the driver left out, as another rail feeds it, would count twice."""
    names = [channel.name for channel in measured]
    total = data.draw(st.lists(st.sampled_from(names), min_size=1, unique=True))
    found = site_of(meter(measured, total))
    assert list(found.channels) == total
    boundaries = {channel.boundary for channel in measured if channel.name in total}
    expected = boundaries.pop() if len(boundaries) == 1 else "sum of rails"
    assert found.boundary == expected


def site_when(
    directory: Path, powers_w: Mapping[Channel, float], total: Sequence[str] = ()
) -> Site:
    """Return the site of a recording in which each channel takes this power all the time."""
    time_ns = np.arange(0, 2 * SECOND_NS, SECOND_NS // 50)
    powers = [np.full(len(time_ns), power_w) for power_w in powers_w.values()]
    return site_in(recorded(directory, time_ns, *powers, of=meter(list(powers_w), total)))


PSYS, PACKAGES = Channel("psys", "platform"), [Channel(f"package-{n}", "package") for n in (0, 1)]
IN, GPU = Channel("POM_5V_IN", "module"), Channel("POM_5V_GPU", "rail")
CPU, BESIDE = Channel("POM_5V_CPU", "rail"), Channel("VDD_MUX", "rail")


def test_platform_that_stands_still_is_not_the_device(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Otherwise a laptop of 0 W in all and 15 W in its processor would take 0 J per run."""
    caplog.set_level(logging.WARNING)
    found = site_when(tmp_path, {PACKAGES[0]: 10.0, PACKAGES[1]: 5.0, PSYS: 0.0})
    assert found == Site(("package-0", "package-1"), "package")
    assert "psys is 0 W, but package-0 + package-1 inside it is 15 W" in caplog.text


@pytest.mark.parametrize("power_w", [14.5, 15.0, 40.0])
def test_platform_that_counts_is_the_device(tmp_path: Path, power_w: float) -> None:
    """Otherwise two counters that differ within their tolerance would change the site per run."""
    assert site_when(tmp_path, {PACKAGES[0]: 15.0, PSYS: power_w}).channels == ("psys",)


def test_rails_with_wrong_names_are_refused_with_both_powers(tmp_path: Path) -> None:
    """Otherwise the GPU's rail, called the input, would be the energy of the whole board."""
    with pytest.raises(MeasurementError) as refused:
        site_when(tmp_path, {GPU: 7.5, IN: 1.5, CPU: 2.0}, [IN.name])
    assert str(refused.value) == (
        "POM_5V_IN is 1.5 W, but includes POM_5V_GPU + POM_5V_CPU, which is 9.5 W: the names "
        "of the rails are wrong"
    )


def test_rails_beside_the_total_are_no_parts_of_it(tmp_path: Path) -> None:
    """Otherwise a carrier board that takes more than its module would void the module's energy."""
    powers_w = {IN: 3.0, GPU: 1.0, CPU: 1.0, BESIDE: 8.0}
    assert site_when(tmp_path, powers_w, [IN.name]).channels == (IN.name,)
