"""The expectations of a board as a tree of frozen dataclasses, from a TOML file per board.

    Profile
    ├── matches       conditions on the device: at least one block must hold with all its keys
    ├── soc           clusters of cores
    ├── accelerators
    ├── thermal       zones and the temperatures at which they throttle
    ├── throttle      indicators, the most reliable first
    ├── freq          sources of the frequency, the most reliable first
    ├── power         on-board meters, and the parts of the board that they do not measure
    ├── control       settings that the operator may request
    ├── cooldown      conditions for the start of a run
    ├── limits        limits that the agent enforces
    ├── runtimes
    └── facts         source and grade of values that are not obvious

A profile states expectations. The agent determines the actual properties of the device, and a run
stores both. `load.py` reads and checks the files.
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
"""Sources of a frequency; `firmware` is a microcontroller's own report."""
AcceleratorKind = Literal["gpu", "npu", "tpu", "dsp"]
Grade = Literal["S", "V", "O", "M", "R"]
"""Grades of evidence. S: primary source read; V: verified by running; O: observed by others;
M: from memory; R: to be read at run time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UsbId:
    """Vendor and product of a USB device."""

    vid: int
    pid: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Match:
    """Conditions that must all hold for a profile to match; absent conditions are ignored."""

    machine: str | None = None
    """Machine, as printed by uname(1)."""
    dt_compatible: tuple[str, ...] = ()
    """`compatible` entries of the device tree's root; at least one must be present."""
    dmi_product: str | None = None
    """DMI product name."""
    cpuinfo_model_contains: str | None = None
    """Part of `model name` in /proc/cpuinfo."""
    adb_device: str | None = None
    """`ro.product.device` of an Android device."""
    system: Literal["android"] | None = None
    """Operating system, `android`; None: any operating system."""
    usb: tuple[UsbId, ...] = ()
    """USB devices; at least one must be present."""
    mbed_id: str | None = None
    """First four digits of a DAPLink or ST-LINK id."""
    priority: int = 0
    """Of equally specific matches, the match with the highest priority wins."""

    @property
    def specificity(self) -> int:
        """Number of conditions; the most specific match wins."""
        conditions = (
            *(self.machine, self.dt_compatible, self.dmi_product, self.cpuinfo_model_contains),
            *(self.adb_device, self.system, self.usb, self.mbed_id),
        )
        return sum(bool(condition) for condition in conditions)


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """Cores that share a frequency."""

    role: CoreRole
    core: str
    """Microarchitecture, such as `cortex-a76`."""
    cpus: str | None = None
    """CPUs as a kernel cpulist: `0-3`; None on a microcontroller."""
    policy: int | None = None
    """Number of the cpufreq policy."""
    freq_hz_min: int | None = None
    freq_hz_max: int | None = None
    """Nominal frequency; power modes and part grades may cap it."""
    capacity: int | None = None
    """Capacity from 0 to 1024, from the device tree."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Soc:
    """The system on a chip."""

    name: str
    arch: str
    isa: tuple[str, ...] = ()
    """Extensions that inference kernels use, by their names in /proc/cpuinfo."""
    cluster: tuple[Cluster, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    """Memory sizes in which this kind of board is sold."""

    variants_bytes: tuple[int, ...] = ()
    """Documentation only: a run records the memory of its device."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Accelerator:
    """A processor that runs models, other than the CPU."""

    name: str
    kind: AcceleratorKind
    devfreq: str | None = None
    """Name under /sys/class/devfreq."""
    freq_unit: Literal["Hz", "kHz"] = "Hz"
    """Unit of the frequency in devfreq. Documentation only: the telemetry source converts it."""
    needs_root: bool = False
    """Whether only root can read its frequency. Documentation only."""
    devices: tuple[str, ...] = ()
    """Files and directories under /dev that its driver opens, such as `/dev/dri` or
    `/dev/nvhost-*`; workers may use them. Devices that are common on PCs need no profile
    (`confine.paths`)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Zone:
    """A relevant temperature of the device."""

    role: ZoneRole
    match_type: str
    """Type of the thermal zone, or name of the hwmon chip; zone numbers change between boots."""
    source: ZoneSource = "sysfs"
    throttle_c: float | None = None
    """Temperature at which the device starts to throttle."""
    hard_c: float | None = None
    """Temperature at which throttling reaches its maximum."""
    critical_c: float | None = None
    """Temperature at which the device shuts down."""
    trips_in_sysfs: bool = False
    """Whether the device throttles at the kernel's trip points; these points then override the
    values in this file."""
    ignore_values_c: tuple[float, ...] = ()
    """Values that the sensor shows when it has no reading."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Thermal:
    """All relevant zones; empty if no temperature can be read."""

    zone: tuple[Zone, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Indicator:
    """A counter, bit or status by which the device itself reports throttling."""

    kind: str
    """Kind: vcgencmd, x86_throttle_count, cooling_device, scaling_max_freq_drop, time_in_state,
    soctherm_oc, apex, android_thermal_status or none. Any other kind is not supported, but it is
    not an error."""
    cmd: tuple[str, ...] = ()
    rate_hz_max: float | None = None
    """Highest rate at which the command may be started."""
    thermal_now: int = 0
    """Bits that mean throttling by heat now."""
    thermal_sticky: int = 0
    """Bits that mean throttling by heat at some time since boot."""
    power_now: int = 0
    power_sticky: int = 0
    types_exclude: tuple[str, ...] = ()
    """Types of cooling devices that cool without throttling."""
    min: int | None = None
    """The device is throttled if its status is at least this value."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Throttle:
    """Indicators in order of preference; the first indicator that can be read is used."""

    indicator: tuple[Indicator, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Freq:
    """Reliability of the frequencies that the device reports."""

    truth: tuple[FreqSource, ...] = ("cpuinfo_avg_freq", "time_in_state", "scaling_cur_freq")
    """Sources, the most reliable first."""
    cur_is_request: bool = False
    """Whether `scaling_cur_freq` is the requested frequency, not the actual frequency."""
    nominal: Literal["cluster.freq_hz_max", "scaling_max_freq_at_start"] = (
        "scaling_max_freq_at_start"
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class OnboardMeter:
    """A meter on the board."""

    kind: str
    boundary: str
    """Part of the device that it measures, such as `module-input`."""
    quality: Literal["measurement", "estimate"]
    excludes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Power:
    """Meters on the board."""

    meter: tuple[OnboardMeter, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Control:
    """Settings that the agent applies at the operator's request, and always restores."""

    governor: str = "performance"
    needs_root: bool = True
    """Whether only root can set the governor. Documentation only."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cooldown:
    """Conditions under which the device is cool enough to start a run."""

    zone: ZoneRole = "soc"
    mode: Literal["delta_over_baseline", "absolute"] = "delta_over_baseline"
    """Reference of the target temperature: the baseline, which is the lowest idle temperature that
    the agent has measured, or `max_c` alone."""
    delta_c: float = 3.0
    max_c: float | None = None
    """Highest temperature at which a run starts, if the device can cool down that far. The value is
    below the temperature at which a fan starts.

    The target is max(min(baseline + delta_c, max_c), baseline + 1.5 °C), because a device in a warm
    room may never reach a lower temperature. Without a baseline, the target is `max_c`.
    """
    slope_c_per_min_max: float = 1.0
    """Maximum absolute slope of the temperature at which a device that was warm counts as cool.
    While the device still cools down, its case is hot."""
    stable_s: float = 30.0
    """Time for which a device that was warm must meet all conditions before a run starts."""
    timeout_s: float = 600.0
    poll_s: float = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceLimits:
    """Limits that the agent enforces even without a host."""

    abort_c: float | None = None
    """A run is aborted if any zone of the profile reaches this temperature."""
    min_free_bytes: int = 0
    """Memory that the system needs. Documentation only: it is not enforced."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RuntimeSupport:
    """Delegates and threads that a runtime can use on this device."""

    delegates: tuple[str, ...] = ()
    threads_default: int | None = None
    """Documentation only, like `threads_max`, because a run uses the requested number of
    threads."""
    threads_max: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Fact:
    """The source of a value in this file."""

    key: str
    """Key of the value, such as `thermal.zone.soc.throttle_c`; a list item is selected by its role,
    name or index."""
    source: str
    grade: Grade
    value: Any = None
    """The value, repeated from the file; None: the fact is not about a value of the file."""
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """A kind of device, with all expectations about it."""

    schema: int
    id: str
    name: str
    device_class: DeviceClass
    extends: str | None = None
    """Id of the profile that supplies the missing values."""
    match: tuple[Match, ...] = ()
    """List of alternatives; a device matches if it meets all conditions of any item. Empty for
    profiles that exist only to be extended."""
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
