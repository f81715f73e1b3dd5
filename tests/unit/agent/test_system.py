"""What the agent reports about boards that it has never seen."""

from __future__ import annotations

import os
import platform
import re
from collections.abc import Mapping
from pathlib import Path

import pytest
from support.trees import RASPBERRY_PI_5, X86_VM, make_tree

from edgebench.agent.system import (
    _cpu_kinds,
    board_id,
    describe_device,
    describe_environment,
    is_emulated,
    virtualization,
)
from edgebench.protocol.plain import to_plain


@pytest.fixture
def state(tmp_path: Path) -> Path:
    """The agent's state directory."""
    path = tmp_path / "state"
    path.mkdir()
    return path


@pytest.fixture
def on_arm(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let this machine identify itself as a 64-bit ARM."""
    monkeypatch.setattr(platform, "machine", lambda: "aarch64")


@pytest.mark.usefixtures("on_arm")
def test_raspberry_pi_is_described(tmp_path: Path, state: Path) -> None:
    """Otherwise results would not state on which board they were made."""
    root = make_tree(tmp_path / "root", RASPBERRY_PI_5)
    device = describe_device(state, "board", root)
    assert (device.name, device.arch) == ("board", "aarch64")
    assert device.soc == "brcm,bcm2712"
    assert device.os == "Debian GNU/Linux 12 (bookworm)"
    assert device.profile == "raspberrypi-5"
    environment = describe_environment(root)
    assert environment.cpu.model == "aarch64 part 0xd0b"
    assert environment.cpu.freq_hz_max == 2_400_000_000
    assert environment.cpu.governor == "ondemand"
    assert environment.cpu.features == ("dotprod",)
    assert environment.memory_total_bytes == 8_245_840 * 1024
    assert environment.memory_available_bytes == 7_340_032 * 1024
    assert environment.swap_used_bytes == 256 * 1024
    assert environment.virtualization is None


def test_virtual_machine_is_described(tmp_path: Path, state: Path) -> None:
    """Otherwise numbers from a virtual machine would pass for numbers from the metal."""
    root = make_tree(tmp_path / "root", X86_VM)
    environment = describe_environment(root)
    assert environment.virtualization == "QEMU"
    assert environment.cpu.model == "Intel(R) Xeon(R) Processor @ 2.90GHz"
    assert (environment.cpu.freq_hz_max, environment.cpu.governor) == (None, None)
    assert environment.cpu.features == ("avx2",)
    device = describe_device(state, None, root)
    assert device.os == "Alpine Linux v3.20"
    assert device.soc == "Intel(R) Xeon(R) Processor @ 2.90GHz"
    assert device.name == platform.node()


@pytest.mark.parametrize(
    ("lines", "features"),
    [
        (["flags\t\t: sse avx2 avx512f avx512_vnni avx_vnni"],
         ("avx2", "avx512f", "avx_vnni", "avx512_vnni")),
        (["flags\t\t: sse2 ssse3"], ()),
        (["flags\t\t:"], ()),
        (["Features\t: asimd asimddp i8mm sve", "Features\t: asimd asimddp"], ("dotprod",)),
        (["vmx flags\t: avx2", "flags\t\t: avx_vnni"], ("avx_vnni",)),
        (["isa\t\t: rv64imafdc"], None),
    ],
)  # fmt: skip
def test_features_are_those_that_every_cpu_has(
    tmp_path: Path, lines: list[str], features: tuple[str, ...] | None
) -> None:
    """Otherwise a cause would be named that the run's CPU lacks, or only one of its cores has."""
    cpuinfo = "".join(f"processor\t: {i}\n{line}\n\n" for i, line in enumerate(lines))
    root = make_tree(tmp_path / "root", {"proc/cpuinfo": cpuinfo})
    assert describe_environment(root).cpu.features == features


@pytest.mark.parametrize(
    ("capacities", "freqs_khz", "kinds"),
    [
        ([414, 414, 1024, 1024], [1_800_000] * 4, ((2, 3), (0, 1))),
        ([None] * 4, [4_700_000, 4_800_000, 4_700_000, 4_600_000], ((0, 1, 2, 3),)),
        ([None] * 4, [4_800_000, 4_800_000, 3_600_000, 3_600_000], ((0, 1), (2, 3))),
        ([1024] * 4, [None] * 4, ((0, 1, 2, 3),)),
        ([250, 600, 1024, 600], [None] * 4, ((2,), (1, 3), (0,))),
        ([1024, None, 1024, 1024], [None] * 4, None),
        ([None] * 4, [None] * 4, None),
    ],
)
def test_cpus_are_of_the_type_of_their_capacity_or_else_their_frequency(
    tmp_path: Path,
    capacities: list[int | None],
    freqs_khz: list[int | None],
    kinds: tuple[tuple[int, ...], ...] | None,
) -> None:
    """Otherwise --cpus would be advised where all CPUs are alike, or name a little CPU."""
    tree: dict[str, str] = {}
    for cpu, (capacity, freq_khz) in enumerate(zip(capacities, freqs_khz, strict=True)):
        if capacity is not None:
            tree[f"cpu{cpu}/cpu_capacity"] = f"{capacity}\n"
        if freq_khz is not None:
            tree[f"cpu{cpu}/cpufreq/cpuinfo_max_freq"] = f"{freq_khz}\n"
    assert _cpu_kinds(make_tree(tmp_path / "cpu", tree), range(4)) == kinds


def test_empty_root_is_a_device_too(tmp_path: Path, state: Path) -> None:
    """Otherwise an agent without /proc and /sys would not start, or would guess."""
    root = tmp_path / "nothing"
    device = describe_device(state, "board", root)
    assert (device.soc, device.os) == ("unknown", platform.system())
    environment = describe_environment(root)
    assert (environment.cpu.model, environment.cpu.features) == ("unknown", None)
    assert environment.virtualization is None
    assert (environment.memory_total_bytes, environment.swap_used_bytes) == (None, None)


ROOT = "36 1 0:32 / / rw,relatime - overlay overlay rw,"
OTHER = "99 1 0:52 / /var/lib/other/merged rw,relatime - overlay overlay rw,"
"""Mounts: that of the root, and that of a container which runs here."""
PROOT = {"proc/self/status": "TracerPid:\t41\n", "proc/41/comm": "proot\n"}


@pytest.mark.parametrize(
    ("extra", "expected"),
    [
        ({".dockerenv": ""}, "docker"),
        ({"run/.containerenv": ""}, "podman"),
        ({"run/systemd/container": "lxc\n"}, "lxc"),
        ({"run/host/container-manager": "systemd-nspawn\n"}, "systemd-nspawn"),
        ({"proc/1/environ": "PATH=/bin\0container=lxc\0TERM=xterm\0"}, "lxc"),
        ({"proc/1/environ": "mycontainer=lxc\0"}, None),
        ({"run/secrets/kubernetes.io/token": "", ".dockerenv": ""}, "kubernetes"),
        ({"proc/1/cgroup": "0::/kubepods.slice/kubepods-pod1.slice\n"}, "kubernetes"),
        ({"proc/1/cgroup": "12:cpu:/docker/0123abcd\n"}, "docker"),
        ({"proc/1/cgroup": "0::/init.scope\n"}, None),
        ({"proc/self/mountinfo": f"{ROOT} lowerdir=/var/lib/containerd/1\n"}, "containerd"),
        ({"proc/self/mountinfo": f"{OTHER} lowerdir=/var/lib/docker/overlay2/1\n"}, None),
        ({"data/data/com.termux/files/usr/bin/sh": ""}, "Termux"),
        ({"sys/class/dmi/id/sys_vendor": "VMware, Inc.\n"}, "VMware"),
        ({"sys/class/dmi/id/sys_vendor": "Amazon EC2\n"}, "Amazon EC2"),
        ({"sys/class/dmi/id/product_name": "VirtualBox\n"}, None),
        ({"sys/class/dmi/id/sys_vendor": "innotek GmbH\n"}, "VirtualBox"),
        ({"sys/class/dmi/id/sys_vendor": "Apple Inc.\n"}, None),
        ({"sys/hypervisor/type": "xen\n"}, "xen"),
        ({"proc/device-tree/hypervisor/compatible": "xen,xen-4.17\0xen,xen\0"}, "xen-4.17"),
        ({"proc/device-tree/compatible": "linux,dummy-virt\0"}, "QEMU"),
        ({"proc/cpuinfo": "flags\t\t: fpu hypervisor sse\n"}, "unknown hypervisor"),
        ({"proc/cpuinfo": "model name : no hypervisor\nflags\t: fpu nohypervisorx\n"}, None),
        ({"proc/cpuinfo": "model name\t: QEMU TCG CPU version 2.5+\n"}, "QEMU TCG"),
        ({"proc/self/maps": "00400000-00401000 r-xp /usr/bin/qemu-aarch64-static\n"}, "qemu-user"),
        ({"proc/thread-self/maps": "00400000-1 r-xp /usr/bin/qemu-arm-static\n"}, "qemu-user"),
        ({"proc/self/smaps": "00400000-1 r-xp /usr/bin/qemu-arm-static\n"}, "qemu-user"),
        ({"proc/sys/kernel/osrelease": "5.15.153.1-microsoft-standard-WSL2\n"}, "WSL"),
        ({"proc/self/status": "TracerPid:\t41\n", "proc/41/comm": "proot\n"}, "proot"),
        ({"proc/self/status": "TracerPid:\t41\n", "proc/41/comm": "gdb\n"}, None),
        ({"proc/self/status": "TracerPid:\t0\n", "proc/0/comm": "proot\n"}, None),
        ({".dockerenv": "", "sys/class/dmi/id/sys_vendor": "QEMU\n"}, "docker on QEMU"),
        ({**PROOT, "data/data/com.termux/files/usr/bin/sh": ""}, "proot"),
        ({**PROOT, "proc/self/maps": "00400000-1 r-xp /usr/bin/qemu-arm\n"}, "qemu-user"),
    ],
    ids=str,
)
def test_each_kind_of_virtualization_shows(
    tmp_path: Path, extra: Mapping[str, str], expected: str | None
) -> None:
    """Otherwise a hypervisor, container or emulator would hide behind a number."""
    assert virtualization(make_tree(tmp_path, extra)) == expected


@pytest.mark.parametrize(
    "emulator",
    [
        {"proc/self/maps": "00400000-00401000 r-xp /usr/bin/qemu-aarch64-static\n"},
        {"proc/cpuinfo": "model name\t: QEMU TCG CPU version 2.5+\n"},
    ],
)
def test_emulator_shows_through_a_container(tmp_path: Path, emulator: Mapping[str, str]) -> None:
    """Otherwise times of `docker run --platform linux/arm64` on a PC would pass for valid."""
    root = make_tree(tmp_path, emulator, {".dockerenv": ""})
    assert is_emulated(root)


def test_emulator_is_the_program_that_the_kernel_runs(tmp_path: Path) -> None:
    """Otherwise a PC would pass for a Raspberry Pi: qemu-user shows its guest made-up maps."""
    root = make_tree(tmp_path, {"proc/thread-self/comm": "python3\n"})
    (root / "proc/thread-self/exe").symlink_to("/usr/libexec/qemu-binfmt/qemu-aarch64-static")
    assert is_emulated(root)


@pytest.mark.usefixtures("on_arm")
def test_processor_of_another_kind_is_that_of_the_machine_around(tmp_path: Path) -> None:
    """Otherwise an Intel processor in an ARM process's /proc/cpuinfo would go unnoticed."""
    root = make_tree(tmp_path, {"proc/cpuinfo": "vendor_id\t: GenuineIntel\nmodel\t: 85\n"})
    assert is_emulated(root)


@pytest.mark.usefixtures("on_arm")
@pytest.mark.parametrize(
    ("kernel", "expected"), [("x86_64", True), ("aarch64", False), ("armv7l", False), ("", False)]
)
def test_kernel_says_what_it_was_built_for(tmp_path: Path, kernel: str, expected: bool) -> None:
    """Otherwise an emulator that invents a whole /proc/cpuinfo would pass for a board.

    Newer emulators do so.
    """
    tree = make_tree(tmp_path, RASPBERRY_PI_5, {"proc/sys/kernel/arch": f"{kernel}\n"})
    assert is_emulated(tree) is expected


def test_load_that_the_system_does_not_tell_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise an agent would measure nothing on Android, which denies the load."""

    def deny() -> tuple[float, float, float]:
        raise OSError("denied")

    monkeypatch.setattr(os, "getloadavg", deny)
    assert describe_environment().load_1m is None


def test_container_and_virtual_machine_are_not_emulators(tmp_path: Path) -> None:
    """Otherwise every measurement in a container would be thrown away."""
    assert not is_emulated(make_tree(tmp_path, X86_VM, {".dockerenv": ""}))


def test_identity_is_stable_and_does_not_give_the_machine_id_away(
    tmp_path: Path, state: Path
) -> None:
    """Otherwise results of one board would not fit together, or its secret id be published."""
    root = make_tree(tmp_path / "root", RASPBERRY_PI_5)
    first, second = (describe_device(state, name, root) for name in ("old", "new"))
    assert first.id == second.id
    assert len(first.id) == 16
    assert "0123456789abcdef" not in str(to_plain(first))
    other = make_tree(tmp_path / "other", X86_VM)
    assert describe_device(state, "board", other).id != first.id


def with_serial(root: Path, serial: bytes, machine: str = "0" * 31 + "1") -> Path:
    """A Raspberry Pi 5 whose chip has this serial number, and its system this machine id."""
    number = {"proc/device-tree/serial-number": serial}
    return make_tree(root, RASPBERRY_PI_5, number, {"etc/machine-id": f"{machine}\n"})


def test_board_is_the_same_device_with_a_new_system(tmp_path: Path, state: Path) -> None:
    """Otherwise results of one board would not fit together after a new SD card image."""
    old = with_serial(tmp_path / "old", b"10000000a1b2c3d4\0")
    new = with_serial(tmp_path / "new", b"10000000a1b2c3d4\0", machine="e" * 31 + "2")
    first, second = (describe_device(state, "pi", root) for root in (old, new))
    assert first.id == second.id == board_id(old) == board_id(new)
    assert re.fullmatch("[0-9a-f]{16}", first.id)
    assert "a1b2c3d4" not in first.id


def test_copies_of_an_sd_card_are_two_devices(tmp_path: Path, state: Path) -> None:
    """Otherwise runs on two boards with one machine id would be compared as those of one board."""
    boards = [
        with_serial(tmp_path / serial, serial.encode() + b"\0")
        for serial in ("10000000a1b2c3d4", "10000000a1b2c3d5")
    ]
    assert len({describe_device(state, "pi", root).id for root in boards}) == 2
    assert len({board_id(root) for root in boards}) == 2


@pytest.mark.parametrize(
    "serial", [b"", b"\0", b"0000000000000000\0", b"0123456789ABCDEF\0", b"1234\0", b"\xff\xff"]
)
def test_serial_number_that_many_boards_have_is_none(
    tmp_path: Path, state: Path, serial: bytes
) -> None:
    """Otherwise all boards of a maker who left the number empty would be one device."""
    root = with_serial(tmp_path / "root", serial)
    plain = make_tree(tmp_path / "plain", RASPBERRY_PI_5, {"etc/machine-id": "0" * 31 + "1\n"})
    assert board_id(root) == ""
    assert describe_device(state, "pi", root).id == describe_device(state, "pi", plain).id


@pytest.mark.parametrize(
    ("uuid", "is_one"),
    [
        ("4C4C4544-0042-3510-8052-B7C04F4E3732\n", True),
        ("03000200-0400-0500-0006-000700080009\n", False),
        ("FFFFFFFF-FFFF-FFFF-FFFF-FFFFFFFFFFFF\n", False),
        ("", False),
    ],
)
def test_mainboard_is_known_by_its_uuid_and_the_device_is_not(
    tmp_path: Path, state: Path, uuid: str, is_one: bool
) -> None:
    """Otherwise a PC would be another device for its user's agent than for root's.

    Only root may read the UUID.
    """
    name = "sys/class/dmi/id/product_uuid"
    root = make_tree(tmp_path / "root", X86_VM, {name: uuid})
    plain = make_tree(tmp_path / "plain", X86_VM)
    assert bool(board_id(root)) == is_one
    assert board_id(plain) == ""
    assert describe_device(state, "pc", root).id == describe_device(state, "pc", plain).id


def test_device_without_a_machine_id_keeps_a_random_one(tmp_path: Path, state: Path) -> None:
    """Otherwise a board would be another device after each start of its agent."""
    root = tmp_path / "nothing"
    first, second = (describe_device(state, "board", root) for _ in "ab")
    assert first.id == second.id
    elsewhere = tmp_path / "other"
    elsewhere.mkdir()
    assert describe_device(elsewhere, "board", root).id != first.id


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("proc/cpuinfo", b"\xff\xfe\0" * 100),
        ("proc/meminfo", b"MemTotal: many kB\nMemAvailable:\n\xff"),
        ("proc/device-tree/compatible", b"\xff\xff\0\0\0"),
        ("sys/devices/system/cpu/cpufreq/policy0/cpuinfo_max_freq", b"<unknown>\n"),
        ("etc/os-release", b"PRETTY_NAME=\n\xff"),
        ("etc/machine-id", b"\n"),
        ("run/systemd/container", b"\0"),
    ],
)
def test_damaged_file_is_as_good_as_none(
    tmp_path: Path, state: Path, name: str, content: bytes
) -> None:
    """Otherwise one odd file under /proc would keep the agent from starting."""
    root = make_tree(tmp_path / "root", {name: content})
    assert describe_environment(root).cpu.freq_hz_max is None
    assert describe_device(state, "board", root).id


def test_this_machine_can_be_described(state: Path) -> None:
    """Otherwise the real /proc and /sys would differ from the made-up ones."""
    environment = describe_environment()
    assert environment.memory_total_bytes is not None
    assert environment.memory_available_bytes is not None
    assert environment.memory_total_bytes >= environment.memory_available_bytes > 0
    assert 1 <= environment.cpu.usable_count <= environment.cpu.logical_count
    assert environment.packages["numpy"]
    assert describe_device(state).name
