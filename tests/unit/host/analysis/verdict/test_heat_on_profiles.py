"""Quick sets on slowed devices of real profiles: none is plainly valid."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from support.hot_runs import Device
from support.hot_sets import BEGINS_S, RUN_S, quick_set

from edgebench.agent.expectation import expect
from edgebench.device_profiles.load import find_profile
from edgebench.host.result.run_set import RunSet
from edgebench.host.result.verdict import State
from edgebench.protocol.thermal import Expectation
from edgebench.simulation.controllers import Effect
from edgebench.simulation.heat import Body

SEEDS = range(2)
"""With 40, the same: no slowed set is plainly valid."""
AT_AMBIENT = Body(
    junction_k_per_w=0.01, junction_j_per_k=500.0, case_k_per_w=0.01, case_j_per_k=500.0
)
"""A device whose temperature is that of its surroundings, which the test chooses."""
SLOWED, DRIFT = 0.85, 0.04


@dataclass(frozen=True, slots=True)
class Board:
    """What a device of a profile reports while it is slowed."""

    profile: str
    zone: str
    temp_c: float
    """A degree below its throttle temperature, within the hysteresis, if heat slows it."""
    policy: int
    freq_hz: float
    trip_c: float | None = None
    """Trip point that the device itself reports."""


BOARDS = (
    Board("raspberrypi-4b", "cpu-thermal", 79.0, 0, 1.8e9),
    Board("raspberrypi-5", "cpu-thermal", 79.0, 0, 2.4e9),
    Board("rock-5b", "bigcore0-thermal", 84.0, 4, 2.4e9),
    Board("jetson-orin-nano-devkit", "tj-thermal", 98.0, 0, 1.728e9, trip_c=99.0),
    Board("google-pixel-8", "VIRTUAL-SKIN", 38.0, 8, 2.91e9, trip_c=39.0),
    Board("intel-n100", "x86_pkg_temp", 70.0, 0, 3.4e9),
    Board("generic-arm64", "cpu-thermal", 84.0, 0, 1.8e9, trip_c=85.0),
)


def in_all_runs(time_s: float) -> float:
    """Clock of a device that is throttled from the start."""
    return SLOWED


def after_the_first(time_s: float) -> float:
    """Clock of a device that throttles once the first run has ended."""
    return 1.0 if time_s < BEGINS_S[0] + RUN_S else SLOWED


def within_runs(time_s: float) -> float:
    """Clock of a device that slows down in each run, and recovers while the next is launched."""
    since_s = min((time_s - begin_s for begin_s in BEGINS_S if time_s >= begin_s), default=0.0)
    return 1 - DRIFT * since_s / RUN_S if since_s < RUN_S else 1.0


@dataclass(slots=True)
class Scheduled:
    """A clock that depends on the time alone."""

    clock: Callable[[float], float]

    def act(self, time_s: float, junction_c: float, busy: float = 1.0) -> Effect:
        """The clock at a time, which the device reports."""
        clock = self.clock(time_s)
        return Effect(clock=clock, told_clock=clock)


def measured(
    board: Board, clock: Callable[[float], float], seed: int, *, has_clock: bool
) -> RunSet:
    """Return a quick set on the board."""
    trip = {} if board.trip_c is None else {f"thermal.{board.zone}.0.throttle_c": board.trip_c}
    device = Device(
        controller=Scheduled(clock),
        body=AT_AMBIENT,
        ambient_c=board.temp_c,
        has_cpufreq=has_clock,
        zone=board.zone,
        policy=board.policy,
        freq_hz=board.freq_hz,
        constants=trip,
    )
    return quick_set(device, expectation(board.profile), seed=seed)


def expectation(name: str) -> Expectation:
    """Return the expectation of a profile."""
    profile = find_profile(name)
    assert profile is not None
    return expect(profile, Path("/nonexistent"))


@pytest.mark.parametrize("has_clock", [True, False])
@pytest.mark.parametrize("clock", [in_all_runs, after_the_first, within_runs])
@pytest.mark.parametrize("board", BOARDS, ids=lambda board: board.profile)
def test_slowed_set_is_not_plainly_valid(
    board: Board, clock: Callable[[float], float], has_clock: bool
) -> None:
    """Otherwise the README's first command would call the numbers of a throttled board valid."""
    found = [measured(board, clock, seed, has_clock=has_clock) for seed in SEEDS]
    plain = [one for one in found if one.verdict.state is State.VALID and not one.verdict.unwatched]
    assert plain == []


@pytest.mark.parametrize("board", BOARDS, ids=lambda board: board.profile)
def test_cool_set_at_full_clock_is_valid(board: Board) -> None:
    """Otherwise every set would be suspect, and the test above would show nothing."""
    cool = replace(board, temp_c=board.temp_c - 15.0)
    found = [measured(cool, lambda _: 1.0, seed, has_clock=True) for seed in SEEDS]
    assert any(one.verdict.state is State.VALID for one in found)
