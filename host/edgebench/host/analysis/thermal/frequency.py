"""Frequency at which the model ran, as far as the device reports it.

The profile orders the sources by their reliability:

    vcgencmd:arm         measured by the firmware of a Raspberry Pi
    cpuinfo_avg_freq     measured by the hardware, where the kernel has it
    cpuinfo_cur_freq     as the driver reads it from the hardware; only if the agent is root
    time_in_state        mean over a window, at any sampling rate
    scaling_cur_freq     with many drivers only the frequency that was requested

The last two sources are the kernel's own bookkeeping. They are not used if the firmware decides and
the kernel's frequency is only a request, according to the profile. A decrease of the frequency cap
is still used.

If most of a model runs on an accelerator, the accelerator's clock is used: the CPU waits for the
accelerator, and the clock of an idle CPU falls.

Source: device facts of the profiles; kernel documentation, admin-guide/pm/cpufreq.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from edgebench.host.analysis.thermal.delegation import Delegation
from edgebench.host.analysis.thermal.telemetry import (
    Floats,
    Nanoseconds,
    Series,
    TelemetryTrace,
    window_sums,
)
from edgebench.protocol.device import SAME_CLUSTER_RATIO
from edgebench.protocol.thermal import Expectation

_FIRMWARE = "vcgencmd:arm"
_FIRMWARE_SENSOR = "rpi.arm_freq_hz"
_SENSORS = {
    "cpuinfo_avg_freq": "freq_hz_average",
    "cpuinfo_cur_freq": "freq_hz_hardware",
    "time_in_state": "cycles",
    "scaling_cur_freq": "freq_hz",
}
_REQUESTS = frozenset({"time_in_state", "scaling_cur_freq"})
_POLICY = re.compile(r"cpufreq\.policy([0-9]{1,4})\.")
_CPUS_MAX = 1024
"""Upper limit of CPU numbers. A bit mask that a sensor reports as a double has no more bits."""


ByWindow = Callable[[Series, Nanoseconds], Floats]
"""Function that reduces the readings of each window to a value: `Series.medians`, `Series.midmeans`
(as for the latency) or `Series.means`. Means keep short dips visible."""


@dataclass(frozen=True, slots=True)
class Frequency:
    """Frequency of the model's CPU or accelerator, by window."""

    freq_hz: Floats | None
    """Frequency by window, shape (k,), NaN where not read; None without a trusted source."""
    cap_hz: Floats | None
    """Highest frequency that the kernel allowed, shape (k,)."""
    policy: Floats
    """Number of the kernel's frequency policy that the model ran on, shape (k,); NaN if unknown."""
    cluster: Floats
    """Number of the lowest policy with the same type of core, shape (k,). It identifies the type
    also on x86, which has a policy for each core."""


def find_frequency(
    telemetry: TelemetryTrace,
    expected: Expectation,
    edges_ns: Nanoseconds,
    by_window: ByWindow = Series.medians,
    delegation: Delegation | None = None,
) -> Frequency:
    """Frequency from the first available source of the profile, or from the accelerator."""
    if delegation is not None:
        name, nowhere = f"devfreq.{delegation.devfreq}", np.full(len(edges_ns) - 1, np.nan)
        freq = telemetry.series.get(f"{name}.freq_hz")
        cap = telemetry.series.get(f"{name}.freq_hz_cap")
        return Frequency(
            freq_hz=None if freq is None else by_window(freq, edges_ns),
            cap_hz=None if cap is None else by_window(cap, edges_ns),
            policy=nowhere,
            cluster=nowhere,
        )
    policy = _policy_by_window(telemetry, edges_ns)
    freq_hz = None
    for source in expected.freq_truth:
        if source == _FIRMWARE and _FIRMWARE_SENSOR in telemetry.series:
            freq_hz = by_window(telemetry.series[_FIRMWARE_SENSOR], edges_ns)
        elif source in _SENSORS and not (expected.is_freq_a_request and source in _REQUESTS):
            freq_hz = _read_by_policy(telemetry, policy, _SENSORS[source], edges_ns, by_window)
        if freq_hz is not None:
            break
    return Frequency(
        freq_hz=freq_hz,
        cap_hz=_read_by_policy(telemetry, policy, "freq_hz_cap", edges_ns, by_window),
        policy=policy,
        cluster=_clusters(telemetry, policy),
    )


def nominal_freq_hz(
    telemetry: TelemetryTrace, expected: Expectation, policy: float
) -> float | None:
    """Nominal frequency of a policy, from the profile or from the kernel's cap at the start."""
    if math.isnan(policy):
        return None
    for cluster in expected.clusters:
        if cluster.policy == policy:
            return float(cluster.freq_hz_max)
    name = f"cpufreq.policy{policy:.0f}"
    cap = telemetry.series.get(f"{name}.freq_hz_cap")
    return float(cap.value[0]) if cap else telemetry.constants.get(f"{name}.freq_hz_max")


def most_common(values: Floats) -> float:
    """Most frequent value that is not NaN; NaN if all values are NaN."""
    known, counts = np.unique(values[~np.isnan(values)], return_counts=True)
    return float(known[np.argmax(counts)]) if known.size else math.nan


def cpu_mask(telemetry: TelemetryTrace, policy: int) -> int:
    """CPUs of a policy, as a bit mask; 0 if unknown."""
    # The device sends these numbers, so any value is possible.
    mask = telemetry.constants.get(f"cpufreq.policy{policy}.cpu_mask", 0.0)
    return int(mask) if math.isfinite(mask) and mask > 0 else 0


def _policy_by_window(telemetry: TelemetryTrace, edges_ns: Nanoseconds) -> Floats:
    """Frequency policy whose CPUs the worker ran on for most of each window."""
    count = len(edges_ns) - 1
    matches = (_POLICY.match(name) for name in telemetry.series)
    policies = sorted({int(match[1]) for match in matches if match})
    if len(policies) == 1:
        return np.full(count, float(policies[0]))
    cpus = telemetry.series.get("worker.cpu")
    if cpus is None or not policies:
        return np.full(count, np.nan)
    masks = {policy: cpu_mask(telemetry, policy) for policy in policies}

    def policy_of(cpu: float) -> float:
        if not 0 <= cpu < _CPUS_MAX:
            return math.nan
        return next((float(p) for p, mask in masks.items() if mask >> int(cpu) & 1), math.nan)

    known_cpus, places = np.unique(cpus.value, return_inverse=True)
    holders = np.array([policy_of(cpu) for cpu in known_cpus])[places]
    counts = np.array(
        [window_sums(cpus.time_ns, (holders == policy) * 1.0, edges_ns) for policy in policies]
    )
    is_known = counts.any(axis=0)
    return np.where(is_known, np.array(policies, float)[counts.argmax(axis=0)], np.nan)


def _clusters(telemetry: TelemetryTrace, policy_by_window: Floats) -> Floats:
    """Cluster by window: the lowest policy whose highest frequency is about the same."""
    clusters = policy_by_window.copy()
    leaders: dict[float, float] = {}
    for policy in np.unique(policy_by_window[~np.isnan(policy_by_window)]):
        top_hz = telemetry.constants.get(f"cpufreq.policy{policy:.0f}.freq_hz_max", math.nan)
        alike = (p for p, hz in leaders.items() if abs(hz - top_hz) <= SAME_CLUSTER_RATIO * hz)
        leader = next(alike, float(policy))
        leaders.setdefault(leader, top_hz)
        clusters[policy_by_window == policy] = leader
    return clusters


def _read_by_policy(
    telemetry: TelemetryTrace,
    policy_by_window: Floats,
    sensor: str,
    edges_ns: Nanoseconds,
    by_window: ByWindow,
) -> Floats | None:
    """Readings, by window, of the policy that the model ran on; None if no policy has any.

    A clock of 0 Hz while a model runs is a stopped counter, and is discarded.
    """
    values: Floats | None = None
    for policy in np.unique(policy_by_window[~np.isnan(policy_by_window)]):
        series = telemetry.series.get(f"cpufreq.policy{policy:.0f}.{sensor}")
        if series is None:
            continue
        if values is None:
            values = np.full(len(edges_ns) - 1, np.nan)
        here = policy_by_window == policy
        read = series.rates(edges_ns) if sensor == "cycles" else by_window(series, edges_ns)
        values[here] = np.where(read[here] > 0, read[here], np.nan)
    return None if values is None or np.isnan(values).all() else values
