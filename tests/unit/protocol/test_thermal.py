"""Terms of heat that both sides must interpret alike."""

from __future__ import annotations

import pytest

from edgebench.protocol.thermal import slows_down


@pytest.mark.parametrize(
    "kind",
    [
        *("cpufreq-cpu0", "thermal-cpufreq-0", "devfreq-fb000000.gpu"),
        *("thermal-devfreq-0", "thermal-gpufreq-0", "cpuidle-0", "thermal-idle-0", "idle-cpu1"),
        *("Processor", "intel_powerclamp"),
    ],
)
def test_cooling_devices_that_slow_down_are_known(kind: str) -> None:
    """Otherwise a device that was throttled would be called not throttled."""
    assert slows_down(kind)


@pytest.mark.parametrize(
    "kind",
    [
        *("pwm-fan", "gpio-fan", "Fan", "khadas-mcu-fan", "emc2301_cooling", "TCC Offset"),
        *("LCD", "iwlwifi_1", "tec", "", "Processor Fan"),
    ],
)
def test_what_cools_without_slowing_down_is_no_throttling(kind: str) -> None:
    """Otherwise a turning fan of an unforeseen name would make the run count as throttled."""
    assert not slows_down(kind)
