"""What a device's profile expects of its temperatures; kept with a run, so that it can be verified.

A later profile may know better; a stored run is judged by what was known when it was made.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

FREQ_REQUESTS = frozenset({"time_in_state", "scaling_cur_freq"})
"""Sources that are the kernel's own bookkeeping of what it asked for."""
SLOWING_PREFIXES = (
    *("cpufreq", "thermal-cpufreq"),
    *("devfreq", "thermal-devfreq", "thermal-gpufreq"),
    *("cpuidle", "thermal-idle", "idle"),
)
"""Clocks that are capped, and CPUs that are made to idle; a number or a device's name follows."""
SLOWING_TYPES = frozenset({"Processor", "intel_powerclamp"})
"""ACPI's throttling of a processor, and Intel's idle injection."""


def slows_down(kind: str) -> bool:
    """Whether a cooling device of this type slows the device down in a state above 0.

    A list of those that do: names of fans, and of what else cools, are up to each board's maker.
    `intel_powerclamp` is in state -1 while it does nothing.

    Source: type strings in torvalds/linux, drivers/thermal/{cpufreq,cpuidle,devfreq}_cooling.c,
    drivers/acpi/processor_driver.c, drivers/thermal/intel/intel_powerclamp.c; `thermal-` in front
    and a number behind until Linux 5.11.
    """
    return kind in SLOWING_TYPES or kind.startswith(SLOWING_PREFIXES)


@dataclass(frozen=True, slots=True)
class ExpectedZone:
    """A zone that matters."""

    match_type: str
    """Type of the thermal zone."""
    throttle_c: float | None = None
    trips_in_sysfs: bool = False
    """The kernel's own trip points beat `throttle_c`."""


@dataclass(frozen=True, slots=True)
class ExpectedCluster:
    """What a cpufreq policy should run at."""

    policy: int
    freq_hz_max: int


@dataclass(frozen=True, slots=True)
class Mismatch:
    """A device is not as its profile says."""

    key: str
    """Key, as in the profile: `soc.cluster.0.freq_hz_max`."""
    expected: str
    actual: str


class CooldownOutcome(Enum):
    """How the wait for a cool device ended."""

    COOL = "cool"
    TIMED_OUT = "timed_out"
    NO_SENSOR = "no_sensor"
    """No temperature can be read: nobody waited."""
    NOT_ASKED = "not_asked"
    STOPPED = "stopped"


@dataclass(frozen=True, slots=True)
class CooldownFacts:
    """What came of it."""

    outcome: CooldownOutcome = CooldownOutcome.NOT_ASKED
    waited_s: float = 0.0
    start_c: float | None = None
    reached_c: float | None = None
    target_c: float | None = None
    """None: nothing is known of this device, and every temperature will do."""
    slope_c_per_min: float | None = None


@dataclass(frozen=True, slots=True)
class Expectation:
    """What the matched profile says."""

    profile: str = "generic-linux"
    zones: tuple[ExpectedZone, ...] = ()
    """Empty for generic profiles."""
    is_freq_a_request: bool = False
    """`scaling_cur_freq` is what was asked for, not what the CPU runs at."""
    freq_truth: tuple[str, ...] = ("cpuinfo_avg_freq", "time_in_state", "scaling_cur_freq")
    """Sources of the frequency, the best first."""
    clusters: tuple[ExpectedCluster, ...] = ()
    """Empty where the nominal frequency is what the kernel allows at the start."""
    indicators: tuple[str, ...] = ()
    """Kinds of indicators, the most telling first."""
    cooling_exclude: tuple[str, ...] = ()
    """Types of cooling devices that cool without slowing down."""
    thermal_now: int = 0
    """Firmware bits that mean heat."""
    thermal_sticky: int = 0
    power_now: int = 0
    """Firmware bits that mean the supply."""
    power_sticky: int = 0
    abort_c: float | None = None
    mismatches: tuple[Mismatch, ...] = ()

    @property
    def believed_freq_sources(self) -> tuple[str, ...]:
        """Sources of `freq_truth`, without what was only asked for where that is known to be so."""
        refused = FREQ_REQUESTS if self.is_freq_a_request else frozenset[str]()
        return tuple(source for source in self.freq_truth if source not in refused)

    def zone(self, match_type: str) -> ExpectedZone | None:
        """The zone of this type."""
        return next((zone for zone in self.zones if zone.match_type == match_type), None)
