"""Which meter a run is asked to take, where the agent has it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import cast

import pytest

from edgebench.host.metering import Metering
from edgebench.protocol.device import SystemDescription
from edgebench.protocol.errors import MeterNotServed

FULL = "ppk2:/dev/ttyACM0,supply=3.3"


@pytest.mark.parametrize(
    ("wanted", "meant"), [("ppk2", FULL), ("ppk2:/dev/x", None), ("rap", None)]
)
def test_half_of_a_served_name_is_told_the_whole(wanted: str, meant: str | None) -> None:
    """Somebody writes agent:ppk2, and is told to start the agent as it was started."""
    metering = Metering(name=f"agent:{wanted}", meter=None, header=None)
    system = SimpleNamespace(device=SimpleNamespace(name="pi"), meters=(FULL, "rapl", "rapl:/x"))
    with pytest.raises(MeterNotServed) as refused:
        metering.require_served(cast("SystemDescription", system))
    assert refused.value.meant == meant
