"""The live clock is the clock that the run's analysis would trust."""

from __future__ import annotations

import math

from edgebench.agent.telemetry.live_clock import KEPT_LOOKS, LiveClock
from edgebench.protocol.thermal import Expectation

SENSORS = (
    "cpufreq.policy0.freq_hz",
    "cpufreq.policy0.freq_hz_cap",
    "cpufreq.policy0.cycles",
    "rpi.arm_freq_hz",
    "cpufreq.policy4.freq_hz",
)
PI = Expectation(is_freq_a_request=True, freq_truth=("vcgencmd:arm", "scaling_cur_freq"))
NS = 1_000_000_000


def test_clock_of_the_firmware_comes_before_the_one_that_was_asked_for() -> None:
    """Otherwise a Raspberry Pi at 81 °C and 1.6 GHz would be shown at 2.4 GHz."""
    clock = LiveClock(SENSORS, PI.believed_freq_sources)
    assert clock.look(0, (2.4e9, 2.4e9, 0.0, 1.6e9, 2.4e9)) == 1.6e9


def test_clock_that_was_only_asked_for_is_not_shown() -> None:
    """Otherwise the request would be taken for the clock where the firmware does not respond."""
    without = SENSORS[:3]
    clock = LiveClock(without, PI.believed_freq_sources)
    assert clock.look(0, (2.4e9, 2.4e9, 0.0)) is None
    believing = LiveClock(without, Expectation(freq_truth=("scaling_cur_freq",)).freq_truth)
    assert believing.look(0, (2.4e9, 2.4e9, 0.0)) == 2.4e9


def test_clock_that_is_asked_for_at_every_second_look_does_not_flicker() -> None:
    """Otherwise the clock would flicker each second, or outlast a dead firmware for ever."""
    clock = LiveClock(SENSORS, PI.believed_freq_sources)
    looks = [1.6e9] + [math.nan] * KEPT_LOOKS
    shown = [clock.look(0, (2.4e9, 2.4e9, 0.0, hz, 2.4e9)) for hz in looks]
    assert shown == [1.6e9] * KEPT_LOOKS + [None]


def test_time_in_each_state_is_shown_as_the_mean_since_the_last_look() -> None:
    """Otherwise cycles since boot would be shown as a clock of some petahertz."""
    clock = LiveClock(SENSORS, ("time_in_state", "scaling_cur_freq"))
    assert clock.look(5 * NS, (2.4e9, 2.4e9, 9e15, math.nan, 1e9)) is None
    assert clock.look(7 * NS, (2.4e9, 2.4e9, 9e15 + 3e9, math.nan, 1e9)) == 1.5e9


def test_sources_that_nobody_reads_are_passed_over() -> None:
    """Otherwise a single source that this version does not know would hide all others."""
    sources = ("firmware", "cpuinfo_avg_freq", "scaling_cur_freq")
    assert LiveClock(SENSORS, sources).look(0, (1e9, 2e9, 0.0, 3e9, 1.5e9)) == 1.5e9
    assert LiveClock((), sources).look(0, ()) is None


def test_counter_that_stands_still_shows_no_clock() -> None:
    """Otherwise a phone with a frozen counter would be shown at 0.00 GHz."""
    clock = LiveClock(SENSORS[:3], ("time_in_state",))
    for second in range(1, KEPT_LOOKS + 2):
        found = clock.look(second * NS, (2.4e9, 2.4e9, 7.0e12))
    assert found is None
