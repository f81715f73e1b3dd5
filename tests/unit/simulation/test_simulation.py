"""Simulated devices: heat against formulas and a real trace, and a tree that real parts read."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
from support.sampling import facts_of, last_values, sampling, wait_for_a_look
from support.simulated import keep_busy, machine

from edgebench.agent.cooldown import find_thermometer
from edgebench.agent.expectation import expect
from edgebench.agent.system import device_identity
from edgebench.agent.telemetry.job import SamplerJob
from edgebench.device_profiles.match import match_profile
from edgebench.protocol.errors import UsageError
from edgebench.simulation.boards import BARE_BOARD, BOARDS, SMALL_BOARD, find_board
from edgebench.simulation.controllers import (
    BangBang,
    Fan,
    IdleInjection,
    PowerLimit,
    Progressive,
    StepWise,
)
from edgebench.simulation.device import SimulatedDevice
from edgebench.simulation.heat import BoardHeat, Body, at_rest

PI_5_COOLING = ((30, 69.7), (60, 65.9), (180, 63.1), (300, 60.4), (600, 59.3))
"""A bare Raspberry Pi 5 after a compilation, from 85.1 °C; public observation."""


def test_rest_is_where_nothing_changes_any_more() -> None:
    """Otherwise a simulation would drift for ever, or contradict its resistances at the end."""
    heat = at_rest(BARE_BOARD, 25.0, 3.0)
    assert heat.case_c == pytest.approx(25 + 3 * 6)
    assert heat.junction_c == pytest.approx(25 + 3 * 6 + 3 * 4)
    heat.advance(1000.0, 3.0)
    assert heat.junction_c == pytest.approx(55.0, abs=1e-6)


def test_junction_follows_an_exponential() -> None:
    """Otherwise the integration would be too coarse, and temperatures would overshoot."""
    body = Body(junction_k_per_w=4.0, junction_j_per_k=5.0, case_k_per_w=1e-6, case_j_per_k=1e9)
    heat = BoardHeat(body, 25.0, 25.0, 25.0)
    for second in range(1, 60):
        heat.advance(1.0, 5.0)
        assert heat.junction_c == pytest.approx(25 + 20 * (1 - math.exp(-second / 20)), abs=0.05)


def test_bare_board_cools_as_a_real_one_does() -> None:
    """Otherwise the gate would be tested on a device that does not exist.

    One time constant would be too few.
    """
    heat = at_rest(BARE_BOARD, 25.0, 6.01)
    assert heat.junction_c == pytest.approx(85.1)
    now_s = 0.0
    for time_s, measured_c in PI_5_COOLING:
        heat.advance(time_s - now_s, 2.0)
        now_s = time_s
        assert heat.junction_c == pytest.approx(measured_c, abs=4.0)


def test_small_board_reaches_its_soft_limit_when_a_real_one_does() -> None:
    """Raspberry Pi 3B+: from 45 °C to 59…60 °C in 75 s, then two clocks of a mean of 1.3 GHz."""
    board, controller = BOARDS["raspberry-pi-3b-plus"], BangBang()
    heat = at_rest(SMALL_BOARD, board.ambient_c, board.idle_w)
    heat.case_c = heat.junction_c = 45.0
    clocks, temps = [], []
    for second in range(600):
        effect = controller.act(second, heat.junction_c)
        heat.advance(1.0, board.idle_w + board.busy_w * effect.clock**2.5)
        clocks.append(effect.clock)
        temps.append(heat.junction_c)
    first = next(second for second, clock in enumerate(clocks) if clock < 1)
    assert 40 < first < 150
    assert all(58.0 < temp < 61.0 for temp in temps[first:])
    mean_hz = 1.4e9 * sum(clocks[first:]) / len(clocks[first:])
    assert mean_hz == pytest.approx(1.3e9, abs=0.05e9)


def test_slow_machine_makes_no_cooler_board(tmp_path: Path) -> None:
    """Otherwise a delayed daemon would let a controller sleep while its board overheats."""
    temps = []
    for number, step_s in enumerate((0.1, 1.0)):
        device = SimulatedDevice(BOARDS["raspberry-pi-5-bare"], 3, tmp_path / str(number))
        for _ in range(round(20 / step_s)):
            keep_busy(device, step_s)
            device.advance(step_s)
        temps.append(float((device.root / "sys/class/thermal/thermal_zone0/temp").read_text()))
    assert temps[0] == pytest.approx(temps[1], abs=2000)
    assert max(temps) < 85_000


def test_long_inference_heats_as_much_as_short_ones(tmp_path: Path) -> None:
    """Otherwise a model of a second, which is reported at its end, would hardly heat the board."""
    shown = []
    for number, every in enumerate((1, 10)):
        device = SimulatedDevice(BOARDS["raspberry-pi-5-bare"], 3, tmp_path / str(number))
        for tick in range(1, 41):
            if tick % every == 0:
                keep_busy(device, 0.1 * every)
            device.advance(0.1)
        shown.append(float((device.root / "sys/class/thermal/thermal_zone0/temp").read_text()))
    assert shown[1] == pytest.approx(shown[0], abs=6000)
    assert shown[1] > 65_000


def test_controllers_do_what_their_boards_do() -> None:
    """Otherwise a kind of throttling would be simulated that no board has."""
    assert Progressive().act(0, 79.0).speed == 1.0
    assert 0.6 < Progressive().act(0, 82.5).clock < 1.0
    assert Progressive().act(0, 99.0).clock == 0.6
    assert Progressive().act(0, 99.0).told_clock == 1.0, "the kernel does not know"
    bang = BangBang()
    assert [bang.act(0, c).clock < 1 for c in (59.5, 60.0, 59.5, 58.9)] == [
        False,
        True,
        True,
        False,
    ]
    step = StepWise(trip_c=85.0)
    states = [step.act(0.3 * tick, 90.0).cooling_state for tick in range(12)]
    assert states == [*range(1, 9), 8, 8, 8, 8]
    idle = IdleInjection().act(0, 88.0)
    assert (idle.clock, idle.told_clock) == (1.0, 1.0)
    assert idle.speed == pytest.approx(0.7)
    fan = Fan()
    assert [fan.act(0, c).cooling_state for c in (49.0, 61.0, 56.0, 54.0, 40.0)] == [0, 2, 2, 1, 0]


def clocks(limit: PowerLimit, *, begin_s: float, seconds: float, busy: float) -> list[float]:
    """The clock at every quarter of a second."""
    steps = range(1, round(4 * seconds) + 1)
    return [limit.act(begin_s + step / 4, 50.0, busy).clock for step in steps]


@pytest.mark.parametrize("idle_s", [0.0, 1000.0])
def test_power_limit_comes_after_28_s_of_load_whenever_that_begins(idle_s: float) -> None:
    """Otherwise a measurement later than 28 s after the agent's start would see no turbo."""
    limit = PowerLimit()
    assert set(clocks(limit, begin_s=0.0, seconds=idle_s, busy=0.0)) <= {1.0}
    assert set(clocks(limit, begin_s=idle_s, seconds=27.5, busy=1.0)) == {1.0}
    assert clocks(limit, begin_s=idle_s + 27.5, seconds=60.0, busy=1.0)[2:] == [0.7] * 238


def test_idle_time_earns_the_turbo_back() -> None:
    """Otherwise a campaign's second run would have no turbo, or a moment of rest restore it all."""
    limit = PowerLimit()
    clocks(limit, begin_s=0.0, seconds=100.0, busy=1.0)
    assert limit.act(101.0, 50.0, 0.5).clock == 0.7
    clocks(limit, begin_s=101.0, seconds=60.0, busy=0.0)
    found = clocks(limit, begin_s=161.0, seconds=60.0, busy=1.0)
    assert found[0] == 1.0
    assert 26.0 < found.count(1.0) / 4 <= 28.0


@pytest.mark.parametrize("name", BOARDS)
def test_real_parts_read_the_tree(
    tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise the matcher, the gate or the sampler would not recognise a simulated board."""
    board, seed = find_board(f"{name}:7")
    monkeypatch.setattr("platform.machine", lambda: machine(board))
    device = SimulatedDevice(board, seed, tmp_path / "root")
    profile = match_profile(device_identity(device.root))
    assert not profile.id.startswith("generic-")
    assert expect(profile, device.root).mismatches == ()
    thermometer = find_thermometer(profile, device.root)
    assert thermometer is not None
    resting_c = at_rest(board.body, board.ambient_c, board.idle_w).junction_c
    assert thermometer() == pytest.approx(resting_c, abs=5.0)
    with sampling(tmp_path / "run", SamplerJob(1, str(device.root), rate_hz=20.0)) as sampler:
        wait_for_a_look(sampler)
    values = last_values(tmp_path / "run")
    for zone in board.zones:
        assert values[f"thermal.{zone.kind}.0.temp_c"] == thermometer()
    for policy in board.policies:
        clock = f"cpufreq.policy{policy.cpus.start}.freq_hz"
        assert values[clock] == values[f"{clock}_cap"] == 1000 * policy.nominal_khz
        assert facts_of(tmp_path / "run").constants[f"{clock}_max"] == 1000 * policy.highest_khz
    assert ("rpi.throttled_bits" in values) == board.has_videocore
    absent = {item.sensor for item in facts_of(tmp_path / "run").absent}
    assert "worker" in absent, "nobody runs a model here"


def test_same_seed_gives_the_same_device(tmp_path: Path) -> None:
    """Otherwise a gate that fails on a simulated device could not be looked at again."""
    shown = []
    for number, seed in enumerate((3, 3, 4)):
        device = SimulatedDevice(BOARDS["raspberry-pi-5-bare"], seed, tmp_path / str(number))
        temps = []
        for _ in range(20):
            device.advance(0.1)
            temps.append((device.root / "sys/class/thermal/thermal_zone0/temp").read_text())
        shown.append(temps)
    assert shown[0] == shown[1] != shown[2]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("pi", "unknown simulated board 'pi'; available"),
        *((f"imx8mp-evk:{seed}", "must be a number") for seed in ("x", "²", "٣", "-1", "1" * 5000)),
    ],
)
def test_unknown_board_is_refused(text: str, said: str) -> None:
    """Otherwise a misspelt board, or a seed that is nearly a number, would be a traceback."""
    with pytest.raises(UsageError, match=said):
        find_board(text)
