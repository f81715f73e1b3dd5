"""A meter beside a board that pulses: what an LPM01A sends of known windows, by its bytes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from edgebench.host.store.power import write_blocks
from edgebench.host.store.power_file import PowerFile
from edgebench.meters.base import Header, MeterInfo, Packet
from edgebench.meters.lpm01a.datasheet import capability, uncertainty
from edgebench.meters.lpm01a.decoder import Lpm01aDecoder
from edgebench.meters.lpm01a.settings import EventEdge, Lpm01aSettings, Lpm01aSetup
from edgebench.protocol.plain import to_plain
from support.lpm01a import Faults, stream_bytes

Floats = NDArray[np.float64]
RATE_HZ = 1000
ACTIVE_W, IDLE_W = 0.010, 0.001
STEP_J = 1e-8
"""Step of the meter's text for 10 µJ, four digits."""
SETUP = Lpm01aSetup(rate_hz=RATE_HZ, is_energy=True, is_ascii=True, events=EventEdge.FALLING)


def sampled_j(edges_s: Floats, chance: np.random.Generator, gain: float = 1.0) -> Floats:
    """Energy of each sample, J, of a board that is active between these edges, shape (windows, 2).

    The recording begins at second 0 of the meter's clock, and ends two seconds behind the last.
    """
    last_s = float(edges_s[-1, 1])
    ends_s = np.arange(int((last_s + 2) * RATE_HZ) + 1) / RATE_HZ
    bounds_s = np.concatenate([[0.0], edges_s.reshape(-1), [last_s + 10]])
    powers_w = np.resize([IDLE_W, ACTIVE_W], len(bounds_s) - 1)
    passed_j = np.concatenate([[0.0], np.cumsum(np.diff(bounds_s) * powers_w)])
    samples_j = np.diff(np.interp(ends_s, bounds_s, passed_j))
    noisy_j = samples_j * gain + chance.normal(0, 2e-8, len(samples_j))
    rounded_j: Floats = np.rint(noisy_j / STEP_J) * STEP_J
    return rounded_j


def lpm01a_recording(energies_j: Floats, pulses_s: Sequence[float], folder: Path) -> PowerFile:
    """Recording of these samples, with a falling edge at these seconds."""
    records = tuple(
        (int(one * RATE_HZ), b"event %02d fal\r\n" % number)
        for number, one in enumerate(sorted(pulses_s))
    )
    data = stream_bytes(energies_j, rate_hz=RATE_HZ, is_ascii=True, faults=Faults(records=records))
    settings = Lpm01aSettings(setup=SETUP, supply_v=3.3)
    meter = Header(
        driver="lpm01a",
        info=MeterInfo(vendor="STMicroelectronics", model="X-NUCLEO-LPM01A", serial="7"),
        capability=capability("lpm01a", SETUP, "7"),
        uncertainty=uncertainty(SETUP, 3.3),
        facts=to_plain(settings),
    )
    decoder = Lpm01aDecoder(settings)
    blocks = [*decoder.feed(Packet(0, 1, data)), *decoder.finish()]
    # Everything came at once here: nothing is known of its rate.
    loss = replace(decoder.loss(), rate_error_ppm=None, rate_span_s=None)
    write_blocks(folder, meter, blocks, lambda: loss)
    return PowerFile.open(folder)
