"""Find the libraries that a program and its modules need, in a root directory."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import PurePosixPath

from edgebench.host.kit.elf import ElfFile, read_elf
from edgebench.host.kit.root import Root
from edgebench.protocol.errors import KitNotBuilt

SUPPORT = ("libdl.so.2", "libpthread.so.0", "librt.so.1", "libstdc++.so.6", "libgcc_s.so.1")
"""Libraries that runtimes need, but Python itself does not need. Since glibc 2.34, the
first three are part of libc, and exist only as empty files."""
_REQUIRED = SUPPORT[3:]
_DIRECTORIES = ("lib", "usr/lib", "lib64", "usr/lib64", "usr/local/lib")


class Libraries:
    """The libraries of a root, and the subset that a kit needs."""

    def __init__(self, root: Root, program: ElfFile) -> None:
        """Find the libraries that runtimes need.

        Raises:
            KitNotBuilt: a library that every runtime needs is missing.
        """
        self._root, self._program = root, program
        directories = [
            f"{base}/{name}"
            for base in _DIRECTORIES
            for name in root.names(base)
            if "-linux-gnu" in name
        ]
        self._directories = (*directories, *_DIRECTORIES)
        self._wanted = set[str]()
        self._found = dict[str, tuple[PurePosixPath, ElfFile] | None]()
        self.support = tuple(name for name in SUPPORT if self._closure((name,)) is not None)
        for name in _REQUIRED:
            if name not in self.support:
                raise KitNotBuilt(f"{root.directory} lacks {name}, which every runtime needs")

    @property
    def loader(self) -> str:
        """File name of the dynamic loader that the program names."""
        return PurePosixPath(self._program.interpreter).name

    def is_served(self, data: bytes) -> bool:
        """Whether all libraries that a module needs are in the root; if so, add them to the kit."""
        elf = read_elf(data)
        closure = self._closure(elf.needed) if elf else set()
        self._wanted |= closure or set()
        return closure is not None

    def needed(self) -> dict[str, PurePosixPath]:
        """Paths of the libraries that the kit needs, including the loader, by name.

        Raises:
            KitNotBuilt: a library that the program needs is missing.
        """
        closure = self._closure((*self._program.needed, *self.support, self.loader))
        if closure is None:
            raise KitNotBuilt(f"libraries of Python are missing in {self._root.directory}")
        found = {name: self._find(name) for name in sorted(self._wanted | closure)}
        return {name: library[0] for name, library in found.items() if library is not None}

    def libc(self) -> str:
        """Name and version of the C library, such as `glibc 2.36`.

        Raises:
            KitNotBuilt: the root has no glibc.
        """
        found = self._find("libc.so.6")
        names = " ".join(found[1].symbol_versions if found else ())
        versions = re.findall(r"GLIBC_(\d+)\.(\d+)\b", names)
        if not versions:
            raise KitNotBuilt(f"no glibc in {self._root.directory}")
        return "glibc {}.{}".format(*max((int(major), int(minor)) for major, minor in versions))

    def _closure(self, names: Iterable[str]) -> set[str] | None:
        """The named libraries and their dependencies; None if any of them is missing."""
        found, waiting = set[str](), list(names)
        while waiting:
            name = waiting.pop()
            if name in found:
                continue
            library = self._find(name)
            if library is None:
                return None
            found.add(name)
            waiting += library[1].needed
        return found

    def _find(self, name: str) -> tuple[PurePosixPath, ElfFile] | None:
        if name not in self._found:
            directories = (str(PurePosixPath(self._program.interpreter).parent), *self._directories)
            paths = [self._root.find(f"{directory}/{name}") for directory in directories]
            read = ((path, read_elf(self._root.read(path))) for path in paths if path)
            fitting = (
                (path, elf) for path, elf in read if elf and elf.machine == self._program.machine
            )
            self._found[name] = next(fitting, None)
        return self._found[name]
