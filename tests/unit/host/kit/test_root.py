"""Files of a root directory whose links are resolved inside it."""

from __future__ import annotations

from pathlib import Path, PurePosixPath

import pytest

from edgebench.host.kit.root import Package, Root


@pytest.fixture
def root(tmp_path: Path) -> Root:
    """A root with merged /usr, as most are."""
    (tmp_path / "usr/lib/arm").mkdir(parents=True)
    (tmp_path / "lib").symlink_to("usr/lib")
    (tmp_path / "usr/lib/arm/libc.so.6").write_bytes(b"libc")
    return Root(tmp_path)


def test_absolute_link_leads_into_the_root(root: Root) -> None:
    """Otherwise the libraries of this machine would go into a kit for another machine."""
    (root.directory / "usr/lib/arm/link").symlink_to("/lib/arm/libc.so.6")
    found = root.find("lib/arm/link")
    assert found == PurePosixPath("usr/lib/arm/libc.so.6")
    assert root.read(found) == b"libc"


def test_link_upwards_ends_at_the_root(root: Root) -> None:
    """Otherwise a root given by the user could read any file of this machine."""
    (root.directory / "usr/lib/out").symlink_to("../../../../../../../../etc/hostname")
    assert root.find("usr/lib/out") is None


def test_circle_of_links_is_no_file(root: Root) -> None:
    """Otherwise the circle would be followed for ever."""
    (root.directory / "one").symlink_to("two")
    (root.directory / "two").symlink_to("one")
    assert root.find("one") is None


def test_directory_behind_a_link_is_not_listed_twice(root: Root) -> None:
    """Otherwise a kit would have all files of the directory twice, or endlessly."""
    (root.directory / "usr/lib/arm/again").symlink_to(".")
    assert [name for name, _ in root.files("lib")] == ["arm/libc.so.6"]


def test_package_is_known_by_either_path(root: Root) -> None:
    """Otherwise files that moved to /usr would have no licence."""
    info = root.directory / "var/lib/dpkg/info"
    info.mkdir(parents=True)
    (info / "libc6:arm64.list").write_text("/.\n/lib\n/lib/arm\n/lib/arm/libc.so.6\n")
    (info.parent / "status").write_text(
        "Package: libc6\nStatus: x\nVersion: 2.36-9\n\nPackage: a\n"
    )
    assert root.package_of(PurePosixPath("usr/lib/arm/libc.so.6")) == Package("libc6", "2.36-9")
    assert root.package_of(PurePosixPath("usr/lib/arm/other")) is None
