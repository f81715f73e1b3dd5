"""The detector against simulated devices: what slowed them down is named, and nothing else is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from support.hot_runs import (
    BARE_BOARD,
    LINUX,
    RASPBERRY_PI,
    Device,
    Load,
    always,
    simulate,
)

from edgebench.agent.simulation.controllers import (
    BangBang,
    Fan,
    IdleInjection,
    Nothing,
    OverCurrent,
    PowerLimit,
    Progressive,
    StepWise,
    UnderVoltage,
)
from edgebench.host.analysis.throttling import (
    ThermalState,
    Throttling,
    find_throttling,
)
from edgebench.protocol.thermal import Expectation

SEEDS = range(20)
COOLED = replace(BARE_BOARD, case_k_per_w=1.5)
TRIP = {"thermal.cpu-thermal.0.throttle_c": 85.0}


def pi(controller: Progressive | BangBang | UnderVoltage) -> Device:
    """A Raspberry Pi: only its firmware tells."""
    return Device(controller=controller, has_firmware=True)


def bursts(time_s: float) -> float:
    """Two seconds of work, two of nothing."""
    return 1.0 if time_s % 4 < 2 else 0.0


def seldom(time_s: float) -> float:
    """A fifth of the time."""
    return 0.2


Case = tuple[Callable[[int], Device], Expectation, float, Load, str]

THROTTLED: dict[str, Case] = {
    "sustained throttling": (lambda _: pi(Progressive()), RASPBERRY_PI, 480.0, always, "thermal"),
    "oscillation of a 3B+": (
        lambda _: pi(BangBang()),
        replace(RASPBERRY_PI, zones=(replace(RASPBERRY_PI.zones[0], throttle_c=60.0),)),
        240.0,
        always,
        "thermal",
    ),
    "idle injection that is told": (
        lambda _: Device(
            controller=IdleInjection(), busy_w=6.0, cooling="thermal-idle-0", constants=TRIP
        ),
        LINUX,
        480.0,
        always,
        "thermal",
    ),
    "idle injection with a flat frequency": (
        lambda _: Device(controller=IdleInjection(is_told=False), busy_w=6.0, constants=TRIP),
        LINUX,
        480.0,
        always,
        "hidden",
    ),
    "steps of the kernel": (
        lambda _: Device(controller=StepWise(), busy_w=6.0, constants=TRIP),
        LINUX,
        480.0,
        always,
        "thermal",
    ),
    "power limit": (
        lambda _: Device(controller=PowerLimit(), body=COOLED, constants=TRIP),
        LINUX,
        180.0,
        always,
        "power_limit",
    ),
    "under-voltage": (
        lambda seed: replace(pi(UnderVoltage(seed)), body=COOLED),
        RASPBERRY_PI,
        180.0,
        always,
        "undervoltage",
    ),
    "over-current": (
        lambda seed: Device(controller=OverCurrent(seed), body=COOLED, constants=TRIP),
        LINUX,
        180.0,
        always,
        "overcurrent",
    ),
}
UNDISTURBED: dict[str, Case] = {
    "cooled": (
        lambda _: Device(controller=Fan(), cooling="pwm-fan", constants=TRIP),
        LINUX,
        480.0,
        always,
        "",
    ),
    "bursts": (
        lambda _: Device(controller=Nothing(), body=COOLED, constants=TRIP),
        LINUX,
        240.0,
        bursts,
        "",
    ),
    "migration to little cores": (
        lambda _: Device(
            controller=Nothing(), body=COOLED, constants=TRIP, little_from_s=(60.0, 120.0)
        ),
        LINUX,
        180.0,
        always,
        "",
    ),
    "governor that idles": (
        lambda _: Device(controller=Nothing(), body=COOLED, constants=TRIP),
        LINUX,
        180.0,
        seldom,
        "",
    ),
}


def found(case: Case, seed: int) -> Throttling:
    """What the detector says of a run."""
    make, expected, seconds, load, _ = case
    made = simulate(make(seed), seconds=seconds, seed=seed, load=load)
    return find_throttling(made.timeline, made.telemetry, expected)


@pytest.mark.parametrize("what", THROTTLED)
def test_cause_is_named_in_every_run(what: str) -> None:
    """A number is published that the device holds for three minutes only, or its cause is wrong."""
    answers = [found(THROTTLED[what], seed) for seed in SEEDS]
    assert [one.cause for one in answers] == [THROTTLED[what][4]] * len(SEEDS), answers[0]
    states = {ThermalState.THROTTLED, ThermalState.FREQUENCY_LIMITED}
    assert {one.state for one in answers} <= states
    for one in answers:
        assert one.onset_s is not None
        assert one.onset_s > 5
        assert one.throttled_ratio is not None
        assert one.throttled_ratio > 0


@pytest.mark.parametrize("what", UNDISTURBED)
def test_run_that_was_not_throttled_raises_no_alarm(what: str) -> None:
    """A governor that idles, or a thread that moves, is called throttling."""
    answers = [found(UNDISTURBED[what], seed) for seed in SEEDS]
    assert [one.verdict for one in answers] == ["not_throttled"] * len(SEEDS), answers
