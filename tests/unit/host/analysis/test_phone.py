"""State of a phone around its timed loop, according to the readings there."""

from __future__ import annotations

import numpy as np
import pytest

from edgebench.host.analysis.phone import PhoneConditions, phone_conditions
from edgebench.host.analysis.thermal.telemetry import Series, TelemetryTrace

BEGIN_NS, END_NS = 30_000_000_000, 50_000_000_000
"""The timed loop, from 30 to 50 s."""


def trace(**series: dict[float, float]) -> TelemetryTrace:
    """Return a trace with these readings by time in seconds; `__` in a name stands for a dot."""
    return TelemetryTrace(
        {
            name.replace("__", "."): Series(
                (np.array(list(read)) * 1e9).astype(np.int64), np.array(list(read.values()))
            )
            for name, read in series.items()
        }
    )


def state(**series: dict[float, float]) -> PhoneConditions:
    """Return the state according to this trace."""
    return phone_conditions(trace(**series), BEGIN_NS, END_NS)


def test_nothing_is_known_of_a_device_without_such_sensors() -> None:
    """Otherwise a phone that denies everything would count as cool and not charged."""
    assert state() == PhoneConditions()


def test_readings_around_the_loop_count() -> None:
    """Otherwise a battery that charged before the run, or after it, would make it suspect."""
    status = {0.0: 2.0, 29.0: 3.0, 40.0: 3.0, 51.0: 3.0, 60.0: 2.0}
    assert state(power_supply__battery__status=status).charging_ratio == 0.0
    status[40.0] = 2.0
    assert state(power_supply__battery__status=status).charging_ratio == pytest.approx(1 / 3)


def test_one_reading_before_and_one_after_a_short_run_are_enough() -> None:
    """Otherwise nothing would be known of runs shorter than the period of a command."""
    found = state(
        android__screen_on={1.0: 1.0, 70.0: 0.0},
        android__power_saver={1.0: 0.0, 70.0: 0.0},
        android__thermal_status={1.0: 0.0, 70.0: 1.0},
    )
    assert (found.screen_off_ratio, found.power_saver_ratio) == (0.5, 0.0)
    assert found.thermal_status_max == 1


def test_brightness_that_changes_has_a_range() -> None:
    """Otherwise a screen that was brightened in the middle would count as dim."""
    found = state(
        android__screen_brightness={1.0: 40.0, 40.0: 102.0, 70.0: 40.0},
        android__airplane_mode={1.0: 1.0, 40.0: 0.0, 70.0: 1.0},
    )
    assert found.screen_brightness == (40, 102)
    assert found.airplane_mode_ratio == pytest.approx(2 / 3)


def test_brightness_that_a_device_denies_is_unknown() -> None:
    """Otherwise a phone without the setting would end the analysis."""
    assert state(android__screen_brightness={}).screen_brightness is None


def test_kernel_is_believed_before_a_service_that_is_told_what_to_report() -> None:
    """Otherwise `dumpsys battery unplug` would put a phone on a charger on its battery."""
    faked = {1.0: 1.0, 70.0: 1.0}
    alone = state(android__battery_faked=faked)
    assert (alone.charging_ratio, alone.is_battery_faked) == (None, True)
    both = state(android__battery_faked=faked, power_supply__battery__status={29.0: 2.0, 51.0: 2.0})
    assert both.charging_ratio == 1.0


def test_status_that_a_driver_does_not_know_is_none() -> None:
    """Otherwise a battery of unknown status would count as not charging."""
    unknown = {29.0: 1.0, 51.0: 1.0}
    assert state(power_supply__battery__status=unknown).charging_ratio is None
    service = {29.0: 3.0, 51.0: 3.0}
    found = state(power_supply__battery__status=unknown, android__battery_status=service)
    assert found.charging_ratio == 0.0


def test_battery_that_charges_counts_beside_a_supply_that_does_not() -> None:
    """Otherwise a port with a status of its own would hide that the battery charges."""
    found = state(power_supply__battery__status={29.0: 2.0}, power_supply__usb__status={29.0: 4.0})
    assert found.charging_ratio == 1.0


def test_status_that_was_overridden_for_a_while_is_marked() -> None:
    """Otherwise a phone whose status was set to 0 would count as cool."""
    found = state(
        android__thermal_status={1.0: 0.0}, android__thermal_overridden={1.0: 0.0, 40.0: 1.0}
    )
    assert found.is_thermal_overridden
