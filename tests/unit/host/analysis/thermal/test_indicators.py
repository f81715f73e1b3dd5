"""What the device reports of its own state, and when."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from support.hot_runs import RASPBERRY_PI

from edgebench.host.analysis.thermal.indicators import Indications, find_indications
from edgebench.host.analysis.thermal.telemetry import Series, TelemetryTrace, WindowMask
from edgebench.host.result.reasons import thermal
from edgebench.protocol.thermal import Expectation

EDGES_NS = (np.arange(11) * 1e9).astype(np.int64)
COOL = np.zeros(10, np.bool_)
HOT = np.ones(10, np.bool_)
ANY = Expectation()


def each_second(*values: float) -> Series:
    """Return a reading in the middle of each second, from half a second before the run."""
    return Series(
        ((np.arange(len(values)) - 0.5) * 1e9).astype(np.int64), np.array(values, np.float64)
    )


def bits(*values: int, is_hot: WindowMask | None = COOL) -> dict[str, list[int]]:
    """Return windows by cause."""
    telemetry = TelemetryTrace({"rpi.throttled_bits": each_second(*map(float, values))})
    return by_cause(find_indications(telemetry, RASPBERRY_PI, EDGES_NS, is_hot))


def by_cause(found: Indications) -> dict[str, list[int]]:
    """Return the windows of each cause."""
    return {
        indication.cause: list(np.flatnonzero(indication.windows))
        for indication in found.indications
    }


def cooling(kind: str, *states: float, expected: Expectation = ANY) -> Indications:
    """Return what is found with one cooling device."""
    telemetry = TelemetryTrace({f"cooling.{kind}.0.state": each_second(*states)})
    return find_indications(telemetry, expected, EDGES_NS, None)


def test_weak_supply_is_not_heat() -> None:
    """Otherwise a bad cable would be a thermal problem: firmware reports both as "throttled"."""
    assert bits(0, 0, 0x50005, 0x50000) == {"undervoltage": [1]}
    assert bits(0, 0, 0x50005, 0x50000, is_hot=None) == {"undervoltage": [1]}


def test_dip_between_two_looks_is_not_heat() -> None:
    """Only the sticky bits of the supply and of throttling remain of such a dip."""
    assert bits(0, 0, 0x50000, 0x50000) == {"undervoltage": [1]}


def test_weak_supply_of_a_hot_board_hides_no_heat() -> None:
    """Otherwise only one of the two would be reported, though both are there."""
    found = bits(0, 0, 0xF0009, 0xF0006, 0xF0006, 0xF0000, is_hot=HOT)
    assert found == {"thermal": [1, 2, 3], "undervoltage": [1]}


def test_heat_long_after_a_dip_is_heat() -> None:
    """Otherwise one dip of the supply would hide all later heat."""
    found = bits(0, 0, 0x50005, 0x50000, 0x50000, 0x50000, 0x50004)
    assert found == {"undervoltage": [1], "thermal": [5]}


def test_sticky_bit_marks_the_moment_and_not_the_rest() -> None:
    """Otherwise a bit that never goes away again would make the whole run throttled."""
    assert bits(0, 0, 0, 0x80000, *([0x80000] * 6)) == {"thermal": [2]}


def test_bit_of_before_the_run_is_old() -> None:
    """Otherwise yesterday's heat would be today's."""
    assert bits(*([0x80000] * 10)) == {}


def test_last_look_after_the_end_counts() -> None:
    """Otherwise what happens in the last second before the end would never be seen."""
    assert bits(*([0] * 11), 0x80000) == {"thermal": [9]}


@pytest.mark.parametrize("value", [-1.0, 1e300, 2.0**63])
def test_device_may_send_any_bits(value: float) -> None:
    """Otherwise a damaged agent would end the analysis in a traceback or a warning."""
    telemetry = TelemetryTrace({"rpi.throttled_bits": each_second(value, value)})
    assert find_indications(telemetry, RASPBERRY_PI, EDGES_NS, COOL).known.any()


@pytest.mark.parametrize("kind", ["pwm-fan", "dell-smm-fan1", "Fan", "TCC Offset", "usb-charger"])
def test_only_what_slows_down_is_an_indicator(kind: str) -> None:
    """Otherwise a fan that turns would be throttling."""
    found = cooling(kind, 0, 0, 3, 4)
    assert not found.indications
    assert not found.known.any()


@pytest.mark.parametrize("kind", ["thermal-cpufreq-0", "thermal-idle-0", "Processor"])
def test_cooling_device_that_is_at_work_is_heat(kind: str) -> None:
    """A board that begins throttled, and stays so, has nothing to compare with."""
    assert by_cause(cooling(kind, 0, 0, 0, 2, 0)) == {"thermal": [2]}
    assert by_cause(cooling(kind, 2, 2, 2)) == {"thermal": [0, 1]}
    assert cooling(kind, 0, 0, 0).known.any()


def test_power_clamp_that_rests_is_not_at_work() -> None:
    """Otherwise its state of -1 would mean heat, as every state but 0 does."""
    assert by_cause(cooling("intel_powerclamp", -1, -1, 0)) == {}


def test_profile_may_leave_a_cooling_device_out() -> None:
    """Otherwise a type that the profile excludes would be judged all the same."""
    expected = replace(ANY, cooling_exclude=("thermal-cpufreq-0",))
    assert not cooling("thermal-cpufreq-0", 0, 2, expected=expected).known.any()


def test_source_that_falls_silent_is_known_until_then() -> None:
    """Otherwise firmware that was read for twenty seconds would exclude heat for an hour."""
    telemetry = TelemetryTrace({"rpi.throttled_bits": each_second(0, 0, 0, 0)})
    found = find_indications(telemetry, RASPBERRY_PI, EDGES_NS, COOL)
    assert list(np.flatnonzero(found.known)) == [0, 1, 2]


def test_first_indicator_of_the_profile_names_the_cause() -> None:
    """Otherwise the longest cause would win over what the profile calls the authority."""
    telemetry = TelemetryTrace(
        {
            "hwmon.soctherm_oc.0.oc3.event_count": each_second(0, 0, 5, 5),
            "cooling.thermal-cpufreq-0.0.state": each_second(0, 1, 1, 1),
        }
    )

    def causes(*order: str) -> list[str]:
        expected = replace(ANY, indicators=order)
        found = find_indications(telemetry, expected, EDGES_NS, None)
        return [indication.cause for indication in found.indications]

    assert causes("soctherm_oc", "cooling_device") == ["overcurrent", "thermal"]
    assert causes("cooling_device", "soctherm_oc") == ["thermal", "overcurrent"]
    assert causes("cooling_device") == ["thermal", "overcurrent"]


def test_status_of_android_holds_from_one_reading_to_the_next() -> None:
    """Otherwise the windows between two readings of a slow command would be cool."""
    status = Series(
        (np.array([-0.5, 2.5, 6.5, 9.5]) * 1e9).astype(np.int64), np.array([0.0, 2.0, 3.0, 1.0])
    )
    found = find_indications(
        TelemetryTrace({"android.thermal_status": status}), ANY, EDGES_NS, None
    )
    assert by_cause(found) == {"thermal": [2, 3, 4, 5, 6]}
    assert found.known.all()
    assert [indication.reason for indication in found.indications] == [
        thermal.android_thermal_status(status=3)
    ]
