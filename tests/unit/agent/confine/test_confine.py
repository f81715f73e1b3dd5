"""Confinement in a process of its own: what a hostile runtime tries there, on this kernel and less.

The mechanisms that a kernel lacks are taken away by a `Kernel` whose calls fail, so the same list
says what is left without them.
"""

from __future__ import annotations

import ctypes
import errno
import json
import os
import signal
import socket
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from support.hostile_runtime import Victim, attempt, start_threads
from support.tools import need_root, skip_or_fail

from edgebench.agent.confine import AllowedPaths, Kernel, Permissions, apply, confine
from edgebench.agent.worker.limits import die_with
from edgebench.protocol.plain import from_plain, to_plain
from edgebench.protocol.record import Confinement

_PR_GET_PDEATHSIG, _PR_GET_DUMPABLE, _PR_SET_DUMPABLE = 2, 3, 4
ALL = {"privileges", "capabilities", "calls", "files", "network", "threads"}


class WithoutCalls(Kernel):
    """A kernel that was built without filters of system calls."""

    def seccomp(self, number: int, flags: int, program: Any) -> None:
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))


class WithoutFiles(Kernel):
    """A kernel from before Landlock."""

    def landlock_abi(self) -> int:
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))


class WithoutNamespaces(Kernel):
    """A container that may make no namespaces."""

    def unshare(self, flags: int) -> None:
        raise OSError(errno.EPERM, os.strerror(errno.EPERM))


class OldLandlock(Kernel):
    """The first version of Landlock: no right to truncate, no network, no signals."""

    def landlock_abi(self) -> int:
        super().landlock_abi()
        return 1

    def landlock_create(self, attributes: bytes) -> int:
        assert len(attributes) == 8, "a longer ruleset is of a later version"
        return super().landlock_create(attributes)


class WithNothing(WithoutCalls, WithoutFiles, WithoutNamespaces):
    """A kernel with none of it."""

    def prctl(self, option: int, *arguments: Any) -> int:
        raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))

    def drop_capabilities(self, kept: int, effective: int) -> None:
        raise OSError(errno.EPERM, os.strerror(errno.EPERM))


def in_a_child(action: Callable[[], Any], user: int | None = None) -> Any:
    """The JSON that this function gives in a child, which leads a session as a worker does."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.close(reading)
            os.setsid()
            if user is not None:
                os.setgroups([])
                os.setresgid(user, user, user)
                os.setresuid(user, user, user)
            os.write(writing, json.dumps(action()).encode())
        except BaseException as exc:  # the parent wants to know it
            os.write(writing, json.dumps({"raised": repr(exc)}).encode())
        finally:
            os._exit(0)
    os.close(writing)
    with open(reading, "rb") as pipe:
        answer = pipe.read()
    os.waitpid(child, 0)
    return json.loads(answer)


@pytest.fixture
def victim(tmp_path: Path) -> Iterator[Victim]:
    """Keys, a place outside of the worker's directory, and a service of this machine."""
    (tmp_path / "work").mkdir()
    keys = tmp_path / "home" / ".ssh" / "id_ed25519"
    keys.parent.mkdir(parents=True)
    keys.write_text("secret")
    identity = tmp_path / "identity.pem"
    identity.write_text("secret")
    with socket.create_server(("127.0.0.1", 0)) as service:
        port = service.getsockname()[1]
        yield Victim(str(identity), str(keys), str(tmp_path / "outside"), port)


def attack(victim: Victim, kernel: Kernel, user: int | None = None) -> tuple[Confinement, Any]:
    """Confine a child and try everything in it."""
    directory = str(Path(victim.outside).parent / "work")

    def action() -> Any:
        os.chdir(directory)
        permissions = Permissions(AllowedPaths(writable=(directory,)), 600.0)
        done = confine(permissions, kernel)
        return {"confinement": to_plain(done), "endings": attempt(victim, os.getppid())}

    answer = in_a_child(action, user)
    assert "raised" not in answer, answer
    return from_plain(answer["confinement"], Confinement), answer["endings"]


def applied(confinement: Confinement) -> set[str]:
    """Names of the mechanisms that were applied."""
    return {name for name in ALL if getattr(confinement, name).is_applied}


def need_everything() -> None:
    """This kernel has all that the tests are about."""
    try:
        Kernel().landlock_abi()
    except OSError as exc:
        skip_or_fail(f"this kernel has no Landlock: {exc}")
    need_root()
    if os.uname().machine != "x86_64":
        skip_or_fail("the acts call the kernel by the numbers of x86-64")


def test_nothing_that_a_hostile_runtime_tries_succeeds(victim: Victim) -> None:
    """A model of a stranger would read keys, reach the network, or end the agent."""
    need_everything()
    confinement, endings = attack(victim, Kernel())
    assert applied(confinement) == ALL - {"threads"}, "root has no limit of threads"
    assert confinement.is_root
    assert set(endings.values()) <= {"EPERM", "EACCES"}, endings
    assert not Path(victim.outside).exists()


def test_users_are_confined_as_root_is_and_their_threads_are_limited(victim: Victim) -> None:
    """Most agents do not run as root, and then everything has to work without its rights."""
    need_everything()
    for path in (Path(victim.outside).parent, *Path(victim.outside).parent.parents):
        if not path.stat().st_mode & 0o001:
            path.chmod(path.stat().st_mode | 0o011)
    folder = Path(victim.outside).parent
    os.chown(folder / "work", 65534, 65534)
    confinement, endings = attack(victim, Kernel(), user=65534)
    assert applied(confinement) == ALL
    assert not confinement.is_root
    assert set(endings.values()) <= {"EPERM", "EACCES"}, endings
    assert confinement.network.detail == "network namespace, user namespace"


def test_number_of_threads_of_a_user_has_a_limit(victim: Victim) -> None:
    """Threads without end would use up the process numbers of the device."""
    need_everything()

    def action() -> Any:
        confine(Permissions(AllowedPaths(), 600.0))
        return start_threads(600)

    assert in_a_child(action, user=65534) in range(400, 513)


@pytest.mark.parametrize(
    ("kernel", "missing", "open_ways"),
    [
        (WithoutFiles, {"files"}, {"identity", "ssh", "write"}),
        (WithoutCalls, {"calls"}, {"fork", "limits", "outlive", "chmod", "datagram"}),
        (WithoutNamespaces, {"network"}, set[str]()),
        (OldLandlock, set[str](), set[str]()),
    ],
)
def test_what_a_kernel_lacks_is_named_and_the_rest_holds(
    victim: Victim, kernel: type[Kernel], missing: set[str], open_ways: set[str]
) -> None:
    """A record that claims more than the kernel did would be trusted."""
    need_everything()
    confinement, endings = attack(victim, kernel())
    assert applied(confinement) == ALL - {"threads"} - missing
    assert {name for name, end in endings.items() if end == "DONE"} == open_ways
    for name in missing:
        detail = getattr(confinement, name).detail
        assert detail.startswith(("Function not implemented: ", "Operation not permitted: "))
        assert detail.count("\n") == 0


def test_kernel_with_nothing_confines_nothing_and_says_so(victim: Victim) -> None:
    """The attack itself must work, or the tests above prove nothing."""
    need_everything()
    confinement, endings = attack(victim, WithNothing())
    assert applied(confinement) == set()
    # Yama may keep processes from tracing others; the child of no process may be attached to.
    assert {name for name, end in endings.items() if end != "DONE"} <= {"ptrace", "bpf"}


def test_worker_can_do_what_runtimes_do(tmp_path: Path) -> None:
    """A runtime that no longer runs would be confined perfectly."""
    need_everything()

    def action() -> Any:
        os.chdir(tmp_path)
        confine(Permissions(AllowedPaths(writable=(str(tmp_path),)), 600.0))
        import threading

        thread = threading.Thread(target=Path("made").write_text, args=("by a thread",))
        thread.start()
        thread.join()
        Path("made").rename("moved")
        import numpy as np

        os.kill(os.getpid(), 0)
        return {
            "numpy": float((np.ones((64, 64)) @ np.ones((64, 64))).sum()),
            "moved": Path("moved").read_text(),
            "tasks": len(os.listdir("/proc/self/task")) > 0,
            "status": "VmRSS" in Path("/proc/self/status").read_text(),
            "rollup": "Pss" in Path("/proc/self/smaps_rollup").read_text(),
            "cpus": "processor" in Path("/proc/cpuinfo").read_text(),
            "online": Path("/sys/devices/system/cpu/online").read_text() != "",
            "null": Path("/dev/null").write_text("x"),
        }

    assert in_a_child(action) == {
        "numpy": 64.0**3,
        "moved": "by a thread",
        "tasks": True,
        "status": True,
        "rollup": True,
        "cpus": True,
        "online": True,
        "null": 1,
    }


def test_devices_of_the_profile_may_be_controlled_and_no_others(tmp_path: Path) -> None:
    """A delegate without its device cannot be measured; a worker with all of them reads disks."""
    need_everything()

    def action() -> Any:
        permissions = Permissions(AllowedPaths(devices=("/dev/ptm[x]",)), 600.0)
        confine(permissions)
        import fcntl

        opened = os.open("/dev/ptmx", os.O_RDWR)
        fcntl.ioctl(opened, 0x80045430, bytes(4))  # TIOCGPTN: the number of the terminal
        try:
            os.open("/dev/tty", os.O_RDWR)
        except OSError as exc:
            return exc.errno
        return None

    assert in_a_child(action) == errno.EACCES


def test_agent_of_root_in_the_home_of_a_user_keeps_the_right_to_enter_it(tmp_path: Path) -> None:
    """`sudo edgebench-agent` would not find its own model: no rights, no way in."""
    need_everything()
    home = tmp_path / "home"
    (home / "work").mkdir(parents=True)
    (home / "work" / "model").write_text("content")
    home.chmod(0o700)
    os.chown(home, 65534, 65534)

    def action() -> Any:
        model = str(home / "work" / "model")
        directory = str(home / "work")
        allowed = AllowedPaths(readable=(model,), writable=(directory,))
        done = confine(Permissions(allowed, 600.0))
        return [Path(model).read_text(), done.capabilities.detail]

    content, detail = in_a_child(action)
    assert content == "content"
    assert detail.startswith("only to bypass file permissions")


def test_system_that_kills_for_a_call_costs_that_mechanism_only(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Android kills apps for calls that its filter does not know; no run would begin there."""

    class Deadly(Kernel):
        def landlock_abi(self) -> int:
            os.kill(os.getpid(), signal.SIGSYS)
            return 0

    monkeypatch.setattr(apply, "_is_filtered", lambda: True)
    answer = in_a_child(lambda: to_plain(confine(Permissions(AllowedPaths(), 60.0), Deadly())))
    files = from_plain(answer, Confinement).files
    assert not files.is_applied
    assert files.detail.startswith("the system kills processes that try it: ")


def test_filter_of_somebody_else_is_seen() -> None:
    """Without this, nothing would be rehearsed there."""
    need_everything()

    def action() -> Any:
        before = apply._is_filtered()
        confine(Permissions(AllowedPaths(), 60.0))
        return [before, apply._is_filtered()]

    assert in_a_child(action) == [False, True]


def test_worker_that_uses_its_cpu_time_is_ended_by_the_kernel() -> None:
    """A worker that spins while its daemon hangs would heat the device for ever."""

    def action() -> Any:
        confine(Permissions(AllowedPaths(), 0.0))
        import resource

        return resource.getrlimit(resource.RLIMIT_CPU)

    soft, hard = in_a_child(action)
    assert (soft, hard) == (1, 6)


@pytest.mark.parametrize("user", [0, 65534])
def test_worker_still_dies_with_its_daemon_and_can_be_watched(user: int) -> None:
    """The kernel forgets the signal of a parent's death when a process changes its rights."""
    need_everything()

    def action() -> Any:
        die_with(os.getppid())
        number, library = ctypes.c_int(), ctypes.CDLL(None)
        library.prctl(_PR_SET_DUMPABLE, 1)  # as after a start, not after a change of users
        confine(Permissions(AllowedPaths(), 60.0))
        library.prctl(_PR_GET_PDEATHSIG, ctypes.byref(number))
        return [number.value, library.prctl(_PR_GET_DUMPABLE)]

    assert in_a_child(action, user) == [signal.SIGKILL, 1]


def test_signal_to_itself_is_allowed() -> None:
    """abort() and the switch that stops a run send one."""

    def action() -> Any:
        confine(Permissions(AllowedPaths(), 60.0))
        heard: list[int] = []
        signal.signal(signal.SIGUSR1, lambda number, _frame: heard.append(number))
        signal.raise_signal(signal.SIGUSR1)
        os.kill(os.getpid(), signal.SIGUSR1)
        return len(heard)

    assert in_a_child(action) == 2


def test_confinement_travels_as_it_is() -> None:
    """A record that loses a reason on its way is no record."""
    answer = in_a_child(lambda: to_plain(confine(Permissions(AllowedPaths(), 60.0), WithNothing())))
    confinement = from_plain(answer, Confinement)
    assert replace(confinement) == confinement
    assert "keys among them" in confinement.files.detail
