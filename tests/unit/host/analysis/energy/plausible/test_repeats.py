"""Values that stand still, or end at a range, in sources with and without noise."""

from __future__ import annotations

import numpy as np
import pytest

from edgebench.host.analysis.energy.integrate import Floats
from edgebench.host.analysis.energy.plausible.repeats import clipped_in, held_in
from edgebench.host.analysis.energy.plausible.texture import SampleRows, texture_of

COUNT = 8000
LOOP = slice(2000, 6000)


def powers(noise_w: float, step_w: float = 0.0, *, loop_w: float = 2.0, seed: int = 1) -> Floats:
    """Powers of a device that is idle, runs a loop and is idle, as read by a meter with noise."""
    chance = np.random.default_rng(seed)
    power_w = np.full(COUNT, 0.5)
    power_w[LOOP] = loop_w
    power_w += chance.normal(0, noise_w, COUNT)
    return np.rint(power_w / step_w) * step_w if step_w else power_w


def rows_of(power_w: Floats) -> SampleRows:
    """Samples with these powers, a millisecond apart."""
    return SampleRows(np.arange(len(power_w)) * 1_000_000, power_w)


def slow_drift(step_w: float) -> Floats:
    """Powers that drift through the steps of a meter, with noise below its steps."""
    chance = np.random.default_rng(2)
    drift_w = 2.0 + 0.3 * np.sin(np.arange(COUNT) / 900) + chance.normal(0, 0.2 * step_w, COUNT)
    rounded_w: Floats = np.rint(drift_w / step_w) * step_w
    return rounded_w


def new_once_a_second() -> Floats:
    """Powers of a meter that is polled ten times for each of its values."""
    return np.repeat(powers(5e-3)[:: COUNT // 800], 10)


GOOD = {
    "noise": powers(5e-3),
    "noise of a step": powers(1e-3, 1e-3),
    "noise of five steps": powers(5e-3, 1e-3),
    "noise below a step": powers(1e-4, 1e-3),
    "no noise": powers(0.0),
    "steps of 0.1 W": powers(0.02, 0.1),
    "loop at the middle of a step": powers(0.02, 0.1, loop_w=2.05),
    "a slow drift in steps": slow_drift(0.01),
    "new once a second": new_once_a_second(),
    "two levels in turn": np.where(np.arange(COUNT) % 2, 2.0, 0.5),
    "a phone that sleeps": np.where(np.arange(COUNT) % 400 < 200, 0.0, powers(5e-3)),
    "a hum": np.rint((2 + 0.1 * np.sin(np.arange(COUNT) / 6.4)) / 1e-3) * 1e-3,
}


@pytest.mark.parametrize("name", GOOD)
def test_good_sources_are_not_suspicious(name: str) -> None:
    """Otherwise a coarse or steady meter would be refused because it repeats its values."""
    rows = rows_of(GOOD[name])
    assert not held_in(rows, is_end=True).any()
    assert not clipped_in([rows])[0].any()


@pytest.mark.parametrize("step_w", [0.0, 1e-3])
@pytest.mark.parametrize("count", [25, 50, 400])
def test_held_value_is_found_to_the_sample(step_w: float, count: int) -> None:
    """Otherwise a program that repeats its last value would pass as a steady load."""
    power_w = powers(5e-3, step_w)
    power_w[3000 : 3000 + count + 1] = power_w[3000]
    found = held_in(rows_of(power_w), is_end=True)
    assert abs(int(found.sum()) - count) <= 1
    assert found[3001 : 3000 + count].all()


def test_source_that_stops_before_the_end_is_found() -> None:
    """Otherwise the rest of a run would have the last value of a meter that was unplugged."""
    power_w = powers(5e-3)
    power_w[5000:] = power_w[4999]
    assert held_in(rows_of(power_w), is_end=True)[5000:].all()


def test_end_of_a_range_is_found_in_the_loop_alone() -> None:
    """Otherwise 10 % of the energy would be missing, with an uncertainty of 0.1 %."""
    power_w = np.minimum(powers(5e-3), 1.8)
    [found] = clipped_in([rows_of(power_w)])
    assert found[LOOP].all()
    assert found.sum() == LOOP.stop - LOOP.start


def test_loop_that_fills_a_part_is_compared_with_the_noise_of_another() -> None:
    """Otherwise a long clipped loop would have no noise, and look like a steady load."""
    power_w = np.minimum(powers(5e-3), 1.8)
    parts = [rows_of(power_w[:1500]), rows_of(power_w[LOOP])]
    before, loop = clipped_in(parts)
    assert not before.any()
    assert loop.all()


def test_texture_counts_equal_samples() -> None:
    """Otherwise a part with a held value would not be read."""
    texture = texture_of(rows_of(np.array([1.0, 2.0, 2.0, 2.0, 1.0])))
    assert texture is not None
    assert (texture.longest_repeat, texture.highest, texture.at_highest_count) == (3, 2.0, 3)
    assert texture_of(rows_of(np.zeros(0))) is None


def test_repeat_counts_only_if_all_quantities_repeat() -> None:
    """Otherwise a steady current on a supply that is measured would be a held value."""
    rows = SampleRows(
        np.arange(4), np.full(4, 2.0), np.full(4, 1.0), np.array([2.0, 2.1, 2.0, 2.0])
    )
    texture = texture_of(rows)
    assert texture is not None
    assert texture.longest_repeat == 2
    assert texture.product_w == pytest.approx(2.025)
