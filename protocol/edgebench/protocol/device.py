"""Data classes by which an agent describes its device, the system and the runtimes."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class RuntimeReport:
    """State of a runtime on a device: its version, or the reason why the runtime is not usable."""

    name: str
    formats: tuple[str, ...]
    version: str | None = None
    """Version of the runtime; None if the runtime cannot be used."""
    reason: str | None = None
    """Reason why the runtime cannot be used, on a single line; None if it can be used."""
    install: str | None = None
    """Command that would make the runtime usable; None if there is no such command."""
    delegates: tuple[str, ...] = ()
    """Delegates or execution providers that the installed build of the runtime offers."""
    distribution: str | None = None
    """Python package with the runtime's library, such as onnxruntime-gpu; None if the library
    belongs to no package."""
    library: str | None = None
    """Directory of the runtime's library."""
    is_target: bool = False
    """Whether the device itself times the inferences, so that its runs have `Engine.TARGET`."""

    @property
    def is_usable(self) -> bool:
        """Whether a run may use this runtime."""
        return self.version is not None


@dataclass(frozen=True, slots=True)
class DeviceDescription:
    """Identity of a device, which does not change while the agent runs."""

    id: str
    """Stable, pseudonymous identifier: derived from the board's serial number or from the machine
    id, without revealing either."""
    name: str
    profile: str
    arch: str
    soc: str
    os: str


SAME_CLUSTER_RATIO = 0.1
"""CPUs whose capacity or highest frequency differs by at most this ratio count as the same type."""


@dataclass(frozen=True, slots=True)
class CpuDescription:
    """The processor, as the kernel describes it."""

    model: str
    logical_count: int
    usable_count: int
    """Number of CPUs that the agent's process may run on (affinity, cgroup cpuset)."""
    freq_hz_max: int | None = None
    governor: str | None = None
    """Governor of the first frequency policy; None if the kernel has no such policy."""
    features: tuple[str, ...] | None = None
    """Instruction sets that all CPUs have and that affect the computation of quantised models.
    Possible values: avx2, avx512f, avx_vnni, avx512_vnni, amx_int8, dotprod, i8mm, sve. None if the
    device does not report its instruction sets."""
    kinds: tuple[tuple[int, ...], ...] | None = None
    """Numbers of the CPUs that the agent's process may run on, grouped by type, the fastest type
    first. CPUs whose capacity, or highest frequency, differs by at most `SAME_CLUSTER_RATIO` have
    the same type. None if the kernel reports neither the capacity nor the highest frequency of at
    least one CPU. Older agents send None, too."""


@dataclass(frozen=True, slots=True)
class AndroidSystem:
    """Properties of Android on a device; a property that the device does not report is None."""

    device: str | None
    """Name of the hardware, `ro.product.device`, such as shiba."""
    model: str | None
    """Name of the product, `ro.product.model`, such as Pixel 8."""
    release: str | None
    """Version of Android, such as 16."""
    api_level: int | None
    security_patch: str | None
    """Date of the included security patches, such as 2025-11-05."""
    fingerprint_sha256: str | None
    """SHA-256 of the build fingerprint; the fingerprint is a text with the maker, the build and the
    date."""
    is_shell: bool = False
    """Whether agent and model run as adb's shell, which has more rights than an app."""


@dataclass(frozen=True, slots=True)
class ClockDescription:
    """The monotonic clock by which the inferences are timed."""

    source: str | None
    """Clock source of the kernel, such as tsc, kvm-clock or arch_sys_counter; None if not
    reported."""
    step_ns: float | None
    """Resolution of the clock: the time between two successive values. None if it is below 8 ns, or
    shorter than the time that a reading of the clock takes."""
    read_ns: float
    """Time that a reading of the clock takes."""


@dataclass(frozen=True, slots=True)
class Environment:
    """Properties of the system that may change the results of a run, read when the run starts."""

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
    """Layers between the run and the hardware, the innermost layer first, such as `docker on KVM`.
    A layer is an emulator, a container or a hypervisor. None if no layer was found."""
    load_1m: float | None
    """Load average over the last minute; None if the system does not report it."""
    packages: dict[str, str] = field(default_factory=dict)
    """Maps the name of each package that a run uses to its version."""
    agent_version: str = "unknown"
    interpreter: str | None = None
    """Path of the Python interpreter that runs models; None from older agents."""
    android: AndroidSystem | None = None
    """Properties of Android; None if the system is not Android."""
    virtualization_unknown: str | None = None
    """Reason why `virtualization` may lack a layer; None if all sources of information were
    readable."""
    clock: ClockDescription | None = None
    """The clock that times the inferences; None from older agents."""


@dataclass(frozen=True, slots=True)
class SystemDescription:
    """Content of the reply to `Describe`: the device, the present environment, the runtimes."""

    device: DeviceDescription
    environment: Environment
    runtimes: tuple[RuntimeReport, ...]
    emulated: bool = False
    """Whether the CPU itself is emulated, so that times are meaningless."""
    simulated: bool = False
    """Whether the device is simulated, for tests and demonstrations."""
    meters: tuple[str, ...] = ()
    """Energy meters that the agent serves, each in the form of `RunSpec.meter`."""
    sync_line: str | None = None
    """Output line that is wired to a meter's digital input; None if no line is wired."""
    models_room_bytes: int | None = None
    """Size of the largest model that would fit on the device if all stored models were removed;
    None from older agents."""
    own_model: str | None = None
    """Name of the model in the device's firmware, if the device accepts no other model; None if the
    device accepts model files."""
    takes_own_file: bool = False
    """Whether a device with an `own_model` also accepts a file of that model, because the device
    can verify the file."""
    open_files: str | None = None
    """Reason, on one line, why code in a model could open the files of the agent's user, including
    keys. None if such code could not open them, or if no model is opened on this machine. Older
    agents send None, too."""
    usable_cpus: tuple[int, ...] | None = None
    """Numbers of the CPUs that a model may be bound to. None if binding is not supported, or if the
    agent is too old to report the CPUs."""
