"""A device's description of itself."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class RuntimeReport:
    """A runtime driver on a device: usable, with a version, or unusable, with a reason."""

    name: str
    formats: tuple[str, ...]
    version: str | None = None
    """Version of the runtime; None if it cannot be used."""
    reason: str | None = None
    """Reason why it cannot be used, on a single line; None if it can."""
    install: str | None = None
    """Command that would make it usable, if any."""
    delegates: tuple[str, ...] = ()
    """Delegates or execution providers that this build offers."""
    distribution: str | None = None
    """Package that contains its library, such as onnxruntime-gpu; None if it has no package."""
    library: str | None = None
    """Directory of its library."""
    is_target: bool = False
    """Whether the device times itself: its runs have `Engine.TARGET`."""

    @property
    def is_usable(self) -> bool:
        """Whether a run may use this runtime."""
        return self.version is not None


@dataclass(frozen=True, slots=True)
class DeviceDescription:
    """Identity of a device; constant while an agent runs."""

    id: str
    """Stable and pseudonymous: derived from the board's serial number or the machine id, neither of
    which it reveals."""
    name: str
    profile: str
    arch: str
    soc: str
    os: str


SAME_CLUSTER_RATIO = 0.1
"""Difference of the highest frequencies within a cluster: cores of the same type differ by less."""


@dataclass(frozen=True, slots=True)
class CpuDescription:
    """The processor, as the kernel describes it."""

    model: str
    logical_count: int
    usable_count: int
    """CPUs that this process may run on (affinity, cgroup cpuset)."""
    freq_hz_max: int | None = None
    governor: str | None = None
    """Governor of the first frequency policy; None if the kernel has no such policy."""
    features: tuple[str, ...] | None = None
    """Instruction sets of all CPUs that decide how quantised models are computed: avx2, avx512f,
    avx_vnni, avx512_vnni, amx_int8, dotprod, i8mm, sve; None if the device does not report them."""
    kinds: tuple[tuple[int, ...], ...] | None = None
    """CPUs that this process may run on, by their type: those whose capacity, or highest frequency,
    differs by at most `SAME_CLUSTER_RATIO`; the fastest type first. None if the kernel reports
    neither for some CPU, and from older agents."""


@dataclass(frozen=True, slots=True)
class AndroidSystem:
    """Properties of Android on a device; None for a property that it does not report."""

    device: str | None
    """Name of the hardware, `ro.product.device`: shiba."""
    model: str | None
    """Name of the product, `ro.product.model`: Pixel 8."""
    release: str | None
    """Version: 16."""
    api_level: int | None
    security_patch: str | None
    """Date of the included security patches: 2025-11-05."""
    fingerprint_sha256: str | None
    """Digest of the build's fingerprint, which names maker, build and date."""
    is_shell: bool = False
    """Whether agent and model have the rights of adb's shell: an app has fewer."""


@dataclass(frozen=True, slots=True)
class ClockDescription:
    """Monotonic clock that times the inferences."""

    source: str | None
    """Kernel's clock source, such as tsc, kvm-clock or arch_sys_counter; None if not reported."""
    step_ns: float | None
    """Time between two successive values; None if it is below 8 ns, or shorter than a reading."""
    read_ns: float
    """Time between successive readings."""


@dataclass(frozen=True, slots=True)
class Environment:
    """Properties of the system that may change the results of a run; read at its start."""

    cpu: CpuDescription
    memory_total_bytes: int | None
    """Memory of the device; None if the system does not report it."""
    memory_available_bytes: int | None
    """Memory available to programs; None if the system does not report it."""
    swap_used_bytes: int | None
    """Swap in use; None if the system does not report it."""
    kernel: str
    os: str
    python: str
    virtualization: str | None
    """Layers between the run and the machine: emulator, container, hypervisor, innermost first, as
    in `docker on KVM`; None if no layer was found."""
    load_1m: float | None
    """Load average over the last minute; None if the system does not report it."""
    packages: dict[str, str] = field(default_factory=dict)
    """Versions of the packages that a run uses."""
    agent_version: str = "unknown"
    interpreter: str | None = None
    """Path of the Python that runs models; None from older agents."""
    android: AndroidSystem | None = None
    """None if the system is not Android."""
    virtualization_unknown: str | None = None
    """Reason why a layer may be undetected; None if all sources were readable."""
    clock: ClockDescription | None = None
    """None from older agents."""


@dataclass(frozen=True, slots=True)
class SystemDescription:
    """Content of the reply to `Describe`: the device, its present environment, its runtimes."""

    device: DeviceDescription
    environment: Environment
    runtimes: tuple[RuntimeReport, ...]
    emulated: bool = False
    """Whether the CPU itself is emulated, so that times are meaningless."""
    simulated: bool = False
    """Whether the device is simulated, for tests and demonstrations."""
    meters: tuple[str, ...] = ()
    """Meters that the agent serves, in the form of `RunSpec.meter`."""
    sync_line: str | None = None
    """Line to a meter's digital input, if such a line is wired."""
    models_room_bytes: int | None = None
    """Size of the largest model that fits if all others are removed; None from older agents."""
    own_model: str | None = None
    """Name of the model in the firmware of a device that accepts no other model; None: the device
    accepts files."""
    takes_own_file: bool = False
    """Whether the device also accepts a file of that model, because it can verify the file."""
    open_files: str | None = None
    """Reason, on one line, why the code of a model could open the files of the agent's user,
    including keys; None if it could not, if this machine opens no model, and from older agents."""
    usable_cpus: tuple[int, ...] | None = None
    """Numbers of the CPUs that a model may be bound to; None if binding is not supported, and from
    older agents."""
