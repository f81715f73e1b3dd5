"""A driver that is hostile: its "model" file says what it tries when it is loaded.

`acts` are what code inside a worker must not be able to do; each raises OSError where it is
refused. The driver reports their number, and the names of those that succeeded.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import json
import os
import resource
import signal
import socket
import struct
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from edgebench.agent.runtimes.tflite import LiteRt
from edgebench.protocol.errors import ModelRefused
from edgebench.protocol.runtime import LoadOptions, UsableRuntime

VARIABLE = "EDGEBENCH_TEST_VICTIM"
TRIVIAL_VARIABLE = "EDGEBENCH_TEST_TRIVIAL"
REFUSED = frozenset(("EPERM", "EACCES", "ENOENT", "EROFS", "EINVAL", "ENOSYS", "ENOTSUP"))
"""Errors of an act that came to nothing: refused, or nothing is there to act on."""
_FORKS = 64
"""Bound of the fork bomb: it must not take the tests down where nothing refuses it."""
_LIBC = ctypes.CDLL(None, use_errno=True)


@dataclass(frozen=True)
class Victim:
    """What a hostile model would reach for."""

    identity: str
    ssh_key: str
    outside: str
    """File that it would write."""
    port: int
    """TCP port on loopback, which listens."""
    model: str
    """File that the worker may read."""

    def environment(self) -> dict[str, str]:
        """Variables by which the driver finds it."""
        return {VARIABLE: json.dumps(asdict(self))}


def _call(number: int, *arguments: Any) -> None:
    if _LIBC.syscall(number, *arguments) < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))


def _write(path: str) -> None:
    with open(path, "w") as file:
        file.write("was here")


def _connect(port: int) -> None:
    with socket.socket() as link:
        link.settimeout(5)
        link.connect(("127.0.0.1", port))


def _send_to_a_name() -> None:
    """Without a socket of its own making: one of a pair may send to any name."""
    one, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    with one, other, suppress(FileNotFoundError, ConnectionError):
        one.sendto(b"hello", "/run/nobody")


def _exec() -> None:
    # In a child, so that success does not end the test.
    os.posix_spawn("/bin/true", ["true"], os.environ)


def _fork_bomb() -> None:
    children: list[int] = []
    try:
        for _ in range(_FORKS):
            child = os.fork()
            if child == 0:
                signal.pause()
            children.append(child)
    finally:
        for child in children:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)


def _raise_privileges() -> None:
    status = Path("/proc/self/status").read_text()
    effective = next(line for line in status.splitlines() if line.startswith("CapEff"))
    if not int(effective.split()[1], 16):
        raise OSError(errno.EPERM, "no capabilities")


def _strangle(pid: int) -> None:
    """Take from another process the right to open files."""
    resource.prlimit(pid, resource.RLIMIT_NOFILE, resource.prlimit(pid, resource.RLIMIT_NOFILE))


def acts(victim: Victim, other_pid: int) -> dict[str, Callable[[], Any]]:
    """Everything that it tries, by name; none harms where it succeeds.

    Args:
        victim: What it reaches for.
        other_pid: Process of the same user outside of the worker: the daemon.
    """
    trap = "trap"
    affinity = os.sched_getaffinity(0)
    return {
        "identity": lambda: Path(victim.identity).read_bytes(),
        "ssh": lambda: Path(victim.ssh_key).read_bytes(),
        "memory": lambda: os.close(os.open(f"/proc/{other_pid}/mem", os.O_RDONLY)),
        "environ": lambda: Path(f"/proc/{other_pid}/environ").read_bytes(),
        "write": lambda: _write(victim.outside),
        "chmod": lambda: os.chmod(victim.ssh_key, 0o600),
        "symlink": lambda: os.symlink(victim.ssh_key, trap),
        "link": lambda: os.link(victim.ssh_key, trap),
        "fifo": lambda: os.mkfifo(trap),
        "connect": lambda: _connect(victim.port),
        "datagram": _send_to_a_name,
        "exec": _exec,
        "fork": _fork_bomb,
        "signal": lambda: os.kill(other_pid, 0),
        "limits": lambda: _strangle(other_pid),
        "ptrace": lambda: _call(101, 0x4206, other_pid, 0, 0),  # PTRACE_SEIZE, x86-64
        "outlive": lambda: _set(1, 0),  # PR_SET_PDEATHSIG
        "rights": _raise_privileges,
        "bpf": lambda: _call(321, 0, 0, 0),  # x86-64
        "owner": lambda: _signal_by_owner(other_pid),
        "asynchronous": lambda: _control(0x5452),  # FIOASYNC
        "socket owner": lambda: _control(0x8901),  # FIOSETOWN
        "lease": lambda: _lease(trap),
        "nameless": lambda: os.close(os.open(".", os.O_TMPFILE | os.O_RDWR, 0o600)),
        "reserve": lambda: _reserve(trap),
        "hide": lambda: _set(4, 0),  # PR_SET_DUMPABLE
        "cut": lambda: os.truncate(victim.ssh_key, 6),
        "cut readable": lambda: os.close(os.open(victim.model, os.O_RDONLY | os.O_TRUNC)),
        "write readable": lambda: os.close(os.open(victim.model, os.O_WRONLY)),
        "times": lambda: os.utime(victim.ssh_key),
        "watch": lambda: _watch(os.path.dirname(victim.ssh_key)),
        "bind others": lambda: os.sched_setaffinity(other_pid, affinity),
        "priority": lambda: os.setpriority(
            os.PRIO_PROCESS, other_pid, os.getpriority(os.PRIO_PROCESS, other_pid)
        ),
        "policy": lambda: os.sched_setscheduler(other_pid, os.SCHED_OTHER, os.sched_param(0)),
        "queue": lambda: _call(68, 0x0EDB, 0o1600),  # msgget(IPC_CREAT), x86-64
        "directory": lambda: os.mkdir("trapped"),
        "terminal": lambda: os.close(os.open("/dev/ptmx", os.O_RDWR)),
        "shared": lambda: _share(f"/dev/shm/edgebench-{os.getpid()}"),
    }


def _share(path: str) -> None:
    _write(path)
    os.unlink(path)


def _signal_by_owner(pid: int) -> None:
    """Have the kernel send SIGURG, which nobody minds, to a process."""
    reading, writing = os.pipe()
    try:
        fcntl.fcntl(reading, fcntl.F_SETOWN, pid)
        fcntl.fcntl(reading, 10, signal.SIGURG)  # F_SETSIG
        fcntl.fcntl(reading, fcntl.F_SETFL, fcntl.fcntl(reading, fcntl.F_GETFL) | os.O_ASYNC)
        os.write(writing, b"x")
    finally:
        os.close(reading)
        os.close(writing)


def _control(command: int) -> None:
    """Set the owner of a pipe, or have it signalled; of a socket, where a pipe has none."""
    reading, writing = os.pipe()
    try:
        fcntl.ioctl(reading, command, struct.pack("i", 1 if command == 0x5452 else os.getpid()))
    except OSError as exc:
        if exc.errno != errno.ENOTTY:
            raise
    finally:
        os.close(reading)
        os.close(writing)


def _lease(path: str) -> None:
    with open(path, "w") as file:
        fcntl.fcntl(file, 1024, fcntl.F_WRLCK)  # F_SETLEASE


def _reserve(path: str) -> None:
    """Take space without writing, by fallocate(2): the C library's function may write instead."""
    with open(path, "w") as file:
        _call(285, file.fileno(), 0, 0, 1 << 20)  # x86-64


def _watch(folder: str) -> None:
    descriptor = _LIBC.inotify_init()
    if descriptor < 0:
        raise OSError(ctypes.get_errno(), "inotify_init")
    try:
        if _LIBC.inotify_add_watch(descriptor, os.fsencode(folder), 0xFFF) < 0:
            raise OSError(ctypes.get_errno(), "inotify_add_watch")
    finally:
        os.close(descriptor)


def _set(option: int, value: int) -> None:
    if _LIBC.prctl(option, value, 0, 0, 0) < 0:
        raise OSError(ctypes.get_errno(), "prctl")


def attempt(victim: Victim, other_pid: int) -> dict[str, str]:
    """Try everything: the name of the error of each, or DONE."""
    endings: dict[str, str] = {}
    for name, act in acts(victim, other_pid).items():
        try:
            act()
            endings[name] = "DONE"
        except OSError as exc:
            endings[name] = errno.errorcode.get(exc.errno or 0, "?")
        _LIBC.prctl(4, 1, 0, 0, 0)
        for undo in (os.unlink, os.rmdir):
            with suppress(OSError):
                undo("trap")
            with suppress(OSError):
                undo("trapped")
    return endings


def fill_disk(bound_bytes: int) -> None:
    """Write files until something stops it, at most so many bytes."""
    block = bytes(2**20)
    for number in range(bound_bytes // (16 * len(block))):
        with open(f"filler-{number}", "wb") as file:
            for _ in range(16):
                file.write(block)


RECORDS = {
    "lists": ("[", "[],", 300_000, "[]]"),
    "objects": ("[", "{},", 300_000, "{}]"),
    "texts": ("[", '"ab",', 180_000, '"ab"]'),
    "deep": ("", "[", 500_000, ""),
    "large": ("[", "[],", 20_000_000, "[]]"),
}
"""Records that would take much memory where they are read, or fail in an odd way.

Beginning, repeated part, its count, and end: as text, they take 60 MB of each test process.
"""


def leave_record(name: str) -> None:
    """Leave a record of no measurement, and say that it stands."""
    begin, part, count, end = RECORDS[name]
    Path("worker.json").write_text(begin + part * count + end)
    for line in ({"phase": "checking", "expected_s": None, "time_ns": 1}, {"complete": True}):
        os.write(int(sys.argv[2]), json.dumps(line).encode() + b"\n")
    os._exit(0)


def start_threads(bound: int) -> int:
    """Start threads until the kernel refuses; their number."""
    ended = threading.Event()
    started = 0
    try:
        for _ in range(bound):
            threading.Thread(target=ended.wait, daemon=True).start()
            started += 1
    except RuntimeError:
        pass
    ended.set()
    return started


class HostileRuntime:
    """The driver, as an entry point of `edgebench.runtimes` names it."""

    name = "hostile"
    formats = ("tflite",)
    no_profiler: str | None = None

    def probe(self) -> UsableRuntime:
        """It pretends to work."""
        return UsableRuntime("1")

    def import_library(self) -> str:
        """Nothing to import."""
        return "1"

    def load(self, path: str, options: LoadOptions) -> Any:
        """Do as the file says."""
        victim = Victim(**json.loads(os.environ[VARIABLE]))
        order = Path(path).read_text().split()
        if order[0] == "acts":
            endings = attempt(victim, os.getppid())
            # A reason is one line that is not long: what was refused is counted.
            done = [name for name, end in endings.items() if end not in REFUSED]
            raise ModelRefused(f"tried {len(endings)}, done: {', '.join(done) or 'nothing'}")
        if order[0] == "fill":
            fill_disk(int(order[1]))
        if order[0] == "record":
            leave_record(order[1])
        while order[0] == "spin":
            pass
        raise ModelRefused(f"{order[0]} was not stopped")


class FragileRuntime(LiteRt):
    """LiteRT whose trivial model, which has no path of its own, ends or stops its process."""

    def __init__(self) -> None:
        super().__init__()
        self.name = "fragile"

    def load(self, path: str, options: LoadOptions) -> Any:
        """Load a model, or do as the variable says."""
        if path.startswith("/proc/self/fd/"):
            assert signal.getitimer(signal.ITIMER_REAL)[0] > 0, (
                "nothing would end a library that hangs"
            )
            if os.environ[TRIVIAL_VARIABLE] == "hang":
                time.sleep(60)
            os.kill(os.getpid(), signal.SIGSEGV)
        return super().load(path, options)


def install(folder: Path) -> dict[str, str]:
    """Make the drivers known to an agent with these variables."""
    info = folder / "hostile-1.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: hostile\nVersion: 1\n")
    (info / "entry_points.txt").write_text(
        "[edgebench.runtimes]\nhostile = support.hostile_runtime:HostileRuntime\n"
        "fragile = support.hostile_runtime:FragileRuntime\n"
    )
    tests = Path(__file__).parents[1]
    listed = f"{VARIABLE}:{TRIVIAL_VARIABLE}"
    return {"PYTHONPATH": f"{folder}:{tests}", "EDGEBENCH_VARIABLES": listed}
