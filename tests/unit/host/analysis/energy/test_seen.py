"""Errors of a meter with several channels, estimated from its trace."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from support.energy import SECOND_NS, header

from edgebench.host.analysis.energy.seen import AlignedRun, idle_noise_w, look_at_meter
from edgebench.host.analysis.energy.sync.alignment import Alignment, ClockLine
from edgebench.host.analysis.energy.uncertainty import EnergyWindow, MeterErrors
from edgebench.host.result.energy import SyncMethod
from edgebench.host.store.power import write_blocks
from edgebench.host.store.power_file import PowerFile
from edgebench.meters.base import Channel, Floats, LossReport, SampleBlock

SAME = Alignment(SyncMethod.SHARED_CLOCK, ClockLine(0, 0.0), 0.0)
RATE_HZ = 1000.0
IDLES_NS = ((0, 2 * SECOND_NS), (8 * SECOND_NS, 10 * SECOND_NS))
LOOP_NS = (3 * SECOND_NS, 7 * SECOND_NS)
RUN = AlignedRun(alignment=SAME, idles_ns=IDLES_NS, loop_ns=LOOP_NS, inference_count=400)


def recorded(directory: Path, *channels_w: Floats) -> PowerFile:
    """A recording of means, of so many channels, by a driver that declares no errors."""
    names = [Channel(f"rail {number}", "rail") for number in range(len(channels_w))]
    of = header(*names, rate_hz=RATE_HZ, is_averaging=True)
    ends_ns = np.arange(1, len(channels_w[0]) + 1) * round(SECOND_NS / RATE_HZ)
    blocks = [
        SampleBlock(
            channel=number,
            index0=0,
            time_ns=ends_ns,
            begin_ns=ends_ns - round(SECOND_NS / RATE_HZ),
            power_w=power_w,
            flags=np.zeros(len(power_w), np.uint8),
        )
        for number, power_w in enumerate(channels_w)
    ]
    loss = LossReport(received_count=len(ends_ns))
    write_blocks(directory, replace(of, uncertainty=()), blocks, lambda: loss)
    return PowerFile.open(directory)


def course(noise_w: float, step_w: float = 0.0, hold: int = 1) -> Floats:
    """Ten seconds, active from 3 to 7 s, with noise, steps and repeated values."""
    power_w = np.where(np.arange(10_000) // 1000 % 10 < 3, 0.5, 2.0)
    power_w[7000:] = 0.5
    power_w = power_w + np.random.default_rng(1).normal(0, noise_w, len(power_w))
    if step_w:
        power_w = np.rint(power_w / step_w) * step_w
    values_w: Floats = power_w[np.arange(len(power_w)) // hold * hold]
    return values_w


@pytest.mark.parametrize("is_worst_first", [True, False])
def test_channel_with_the_largest_error_counts(tmp_path: Path, is_worst_first: bool) -> None:
    """Otherwise a noisy rail behind a quiet one would pass for a quiet meter."""
    channels_w = [course(1e-3), course(0.05)]
    power = recorded(tmp_path, *(channels_w[::-1] if is_worst_first else channels_w))
    names = ("rail 0", "rail 1")
    seen = look_at_meter(power, names, RUN)
    assert seen.noise_w == pytest.approx(0.05, rel=0.1)
    assert idle_noise_w(power, names, SAME.line, IDLES_NS) == pytest.approx(0.05, rel=0.1)


def test_steps_and_repeated_values_of_a_later_channel_count(tmp_path: Path) -> None:
    """Otherwise a rail in steps of 0.1 W, new every 20 ms, would have those of another rail."""
    channels_w = course(1e-3), course(0.02, step_w=0.1), course(0.05, hold=20)
    power = recorded(tmp_path, *channels_w)
    names = tuple(f"rail {number}" for number in range(3))
    seen = look_at_meter(power, names, RUN)
    assert [one.value for one in seen.terms] == [pytest.approx(0.05)]
    assert seen.update_s == pytest.approx(0.021, rel=0.1)


def test_noise_of_a_sum_is_that_of_independent_channels() -> None:
    """Otherwise the sum of four rails would be as quiet as one."""
    window = EnergyWindow(
        energy_j=20.0,
        duration_s=10.0,
        sample_count=100,
        supply_v=5.0,
        edge_power_w=(2.0, 2.0),
        noise_w=0.1,
    )
    one, four = (
        MeterErrors(()).gross_per_inference(replace(window, channel_count=count), 1)
        for count in (1, 4)
    )
    name = "noise of the window"
    assert four.components[name] == pytest.approx(2 * one.components[name])
