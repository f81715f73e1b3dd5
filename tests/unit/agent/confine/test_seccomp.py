"""The program of the filter, run by an interpreter of the classic BPF, for every architecture."""

from __future__ import annotations

import errno
import platform
import re
from pathlib import Path

import pytest
from support.tools import skip_or_fail

from edgebench.agent.bpf import MAX_INSTRUCTIONS, Instruction
from edgebench.agent.confine.seccomp import build_filter
from edgebench.agent.confine.syscalls import (
    ARCHITECTURES,
    ARM_PRIVATE,
    CONDITIONAL,
    NEWEST,
    REFUSED,
    Architecture,
    find_architecture,
)

PID = 4321
ALLOW, EPERM, ENOSYS = 0x7FFF0000, 0x50000 | errno.EPERM, 0x50000 | errno.ENOSYS
EINVAL, EOPNOTSUPP = 0x50000 | errno.EINVAL, 0x50000 | errno.EOPNOTSUPP
NATIVE = {architecture.name: architecture for architecture in ARCHITECTURES}
X86_64 = NATIVE["x86-64"]
COMMON = {
    "x86-64": {"read": 0, "write": 1, "mmap": 9, "futex": 202, "lseek": 8},
    "64-bit Arm": {"read": 63, "write": 64, "mmap": 222, "futex": 98, "lseek": 62},
    "64-bit RISC-V": {"read": 63, "write": 64, "mmap": 222, "futex": 98},
    "32-bit Arm": {"read": 3, "write": 4, "mmap2": 192, "futex": 240},
}
"""Calls that every inference makes, with their numbers."""


def run(program: list[Instruction], number: int, audit: int, *arguments: int) -> int:
    """Return the action of the program: what the kernel would do with a call."""
    words = [0] * 6
    for index, argument in enumerate(arguments):
        words[index] = argument
    data = {0: number, 4: audit}
    for index, argument in enumerate(words):
        data[16 + 8 * index] = argument & 0xFFFFFFFF
        data[20 + 8 * index] = argument >> 32 & 0xFFFFFFFF
    accumulator, place = 0, 0
    while True:
        code, if_true, if_false, operand = program[place]
        place += 1
        if code == 0x20:
            accumulator = data[operand]
        elif code == 0x54:
            accumulator &= operand
        elif code == 0x74:
            accumulator >>= operand
        elif code == 0x05:
            place += operand
        elif code == 0x06:
            return operand
        else:
            holds = {
                0x15: accumulator == operand,
                0x35: accumulator >= operand,
                0x45: bool(accumulator & operand),
            }[code]
            place += if_true if holds else if_false


class Caller:
    """Calls of an architecture by their names."""

    def __init__(self, architecture: Architecture) -> None:
        self._architecture = architecture
        self._program = build_filter(architecture, PID)

    def __call__(self, name: str, *arguments: int) -> int:
        number = CONDITIONAL[name][self._architecture.column]
        assert number is not None, name
        return run(self._program, number, self._architecture.audit, *arguments)


@pytest.mark.parametrize("architecture", ARCHITECTURES, ids=lambda one: one.name)
class TestEveryArchitecture:
    """Numbers differ between architectures; a wrong number would refuse what programs need."""

    def test_list_is_refused_and_common_calls_are_allowed(self, architecture: Architecture) -> None:
        """Otherwise an error in the search would let a refused call through."""
        program = build_filter(architecture, PID)
        assert len(program) <= MAX_INSTRUCTIONS == 4096
        assert all(0 <= skip < 256 for code in program for skip in code[1:3]), "they have 8 bits"
        refused = {numbers[architecture.column] for numbers in REFUSED.values()} - {None}
        conditional = {numbers[architecture.column] for numbers in CONDITIONAL.values()}
        for number in range(NEWEST + 1):
            if number in conditional:
                continue
            expected = EPERM if number in refused else ALLOW
            assert run(program, number, architecture.audit) == expected, number
        for name, number in COMMON[architecture.name].items():
            assert run(program, number, architecture.audit) == ALLOW, name

    def test_calls_with_conditions(self, architecture: Architecture) -> None:
        """Of these calls, runtimes need threads and signals to their own process."""
        ask = Caller(architecture)
        for name in ("kill", "tgkill", "rt_sigqueueinfo", "rt_tgsigqueueinfo"):
            assert ask(name, PID) == ALLOW
            for other in (1, 0, -1, -PID, PID + 1):
                assert ask(name, other) == EPERM
        assert [ask("prlimit64", one) for one in (0, PID, 1)] == [ALLOW, ALLOW, EPERM]
        # PR_SET_NAME, PR_SET_PDEATHSIG, PR_SET_DUMPABLE.
        assert [ask("prctl", one) for one in (15, 1, 4)] == [ALLOW, EPERM, EPERM]
        thread, process = 0x3D0F00, 0x1200011
        assert [ask("clone", one) for one in (thread, process)] == [ALLOW, EPERM]
        assert ask("clone3", 0) == ask("openat2", 0) == ENOSYS

    def test_local_sockets_that_listen_are_for_cuda(self, architecture: Architecture) -> None:
        """CUDA needs a listening socket to start; a datagram would reach the system's log."""
        column = architecture.column
        stream, datagram, sequence, close_on_exec = 1, 2, 5, 0o2000000
        for has_cuda in (False, True):
            program = build_filter(architecture, PID, has_cuda=has_cuda)

            def ask(name: str, *words: int, program: list[Instruction] = program) -> int:
                number = REFUSED[name][column]
                assert number is not None
                return run(program, number, architecture.audit, *words)

            allowed = ALLOW if has_cuda else EPERM
            for kind in (stream, sequence, stream | close_on_exec):
                assert ask("socket", 1, kind) == allowed
            for family, kind in ((1, datagram), (1, datagram | close_on_exec), (2, stream)):
                assert ask("socket", family, kind) == EPERM
            assert ask("bind") == ask("listen") == allowed
            assert ask("connect") == ask("accept4") == ask("socketpair", 1, stream) == EPERM

    def test_scheduling_is_of_the_worker_itself(self, architecture: Architecture) -> None:
        """Otherwise a model could bind a user's daemon to one CPU, and put it last in the queue."""
        ask = Caller(architecture)
        calls = ("sched_setaffinity", "sched_setparam", "sched_setscheduler", "sched_setattr")
        for name in calls:
            assert [ask(name, one) for one in (0, PID, 1, -1)] == [ALLOW, ALLOW, EPERM, EPERM]
        for name, process, others in (("setpriority", 0, (1, 2)), ("ioprio_set", 1, (2, 3))):
            assert [ask(name, process, one) for one in (0, PID, 1)] == [ALLOW, ALLOW, EPERM]
            assert [ask(name, other, 0) for other in others] == [EPERM, EPERM]

    def test_owners_of_descriptors_cannot_be_set(self, architecture: Architecture) -> None:
        """Otherwise the kernel would send the daemon a SIGKILL on behalf of a pipe."""
        ask = Caller(architecture)
        names = ["fcntl"] + (["fcntl64"] if architecture.name == "32-bit Arm" else [])
        for name in names:
            # F_SETOWN, F_SETSIG, F_SETOWN_EX, F_SETLEASE, F_NOTIFY.
            for command in (8, 10, 15, 1024, 1026):
                assert ask(name, 3, command, 1) == EPERM
                # The kernel takes the lower half as the command, whatever is above it.
                assert ask(name, 3, 1 << 32 | command, 1) == EPERM
            # F_DUPFD, F_GETFL, F_SETLKW, F_DUPFD_CLOEXEC, F_ADD_SEALS, F_SET_FILE_RW_HINT.
            for command in (0, 3, 7, 1030, 1033, 1038):
                assert ask(name, 3, command, 1) == ALLOW
            assert ask(name, 3, 1039) == ask(name, 3, 2**32 - 1) == EINVAL
            # F_SETFL with O_NONBLOCK; with O_ASYNC.
            assert [ask(name, 3, 4, flags) for flags in (0o4000, 0o24000)] == [ALLOW, EPERM]

    def test_devices_are_controlled_and_terminals_are_not(self, architecture: Architecture) -> None:
        """Accelerators are driven by ioctl(2), but so are the terminals of other users."""
        ask = Caller(architecture)
        # TCGETS, TCSETS, TIOCGWINSZ, FIONREAD, FIONBIO; a DRM, an NVIDIA, a usbfs command.
        for command in (0x5401, 0x5402, 0x5413, 0x541B, 0x5421, 0xC0406400, 0xC020462A, 0x8038550A):
            assert ask("ioctl", 3, command) == ALLOW, hex(command)
        # FIOASYNC, FIOSETOWN, SIOCSPGRP, TIOCSTI, TIOCSCTTY, TIOCSPGRP, TIOCSIG, TIOCLINUX;
        # FS_IOC_RESVSP64, FS_IOC_SETFLAGS, BTRFS_IOC_SUBVOL_CREATE.
        signals = (0x5452, 0x8901, 0x8902, 0x5412, 0x540E, 0x5410, 0x40045436, 0x541C)
        for command in (*signals, 0x4030582A, 0x40086602, 0x5000940E):
            assert ask("ioctl", 3, command) == EPERM, hex(command)
            assert ask("ioctl", 3, 5 << 32 | command) == EPERM, hex(command)

    def test_no_file_is_nameless_or_cut_by_a_reader(self, architecture: Architecture) -> None:
        """Otherwise a worker would use space that no counter sees, or truncate files.

        Landlock's first versions let files be truncated. O_TMPFILE is refused as by a file system
        without it, so that programs do without.
        """
        ask = Caller(architecture)
        directory = 0o40000 if "Arm" in architecture.name else 0o200000
        tmpfile = 0o20000000 | directory
        read, write, cut, made = 0, 1, 0o1000, 0o100
        expected = {
            tmpfile | 2: EOPNOTSUPP,
            read: ALLOW,
            directory: ALLOW,
            write | made | cut: ALLOW,
            2 | cut: ALLOW,
            read | cut: EPERM,
        }
        for flags, action in expected.items():
            assert ask("openat", -100, 0, flags) == action, oct(flags)
            if CONDITIONAL["open"][architecture.column] is not None:
                assert ask("open", 0, flags) == action, oct(flags)
        assert ask("fallocate", 3, 0, 0) == EOPNOTSUPP

    def test_other_architectures_and_later_calls_are_refused(
        self, architecture: Architecture
    ) -> None:
        """The i386 gate and x32 are other ways into the same kernel; tables become outdated."""
        program = build_filter(architecture, PID)
        for other in ARCHITECTURES:
            if other != architecture:
                assert run(program, 63, other.audit) == EPERM
        assert run(program, 63, 0x40000003) == EPERM  # i386
        for number in (NEWEST + 1, 0x40000000 + 41, 2**32 - 1):
            assert run(program, number, architecture.audit) == ENOSYS

    def test_calls_of_arm_alone_start_threads(self, architecture: Architecture) -> None:
        """Without set_tls(2) no thread starts on 32-bit Arm."""
        program = build_filter(architecture, PID)
        expected = ALLOW if architecture.name == "32-bit Arm" else ENOSYS
        for number in ARM_PRIVATE:
            assert run(program, number, architecture.audit) == expected
        assert run(program, ARM_PRIVATE[1] + 1, architecture.audit) == ENOSYS


@pytest.mark.parametrize(
    ("headers", "column"),
    [
        pytest.param(
            "include/x86_64-linux-gnu/asm/unistd_64.h",
            0,
            marks=pytest.mark.skipif(platform.machine() != "x86_64", reason="headers of x86-64"),
        ),
        ("include/asm-generic/unistd.h", 1),
        ("arm-linux-gnueabihf/include/asm/unistd-[ce]*.h", 2),  # linux-libc-dev-armhf-cross
    ],
)
def test_numbers_are_those_of_the_kernel_headers(headers: str, column: int) -> None:
    """Otherwise a typing error in the table would refuse the wrong call."""
    text = "".join(path.read_text() for path in Path("/usr").glob(headers))
    if not text:
        skip_or_fail("the headers of the kernel: linux-libc-dev, linux-libc-dev-armhf-cross")
    number = r"#define __NR(?:3264)?_(\w+)\s+(?:\(__NR_SYSCALL_BASE\s*\+\s*)?(\d+)"
    defined = {match[1]: int(match[2]) for match in re.finditer(number, text)}
    table = {name: numbers[column] for name, numbers in (REFUSED | CONDITIONAL).items()}
    known = {name: number for name, number in table.items() if name in defined and number}
    assert len(known) > 60
    assert {name: defined[name] for name in known} == known
    absent = {name for name, number in table.items() if number is None}
    # For time calls of 32-bit machines the generic header has numbers that 64-bit ones do not.
    times = {"clock_settime64", "clock_adjtime64", "semtimedop_time64", "utimensat_time64"}
    assert absent & set(defined) <= times | {"fcntl64", "truncate64"}


@pytest.mark.parametrize(
    ("machine", "pointer_bytes", "expected"),
    [
        ("x86_64", 8, "x86-64"),
        ("x86_64", 4, None),
        ("aarch64", 8, "64-bit Arm"),
        ("aarch64", 4, "32-bit Arm"),
        ("armv7l", 4, "32-bit Arm"),
        ("armv6l", 4, "32-bit Arm"),
        ("armv7b", 4, None),
        ("riscv64", 8, "64-bit RISC-V"),
        ("riscv32", 4, None),
        ("ppc64le", 8, None),
    ],
)
def test_architecture_is_that_of_the_process(
    machine: str, pointer_bytes: int, expected: str | None
) -> None:
    """A 32-bit userland on a 64-bit kernel, as Raspberry Pi OS has it, makes 32-bit calls."""
    found = find_architecture(machine, pointer_bytes)
    assert (found.name if found else None) == expected
