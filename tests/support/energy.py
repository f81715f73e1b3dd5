"""Made-up recordings of power in the store, and matching statements of a run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgebench.host.store.power import write_blocks
from edgebench.host.store.power_file import PowerFile
from edgebench.meters.arrival import ArrivalEnvelope
from edgebench.meters.base import Capability, Channel, Header, LossReport, MeterInfo, SampleBlock
from edgebench.meters.polled import HOST_CLOCK
from edgebench.meters.uncertainty import Kind, Origin, UncertaintyTerm, Unit
from edgebench.protocol.record import Event

SECOND_NS = 1_000_000_000
SUPPLY_V = 3.3
GAIN = UncertaintyTerm(kind=Kind.GAIN, value=0.03, unit=Unit.RATIO, origin=Origin.DATASHEET)
OFFSET = UncertaintyTerm(kind=Kind.OFFSET, value=1e-3, unit=Unit.AMPERE)
RESOLUTION = UncertaintyTerm(kind=Kind.RESOLUTION, value=1e-9, unit=Unit.WATT, is_common=False)
"""Step of a meter whose values are exact; otherwise one would be estimated from the few powers of
a made-up recording."""
NOISE = UncertaintyTerm(kind=Kind.NOISE, value=1e-3, unit=Unit.WATT, is_common=False)


def header(
    *channels: Channel,
    clock: str = HOST_CLOCK,
    rate_hz: float = 1000.0,
    facts: dict[str, Any] | None = None,
    **capability: Any,
) -> Header:
    """A meter that samples instants, unless specified otherwise."""
    values: dict[str, Any] = {
        "is_uniform": True,
        "is_averaging": False,
        "loss_detection": "counter",
    }
    return Header(
        driver="synthetic",
        info=MeterInfo(vendor="Example", model="Meter", serial="7"),
        capability=Capability(
            driver="synthetic",
            channels=channels or (Channel("supply", "board"),),
            rate_hz=rate_hz,
            clock_domain=clock,
            **(values | capability),
        ),
        uncertainty=(GAIN, OFFSET, NOISE, RESOLUTION),
        facts={"supply_v": SUPPLY_V} if facts is None else facts,
    )


def recorded(
    directory: Path,
    time_ns: NDArray[np.int64],
    *powers_w: NDArray[np.float64],
    of: Header | None = None,
    loss: LossReport | None = None,
    arrivals: ArrivalEnvelope | None = None,
    digital: NDArray[np.uint8] | None = None,
) -> PowerFile:
    """A recording of these powers, one a channel, in the store's own file."""
    meter = of or header()
    blocks = [
        SampleBlock(
            channel=channel,
            index0=0,
            time_ns=time_ns,
            power_w=power_w,
            flags=np.zeros(len(time_ns), np.uint8),
            digital=digital,
        )
        for channel, power_w in enumerate(powers_w)
    ]
    report = loss or LossReport(received_count=len(time_ns))
    write_blocks(directory, meter, blocks, lambda: report, arrivals)
    return PowerFile.open(directory)


def events(*named: tuple[str, float]) -> tuple[Event, ...]:
    """By kind and second."""
    return tuple(Event(round(second * SECOND_NS), kind) for kind, second in named)


def steps(time_ns: NDArray[np.int64], levels: Sequence[tuple[float, float]]) -> NDArray[np.float64]:
    """Power that takes each of these values from that second on."""
    begins = np.array([second for second, _ in levels]) * SECOND_NS
    values = np.array([value for _, value in levels])
    found: NDArray[np.float64] = values[np.searchsorted(begins, time_ns, side="right") - 1]
    return found


def with_term(meter: Header, *terms: UncertaintyTerm) -> Header:
    """The meter with this uncertainty and no other."""
    return replace(meter, uncertainty=terms)
