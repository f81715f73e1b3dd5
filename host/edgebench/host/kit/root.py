"""Files and packages below the root directory of a Linux system that is not running.

Source: path_resolution(7); dpkg-query(1), "FILES".
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import NamedTuple

MAX_LINKS = 40
"""Maximum number of symbolic links that are followed to reach a file. Source:
path_resolution(7)."""
DPKG = "var/lib/dpkg"
DOCUMENTS = "usr/share/doc"


class Package(NamedTuple):
    """A package of the distribution."""

    name: str
    version: str


class Root:
    """Files below a directory; links are resolved as if the directory were the root."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    def find(self, path: str) -> PurePosixPath | None:
        """The path with all links resolved, relative to the root; None if it does not exist."""
        parts, found, links = [*PurePosixPath(path).parts][::-1], PurePosixPath(), 0
        while parts:
            part = parts.pop()
            if part in ("/", ".."):
                found = PurePosixPath() if part == "/" else found.parent
                continue
            here = self.directory / found / part
            if here.is_symlink():
                links += 1
                if links > MAX_LINKS:
                    return None
                parts += PurePosixPath(os.readlink(here)).parts[::-1]
            elif here.exists():
                found /= part
            else:
                return None
        return found

    def read(self, path: PurePosixPath) -> bytes:
        """Content of a file that `find` or `files` returned."""
        return (self.directory / path).read_bytes()

    def names(self, path: str) -> list[str]:
        """Sorted names of the entries of a directory; empty if it does not exist."""
        found = self.find(path)
        if found is None or not (self.directory / found).is_dir():
            return []
        return sorted(os.listdir(self.directory / found))

    def files(self, path: str) -> Iterator[tuple[str, PurePosixPath]]:
        """Yield all files below a directory, each as two paths.

        The first path is relative to the directory; the second path is relative to the root, with
        all links resolved.
        """
        for name in self.names(path):
            found = self.find(f"{path}/{name}")
            if found is None:
                continue  # a link to a package that is not installed
            if not (self.directory / found).is_dir():
                yield name, found
            elif not (self.directory / path / name).is_symlink():
                for below, file in self.files(f"{path}/{name}"):
                    yield f"{name}/{below}", file

    def package_of(self, path: PurePosixPath) -> Package | None:
        """The package that contains a file; None if the root has no record of the package."""
        name = self._owners.get(_without_usr(str(path)))
        return Package(name, self._versions.get(name, "")) if name else None

    def licence_of(self, package: Package) -> bytes | None:
        """Copyright and licence of a package; None if they are not in the root."""
        found = self.find(f"{DOCUMENTS}/{package.name}/copyright")
        return self.read(found) if found is not None else None

    @cached_property
    def _owners(self) -> dict[str, str]:
        """Map the path of each file, without /usr, to its package; old file lists omit /usr."""
        owners = {}
        info = f"{DPKG}/info"
        for name in self.names(info):
            if name.endswith(".list"):
                package = name.removesuffix(".list").partition(":")[0]
                for line in (self.directory / info / name).read_text().splitlines():
                    owners[_without_usr(line.strip("/"))] = package
        return owners

    @cached_property
    def _versions(self) -> dict[str, str]:
        status = self.directory / DPKG / "status"
        text = status.read_text() if status.exists() else ""
        found = dict[str, str]()
        for block in text.split("\n\n"):
            fields = dict(re.findall(r"^(Package|Version): (.*)$", block, re.MULTILINE))
            if len(fields) == 2:
                found[fields["Package"]] = fields["Version"]
        return found


def _without_usr(path: str) -> str:
    return path.removeprefix("usr/")
