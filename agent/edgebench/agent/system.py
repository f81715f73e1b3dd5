"""This machine: identity, processor, memory, operating system, virtualisation.

Files are read under a root directory that the caller chooses, so that tests can present any board.
Missing values are normal: a field that cannot be read is None or "unknown", never a guess.
"""

from __future__ import annotations

import errno
import hashlib
import os
import platform
import re
import socket
import uuid
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from edgebench.agent.clock import describe_clock
from edgebench.agent.cpu_ticks import own_cpus
from edgebench.agent.files import write_private
from edgebench.agent.runtimes.library import distribution_of
from edgebench.agent.telemetry.source import read_text
from edgebench.device_profiles.match import DeviceIdentity, match_profile
from edgebench.protocol.device import (
    SAME_CLUSTER_RATIO,
    CpuDescription,
    DeviceDescription,
    Environment,
)
from edgebench.protocol.distributions import AGENT_DISTRIBUTION
from edgebench.protocol.runtime import RUNTIME_MODULES, RUNTIME_PACKAGES
from edgebench.system.installed import installed_version
from edgebench.system.python_start import INTERPRETER

PACKAGES = {"edgebench": AGENT_DISTRIBUTION} | {
    name: name for name in ("numpy", *RUNTIME_PACKAGES.values())
}
"""Maps names in the record to Python packages; the versions of these packages are recorded in a
run's environment."""

DEVICE_ID_FILE = "device-id"
"""File in the agent's state directory with a random id. This id is used instead of /etc/machine-id
if /etc/machine-id is missing, or was copied together with the system."""
_FEATURES = {
    "avx2": "avx2",
    "avx512f": "avx512f",
    "avx_vnni": "avx_vnni",
    "avx512_vnni": "avx512_vnni",
    "amx_int8": "amx_int8",
    "asimddp": "dotprod",
    "i8mm": "i8mm",
    "sve": "sve",
}
"""CPU features by which runtimes choose their code for quantised models; maps the name in
/proc/cpuinfo to the common name. Source: Linux, arch/x86/include/asm/cpufeatures.h and
Documentation/arch/arm64/elf_hwcaps.rst."""


def describe_device(
    state: Path, name: str | None = None, root: Path = Path("/"), *, serial: str = ""
) -> DeviceDescription:
    """Describe this device; if the system has no id, a random id is stored in `state`.

    Args:
        state: The agent's state directory.
        name: Name of the device; None: the host name.
        root: Directory that replaces / in tests.
        serial: Serial number that does not come from the device tree; empty if there is none.
    """
    compatible = _strings(root / "proc/device-tree/compatible")
    return DeviceDescription(
        id=_device_id(state, root, serial),
        name=name or socket.gethostname(),
        profile=match_profile(device_identity(root)).id,
        arch=platform.machine(),
        # The last entry of the root node's `compatible` names the chip, the first the board.
        soc=compatible[-1] if compatible else _cpu_model(root),
        os=_os_name(root),
    )


def board_id(root: Path = Path("/"), serial: str = "") -> str:
    """Pseudonymous id of the board, equal before and after a new installation; empty if unknown.

    The id is derived from the first of these values that is present:

    1. the serial number that the firmware puts into the device tree;
    2. `serial`;
    3. the UUID of the mainboard, which only root may read;
    4. the serial number of the mainboard, which only root may read.

    Default values that many boards share are ignored.

    Args:
        root: Directory that replaces / in tests.
        serial: As for `describe_device`.
    """
    serial = _serial_number(root, serial)
    for name in ("product_uuid", "board_serial"):
        text = read_text(root / "sys/class/dmi/id" / name).lower()
        if not serial and not _is_placeholder(text):
            serial = text
    return _of_serial(serial) if serial else ""


def device_identity(root: Path = Path("/")) -> DeviceIdentity:
    """Names of this machine's board and processor, from which its profile is chosen."""
    model = re.search(r"^model name\s*:\s*(.+)$", read_text(root / "proc/cpuinfo"), re.MULTILINE)
    return DeviceIdentity(
        machine=platform.machine(),
        dt_compatible=_strings(root / "proc/device-tree/compatible"),
        dmi_product=read_text(root / "sys/class/dmi/id/product_name"),
        cpuinfo_model=model[1].strip() if model else "",
    )


def describe_environment(root: Path = Path("/"), *, processor: Path | None = None) -> Environment:
    """Describe the current conditions of this machine, which are recorded with a run.

    Args:
        root: Directory that replaces / in tests and simulations.
        processor: Directory that replaces / for the description of the processor; None: `root`. For
            a simulated device, this is the processor of this machine, which computes the models;
            the CPU frequencies are always read under `root`.
    """
    lines = re.findall(r"^(\w+):\s+(\d+) kB$", read_text(root / "proc/meminfo"), re.MULTILINE)
    memory = {name: int(kib) * 1024 for name, kib in lines}
    return Environment(
        cpu=_cpu(processor or root, clocks=root),
        memory_total_bytes=memory.get("MemTotal"),
        memory_available_bytes=memory.get("MemAvailable"),
        swap_used_bytes=memory["SwapTotal"] - memory.get("SwapFree", 0)
        if "SwapTotal" in memory
        else None,
        kernel=platform.release(),
        os=_os_name(root),
        python=platform.python_version(),
        virtualization=virtualization(root),
        virtualization_unknown=_unread_mark(root),
        load_1m=load_1m(root),
        packages=_packages(),
        agent_version=agent_version(),
        interpreter=INTERPRETER,
        clock=describe_clock(root),
    )


def load_averages(root: Path = Path("/")) -> tuple[float, float, float] | None:
    """Load averages over 1, 5 and 15 minutes; None if not reported, as on some Androids."""
    if root != Path("/"):
        try:
            one, five, fifteen = map(float, read_text(root / "proc/loadavg").split()[:3])
        except ValueError:
            return None
        return one, five, fifteen
    try:
        return os.getloadavg()
    except (OSError, AttributeError):  # old C libraries of Android lack the function
        return None


def load_1m(root: Path = Path("/")) -> float | None:
    """Load average over the last minute; None if the system does not report it."""
    averages = load_averages(root)
    return None if averages is None else averages[0]


def is_emulated(root: Path = Path("/")) -> bool:
    """Whether the CPU itself is emulated, which makes times meaningless."""
    return _emulator(root) is not None


def virtualization(root: Path = Path("/")) -> str | None:
    """Containers and virtual machines around this process, the innermost first: `docker on KVM`.

    None if no container and no virtual machine is detected. Source of the signs by which they are
    detected: systemd-detect-virt(1).
    """
    # An emulator first: times inside it are meaningless, in any container.
    if (emulator := _emulator(root)) is not None:
        return emulator
    if re.search("microsoft", read_text(root / "proc/sys/kernel/osrelease"), re.IGNORECASE):
        return "WSL"
    return " on ".join(filter(None, (_container(root), _hypervisor(root)))) or None


def _unread_mark(root: Path) -> str | None:
    """First unreadable file that may show virtualisation, and the reason; None if there is none.

    An emulator would be visible in /proc/self/maps, a container in /proc/self/status, and a
    hypervisor in /proc/cpuinfo.
    """
    for name in ("self/maps", "self/status", "cpuinfo"):
        path = root / "proc" / name
        try:
            path.open("rb").close()
        except OSError as exc:
            if root == Path("/") or exc.errno != errno.ENOENT:  # a tree of tests has few files
                return f"/proc/{name}: {exc.strerror}"
    return None


def _hypervisor(root: Path) -> str | None:
    cpuinfo = read_text(root / "proc/cpuinfo")
    vendor = read_text(root / "sys/class/dmi/id/sys_vendor")
    product = read_text(root / "sys/class/dmi/id/product_name")
    for vendor_mark, product_mark, name in _DMI_MARKS:
        if vendor_mark in vendor and product_mark in product:
            return name
    if kind := read_text(root / "sys/hypervisor/type"):
        return kind
    # Arm has no flag for it; Source: systemd, src/basic/virt.c, detect_vm_device_tree.
    if named := _strings(root / "proc/device-tree/hypervisor/compatible"):
        return named[0].rpartition(",")[2]
    if "linux,dummy-virt" in _strings(root / "proc/device-tree/compatible"):
        return "QEMU"
    if re.search(r"^flags\s*:.*\bhypervisor\b", cpuinfo, re.MULTILINE):
        return "unknown hypervisor"
    return None


_DMI_MARKS = (
    ("", "KVM", "KVM"),
    ("QEMU", "", "QEMU"),
    ("Amazon EC2", "", "Amazon EC2"),
    ("VMware", "", "VMware"),
    ("innotek", "", "VirtualBox"),
    ("Xen", "", "Xen"),
    ("Google", "Google Compute Engine", "Google Compute Engine"),
    ("Microsoft Corporation", "Virtual Machine", "Hyper-V"),
    ("Parallels", "", "Parallels"),
    ("Apple Inc.", "Apple Virtualization", "Apple Virtualization"),
)
"""Parts of the DMI vendor name and product name, and the hypervisor that they identify. For Apple,
Google and Microsoft, both parts are needed, because their laptops have the same vendor name."""
_CONTAINER_MARKS = (
    ("kubepods", "kubernetes"),
    ("/kubelet/", "kubernetes"),
    ("/docker/", "docker"),
    ("/docker-", "docker"),
    ("libpod", "podman"),
    ("/lxc/", "lxc"),
    ("lxc.payload", "lxc"),
    ("containerd", "containerd"),
)
"""Parts of the names that container managers give to control groups, and to the directories that
they mount as / and /etc/hostname in a container."""


def _emulator(root: Path) -> str | None:
    # A user-mode emulator is the program that the kernel runs. It shows its guest other contents
    # of some files in /proc/self; the set of these files differs by version.
    thread = root / "proc/thread-self"
    with suppress(OSError):
        if (thread / "exe").readlink().name.startswith("qemu-"):
            return "qemu-user"
    for maps in (root / "proc/self/maps", thread / "maps", root / "proc/self/smaps"):
        if "/qemu-" in read_text(maps):
            return "qemu-user"
    # If an emulator hides itself, the kernel still reports the architecture for which it was
    # built (since Linux 6.1), and still describes the real processor in /proc/cpuinfo.
    kernel, here = read_text(root / "proc/sys/kernel/arch"), _family(platform.machine())
    cpuinfo = read_text(root / "proc/cpuinfo")
    if kernel and _family(kernel) != here:
        return "user-mode emulator"
    if here == "arm" and cpuinfo and "CPU implementer" not in cpuinfo:
        return "user-mode emulator"
    return "QEMU TCG" if "QEMU TCG" in cpuinfo or "TCGTCGTCGTCG" in cpuinfo else None


def _family(machine: str) -> str:
    """Family of an architecture; a 64-bit kernel also runs the 32-bit processes of its family."""
    if re.fullmatch("x86_64|i[3-6]86", machine):
        return "x86"
    if machine.startswith(("arm", "aarch64")):
        return "arm"
    return "riscv" if machine.startswith("riscv") else machine


def _container(root: Path) -> str | None:
    tracer = re.search(r"^TracerPid:\s*([1-9]\d*)$", read_text(root / "proc/self/status"), re.M)
    if tracer and read_text(root / "proc" / tracer[1] / "comm").startswith("proot"):
        return "proot"
    for mark, name in _CONTAINER_FILES:
        if (root / mark).exists():
            return name
    init = re.search(r"(?:^|\0)container=([^\0]+)", read_text(root / "proc/1/environ"))
    named: tuple[str, ...] = (
        read_text(root / "run/systemd/container"),
        read_text(root / "run/host/container-manager"),
        init[1] if init else "",
    )
    if manager := next(filter(None, named), None):
        return manager
    # Only these mounts are read: other mounts may belong to containers that run on this machine.
    own = re.findall(
        r"^(?:\S+ ){4}/(?:etc/hostname)? .*", read_text(root / "proc/self/mountinfo"), re.M
    )
    text = "\n".join((read_text(root / "proc/1/cgroup"), *own))
    return next((name for mark, name in _CONTAINER_MARKS if mark in text), None)


_CONTAINER_FILES = (
    ("data/data/com.termux/files/usr", "Termux"),
    ("run/secrets/kubernetes.io", "kubernetes"),
    ("var/run/secrets/kubernetes.io", "kubernetes"),
    (".dockerenv", "docker"),
    ("run/.containerenv", "podman"),
)
"""Files that exist only inside a container. The directory of Termux, a terminal app of Android, is
visible only to Termux."""


_BOARD_ROUNDS = 100_000
"""Rounds of PBKDF2. The id is part of shared results, and a Raspberry Pi's serial number has only
32 bits. If the id were a plain hash, an exhaustive search would find the serial number within an
hour. The rounds take 23 ms on a PC, once or twice at each start of an agent."""
_PLACEHOLDERS = frozenset(
    {
        "0123456789abcdef",
        "0123456789",
        "123456789",
        "1234567890",
        "03000200-0400-0500-0006-000700080009",
        "chassis serial number",
        "default string",
        "not applicable",
        "not specified",
        "system serial number",
        "to be filled by o.e.m.",
    }
)
"""Values that are not unique. Some are serial numbers that Android devices without a serial number
report. The others are default UUIDs and serial numbers of firmware, such as AMI's, that the maker
of the mainboard did not replace. Source: the lists of such values in dmidecode."""
_LEAST_DIGITS = 8
"""Minimum number of letters and digits in a serial number; the serial number of a Raspberry Pi has
8 significant digits."""


def _serial_number(root: Path, elsewhere: str = "") -> str:
    """Serial number in the device tree, else `elsewhere`; empty if both are missing or default.

    Source: Devicetree Specification 0.4, 3.2, property `serial-number` of the root node.
    """
    numbers = _strings(root / "proc/device-tree/serial-number")
    serials = (numbers[0].strip().lower() if numbers else "", elsewhere.lower())
    return next((serial for serial in serials if not _is_placeholder(serial)), "")


def _is_placeholder(serial: str) -> bool:
    """Whether a serial number is a default value that many boards share.

    >>> _is_placeholder("0000000000000000"), _is_placeholder("10000000a1b2c3d4")
    (True, False)
    """
    digits = re.findall("[0-9a-z]", serial)
    return len(digits) < _LEAST_DIGITS or len(set(digits)) < 2 or serial in _PLACEHOLDERS


def _of_serial(serial: str) -> str:
    key = hashlib.pbkdf2_hmac("sha256", serial.encode(), b"edgebench board", _BOARD_ROUNDS, 8)
    return key.hex()


def _device_id(state: Path, root: Path, elsewhere: str) -> str:
    # Independent of permissions: an agent of root and an agent of a user get the same id.
    if serial := _serial_number(root, elsewhere):
        return _of_serial(serial)
    machine = read_text(state / DEVICE_ID_FILE) or read_text(root / "etc/machine-id")
    if not machine:
        machine = renew_device_id(state)
    # machine-id(5) asks applications to publish a keyed hash only, never the id itself.
    return hashlib.blake2b(machine.encode(), key=b"edgebench device", digest_size=8).hexdigest()


def renew_device_id(state: Path) -> str:
    """Store and return a new random base of the device's id, for boards without a serial number."""
    drawn = uuid.uuid4().hex
    write_private(state / DEVICE_ID_FILE, drawn)
    return drawn


def _cpu(root: Path, *, clocks: Path) -> CpuDescription:
    cpufreq = clocks / "sys/devices/system/cpu/cpufreq"
    policies = sorted(cpufreq.glob("policy*"))
    freqs_khz = [
        int(text) for p in policies if (text := read_text(p / "cpuinfo_max_freq")).isdecimal()
    ]
    return CpuDescription(
        model=_cpu_model(root),
        logical_count=os.cpu_count() or 1,
        usable_count=len(own_cpus()),
        freq_hz_max=max(freqs_khz) * 1000 if freqs_khz else None,
        governor=next((read_text(p / "scaling_governor") or None for p in policies), None),
        kinds=_cpu_kinds(clocks / "sys/devices/system/cpu", own_cpus()),
        features=_cpu_features(root),
    )


def _cpu_kinds(folder: Path, cpus: Iterable[int]) -> tuple[tuple[int, ...], ...] | None:
    """CPUs grouped by type, the fastest first; None if a CPU lacks both capacity and frequency.

    Capacities are preferred, because CPUs of equal frequency may differ in capacity. Source: Linux,
    Documentation/devicetree/bindings/cpu/cpu-capacity.txt, where the fastest CPU has capacity 1024.
    """
    speeds: dict[int, int] = {}
    for cpu in cpus:
        text = read_text(folder / f"cpu{cpu}/cpu_capacity")
        text = text or read_text(folder / f"cpu{cpu}/cpufreq/cpuinfo_max_freq")
        if not text.isdecimal():
            return None
        speeds[cpu] = int(text)
    kinds: list[list[int]] = []
    for cpu in sorted(speeds, key=lambda cpu: (-speeds[cpu], cpu)):
        if not kinds or speeds[cpu] < (1 - SAME_CLUSTER_RATIO) * speeds[kinds[-1][0]]:
            kinds.append([])
        kinds[-1].append(cpu)
    return tuple(tuple(sorted(kind)) for kind in kinds)


def _cpu_model(root: Path) -> str:
    cpuinfo = read_text(root / "proc/cpuinfo")
    named = re.search(r"^model name\s*:\s*(.+)$", cpuinfo, re.MULTILINE)
    if named:
        return named[1].strip()
    parts = sorted(set(re.findall(r"^CPU part\s*:\s*(\S+)$", cpuinfo, re.MULTILINE)))
    return f"{platform.machine()} part {'+'.join(parts)}" if parts else "unknown"


def _cpu_features(root: Path) -> tuple[str, ...] | None:
    """Features that all CPUs have, because a worker may run on any CPU; None if not readable."""
    cpuinfo = read_text(root / "proc/cpuinfo")
    of_each = re.findall(r"^(?:flags|Features)[ \t]*:(.*)$", cpuinfo, re.MULTILINE)
    if not of_each:
        return None
    common = set.intersection(*(set(flags.split()) for flags in of_each))
    return tuple(name for flag, name in _FEATURES.items() if flag in common)


def _os_name(root: Path) -> str:
    pretty = re.search(
        r'^PRETTY_NAME="?([^"\n]+)', read_text(root / "etc/os-release"), re.MULTILINE
    )
    return pretty[1] if pretty else platform.system()


def agent_version() -> str:
    """Version of the installed agent."""
    return installed_version(AGENT_DISTRIBUTION) or "unknown"


def _packages() -> dict[str, str]:
    packages = dict(PACKAGES)
    # A vendor's build has the same module in a package of another name.
    for runtime, module in RUNTIME_MODULES.items():
        package = RUNTIME_PACKAGES[runtime]
        if installed_version(package) is None and (other := distribution_of(module)):
            packages[other] = other
    versions = {name: installed_version(package) for name, package in packages.items()}
    return {name: version for name, version in versions.items() if version is not None}


def _strings(path: Path) -> tuple[str, ...]:
    """Strings of a device-tree property, each of which ends with a NUL in the file."""
    try:
        return tuple(
            part.decode("ascii", "replace") for part in path.read_bytes().split(b"\0") if part
        )
    except OSError:
        return ()
