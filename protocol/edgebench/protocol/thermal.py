"""Properties that a device's profile expects, stored with a run to verify the run later.

A stored run is verified with the profile at the time of the run, because a later version of the
profile may differ.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

FREQ_REQUESTS = frozenset({"time_in_state", "scaling_cur_freq"})
"""Sources of a CPU's frequency. On devices with `is_freq_a_request`, these sources contain the
requested frequency, not the actual frequency."""
SLOWING_PREFIXES = (
    *("cpufreq", "thermal-cpufreq"),
    *("devfreq", "thermal-devfreq", "thermal-gpufreq"),
    *("cpuidle", "thermal-idle", "idle"),
)
"""Prefixes of the type names of cooling devices that limit a clock or force CPUs to be idle. In a
type name, a number or a name follows the prefix."""
SLOWING_TYPES = frozenset({"Processor", "intel_powerclamp"})
"""Types of the cooling devices for ACPI's processor throttling and for Intel's idle injection."""


def slows_down(kind: str) -> bool:
    """Whether a cooling device of this type slows the computer down while its state is above 0.

    Only the listed types count, because board makers choose arbitrary types for fans and other
    coolers. `intel_powerclamp` is in state -1 while it is inactive.

    Source: type strings in torvalds/linux, drivers/thermal/{cpufreq,cpuidle,devfreq}_cooling.c,
    drivers/acpi/processor_driver.c, drivers/thermal/intel/intel_powerclamp.c; until Linux 5.11, a
    type has the prefix `thermal-` and a number as suffix.
    """
    return kind in SLOWING_TYPES or kind.startswith(SLOWING_PREFIXES)


@dataclass(frozen=True, slots=True)
class ExpectedZone:
    """A thermal zone that is relevant for runs on the device."""

    match_type: str
    """Type of the thermal zone."""
    throttle_c: float | None = None
    trips_in_sysfs: bool = False
    """Whether the kernel's own trip points override `throttle_c`."""


@dataclass(frozen=True, slots=True)
class ExpectedCluster:
    """The frequency that a cpufreq policy should have."""

    policy: int
    freq_hz_max: int


@dataclass(frozen=True, slots=True)
class ExpectedAccelerator:
    """An accelerator, such as a GPU, whose clock frequency can be read."""

    name: str
    kind: str
    """Kind of accelerator: gpu, npu, tpu or dsp."""
    devfreq: str
    """Name of the accelerator under /sys/class/devfreq, and in the names of its sensors."""


@dataclass(frozen=True, slots=True)
class ExpectedPower:
    """Range of the mean power that a whole device of this class can consume while a model runs."""

    device_class: str
    lowest_w: float
    highest_w: float


@dataclass(frozen=True, slots=True)
class Mismatch:
    """A difference between a device and its profile."""

    key: str
    """Key of the property in the profile, such as `soc.cluster.0.freq_hz_max`."""
    expected: str
    actual: str


class CooldownOutcome(Enum):
    """Result of waiting for the device to cool down."""

    COOL = "cool"
    TIMED_OUT = "timed_out"
    NO_SENSOR = "no_sensor"
    """No temperature can be read, so the run did not wait."""
    NOT_ASKED = "not_asked"
    STOPPED = "stopped"


@dataclass(frozen=True, slots=True)
class CooldownFacts:
    """Facts about waiting for the device to cool down before a run."""

    outcome: CooldownOutcome = CooldownOutcome.NOT_ASKED
    waited_s: float = 0.0
    start_c: float | None = None
    reached_c: float | None = None
    target_c: float | None = None
    """Highest temperature at which the device counts as cool. None if no such temperature is known:
    the run may then start at any temperature."""
    slope_c_per_min: float | None = None


@dataclass(frozen=True, slots=True)
class Expectation:
    """Expectations of the matched profile, and the device's differences from them."""

    profile: str = "generic-linux"
    zones: tuple[ExpectedZone, ...] = ()
    """Relevant thermal zones; empty for generic profiles."""
    is_freq_a_request: bool = False
    """Whether `scaling_cur_freq` contains the requested frequency, not the actual frequency."""
    freq_truth: tuple[str, ...] = ("cpuinfo_avg_freq", "time_in_state", "scaling_cur_freq")
    """Sources of the CPU frequency, the best source first."""
    clusters: tuple[ExpectedCluster, ...] = ()
    """Nominal frequencies of the CPU clusters; empty if the kernel's frequency limit at the start
    of the run is the nominal frequency."""
    is_limit_sustained: bool = False
    """Whether all CPUs can run at the kernel's frequency limit at the same time. They cannot if the
    limit is a turbo frequency, which only a few cores reach at a time. False for generic profiles,
    and from older agents."""
    accelerators: tuple[ExpectedAccelerator, ...] = ()
    """Accelerators of the device; only the clock of the accelerator that runs the model matters."""
    indicators: tuple[str, ...] = ()
    """Kinds of throttling indicators, the most reliable first."""
    cooling_exclude: tuple[str, ...] = ()
    """Types of cooling devices that cool without slowing the device down."""
    thermal_now: int = 0
    """Bit mask of the firmware bits that report overheating at present."""
    thermal_sticky: int = 0
    power_now: int = 0
    """Bit mask of the firmware bits that report a power supply problem at present."""
    power_sticky: int = 0
    abort_c: float | None = None
    power: ExpectedPower | None = None
    """Range of possible mean powers; None for emulators, and from older agents."""
    mismatches: tuple[Mismatch, ...] = ()

    @property
    def believed_freq_sources(self) -> tuple[str, ...]:
        """Sources in `freq_truth` that report actual, not requested, frequencies on this device."""
        refused = FREQ_REQUESTS if self.is_freq_a_request else frozenset[str]()
        return tuple(source for source in self.freq_truth if source not in refused)

    def zone(self, match_type: str) -> ExpectedZone | None:
        """The relevant zone of this type; None if the profile has no such zone."""
        return next((zone for zone in self.zones if zone.match_type == match_type), None)
