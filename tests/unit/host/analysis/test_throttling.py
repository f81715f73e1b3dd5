"""The detector against simulated devices: what slowed them down is named, and nothing else is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from support.hot_runs import (
    BARE_BOARD,
    LINUX,
    RASPBERRY_PI,
    Device,
    HotRun,
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
from edgebench.host.analysis.telemetry import Series, Telemetry
from edgebench.host.analysis.throttling import (
    ThermalState,
    Throttling,
    Timeline,
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


def still(**fields: Any) -> HotRun:
    """A run of three minutes on a device that nothing slows down."""
    return simulate(
        Device(controller=Nothing(), body=COOLED, constants=TRIP, **fields), seconds=180.0, seed=1
    )


def with_series(run: HotRun, **series: tuple[float, ...]) -> Telemetry:
    """The telemetry with these sensors instead: values that are spread over the whole run."""
    end_ns = int(run.timeline.start_ns[-1])
    made = {
        name.replace("__", "."): Series(
            np.linspace(0, end_ns, len(values)).astype(np.int64), np.array(values)
        )
        for name, values in series.items()
    }
    return Telemetry({**run.telemetry.series, **made}, run.telemetry.constants)


def judged(run: HotRun, telemetry: Telemetry, expected: Expectation = LINUX) -> str:
    """The verdict with this telemetry."""
    return find_throttling(run.timeline, telemetry, expected).verdict


def slowed(run: HotRun, factor: float, begin_s: float, end_s: float = 1e9) -> Timeline:
    """The same run with slower inferences in between."""
    time_s = run.timeline.start_ns / 1e9
    factors = np.where((time_s >= begin_s) & (time_s < end_s), factor, 1.0)
    return Timeline(run.timeline.start_ns, (run.timeline.invoke_ns * factors).astype(np.int64))


@pytest.mark.parametrize("clock", [0.6e9, 1.2e9])
def test_clock_that_is_low_from_the_start_is_no_onset(clock: float) -> None:
    """A power mode, a slow governor or an all-core limit below the maximum is throttling."""
    run = still(has_cpufreq=False)
    constants = {**TRIP, "cpufreq.policy0.freq_hz_max": 2.4e9, "cpufreq.policy0.cpu_mask": 15.0}
    telemetry = with_series(
        run,
        cpufreq__policy0__freq_hz=(clock,) * 900,
        cpufreq__policy0__freq_hz_cap=(clock,) * 900,
    )
    assert judged(run, Telemetry(telemetry.series, constants)) == "not_throttled"


def test_frequency_that_is_only_asked_for_is_not_believed() -> None:
    """A Raspberry Pi without its firmware's word runs at full clock on paper, and is hot."""
    device = Device(controller=Progressive(), constants={})
    run = simulate(device, seconds=480.0, seed=2)
    found = find_throttling(run.timeline, run.telemetry, RASPBERRY_PI)
    assert (found.verdict, found.is_certain) == ("throttled:hidden", False)


def test_trips_of_a_fan_are_no_limit() -> None:
    """A Jetson Nano at 55 °C is hot, because its fan starts at 50."""
    run = still()
    constants = {
        "thermal.CPU-therm.0.trip_passive_c": 30.0,
        "thermal.CPU-therm.0.trip_active_c": 50.0,
    }
    series = with_series(run, **{"thermal__CPU-therm__0__temp_c": (55.0,) * 900}).series
    slower = HotRun(slowed(run, 1.2, 60.0), run.telemetry)
    assert judged(slower, Telemetry(series, constants)) == "interference"


def test_bits_from_before_the_run_are_not_its_own() -> None:
    """A board that was hot yesterday is throttled today."""
    run = still()
    telemetry = with_series(run, rpi__throttled_bits=(float(0x50000),) * 360)
    assert judged(run, telemetry, RASPBERRY_PI) == "not_throttled"


def test_bits_that_were_set_between_two_looks_are_remembered() -> None:
    """An oscillation that is faster than the sampling is missed."""
    run = still()
    bits = (0.0,) * 20 + (float(0x80000),) * 16
    assert judged(run, with_series(run, rpi__throttled_bits=bits), RASPBERRY_PI) == (
        "throttled:thermal"
    )


def test_dummy_zone_is_no_heat() -> None:
    """A zone that always says 100 °C makes every slower run thermal."""
    run = still()
    series = with_series(run, **{"thermal__PMIC-Die__0__temp_c": (100.0,) * 900})
    slower = HotRun(slowed(run, 1.2, 60.0), run.telemetry)
    found = find_throttling(slower.timeline, series, LINUX)
    assert found.verdict == "interference"
    assert found.max_temp_c is not None
    assert found.max_temp_c < 100


def test_warm_up_is_no_throttling_the_other_way_round() -> None:
    """A run that becomes faster has a sustained speed above its peak, and an onset."""
    run = still()
    found = find_throttling(slowed(run, 1.3, 0.0, 3.0), run.telemetry, LINUX)
    assert found.verdict == "not_throttled"
    assert found.retention_ratio == pytest.approx(1.0, abs=0.02)


def test_growth_without_heat_is_interference() -> None:
    """A neighbour, or swapping, is called heat."""
    run = still()
    found = find_throttling(slowed(run, 1.3, 90.0), run.telemetry, LINUX)
    assert (found.verdict, found.is_certain) == ("interference", False)
    assert found.retention_ratio == pytest.approx(1 / 1.3, rel=0.02)


def test_hot_start_is_told() -> None:
    """A run that begins throttled has nothing to be slower than, and is called steady."""
    device = Device(controller=Progressive(), idle_w=6.0, busy_w=1.0, has_firmware=True)
    run = simulate(device, seconds=180.0, seed=3)
    found = find_throttling(run.timeline, run.telemetry, RASPBERRY_PI)
    assert found.state is ThermalState.THROTTLED, "the firmware says so from the first window on"
    assert found.is_baseline_cool is False
    silent = {n: s for n, s in run.telemetry.series.items() if not n.startswith("rpi.")}
    found = find_throttling(run.timeline, Telemetry(silent), RASPBERRY_PI)
    assert (found.verdict, found.is_baseline_cool) == ("not_throttled", False)


def test_device_that_shows_nothing_is_unknown() -> None:
    """A microcontroller, or a virtual machine, is not throttled: nobody has looked."""
    run = still()
    assert judged(run, Telemetry()) == "unknown"
    slower = HotRun(slowed(run, 1.3, 90.0), run.telemetry)
    assert judged(slower, Telemetry()) == "unknown"
    found = find_throttling(run.timeline, Telemetry(), LINUX)
    assert (found.start_temp_c, found.max_temp_c, found.is_baseline_cool) == (None, None, None)


def test_run_of_seconds_is_too_short_to_tell_unless_the_device_does() -> None:
    """Three seconds on a cool board are “not throttled”."""
    run = still()
    short = Timeline(run.timeline.start_ns[:150], run.timeline.invoke_ns[:150])
    found = find_throttling(short, run.telemetry, LINUX)
    assert found.verdict == "unknown"
    assert "too short" in found.reason
    bits = with_series(run, rpi__throttled_bits=(float(0x40004),) * 360)
    assert find_throttling(short, bits, RASPBERRY_PI).verdict == "throttled:thermal"


def test_single_inference_is_no_division_by_zero() -> None:
    """A run that was stopped at once ends in a traceback."""
    one = Timeline(np.array([5], np.int64), np.array([7], np.int64))
    assert find_throttling(one, Telemetry(), LINUX).verdict == "unknown"
