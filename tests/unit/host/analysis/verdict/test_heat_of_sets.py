"""Quick sets on hot devices: what no single run of a second can show, the set shows or admits."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace

import pytest
from support.hot_runs import BARE_BOARD, INVOKE_S, LINUX, RASPBERRY_PI, Device
from support.hot_sets import quick_set

from edgebench.host.result.run_set import RunSet
from edgebench.host.result.verdict import State
from edgebench.protocol.thermal import Expectation
from edgebench.simulation.controllers import (
    Fan,
    IdleInjection,
    Nothing,
    PowerLimit,
    Progressive,
    StepWise,
)

SEEDS = range(int(os.environ.get("EDGEBENCH_TESTS_SEEDS", "3")))
"""With 40, the same: no slowed set is plainly valid (decision 0078)."""
COOLED = replace(BARE_BOARD, case_k_per_w=1.5)
TRIP = {"thermal.cpu-thermal.0.throttle_c": 85.0}
STEPS = Device(controller=StepWise(), busy_w=8.0, ambient_c=45.0, constants=TRIP)
HOT_S = 240.0
"""Work before the set, during which the uncooled devices below begin to throttle."""
SLOWER_RATIO = 1.04

Case = tuple[Callable[[], Device], Expectation]
THROTTLED: dict[str, Case] = {
    "Raspberry Pi": (
        lambda: Device(controller=Progressive(), ambient_c=45.0, busy_w=6.0, has_firmware=True),
        RASPBERRY_PI,
    ),
    "Linux board": (lambda: replace(STEPS, controller=StepWise()), LINUX),
    "no clock": (lambda: replace(STEPS, controller=StepWise(), has_cpufreq=False), LINUX),
    "no temperature": (lambda: replace(STEPS, controller=StepWise(), has_zone=False), LINUX),
    "neither": (
        lambda: replace(STEPS, controller=StepWise(), has_zone=False, has_cpufreq=False),
        LINUX,
    ),
    "hidden": (lambda: replace(STEPS, controller=IdleInjection(is_told=False)), LINUX),
    "unknown board": (lambda: replace(STEPS, controller=StepWise()), Expectation()),
    "power limit": (
        lambda: Device(controller=PowerLimit(turbo_s=10.0), body=COOLED, constants=TRIP),
        LINUX,
    ),
}
COOL: dict[str, Case] = {
    "fan": (lambda: Device(controller=Fan(), cooling="pwm-fan", constants=TRIP), LINUX),
    "heat sink": (lambda: Device(controller=Nothing(), body=COOLED, constants=TRIP), LINUX),
    "no clock": (
        lambda: Device(controller=Nothing(), body=COOLED, constants=TRIP, has_cpufreq=False),
        LINUX,
    ),
    "no temperature": (
        lambda: Device(controller=Nothing(), body=COOLED, has_zone=False),
        Expectation(),
    ),
}


def is_plainly_valid(found: RunSet) -> bool:
    """Whether the set is valid, and nothing is said about heat or clock."""
    return found.verdict.state is State.VALID and not found.verdict.unwatched


def slowest_ratio(found: RunSet) -> float:
    """Latency of the slowest run over that of the model at full speed."""
    return found.metrics["latency_ns.p50"].max / (INVOKE_S * 1e9)


@pytest.mark.parametrize("hot_s", [HOT_S, 60.0, 30.0])
@pytest.mark.parametrize("name", THROTTLED)
def test_set_on_a_throttled_device_is_not_plainly_valid(name: str, hot_s: float) -> None:
    """Otherwise the README's first command would print a board throttled by 15 % as valid."""
    make, expected = THROTTLED[name]
    found = [quick_set(make(), expected, seed=seed, hot_s=hot_s) for seed in SEEDS]
    slowed = [one for one in found if slowest_ratio(one) > SLOWER_RATIO]
    assert len(slowed) > 0.7 * len(SEEDS) or hot_s < HOT_S, len(slowed)
    assert [one for one in slowed if is_plainly_valid(one)] == []


@pytest.mark.parametrize("name", COOL)
def test_set_on_a_cool_device_is_valid_and_watched(name: str) -> None:
    """Otherwise every quick set would be suspect, or have a mark that nobody reads any more."""
    make, expected = COOL[name]
    found = [quick_set(make(), expected, seed=seed, hot_s=30.0) for seed in SEEDS]
    assert sum(one.verdict.state is State.VALID for one in found) >= 0.9 * len(SEEDS)
    assert not any("heat" in one.verdict.unwatched for one in found)
