"""At which frequency the model really ran, as far as the device tells.

The profile orders the sources by how far they can be believed:

    vcgencmd:arm         measured by the firmware of a Raspberry Pi
    cpuinfo_avg_freq     measured by the hardware, where the kernel has it
    time_in_state        the mean over a window, however slowly it is sampled
    scaling_cur_freq     on many drivers only what was asked for

Where a profile says that the kernel's frequency is a request (the firmware decides), the kernel's
own bookkeeping, which is the last two, is not believed; its cap is, when it falls.

Source: device facts of the profiles; kernel documentation, admin-guide/pm/cpufreq.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from edgebench.host.analysis.thermal.telemetry import Floats, Nanoseconds, Telemetry
from edgebench.protocol.thermal import Expectation

_FIRMWARE = "vcgencmd:arm"
_FIRMWARE_SENSOR = "rpi.arm_freq_hz"
_SENSORS = {
    "cpuinfo_avg_freq": "freq_hz_average",
    "time_in_state": "cycles",
    "scaling_cur_freq": "freq_hz",
}
_REQUESTS = frozenset({"time_in_state", "scaling_cur_freq"})
_POLICY = re.compile(r"cpufreq\.policy([0-9]{1,4})\.")
SAME_CLUSTER_RATIO = 0.1
"""Favoured cores of one kind differ by a few percent, kinds of cores by more."""
_CPUS_MAX = 1024
"""More than a sensor's mask of CPUs, which is a double, can hold."""


@dataclass(frozen=True, slots=True)
class Frequency:
    """Frequency under the model, by window."""

    freq_hz: Floats | None
    """Shape (k,); NaN where nothing was read; None where no source can be believed."""
    cap_hz: Floats | None
    """Highest frequency that the kernel allowed, shape (k,)."""
    policy: Floats
    """Number of the policy that the model ran on, shape (k,); NaN where nobody knows."""
    cluster: Floats
    """The lowest policy of the same kind of core, shape (k,): x86 has a policy for each core."""


def find_frequency(telemetry: Telemetry, expected: Expectation, edges_ns: Nanoseconds) -> Frequency:
    """The frequency by the first source of the profile's order that was read."""
    policies = _policies(telemetry)
    where = _policy_by_window(telemetry, policies, edges_ns)
    return Frequency(
        freq_hz=_clock(telemetry, expected, where, edges_ns),
        cap_hz=_of_policies(telemetry, where, "freq_hz_cap", edges_ns),
        policy=where,
        cluster=_clusters(telemetry, where),
    )


def nominal_freq_hz(telemetry: Telemetry, expected: Expectation, policy: float) -> float | None:
    """What the policy should run at: by the profile, or what the kernel allowed at the start."""
    if math.isnan(policy):
        return None
    for cluster in expected.clusters:
        if cluster.policy == policy:
            return float(cluster.freq_hz_max)
    name = f"cpufreq.policy{policy:.0f}"
    cap = telemetry.series.get(f"{name}.freq_hz_cap")
    return float(cap.value[0]) if cap else telemetry.constants.get(f"{name}.freq_hz_max")


def _clock(
    telemetry: Telemetry, expected: Expectation, where: Floats, edges_ns: Nanoseconds
) -> Floats | None:
    for source in expected.freq_truth:
        if source == _FIRMWARE and _FIRMWARE_SENSOR in telemetry.series:
            return telemetry.series[_FIRMWARE_SENSOR].medians(edges_ns)
        if source not in _SENSORS or (expected.is_freq_a_request and source in _REQUESTS):
            continue
        found = _of_policies(telemetry, where, _SENSORS[source], edges_ns)
        if found is not None:
            return found
    return None


def _clusters(telemetry: Telemetry, where: Floats) -> Floats:
    """Policies whose highest frequencies are about the same are one cluster."""
    found = where.copy()
    leaders: dict[float, float] = {}
    for policy in np.unique(where[~np.isnan(where)]):
        top_hz = telemetry.constants.get(f"cpufreq.policy{policy:.0f}.freq_hz_max", math.nan)
        alike = (p for p, hz in leaders.items() if abs(hz - top_hz) <= SAME_CLUSTER_RATIO * hz)
        leader = next(alike, float(policy))
        leaders.setdefault(leader, top_hz)
        found[where == policy] = leader
    return found


def _policies(telemetry: Telemetry) -> list[int]:
    found = (_POLICY.match(name) for name in telemetry.series)
    return sorted({int(match[1]) for match in found if match})


def _policy_by_window(telemetry: Telemetry, policies: list[int], edges_ns: Nanoseconds) -> Floats:
    """The policy whose CPUs the worker ran on most of each window."""
    count = len(edges_ns) - 1
    if len(policies) == 1:
        return np.full(count, float(policies[0]))
    cpus = telemetry.series.get("worker.cpu")
    if cpus is None or not policies:
        return np.full(count, np.nan)
    masks = {policy: _mask(telemetry, policy) for policy in policies}
    holders = np.array([_holder(cpu, masks) for cpu in cpus.value])
    bounds = np.searchsorted(cpus.time_ns, edges_ns)
    return np.array([most_common(holders[first:last]) for first, last in pairwise(bounds)])


def most_common(values: Floats) -> float:
    """The value that is there most often; NaN where none is known."""
    known, counts = np.unique(values[~np.isnan(values)], return_counts=True)
    return float(known[np.argmax(counts)]) if known.size else math.nan


def _mask(telemetry: Telemetry, policy: int) -> int:
    # A device sends these numbers: it may send any.
    mask = telemetry.constants.get(f"cpufreq.policy{policy}.cpu_mask", 0.0)
    return int(mask) if math.isfinite(mask) and mask > 0 else 0


def _holder(cpu: float, masks: dict[int, int]) -> float:
    if not 0 <= cpu < _CPUS_MAX:
        return math.nan
    return next((float(p) for p, mask in masks.items() if mask >> int(cpu) & 1), math.nan)


def _of_policies(
    telemetry: Telemetry, where: Floats, sensor: str, edges_ns: Nanoseconds
) -> Floats | None:
    """A sensor of whichever policy the model ran on; None where none of them has it."""
    found = np.full(len(edges_ns) - 1, np.nan)
    is_any = False
    for policy in np.unique(where[~np.isnan(where)]):
        series = telemetry.series.get(f"cpufreq.policy{policy:.0f}.{sensor}")
        if series is None:
            continue
        is_any = True
        values = series.rates(edges_ns) if sensor == "cycles" else series.medians(edges_ns)
        found[where == policy] = values[where == policy]
    return found if is_any else None
