"""Which frequency is trusted, and to which CPU it belongs."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from edgebench.host.analysis.thermal.frequency import find_frequency, nominal_freq_hz
from edgebench.host.analysis.thermal.telemetry import Series, TelemetryTrace
from edgebench.protocol.thermal import Expectation, ExpectedCluster

EDGES_NS = (np.arange(4) * 1e9).astype(np.int64)
ANY = Expectation()


def flat(value: float) -> Series:
    """Return ten readings a second of the same value."""
    return cycle(value)


def cycle(*values: float) -> Series:
    """Return readings that repeat in a cycle."""
    time_ns = (np.arange(30) * 1e8).astype(np.int64)
    return Series(time_ns, np.resize(np.array(values), 30))


def clock(telemetry: TelemetryTrace, expected: Expectation = ANY) -> float | None:
    """Return the frequency of the middle window."""
    found = find_frequency(telemetry, expected, EDGES_NS).freq_hz
    return None if found is None else float(found[1])


EVERY = TelemetryTrace(
    {
        "rpi.arm_freq_hz": flat(1.0e9),
        "cpufreq.policy0.freq_hz_average": flat(1.1e9),
        "cpufreq.policy0.cycles": Series(EDGES_NS, EDGES_NS * 1.2),
        "cpufreq.policy0.freq_hz_hardware": flat(1.25e9),
        "cpufreq.policy0.freq_hz": flat(1.3e9),
        "cpufreq.policy0.freq_hz_cap": flat(1.4e9),
    }
)


@pytest.mark.parametrize(
    ("truth", "expected_hz"),
    [
        (("vcgencmd:arm", "cpuinfo_avg_freq"), 1.0e9),
        (("cpuinfo_avg_freq", "vcgencmd:arm"), 1.1e9),
        (("time_in_state", "scaling_cur_freq"), 1.2e9),
        (("scaling_cur_freq",), 1.3e9),
        (("cpuinfo_cur_freq", "scaling_cur_freq"), 1.25e9),
        (("firmware",), None),
    ],
)
def test_profile_orders_the_sources(truth: tuple[str, ...], expected_hz: float | None) -> None:
    """Otherwise a profile would name the true clock, and another clock would be shown."""
    found = clock(EVERY, replace(ANY, freq_truth=truth))
    assert found == (None if expected_hz is None else pytest.approx(expected_hz))


def test_bookkeeping_of_requests_is_not_believed() -> None:
    """Otherwise the kernel's own sums would show full speed for ever where the firmware decides."""
    asked = replace(ANY, freq_truth=("time_in_state", "scaling_cur_freq"), is_freq_a_request=True)
    assert clock(EVERY, asked) is None
    measured = replace(asked, freq_truth=("time_in_state", "cpuinfo_avg_freq"))
    assert clock(EVERY, measured) == pytest.approx(1.1e9)


def clusters(*, cpu: Series, **constants: float) -> TelemetryTrace:
    """Return three clusters: CPUs 0 to 3, 4 and 5, 6 and 7."""
    masks = {0: 0b1111, 4: 0b110000, 6: 0b11000000}
    series = {f"cpufreq.policy{p}.freq_hz": flat((p + 1) * 1e8) for p in masks} | {
        "worker.cpu": cpu
    }
    return TelemetryTrace(
        series, {f"cpufreq.policy{p}.cpu_mask": float(m) for p, m in masks.items()} | constants
    )


def test_policy_is_where_the_model_was_most_of_the_time() -> None:
    """Otherwise the median of CPU 0 and CPU 7 would be a CPU that the model hardly used."""
    run = clusters(cpu=cycle(0, 0, 0, 7, 7, 7, 7, 0, 4, 4))
    found = find_frequency(run, ANY, EDGES_NS)
    assert list(found.policy) == [0, 0, 0] or list(found.policy) == [6, 6, 6]
    run = clusters(cpu=cycle(0, 0, 0, 0, 4, 4, 7, 7, 6, 6))
    assert list(find_frequency(run, ANY, EDGES_NS).policy) in ([0, 0, 0], [6, 6, 6])
    run = clusters(cpu=cycle(0, 0, 0, 4, 4, 7, 7, 6, 6, 6))
    assert list(find_frequency(run, ANY, EDGES_NS).policy) == [6, 6, 6]


@pytest.mark.parametrize("mask", [float("nan"), float("inf"), -1.0, 0.0, 1e308])
@pytest.mark.parametrize("cpu", [-5.0, 1e300, 3.5])
def test_device_may_send_any_number(mask: float, cpu: float) -> None:
    """Otherwise a damaged agent would end the analysis in a traceback."""
    run = clusters(cpu=flat(cpu), **{"cpufreq.policy4.cpu_mask": mask})
    assert len(find_frequency(run, ANY, EDGES_NS).policy) == 3


def test_device_may_send_any_name() -> None:
    """Otherwise a sensor "cpufreq.policyX.freq_hz" would end the analysis in a traceback."""
    names = ("cpufreq.policyX.freq_hz", "cpufreq.policy٣.freq_hz", "cpufreq.policy.freq_hz_cap")
    assert clock(TelemetryTrace({name: flat(1e9) for name in names})) is None


def test_nominal_frequency_is_the_profiles_or_that_of_the_start() -> None:
    """Otherwise a power mode chosen before the run would be throttling, or never be reported."""
    cap = {"cpufreq.policy0.freq_hz_cap": cycle(1.4e9, 0.7e9)}
    constants = {"cpufreq.policy0.freq_hz_max": 1.8e9}
    run = TelemetryTrace(cap, constants)
    profile = replace(ANY, clusters=(ExpectedCluster(0, 2_000_000_000),))
    assert nominal_freq_hz(run, profile, 0.0) == 2.0e9
    assert nominal_freq_hz(run, ANY, 0.0) == 1.4e9
    assert nominal_freq_hz(TelemetryTrace({}, constants), ANY, 0.0) == 1.8e9
    assert nominal_freq_hz(TelemetryTrace(), ANY, 0.0) is None
    assert nominal_freq_hz(run, profile, float("nan")) is None


def test_counter_that_stands_still_is_no_clock() -> None:
    """Otherwise a frozen counter would be shown as 0.00 GHz, and prove a steady clock."""
    order = replace(ANY, freq_truth=("time_in_state", "scaling_cur_freq"))
    frozen = {**EVERY.series, "cpufreq.policy0.cycles": Series(EDGES_NS, np.full(4, 9.0e12))}
    assert clock(replace(EVERY, series=frozen), order) == 1.3e9
    alone = {
        name: frozen[name] for name in ("cpufreq.policy0.cycles", "cpufreq.policy0.freq_hz_cap")
    }
    found = find_frequency(TelemetryTrace(alone), order, EDGES_NS)
    assert found.freq_hz is None
    assert found.cap_hz is not None


def test_clock_of_zero_is_no_reading() -> None:
    """Otherwise a driver that reports 0 for a clock would make it the model's."""
    order = replace(ANY, freq_truth=("cpuinfo_avg_freq", "scaling_cur_freq"))
    zero = {**EVERY.series, "cpufreq.policy0.freq_hz_average": flat(0.0)}
    assert clock(replace(EVERY, series=zero), order) == 1.3e9
