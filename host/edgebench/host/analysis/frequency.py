"""At which frequency the model really ran, as far as the device tells.

The sources, the best first:

    the firmware's measured clock          Raspberry Pi
    cycles from time_in_state              the mean over a window, however slowly it is sampled
    cpuinfo_avg_freq                       measured by the hardware
    scaling_cur_freq                       on many drivers only what was asked for

Where a profile says that the kernel's frequency is a request (firmware decides), everything that
comes from cpufreq's own bookkeeping is not believed; its cap is, when it falls.

Source: device facts of the profiles; kernel documentation, admin-guide/pm/cpufreq.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from edgebench.host.analysis.telemetry import Floats, Nanoseconds, Telemetry

_MEASURED = "rpi.arm_freq_hz"


@dataclass(frozen=True, slots=True)
class Frequency:
    """Frequency under the model, by window."""

    freq_hz: Floats
    """Shape (k,); NaN where nothing was read, or the model ran on another policy."""
    cap_hz: Floats | None
    """Highest frequency that the kernel allowed, shape (k,)."""
    source: str
    policy: Floats
    """Number of the policy that the model ran on, shape (k,); NaN where nobody knows."""


def find_frequency(
    telemetry: Telemetry, edges_ns: Nanoseconds, *, is_request: bool
) -> Frequency | None:
    """The best frequency there is; None where no source can be believed."""
    policies = _policies(telemetry)
    where = _policy_by_window(telemetry, policies, edges_ns)
    cap = _of_policies(telemetry, where, policies, "freq_hz_cap", edges_ns)
    if _MEASURED in telemetry.series:
        measured = telemetry.series[_MEASURED].medians(edges_ns)
        return Frequency(measured, cap, "measured by the firmware", where)
    sources = (("cycles", "time in state"), ("freq_hz_average", "mean of the hardware"))
    asked = ("freq_hz", "scaling_cur_freq")
    for sensor, source in () if is_request else (*sources, asked):
        found = _of_policies(telemetry, where, policies, sensor, edges_ns)
        if found is not None:
            return Frequency(found, cap, source, where)
    if cap is not None:
        return Frequency(np.full(len(edges_ns) - 1, np.nan), cap, "scaling_max_freq", where)
    return None


def _policies(telemetry: Telemetry) -> list[int]:
    names = telemetry.named("cpufreq.policy", ".freq_hz_cap") or telemetry.named(
        "cpufreq.policy", ".freq_hz"
    )
    return sorted(int(name.split(".")[1].removeprefix("policy")) for name in names)


def _policy_by_window(telemetry: Telemetry, policies: list[int], edges_ns: Nanoseconds) -> Floats:
    """The policy of the CPU that the worker ran on."""
    count = len(edges_ns) - 1
    if len(policies) == 1:
        return np.full(count, float(policies[0]))
    cpus = telemetry.series.get("worker.cpu")
    if cpus is None or not policies:
        return np.full(count, np.nan)
    masks = {p: int(telemetry.constants.get(f"cpufreq.policy{p}.cpu_mask", 0)) for p in policies}
    medians = cpus.medians(edges_ns)
    return np.array([_holder(cpu, masks) for cpu in medians])


def _holder(cpu: float, masks: dict[int, int]) -> float:
    if np.isnan(cpu):
        return np.nan
    return next((float(p) for p, mask in masks.items() if mask >> int(cpu) & 1), np.nan)


def _of_policies(
    telemetry: Telemetry,
    where: Floats,
    policies: list[int],
    sensor: str,
    edges_ns: Nanoseconds,
) -> Floats | None:
    """A sensor of whichever policy the model ran on."""
    found = np.full(len(edges_ns) - 1, np.nan)
    is_any = False
    for policy in policies:
        series = telemetry.series.get(f"cpufreq.policy{policy}.{sensor}")
        if series is None:
            continue
        is_any = True
        values = series.rates(edges_ns) if sensor == "cycles" else series.medians(edges_ns)
        found[where == policy] = values[where == policy]
    return found if is_any else None
