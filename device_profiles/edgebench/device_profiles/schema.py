"""What is expected of a board, as a tree of frozen dataclasses; one TOML file each.

    Profile
    ├── matches       which device this is: any block, all keys of it
    ├── soc           clusters of cores
    ├── accelerators
    ├── thermal       zones and the temperatures at which they throttle
    ├── throttle      indicators, the most telling first
    ├── freq          which frequency can be believed
    ├── power         on-board meters, and what they leave out
    ├── control       what may be set when the operator asks
    ├── cooldown      when a run may start
    ├── limits        what the agent enforces
    ├── runtimes
    └── facts         source and grade of what is not obvious

A profile states expectations; what a device really has is found by the agent's probe, and a run
keeps both. `load.py` reads and checks the files.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

SCHEMA_VERSION = 1

DeviceClass = Literal["linux-sbc", "linux-pc", "android", "mcu", "emulator"]
CoreRole = Literal["little", "mid", "big", "prime", "only"]
ZoneRole = Literal["soc", "cpu-big", "cpu-little", "gpu", "npu", "skin", "battery"]
ZoneSource = Literal["sysfs", "hwmon", "vcgencmd", "apex", "dumpsys"]
FreqSource = Literal[
    "vcgencmd:arm",
    "cpuinfo_avg_freq",
    "cpuinfo_cur_freq",
    "time_in_state",
    "scaling_cur_freq",
    "firmware",
]
"""`firmware`: of a microcontroller, which tells it itself."""
AcceleratorKind = Literal["gpu", "npu", "tpu", "dsp"]
Grade = Literal["S", "V", "O", "M", "R"]
"""S: primary source read; V: verified by running; O: observation of others; M: from memory;
R: to be read at run time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UsbId:
    """Vendor and product of a USB device."""

    vid: int
    pid: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Match:
    """Conditions that must all hold for a profile to fit; an absent one is not a condition."""

    machine: str | None = None
    """As uname(1) prints it."""
    dt_compatible: tuple[str, ...] = ()
    """Any of these among the `compatible` entries of the device tree's root."""
    dmi_product: str | None = None
    """DMI product name."""
    cpuinfo_model_contains: str | None = None
    """Part of `model name` in /proc/cpuinfo."""
    adb_device: str | None = None
    """`ro.product.device` of an Android device."""
    usb: tuple[UsbId, ...] = ()
    """Any of these."""
    mbed_id: str | None = None
    """First four digits of a DAPLink or ST-LINK id."""
    priority: int = 0
    """Decides between equally specific matches."""

    @property
    def specificity(self) -> int:
        """Number of conditions; the most specific match wins."""
        conditions = (
            *(self.machine, self.dt_compatible, self.dmi_product, self.cpuinfo_model_contains),
            *(self.adb_device, self.usb, self.mbed_id),
        )
        return sum(bool(condition) for condition in conditions)


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """Cores that share a frequency."""

    role: CoreRole
    core: str
    """Microarchitecture, as `cortex-a76`."""
    cpus: str | None = None
    """As a kernel cpulist: `0-3`; None on a microcontroller."""
    policy: int | None = None
    """Number of the cpufreq policy."""
    freq_hz_min: int | None = None
    freq_hz_max: int | None = None
    """Nominal; power modes and part grades may cap it."""
    capacity: int | None = None
    """0…1024, from the device tree."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Soc:
    """The system on a chip."""

    name: str
    arch: str
    isa: tuple[str, ...] = ()
    """Extensions that inference kernels use, as /proc/cpuinfo names them."""
    cluster: tuple[Cluster, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    """What boards of this kind are sold with."""

    variants_bytes: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Accelerator:
    """Something beside the CPU that runs models."""

    name: str
    kind: AcceleratorKind
    devfreq: str | None = None
    """Name under /sys/class/devfreq."""
    freq_unit: Literal["Hz", "kHz"] = "Hz"
    needs_root: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Zone:
    """A temperature that matters."""

    role: ZoneRole
    match_type: str
    """Type of the thermal zone, or name of the hwmon chip; zone numbers change between boots."""
    source: ZoneSource = "sysfs"
    throttle_c: float | None = None
    """Where the device begins to slow down."""
    hard_c: float | None = None
    """Where it slows down as far as it can."""
    critical_c: float | None = None
    """Where it switches itself off."""
    trips_in_sysfs: bool = False
    """The kernel's own trip points tell when it throttles, and beat this file."""
    ignore_values_c: tuple[float, ...] = ()
    """What the sensor says when it says nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Thermal:
    """All zones that matter; none means that nothing can be read."""

    zone: tuple[Zone, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Indicator:
    """Something that says "throttled" by itself."""

    kind: str
    """vcgencmd, x86_throttle_count, cooling_device, scaling_max_freq_drop, time_in_state,
    soctherm_oc, apex, android_thermal_status or none; another kind is unsupported, not an error."""
    cmd: tuple[str, ...] = ()
    rate_hz_max: float | None = None
    """A command may not be started more often."""
    thermal_now: int = 0
    """Bits that mean heat, now."""
    thermal_sticky: int = 0
    """Bits that mean heat at some time since boot."""
    power_now: int = 0
    power_sticky: int = 0
    types_exclude: tuple[str, ...] = ()
    """Types of cooling devices that cool without slowing down."""
    min: int | None = None
    """From this status on, the device is throttled."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Throttle:
    """Indicators in order: the first that can be read is the authority."""

    indicator: tuple[Indicator, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Freq:
    """Which frequency can be believed."""

    truth: tuple[FreqSource, ...] = ("cpuinfo_avg_freq", "time_in_state", "scaling_cur_freq")
    """Sources, the best first."""
    cur_is_request: bool = False
    """`scaling_cur_freq` is what was asked for, not what the CPU runs at."""
    nominal: Literal["cluster.freq_hz_max", "scaling_max_freq_at_start"] = (
        "scaling_max_freq_at_start"
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class OnboardMeter:
    """A meter on the board."""

    kind: str
    boundary: str
    """What it measures, as `module-input`."""
    quality: Literal["measurement", "estimate"]
    excludes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Power:
    """Meters on the board."""

    meter: tuple[OnboardMeter, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Control:
    """What the agent may set when the operator asks, and always restores."""

    governor: str = "performance"
    needs_root: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Cooldown:
    """When the device is cool enough to start a run."""

    zone: ZoneRole = "soc"
    mode: Literal["delta_over_baseline", "absolute"] = "delta_over_baseline"
    """Against the coolest idle temperature that the agent has seen, or `max_c` alone."""
    delta_c: float = 3.0
    max_c: float | None = None
    """Not warmer than this, which is below the first step of a fan, if it can be reached at all.

    The target is max(min(baseline + delta_c, max_c), baseline + 1.5 °C): in a warm room nobody
    waits for less. Without a baseline, it is `max_c`.
    """
    slope_c_per_min_max: float = 1.0
    """A device that still cools has a hot case."""
    stable_s: float = 30.0
    """The conditions hold for so long."""
    timeout_s: float = 600.0
    poll_s: float = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceLimits:
    """What the agent enforces, also when no host is there."""

    abort_c: float | None = None
    """A run is ended at this temperature of any zone of the profile."""
    min_free_bytes: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class RuntimeSupport:
    """What a runtime can use here."""

    delegates: tuple[str, ...] = ()
    threads_default: int | None = None
    threads_max: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Fact:
    """Where a value of this file comes from."""

    key: str
    """Path of the value: `thermal.zone.soc.throttle_c`; a list item by its role, name or index."""
    source: str
    grade: Grade
    value: Any = None
    """The value, again; must be what the file says. Absent for a fact about no value here."""
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """One kind of device."""

    schema: int
    id: str
    name: str
    device_class: DeviceClass
    extends: str | None = None
    """Id of the profile whose values hold where this one says nothing."""
    match: tuple[Match, ...] = ()
    """None: only other profiles extend this one."""
    soc: Soc | None = None
    memory: Memory = field(default_factory=Memory)
    accelerator: tuple[Accelerator, ...] = ()
    thermal: Thermal = field(default_factory=Thermal)
    throttle: Throttle = field(default_factory=Throttle)
    freq: Freq = field(default_factory=Freq)
    power: Power = field(default_factory=Power)
    control: Control = field(default_factory=Control)
    cooldown: Cooldown = field(default_factory=Cooldown)
    limits: DeviceLimits = field(default_factory=DeviceLimits)
    runtimes: dict[str, RuntimeSupport] = field(default_factory=dict)
    fact: tuple[Fact, ...] = ()
