"""Every simulated board, watched by the real sampler, and judged as its real one would be.

A tick stands for one second of a run. Readings are put on the clock of the ticks, so that nothing
depends on how busy this machine is.
"""

from __future__ import annotations

import time
from contextlib import ExitStack
from dataclasses import dataclass

import numpy as np
import pytest
from support.sampling import sampled, sampling
from support.simulated import WORKER_PID, keep_busy, machine, make_worker, speed

from edgebench.agent.expectation import expect
from edgebench.agent.simulated import find_simulator
from edgebench.agent.system import device_identity
from edgebench.agent.telemetry.job import SamplerJob
from edgebench.device_profiles.match import match_profile
from edgebench.host.analysis.thermal.telemetry import Series, TelemetryTrace
from edgebench.host.analysis.thermal.throttling import find_throttling
from edgebench.host.analysis.thermal.timeline import Timeline
from edgebench.host.result.thermal import ThermalResult
from edgebench.protocol.thermal import Expectation
from edgebench.simulation.boards import BOARDS
from edgebench.simulation.device import SimulatedDevice

pytestmark = pytest.mark.slow

TICKS = 50
TICK_S = 0.06
"""Of this machine: the firmware's bits are read once a second, here too."""
INVOKE_S = 0.02


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """What is known of a board."""

    profile: str
    verdict: str
    rises: tuple[str, ...] = ()
    """Sensors that report that it is slower."""
    falls: tuple[str, ...] = ()
    stays: tuple[str, ...] = ()
    """Sensors that do not report it, contrary to what might be expected."""


ZONE, CLOCK = "thermal.cpu-thermal.0.temp_c", "cpufreq.policy0.freq_hz"
BITS, STATE = "rpi.throttled_bits", "cooling.{}.0.state"
KNOWN = {
    "raspberry-pi-5-bare": Known(
        profile="raspberrypi-5",
        verdict="throttled:thermal",
        rises=(ZONE, BITS),
        stays=(CLOCK, f"{CLOCK}_cap"),
    ),
    "raspberry-pi-5-cooled": Known(
        profile="raspberrypi-5",
        verdict="not_throttled",
        rises=(STATE.format("pwm-fan"),),
        stays=(BITS, CLOCK),
    ),
    "raspberry-pi-5-unprotected": Known(
        profile="raspberrypi-5", verdict="not_throttled", rises=(ZONE,), stays=(BITS, CLOCK)
    ),
    "raspberry-pi-4-undervoltage": Known(
        profile="raspberrypi-4b",
        verdict="throttled:undervoltage",
        rises=(BITS, "hwmon.rpi_volt.0.in0.undervoltage"),
        stays=(CLOCK,),
    ),
    "raspberry-pi-3b-plus": Known(
        profile="raspberrypi-3b-plus",
        verdict="throttled:thermal",
        rises=(ZONE, BITS),
        stays=(CLOCK,),
    ),
    "rock-5b": Known(
        profile="rock-5b",
        verdict="throttled:thermal",
        rises=(STATE.format("cpufreq-cpu0"), "thermal.bigcore0-thermal.0.temp_c"),
        falls=(f"{CLOCK}_cap", CLOCK, "cpufreq.policy6.freq_hz_cap"),
    ),
    "imx8mp-evk": Known(
        profile="imx8mp-evk",
        verdict="throttled:thermal",
        rises=(STATE.format("thermal-idle-0"), ZONE),
        stays=(CLOCK, f"{CLOCK}_cap"),
    ),
    "jetson-orin-nano": Known(
        profile="jetson-orin-nano-devkit",
        verdict="throttled:overcurrent",
        rises=("hwmon.soctherm_oc.0.oc3.event_count",),
        stays=(CLOCK, f"{CLOCK}_cap", "hwmon.soctherm_oc.0.oc1.event_count"),
    ),
    "intel-n100-laptop": Known(
        profile="intel-n100",
        verdict="frequency_limited",
        falls=(CLOCK, "cpufreq.policy3.freq_hz"),
        stays=(f"{CLOCK}_cap", "x86.core.0.0.throttle_count", "x86.package.0.throttle_count"),
    ),
}


@dataclass(frozen=True, slots=True)
class Watched:
    """A board after a run."""

    expected: Expectation
    telemetry: TelemetryTrace
    found: ThermalResult


@pytest.fixture(scope="module")
def watched(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Watched]:
    """All boards, in the same three seconds."""
    folder = tmp_path_factory.mktemp("boards")
    devices = {name: SimulatedDevice(board, 1, folder / name) for name, board in BOARDS.items()}
    with ExitStack() as samplers:
        for name, device in devices.items():
            make_worker(device)
            job = SamplerJob(WORKER_PID, str(device.root), rate_hz=30.0)
            samplers.enter_context(sampling(folder / f"{name}-run", job))
        ticks_ns, speeds = let_pass(devices)
    return {
        name: judged(device, sampled(folder / f"{name}-run"), ticks_ns, speeds[name])
        for name, device in devices.items()
    }


def let_pass(devices: dict[str, SimulatedDevice]) -> tuple[list[int], dict[str, list[float]]]:
    """Return when each tick began, and how fast each device was in it."""
    ticks_ns: list[int] = []
    speeds: dict[str, list[float]] = {name: [] for name in devices}
    for _ in range(TICKS):
        ticks_ns.append(time.perf_counter_ns())
        for name, device in devices.items():
            speeds[name].append(speed(device))
        time.sleep(TICK_S)  # in which the samplers look
        for device in devices.values():
            keep_busy(device, 1.0)
            device.advance(1.0)
    return ticks_ns, speeds


def judged(
    device: SimulatedDevice, told: TelemetryTrace, ticks_ns: list[int], speeds: list[float]
) -> Watched:
    """Return the detector's verdict, with inferences as fast as the device was."""
    seconds_ns = np.arange(TICKS) * 1e9
    series = {
        name: Series(np.interp(one.time_ns, ticks_ns, seconds_ns).astype(np.int64), one.value)
        for name, one in told.series.items()
    }
    telemetry = TelemetryTrace(series, told.constants)
    invoke_s = [np.full(int(now / INVOKE_S), INVOKE_S / now) for now in speeds]
    starts_s = [tick + np.arange(len(one)) * one for tick, one in enumerate(invoke_s)]
    timeline = Timeline(
        (np.concatenate(starts_s) * 1e9).astype(np.int64),
        (np.concatenate(invoke_s) * 1e9).astype(np.int64),
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("platform.machine", lambda: machine(device.board))
        expected = expect(match_profile(device_identity(device.root)), device.root)
    return Watched(expected, telemetry, find_throttling(timeline, telemetry, expected))


def test_every_board_is_known() -> None:
    """Otherwise a board would be simulated without a known expectation."""
    assert list(KNOWN) == list(BOARDS)


@pytest.mark.parametrize("name", BOARDS)
def test_board_is_recognised_and_judged_as_its_kind(watched: dict[str, Watched], name: str) -> None:
    """Otherwise a kind of throttling would be taken for another one, or for none."""
    found, known = watched[name].found, KNOWN[name]
    assert watched[name].expected.profile == known.profile
    assert watched[name].expected.mismatches == ()
    assert watched[name].expected.is_limit_sustained == (name != "intel-n100-laptop")
    assert found.verdict.startswith(known.verdict), found
    assert found.is_certain == known.verdict.startswith("throttled"), "the device itself says so"
    if known.verdict != "not_throttled":
        assert found.onset_s is not None
        assert found.onset_s > 0


@pytest.mark.parametrize("name", BOARDS)
def test_board_tells_it_where_its_kind_does_and_nowhere_else(
    watched: dict[str, Watched], name: str
) -> None:
    """Otherwise a source silent on a real board would be trusted, or a reporting one be missing."""
    series, known = watched[name].telemetry.series, KNOWN[name]
    for sensor in known.rises:
        assert series[sensor].value.max() > series[sensor].value[0], sensor
    for sensor in known.falls:
        assert series[sensor].value.min() < 0.97 * series[sensor].value[0], sensor
    for sensor in known.stays:
        assert np.ptp(series[sensor].value) == 0, sensor


def test_only_the_unprotected_board_passes_its_limit(watched: dict[str, Watched]) -> None:
    """Otherwise the guard would end a demonstration, or have nothing to be tried on."""
    for name, one in watched.items():
        limit_c, hottest_c = one.expected.abort_c, one.found.max_temp_c
        assert hottest_c is not None
        if limit_c is not None:
            assert (hottest_c > limit_c) == (name == "raspberry-pi-5-unprotected"), name


def test_agent_finds_every_board() -> None:
    """Otherwise a board that cannot be found would never be simulated."""
    assert find_simulator().board_names == tuple(BOARDS)
