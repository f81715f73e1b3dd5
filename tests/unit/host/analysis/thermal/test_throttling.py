"""The detector against simulated devices: what slowed them down is named, and nothing else is."""

from __future__ import annotations

import os
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

from edgebench.host.analysis.thermal.telemetry import Series, TelemetryTrace
from edgebench.host.analysis.thermal.throttling import find_throttling
from edgebench.host.analysis.thermal.timeline import Timeline, cut_into_windows
from edgebench.host.result.thermal import ThermalResult, ThermalState
from edgebench.protocol.thermal import Expectation
from edgebench.simulation.controllers import (
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

SEEDS = range(int(os.environ.get("EDGEBENCH_TESTS_SEEDS", "3")))
"""Seeds of each simulated device; a release is tested with 20."""
COOLED = replace(BARE_BOARD, case_k_per_w=1.5)
TRIP = {"thermal.cpu-thermal.0.throttle_c": 85.0}


def pi(controller: Progressive | BangBang | UnderVoltage) -> Device:
    """Return a Raspberry Pi: only its firmware reports throttling."""
    return Device(controller=controller, has_firmware=True)


def bursts(time_s: float) -> float:
    """Two seconds of work, two seconds idle."""
    return 1.0 if time_s % 4 < 2 else 0.0


def seldom(time_s: float) -> float:
    """Work for a fifth of the time."""
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


def found(case: Case, seed: int) -> ThermalResult:
    """Return what the detector reports of a run."""
    make, expected, seconds, load, _ = case
    made = simulate(make(seed), seconds=seconds, seed=seed, load=load)
    return find_throttling(made.timeline, made.telemetry, expected)


@pytest.mark.parametrize("what", THROTTLED)
def test_cause_is_named_in_every_run(what: str) -> None:
    """Otherwise a number that holds for three minutes only, or a wrong cause, would be printed."""
    answers = [found(THROTTLED[what], seed) for seed in SEEDS]
    assert [answer.cause for answer in answers] == [THROTTLED[what][4]] * len(SEEDS), answers[0]
    states = {ThermalState.THROTTLED, ThermalState.FREQUENCY_LIMITED}
    assert {answer.state for answer in answers} <= states
    for answer in answers:
        assert answer.onset_s is not None
        assert answer.onset_s > 5
        assert answer.throttled_ratio is not None
        assert answer.throttled_ratio > 0


@pytest.mark.parametrize("what", UNDISTURBED)
def test_run_that_was_not_throttled_raises_no_alarm(what: str) -> None:
    """Otherwise a governor that idles, or a thread that moves, would be called throttling."""
    answers = [found(UNDISTURBED[what], seed) for seed in SEEDS]
    assert [answer.verdict for answer in answers] == ["not_throttled"] * len(SEEDS), answers


def still(**fields: Any) -> HotRun:
    """Return a run of three minutes on a device that nothing slows down."""
    return simulate(
        Device(controller=Nothing(), body=COOLED, constants=TRIP, **fields), seconds=180.0, seed=1
    )


def with_series(run: HotRun, **series: tuple[float, ...]) -> TelemetryTrace:
    """Return the telemetry with these sensors instead; values are spread over the whole run."""
    end_ns = int(run.timeline.start_ns[-1])
    made = {
        name.replace("__", "."): Series(
            np.linspace(0, end_ns, len(values)).astype(np.int64), np.array(values)
        )
        for name, values in series.items()
    }
    return TelemetryTrace({**run.telemetry.series, **made}, run.telemetry.constants)


def judged(run: HotRun, telemetry: TelemetryTrace, expected: Expectation = LINUX) -> str:
    """Return the verdict with this telemetry."""
    return find_throttling(run.timeline, telemetry, expected).verdict


def slowed(run: HotRun, factor: float, begin_s: float, end_s: float = 1e9) -> Timeline:
    """Return the same run with slower inferences in between."""
    time_s = run.timeline.start_ns / 1e9
    factors = np.where((time_s >= begin_s) & (time_s < end_s), factor, 1.0)
    return Timeline(run.timeline.start_ns, (run.timeline.invoke_ns * factors).astype(np.int64))


@pytest.mark.parametrize("clock", [0.6e9, 1.2e9])
def test_clock_that_is_low_from_the_start_is_no_onset(clock: float) -> None:
    """Otherwise a power mode, a slow governor or a low all-core limit would be throttling."""
    run = still(has_cpufreq=False)
    constants = {**TRIP, "cpufreq.policy0.freq_hz_max": 2.4e9, "cpufreq.policy0.cpu_mask": 15.0}
    telemetry = with_series(
        run,
        cpufreq__policy0__freq_hz=(clock,) * 900,
        cpufreq__policy0__freq_hz_cap=(clock,) * 900,
    )
    assert judged(run, TelemetryTrace(telemetry.series, constants)) == "not_throttled"


def test_frequency_that_is_only_asked_for_is_not_believed() -> None:
    """Otherwise a hot Raspberry Pi without firmware readings would run at full clock on paper."""
    device = Device(controller=Progressive(), constants={})
    run = simulate(device, seconds=480.0, seed=2)
    found = find_throttling(run.timeline, run.telemetry, RASPBERRY_PI)
    assert (found.verdict, found.is_certain) == ("throttled:thermal", False)
    assert found.baseline_freq_hz is None


def test_trips_of_a_fan_are_no_limit() -> None:
    """Otherwise a Jetson Nano at 55 °C would be hot, because its fan starts at 50."""
    run = still()
    constants = {
        "thermal.CPU-therm.0.trip_passive_c": 30.0,
        "thermal.CPU-therm.0.trip_active_c": 50.0,
    }
    series = with_series(run, **{"thermal__CPU-therm__0__temp_c": (55.0,) * 900}).series
    slower = HotRun(slowed(run, 1.2, 60.0), run.telemetry)
    assert judged(slower, TelemetryTrace(series, constants)) == "interference"


def test_bits_from_before_the_run_are_not_its_own() -> None:
    """Otherwise a board that was hot yesterday would be throttled today."""
    run = still()
    telemetry = with_series(run, rpi__throttled_bits=(float(0x50000),) * 360)
    assert judged(run, telemetry, RASPBERRY_PI) == "not_throttled"


def test_bits_that_were_set_between_two_looks_are_remembered() -> None:
    """Otherwise an oscillation that is faster than the sampling would be missed."""
    run = still()
    bits = (0.0,) * 20 + (float(0x80000),) * 16
    assert judged(run, with_series(run, rpi__throttled_bits=bits), RASPBERRY_PI) == (
        "throttled:thermal"
    )


def test_dummy_zone_is_no_heat() -> None:
    """Otherwise a zone that always reports 100 °C would make every slower run thermal."""
    run = still()
    series = with_series(run, **{"thermal__PMIC-Die__0__temp_c": (100.0,) * 900})
    slower = HotRun(slowed(run, 1.2, 60.0), run.telemetry)
    found = find_throttling(slower.timeline, series, LINUX)
    assert found.verdict == "interference"
    assert found.max_temp_c is not None
    assert found.max_temp_c < 100


def test_warm_up_is_no_throttling_the_other_way_round() -> None:
    """Otherwise a run that becomes faster would sustain more than its peak, and have an onset."""
    run = still()
    found = find_throttling(slowed(run, 1.3, 0.0, 3.0), run.telemetry, LINUX)
    assert found.verdict == "not_throttled"
    assert found.retention_ratio == pytest.approx(1.0, abs=0.02)


def test_growth_without_heat_is_interference() -> None:
    """Otherwise a neighbour, or swapping, would be called heat."""
    run = still()
    found = find_throttling(slowed(run, 1.3, 90.0), run.telemetry, LINUX)
    assert (found.verdict, found.is_certain) == ("interference", False)
    assert found.retention_ratio == pytest.approx(1 / 1.3, rel=0.02)


def test_hot_start_is_told() -> None:
    """Otherwise a run that begins throttled, with nothing to be slower than, would be steady."""
    device = Device(controller=Progressive(), idle_w=6.0, busy_w=1.0, has_firmware=True)
    run = simulate(device, seconds=180.0, seed=3)
    found = find_throttling(run.timeline, run.telemetry, RASPBERRY_PI)
    assert found.state is ThermalState.THROTTLED, "the firmware says so from the first window on"
    assert found.is_baseline_cool is False
    silent = {n: s for n, s in run.telemetry.series.items() if not n.startswith("rpi.")}
    found = find_throttling(run.timeline, TelemetryTrace(silent), RASPBERRY_PI)
    assert (found.verdict, found.is_baseline_cool) == ("not_throttled", False)


def test_cool_device_without_a_clock_to_believe_is_unknown() -> None:
    """Otherwise a weak supply that nothing reports would be called interference."""
    run = still(has_cpufreq=False)
    found = find_throttling(slowed(run, 1.3, 90.0), run.telemetry, LINUX)
    assert found.verdict == "unknown"
    assert "no trusted frequency" in found.reason
    capped = with_series(run, cpufreq__policy0__freq_hz_cap=(2.4e9,) * 900)
    assert find_throttling(slowed(run, 1.3, 90.0), capped, LINUX).verdict == "unknown"


def test_flat_clock_without_any_temperature_is_unknown() -> None:
    """Otherwise idle injection on a device that shows no temperature would be interference."""
    run = still(has_zone=False)
    found = find_throttling(slowed(run, 1.3, 90.0), run.telemetry, LINUX)
    assert (found.verdict, found.is_baseline_cool) == ("unknown", None)


def test_clock_that_idles_beside_a_neighbour_is_no_power_limit() -> None:
    """Otherwise the low clock between bursts would be the reason why the model is slower."""

    def at_last(time_s: float) -> float:
        return bursts(time_s) if time_s > 90 else 1.0

    device = Device(controller=Nothing(), body=COOLED, constants=TRIP)
    run = simulate(device, seconds=240.0, seed=4, load=at_last)
    found = find_throttling(slowed(run, 1.3, 90.0), run.telemetry, LINUX)
    assert found.verdict == "unknown", "its clock under load was not seen"


def test_slow_model_is_judged_in_longer_windows() -> None:
    """Otherwise three slow inferences in a row, by chance, would be a device that slowed down."""
    run = simulate(pi(Progressive()), seconds=480.0, seed=5)
    assert cut_into_windows(in_groups(run.timeline, 150)).length_s == pytest.approx(17, abs=3)
    silent = {n: s for n, s in run.telemetry.series.items() if n != "rpi.throttled_bits"}
    found = find_throttling(in_groups(run.timeline, 150), TelemetryTrace(silent), RASPBERRY_PI)
    assert (found.verdict, found.is_certain) == ("throttled:thermal", False)


def test_windows_without_an_inference_part_nothing() -> None:
    """Otherwise requests that come in bunches would never be slower three windows in a row."""
    run = still()
    time_s = run.timeline.start_ns / 1e9
    kept = time_s % 12 < 2.5  # two windows at most, then two or more without any
    slower = slowed(run, 1.3, 90.0)
    sparse = Timeline(slower.start_ns[kept], slower.invoke_ns[kept])
    assert find_throttling(sparse, TelemetryTrace(), LINUX).reason.startswith("no temperature")
    assert find_throttling(sparse, run.telemetry, LINUX).verdict != "not_throttled"


def test_move_between_equal_cores_hides_no_power_limit() -> None:
    """Otherwise a thread that moves once would never be slower again.

    On x86 each core has a policy of its own.
    """
    run = simulate(THROTTLED["power limit"][0](1), seconds=180.0, seed=7)
    policy0 = {n: s for n, s in run.telemetry.series.items() if n.startswith("cpufreq.policy0.")}
    series = dict(run.telemetry.series)
    series |= {name.replace("policy0", "policy1"): kept for name, kept in policy0.items()}
    moved = with_series(run, worker__cpu=(0.0,) * 12 + (1.0,) * 168).series["worker.cpu"]
    constants = {**TRIP, "cpufreq.policy0.cpu_mask": 1.0, "cpufreq.policy1.cpu_mask": 2.0}
    tops = {"cpufreq.policy0.freq_hz_max": 4.8e9, "cpufreq.policy1.freq_hz_max": 4.7e9}
    telemetry = TelemetryTrace({**series, "worker.cpu": moved}, constants | tops)
    found = find_throttling(run.timeline, telemetry, LINUX)
    assert found.verdict == "frequency_limited:power_limit"
    assert found.onset_s == pytest.approx(28, abs=4)


def test_silent_throttle_counter_leaves_a_power_limit() -> None:
    """Otherwise an x86 laptop without a known zone limit would be limited for unknown reasons."""
    run = simulate(replace(THROTTLED["power limit"][0](1), constants={}), seconds=180.0, seed=8)
    assert judged(run, run.telemetry, Expectation()) == "frequency_limited:unknown"
    counted = with_series(run, x86__cpu0__throttle_count=(3.0,) * 180)
    assert judged(run, counted, Expectation()) == "frequency_limited:power_limit"


def test_neighbour_at_the_start_is_not_the_onset() -> None:
    """Otherwise the heat of minutes later would begin when the machine was busy at the start."""
    run = simulate(pi(Progressive()), seconds=480.0, seed=9)
    noisy = Timeline(run.timeline.start_ns, run.timeline.invoke_ns.copy())
    time_s = noisy.start_ns / 1e9
    noisy.invoke_ns[(time_s > 30) & (time_s < 70)] *= 2
    [quiet, busy] = [
        find_throttling(timeline, run.telemetry, RASPBERRY_PI) for timeline in (run.timeline, noisy)
    ]
    assert busy.verdict == quiet.verdict == "throttled:thermal"
    assert busy.onset_s == quiet.onset_s
    assert busy.onset_s is not None
    assert busy.onset_s > 80


def until(run: HotRun, end_s: float, *names: str) -> TelemetryTrace:
    """Return the telemetry in which sensors that begin so are read no longer than that."""
    kept = {
        name: Series(series.time_ns[inside], series.value[inside])
        for name, series in run.telemetry.series.items()
        for inside in [(series.time_ns < end_s * 1e9) | (not name.startswith(names))]
    }
    return TelemetryTrace(kept, run.telemetry.constants)


@pytest.mark.parametrize(
    ("names", "verdict"),
    [
        (("",), "unknown"),
        (("thermal.",), "frequency_limited:unknown"),
        (("cpufreq.",), "throttled:thermal"),
        (("thermal.", "cpufreq."), "unknown"),
    ],
)
def test_sensor_that_falls_silent_says_nothing(names: tuple[str, ...], verdict: str) -> None:
    """Otherwise readings of twenty seconds in eight minutes would exclude heat."""
    run = simulate(THROTTLED["steps of the kernel"][0](1), seconds=480.0, seed=10)
    assert judged(run, until(run, 20.0, *names)) == verdict


@pytest.mark.parametrize("names", [("",), ("rpi.",)])
def test_firmware_that_falls_silent_says_nothing(names: tuple[str, ...]) -> None:
    """Otherwise a Raspberry Pi would seem slowed by a neighbour once its firmware is not read."""
    run = simulate(pi(Progressive()), seconds=480.0, seed=11)
    verdict = "unknown" if names == ("",) else "throttled:thermal"
    assert judged(run, until(run, 20.0, *names), RASPBERRY_PI) == verdict


def test_cool_run_that_was_hardly_watched_is_unknown() -> None:
    """Otherwise twenty seconds without an event would stand for three minutes."""
    run = still()
    found = find_throttling(run.timeline, until(run, 20.0, ""), LINUX)
    assert found.verdict == "unknown"
    assert "less than half of the run" in found.reason


def blip(run: HotRun, sensor: str, value: float, begin_s: float, end_s: float) -> TelemetryTrace:
    """Return the telemetry with another value for a moment."""
    series = run.telemetry.series[sensor]
    time_s = series.time_ns / 1e9
    values = np.where((time_s >= begin_s) & (time_s < end_s), value, series.value)
    changed = {**run.telemetry.series, sensor: Series(series.time_ns, values)}
    return TelemetryTrace({n: s for n, s in changed.items() if "cycles" not in n}, TRIP)


@pytest.mark.parametrize(
    ("sensor", "value"),
    [("thermal.cpu-thermal.0.temp_c", 84.0), ("cpufreq.policy0.freq_hz", 1.0e9)],
)
def test_moment_of_heat_explains_no_long_slowdown(sensor: str, value: float) -> None:
    """Otherwise a neighbour of minutes would be called heat, for a few warm seconds."""
    run = still()
    found = find_throttling(slowed(run, 1.3, 60.0), blip(run, sensor, value, 120.0, 130.0), LINUX)
    assert found.verdict == "interference"


def test_late_throttling_of_a_slow_model_is_seen() -> None:
    """Otherwise windows of a minute would hide that the last window is hot and slow."""
    run = still()
    hot = blip(run, "thermal.cpu-thermal.0.temp_c", 86.0, 160.0, 180.0)
    both = TelemetryTrace(
        {
            **hot.series,
            **blip(run, "cpufreq.policy0.freq_hz", 1.0e9, 160.0, 180.0).series,
            "thermal.cpu-thermal.0.temp_c": hot.series["thermal.cpu-thermal.0.temp_c"],
        },
        TRIP,
    )
    slow = in_groups(slowed(run, 1.5, 160.0), 150)
    assert find_throttling(slow, both, LINUX).verdict == "throttled:thermal"
    found = find_throttling(slow, hot, LINUX)
    assert found.verdict == "unknown"
    assert "only at the very end" in found.reason


def test_run_on_another_kind_of_core_is_judged_there() -> None:
    """Otherwise a thread that moves to little cores after 10 s could never be slower again."""
    device = Device(controller=Nothing(), body=COOLED, constants=TRIP, little_from_s=(10.0, 180.0))
    run = simulate(device, seconds=180.0, seed=12)
    slower = slowed(run, 1.3, 90.0)
    assert find_throttling(slower, run.telemetry, LINUX).verdict == "interference"
    found = find_throttling(run.timeline, run.telemetry, LINUX)
    assert found.verdict == "not_throttled"
    assert "on another type of core" in found.reason
    began = Device(controller=StepWise(), busy_w=9.0, constants=TRIP, little_from_s=(0.0, 7.0))
    run = simulate(began, seconds=480.0, seed=13)
    found = find_throttling(run.timeline, run.telemetry, LINUX)
    assert found.state is ThermalState.THROTTLED


def test_governor_under_a_light_load_of_many_threads_is_no_limit() -> None:
    """Otherwise four threads, a quarter busy each, would count as one busy thread."""
    device = Device(controller=Nothing(), body=COOLED, constants=TRIP)
    run = simulate(device, seconds=180.0, seed=14, load=seldom)
    slow = slowed(run, 1.3, 60.0)
    telemetry = blip(run, "cpufreq.policy0.freq_hz", 0.6e9, 60.0, 180.0)
    time_ns = np.arange(0, 180, dtype=np.int64) * 10**9
    cpu = {"worker.cpu_s": Series(time_ns, 1.1 * time_ns / 1e9)}
    found = TelemetryTrace({**telemetry.series, **cpu}, telemetry.constants)
    one = find_throttling(slow, found, LINUX, threads=1).verdict
    four = find_throttling(slow, found, LINUX, threads=4).verdict
    assert (one, four) == ("frequency_limited:power_limit", "unknown")


def test_two_modes_of_latency_are_no_slowdown() -> None:
    """Otherwise the median would jump where each second inference takes 15 % longer."""
    for seed in range(5):
        run = still()
        is_slow = np.random.default_rng(seed).random(len(run.timeline.start_ns)) < 0.5
        invoke_ns = (run.timeline.invoke_ns * np.where(is_slow, 1.15, 1.0)).astype(np.int64)
        modes = Timeline(run.timeline.start_ns, invoke_ns)
        assert find_throttling(modes, run.telemetry, LINUX).verdict == "not_throttled"


def test_throttled_from_the_start_has_no_speed_to_keep() -> None:
    """Otherwise a device that was slow all the time would keep 100 % of its speed."""
    device = Device(controller=StepWise(), idle_w=14.0, busy_w=6.0, cooling="thermal-cpufreq-0")
    run = simulate(replace(device, constants=TRIP), seconds=180.0, seed=15)
    found = find_throttling(run.timeline, run.telemetry, LINUX)
    assert (found.verdict, found.onset_s) == ("throttled:thermal", 0.0)
    assert (found.retention_ratio, found.peak_latency_ns) == (None, None)
    assert found.sustained_latency_ns is not None


def in_groups(timeline: Timeline, count: int) -> Timeline:
    """Return the same run by a model that takes as long as so many inferences."""
    first = np.arange(0, len(timeline.start_ns), count)
    return Timeline(timeline.start_ns[first], np.add.reduceat(timeline.invoke_ns, first))


def test_clock_of_the_first_second_belongs_to_no_end() -> None:
    """Otherwise the last window would adjoin the first, and the device be slow from the start."""
    run = still(has_cpufreq=False)
    freq_hz = (1.0e9,) * 15 + (1.5e9,) * 735 + (1.0e9,) * 150
    telemetry = with_series(run, cpufreq__policy0__freq_hz=freq_hz)
    found = find_throttling(slowed(run, 1.5, 150.0), telemetry, LINUX)
    assert found.verdict == "frequency_limited:power_limit"
    assert found.onset_s == pytest.approx(150, abs=6)


def test_parts_before_and_after_are_told_apart() -> None:
    """Otherwise the headline would be a mean of two devices: that at first and that at the end."""
    run = simulate(THROTTLED["power limit"][0](1), seconds=180.0, seed=6)
    found = find_throttling(run.timeline, run.telemetry, LINUX)
    before, after = found.latency_ns_before, found.latency_ns_after
    assert before is not None
    assert after is not None
    assert before.p50 == pytest.approx(20e6, rel=0.02)
    assert after.p50 == pytest.approx(20e6 / 0.7, rel=0.02)
    assert found.peak_throughput_per_s == pytest.approx(50, rel=0.03)
    assert found.sustained_throughput_per_s == pytest.approx(35, rel=0.03)
    assert found.retention_ratio == pytest.approx(0.7, rel=0.02)
    assert (found.baseline_freq_hz, found.nominal_freq_hz) == (1.5e9, 1.5e9)


def test_device_that_shows_nothing_is_unknown() -> None:
    """Otherwise a microcontroller or a virtual machine would be “not throttled” unseen."""
    run = still()
    assert judged(run, TelemetryTrace()) == "unknown"
    slower = HotRun(slowed(run, 1.3, 90.0), run.telemetry)
    assert judged(slower, TelemetryTrace()) == "unknown"
    found = find_throttling(run.timeline, TelemetryTrace(), LINUX)
    assert (found.start_temp_c, found.max_temp_c, found.is_baseline_cool) == (None, None, None)
    assert (found.baseline_freq_hz, found.nominal_freq_hz) == (None, None)


def test_run_of_seconds_is_too_short_to_tell_unless_the_device_does() -> None:
    """Otherwise three seconds on a cool board would be “not throttled”."""
    run = still()
    short = Timeline(run.timeline.start_ns[:150], run.timeline.invoke_ns[:150])
    found = find_throttling(short, run.telemetry, LINUX)
    assert found.verdict == "unknown"
    assert "too short" in found.reason
    assert "3.00 s is too short" in found.reason
    assert "9 s after the warm-up are enough" in found.reason
    bits = with_series(run, rpi__throttled_bits=(float(0x40004),) * 360)
    assert find_throttling(short, bits, RASPBERRY_PI).verdict == "throttled:thermal"


def test_single_inference_is_no_division_by_zero() -> None:
    """Otherwise a run that was stopped at once would end in a traceback."""
    one = Timeline(np.array([5], np.int64), np.array([7], np.int64))
    assert find_throttling(one, TelemetryTrace(), LINUX).verdict == "unknown"
