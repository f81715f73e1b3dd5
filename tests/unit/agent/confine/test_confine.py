"""Confinement in a process of its own: what a hostile runtime tries there.

The mechanisms that a kernel lacks are taken away by a `Kernel` whose calls fail, so the same list
states what is left without them.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
import signal
import socket
import stat
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from support.confined import in_a_child, need_everything
from support.hostile_runtime import REFUSED, Victim, attempt, start_threads

from edgebench.agent.confine import AllowedPaths, Kernel, Permissions, apply, confine
from edgebench.agent.confine import user as user_module
from edgebench.agent.worker.limits import die_with
from edgebench.protocol.plain import from_plain, to_plain
from edgebench.protocol.record import Confinement

_PR_GET_PDEATHSIG, _PR_GET_DUMPABLE, _PR_SET_DUMPABLE = 2, 3, 4
ALL = {"privileges", "capabilities", "calls", "files", "network", "threads"}


class WithoutCalls(Kernel):
    """A kernel built without system-call filters."""

    def seccomp(self, number: int, flags: int, program: Any) -> None:
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))


class WithoutFiles(Kernel):
    """A kernel from before Landlock."""

    def landlock_abi(self) -> int:
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))


class WithoutNamespaces(Kernel):
    """A container that may not create namespaces."""

    def unshare(self, flags: int) -> None:
        raise OSError(errno.EPERM, os.strerror(errno.EPERM))


def kernel_with(landlock: int, *, namespaces: bool) -> Kernel:
    """A kernel with Landlock up to this version, 0 for none, and with or without namespaces."""

    class Limited(Kernel):
        def landlock_abi(self) -> int:
            if not landlock:
                raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))
            return min(super().landlock_abi(), landlock)

        def landlock_create(self, attributes: bytes) -> int:
            longest = {1: 8, 4: 16}.get(landlock, 24)
            assert len(attributes) <= longest, "a longer ruleset is of a later version"
            return super().landlock_create(attributes)

        def unshare(self, flags: int) -> None:
            if not namespaces:
                raise OSError(errno.EPERM, os.strerror(errno.EPERM))
            super().unshare(flags)

    return Limited()


class WithNothing(WithoutCalls, WithoutFiles, WithoutNamespaces):
    """A kernel with none of these mechanisms."""

    def prctl(self, option: int, *arguments: Any) -> int:
        raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))

    def drop_capabilities(self, kept: int, effective: int) -> None:
        raise OSError(errno.EPERM, os.strerror(errno.EPERM))


@pytest.fixture
def victim(tmp_path: Path) -> Iterator[Victim]:
    """Keys, a place outside the worker's directory, and a service of this machine."""
    (tmp_path / "work").mkdir()
    keys = tmp_path / "home" / ".ssh" / "id_ed25519"
    keys.parent.mkdir(parents=True)
    keys.write_text("secret")
    identity = tmp_path / "identity.pem"
    identity.write_text("secret")
    model = tmp_path / "model.tflite"
    model.write_text("model")
    for secret in (keys, identity):
        secret.chmod(0o600)
    for path in tmp_path.parents:
        if path.stat().st_uid == os.geteuid() and not path.stat().st_mode & 0o001:
            path.chmod(path.stat().st_mode | 0o011)
    with socket.create_server(("127.0.0.1", 0)) as service:
        port = service.getsockname()[1]
        yield Victim(str(identity), str(keys), str(tmp_path / "outside"), port, str(model))


def attack(victim: Victim, kernel: Kernel, user: int | None = None) -> tuple[Confinement, Any]:
    """Confine a child and try everything in it."""
    home = Path(victim.outside).parent
    directory = str(home / "work")
    if user is not None:  # whose keys they are, and whose files
        for path in (home, *home.rglob("*")):
            os.chown(path, user, user)

    def action() -> Any:
        os.chdir(directory)
        allowed = AllowedPaths(readable=(victim.model,), writable=(directory,))
        permissions = Permissions(allowed, 600.0)
        done = confine(permissions, kernel).record
        return {"confinement": to_plain(done), "endings": attempt(victim, os.getppid())}

    answer = in_a_child(action, user)
    assert "raised" not in answer, answer
    return from_plain(answer["confinement"], Confinement), answer["endings"]


def applied(confinement: Confinement) -> set[str]:
    """Names of the mechanisms that were applied."""
    return {name for name in ALL if getattr(confinement, name).is_applied}


@pytest.fixture
def python_for_all(monkeypatch: pytest.MonkeyPatch) -> None:
    """Python lies where every user may go; on a developer's machine it may be in a home."""

    def given(allowed: AllowedPaths) -> list[str]:
        return [path for path in allowed.readable if path.endswith("/model.tflite")]

    monkeypatch.setattr(user_module, "_readable", given)


@pytest.mark.parametrize("namespaces", [True, False], ids=["namespaces", "no namespaces"])
@pytest.mark.parametrize("landlock", [0, 1, 4, 7])
@pytest.mark.parametrize("user", [None, 65534], ids=["root", "user"])
@pytest.mark.usefixtures("python_for_all")
def test_nothing_gets_out_with_landlock_or_namespaces_or_root(
    victim: Victim, user: int | None, landlock: int, namespaces: bool
) -> None:
    """Otherwise a stranger's model would read keys, reach the network, or end the agent.

    Where none of the three is there, the files are open, and the record states so.
    """
    need_everything()
    kernel = kernel_with(landlock, namespaces=namespaces)
    confinement, endings = attack(victim, kernel, user)
    assert confinement.is_root == (user is None)
    done = {name for name, end in endings.items() if end == "DONE"}
    if landlock or namespaces:
        assert done == set()
    elif user is None:  # what a stranger on this machine may do
        assert done == {"terminal", "shared"}
    else:
        reads, writes = {"identity", "ssh"}, {"write", "write readable", "shared", "terminal"}
        assert done == reads | writes
    assert set(endings.values()) <= REFUSED | {"DONE"}
    is_open = not (landlock or namespaces or user is None)
    assert confinement.files.is_applied != is_open
    assert ("including keys" in confinement.files.detail) == is_open
    missing = {"files"} if is_open else set()
    missing |= set() if namespaces else {"network"}
    missing |= set() if namespaces or user is None else {"threads"}
    assert applied(confinement) == ALL - missing


def test_python_in_the_home_of_root_is_found_and_named(
    victim: Victim, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise a worker that becomes another user would not find its interpreter.

    It keeps the right to read; without a view and without Landlock, that is every file.
    """
    need_everything()
    closed = Path(victim.identity)
    monkeypatch.setattr(user_module, "_readable", lambda allowed: [str(closed)])
    confinement, endings = attack(victim, kernel_with(0, namespaces=False))
    assert confinement.capabilities.detail.startswith("kept to read all files: ")
    assert not confinement.files.is_applied
    assert {endings["identity"], endings["ssh"]} == {"DONE"}
    assert "DONE" not in {endings[name] for name in ("write", "cut", "write readable", "chmod")}
    for kernel in (kernel_with(0, namespaces=True), kernel_with(7, namespaces=False)):
        confinement, endings = attack(victim, kernel)
        assert confinement.files.is_applied
        assert {name for name, end in endings.items() if end == "DONE"} == {"rights"}


def test_root_without_the_filter_is_still_a_stranger(victim: Victim) -> None:
    """Otherwise, without filters, root's worker could end the agent and change its limits."""
    need_everything()
    confinement, endings = attack(victim, WithoutCalls())
    assert applied(confinement) == ALL - {"calls"}
    assert confinement.calls.detail.startswith("Function not implemented: ")
    done = {name for name, end in endings.items() if end == "DONE"}
    others = {"signal", "limits", "ptrace", "bind others", "priority", "policy", "memory", "chmod"}
    assert not done & (others | {"identity", "ssh", "write", "cut", "times", "rights", "connect"})
    assert {"fork", "outlive"} <= done, "the filter is what refuses these"


def test_number_of_threads_of_a_user_has_a_limit(victim: Victim) -> None:
    """Otherwise endless threads would use up the process numbers of the device."""
    need_everything()

    def action() -> Any:
        confine(Permissions(AllowedPaths(), 600.0))
        return start_threads(600)

    assert in_a_child(action, user=65534) in range(400, 513)


def test_kernel_with_nothing_confines_nothing_and_says_so(victim: Victim) -> None:
    """The attack itself works; otherwise the tests above would prove nothing."""
    need_everything()
    confinement, endings = attack(victim, WithNothing())
    assert applied(confinement) == set()
    # Yama may keep processes from tracing others than their children.
    assert {name for name, end in endings.items() if end != "DONE"} <= {"ptrace", "bpf"}


def test_worker_can_do_what_runtimes_do(tmp_path: Path) -> None:
    """Otherwise a runtime would be confined perfectly, but would no longer run."""
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


@pytest.mark.parametrize(
    ("mode", "group", "kept"),
    [(0o660, 4242, "none"), (0o600, 0, "kept to bypass file permissions: only root may open")],
    ids=["of a group", "of root"],
)
@pytest.mark.usefixtures("python_for_all")
def test_devices_of_the_profile_may_be_controlled_and_no_others(
    tmp_path: Path, mode: int, group: int, kept: str
) -> None:
    """Otherwise a delegate would lack its device, or a worker with all devices could read disks."""
    need_everything()
    (tmp_path / "npu").mkdir()
    node = tmp_path / "npu" / "npu0"
    os.mknod(node, stat.S_IFCHR, os.makedev(1, 7))  # as /dev/full
    node.chmod(mode)
    os.chown(node, 0, group)

    def action() -> Any:
        permissions = Permissions(AllowedPaths(devices=(str(tmp_path / "np[u]"),)), 600.0)
        detail = confine(permissions).record.capabilities.detail
        errors = []
        for act in (
            lambda: os.write(os.open(node, os.O_RDWR), b"x"),
            lambda: fcntl.ioctl(os.open(node, os.O_RDWR), 0x5401, bytes(64)),
            lambda: os.open("/dev/tty", os.O_RDWR),
        ):
            try:
                act()
            except OSError as exc:
                errors.append(exc.errno)
        return [detail, *errors]

    detail, *errors = in_a_child(action)
    assert detail.startswith(kept)
    assert errors[:2] == [errno.ENOSPC, errno.ENOTTY]
    assert errors[2] in (errno.EACCES, errno.ENOENT)


@pytest.mark.usefixtures("python_for_all")
def test_agent_of_root_in_the_home_of_a_user_finds_its_files(tmp_path: Path) -> None:
    """Otherwise `sudo edgebench-agent` would have no right to reach its own model."""
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
        done = confine(Permissions(allowed, 600.0)).record
        return [Path(model).read_text(), done.capabilities.detail]

    content, detail = in_a_child(action)
    assert content == "content"
    assert detail == "none", "the view leads past the directories that are closed"


def test_system_that_kills_for_a_call_costs_that_mechanism_only(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Otherwise no run would begin on Android, which kills apps for calls unknown to its filter."""

    class Deadly(WithoutNamespaces):
        def landlock_abi(self) -> int:
            os.kill(os.getpid(), signal.SIGSYS)
            return 0

    monkeypatch.setattr(apply, "_is_filtered", lambda: True)
    permissions = Permissions(AllowedPaths(), 60.0)
    answer = in_a_child(lambda: to_plain(confine(permissions, Deadly()).record), user=65534)
    files = from_plain(answer, Confinement).files
    assert not files.is_applied
    assert files.detail.startswith("the system kills processes that restrict themselves: ")


def test_filter_of_somebody_else_is_seen() -> None:
    """Otherwise nothing would be rehearsed under a filter set by another program."""
    need_everything()

    def action() -> Any:
        before = apply._is_filtered()
        confine(Permissions(AllowedPaths(), 60.0))
        return [before, apply._is_filtered()]

    assert in_a_child(action) == [False, True]


def test_worker_that_uses_its_cpu_time_is_ended_by_the_kernel() -> None:
    """Otherwise a worker that spins while its daemon hangs would heat the device for ever."""

    def action() -> Any:
        confine(Permissions(AllowedPaths(), 0.0))
        import resource

        return resource.getrlimit(resource.RLIMIT_CPU)

    soft, hard = in_a_child(action)
    assert (soft, hard) == (1, 6)


@pytest.mark.parametrize("user", [0, 65534])
def test_worker_still_dies_with_its_daemon_and_can_be_watched(user: int) -> None:
    """Otherwise a worker would outlive its daemon.

    The kernel forgets the parent-death signal when a process changes its rights.
    """
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
    """A worker may signal itself, as abort() and the switch that stops a run do."""

    def action() -> Any:
        confine(Permissions(AllowedPaths(), 60.0))
        heard: list[int] = []
        signal.signal(signal.SIGUSR1, lambda number, _frame: heard.append(number))
        signal.raise_signal(signal.SIGUSR1)
        os.kill(os.getpid(), signal.SIGUSR1)
        return len(heard)

    assert in_a_child(action) == 2


def test_confinement_travels_as_it_is() -> None:
    """Otherwise a reason would be lost on its way into the record."""
    answer = in_a_child(
        lambda: to_plain(confine(Permissions(AllowedPaths(), 60.0), WithNothing()).record)
    )
    confinement = from_plain(answer, Confinement)
    assert replace(confinement) == confinement
    assert "including keys" in confinement.files.detail
