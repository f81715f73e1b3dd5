"""Places of labgrid, without a labgrid; tests/loopback/test_labgrid.py uses a real labgrid."""

from __future__ import annotations

import sys

import pytest

from edgebench.host.devices.farm import Farm, LabgridTable
from edgebench.host.devices.labgrid import NO_PLACES, LabgridPlace, places_of, with_places
from edgebench.protocol.errors import PackagesMissing


def test_missing_library_is_a_doubt_with_the_command_that_installs_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Otherwise a user without gRPC could not measure with a colleague's farm file."""
    monkeypatch.setitem(sys.modules, "grpc", None)
    places = places_of(LabgridTable(coordinator="lab"), [])
    [doubt] = places.doubts
    assert isinstance(doubt, PackagesMissing)
    assert str(doubt) == (
        "cannot read labgrid places: grpc is not installed: pip install 'edgebench[labgrid]'"
    )


def test_farm_without_labgrid_is_as_it_was() -> None:
    """Otherwise every user would wait for a coordinator that they do not have."""
    farm = Farm()
    assert places_of(farm.labgrid, []) is NO_PLACES
    assert with_places(farm, NO_PLACES, []) is farm


def test_tags_that_cannot_be_labels_are_left_out() -> None:
    """Otherwise a tag with a colon would make every condition with a label an error."""
    tags = {"edgebench": "pi5", "board": "rpi5", "spare": "", "url": "http://x", "note": "a b"}
    assert LabgridPlace("p", tags).labels("edgebench") == ("board=rpi5", "spare")
