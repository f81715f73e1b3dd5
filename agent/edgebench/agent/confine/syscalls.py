"""The numbers of system calls that a worker may not make, by architecture.

Source: Linux, arch/x86/entry/syscalls/syscall_64.tbl, include/uapi/asm-generic/unistd.h (64-bit Arm
and RISC-V), arch/arm/tools/syscall.tbl (the EABI of 32-bit Arm). A call with a number from 424 on
has the same number on all architectures. Every number was compared with the tables of Linux 7.2
and with Debian 12's headers for x86-64, arm64 and 32-bit Arm. The tables of Linux 7.2 are from
PyPI's `system-calls` 7.2; they no longer list uselib(2).
"""

from __future__ import annotations

import os
import struct
from dataclasses import dataclass
from typing import Literal

LANDLOCK_CREATE, LANDLOCK_ADD, LANDLOCK_RESTRICT = 444, 445, 446
NEWEST = 462
"""Highest number whose call was reviewed for this table: mseal(2), Linux 6.10. Later calls fail
with ENOSYS, as on older kernels, so programs handle this error."""
ARM_PRIVATE = (0x0F0001, 0x0F0006)
"""First and last private call of 32-bit Arm; set_tls(2), which the start of every thread needs, is
in this range.

Source: arch/arm/include/uapi/asm/unistd.h."""

Column = Literal[0, 1, 2]


@dataclass(frozen=True, slots=True)
class Architecture:
    """A processor architecture for which a filter can be built."""

    name: str
    audit: int
    """Number by which the kernel identifies the architecture of a call: `AUDIT_ARCH_…`.

    Source: include/uapi/linux/audit.h."""
    column: Column
    """Column of this architecture in the tables of this module."""


_X86_64 = Architecture("x86-64", 0xC000003E, 0)
_ARM64 = Architecture("64-bit Arm", 0xC00000B7, 1)
_RISCV64 = Architecture("64-bit RISC-V", 0xC00000F3, 1)
_ARM = Architecture("32-bit Arm", 0x40000028, 2)
ARCHITECTURES = (_X86_64, _ARM64, _RISCV64, _ARM)


def find_architecture(
    machine: str | None = None, pointer_bytes: int = struct.calcsize("P")
) -> Architecture | None:
    """The architecture of this process, which may be 32-bit under a 64-bit kernel.

    None if there is no table for it.
    """
    machine = machine or os.uname().machine
    if pointer_bytes == 8:
        return {"x86_64": _X86_64, "aarch64": _ARM64, "riscv64": _RISCV64}.get(machine)
    is_arm = machine == "aarch64" or (machine.startswith("armv") and not machine.endswith("b"))
    return _ARM if is_arm else None


SECCOMP = (317, 277, 383)
"""Number of seccomp(2) in each column of the tables."""

Numbers = tuple[int | None, int | None, int | None]
"""Numbers of a call on x86-64, on 64-bit Arm and RISC-V, and on 32-bit Arm; None if it is
missing."""

# fmt: off
REFUSED: dict[str, Numbers] = {
    # The network: sending and listening are not allowed.
    "socket": (41, 198, 281),
    # A datagram socket of a pair can send to named sockets, such as the system log's.
    "socketpair": (53, 199, 288),
    "connect": (42, 203, 283),
    "bind": (49, 200, 282),
    "listen": (50, 201, 284),
    "accept": (43, 202, 285),
    "accept4": (288, 242, 366),
    # Other programs and processes. Threads remain; see `clone` in CONDITIONAL.
    "execve": (59, 221, 11),
    "execveat": (322, 281, 387),
    "fork": (57, None, 2),
    "vfork": (58, None, 190),
    "unshare": (272, 97, 337),
    "setns": (308, 268, 375),
    "setsid": (112, 157, 66),
    "setpgid": (109, 154, 57),
    # The memory, descriptors and limits of other processes.
    "ptrace": (101, 117, 26),
    "process_vm_readv": (310, 270, 376),
    "process_vm_writev": (311, 271, 377),
    "process_madvise": (440, 440, 440),
    "process_mrelease": (448, 448, 448),
    "pidfd_open": (434, 434, 434),
    "pidfd_getfd": (438, 438, 438),
    "pidfd_send_signal": (424, 424, 424),
    "kcmp": (312, 272, 378),
    "tkill": (200, 130, 238),
    "migrate_pages": (256, 238, 400),
    "move_pages": (279, 239, 344),
    # Files that the daemon would follow or wait for, and operations that Landlock does not handle,
    # or not in its first versions: permissions and times of files, size by name, watches.
    "mkdir": (83, None, 39),
    "mkdirat": (258, 34, 323),
    "truncate": (76, 45, 92),
    "truncate64": (None, None, 193),
    "utime": (132, None, None),
    "utimes": (235, None, 269),
    "futimesat": (261, None, 326),
    "utimensat": (280, 88, 348),
    "utimensat_time64": (None, None, 412),
    "inotify_init": (253, None, 316),
    "inotify_init1": (294, 26, 360),
    "symlink": (88, None, 83),
    "symlinkat": (266, 36, 331),
    "link": (86, None, 9),
    "linkat": (265, 37, 330),
    "mknod": (133, None, 14),
    "mknodat": (259, 33, 324),
    "chmod": (90, None, 15),
    "fchmod": (91, 52, 94),
    "fchmodat": (268, 53, 333),
    "fchmodat2": (452, 452, 452),
    "chown": (92, None, 182),
    "fchown": (93, 55, 95),
    "lchown": (94, None, 16),
    "fchownat": (260, 54, 325),
    "chown32": (None, None, 212),
    "fchown32": (None, None, 207),
    "lchown32": (None, None, 198),
    "setxattr": (188, 5, 226),
    "lsetxattr": (189, 6, 227),
    "fsetxattr": (190, 7, 228),
    "removexattr": (197, 14, 235),
    "lremovexattr": (198, 15, 236),
    "fremovexattr": (199, 16, 237),
    "name_to_handle_at": (303, 264, 370),
    "open_by_handle_at": (304, 265, 371),
    # Memory and queues that would outlive the worker, and those of other processes, by number.
    "shmget": (29, 194, 307),
    "shmat": (30, 196, 305),
    "shmctl": (31, 195, 308),
    "semget": (64, 190, 299),
    "semop": (65, 193, 298),
    "semctl": (66, 191, 300),
    "semtimedop": (220, 192, 312),
    "semtimedop_time64": (None, None, 420),
    "msgget": (68, 186, 303),
    "msgsnd": (69, 189, 301),
    "msgrcv": (70, 188, 302),
    "msgctl": (71, 187, 304),
    "mq_open": (240, 180, 274),
    "mq_unlink": (241, 181, 275),
    # Parts of the kernel that inference does not need, and that have had many vulnerabilities.
    "bpf": (321, 280, 386),
    "perf_event_open": (298, 241, 364),
    "userfaultfd": (323, 282, 388),
    "io_uring_setup": (425, 425, 425),
    "io_uring_enter": (426, 426, 426),
    "io_uring_register": (427, 427, 427),
    "keyctl": (250, 219, 311),
    "add_key": (248, 217, 309),
    "request_key": (249, 218, 310),
    "personality": (135, 92, 136),
    "modify_ldt": (154, None, None),
    "uselib": (134, None, 86),
    "lookup_dcookie": (212, 18, 249),
    "fanotify_init": (300, 262, 367),
    # The system as a whole.
    "mount": (165, 40, 21),
    "umount2": (166, 39, 52),
    "pivot_root": (155, 41, 218),
    "chroot": (161, 51, 61),
    "move_mount": (429, 429, 429),
    "open_tree": (428, 428, 428),
    "fsopen": (430, 430, 430),
    "fsconfig": (431, 431, 431),
    "fsmount": (432, 432, 432),
    "fspick": (433, 433, 433),
    "mount_setattr": (442, 442, 442),
    "swapon": (167, 224, 87),
    "swapoff": (168, 225, 115),
    "quotactl": (179, 60, 131),
    "quotactl_fd": (443, 443, 443),
    "init_module": (175, 105, 128),
    "finit_module": (313, 273, 379),
    "delete_module": (176, 106, 129),
    "kexec_load": (246, 104, 347),
    "kexec_file_load": (320, 294, 401),
    "reboot": (169, 142, 88),
    "syslog": (103, 116, 103),
    "acct": (163, 89, 51),
    "settimeofday": (164, 170, 79),
    "clock_settime": (227, 112, 262),
    "clock_settime64": (None, None, 404),
    "adjtimex": (159, 171, 124),
    "clock_adjtime": (305, 266, 372),
    "clock_adjtime64": (None, None, 405),
    "sethostname": (170, 161, 74),
    "setdomainname": (171, 162, 121),
    "vhangup": (153, 58, 111),
    "iopl": (172, None, None),
    "ioperm": (173, None, None),}
"""Calls that fail with EPERM for any arguments."""

CONDITIONAL: dict[str, Numbers] = {
    # Of this process only.
    "kill": (62, 129, 37),
    "tgkill": (234, 131, 268),
    "rt_sigqueueinfo": (129, 138, 178),
    "rt_tgsigqueueinfo": (297, 240, 363),
    "prlimit64": (302, 261, 369),
    "sched_setaffinity": (203, 122, 241),
    "sched_setparam": (142, 118, 154),
    "sched_setscheduler": (144, 119, 156),
    "sched_setattr": (314, 274, 380),
    "setpriority": (141, 140, 97),
    "ioprio_set": (251, 30, 314),
    # A worker could outlive the daemon, or hide what it writes.
    "prctl": (157, 167, 172),
    # The kernel would signal other processes, through the owner of a descriptor.
    "fcntl": (72, 25, 55),
    "fcntl64": (None, None, 221),
    "ioctl": (16, 29, 54),
    # A worker could take space that is not counted, or truncate files that it may only read.
    "open": (2, None, 5),
    "openat": (257, 56, 322),
    "fallocate": (285, 47, 352),
    # Threads only.
    "clone": (56, 220, 120),
    # The flags of these are in memory, where no filter sees them; C libraries then use older calls.
    "clone3": (435, 435, 435),
    "openat2": (437, 437, 437),
}
"""Calls that are allowed only with some arguments, or that fail with an error other than EPERM."""
# fmt: on
