"""Expectations of a device's profile, kept with a run so that it can be verified.

A later version of the profile may differ; a stored run is verified with the profile of its time.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

FREQ_REQUESTS = frozenset({"time_in_state", "scaling_cur_freq"})
"""Sources in which the kernel reports the frequencies that it requested."""
SLOWING_PREFIXES = (
    *("cpufreq", "thermal-cpufreq"),
    *("devfreq", "thermal-devfreq", "thermal-gpufreq"),
    *("cpuidle", "thermal-idle", "idle"),
)
"""Type prefixes of devices that cap a clock or make CPUs idle; a number or a name follows."""
SLOWING_TYPES = frozenset({"Processor", "intel_powerclamp"})
"""Types of ACPI's processor throttling, and of Intel's idle injection."""


def slows_down(kind: str) -> bool:
    """Whether a cooling device of this type slows the device down in a state above 0.

    Only the listed types do, because the types of fans and other coolers are chosen by each board's
    maker. `intel_powerclamp` is in state -1 while it is inactive.

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
    """Whether the kernel's own trip points override `throttle_c`."""


@dataclass(frozen=True, slots=True)
class ExpectedCluster:
    """The frequency that a cpufreq policy should have."""

    policy: int
    freq_hz_max: int


@dataclass(frozen=True, slots=True)
class ExpectedAccelerator:
    """A processor other than the CPU whose clock can be read."""

    name: str
    kind: str
    """Kind: gpu, npu, tpu or dsp."""
    devfreq: str
    """Name under /sys/class/devfreq, and of its sensors."""


@dataclass(frozen=True, slots=True)
class ExpectedPower:
    """Mean powers that a device of this class can take as a whole while a model runs."""

    device_class: str
    lowest_w: float
    highest_w: float


@dataclass(frozen=True, slots=True)
class Mismatch:
    """A difference between a device and its profile."""

    key: str
    """Key, as in the profile: `soc.cluster.0.freq_hz_max`."""
    expected: str
    actual: str


class CooldownOutcome(Enum):
    """How the wait for a cool device ended."""

    COOL = "cool"
    TIMED_OUT = "timed_out"
    NO_SENSOR = "no_sensor"
    """No temperature can be read, so there was no wait."""
    NOT_ASKED = "not_asked"
    STOPPED = "stopped"


@dataclass(frozen=True, slots=True)
class CooldownFacts:
    """The wait for a cool device."""

    outcome: CooldownOutcome = CooldownOutcome.NOT_ASKED
    waited_s: float = 0.0
    start_c: float | None = None
    reached_c: float | None = None
    target_c: float | None = None
    """Temperature below which the run may start; None if no target is known and any will do."""
    slope_c_per_min: float | None = None


@dataclass(frozen=True, slots=True)
class Expectation:
    """Expectations of the matched profile, and the device's differences from them."""

    profile: str = "generic-linux"
    zones: tuple[ExpectedZone, ...] = ()
    """Zones that matter; none for generic profiles."""
    is_freq_a_request: bool = False
    """Whether `scaling_cur_freq` is the requested frequency, not the actual frequency."""
    freq_truth: tuple[str, ...] = ("cpuinfo_avg_freq", "time_in_state", "scaling_cur_freq")
    """Sources of the frequency, the best first."""
    clusters: tuple[ExpectedCluster, ...] = ()
    """Nominal frequencies; empty if the kernel's limit at the start is the nominal frequency."""
    is_limit_sustained: bool = False
    """Whether all CPUs can run at the kernel's limit at the same time: it is not a turbo of few
    cores. False for generic profiles, and from older agents."""
    accelerators: tuple[ExpectedAccelerator, ...] = ()
    """Accelerators; only the clock of the accelerator that runs the model matters."""
    indicators: tuple[str, ...] = ()
    """Kinds of indicators, the most reliable first."""
    cooling_exclude: tuple[str, ...] = ()
    """Types of cooling devices that cool without slowing the device down."""
    thermal_now: int = 0
    """Firmware bits that report overheating."""
    thermal_sticky: int = 0
    power_now: int = 0
    """Firmware bits that report a power supply problem."""
    power_sticky: int = 0
    abort_c: float | None = None
    power: ExpectedPower | None = None
    """Possible powers; None for emulators, and from older agents."""
    mismatches: tuple[Mismatch, ...] = ()

    @property
    def believed_freq_sources(self) -> tuple[str, ...]:
        """Sources in `freq_truth`, except those that only report requests on this device."""
        refused = FREQ_REQUESTS if self.is_freq_a_request else frozenset[str]()
        return tuple(source for source in self.freq_truth if source not in refused)

    def zone(self, match_type: str) -> ExpectedZone | None:
        """The zone of this type."""
        return next((zone for zone in self.zones if zone.match_type == match_type), None)
