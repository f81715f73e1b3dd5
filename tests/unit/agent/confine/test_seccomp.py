"""The program of the filter, run by an interpreter of the classic BPF, for every architecture."""

from __future__ import annotations

import errno
import re
from pathlib import Path

import pytest

from edgebench.agent.confine.seccomp import Instruction, build_filter
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
NATIVE = {architecture.name: architecture for architecture in ARCHITECTURES}
X86_64 = NATIVE["x86-64"]
COMMON = {
    "x86-64": {"read": 0, "write": 1, "mmap": 9, "ioctl": 16, "futex": 202, "openat": 257},
    "64-bit Arm": {"read": 63, "write": 64, "mmap": 222, "ioctl": 29, "futex": 98, "openat": 56},
    "64-bit RISC-V": {"read": 63, "write": 64, "mmap": 222, "ioctl": 29, "futex": 98},
    "32-bit Arm": {"read": 3, "write": 4, "mmap2": 192, "ioctl": 54, "futex": 240, "openat": 322},
}
"""Calls that every inference makes, with their numbers."""


def run(program: list[Instruction], number: int, audit: int, first: int = 0) -> int:
    """What the kernel would do with a call: the action of the program."""
    data = {0: number, 4: audit, 16: first & 0xFFFFFFFF}
    accumulator, place = 0, 0
    while True:
        code, if_true, if_false, operand = program[place]
        place += 1
        if code == 0x20:
            accumulator = data[operand]
        elif code == 0x06:
            return operand
        else:
            holds = {
                0x15: accumulator == operand,
                0x35: accumulator >= operand,
                0x45: bool(accumulator & operand),
            }[code]
            place += if_true if holds else if_false


@pytest.mark.parametrize("architecture", ARCHITECTURES, ids=lambda one: one.name)
class TestEveryArchitecture:
    """Numbers differ between architectures; a wrong one refuses what every program needs."""

    def test_list_is_refused_and_common_calls_are_allowed(self, architecture: Architecture) -> None:
        """An error in the search would let one of them through."""
        program = build_filter(architecture, PID)
        assert len(program) < 4096, "BPF_MAXINSNS"
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
        """Threads, and signals to itself, are what runtimes need of these."""
        program, column = build_filter(architecture, PID), architecture.column

        def ask(name: str, first: int) -> int:
            number = CONDITIONAL[name][column]
            assert number is not None
            return run(program, number, architecture.audit, first)

        for name in ("kill", "tgkill", "rt_sigqueueinfo", "rt_tgsigqueueinfo"):
            assert ask(name, PID) == ALLOW
            for other in (1, 0, -1, -PID, PID + 1):
                assert ask(name, other) == EPERM
        assert [ask("prlimit64", one) for one in (0, PID, 1)] == [ALLOW, ALLOW, EPERM]
        assert [ask("prctl", one) for one in (15, 1)] == [ALLOW, EPERM]
        thread, process = 0x3D0F00, 0x1200011
        assert [ask("clone", one) for one in (thread, process)] == [ALLOW, EPERM]
        assert ask("clone3", 0) == ENOSYS

    def test_other_architectures_and_later_calls_are_refused(
        self, architecture: Architecture
    ) -> None:
        """The i386 gate and x32 are other ways into the same kernel; tables age."""
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
        ("include/x86_64-linux-gnu/asm/unistd_64.h", 0),
        ("include/asm-generic/unistd.h", 1),
        # Debian's linux-libc-dev-armhf-cross, or a 32-bit Arm machine itself.
        ("arm-linux-gnueabihf/include/asm/unistd-[ce]*.h", 2),
        ("include/arm-linux-gnueabihf/asm/unistd-[ce]*.h", 2),
    ],
)
def test_numbers_are_those_of_the_kernel_headers(headers: str, column: int) -> None:
    """A typing error in the table refuses the wrong call."""
    text = "".join(path.read_text() for path in Path("/usr").glob(headers))
    if not text:
        pytest.skip("needs the headers of the kernel")
    number = r"#define __NR(?:3264)?_(\w+)\s+(?:\(__NR_SYSCALL_BASE\s*\+\s*)?(\d+)"
    defined = {match[1]: int(match[2]) for match in re.finditer(number, text)}
    table = {name: numbers[column] for name, numbers in (REFUSED | CONDITIONAL).items()}
    known = {name: number for name, number in table.items() if name in defined and number}
    assert len(known) > 60
    assert {name: defined[name] for name in known} == known
    absent = {name for name, number in table.items() if number is None}
    # For the clocks of 32-bit machines the generic header has numbers that 64-bit ones do not.
    assert absent & set(defined) <= {"clock_settime64", "clock_adjtime64"}


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
