"""The view of a worker: what it contains, and what may be done there."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support.confined import in_a_child, need_everything

from edgebench.agent.confine import AllowedPaths, Kernel
from edgebench.agent.confine.apply import _enter_namespaces
from edgebench.agent.confine.view import _MAX_LINKS, enter_view

_BIND, _NOSUID, _NOEXEC, _NOATIME, _RDONLY, _REMOUNT = 4096, 2, 8, 1024, 1, 32
USERS = pytest.mark.parametrize("user", [None, 65534], ids=["root", "user"])


def error_of(act: Callable[[], Any]) -> str:
    """Return the name of an action's error; DONE where there is none."""
    try:
        act()
    except OSError as exc:
        return errno.errorcode[exc.errno or 0]
    return "DONE"


def in_view(allowed: AllowedPaths, action: Callable[[], Any], user: int | None = None) -> Any:
    """Return what this function returns in a child that sees these paths only."""
    need_everything()

    def enter() -> Any:
        kernel = Kernel()
        _enter_namespaces(kernel)
        enter_view(kernel, allowed)
        return action()

    return in_a_child(enter, user)


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A directory that every user may enter, with a work directory for all users."""
    for path in (tmp_path, *tmp_path.parents):
        if path.stat().st_uid == os.geteuid():
            path.chmod(path.stat().st_mode | 0o011)
    (tmp_path / "work").mkdir()
    (tmp_path / "work").chmod(0o777)
    return tmp_path


@USERS
def test_nothing_else_is_there(home: Path, user: int | None) -> None:
    """Otherwise a file that is not on the list would be open to its owner."""
    (home / "secret").write_text("x")
    (home / "with blanks \\ and ü").mkdir()
    given = home / "with blanks \\ and ü" / "model file"
    given.write_text("given")
    allowed = AllowedPaths(
        readable=(str(given), "/proc/self", "/no/such/file"),
        writable=(str(home / "work"),),
        devices=("/dev/null",),
    )

    def action() -> Any:
        (home / "work" / "made").write_text("x")
        Path("/dev/null").write_text("x")
        return [
            sorted(os.listdir(home)),
            os.listdir("/dev"),
            given.read_text(),
            Path("/proc/self/status").read_text() != "",
            os.path.exists(f"/proc/{os.getppid()}"),
            error_of(lambda: given.write_text("x")),
            error_of(lambda: (home / "made").write_text("x")),
            error_of(lambda: Path("/made").write_text("x")),
            error_of(lambda: Path("/proc/self/oom_score_adj").write_text("0")),
        ]

    names = sorted(["work", given.parent.name])
    closed = ["EROFS", "EROFS", "EROFS", "EROFS"]
    expected = [names, ["null"], "given", True, False, *closed]
    assert in_view(allowed, action, user) == expected
    assert (home / "work" / "made").exists()


@USERS
def test_links_lead_where_they_did(home: Path, user: int | None) -> None:
    """/lib is a link to usr/lib; a link in a listed directory leads over another link."""
    (home / "usr" / "lib").mkdir(parents=True)
    (home / "usr" / "lib" / "library").write_text("library")
    (home / "lib").symlink_to("usr/lib")
    (home / "absolute").symlink_to(home / "lib")
    (home / "round").symlink_to("round")
    chain = [home / f"link{number}" for number in range(_MAX_LINKS + 2)]
    for link, target in zip(chain, (*chain[1:], home / "usr"), strict=True):
        link.symlink_to(target.name)
    names = ("absolute", "lib", "usr", "round", "link0", "lib/../lib/library")
    allowed = AllowedPaths(
        readable=tuple(f"{home}/{name}" for name in names), writable=(str(home / "work"),)
    )

    def action() -> Any:
        return [
            (home / "absolute" / "library").read_text(),
            (home / "lib" / "library").read_text(),
            os.readlink(home / "lib"),
            error_of(lambda: (home / "absolute" / "library").write_text("x")),
        ]

    expected = ["library", "library", "usr/lib", "EROFS"]
    assert in_view(allowed, action, user) == expected


@USERS
def test_writable_directory_in_a_readable_one_stays_writable(home: Path, user: int | None) -> None:
    """An agent may keep its state beneath the directory of its Python."""
    (home / "python").write_text("x")
    (home / "work" / "line").write_text("1")
    allowed = AllowedPaths(readable=(str(home),), writable=(str(home / "work"),))

    def action() -> Any:
        (home / "work" / "made").write_text("x")
        return [
            error_of(lambda: (home / "python").write_text("x")),
            (home / "work" / "line").read_text(),
        ]

    assert in_view(allowed, action, user) == ["EROFS", "1"]


def test_mounts_keep_what_they_refuse_and_cover(home: Path) -> None:
    """A user cannot change flags of an inherited mount, or uncover what another mount covers."""
    need_everything()
    outer, inner = home / "outer", home / "outer" / "inner"
    inner.mkdir(parents=True)
    (inner / "covered").write_text("secret")

    def action() -> Any:
        kernel = Kernel()
        kernel.unshare(0x00020000)
        kernel.mount(None, "/", None, 16384 | 1 << 18)
        kernel.mount("tmpfs", str(inner), "tmpfs", _NOSUID | _NOEXEC | _NOATIME)
        (inner / "shown").write_text("x")
        inner.chmod(0o777)
        kernel.mount(str(outer), str(outer), None, _BIND | 16384)
        kernel.mount("tmpfs", str(home / "work"), "tmpfs", 0, "mode=777")

        def user_action() -> Any:
            allowed = AllowedPaths(readable=(str(outer),), writable=(str(home / "work"),))
            _enter_namespaces(kernel)
            enter_view(kernel, allowed)
            flags = os.statvfs(inner).f_flag
            return [os.listdir(inner), flags & os.ST_NOEXEC, flags & os.ST_RDONLY]

        return in_a_child(user_action, 65534)

    assert in_a_child(action) == [["shown"], os.ST_NOEXEC, os.ST_RDONLY]


def test_view_that_cannot_be_had_leaves_the_files_as_they_were(home: Path) -> None:
    """Otherwise a worker would find half of its files, and end."""
    need_everything()

    class WithoutPivot(Kernel):
        def pivot_root(self, new: str, old: str) -> None:
            raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))

    def action() -> Any:
        os.chdir(home / "work")
        _enter_namespaces(Kernel())
        failed = error_of(
            lambda: enter_view(WithoutPivot(), AllowedPaths(writable=(str(home / "work"),)))
        )
        Path("made").write_text("x")
        return [failed, os.listdir(home), os.getcwd(), os.path.exists("/usr")]

    assert in_a_child(action) == ["EINVAL", ["work"], str(home / "work"), True]
    assert (home / "work" / "made").exists()
