"""A device's description of itself."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class RuntimeReport:
    """One runtime driver on a device: usable with a version, or not with a reason."""

    name: str
    formats: tuple[str, ...]
    version: str | None = None
    """Version of the runtime; None when it cannot be used."""
    reason: str | None = None
    """Why it cannot be used, one line; None when it can."""
    install: str | None = None
    """The command that would make it usable, if there is one."""
    delegates: tuple[str, ...] = ()
    """Delegates or execution providers that this build offers."""
    distribution: str | None = None
    """Package that its library comes in, as onnxruntime-gpu; None where it has none."""
    library: str | None = None
    """Directory of its library."""
    is_target: bool = False
    """Whether the device times itself: its runs have `Engine.TARGET`."""

    @property
    def is_usable(self) -> bool:
        """Whether a run may ask for this runtime."""
        return self.version is not None


@dataclass(frozen=True, slots=True)
class DeviceDescription:
    """Identity of a device; does not change while an agent runs."""

    id: str
    """Stable and pseudonymous: derived from the board's serial number or the machine id, never one
    of them itself."""
    name: str
    profile: str
    arch: str
    soc: str
    os: str


@dataclass(frozen=True, slots=True)
class CpuDescription:
    """The processor, as the kernel describes it."""

    model: str
    logical_count: int
    usable_count: int
    """CPUs that this process may run on (affinity, cgroup cpuset)."""
    freq_hz_max: int | None = None
    governor: str | None = None
    """Governor of the first frequency policy; None where the kernel offers none."""
    features: tuple[str, ...] | None = None
    """Instruction sets of all CPUs that decide how quantised models are computed: avx2, avx512f,
    avx_vnni, avx512_vnni, amx_int8, dotprod, i8mm, sve; None where the device does not tell."""


@dataclass(frozen=True, slots=True)
class AndroidSystem:
    """Android of a device, by its properties; None where it does not report one."""

    device: str | None
    """Name of the hardware, `ro.product.device`: shiba."""
    model: str | None
    """Name that people know, `ro.product.model`: Pixel 8."""
    release: str | None
    """Version: 16."""
    api_level: int | None
    security_patch: str | None
    """Date of the patches that are in it: 2025-11-05."""
    fingerprint_sha256: str | None
    """Digest of the build's fingerprint, which names maker, build and date."""
    is_shell: bool = False
    """Whether agent and model have the rights of adb's shell: an app has fewer."""


@dataclass(frozen=True, slots=True)
class Environment:
    """Everything around a run that may change its numbers; taken at the run's start."""

    cpu: CpuDescription
    memory_total_bytes: int | None
    """Memory of the device; None where the system does not tell."""
    memory_available_bytes: int | None
    """Memory that programs could still have; None where the system does not tell."""
    swap_used_bytes: int | None
    """Swap in use; None where the system does not tell."""
    kernel: str
    os: str
    python: str
    virtualization: str | None
    """Layers between the run and the machine: emulator, container, hypervisor, inner one first, as
    `docker on KVM`; None where none was found."""
    load_1m: float | None
    """Load average over the last minute; None where the system does not tell."""
    packages: dict[str, str] = field(default_factory=dict)
    """Versions of the packages that take part in a run."""
    agent_version: str = "unknown"
    interpreter: str | None = None
    """Path of the Python that runs models; None from older agents."""
    android: AndroidSystem | None = None
    """None where the system is another one."""
    virtualization_unknown: str | None = None
    """Why a layer may be there that was not found, one line; None where all could be read."""


@dataclass(frozen=True, slots=True)
class SystemDescription:
    """Answer to `Describe`: the device, its environment now, and its runtimes."""

    device: DeviceDescription
    environment: Environment
    runtimes: tuple[RuntimeReport, ...]
    emulated: bool = False
    """Whether the CPU itself is emulated, so that times mean nothing."""
    simulated: bool = False
    """Whether the device is simulated, for tests and demonstrations."""
    meters: tuple[str, ...] = ()
    """Meters that the agent serves, as `RunSpec.meter` takes them."""
    sync_line: str | None = None
    """Line to a meter's digital input, if one is wired."""
    models_room_bytes: int | None = None
    """Size of the largest model that fits, if all others go; None from older agents."""
    own_model: str | None = None
    """Name of the model in the firmware of a device, which takes no other; None: it takes files."""
    takes_own_file: bool = False
    """Whether a file of that model is taken, too: the device can tell that it is the same."""
    open_files: str | None = None
    """Why the code of a model could open the files of the agent's user, keys among them, one line;
    None: it could not, or no model is opened on this machine, and from older agents."""
    usable_cpus: tuple[int, ...] | None = None
    """Numbers of the CPUs that a model may be bound to; None where nothing can be bound, and from
    older agents."""
